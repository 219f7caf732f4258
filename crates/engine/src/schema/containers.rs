//! What databases, tables and projects have in common: names, and their way into a commit.

use store::{Applied, CatalogueOp, Op, WriteBatch};

use crate::Engine;
use crate::commit::batch::author;
use crate::error::EngineError;
use crate::error::refused::answer;
use crate::request::inputs::Caller;

/// Longest name, in characters (wire protocol, 2.8).
pub const NAME_CHARS_MAX: usize = 128;

impl Engine {
    /// Commits one change of the catalogue. When it returns, every reader sees it.
    pub(crate) async fn change_catalogue(
        &self,
        caller: Option<&Caller>,
        op: CatalogueOp,
    ) -> Result<Applied, EngineError> {
        let batch = WriteBatch {
            catalogue_epoch: self.catalogue().epoch,
            ops: vec![Op::Catalogue(op)],
            author: caller.and_then(author),
            unchanged_since: None,
            meta: caller.and_then(|caller| caller.meta.clone()),
            noted_in: None,
            space: store::SpaceLimit::Any,
        };
        answer(self.writer.commit(batch).await?)
    }
}

/// # Errors
/// [`EngineError::Argument`] for an empty or overlong name, or one with U+0000.
pub(crate) fn check_name(name: &str) -> Result<(), EngineError> {
    let length = name.chars().count();
    let why = if length == 0 || length > NAME_CHARS_MAX {
        format!("expected 1 to {NAME_CHARS_MAX} characters, got {length}.")
    } else if name.contains('\0') {
        "it may not hold the character U+0000.".to_owned()
    } else {
        return Ok(());
    };
    Err(EngineError::Argument { name: "name", why })
}
