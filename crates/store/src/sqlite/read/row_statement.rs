//! The statements that read one row of now by its id: one for each table in use, open for as long
//! as the connection.
//!
//! The driver keeps statements by their texts, and takes one out and puts it back for each read:
//! two hashes and a copy of the text. It also asks SQLite twice and more for each column. So these
//! are held by their tables, and spoken to directly.

#![allow(
    unsafe_code,
    reason = "the driver cannot hold a statement beside its connection"
)]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int, c_uint};
use std::ptr::{self, NonNull};
use std::slice;

use model::{ColumnNumber, Table, TableNumber};
use query::emit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ffi};

use super::Step;
use super::point::any_id;
use crate::error::corrupt;

/// Most statements that are kept, each of some kilobytes; with more tables in use they are prepared
/// again now and then.
const STATEMENTS_MAX: usize = 256;

/// Those of one connection. They must be dropped before it.
#[derive(Default)]
pub(super) struct RowStatements {
    kept: BTreeMap<TableNumber, KeptStatement>,
    stamp: LatestStamp,
}

/// The stamp that was read last, and [`data_version`] of its snapshot.
#[derive(Default)]
pub(super) struct LatestStamp(Option<(c_uint, Stamp)>);

/// Mark and catalogue epoch of a snapshot.
pub(super) type Stamp = (i64, i64);

impl LatestStamp {
    /// The stamp of the snapshot that is open; `read` reads it there. Between two commits it is the
    /// same, so it is not read for each row.
    pub(super) fn or_read(
        &mut self,
        connection: &Connection,
        read: impl FnOnce() -> Step<Stamp>,
    ) -> Step<Stamp> {
        let version = data_version(connection)?;
        match self.0 {
            Some((known, stamp)) if known == version => Ok(stamp),
            _ => {
                let stamp = read()?;
                self.0 = Some((version, stamp));
                Ok(stamp)
            }
        }
    }
}

struct KeptStatement {
    schema_epoch: u64,
    columns: Box<[ColumnNumber]>,
    statement: RowStatement,
}

impl KeptStatement {
    fn is_for(&self, table: &Table) -> bool {
        let columns = table.columns.iter().map(|column| column.number);
        self.schema_epoch == table.schema_epoch && self.columns.iter().copied().eq(columns)
    }
}

impl RowStatements {
    /// The statement of [`emit::row_now`] for this table, and the latest stamp.
    pub(super) fn of(
        &mut self,
        connection: &Connection,
        table: &Table,
    ) -> rusqlite::Result<(&mut RowStatement, &mut LatestStamp)> {
        let known = self.kept.get(&table.number);
        if !known.is_some_and(|kept| kept.is_for(table)) {
            if self.kept.len() >= STATEMENTS_MAX {
                self.kept.clear();
            }
            let text = emit::row_now(table, any_id().as_str());
            let kept = KeptStatement {
                schema_epoch: table.schema_epoch,
                columns: table.columns.iter().map(|column| column.number).collect(),
                statement: RowStatement::prepare(connection, &text.sql)?,
            };
            self.kept.insert(table.number, kept);
        }
        let kept = self.kept.get_mut(&table.number);
        let statement = &mut kept.expect("it is there by now").statement;
        Ok((statement, &mut self.stamp))
    }
}

/// A statement with one text as its parameter, which gives one row or none.
pub(super) struct RowStatement(NonNull<ffi::sqlite3_stmt>);

impl RowStatement {
    fn prepare(connection: &Connection, sql: &str) -> rusqlite::Result<RowStatement> {
        let length = c_int::try_from(sql.len()).expect("a statement of one row is short");
        let mut statement = ptr::null_mut();
        // SAFETY: the connection is open, the text has as many bytes, and SQLite copies it.
        let code = unsafe {
            ffi::sqlite3_prepare_v3(
                connection.handle(),
                sql.as_ptr().cast(),
                length,
                ffi::SQLITE_PREPARE_PERSISTENT,
                &raw mut statement,
                ptr::null_mut(),
            )
        };
        match NonNull::new(statement) {
            Some(statement) if code == ffi::SQLITE_OK => Ok(RowStatement(statement)),
            _ => Err(failure(connection, code)),
        }
    }

