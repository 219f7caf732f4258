//! Reading transactions of clients and their operations.

use std::time::Duration;

use model::{ProjectId, TableNumber};
use query::Dialect;

use super::{Limit, Readers, Step};
use crate::sqlite::schema::stored_reads::{all, first};
use crate::stored::{transactions, usage};
use crate::{KeptRequest, OpenTransactions, OperationsOf, Staged, StoreError, Transaction};

impl Readers {
    /// What [`crate::StoreTransactions::transactions`] promises. A project has few.
    pub(in crate::sqlite) fn transactions(
        &self,
        project: &ProjectId,
    ) -> Result<Vec<Transaction>, StoreError> {
        self.all(&transactions::of_project(project))
    }

    /// What [`crate::StoreTransactions::transaction`] promises.
    pub(in crate::sqlite) fn transaction(
        &self,
        project: &ProjectId,
        id: &str,
        operations: OperationsOf<'_>,
    ) -> Result<Option<Staged>, StoreError> {
        let vault = &self.shared.coding.vault;
        self.look(|connection| {
            // Both statements on one snapshot.
            let snapshot = connection.unchecked_transaction()?;
            let Some(found) = first(&snapshot, &transactions::of_id(project, id))? else {
                return Ok(None);
            };
            let places = match operations {
                OperationsOf::Nothing => return Ok(Some((found, Vec::new()))),
                OperationsOf::Everything => None,
                OperationsOf::Places(places) => Some(places),
            };
            let staged = transactions::operations(Dialect::Sqlite, found.seq, places);
            let staged = transactions::opened(all(&snapshot, &staged)?, vault, found.seq)?;
            Ok(Some((found, staged)))
        })
    }

    /// What [`crate::StoreTransactions::kept_request`] promises.
    pub(in crate::sqlite) fn kept_request(
        &self,
        project: &ProjectId,
        key: &str,
    ) -> Result<Option<KeptRequest>, StoreError> {
        let vault = &self.shared.coding.vault;
        let found = self.first(&transactions::request(project, key))?;
        found
            .map(|stored| stored.open(vault, (project, key)))
            .transpose()
    }

    /// What [`crate::StoreUsage::data_bytes`] promises.
    pub(in crate::sqlite) fn data_bytes(&self) -> Result<u64, StoreError> {
        self.look(|connection| Ok(used_bytes(connection)?))
    }

    /// What [`crate::StoreUsage::table_bytes`] promises.
    pub(in crate::sqlite) fn table_bytes(&self) -> Result<Vec<(TableNumber, u64)>, StoreError> {
        let tables = self.all(&usage::table_bytes())?.into_iter();
        Ok(tables
            .map(|(table, bytes)| (table, bytes.unsigned_abs()))
            .collect())
    }

    /// What [`crate::StoreUsage::open_transactions`] promises.
    pub(in crate::sqlite) fn open_transactions(&self) -> Result<OpenTransactions, StoreError> {
        let open = self.first(&usage::open_transactions(Dialect::Sqlite))?;
        Ok(open.unwrap_or_default())
    }

    /// What [`crate::StoreUsage::kept_answer_bytes`] promises.
    pub(in crate::sqlite) fn kept_answer_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.first(&usage::kept_answer_bytes())?.unwrap_or_default())
    }

    pub(super) fn look<T>(
        &self,
        read: impl FnOnce(&rusqlite::Connection) -> Step<T>,
    ) -> Result<T, StoreError> {
        let shared = &self.shared;
        let limit = Limit::Short(Duration::MAX, shared.stop_after());
        let answer = shared.with_reader(limit, |reader| read(&reader.connection));
        answer.map_err(|halt| shared.explain(halt))
    }
}

/// Bytes of the pages that are in use.
pub(in crate::sqlite) fn used_bytes(connection: &rusqlite::Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT (page_count - freelist_count) * page_size \
               FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()";
    let mut statement = connection.prepare_cached(sql)?;
    let bytes: i64 = statement.query_row((), |row| row.get(0))?;
    Ok(bytes.unsigned_abs())
}
