//! Reading what belongs to functions.

use super::Readers;
use crate::sqlite::schema::{stored_executions, stored_functions};
use crate::{ArchivePart, ArchivePiece, Deployment, ExecutionRecord, StoreError, Variable};

impl Readers {
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

    /// What [`crate::StoreFunctions::next_build`] promises.
    pub(in crate::sqlite) fn next_build(&self) -> Result<Option<(i64, Deployment)>, StoreError> {
        self.look(|connection| Ok(stored_functions::next_build(connection)?))
    }
}
