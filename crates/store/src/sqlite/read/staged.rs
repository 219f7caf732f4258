//! Reading transactions of clients and their operations.

use std::time::Duration;

use model::{Mark, ProjectId, TableNumber};
use rusqlite::params;

use super::{Limit, Readers, Step};
use crate::sqlite::disk::vault::Place;
use crate::sqlite::schema::sizes;
use crate::sqlite::schema::stored_transactions::{COLUMNS, find, find_request, transaction};
use crate::{
    KeptRequest, OpenTransactions, OperationsOf, Staged, StagedOperation, StoreError, Transaction,
};

impl Readers {
    /// What [`crate::StoreTransactions::transactions`] promises. A project has few.
    pub(in crate::sqlite) fn transactions(
        &self,
        project: &ProjectId,
    ) -> Result<Vec<Transaction>, StoreError> {
        self.look(|connection| {
            let sql = format!("SELECT {COLUMNS} FROM staged WHERE project = ?1 ORDER BY seq");
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query([project.as_str()])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(transaction(row)?);
            }
            Ok(found)
        })
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
            let Some(found) = find(&snapshot, project, id)? else {
                return Ok(None);
            };
            let place = match operations {
                OperationsOf::Nothing => return Ok(Some((found, Vec::new()))),
                OperationsOf::Everything => None,
                OperationsOf::Places(places) => Some(serde_json::Value::from(places).to_string()),
            };
            let mut statement = snapshot.prepare_cached(
                "SELECT seen, place, id, body, n FROM staged_op \
                 WHERE tx = ?1 \
                 AND (?2 IS NULL OR place IN (SELECT value FROM json_each(?2))) ORDER BY n",
            )?;
            let mut rows = statement.query(params![found.seq, place])?;
            let mut staged = Vec::new();
            while let Some(row) = rows.next()? {
                let at = Place::Operation(found.seq, row.get(4)?);
                let body = vault.text(row.get_ref(3)?, at)?;
                staged.push(StagedOperation {
                    seen: Mark(row.get(0)?),
                    place: row.get(1)?,
                    row: row.get(2)?,
                    body: body.unwrap_or_default().into(),
                });
            }
            drop(rows);
            drop(statement);
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
        self.look(|connection| Ok(find_request(connection, vault, (project, key))?))
    }

    /// What [`crate::StoreUsage::data_bytes`] promises.
    pub(in crate::sqlite) fn data_bytes(&self) -> Result<u64, StoreError> {
        self.look(|connection| Ok(used_bytes(connection)?))
    }

    /// What [`crate::StoreUsage::table_bytes`] promises.
    pub(in crate::sqlite) fn table_bytes(&self) -> Result<Vec<(TableNumber, u64)>, StoreError> {
        self.look(|connection| {
            let tables = sizes::read(connection)?;
            Ok(tables
                .map(|(table, bytes)| (table, bytes.unsigned_abs()))
                .collect())
        })
    }

    /// What [`crate::StoreUsage::open_transactions`] promises. By projects, so that the index of
    /// those that are open leads past the ended ones.
    pub(in crate::sqlite) fn open_transactions(&self) -> Result<OpenTransactions, StoreError> {
        let sql = "SELECT count(*), coalesce(sum(staged.bytes), 0) FROM project \
                   CROSS JOIN staged ON staged.project = project.id \
                   WHERE project.st = 9223372036854775807 AND staged.status = 'pending'";
        self.look(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            Ok(statement.query_row((), |row| {
                Ok(OpenTransactions {
                    count: row.get::<_, i64>(0)?.unsigned_abs(),
                    bytes: row.get::<_, i64>(1)?.unsigned_abs(),
                })
            })?)
        })
    }

    /// What [`crate::StoreUsage::kept_answer_bytes`] promises.
    pub(in crate::sqlite) fn kept_answer_bytes(&self) -> Result<u64, StoreError> {
        let sql = "SELECT coalesce(sum(bytes), 0) FROM kept_bytes";
        self.look(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let bytes: i64 = statement.query_row((), |row| row.get(0))?;
            Ok(bytes.unsigned_abs())
        })
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
