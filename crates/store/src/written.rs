//! What operations on rows came to.

use model::{Mark, Row};

/// A row as a write left it, with all its columns; `None` after a delete.
pub type WrittenRow = Option<Row>;

/// What a [`crate::MatchingOp`] found.
#[derive(Clone, Debug, Default)]
pub struct Matched {
    /// How many rows matched, those included that had the values already.
    pub count: usize,
    /// Whether there were more of them behind the one with which it stopped.
    pub is_cut: bool,
    /// The greatest `$sequence` of the table then, 0 of an empty one: whatever is not beyond it was
    /// committed before this batch, and whatever is will be after it.
    pub end: Option<i64>,
    /// The greatest `$sequence` among them.
    pub last_seq: Option<i64>,
    /// The mark of the last commit before this batch: what the search has seen.
    pub seen: Option<Mark>,
    /// The first of them as they became; deleted ones as they were.
    pub rows: Vec<Row>,
}

/// What became of a [`crate::RowOp`].
#[derive(Clone, Debug)]
pub struct TimedDone {
    /// Whether anything changed.
    pub is_affected: bool,
    /// The first piece that was written, with the period it is valid over; `None` when none was.
    pub row: Option<Row>,
}
