//! What SQLite erases of a row.
//!
//! What is deleted is overwritten (`secure_delete`), here and in the full-text indexes. The bytes
//! leave the log with a checkpoint that cuts it to nothing, which follows (`checkpoint.rs`).

use model::history::VersionNumber;
use model::{Mark, RowId, Table, Timestamp};
use query::names;
use rusqlite::params;

use super::stored_rows::SqliteRows;
use crate::StoreError;
use crate::laws::transaction_store::TransactionStore as _;
use crate::sqlite::schema::sizes;
use crate::staged::TransactionStatus;

impl SqliteRows<'_> {
    /// See [`crate::laws::ledger::RowAmends::erase`].
    pub(super) fn erase_row(
        &self,
        table: &Table,
        (id, seq): (&RowId, Option<i64>),
        mark: Mark,
    ) -> Result<Vec<(VersionNumber, i64)>, StoreError> {
        let number = table.number;
        let erased = self.erase_versions(table, id)?;
        self.unschedule(number, id.as_str())?;
        if let Some(seq) = seq {
            let grants = names::grants(number);
            let sql = format!("DELETE FROM {grants} WHERE seq = ?1");
            self.execute(&sql, params![seq])?;
        }
        // Those of the commits that changed it, and of requests that changed nothing, which belong
        // to no commit.
        self.execute(
            "UPDATE request_key SET answer = NULL, bytes = 0 \
             WHERE answer IS NOT NULL AND (mark IS NULL \
             OR EXISTS (SELECT 1 FROM tx_row WHERE tt = mark AND tab = ?1 AND id = ?2))",
            params![number.0, id.as_str()],
        )?;
        self.execute(
            "DELETE FROM tx_row WHERE tab = ?1 AND id = ?2",
            params![number.0, id.as_str()],
        )?;
        self.fail_transactions_on(table, id, mark.timestamp())?;
        if !erased.is_empty() {
            self.execute(
                "INSERT INTO erasure (tab, tt) VALUES (?1, ?2) \
                 ON CONFLICT (tab) DO UPDATE SET tt = excluded.tt",
                params![number.0, mark.0],
            )?;
        }
        Ok(erased)
    }

    fn erase_versions(
        &self,
        table: &Table,
        id: &RowId,
    ) -> Result<Vec<(VersionNumber, i64)>, StoreError> {
        let sql = format!(
            "DELETE FROM {} WHERE id = ?1 AND twin = 0{}",
            names::versions(table.number),
            sizes::returning(&self.texts.bytes_of_all(self.connection, table)?)
        );
        let mut statement = self.statement(&sql)?;
        let removed = statement.query_map(params![id.as_str()], |row| {
            Ok((VersionNumber(row.get(0)?), row.get(1)?))
        })?;
        Ok(removed.collect::<Result<_, _>>()?)
    }

    /// Fails every open transaction with an operation on this row, or with one on many rows of its
    /// table that names it, and forgets their operations. One that is sealed is not looked into.
    fn fail_transactions_on(
        &self,
        table: &Table,
        id: &RowId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let sql = "SELECT DISTINCT s.seq FROM staged AS s JOIN staged_op AS o ON o.tx = s.seq \
                   WHERE s.project = ?1 AND s.status = ?2 AND o.place = ?3 \
                   AND (o.id = ?4 OR (o.id IS NULL \
                   AND (typeof(o.body) = 'blob' OR instr(o.body, ?4) > 0)))";
        let place = format!("{}/{}", table.database, table.id);
        let pending = TransactionStatus::Pending.as_str();
        let mut statement = self.statement(sql)?;
        let parameters = params![table.project.as_str(), pending, place, id.as_str()];
        let found = statement.query_map(parameters, |row| row.get::<_, i64>(0))?;
        for seq in found.collect::<Result<Vec<_>, _>>()? {
            self.end_transaction(seq, TransactionStatus::Failed, now)?;
        }
        Ok(())
    }
}
