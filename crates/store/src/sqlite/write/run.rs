//! A batch on SQLite: what the laws leave to its statements.

use rusqlite::CachedStatement;

use super::stored_rows::SqliteRows;
use crate::laws::run::Run;

/// A batch while it runs.
pub(crate) type SqliteRun<'t, 'w> = Run<'t, SqliteRows<'w>>;

impl SqliteRun<'_, '_> {
    /// A prepared statement, kept for the next time.
    pub(crate) fn statement(&self, sql: &str) -> rusqlite::Result<CachedStatement<'_>> {
        self.rows.statement(sql)
    }
}
