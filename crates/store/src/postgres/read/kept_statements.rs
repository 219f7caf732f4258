//! Statements that a connection keeps prepared.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use futures_util::TryStreamExt;
use query::emit;
use tokio_postgres::{Client, Error, RowStream, Statement};

use super::read_halt::{ReadHalt, Step};
use crate::StoreError;
use crate::postgres::cells;

/// Most statements of one connection; the server keeps some ten kilobytes of each.
const STATEMENTS_MAX: usize = 256;
/// A longer text is planned each time: it would take more room than ten of the usual ones.
const KEPT_SQL_MAX: usize = 8 << 10;
/// Longest text of any statement for a query.
const SQL_BYTES_MAX: usize = 128 << 10;
/// Places for texts that were seen once.
const SEEN_PLACES: usize = 256;

/// What is prepared, by its text.
pub(super) struct KeptStatements {
    kept: HashMap<Box<str>, Statement>,
    seen_once: Box<[u64]>,
    hasher: RandomState,
}

/// A statement that is about to run.
pub(super) struct ReadyStatement<'s> {
    statement: &'s emit::Statement,
    kept: Option<Statement>,
}

impl Default for KeptStatements {
    fn default() -> KeptStatements {
        KeptStatements {
            kept: HashMap::new(),
            seen_once: vec![0; SEEN_PLACES].into(),
            hasher: RandomState::new(),
        }
    }
}

impl KeptStatements {
    /// A statement of which there are few, one or two for each table.
    pub(super) async fn keep(&mut self, client: &Client, sql: &str) -> Result<Statement, Error> {
        if let Some(kept) = self.kept.get(sql) {
            return Ok(kept.clone());
        }
        let prepared = client.prepare(sql).await?;
        if self.kept.len() >= STATEMENTS_MAX {
            // All at once: those in use come again.
            self.kept.clear();
        }
        self.kept.insert(sql.into(), prepared.clone());
        Ok(prepared)
    }

    /// A statement whose text a client decides about. It is kept from its second time on.
    pub(super) async fn ready<'s>(
        &mut self,
        client: &Client,
        statement: &'s emit::Statement,
    ) -> Step<ReadyStatement<'s>> {
        let sql = &statement.sql;
        if sql.len() > SQL_BYTES_MAX {
            let bytes_max = SQL_BYTES_MAX;
            return Err(StoreError::QueryTooLong { bytes_max }.into());
        }
        let kept = if self.kept.contains_key(sql.as_str()) || self.is_second(sql) {
            Some(self.keep(client, sql).await?)
        } else {
            None
        };
        Ok(ReadyStatement { statement, kept })
    }

    fn is_second(&mut self, sql: &str) -> bool {
        let name = self.hasher.hash_one(sql);
        let place = &mut self.seen_once[name as usize % SEEN_PLACES];
        let is_second = *place == name;
        *place = name;
        is_second && sql.len() <= KEPT_SQL_MAX
    }

    /// Lets go of all: a plan does not fit what the schema is now.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }
}

impl<'s> ReadyStatement<'s> {
    /// One that is planned for its values and not kept.
    pub(super) fn once(statement: &'s emit::Statement) -> ReadyStatement<'s> {
        let kept = None;
        ReadyStatement { statement, kept }
    }

    /// Sends it when it is first polled, in one message to the server.
    pub(super) async fn run(&self, client: &Client) -> Result<RowStream, Error> {
        let parameters = self.statement.parameters.iter();
        if let Some(kept) = &self.kept {
            return client
                .query_raw(kept, parameters.map(cells::parameter))
                .await;
        }
        let typed = parameters.map(|value| (cells::parameter(value), cells::parameter_type(value)));
        client.query_typed_raw(&self.statement.sql, typed).await
    }

    /// The same, for its one row.
    pub(super) async fn row(&self, client: &Client) -> Step<Option<tokio_postgres::Row>> {
        let mut rows = std::pin::pin!(self.run(client).await?);
        let row = rows.try_next().await?;
        // To the end, where an error may stand. Past the end a stream says that it is closed.
        let mut is_there = row.is_some();
        while is_there {
            is_there = rows.try_next().await?.is_some();
        }
        Ok::<_, ReadHalt>(row)
    }
}
