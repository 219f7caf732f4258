//! Reading what belongs to functions.

use std::path::PathBuf;

use model::{ProjectId, Timestamp};

use super::Readers;
use crate::sqlite::schema::{stored_events, stored_executions, stored_functions, stored_queue};
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
        self.look(|connection| {
            let named = (function, reveals);
            Ok(stored_functions::variables(connection, vault, named)?)
        })
    }

    /// What [`crate::StoreFunctions::deployments`] promises. A function has few.
    pub(in crate::sqlite) fn deployments(
        &self,
        function: i64,
    ) -> Result<Vec<Deployment>, StoreError> {
        self.look(|connection| Ok(stored_functions::deployments(connection, function)?))
    }

    /// What [`crate::StoreFunctions::latest_deployment`] promises.
    pub(in crate::sqlite) fn latest_deployment(
        &self,
        function: i64,
    ) -> Result<Option<Deployment>, StoreError> {
        self.look(|connection| Ok(stored_functions::latest_deployment(connection, function)?))
    }

    /// What [`crate::StoreFunctions::piece`] promises.
    pub(in crate::sqlite) fn piece(
        &self,
        deployment: i64,
        part: ArchivePart,
        from: u64,
    ) -> Result<Option<ArchivePiece>, StoreError> {
        self.look(|connection| {
            let named = (deployment, part);
            Ok(stored_functions::piece(connection, named, from)?)
        })
    }

    /// What [`crate::StoreFunctions::source_extents`] promises.
    pub(in crate::sqlite) fn source_extents(
        &self,
        deployment: i64,
    ) -> Result<Vec<(u64, u64)>, StoreError> {
        let part = ArchivePart::Source;
        self.look(|connection| Ok(stored_functions::extents(connection, deployment, part)?))
    }

    /// What [`crate::StoreExecutions::executions`] promises.
    pub(in crate::sqlite) fn executions(
        &self,
        function: i64,
    ) -> Result<Vec<ExecutionRecord>, StoreError> {
        self.look(|connection| Ok(stored_executions::executions(connection, function)?))
    }

    /// What [`crate::StoreExecutions::execution`] promises.
    pub(in crate::sqlite) fn execution(
        &self,
        function: i64,
        id: &str,
    ) -> Result<Option<ExecutionRecord>, StoreError> {
        self.look(|connection| Ok(stored_executions::execution(connection, function, id)?))
    }

    /// What [`crate::StoreExecutions::queued_executions`] promises. A project has few thousands.
    pub(in crate::sqlite) fn queued_executions(
        &self,
        function: i64,
    ) -> Result<Vec<QueuedExecution>, StoreError> {
        self.look(|connection| Ok(stored_queue::of_function(connection, function)?))
    }

    /// What [`crate::StoreExecutions::queued_execution`] promises.
    pub(in crate::sqlite) fn queued_execution(
        &self,
        function: i64,
        id: &str,
    ) -> Result<Option<QueuedExecution>, StoreError> {
        self.look(|connection| Ok(stored_queue::of_id(connection, function, id)?))
    }

    /// What [`crate::StoreExecutions::due_executions`] promises.
    pub(in crate::sqlite) fn due_executions(
        &self,
        now: Timestamp,
        except: &[i64],
        limit: usize,
    ) -> Result<Vec<(i64, QueuedExecution)>, StoreError> {
        self.look(|connection| Ok(stored_queue::due(connection, now, except, limit)?))
    }

    /// What [`crate::StoreExecutions::schedule_minute`] promises.
    pub(in crate::sqlite) fn schedule_minute(
        &self,
        function: i64,
    ) -> Result<Option<Timestamp>, StoreError> {
        self.look(|connection| Ok(stored_queue::schedule_minute(connection, function)?))
    }

    /// What [`crate::StoreExecutions::changed_rows`] promises.
    pub(in crate::sqlite) fn changed_rows(
        &self,
        of: Option<&ProjectId>,
        limit: usize,
    ) -> Result<Option<ChangedRows>, StoreError> {
        self.look(|connection| Ok(stored_events::changed_rows(connection, of, limit)?))
    }

    /// What [`crate::StoreExecutions::queued_call`] promises.
    pub(in crate::sqlite) fn queued_call(
        &self,
        function: i64,
        seq: i64,
    ) -> Result<Option<(QueuedExecution, QueuedCall)>, StoreError> {
        let vault = &self.shared.coding.variables;
        self.look(|connection| Ok(stored_queue::call(connection, vault, (function, seq))?))
    }

    /// What [`crate::StoreFunctions::next_build`] promises.
    pub(in crate::sqlite) fn next_build(&self) -> Result<Option<(i64, Deployment)>, StoreError> {
        self.look(|connection| Ok(stored_functions::next_build(connection)?))
    }
}
