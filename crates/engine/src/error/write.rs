//! Failures of writes.

use model::{Mark, ModelError, Period, RowId, counted};
use store::Counted;
use thiserror::Error;

use super::EngineError;

/// Why rows cannot be written.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum WriteError {
    /// A row of this id is there already.
    #[error("A row with the id `{0}` already exists.")]
    RowExists(RowId),
    /// The row was changed after the instant that the caller named.
    #[error("Row `{0}` was changed after the time that the request names.")]
    RowMoved(RowId),
    /// There is no such column.
    #[error("No column `{0}`.")]
    ColumnNotFound(String),
    /// The column holds no number.
    #[error("Column `{0}` does not hold one number.")]
    NotNumeric(String),
    /// Another row has the same values in a unique index.
    #[error("Another row has the same values in {}.", unique(.index.as_deref()))]
    UniqueViolation {
        /// The index's key, where it is known.
        index: Option<String>,
        /// The other row, and what both are valid over. A caller that writes need not be permitted
        /// to read it, so the message does not name it.
        clash: Option<(RowId, Period)>,
    },
    /// The database has not said within the time that callers wait whether the write is stored.
    #[error(
        "The database has not said whether this write is stored. It is stored whole or not at all."
    )]
    CommitUnknown {
        /// The mark that it has if it is stored, and that no other commit gets; what is staged, or
        /// kept for requests that may be sent again, has none.
        mark: Option<Mark>,
    },
    /// Row content breaks the schema.
    #[error("Invalid document structure: {0}")]
    Structure(ModelError),
    /// A value of a relationship is no link, or leads to no row; a sentence.
    #[error("{0}")]
    Relationship(String),
    /// A row has related ones that its relationship protects.
    #[error("Row `{id}` cannot be deleted while rows of table `{related}` are related to it.")]
    DeleteRestricted {
        /// The row.
        id: RowId,
        /// The table of the related rows.
        related: String,
    },
    /// What a transaction asserts of a row does not hold.
    #[error("What the transaction asserts of row `{0}` does not hold.")]
    AssertFailed(RowId),
    /// Another row has the same values at an instant at which both are valid.
    #[error("Row `{other}` has the same values in `{}` {shared}.", .columns.join("`, `"))]
    UniqueOverTime {
        /// The keys of the columns.
        columns: Vec<String>,
        /// The other row.
        other: RowId,
        /// What both are valid over.
        shared: Period,
    },
    /// A row would refer to one that is not there at every instant at which the former is.
    #[error("Column `{column}`: row `{target}` of table `{related}` is not there {missing}.")]
    ReferenceOverTime {
        /// The key of the column that refers.
        column: String,
        /// The table it refers to.
        related: String,
        /// The row it refers to.
        target: RowId,
        /// Where that one is missing.
        missing: Period,
    },
    /// Many rows at once, of a table with relationships.
    #[error("Table `{0}` has relationships: its rows are written one by one.")]
    BulkOfRelationships(String),
    /// More was done than can be undone at once.
    #[error("More than {max} {what} are to be undone. Name a shorter period.")]
    TooMuchToUndo {
        /// Of what.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// What keeps one row from being undone.
    #[error("Row `{row}`: {error}")]
    UndoRefused {
        /// The row, as `table/id`.
        row: String,
        /// What it is.
        error: Box<EngineError>,
    },
    /// Rows to undo that other commits changed since, as `table/id`.
    #[error("Others have changed {} since: nothing is undone.", listed(.0))]
    RowsMoved(Vec<String>),
    /// A new row without content.
    #[error("A new row needs an id and at least one column.")]
    RowDataMissing,
    /// A change of a row that sets nothing.
    #[error("Nothing to change: neither data nor permissions.")]
    PayloadMissing,
    /// More rows than one commit may change.
    #[error("One commit may change at most {rows_max} rows. Set a limit, or leave the order out.")]
    TooManyRows {
        /// The limit.
        rows_max: usize,
    },
    /// More pieces of a row in the period than one operation may meet.
    #[error(
        "The row has more than {pieces_max} pieces in the period, the most that one operation may \
         meet. Take shorter periods."
    )]
    TooManyPieces {
        /// The limit.
        pieces_max: usize,
    },
    /// More pieces than one commit may end and write.
    #[error(
        "One commit may end and write at most {pieces_max} pieces of rows. Take shorter periods, \
         or fewer rows."
    )]
    TooManySteps {
        /// The limit.
        pieces_max: usize,
    },
    /// More bytes than one commit may write.
    #[error(
        "One commit may write rows of at most {bytes_max} bytes, before and after it taken \
         together. Write fewer rows at once."
    )]
    TooManyBytes {
        /// The limit.
        bytes_max: usize,
    },
    /// A row has more in its columns than the database has room for in one.
    #[error("{0}")]
    RowTooLarge(String),
    /// A project has as many rows or bytes as it may have, or the store as many bytes.
    #[error("{}", over_quota(.what, *.held, *.max))]
    QuotaExceeded {
        /// What is counted.
        what: Counted,
        /// How many there are.
        held: u64,
        /// How many there may be.
        max: u64,
    },
    /// The key of the request was used for another one.
    #[error("The key of this request was used for another one.")]
    RequestKeyReused,
    /// The request has had its effect, and its answer is not there any more.
    #[error(
        "This request has had its effect, and its answer is no longer kept: it gave way to newer \
         ones of its API key, was erased, or was for a caller without an API key, for whom answers \
         are not kept."
    )]
    RequestRepeated,
    /// The answer to a request with a key is too large to be stored.
    #[error("The answer to keep would have more than {bytes_max} bytes.")]
    StoredAnswerTooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// A bulk write that runs in slices stopped between two of them.
    #[error("{error} Before that, {} {} changed.", counted(*.rows, "row"), were(*.rows))]
    Partly {
        /// Rows of the slices before, which are changed.
        rows: u64,
        /// Why it stopped.
        error: Box<EngineError>,
    },
}

fn unique(index: Option<&str>) -> String {
    match index {
        Some(index) => format!("the unique index `{index}`"),
        None => "a unique index".to_owned(),
    }
}

/// Rows by their names, as many as a sentence bears.
fn listed(rows: &[String]) -> String {
    const NAMED_MAX: usize = 20;
    let named = rows.get(..NAMED_MAX).unwrap_or(rows).join("`, `");
    match rows.len().saturating_sub(NAMED_MAX) {
        0 => format!("`{named}`"),
        more => format!("`{named}` and {more} more rows"),
    }
}

fn were(rows: u64) -> &'static str {
    if rows == 1 { "was" } else { "were" }
}

fn over_quota(what: &Counted, held: u64, max: u64) -> String {
    match what {
        Counted::Rows(project) => {
            let those = "with those just being added";
            format!("Project `{project}` can have {max} rows; it has {held}, {those}.")
        }
        Counted::ProjectBytes(project) => {
            let less = "and this adds more than is left";
            format!("Project `{project}` can store {max} bytes; it stores {held}, {less}.")
        }
        Counted::Bytes => format!("This server can store {max} bytes; it stores {held}."),
    }
}
