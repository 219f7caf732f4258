//! Failures of reads.

use model::{HistoryGone, Mark, RowId};
use query::QueryError;
use store::{SortRoom, StoreError};
use thiserror::Error;

/// Most pieces or versions that one read of this kind looks at: they are held in memory.
pub const PIECES_MAX: u32 = 100_000;

/// Why rows cannot be read.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ReadError {
    /// There is no such row, or the actor may not know of it.
    #[error("No row `{0}`.")]
    RowNotFound(RowId),
    /// There was no such row at the times that are looked at, or rows of its table that were
    /// there are erased since.
    #[error("{}", ReadError::RowNotFound(.0.clone()))]
    RowNotFoundSinceErasure(RowId),
    /// The query cannot be answered.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The cursor's row does not exist, or the caller may not know of it.
    #[error("The cursor's row `{0}` does not exist.")]
    CursorNotFound(RowId),
    /// The cursor's row has no value in a column that the order uses.
    #[error("The cursor's row `{0}` has no value in a column that the order uses.")]
    CursorNull(RowId),
    /// A read ran longer than allowed.
    #[error("The query was stopped after {limit_ms} ms.")]
    Timeout {
        /// The limit.
        limit_ms: u64,
    },
    /// The rows of the answer would take more bytes than one answer may.
    #[error("{}", StoreError::AnswerTooLarge { bytes_max: *bytes_max })]
    AnswerTooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// What must be sorted for the order takes more room than one read may have.
    #[error("{}", StoreError::SortTooLarge(*.0))]
    SortTooLarge(SortRoom),
    /// Too many long reads wait for their turn; try again later.
    #[error("{}", StoreError::ReadersBusy { waiting_max: *waiting_max })]
    ReadersBusy {
        /// How many may wait.
        waiting_max: usize,
    },
    /// More pieces than one read may look at.
    #[error(
        "At most {PIECES_MAX} pieces are looked at. Ask of one row, or of rows with certain values."
    )]
    TooManyPieces,
    /// A mark that cannot be read yet.
    #[error(
        "What will be known at {} is not known yet; the horizon is {}.",
        .mark.timestamp(), .horizon.timestamp()
    )]
    FutureMark {
        /// The mark.
        mark: Mark,
        /// The highest one that can be read.
        horizon: Mark,
    },
    /// See [`HistoryGone`].
    #[error(transparent)]
    HistoryGone(#[from] HistoryGone),
}