    /// What `read` makes of the row, if there is one. It stands until that returns, and with it the
    /// snapshot.
    pub(super) fn row<T>(
        &mut self,
        connection: &Connection,
        id: &str,
        read: impl FnOnce(&RowFound<'_>) -> Step<T>,
    ) -> Step<Option<T>> {
        let found = RowFound(self);
        match found.step(id) {
            ffi::SQLITE_ROW => read(&found).map(Some),
            ffi::SQLITE_DONE => Ok(None),
            code => Err(failure(connection, code).into()),
        }
    }
}

impl Drop for RowStatement {
    fn drop(&mut self) {
        // SAFETY: it was prepared by `prepare`, its connection is open, and nothing uses it.
        unsafe { ffi::sqlite3_finalize(self.0.as_ptr()) };
    }
}

/// The row at which a statement stands, until this is dropped.
pub(super) struct RowFound<'s>(&'s mut RowStatement);

impl RowFound<'_> {
    fn step(&self, id: &str) -> c_int {
        let statement = self.0.0.as_ptr();
        let length = c_int::try_from(id.len()).expect("an id is short");
        // SAFETY: the statement is prepared and reset, and the text is bound no longer than it
        // lives: `drop` unbinds it.
        unsafe {
            let text = id.as_ptr().cast();
            match ffi::sqlite3_bind_text(statement, 1, text, length, ffi::SQLITE_STATIC()) {
                ffi::SQLITE_OK => ffi::sqlite3_step(statement),
                code => code,
            }
        }
    }

    /// What stands in a column.
    pub(super) fn value(&self, column: usize) -> ValueRef<'_> {
        // SAFETY: the statement stands at a row, whose values stay as they are until `drop`: each
        // is read as the type it has. The connection has no mutex, and one thread, so what holds
        // of a value of a function's arguments holds of a column's.
        unsafe {
            let value = ffi::sqlite3_column_value(self.0.0.as_ptr(), column as c_int);
            match ffi::sqlite3_value_type(value) {
                ffi::SQLITE_INTEGER => ValueRef::Integer(ffi::sqlite3_value_int64(value)),
                ffi::SQLITE_FLOAT => ValueRef::Real(ffi::sqlite3_value_double(value)),
                ffi::SQLITE_TEXT => {
                    let text = ffi::sqlite3_value_text(value);
                    ValueRef::Text(bytes(text, ffi::sqlite3_value_bytes(value)))
                }
                ffi::SQLITE_BLOB => {
                    let blob = ffi::sqlite3_value_blob(value);
                    ValueRef::Blob(bytes(blob.cast(), ffi::sqlite3_value_bytes(value)))
                }
                _ => ValueRef::Null,
            }
        }
    }

    /// The number in a column.
    ///
    /// # Errors
    /// When it holds something else.
    pub(super) fn integer(&self, column: usize) -> Step<i64> {
        match self.value(column) {
            ValueRef::Integer(number) => Ok(number),
            other => {
                let kind = other.data_type();
                Err(corrupt(format!("column {column} of a row holds {kind}, no integer")).into())
            }
        }
    }
}

impl Drop for RowFound<'_> {
    fn drop(&mut self) {
        let statement = self.0.0.as_ptr();
        // SAFETY: the statement is prepared. What `reset` returns is what the step has returned.
        unsafe {
            ffi::sqlite3_reset(statement);
            ffi::sqlite3_clear_bindings(statement);
        }
    }
}

/// # Safety
/// As many bytes stand there, for `'a`.
unsafe fn bytes<'a>(first: *const u8, length: c_int) -> &'a [u8] {
    match usize::try_from(length) {
        Ok(length) if length > 0 => {
            assert!(!first.is_null(), "a value without memory has no bytes");
            // SAFETY: the caller says so.
            unsafe { slice::from_raw_parts(first, length) }
        }
        _ => &[],
    }
}

/// A number of the snapshot that this connection has open: the same as before if no other
/// connection has committed since.
fn data_version(connection: &Connection) -> rusqlite::Result<c_uint> {
    let mut version: c_uint = 0;
    // SAFETY: the connection is open. No name stands for the main database, and the number has the
    // type that this question asks for.
    let code = unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            ptr::null(),
            ffi::SQLITE_FCNTL_DATA_VERSION,
            (&raw mut version).cast(),
        )
    };
    match code {
        ffi::SQLITE_OK => Ok(version),
        code => Err(failure(connection, code)),
    }
}

