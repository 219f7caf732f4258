//! The grants of a row before certain commits, where these changed them.

use std::collections::{BTreeSet, HashSet};

use model::{Json, Mark, Permission};

use crate::Engine;
use crate::error::{EngineError, WriteError};
use crate::request::inputs::Caller;
use crate::write::temporal::{Pieces, PiecesRead};

/// The grants that were known of a row; `None` where it was not there at any instant.
pub(super) type Grants = Option<Vec<Permission>>;

/// What becomes of the grants of a row when commits are undone.
#[derive(Debug, Default)]
pub(super) struct GrantsUndone {
    /// What it gets again; `None` leaves it those it has.
    pub(super) restored: Grants,
    /// Whether others changed what the commits had changed, too.
    pub(super) is_moved: bool,
    /// How often the row was looked at.
    pub(super) looked_at: usize,
}

/// The grants of the row that was read, which are the same in all of its pieces.
pub(super) fn grants(read: &PiecesRead) -> Result<Grants, EngineError> {
    let Some(row) = read.rows.first() else {
        return Ok(None);
    };
    let texts = query::json::read(row.permissions.as_bytes());
    let Ok(Json::List(texts)) = texts else {
        return Ok(Some(Vec::new()));
    };
    let texts = texts.iter().filter_map(Json::as_str);
    let read = model::Grantee::Row.parse(texts);
    Ok(Some(read.map_err(WriteError::Structure)?))
}

fn is_same(one: &Grants, other: &Grants) -> bool {
    let set = |grants: &Grants| {
        let grants = grants.as_ref();
        grants.map(|grants| grants.iter().cloned().collect::<HashSet<Permission>>())
    };
    set(one) == set(other)
}

impl Engine {
    /// What becomes of the grants of a row that had `was` before the first of the marks, and has
    /// `is` now. `pieces` reads the row at a mark. Where both are the same nothing is to be
    /// undone, whatever they were between.
    ///
    /// # Errors
    /// What keeps the caller from reading.
    pub(super) async fn grants_undone<'p>(
        &self,
        caller: &Caller,
        pieces: impl Fn(Mark) -> Pieces<'p>,
        marks: &BTreeSet<Mark>,
        (was, is): (Grants, Grants),
    ) -> Result<GrantsUndone, EngineError> {
        if is_same(&was, &is) {
            return Ok(GrantsUndone::default());
        }
        let at = async |mark| {
            let read = self.pieces(caller, &pieces(mark)).await?;
            grants(&read)
        };
        let (mut by_these, mut by_others, mut looked_at) = (false, false, 0);
        let mut last: Option<(Mark, Grants)> = None;
        for mark in marks {
            let before = Mark(mark.0 - 1);
            let left = match last {
                None => was.clone(),
                Some((left_at, left)) if left_at == before => left,
                Some((_, left)) => {
                    looked_at += 1;
                    let found = at(before).await?;
                    by_others |= !is_same(&left, &found);
                    found
                }
            };
            looked_at += 1;
            let made = at(*mark).await?;
            by_these |= !is_same(&left, &made);
            last = Some((*mark, made));
        }
        by_others |= last.is_some_and(|(_, made)| !is_same(&made, &is));
        Ok(GrantsUndone {
            restored: was.filter(|_| by_these),
            is_moved: by_these && by_others,
            looked_at,
        })
    }
}
