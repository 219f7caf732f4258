//! Transactions of clients as PostgreSQL keeps them. With one its operations go.

use model::{ProjectId, Timestamp};

use super::array_lists::ArrayLists;
use super::rows::PostgresRows;
use super::session::SqlCall;
use crate::StoreError;
use crate::laws::stored_tables::StoredTables as _;
use crate::laws::transaction_store::{
    AddedOperations, GoneTransactions, HeldShare, NewTransaction, REMOVED_MAX, TransactionOwner,
    TransactionStore,
};
use crate::postgres::cells::SqlParameter;
use crate::staged::{Transaction, TransactionStatus, class_of};
use crate::stored::transactions;
use crate::vault::Place;

/// Whether a transaction's owner is of the class `$4`.
const OF_CLASS: &str = "(owner = $4 OR starts_with(owner, $4 || ' '))";

impl TransactionStore for PostgresRows<'_> {
    fn transaction(
        &self,
        project: &ProjectId,
        id: &str,
    ) -> Result<Option<Transaction>, StoreError> {
        let read = transactions::of_id(project, id);
        Ok(self.read_stored(&read)?.into_iter().next())
    }

    fn open_transaction(&self, new: &NewTransaction<'_>) -> Result<(), StoreError> {
        let sql = "INSERT INTO staged (project, id, owner, status, created, updated, expires, \
                   keep, count, bytes) VALUES ($1, $2, $3, $4, $5, $5, $6, $7, 0, 0)";
        let all: Vec<SqlParameter> = vec![
            Box::new(new.project.to_string()),
            Box::new(new.id.to_owned()),
            Box::new(new.owner.to_owned()),
            Box::new(TransactionStatus::Pending.as_str()),
            Box::new(new.now.cut_to_ms().0),
            Box::new(new.expires.cut_to_ms().0),
            Box::new(new.keep.0),
        ];
        self.session.call(SqlCall::new(sql, all)).map(drop)
    }

    fn add_operations(
        &self,
        to: &Transaction,
        added: &AddedOperations<'_>,
    ) -> Result<(), StoreError> {
        let ops = || added.operations.iter();
        let first = to.operation_count as i64;
        let vault = &self.keys.values;
        let bodies = (first..).zip(ops()).map(|(n, op)| {
            if added.is_sealed {
                vault.seal_text(Place::Operation(to.seq, n), &op.body)
            } else {
                Ok(op.body.to_string())
            }
        });
        let bodies: Vec<String> = bodies.collect::<Result<_, _>>()?;
        let mut lists = ArrayLists::default();
        lists.numbers("tx", ops().map(|_| to.seq));
        lists.numbers("n", (first..).zip(ops()).map(|(n, _)| n));
        lists.numbers("seen", ops().map(|op| op.seen.0));
        lists.texts("place", ops().map(|op| op.place.clone()));
        lists.maybe_texts("id", ops().map(|op| op.row.clone()));
        lists.texts("body", bodies.into_iter());
        let (names, rows) = (lists.names(), lists.rows());
        let insert = format!("INSERT INTO staged_op ({names}) SELECT * FROM {rows}");
        let counted = "UPDATE staged SET count = $2, bytes = $3, updated = $4 WHERE seq = $1";
        let all: Vec<SqlParameter> = vec![
            Box::new(to.seq),
            Box::new(added.count as i64),
            Box::new(added.bytes as i64),
            Box::new(added.now.cut_to_ms().0),
        ];
        let calls = [
            SqlCall::new(insert, lists.into_parameters()),
            SqlCall::new(counted, all),
        ];
        self.session.burst(&calls).map(drop)
    }

    fn end_transaction(
        &self,
        seq: i64,
        status: TransactionStatus,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let ended = "UPDATE staged SET status = $2, updated = $3, keep = expires, bytes = 0 \
                     WHERE seq = $1";
        let all: Vec<SqlParameter> = vec![
            Box::new(seq),
            Box::new(status.as_str()),
            Box::new(now.cut_to_ms().0),
        ];
        let calls = [
            SqlCall::new("DELETE FROM staged_op WHERE tx = $1", vec![Box::new(seq)]),
            SqlCall::new(ended, all),
        ];
        self.session.burst(&calls).map(drop)
    }

    fn remove_transactions(&self, which: GoneTransactions<'_>) -> Result<usize, StoreError> {
        let (sql, all): (_, Vec<SqlParameter>) = match which {
            GoneTransactions::One(seq) => (
                "DELETE FROM staged WHERE seq = $1 RETURNING seq",
                vec![Box::new(seq)],
            ),
            GoneTransactions::KeptUntil(now) => (
                "DELETE FROM staged WHERE seq IN (SELECT seq FROM staged WHERE keep < $1 \
                 ORDER BY keep LIMIT $2) RETURNING seq",
                vec![Box::new(now.0), Box::new(REMOVED_MAX)],
            ),
            GoneTransactions::Ended(project, now) => (
                "DELETE FROM staged WHERE seq IN (SELECT seq FROM staged WHERE project = $1 \
                 AND (status <> $2 OR expires <= $3) ORDER BY seq LIMIT $4) RETURNING seq",
                vec![
                    Box::new(project.to_string()),
                    Box::new(TransactionStatus::Pending.as_str()),
                    Box::new(now.0),
                    Box::new(REMOVED_MAX),
                ],
            ),
        };
        Ok(self.session.call(SqlCall::new(sql, all))?.len())
    }

    fn transaction_count(&self, project: &ProjectId) -> Result<usize, StoreError> {
        let sql = "SELECT count(*) FROM staged WHERE project = $1";
        let all: Vec<SqlParameter> = vec![Box::new(project.to_string())];
        let found = self.session.call(SqlCall::new(sql, all))?;
        let count = found.first().map(|row| row.try_get::<_, i64>(0));
        Ok(count.transpose()?.unwrap_or_default() as usize)
    }

    fn open_count(
        &self,
        of: TransactionOwner<'_>,
        now: Timestamp,
    ) -> Result<HeldShare, StoreError> {
        let sql = format!(
            "SELECT count(*) FILTER (WHERE owner = $3), count(*) FILTER (WHERE {OF_CLASS}), \
             count(*) FROM staged WHERE project = $1 AND status = $2 AND expires > $5"
        );
        self.share(sql, of, vec![Box::new(now.0)])
    }

    fn operation_bytes(&self, of: TransactionOwner<'_>) -> Result<HeldShare, StoreError> {
        let sum = |which: &str| format!("coalesce(sum(bytes){which}, 0)::bigint");
        let sql = format!(
            "SELECT {}, {}, {} FROM staged WHERE project = $1 AND status = $2",
            sum(" FILTER (WHERE owner = $3)"),
            sum(&format!(" FILTER (WHERE {OF_CLASS})")),
            sum(""),
        );
        self.share(sql, of, Vec::new())
    }
}

impl PostgresRows<'_> {
    fn share(
        &self,
        sql: String,
        of: TransactionOwner<'_>,
        further: Vec<SqlParameter>,
    ) -> Result<HeldShare, StoreError> {
        let mut all: Vec<SqlParameter> = vec![
            Box::new(of.project.to_string()),
            Box::new(TransactionStatus::Pending.as_str()),
            Box::new(of.owner.to_owned()),
            Box::new(class_of(of.owner).to_owned()),
        ];
        all.extend(further);
        let found = self.session.call(SqlCall::new(sql, all))?;
        let Some(row) = found.first() else {
            return Ok(HeldShare::default());
        };
        let count = |position| -> Result<usize, StoreError> {
            Ok(row.try_get::<_, i64>(position)? as usize)
        };
        Ok(HeldShare {
            own: count(0)?,
            class: count(1)?,
            all: count(2)?,
        })
    }
}
