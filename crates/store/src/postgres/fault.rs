//! What the database says when a statement fails, as an error of a store.

use std::error::Error as _;
use std::io;

use query::names;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

use super::address::cause;
use crate::StoreError;
use crate::error::corrupt;

impl From<Error> for StoreError {
    fn from(error: Error) -> StoreError {
        if is_outage(&error) {
            let detail = cause(&error);
            return StoreError::Unreachable { detail };
        }
        if let Some(index) = index_in_the_way(&error) {
            let index = index.to_owned();
            return StoreError::NotUnique { index };
        }
        let code = error.code();
        match code {
            Some(&SqlState::QUERY_CANCELED) => StoreError::Interrupted,
            Some(&SqlState::DISK_FULL) => StoreError::Full,
            Some(&SqlState::OUT_OF_MEMORY) => StoreError::Memory,
            Some(&SqlState::PROGRAM_LIMIT_EXCEEDED) if !is_of_transactions(&error) => {
                StoreError::RowTooLarge {
                    detail: said(&error).to_owned(),
                }
            }
            // No statement of ours divides, but by whether it has changed what it was to change.
            Some(&SqlState::DIVISION_BY_ZERO) => {
                corrupt("a row that is to be changed is not there as it was read")
            }
            _ => StoreError::Io {
                detail: cause(&error),
            },
        }
    }
}

/// The index of a user that is against a statement. The laws ask those that are available before;
/// so this one is not yet, or the database and the laws differ.
fn index_in_the_way(error: &Error) -> Option<&str> {
    let said = error.as_db_error()?;
    let is_unique = *said.code() == SqlState::UNIQUE_VIOLATION;
    let name = said.constraint().filter(|_| is_unique)?;
    names::parse_index(name).is_some().then_some(name)
}

/// Whether the connection has ended, or none could be made, and not one statement failed: the same
/// may succeed on another connection, now or later.
pub(super) fn is_outage(error: &Error) -> bool {
    let is_io = <dyn std::error::Error>::is::<io::Error>;
    let is_closed = || error.is_closed() || error.source().is_some_and(is_io);
    error.code().map_or_else(is_closed, is_outage_code)
}

/// The same of what a server says.
pub(super) fn is_outage_code(code: &SqlState) -> bool {
    const CONNECTION_EXCEPTIONS: &str = "08";
    let others = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::IDLE_SESSION_TIMEOUT,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    code.code().starts_with(CONNECTION_EXCEPTIONS) || others.contains(code)
}

/// The same code says that transaction numbers are about to run out (`varsup.c`, `multixact.c`):
/// an operator's matter, which no other row would mend. The text is in the server's language, the
/// name of its function is not.
fn is_of_transactions(error: &Error) -> bool {
    let routine = error.as_db_error().and_then(DbError::routine);
    routine.is_some_and(|routine| routine.starts_with("GetNew"))
}

/// What the database says in its own words.
fn said(error: &Error) -> &str {
    error.as_db_error().map_or("", DbError::message)
}
