//! A batch as the writer takes it: operations of a caller under a catalogue.

use model::{Actor, Catalogue};
use store::{Op, SpaceLimit, WriteBatch};

use crate::request::inputs::Caller;

/// Operations that are done together, or not at all.
pub(crate) fn batch(catalogue: &Catalogue, caller: &Caller, ops: Vec<Op>) -> WriteBatch {
    WriteBatch {
        catalogue_epoch: catalogue.epoch,
        ops,
        author: author(&caller.actor),
        unchanged_since: None,
        meta: caller.meta.clone(),
        noted_in: None,
        space: SpaceLimit::Any,
    }
}

/// Who a commit's record names as its author.
pub(crate) fn author(actor: &Actor) -> Option<String> {
    match actor {
        Actor::Key { id, .. } => Some(format!("key:{id}")),
        Actor::Guest | Actor::User { .. } => None,
    }
}
