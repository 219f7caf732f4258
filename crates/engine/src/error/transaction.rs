//! Failures of staged and temporal transactions.

use model::RowId;
use thiserror::Error;

use super::EngineError;

/// Why a transaction cannot be used or committed.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum TransactionError {
    /// There is no such transaction, or the caller may not know of it.
    #[error("No transaction `{0}`.")]
    NotFound(String),
    /// A transaction of this id is there already.
    #[error("A transaction `{0}` already exists.")]
    Exists(String),
    /// The transaction has ended.
    #[error("Transaction `{0}` has been committed or has failed.")]
    Ended(String),
    /// The transaction was not ended in time.
    #[error("Transaction `{0}` has expired.")]
    Expired(String),
    /// A row was changed since an operation of the transaction was staged, or is there already.
    #[error(
        "Row `{0}` was created or changed by another writer since the transaction's operation on \
         it was staged."
    )]
    Conflict(RowId),
    /// The transaction would be larger than one can be; a sentence.
    #[error("{0}")]
    TooLarge(String),
    /// Open transactions of the caller, or of others, leave no room; a sentence.
    #[error("{0}")]
    LimitReached(String),
    /// One operation of a transaction over valid periods cannot be done, or leaves its row so that
    /// it breaks a key or a reference.
    #[error("Operation {nth}: {error}")]
    OfOperation {
        /// Its place among them.
        nth: usize,
        /// Why.
        error: Box<EngineError>,
    },
}