/// What a call has come to, with what SQLite says of it.
fn failure(connection: &Connection, code: c_int) -> rusqlite::Error {
    // SAFETY: the connection is open; the text is copied before the next call changes it.
    let message = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(connection.handle())) };
    let message = message.to_string_lossy().into_owned();
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECHO: &str = "SELECT ?1, 5, 1.5, NULL, x'0102', '', x''";

    fn values(statement: &mut RowStatement, connection: &Connection, id: &str) -> String {
        let read = statement.row(connection, id, |row| {
            Ok(format!(
                "{:?}",
                (0..8).map(|at| row.value(at)).collect::<Vec<_>>()
            ))
        });
        read.ok().flatten().expect("a row")
    }

    #[test]
    fn a_row_is_read_as_it_stands_again_and_again() {
        let connection = Connection::open_in_memory().unwrap();
        let mut statement = RowStatement::prepare(&connection, ECHO).unwrap();
        for id in ["a", "ä€", ""] {
            let wanted = format!(
                "{:?}",
                [
                    ValueRef::Text(id.as_bytes()),
                    ValueRef::Integer(5),
                    ValueRef::Real(1.5),
                    ValueRef::Null,
                    ValueRef::Blob(&[1, 2]),
                    ValueRef::Text(b""),
                    ValueRef::Blob(b""),
                    ValueRef::Null,
                ]
            );
            assert_eq!(values(&mut statement, &connection, id), wanted);
        }
        let integer = |row: &RowFound<'_>| Ok((row.integer(1)?, row.integer(2).is_err()));
        let read = statement.row(&connection, "a", integer);
        assert!(matches!(read, Ok(Some((5, true)))));
        drop(statement);
        assert!(connection.close().is_ok(), "no statement is left");
    }

    #[test]
    fn a_statement_lives_through_changes_of_the_schema_and_tells_of_what_is_gone() {
        let connection = Connection::open_in_memory().unwrap();
        let made = "CREATE TABLE t (id TEXT); INSERT INTO t VALUES ('a');";
        connection.execute_batch(made).unwrap();
        let sql = "SELECT count(*) FROM t WHERE id = ?1";
        let mut statement = RowStatement::prepare(&connection, sql).unwrap();
        let count =
            |statement: &mut RowStatement| statement.row(&connection, "a", |row| row.integer(0));
        assert!(matches!(count(&mut statement), Ok(Some(1))));
        connection
            .execute_batch("ALTER TABLE t ADD COLUMN n")
            .unwrap();
        assert!(matches!(count(&mut statement), Ok(Some(1))));
        connection.execute_batch("DROP TABLE t").unwrap();
        let Err(super::super::Halt::Database(error)) = count(&mut statement) else {
            panic!("the table is gone");
        };
        assert_eq!(error.to_string(), "no such table: t");
        connection.execute_batch(made).unwrap();
        assert!(
            matches!(count(&mut statement), Ok(Some(1))),
            "the same again"
        );
        let Err(error) = RowStatement::prepare(&connection, "SELECT missing") else {
            panic!("there is no such column");
        };
        assert_eq!(error.to_string(), "no such column: missing");
    }

    #[test]
    fn a_stamp_is_read_once_for_each_commit_of_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stamped.db");
        let writer = Connection::open(&path).unwrap();
        let made = "PRAGMA journal_mode = WAL; CREATE TABLE t (id TEXT, n INTEGER);
                    INSERT INTO t VALUES ('a', 0);";
        writer.execute_batch(made).unwrap();
        let connection = Connection::open(&path).unwrap();
        let sql = "SELECT n FROM t WHERE id = ?1";
        let mut statement = RowStatement::prepare(&connection, sql).unwrap();
        let mut latest = LatestStamp::default();
        let mut reads = 0;
        for commits in 0..4 {
            for _ in 0..3 {
                let seen = statement.row(&connection, "a", |row| {
                    let stamp = latest.or_read(&connection, || {
                        reads += 1;
                        Ok((row.integer(0)?, 7))
                    })?;
                    // Between two snapshots of one statement nothing else is committed.
                    Ok((stamp, row.integer(0)?))
                });
                assert!(matches!(seen, Ok(Some(((n, 7), m))) if (n, m) == (commits, commits)));
            }
            writer.execute("UPDATE t SET n = n + 1", ()).unwrap();
        }
        assert_eq!(reads, 4);
        let none = statement.row(&connection, "b", |_| Ok(()));
        assert!(matches!(none, Ok(None)));
    }
}
