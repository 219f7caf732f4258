//! What the store refuses, as the error that its caller sees.

use model::counted;
use store::{Applied, Container, Full, Outcome, Refusal, StoreError, TransactionRefusal};

use crate::error::{ColumnFault, EngineError};

/// The refusal of a batch as the error its caller sees.
pub(crate) fn refused(refusal: Refusal) -> EngineError {
    match refusal {
        Refusal::RowExists(id) => EngineError::RowExists(id),
        Refusal::RowNotFound(id) => EngineError::RowNotFound(id),
        Refusal::RowForbidden(_) => EngineError::Unauthorized,
        Refusal::RowMoved(id) => EngineError::RowMoved(id),
        Refusal::Unique { index } => EngineError::UniqueViolation { index },
        Refusal::Invalid(error) => EngineError::Structure(error),
        Refusal::AssertFailed(id) => EngineError::AssertFailed(id),
        Refusal::UniqueOverTime {
            columns,
            other,
            shared,
        } => EngineError::UniqueOverTime {
            columns,
            other,
            shared,
        },
        Refusal::ReferenceOverTime {
            column,
            related,
            target,
            missing,
        } => EngineError::ReferenceOverTime {
            column,
            related: related.to_string(),
            target,
            missing,
        },
        Refusal::TooManyRows { rows_max } => EngineError::TooManyRows { rows_max },
        Refusal::TooManyBytes { bytes_max } => EngineError::TooManyBytes { bytes_max },
        Refusal::PiecesTooLarge { bytes_max } => too_large(bytes_max),
        Refusal::HistoryGone(kept_from) => EngineError::HistoryGone(kept_from),
        Refusal::CursorNotFound(id) => EngineError::CursorNotFound(id),
        Refusal::CursorNull(id) => EngineError::CursorNull(id),
        Refusal::ValuesTooLong { column, chars_max } => {
            EngineError::Column(ColumnFault::InvalidResize(format!(
                "Column `{column}`: a row holds more than {}.",
                counted(u64::from(chars_max), "character")
            )))
        }
        Refusal::ColumnsUsedUp { columns_max } => {
            EngineError::Column(ColumnFault::LimitExceeded(format!(
                "A table can have {columns_max} columns, deleted ones included, and this one has \
                 had them."
            )))
        }
        Refusal::LinkMissing { column, id } => EngineError::Relationship(format!(
            "Column `{column}`: there is no row `{id}` to link to."
        )),
        Refusal::DeleteRestricted { id, related } => EngineError::DeleteRestricted {
            id,
            related: related.to_string(),
        },
        Refusal::Of { nth, refusal } => EngineError::OfOperation {
            nth,
            error: Box::new(refused(*refusal)),
        },
        Refusal::CatalogueMoved => EngineError::Store(StoreError::CatalogueMoved),
        // The writer has it wait, and nobody sees it.
        Refusal::Behind(_) | Refusal::Deferred => EngineError::Overloaded,
        Refusal::Transaction(refusal) => refused_transaction(refusal),
        Refusal::Repeated(repeated) => has_run(repeated.is_same),
        Refusal::Full(Full { what, held, max }) => EngineError::QuotaExceeded { what, held, max },
        Refusal::AnswerTooLarge { bytes_max } => answer_too_large(bytes_max),
        Refusal::Exists(container) => exists(container),
        Refusal::NotFound(container, id) => not_found(container, id),
        Refusal::Failed(error) => error.into(),
    }
}

/// The refusal of a request under a key that is known, by whether it is the same one.
fn has_run(is_same: bool) -> EngineError {
    if is_same {
        EngineError::RequestRepeated
    } else {
        EngineError::RequestKeyReused
    }
}

fn answer_too_large(bytes_max: usize) -> EngineError {
    EngineError::Argument {
        name: "Idempotency-Key",
        why: format!("The answer to keep would have more than {bytes_max} bytes."),
    }
}

fn too_large(bytes_max: usize) -> EngineError {
    let bytes_max = bytes_max >> 20;
    EngineError::Argument {
        name: "$validFrom",
        why: format!(
            "what the row was in the period holds more than {bytes_max} MiB. Take a shorter one."
        ),
    }
}

fn exists(container: Container) -> EngineError {
    match container {
        Container::Project => EngineError::ProjectExists,
        Container::Key => EngineError::KeyExists,
        Container::Database => EngineError::DatabaseExists,
        Container::Table => EngineError::TableExists,
    }
}

fn not_found(container: Container, id: String) -> EngineError {
    match container {
        Container::Project => EngineError::ProjectNotFound(id),
        Container::Key => EngineError::KeyNotFound(id),
        Container::Database => EngineError::DatabaseNotFound(id),
        Container::Table => EngineError::TableNotFound(id),
    }
}

/// An id as a message shows it: what a client sent may be long.
pub(crate) fn shown(id: &str) -> String {
    id.chars().take(100).collect()
}

/// A refusal that concerns a transaction as the error its caller sees.
pub(crate) fn refused_transaction(refusal: TransactionRefusal) -> EngineError {
    use TransactionRefusal as R;
    match refusal {
        R::NotFound(id) => EngineError::TransactionNotFound(shown(&id)),
        R::Exists(id) => EngineError::TransactionExists(shown(&id)),
        R::Ended(id) => EngineError::TransactionEnded(shown(&id)),
        R::Expired(id) => EngineError::TransactionExpired(shown(&id)),
        R::LimitExceeded(why) => EngineError::TransactionTooLarge(why),
        R::NoRoom(why) => EngineError::TransactionsFull(why),
        // The commit tries again before anybody sees this.
        R::Moved => EngineError::Overloaded,
        R::Conflict(id) => EngineError::TransactionConflict(id),
    }
}

/// What a committed batch answers its caller.
pub(crate) fn answer(outcome: Outcome) -> Result<Applied, EngineError> {
    outcome.map_err(refused)
}
