//! Why a use case failed, by the stage that refused it. Each text stands beside its variant and is
//! written for the caller. Names no wire word: the server shapes these for clients.

mod access;
mod function;
mod read;
pub(crate) mod refused;
mod schema;
mod transaction;
mod unavailable;
mod write;

use query::QueryError;
use store::StoreError;
use thiserror::Error;

pub use access::AccessError;
pub use function::FunctionError;
pub use read::{PIECES_MAX, ReadError};
pub use schema::{ColumnFault, IndexFault, SchemaError};
pub use transaction::TransactionError;
pub use unavailable::Unavailable;
pub use write::WriteError;

/// Why a use case failed. The text is written for the caller, except for
/// [`EngineError::Store`], whose detail belongs into the log.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum EngineError {
    /// The caller may not do this.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// What the request names is not there, or a definition breaks a rule.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// Rows cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Rows cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A transaction cannot be used or committed.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// A function, or what belongs to it, is not there, or cannot be made so.
    #[error(transparent)]
    Function(#[from] FunctionError),
    /// Try again later.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A parameter breaks its rule.
    #[error("Invalid `{name}` param: {why}")]
    Argument {
        /// The parameter's name.
        name: &'static str,
        /// What is wrong, as a sentence.
        why: String,
    },
    /// The request is part of the protocol, but not of this server.
    #[error("{0} is not supported by this server.")]
    Unsupported(String),
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> EngineError {
        let error = match error {
            StoreError::CursorNotFound { id } => ReadError::CursorNotFound(id),
            StoreError::CursorNull { id } => ReadError::CursorNull(id),
            StoreError::HistoryGone(gone) => gone.into(),
            StoreError::Timeout { limit_ms } => ReadError::Timeout { limit_ms },
            StoreError::AnswerTooLarge { bytes_max } => ReadError::AnswerTooLarge { bytes_max },
            StoreError::SortTooLarge(room) => ReadError::SortTooLarge(room),
            StoreError::ReadersBusy { waiting_max } => ReadError::ReadersBusy { waiting_max },
            StoreError::PatternTooHard
            | StoreError::QueryTooLong { .. }
            | StoreError::QueryTooComplex => QueryError::Invalid(error.to_string()).into(),
            StoreError::RowTooLarge { .. } => {
                return WriteError::RowTooLarge(error.to_string()).into();
            }
            StoreError::NotUnique { index } => {
                let (index, clash) = (Some(index), None);
                return WriteError::UniqueViolation { index, clash }.into();
            }
            other => return EngineError::Store(other),
        };
        error.into()
    }
}

impl From<QueryError> for EngineError {
    fn from(error: QueryError) -> EngineError {
        ReadError::Query(error).into()
    }
}

impl From<ColumnFault> for EngineError {
    fn from(fault: ColumnFault) -> EngineError {
        SchemaError::Column(fault).into()
    }
}

impl From<IndexFault> for EngineError {
    fn from(fault: IndexFault) -> EngineError {
        SchemaError::Index(fault).into()
    }
}
