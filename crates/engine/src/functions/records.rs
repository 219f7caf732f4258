//! Records of executions: kept for callers with a key, who list, read and delete them.

use std::collections::HashSet;
use std::sync::Arc;

use model::{Function, Scope, Timestamp, Value};
use store::{ExecutionRecord, FunctionName, FunctionOp};

use super::named;
use super::queue::name_of;
use crate::Engine;
use crate::error::refused::shown;
use crate::error::{AccessError, EngineError, FunctionError, ReadError};
use crate::read::offload::at_once;
use crate::request::authorize;
use crate::request::inputs::{Caller, ListContainers, Listed};
use crate::schema::listing::{self, EXECUTIONS, Listable, no_such_attribute};
use crate::state::shared::Shared;

/// Functions that one commit looks through for old records.
const TRIMMED_AT_ONCE: usize = 256;
const READ: &[Scope] = &[Scope::ExecutionsRead];
const DELETE: &[Scope] = &[Scope::ExecutionsWrite];

impl Engine {
    /// Keeps records of executions, each with its function as of its start; those of functions that
    /// are gone are passed over. `Ok` means they are durable.
    ///
    /// # Errors
    /// What the store says; a quota that is reached.
    pub async fn keep_executions(
        &self,
        records: Vec<(Arc<Function>, ExecutionRecord)>,
    ) -> Result<(), EngineError> {
        let kept = records
            .into_iter()
            .map(|(function, record)| (name_of(&function), function.seq, record));
        let op = FunctionOp::KeepExecutions(kept.collect());
        self.change_function(None, op).await
    }

    /// Lets go of the records that functions keep no longer, whether or not they are executed: the
    /// upkeep removes them. There is no caller: the server does it by itself.
    ///
    /// # Errors
    /// What the store says.
    pub async fn trim_executions(&self) -> Result<(), EngineError> {
        let functions = self.functions_by_seq();
        let functions = functions.into_iter();
        let named: Vec<(FunctionName, i64)> = functions
            .map(|(seq, function)| (name_of(&function), seq))
            .collect();
        for some in named.chunks(TRIMMED_AT_ONCE) {
            let op = FunctionOp::TrimExecutions(some.into());
            self.change_function(None, op).await?;
        }
        Ok(())
    }

    /// The records of a function in the order in which they were kept. Callers without a key have
    /// none: what guests executed has no owner.
    ///
    /// # Errors
    /// [`FunctionError::NotFound`]; [`ReadError::Query`] for a query that is not understood here;
    /// [`ReadError::AnswerTooLarge`] when the records of a page are too many bytes.
    pub async fn list_executions(
        &self,
        caller: &Caller,
        function: &str,
        request: ListContainers<'_>,
    ) -> Result<Listed<ExecutionRecord>, EngineError> {
        let function = self.readable(caller, function)?;
        let of_guest = !caller.actor.bypasses_grants();
        let all = if of_guest {
            Vec::new()
        } else {
            let (shared, seq, now) = (self.shared.clone(), function.seq, self.now());
            // What waits is read first: it may end meanwhile, and stands in one of both at least.
            let read = move || at_once(all_of(&shared, seq, now));
            let read = self.offload(usize::MAX, of_guest, read).await?;
            read.unwrap_or(Err(store::StoreError::Interrupted))?
        };
        let page = listing::page(all, &EXECUTIONS, request, self.limits)?;
        let (mut items, mut bytes) = (Vec::with_capacity(page.items.len()), 0);
        let bytes_max = self.answer_bytes_max;
        for head in page.items {
            // One that went meanwhile is left out.
            let found = self.execution_of(&function, &head.id).await?;
            bytes += found.as_ref().map_or(0, ExecutionRecord::size_bytes);
            if bytes > bytes_max {
                return Err(ReadError::AnswerTooLarge { bytes_max }.into());
            }
            items.extend(found);
        }
        Ok(Listed {
            total: page.total,
            items,
        })
    }

