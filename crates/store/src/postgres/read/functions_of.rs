//! What belongs to functions, and their executions.

use std::path::PathBuf;

use model::{ProjectId, Timestamp};
use query::Dialect;

use super::lending::LentConnection;
use super::stored_reads::{all, first};
use super::{DatabaseRead, DatabaseReads, ReadFuture, ReadPace, SharedReads, snapshot};
use crate::stored::events::{self, ChangesBetween};
use crate::stored::{deployments, executions, queue, variables};
use crate::{
    ArchivePart, ArchivePiece, ChangedRows, Deployment, ExecutionRecord, QueuedCall,
    QueuedExecution, StoreError, StoreExecutions, StoreFunctions, StoreFuture, Variable,
};

impl DatabaseReads {
    fn opened_variables(&self, function: i64, reveals: bool) -> StoreFuture<'_, Vec<Variable>> {
        Box::pin(async move {
            let found = self.run(variables::of_function(function), false).await?;
            variables::opened(found, &self.shared.keys.variables, (function, reveals))
        })
    }

    /// Finds that the key of functions is another one than what has sealed what is stored.
    async fn need_functions_key(&self) -> Result<(), StoreError> {
        let vault = &self.shared.keys.variables;
        if !vault.is_proven() {
            let values = self.run(variables::newest(), false).await?;
            let calls = self.run(queue::newest_calls(), false).await?;
            variables::prove_key(vault, &values, &calls)?;
        }
        Ok(())
    }
}

impl StoreFunctions for DatabaseReads {
    fn variables(&self, function: i64) -> StoreFuture<'_, Vec<Variable>> {
        self.opened_variables(function, false)
    }

    fn name_variables_key(&self, file: PathBuf) {
        self.shared.keys.variables.name(file);
    }

    fn revealed_variables(&self, function: i64) -> StoreFuture<'_, Vec<Variable>> {
        self.opened_variables(function, true)
    }

    fn deployments(&self, function: i64) -> StoreFuture<'_, Vec<Deployment>> {
        self.run(deployments::of_function(function), false)
    }

    fn latest_deployment(&self, function: i64) -> StoreFuture<'_, Option<Deployment>> {
        self.first(deployments::latest(function))
    }

    fn piece(
        &self,
        deployment: i64,
        part: ArchivePart,
        from: u64,
    ) -> StoreFuture<'_, Option<ArchivePiece>> {
        match deployments::piece(deployment, part, from) {
            Some(read) => self.first(read),
            None => Box::pin(std::future::ready(Ok(None))),
        }
    }

    fn source_extents(&self, deployment: i64) -> StoreFuture<'_, Vec<(u64, u64)>> {
        self.run(deployments::source_extents(deployment), false)
    }

    fn next_build<'a>(&'a self, except: &'a [i64]) -> StoreFuture<'a, Option<(i64, Deployment)>> {
        self.first(deployments::next_build(Dialect::Postgres, except))
    }
}

/// The next changes of rows behind a cursor, on one snapshot.
struct ChangesOf {
    of: Option<ProjectId>,
    limit: usize,
}

impl DatabaseRead for ChangesOf {
    type Answer = Option<ChangedRows>;

    fn may_be_short(&self) -> bool {
        true
    }

    fn read<'a>(
        &'a self,
        _: &'a SharedReads,
        lent: &'a mut LentConnection,
        _: ReadPace,
    ) -> ReadFuture<'a, Option<ChangedRows>> {
        Box::pin(async move {
            lent.begin();
            let (client, kept) = lent.parts();
            snapshot::begin_unstamped(client).await?;
            let front = first(client, kept, &events::front()).await?;
            let bounds = match (&self.of, front) {
                (_, None) => None,
                (None, Some(front)) => Some((front, None)),
                (Some(project), Some(front)) => {
                    let own = first(client, kept, &events::own(project)).await?;
                    own.map(|own| (own, Some(front)))
                }
            };
            let mut changed = None;
            if let Some((from, until)) = bounds {
                let limit = self.limit;
                let between = ChangesBetween { from, until, limit };
                let rows = all(client, kept, &between.rows(Dialect::Postgres)).await?;
                let apart = all(client, kept, &events::apart()).await?;
                let listening = all(client, kept, &events::listening()).await?;
                changed = Some(between.changed(rows, apart, listening));
            }
            snapshot::end(client).await?;
            lent.end();
            Ok(changed)
        })
    }
}

impl StoreExecutions for DatabaseReads {
    fn queued_executions(&self, function: i64) -> StoreFuture<'_, Vec<QueuedExecution>> {
        self.run(queue::of_function(function), false)
    }

    fn queued_execution<'a>(
        &'a self,
        function: i64,
        id: &'a str,
    ) -> StoreFuture<'a, Option<QueuedExecution>> {
        self.first(queue::of_id(function, id))
    }

    fn due_executions<'a>(
        &'a self,
        now: Timestamp,
        except: &'a [i64],
        limit: usize,
    ) -> StoreFuture<'a, Vec<(i64, QueuedExecution)>> {
        self.run(queue::due(Dialect::Postgres, now, except, limit), false)
    }

    fn schedule_minute(&self, function: i64) -> StoreFuture<'_, Option<Timestamp>> {
        self.first(queue::schedule_minute(function))
    }

    fn changed_rows<'a>(
        &'a self,
        of: Option<&'a ProjectId>,
        limit: usize,
    ) -> StoreFuture<'a, Option<ChangedRows>> {
        let of = of.cloned();
        self.run(ChangesOf { of, limit }, false)
    }

    fn queued_call(
        &self,
        function: i64,
        seq: i64,
    ) -> StoreFuture<'_, Option<(QueuedExecution, QueuedCall)>> {
        Box::pin(async move {
            let Some(found) = self.first(queue::with_call(function, seq)).await? else {
                return Ok(None);
            };
            let call = queue::opened_call(&self.shared.keys.variables, function, &found);
            if matches!(call, Err(StoreError::SealBroken { .. })) {
                // Not this one alone, if the key is another one.
                self.need_functions_key().await?;
            }
            Ok(Some((found.0, call?)))
        })
    }

    fn executions(&self, function: i64) -> StoreFuture<'_, Vec<ExecutionRecord>> {
        Box::pin(async move {
            let mut newest = self.run(executions::newest(function), false).await?;
            newest.reverse();
            Ok(newest)
        })
    }

    fn execution<'a>(
        &'a self,
        function: i64,
        id: &'a str,
    ) -> StoreFuture<'a, Option<ExecutionRecord>> {
        self.first(executions::of_id(function, id))
    }
}
