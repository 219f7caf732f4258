//! What the database says when a statement fails, as an error of a store.

use std::error::Error as _;
use std::io;

use query::names;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

use super::address::cause;
use super::finding::DatabaseFinding;
use crate::error::corrupt;
use crate::{SortRoom, StoreError};

/// What a statement has met that a caller can bring about, or that passes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    /// It was stopped, or waited in vain: the same may succeed later.
    Stop,
    /// The server takes no writes, for now.
    ReadsOnly,
    FullDisk,
    NoMemory,
    /// Temporary files took more than a session may have of them.
    LargeSort,
    ComplexQuery,
    /// More than a row, or a table, has room for.
    WideRow,
    /// The user may not do it, or not any more.
    NoRight,
    Damage,
}

/// What codes mean. Those of a connection are in [`is_outage_code`]. Every other one is a fault of
/// ours or a matter for an operator, whom the text of the server helps: [`StoreError::Io`].
const MEANINGS: [(SqlState, Met); 14] = [
    (SqlState::QUERY_CANCELED, Met::Stop),
    (SqlState::LOCK_NOT_AVAILABLE, Met::Stop),
    (SqlState::T_R_DEADLOCK_DETECTED, Met::Stop),
    (SqlState::T_R_SERIALIZATION_FAILURE, Met::Stop),
    (SqlState::READ_ONLY_SQL_TRANSACTION, Met::ReadsOnly),
    (SqlState::DISK_FULL, Met::FullDisk),
    (SqlState::OUT_OF_MEMORY, Met::NoMemory),
    (SqlState::CONFIGURATION_LIMIT_EXCEEDED, Met::LargeSort),
    (SqlState::STATEMENT_TOO_COMPLEX, Met::ComplexQuery),
    (SqlState::PROGRAM_LIMIT_EXCEEDED, Met::WideRow),
    (SqlState::TOO_MANY_COLUMNS, Met::WideRow),
    (SqlState::INSUFFICIENT_PRIVILEGE, Met::NoRight),
    (SqlState::DATA_CORRUPTED, Met::Damage),
    (SqlState::INDEX_CORRUPTED, Met::Damage),
];

impl From<Error> for StoreError {
    fn from(error: Error) -> StoreError {
        let detail = || cause(&error);
        if is_outage(&error) {
            return StoreError::Unreachable { detail: detail() };
        }
        if let Some(index) = index_in_the_way(&error) {
            let index = index.to_owned();
            return StoreError::NotUnique { index };
        }
        // No statement of ours divides, but by whether it has changed what it was to change.
        if error.code() == Some(&SqlState::DIVISION_BY_ZERO) {
            return corrupt("a row that is to be changed is not there as it was read");
        }
        let mut meanings = MEANINGS.iter();
        let met = meanings.find(|(code, _)| error.code() == Some(code));
        match met.map(|(_, met)| *met) {
            Some(Met::Stop) => StoreError::Interrupted,
            Some(Met::ReadsOnly) => StoreError::Unreachable { detail: detail() },
            Some(Met::FullDisk) => StoreError::Full,
            Some(Met::NoMemory) => StoreError::Memory,
            Some(Met::LargeSort) => {
                let kib_max = kib_of(said(&error));
                StoreError::SortTooLarge(SortRoom::Files { kib_max })
            }
            Some(Met::ComplexQuery) => StoreError::QueryTooComplex,
            Some(Met::WideRow) if !is_of_transactions(&error) => StoreError::RowTooLarge {
                detail: said(&error).to_owned(),
            },
            Some(Met::NoRight) => StoreError::DatabaseUnfit(no_right(said(&error))),
            Some(Met::Damage) => corrupt(detail()),
            Some(Met::WideRow) | None => StoreError::Io { detail: detail() },
        }
    }
}

/// An operator's matter: the store was made by a user who had the right.
fn no_right(said: &str) -> DatabaseFinding {
    let advice = "Let the user of the URL own the schema and the tables of the store";
    DatabaseFinding::bad("rights", format!("The database says: {said}."), advice)
}

/// The limit in "temporary file size exceeds temp_file_limit (64kB)", in whatever language.
fn kib_of(said: &str) -> Option<u64> {
    let (before, _) = said.rsplit_once("kB")?;
    let digits = before.trim_end_matches(|letter: char| letter.is_ascii_digit());
    before[digits.len()..].parse().ok()
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

#[cfg(test)]
mod tests {
    use testing_postgres::Cluster;

    use super::super::address::DatabaseUrl;
    use super::super::connection::connect;
    use super::*;

    /// What a statement that fails so becomes.
    fn expected() -> Vec<(&'static str, &'static str, StoreError)> {
        let in_full = |said: &str| format!("db error: ERROR: {said}");
        let unreachable = |said: &str| StoreError::Unreachable {
            detail: in_full(said),
        };
        let files = |kib_max| StoreError::SortTooLarge(SortRoom::Files { kib_max });
        let wide = |detail: &str| StoreError::RowTooLarge {
            detail: detail.to_owned(),
        };
        let io = |said: &str| StoreError::Io {
            detail: in_full(said),
        };
        vec![
            ("57014", "canceled", StoreError::Interrupted),
            ("55P03", "lock", StoreError::Interrupted),
            ("40P01", "deadlock", StoreError::Interrupted),
            ("40001", "serialize", StoreError::Interrupted),
            ("25006", "read-only", unreachable("read-only")),
            ("53300", "too many clients", unreachable("too many clients")),
            ("57P03", "starting up", unreachable("starting up")),
            ("08006", "lost", unreachable("lost")),
            ("53100", "no space", StoreError::Full),
            ("53200", "no memory", StoreError::Memory),
            ("53400", "temp_file_limit (64kB)", files(Some(64))),
            ("53400", "kB", files(None)),
            ("54001", "stack depth", StoreError::QueryTooComplex),
            ("54000", "row is too big", wide("row is too big")),
            ("54011", "too many columns", wide("too many columns")),
            ("XX001", "page", corrupt(in_full("page"))),
            ("XX002", "index", corrupt(in_full("index"))),
            ("22003", "out of range", io("out of range")),
            ("22021", "bad byte", io("bad byte")),
            ("22P02", "no number", io("no number")),
            (
                "42501",
                "no right",
                StoreError::DatabaseUnfit(no_right("no right")),
            ),
            ("23505", "not of a user", io("not of a user")),
        ]
    }

    #[test]
    fn every_code_that_a_caller_can_bring_about_is_a_clear_error() {
        let cluster = Cluster::shared().unwrap();
        let url = DatabaseUrl::parse(&cluster.url("postgres")).unwrap();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let client = runtime.block_on(connect(&url, None)).unwrap().client;
        let cases = expected();
        for (code, said, expected) in &cases {
            let raise = format!(
                "DO $$ BEGIN RAISE EXCEPTION SQLSTATE '{code}' USING MESSAGE = '{said}'; END $$"
            );
            let raised = runtime.block_on(client.batch_execute(&raise));
            assert_eq!(&StoreError::from(raised.unwrap_err()), expected, "{code}");
        }
        for (code, _) in MEANINGS {
            let is_expected = cases.iter().any(|(tested, ..)| *tested == code.code());
            assert!(is_expected, "{} is not tested", code.code());
        }
    }
}
