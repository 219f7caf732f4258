//! By which names a table was known.

use std::sync::Arc;

use model::{Mark, Table};
use rusqlite::params;

use super::{Limit, Reader, Readers, Step};
use crate::StoreError;
use crate::history_line;
use crate::sqlite::schema::catalogue_read;

impl Readers {
    /// What [`crate::StoreReads::table_as_of`] promises.
    pub(in crate::sqlite) fn table_as_of(
        &self,
        today: &Arc<Table>,
        mark: Mark,
    ) -> Result<Arc<Table>, StoreError> {
        let shared = &self.shared;
        let limit = Limit::Short(std::time::Duration::MAX, shared.stop_after());
        let read = shared.with_reader(limit, |reader| reader.table_as_of(today, mark));
        read.map_err(|halt| shared.explain(halt))
    }
}

impl Reader {
    /// No transaction is needed: what was so at a settled mark no commit changes.
    fn table_as_of(&self, today: &Arc<Table>, mark: Mark) -> Step<Arc<Table>> {
        let number = today.number.0;
        let sql = "SELECT min(sf) FROM table_ WHERE number = ?1";
        let mut first = self.connection.prepare_cached(sql)?;
        let first: Option<i64> = first.query_row(params![number], |row| row.get(0))?;
        let at = mark.0.max(first.unwrap_or(mark.0));
        let then = catalogue_read::table_at(&self.connection, today.number, at)?;
        let Some(then) = then else {
            return Ok(Arc::clone(today));
        };
        Ok(history_line::table_then(today, then))
    }
}
