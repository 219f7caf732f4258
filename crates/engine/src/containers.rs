//! What databases, tables and projects have in common: names, listing, and their way into a
//! commit.

use model::Json;
use query::QueryError;
use query::ast::Method;
use store::{CatalogueOp, Op, WriteBatch};

use crate::Engine;
use crate::asked::{Caller, ListContainers, Listed};
use crate::commit::answer;
use crate::error::EngineError;
use crate::rows_write::author;

/// Longest name, in characters (wire protocol, 2.8).
const NAME_CHARS_MAX: usize = 128;

impl Engine {
    /// Commits one change of the catalogue. When it returns, every reader sees it.
    pub(crate) async fn change_catalogue(
        &self,
        caller: Option<&Caller>,
        op: CatalogueOp,
    ) -> Result<(), EngineError> {
        let batch = WriteBatch {
            catalogue_epoch: self.catalogue().epoch,
            ops: vec![Op::Catalogue(op)],
            author: caller.and_then(|caller| author(&caller.actor)),
            unchanged_since: None,
        };
        answer(self.writer.commit(batch).await?).map(drop)
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

/// One page of `all`, which comes in order. `names` gives id and name, which `search` and
/// `equal` look at.
pub(crate) fn page<T>(
    mut all: Vec<T>,
    asked: ListContainers<'_>,
    limits: query::Limits,
    names: impl Fn(&T) -> (&str, &str),
) -> Result<Listed<T>, EngineError> {
    let wish = Wish::read(asked.texts, limits)?;
    let part = asked.search.to_lowercase();
    all.retain(|container| {
        let (id, name) = names(container);
        let found = part.is_empty()
            || id.to_lowercase().contains(&part)
            || name.to_lowercase().contains(&part);
        found && wish.equals.iter().all(|equal| equal.holds(id, name))
    });
    let total = if asked.total { all.len() as u64 } else { 0 };
    let items = all.into_iter().skip(wish.offset).take(wish.limit).collect();
    Ok(Listed { total, items })
}

/// What the queries of a listing ask for.
struct Wish {
    limit: usize,
    offset: usize,
    equals: Vec<Equal>,
}

/// An `equal` on `$id` or `name`.
struct Equal {
    of_id: bool,
    values: Vec<String>,
}

impl Equal {
    fn holds(&self, id: &str, name: &str) -> bool {
        let actual = if self.of_id { id } else { name };
        self.values.iter().any(|value| value == actual)
    }
}

impl Wish {
    fn read(texts: &[String], limits: query::Limits) -> Result<Wish, EngineError> {
        let mut wish = Wish {
            limit: limits.page_rows_default as usize,
            offset: 0,
            equals: Vec::new(),
        };
        for call in query::parse(texts)?.calls {
            let attribute = call.attribute.as_deref();
            match (call.method, attribute, call.values.as_slice()) {
                (Method::Limit, _, [Json::Int(limit)])
                    if (1..=i64::from(limits.page_rows_max)).contains(limit) =>
                {
                    wish.limit = *limit as usize;
                }
                (Method::Offset, _, [Json::Int(offset)]) if *offset >= 0 => {
                    wish.offset = *offset as usize;
                }
                (Method::Equal, Some(of @ ("$id" | "name")), values) if !values.is_empty() => {
                    let texts: Option<Vec<String>> = values
                        .iter()
                        .map(|value| value.as_str().map(str::to_owned))
                        .collect();
                    let values = texts.ok_or_else(|| not_understood(Method::Equal))?;
                    wish.equals.push(Equal {
                        of_id: of == "$id",
                        values,
                    });
                }
                (method, ..) => return Err(not_understood(method)),
            }
        }
        Ok(wish)
    }
}

fn not_understood(method: Method) -> EngineError {
    let why = format!(
        "`{}` as given is not understood in this list; use limit, offset, or equal on $id \
         or name with strings",
        method.as_str()
    );
    QueryError::Invalid(why).into()
}
