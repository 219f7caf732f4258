//! By which names a table was known.

use std::sync::Arc;

use model::{Mark, Table};

use super::{Limit, Reader, Readers, Step};
use crate::StoreError;
use crate::history_line;
use crate::sqlite::schema::stored_reads::{all, first};
use crate::stored::names_then;

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
        let then = names_then::table_then(today.number, mark);
        let Some(mut then) = first(&self.connection, &then)? else {
            return Ok(Arc::clone(today));
        };
        let columns = names_then::columns_then(today.number, mark);
        then.columns = all(&self.connection, &columns)?;
        Ok(history_line::table_then(today, then))
    }
}
