//! What a database file says of its format.

use rusqlite::Connection;

/// Marks the file as ours: "Tide" in ASCII (SQLite manual, "PRAGMA application_id").
pub(crate) const APPLICATION_ID: i64 = 0x5469_6465;

/// The format that the file has; 0 where nothing was ever stored in it.
pub(crate) fn format(connection: &Connection) -> rusqlite::Result<i64> {
    pragma(connection, "user_version")
}

/// Whether nothing was ever stored in it.
pub(crate) fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    format(connection).map(|found| found == 0)
}

pub(crate) fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}
