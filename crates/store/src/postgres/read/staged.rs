//! Transactions of clients, the requests that ran, and what a store holds.

use model::{ProjectId, TableNumber};
use query::Dialect;

use super::lending::LentConnection;
use super::stored_reads::{all, first};
use super::{DatabaseRead, DatabaseReads, ReadFuture, ReadPace, SharedReads, snapshot};
use crate::stored::read::StoredRead;
use crate::stored::row::int;
use crate::stored::transactions::{self, StoredOperation};
use crate::stored::usage;
use crate::{
    Counts, KeptRequest, OpenTransactions, OperationsOf, Staged, StoreFuture, StoreTransactions,
    StoreUsage, Transaction,
};

/// Bytes of the files of all tables with their indexes.
const DATA_BYTES: &str = "SELECT CAST(coalesce(sum(pg_total_relation_size(oid)), 0) AS bigint) \
                          FROM pg_class WHERE relnamespace = current_schema()::regnamespace \
                          AND relkind = 'r'";

/// A transaction with operations of it, on one snapshot.
struct TransactionWith {
    project: ProjectId,
    id: String,
    operations: OperationsWanted,
}

enum OperationsWanted {
    Nothing,
    Everything,
    Places(Vec<String>),
}

impl DatabaseRead for TransactionWith {
    type Answer = Option<(Transaction, Vec<StoredOperation>)>;

    fn may_be_short(&self) -> bool {
        true
    }

    fn read<'a>(
        &'a self,
        _: &'a SharedReads,
        lent: &'a mut LentConnection,
        _: ReadPace,
    ) -> ReadFuture<'a, Self::Answer> {
        Box::pin(async move {
            lent.begin();
            let (client, kept) = lent.parts();
            snapshot::begin_unstamped(client).await?;
            let read = transactions::of_id(&self.project, &self.id);
            let found = first(client, kept, &read).await?;
            let places = match &self.operations {
                OperationsWanted::Nothing => None,
                OperationsWanted::Everything => Some(None),
                OperationsWanted::Places(places) => Some(Some(places.as_slice())),
            };
            let mut staged = Vec::new();
            if let (Some(found), Some(places)) = (&found, places) {
                let read = transactions::operations(Dialect::Postgres, found.seq, places);
                staged = all(client, kept, &read).await?;
            }
            snapshot::end(client).await?;
            lent.end();
            Ok(found.map(|found| (found, staged)))
        })
    }
}

impl StoreTransactions for DatabaseReads {
    fn transactions<'a>(&'a self, project: &'a ProjectId) -> StoreFuture<'a, Vec<Transaction>> {
        self.run(transactions::of_project(project), false)
    }

    fn transaction<'a>(
        &'a self,
        project: &'a ProjectId,
        id: &'a str,
        operations: OperationsOf<'a>,
    ) -> StoreFuture<'a, Option<Staged>> {
        let read = TransactionWith {
            project: project.clone(),
            id: id.to_owned(),
            operations: match operations {
                OperationsOf::Nothing => OperationsWanted::Nothing,
                OperationsOf::Everything => OperationsWanted::Everything,
                OperationsOf::Places(places) => OperationsWanted::Places(places.to_vec()),
            },
        };
        Box::pin(async move {
            let Some((found, staged)) = self.run(read, false).await? else {
                return Ok(None);
            };
            let staged = transactions::opened(staged, &self.shared.keys.values, found.seq)?;
            Ok(Some((found, staged)))
        })
    }

    fn kept_request<'a>(
        &'a self,
        project: &'a ProjectId,
        key: &'a str,
    ) -> StoreFuture<'a, Option<KeptRequest>> {
        Box::pin(async move {
            let found = self.first(transactions::request(project, key)).await?;
            let open = |stored: transactions::StoredRequest| {
                stored.open(&self.shared.keys.values, (project, key))
            };
            found.map(open).transpose()
        })
    }
}

impl StoreUsage for DatabaseReads {
    fn data_bytes(&self) -> StoreFuture<'_, u64> {
        let read: StoredRead<u64> = StoredRead {
            sql: DATA_BYTES.to_owned(),
            parameters: Vec::new(),
            read: |row| Ok(int(row, 0)?.unsigned_abs()),
        };
        Box::pin(async move { Ok(self.first(read).await?.unwrap_or_default()) })
    }

    fn table_bytes(&self) -> StoreFuture<'_, Vec<(TableNumber, u64)>> {
        Box::pin(async move {
            let tables = self.run(usage::table_bytes(), false).await?.into_iter();
            Ok(tables
                .map(|(table, bytes)| (table, bytes.unsigned_abs()))
                .collect())
        })
    }

    fn open_transactions(&self) -> StoreFuture<'_, OpenTransactions> {
        Box::pin(async move {
            let read = usage::open_transactions(Dialect::Postgres);
            Ok(self.first(read).await?.unwrap_or_default())
        })
    }

    fn kept_answer_bytes(&self) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let kept = self.first(usage::kept_answer_bytes()).await?;
            Ok(kept.unwrap_or_default())
        })
    }

    fn counts(&self) -> Counts {
        Counts {
            // Its log is the server's own.
            log_backlog_bytes: 0,
            damaged: self.shared.keys.values.broken_count(),
            long_reads: self.pool.counts(),
            // Those of the writer are counted with it.
            database: None,
        }
    }
}