    /// The record of an execution.
    ///
    /// # Errors
    /// [`FunctionError::NotFound`], [`FunctionError::ExecutionNotFound`]: also for callers without
    /// a key.
    pub async fn get_execution(
        &self,
        caller: &Caller,
        function: &str,
        id: &str,
    ) -> Result<ExecutionRecord, EngineError> {
        let function = self.readable(caller, function)?;
        let missing = || EngineError::from(FunctionError::ExecutionNotFound(shown(id)));
        if !caller.actor.bypasses_grants() {
            return Err(missing());
        }
        self.execution_of(&function, id).await?.ok_or_else(missing)
    }

    /// One that waits, or runs from the queue, or has ended.
    async fn execution_of(
        &self,
        function: &Function,
        id: &str,
    ) -> Result<Option<ExecutionRecord>, EngineError> {
        let store = &self.shared.store;
        // In this order: it may end meanwhile.
        if let Some(queued) = store.queued_execution(function.seq, id).await? {
            return Ok(Some(queued.record(self.now())));
        }
        Ok(store.execution(function.seq, id).await?)
    }

    /// Deletes an execution that waits, or the record of one that has ended.
    ///
    /// # Errors
    /// [`FunctionError::NotFound`], [`FunctionError::ExecutionNotFound`];
    /// [`FunctionError::InProgress`] while it runs.
    pub async fn delete_execution(
        &self,
        caller: &Caller,
        function: &str,
        id: &str,
    ) -> Result<(), EngineError> {
        authorize::need_key(caller, DELETE)?;
        let function = self.find_function(caller, function)?;
        if self.execution_of(&function, id).await?.is_none() {
            return Err(FunctionError::ExecutionNotFound(shown(id)).into());
        }
        let op = FunctionOp::DeleteExecution {
            function: named(caller, function.id.clone()),
            id: id.to_owned(),
        };
        self.change_function(Some(caller), op).await
    }

    /// A function that the caller knows of: by a key, or by a role that may execute it.
    fn readable(&self, caller: &Caller, id: &str) -> Result<Arc<Function>, EngineError> {
        if caller.actor.bypasses_grants() {
            authorize::need_key(caller, READ)?;
            return self.find_function(caller, id);
        }
        let function = self.find_function(caller, id)?;
        let definition = &function.definition;
        if !definition.enabled {
            return Err(FunctionError::NotFound(shown(id)).into());
        }
        let roles = caller.actor.roles();
        if definition.execute.iter().any(|role| roles.holds(role)) {
            return Ok(function);
        }
        Err(AccessError::Unauthorized.into())
    }
}

/// The newest records of a function, and what waits of it behind them.
async fn all_of(
    shared: &Shared,
    function: i64,
    now: Timestamp,
) -> Result<Vec<ExecutionRecord>, store::StoreError> {
    let queued = shared.store.queued_executions(function).await?;
    let mut all = shared.store.executions(function).await?;
    let newest = all.last().map_or(0, |record| record.seq);
    let known: HashSet<String> = queued.iter().map(|one| one.id.clone()).collect();
    all.retain(|record| !known.contains(&record.id));
    // The order of a list goes on behind that of the records.
    let behind = queued.iter().zip(newest + 1..);
    all.extend(behind.map(|(one, seq)| ExecutionRecord {
        seq,
        ..one.record(now)
    }));
    Ok(all)
}

impl Listable for ExecutionRecord {
    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        &self.path
    }

    fn sequence(&self) -> i64 {
        self.seq
    }

    fn times(&self) -> (Timestamp, Timestamp) {
        (self.created, self.updated)
    }

    fn attribute(&self, position: usize) -> Value {
        match position {
            0 => Value::Text(self.trigger.as_str().to_owned()),
            1 => Value::Text(self.status.as_str().to_owned()),
            2 => Value::Int(i64::from(self.response_status)),
            3 => Value::Float(self.duration_us as f64 / 1e6),
            4 => Value::Text(self.method.clone()),
            5 => Value::Text(self.path.clone()),
            6 => Value::Text(self.deployment.to_string()),
            other => no_such_attribute(other),
        }
    }
}
