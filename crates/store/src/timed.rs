//! Operations on one row over any valid period, as they go into a batch.

use std::sync::Arc;

use model::history::{Range, WriteRefusal};
use model::{Mark, Patch, Permission, RowId, Table, Timestamp, Value};

use crate::refusal::Refusal;
use crate::row_op::{Guard, Stamps};

/// An operation on one row over a valid period. Where it reaches into what the row is now, the
/// row of now follows.
#[derive(Clone, Debug)]
pub struct TimedOp {
    /// The table, as of the batch's catalogue.
    pub table: Arc<Table>,
    /// The row.
    pub id: RowId,
    /// Over which valid period. An erasure and a claim do not look at it.
    pub range: Range,
    /// What happens to it.
    pub act: TimedAct,
    /// Whether operations go by the letter of the case language: a merge writes a piece also where
    /// it changes nothing, and what meets no piece is no error. Otherwise a merge that finds
    /// equal values leaves them, and an update or a deletion that meets no piece is
    /// [`Refusal::RowNotFound`].
    pub is_literal: bool,
}

/// What happens to a row over a period.
#[derive(Clone, Debug)]
pub enum TimedAct {
    /// Fails with [`Refusal::RowExists`] when the row is there at any instant of the period, and
    /// when it is there, or will be, at any other that is not past, unless the guard lets it be
    /// updated: the row would get these grants as a whole.
    Insert {
        /// One value for each column.
        values: Vec<Value>,
        /// The row's grants, from now on.
        permissions: Vec<Permission>,
        /// Times a key set by hand.
        stamps: Stamps,
        /// Who may write beside what is there.
        guard: Guard,
    },
    /// The row has exactly this value.
    Put {
        /// One value for each column.
        values: Vec<Value>,
        /// New grants; `None` keeps those it has.
        permissions: Option<Vec<Permission>>,
        /// Who may write over what is there.
        guard: Guard,
    },
    /// Merges into every piece, and makes the row in the gaps.
    Patch {
        /// The columns to set where the row is. Its operators run in gaps, too.
        patch: Patch,
        /// The content in gaps, before operators have run, or why there can be none.
        gap: Result<Vec<Value>, Box<Refusal>>,
        /// New grants; `None` keeps those it has.
        permissions: Option<Vec<Permission>>,
        /// The grants of a row that was never known.
        insert_permissions: Vec<Permission>,
        /// Times a key set by hand.
        stamps: Stamps,
        /// Who may merge into what is there.
        guard: Guard,
    },
    /// Merges into every piece.
    Update {
        /// The columns to set.
        patch: Patch,
        /// New grants; `None` keeps those it has.
        permissions: Option<Vec<Permission>>,
        /// Times a key set by hand.
        stamps: Stamps,
        /// Who may.
        guard: Guard,
    },
    /// The row is absent.
    Delete {
        /// Who may.
        guard: Guard,
    },
    /// Every version at every mark disappears, and the row's place in the records of commits.
    Erase,
    /// Nothing; but the batch is refused with [`Refusal::AssertFailed`] unless it holds.
    Assert(TimedClaim),
}

/// What a batch may claim of a row before it goes on.
#[derive(Clone, Debug)]
pub enum TimedClaim {
    /// The row is there, or is not, at an instant; `None` is the batch's mark.
    Exists(bool, Option<Timestamp>),
    /// The row is there at an instant, with these values in these columns.
    Equals(Vec<(usize, Value)>, Option<Timestamp>),
    /// No commit after this one changed anything of the row.
    UnchangedSince(Mark),
}

/// The refusal of an operation on the row `id`.
pub(crate) fn refused(refusal: WriteRefusal, id: &RowId) -> Refusal {
    match refusal {
        WriteRefusal::EmptyRange { from, to } => {
            Refusal::Invalid(model::ModelError::EmptyPeriod { from, to })
        }
        WriteRefusal::Exists { .. } => Refusal::RowExists(id.clone()),
        WriteRefusal::AssertFailed => Refusal::AssertFailed(id.clone()),
        WriteRefusal::Invalid(error) => Refusal::Invalid(error),
    }
}
