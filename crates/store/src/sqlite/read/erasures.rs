//! When rows of tables were erased last.

use std::time::Duration;

use model::{Mark, TableNumber};

use super::{Limit, Reader, Readers, Step};
use crate::StoreError;

impl Readers {
    /// What [`crate::StoreReads::last_erasure`] promises: a few look-ups, so it is short.
    pub(in crate::sqlite) fn last_erasure(
        &self,
        tables: &[TableNumber],
    ) -> Result<Option<Mark>, StoreError> {
        let shared = &self.shared;
        let limit = Limit::Short(Duration::MAX, shared.stop_after());
        let read = shared.with_reader(limit, |reader| reader.last_erasure(tables));
        read.map_err(|halt| shared.explain(halt))
    }
}

impl Reader {
    fn last_erasure(&self, tables: &[TableNumber]) -> Step<Option<Mark>> {
        let numbers: Vec<String> = tables.iter().map(|table| table.0.to_string()).collect();
        let numbers = format!("[{}]", numbers.join(","));
        let sql = "SELECT max(tt) FROM erasure WHERE tab IN (SELECT value FROM json_each(?1))";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mark: Option<i64> = statement.query_row([numbers], |row| row.get(0))?;
        Ok(mark.map(Mark))
    }
}
