//! Why a read from a database ended early.

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::StoreError;
use crate::postgres::fault::is_outage;

/// Why.
pub(super) enum ReadHalt {
    Database(Error),
    Store(StoreError),
    /// It is too long for a connection for short reads.
    Long,
}

pub(super) type Step<T> = Result<T, ReadHalt>;

impl From<Error> for ReadHalt {
    fn from(error: Error) -> ReadHalt {
        ReadHalt::Database(error)
    }
}

impl From<StoreError> for ReadHalt {
    fn from(error: StoreError) -> ReadHalt {
        ReadHalt::Store(error)
    }
}

impl ReadHalt {
    /// Whether a statement was stopped, by its limit or because its caller went.
    pub(super) fn is_interruption(&self) -> bool {
        matches!(self, ReadHalt::Database(error) if error.code() == Some(&SqlState::QUERY_CANCELED))
    }

    /// Whether an earlier statement of the transaction has failed, by an error that was not read:
    /// of statements that are sent at once the answer to the later one may be read first, and the
    /// driver drops what comes behind the description of a prepared one.
    pub(super) fn is_of_aborted(&self) -> bool {
        let aborted = Some(&SqlState::IN_FAILED_SQL_TRANSACTION);
        matches!(self, ReadHalt::Database(error) if error.code() == aborted)
    }

    /// Whether the connection has ended, and not the statement alone.
    pub(super) fn is_of_connection(&self) -> bool {
        matches!(self, ReadHalt::Database(error) if is_outage(error))
    }

    /// Whether a statement made for one schema met another.
    pub(super) fn is_of_schema(&self) -> bool {
        let ReadHalt::Database(error) = self else {
            return false;
        };
        let moved = [
            SqlState::UNDEFINED_TABLE,
            SqlState::UNDEFINED_COLUMN,
            // "cached plan must not change result type"
            SqlState::FEATURE_NOT_SUPPORTED,
        ];
        error.code().is_some_and(|code| moved.contains(code))
    }

    /// What the caller learns, of a read that might take so long.
    pub(super) fn explain(self, limit_ms: u64) -> StoreError {
        // What fails so each time is a limit.
        if self.is_interruption() || self.is_of_aborted() {
            return StoreError::Timeout { limit_ms };
        }
        if self.is_of_schema() {
            return StoreError::CatalogueMoved;
        }
        match self {
            ReadHalt::Store(error) => error,
            ReadHalt::Database(error) => error.into(),
            ReadHalt::Long => unreachable!("only short reads end so, and those begin again"),
        }
    }
}
