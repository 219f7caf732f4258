//! Transactions of clients as SQLite keeps them.

use model::{ProjectId, Timestamp};
use rusqlite::params;

use super::stored_rows::SqliteRows;
use crate::StoreError;
use crate::laws::transaction_store::{
    AddedOperations, GoneTransactions, HeldShare, NewTransaction, REMOVED_MAX, TransactionOwner,
    TransactionStore,
};
use crate::sqlite::schema::stored_reads;
use crate::staged::{Transaction, TransactionStatus, class_of};
use crate::stored::transactions;
use crate::vault::Place;

/// Whether a transaction's owner is of the class `?4`.
const OF_CLASS: &str = "owner = ?4 OR substr(owner, 1, length(?4) + 1) = ?4 || ' '";

impl TransactionStore for SqliteRows<'_> {
    fn transaction(
        &self,
        project: &ProjectId,
        id: &str,
    ) -> Result<Option<Transaction>, StoreError> {
        stored_reads::first(self.connection, &transactions::of_id(project, id))
    }

    fn open_transaction(&self, new: &NewTransaction<'_>) -> Result<(), StoreError> {
        self.statement(
            "INSERT INTO staged (project, id, owner, status, created, updated, expires, keep, \
             count, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, 0, 0)",
        )?
        .execute(params![
            new.project.as_str(),
            new.id,
            new.owner,
            TransactionStatus::Pending.as_str(),
            new.now.cut_to_ms().0,
            new.expires.cut_to_ms().0,
            new.keep.0
        ])?;
        Ok(())
    }

    fn add_operations(
        &self,
        to: &Transaction,
        added: &AddedOperations<'_>,
    ) -> Result<(), StoreError> {
        let mut insert = self.statement(
            "INSERT INTO staged_op (tx, n, seen, place, id, body) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        let vault = &self.coding.vault;
        for (n, op) in (to.operation_count as i64..).zip(added.operations) {
            let (transaction, seen, place, row) = (to.seq, op.seen.0, &op.place, &op.row);
            if added.is_sealed {
                let body = vault.seal(Place::Operation(transaction, n), op.body.as_bytes())?;
                insert.execute(params![transaction, n, seen, place, row, body])?;
            } else {
                insert.execute(params![transaction, n, seen, place, row, &*op.body])?;
            }
        }
        drop(insert);
        self.statement("UPDATE staged SET count = ?2, bytes = ?3, updated = ?4 WHERE seq = ?1")?
            .execute(params![
                to.seq,
                added.count as i64,
                added.bytes as i64,
                added.now.cut_to_ms().0
            ])?;
        Ok(())
    }

    fn end_transaction(
        &self,
        seq: i64,
        status: TransactionStatus,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.statement("DELETE FROM staged_op WHERE tx = ?1")?
            .execute([seq])?;
        self.statement(
            "UPDATE staged SET status = ?2, updated = ?3, keep = expires, bytes = 0 WHERE seq = ?1",
        )?
        .execute(params![seq, status.as_str(), now.cut_to_ms().0])?;
        Ok(())
    }

    fn remove_transactions(&self, which: GoneTransactions<'_>) -> Result<usize, StoreError> {
        let removed = match which {
            GoneTransactions::One(seq) => self
                .statement("DELETE FROM staged WHERE seq = ?1")?
                .execute([seq])?,
            GoneTransactions::KeptUntil(now) => self
                .statement(
                    "DELETE FROM staged WHERE seq IN (SELECT seq FROM staged WHERE keep < ?1 \
                     ORDER BY keep LIMIT ?2)",
                )?
                .execute(params![now.0, REMOVED_MAX])?,
            GoneTransactions::Ended(project, now) => self
                .statement(
                    "DELETE FROM staged WHERE seq IN (SELECT seq FROM staged WHERE project = ?1 \
                     AND (status <> ?2 OR expires <= ?3) ORDER BY seq LIMIT ?4)",
                )?
                .execute(params![
                    project.as_str(),
                    TransactionStatus::Pending.as_str(),
                    now.0,
                    REMOVED_MAX
                ])?,
        };
        Ok(removed)
    }

    fn transaction_count(&self, project: &ProjectId) -> Result<usize, StoreError> {
        let count: i64 = self
            .statement("SELECT count(*) FROM staged WHERE project = ?1")?
            .query_row([project.as_str()], |row| row.get(0))?;
        Ok(count as usize)
    }

    fn open_count(
        &self,
        of: TransactionOwner<'_>,
        now: Timestamp,
    ) -> Result<HeldShare, StoreError> {
        let sql = format!(
            "SELECT coalesce(sum(owner = ?3), 0), coalesce(sum({OF_CLASS}), 0), count(*) \
             FROM staged WHERE project = ?1 AND status = ?2 AND expires > ?5"
        );
        self.share(&sql, of, Some(now))
    }

    fn operation_bytes(&self, of: TransactionOwner<'_>) -> Result<HeldShare, StoreError> {
        let sql = format!(
            "SELECT coalesce(sum(bytes) FILTER (WHERE owner = ?3), 0), \
             coalesce(sum(bytes) FILTER (WHERE {OF_CLASS}), 0), coalesce(sum(bytes), 0) \
             FROM staged WHERE project = ?1 AND status = ?2"
        );
        self.share(&sql, of, None)
    }
}

impl SqliteRows<'_> {
    fn share(
        &self,
        sql: &str,
        of: TransactionOwner<'_>,
        now: Option<Timestamp>,
    ) -> Result<HeldShare, StoreError> {
        let (project, pending) = (of.project.as_str(), TransactionStatus::Pending.as_str());
        let class = class_of(of.owner);
        let mut all: Vec<&dyn rusqlite::ToSql> = vec![&project, &pending, &of.owner, &class];
        if let Some(now) = &now {
            all.push(&now.0);
        }
        let share = |row: &rusqlite::Row<'_>| {
            let count = |position| row.get::<_, i64>(position).map(|count| count as usize);
            Ok(HeldShare {
                own: count(0)?,
                class: count(1)?,
                all: count(2)?,
            })
        };
        Ok(self.statement(sql)?.query_row(&*all, share)?)
    }
}
