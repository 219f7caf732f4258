//! Reading what belongs to functions.

use std::path::PathBuf;

use model::{ProjectId, Timestamp};
use query::Dialect;

use super::Readers;
use crate::sqlite::schema::functions_key::need_functions_key;
use crate::sqlite::schema::stored_reads::{all, first};
use crate::stored::events::{self, ChangesBetween};
use crate::stored::read::StoredRead;
use crate::stored::{deployments, executions, queue, variables};
use crate::{
    ArchivePart, ArchivePiece, ChangedRows, Deployment, ExecutionRecord, QueuedCall,
    QueuedExecution, StoreError, Variable,
};

impl Readers {
    /// See [`crate::StoreFunctions::name_variables_key`]. The writer has the same.
    pub(in crate::sqlite) fn name_variables_key(&self, file: PathBuf) {
        self.shared.coding.variables.name(file);
    }

    /// What [`crate::StoreFunctions::variables`] promises, and what
    /// [`crate::StoreFunctions::revealed_variables`] does. A function has few.
    pub(in crate::sqlite) fn variables(
        &self,
        function: i64,
        reveals: bool,
    ) -> Result<Vec<Variable>, StoreError> {
        let vault = &self.shared.coding.variables;
        let found = self.all(&variables::of_function(function))?;
        variables::opened(found, vault, (function, reveals))
    }

    /// What [`crate::StoreFunctions::deployments`] promises. A function has few.
    pub(in crate::sqlite) fn deployments(
        &self,
        function: i64,
    ) -> Result<Vec<Deployment>, StoreError> {
        self.all(&deployments::of_function(function))
    }

    /// What [`crate::StoreFunctions::latest_deployment`] promises.
    pub(in crate::sqlite) fn latest_deployment(
        &self,
        function: i64,
    ) -> Result<Option<Deployment>, StoreError> {
        self.first(&deployments::latest(function))
    }

    /// What [`crate::StoreFunctions::piece`] promises.
    pub(in crate::sqlite) fn piece(
        &self,
        deployment: i64,
        part: ArchivePart,
        from: u64,
    ) -> Result<Option<ArchivePiece>, StoreError> {
        match deployments::piece(deployment, part, from) {
            Some(read) => self.first(&read),
            None => Ok(None),
        }
    }

    /// What [`crate::StoreFunctions::source_extents`] promises.
    pub(in crate::sqlite) fn source_extents(
        &self,
        deployment: i64,
    ) -> Result<Vec<(u64, u64)>, StoreError> {
        self.all(&deployments::source_extents(deployment))
    }

    /// What [`crate::StoreExecutions::executions`] promises.
    pub(in crate::sqlite) fn executions(
        &self,
        function: i64,
    ) -> Result<Vec<ExecutionRecord>, StoreError> {
        let mut newest = self.all(&executions::newest(function))?;
        newest.reverse();
        Ok(newest)
    }

    /// What [`crate::StoreExecutions::execution`] promises.
    pub(in crate::sqlite) fn execution(
        &self,
        function: i64,
        id: &str,
    ) -> Result<Option<ExecutionRecord>, StoreError> {
        self.first(&executions::of_id(function, id))
    }

    /// What [`crate::StoreExecutions::queued_executions`] promises. A project has few thousands.
    pub(in crate::sqlite) fn queued_executions(
        &self,
        function: i64,
    ) -> Result<Vec<QueuedExecution>, StoreError> {
        self.all(&queue::of_function(function))
    }

    /// What [`crate::StoreExecutions::queued_execution`] promises.
    pub(in crate::sqlite) fn queued_execution(
        &self,
        function: i64,
        id: &str,
    ) -> Result<Option<QueuedExecution>, StoreError> {
        self.first(&queue::of_id(function, id))
    }

    /// What [`crate::StoreExecutions::due_executions`] promises.
    pub(in crate::sqlite) fn due_executions(
        &self,
        now: Timestamp,
        except: &[i64],
        limit: usize,
    ) -> Result<Vec<(i64, QueuedExecution)>, StoreError> {
        self.all(&queue::due(Dialect::Sqlite, now, except, limit))
    }

    /// What [`crate::StoreExecutions::schedule_minute`] promises.
    pub(in crate::sqlite) fn schedule_minute(
        &self,
        function: i64,
    ) -> Result<Option<Timestamp>, StoreError> {
        self.first(&queue::schedule_minute(function))
    }

    /// What [`crate::StoreExecutions::changed_rows`] promises.
    pub(in crate::sqlite) fn changed_rows(
        &self,
        of: Option<&ProjectId>,
        limit: usize,
    ) -> Result<Option<ChangedRows>, StoreError> {
        self.look(|connection| {
            let Some(front) = first(connection, &events::front())? else {
                return Ok(None);
            };
            let (from, until) = match of {
                None => (front, None),
                Some(project) => match first(connection, &events::own(project))? {
                    Some(own) => (own, Some(front)),
                    None => return Ok(None),
                },
            };
            let between = ChangesBetween { from, until, limit };
            let rows = all(connection, &between.rows(Dialect::Sqlite))?;
            let apart = all(connection, &events::apart())?;
            let listening = all(connection, &events::listening())?;
            Ok(Some(between.changed(rows, apart, listening)))
        })
    }

    /// What [`crate::StoreExecutions::queued_call`] promises.
    pub(in crate::sqlite) fn queued_call(
        &self,
        function: i64,
        seq: i64,
    ) -> Result<Option<(QueuedExecution, QueuedCall)>, StoreError> {
        let vault = &self.shared.coding.variables;
        self.look(|connection| {
            let Some(found) = first(connection, &queue::with_call(function, seq))? else {
                return Ok(None);
            };
            let call = queue::opened_call(vault, function, &found);
            if matches!(call, Err(StoreError::SealBroken { .. })) {
                // Not this one alone, if the key is another one.
                need_functions_key(connection, vault)?;
            }
            Ok(Some((found.0, call?)))
        })
    }

    /// What [`crate::StoreFunctions::next_build`] promises.
    pub(in crate::sqlite) fn next_build(
        &self,
        except: &[i64],
    ) -> Result<Option<(i64, Deployment)>, StoreError> {
        self.first(&deployments::next_build(Dialect::Sqlite, except))
    }

    /// What all rows of a statement are.
    pub(super) fn all<T>(&self, read: &StoredRead<T>) -> Result<Vec<T>, StoreError> {
        self.look(|connection| Ok(all(connection, read)?))
    }

    /// What the first row of a statement is, if there is one.
    pub(super) fn first<T>(&self, read: &StoredRead<T>) -> Result<Option<T>, StoreError> {
        self.look(|connection| Ok(first(connection, read)?))
    }
}
