//! Executions for which no caller waits: queued by callers, started under leases, and ended once.
//!
//! Each runs at least once after it was accepted, and is started three times at most. Executing is
//! not done here.

use std::collections::HashMap;
use std::sync::Arc;
#[cfg(feature = "test-switches")]
use std::sync::atomic::Ordering;

use model::{Function, ProjectId, Timestamp};
use store::{
    ExecutionRecord, ExecutionStatus, ExecutionTrigger, FunctionName, FunctionOp, Headers,
    NewExecution, QUEUED_BYTES_MAX, QUEUED_MAX, QueueBounds, QueueOp, QueuedCall, QueuedExecution,
    StoreError,
};

use crate::Engine;
use crate::error::{EngineError, FunctionError};
use crate::request::inputs::Caller;
use crate::state::shared::Shared;

/// No one else starts an execution for so long after it was started or renewed, in microseconds
/// (wire protocol, queue).
pub const LEASE_US: i64 = 30_000_000;
/// Starts of one execution (wire protocol, queue).
pub const STARTS_MAX: u32 = 3;
/// Callers without a key fill so much of the queue, 1 / this, and no more.
const GUESTS_PART: u64 = 2;
const NEVER_ENDED: &str =
    "The execution was started three times, and none of them came to its end.";

/// An execution that is to be queued.
#[derive(Clone, Debug)]
pub struct QueuedRequest {
    /// Its id.
    pub id: String,
    /// Why it is executed.
    pub trigger: ExecutionTrigger,
    /// When its caller wants it to be started; `None` for soon.
    pub due: Option<Timestamp>,
    /// The method that the handler sees.
    pub method: String,
    /// The path that it sees.
    pub path: String,
    /// The headers that it sees, but for those that each start has of its own.
    pub headers: Headers,
    /// The body that it sees.
    pub body: Arc<[u8]>,
    /// How many executions stand behind it.
    pub depth: u8,
}

/// An execution that was started, and whose lease is held.
#[derive(Clone, Debug)]
pub struct StartedExecution {
    /// Its function, as of now.
    pub function: Arc<Function>,
    /// What is known of it; this start is counted.
    pub queued: QueuedExecution,
    /// What its handler is given.
    pub call: QueuedCall,
}

impl Engine {
    /// Queues an execution of a function that the caller may execute. `Ok` means that it is on
    /// disk: it will be started, whatever becomes of this process.
    ///
    /// # Errors
    /// [`FunctionError::QueueFull`]; [`FunctionError::NotFound`] when the function has gone;
    /// [`FunctionError::NoActiveDeployment`].
    pub async fn queue_execution(
        &self,
        caller: &Caller,
        function: &Arc<Function>,
        request: QueuedRequest,
    ) -> Result<ExecutionRecord, EngineError> {
        let part = if caller.is_guest() { GUESTS_PART } else { 1 };
        let bounds = QueueBounds {
            count_max: QUEUED_MAX / part,
            bytes_max: QUEUED_BYTES_MAX / part,
        };
        let now = self.now();
        let new = new_execution(function, request, now)?;
        let record = new.queued.record(now);
        let id = record.id.clone();
        let op = QueueOp::Put(Arc::from([new]), bounds);
        self.change_function(Some(caller), FunctionOp::Queue(op))
            .await?;
        let queued = self.shared.store.queued_execution(function.seq, &id);
        match queued.await? {
            Some(queued) => Ok(queued.record(now)),
            // It has ended already, or its function has gone.
            None => match self.shared.store.execution(function.seq, &id).await? {
                Some(_) => Ok(record),
                None => Err(FunctionError::NotFound(function.id.to_string()).into()),
            },
        }
    }

    /// Whether an execution of this function, by [`Function::seq`], waits or runs without a caller.
    ///
    /// # Errors
    /// What the store says.
    pub async fn has_queued(&self, function: i64, id: &str) -> Result<bool, EngineError> {
        let queued = self.shared.store.queued_execution(function, id);
        Ok(queued.await?.is_some())
    }

    /// Starts what is due, at most so many, and none of the functions `except`, by
    /// [`Function::seq`], nor of those without a deployment. Each is under a lease when this
    /// returns; one that was started as often as may be has failed instead. What cannot be given to
    /// its handler any more fails, too.
    ///
    /// # Errors
    /// What the store says: then what was leased starts again when its lease has ended. Without the
    /// key that has sealed them, they wait for it.
    pub async fn start_executions(
        &self,
        except: &[i64],
        limit: usize,
    ) -> Result<Vec<StartedExecution>, EngineError> {
        let now = self.now();
        let functions = self.functions_by_seq();
        // What has no deployment waits until it has one.
        let resting = functions
            .values()
            .filter(|function| function.active.is_none());
        let mut passed: Vec<i64> = resting.map(|function| function.seq).collect();
        passed.extend(except);
        let due = self
            .shared
            .store
            .due_executions(now, &passed, limit)
            .await?;
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let mut starting = Vec::with_capacity(due.len());
        for (seq, queued) in due {
            // It goes with its function.
            let Some(function) = functions.get(&seq) else {
                continue;
            };
            if queued.attempt >= starts_max(&self.shared) {
                let record = failed_execution(&queued, now, NEVER_ENDED);
                self.end_execution(function, queued.seq, record).await?;
            } else {
                starting.push((function.clone(), queued.seq));
            }
        }
        if starting.is_empty() {
            return Ok(Vec::new());
        }
        let op = QueueOp::Start {
            seqs: starting.iter().map(|(_, seq)| *seq).collect(),
            now,
            until: Timestamp(now.0 + LEASE_US),
        };
        self.change_function(None, FunctionOp::Queue(op)).await?;
        let mut started = Vec::with_capacity(starting.len());
        for (function, seq) in &starting {
            match self.started(function.clone(), *seq).await {
                Ok(one) => started.extend(one),
                Err(error) => {
                    if is_about_key(&error) {
                        // It can be put back. Till then none can be started, so none has been.
                        for (_, seq) in &starting {
                            self.return_execution(*seq, false).await?;
                        }
                    }
                    return Err(error);
                }
            }
        }
        Ok(started)
    }

    /// An execution that was just leased; `None` where it was deleted before that.
    async fn started(
        &self,
        function: Arc<Function>,
        seq: i64,
    ) -> Result<Option<StartedExecution>, EngineError> {
        let found = self.shared.store.queued_call(function.seq, seq).await;
        match found {
            Ok(Some((queued, call))) if queued.lease.is_some() => Ok(Some(StartedExecution {
                function,
                queued,
                call,
            })),
            Ok(_) => Ok(None),
            Err(error @ StoreError::SealBroken { .. }) => {
                let all = self.shared.store.queued_executions(function.seq).await?;
                if let Some(queued) = all.into_iter().find(|queued| queued.seq == seq) {
                    let why = format!("What its handler is given cannot be read: {error}");
                    let record = failed_execution(&queued, self.now(), &why);
                    self.end_execution(&function, seq, record).await?;
                }
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Holds on to executions that go on, by [`QueuedExecution::seq`].
    ///
    /// # Errors
    /// What the store says.
    pub async fn renew_leases(&self, seqs: Vec<i64>) -> Result<(), EngineError> {
        let until = Timestamp(self.now().0 + LEASE_US);
        let op = QueueOp::Renew { seqs, until };
        self.change_function(None, FunctionOp::Queue(op)).await
    }

    /// Ends all leases: to be called when the data directory was opened, before anything is
    /// started.
    ///
    /// # Errors
    /// What the store says.
    pub async fn release_leases(&self) -> Result<(), EngineError> {
        self.change_function(None, FunctionOp::Queue(QueueOp::Release))
            .await
    }

    /// Lets an execution wait again whose end no one saw. `counts` says whether its handler may
    /// have begun.
    ///
    /// # Errors
    /// What the store says.
    pub async fn return_execution(&self, seq: i64, counts: bool) -> Result<(), EngineError> {
        let op = QueueOp::Return { seq, counts };
        self.change_function(None, FunctionOp::Queue(op)).await
    }

    /// Ends an execution with its record, in one commit. `Ok` means that it is durable.
    ///
    /// # Errors
    /// What the store says.
    pub async fn end_execution(
        &self,
        function: &Function,
        seq: i64,
        record: ExecutionRecord,
    ) -> Result<(), EngineError> {
        let op = QueueOp::End {
            seq,
            function: name_of(function),
            function_seq: function.seq,
            record: Box::new(record),
        };
        self.change_function(None, FunctionOp::Queue(op)).await
    }

    /// The functions of these projects, by [`Function::seq`].
    pub fn functions_of_projects(&self, projects: &[ProjectId]) -> Vec<i64> {
        let catalogue = self.catalogue();
        let functions = catalogue
            .projects()
            .flat_map(|project| project.functions.values());
        functions
            .filter(|function| projects.contains(&function.project))
            .map(|function| function.seq)
            .collect()
    }

    pub(super) fn functions_by_seq(&self) -> HashMap<i64, Arc<Function>> {
        let catalogue = self.catalogue();
        let functions = catalogue
            .projects()
            .flat_map(|project| project.functions.values());
        functions
            .map(|function| (function.seq, function.clone()))
            .collect()
    }
}

#[cfg(feature = "test-switches")]
fn starts_max(shared: &Shared) -> u32 {
    if shared.ignore_starts_max.load(Ordering::Relaxed) {
        return u32::MAX;
    }
    STARTS_MAX
}

#[cfg(not(feature = "test-switches"))]
fn starts_max(_: &Shared) -> u32 {
    STARTS_MAX
}

fn is_about_key(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Store(StoreError::KeyMissing { .. } | StoreError::KeyWrong { .. })
    )
}

/// The record of an execution that has failed, without a handler's doing.
pub fn failed_execution(queued: &QueuedExecution, now: Timestamp, why: &str) -> ExecutionRecord {
    ExecutionRecord {
        status: ExecutionStatus::Failed,
        response_status: 500,
        errors: why.to_owned(),
        updated: now,
        ..queued.record(now)
    }
}

pub(super) fn new_execution(
    function: &Function,
    request: QueuedRequest,
    now: Timestamp,
) -> Result<NewExecution, EngineError> {
    let active = function.active.as_ref();
    let active = active.ok_or(FunctionError::NoActiveDeployment)?;
    Ok(NewExecution {
        function: name_of(function),
        function_seq: function.seq,
        queued: QueuedExecution {
            seq: 0,
            id: request.id,
            trigger: request.trigger,
            deployment: active.id.clone(),
            due: request.due.unwrap_or(now),
            is_scheduled: request.due.is_some(),
            attempt: 0,
            lease: None,
            method: request.method,
            path: request.path,
            depth: request.depth,
            created: now,
            updated: now,
        },
        call: QueuedCall {
            headers: request.headers,
            body: request.body,
        },
    })
}

pub(super) fn name_of(function: &Function) -> FunctionName {
    FunctionName {
        project: function.project.clone(),
        id: function.id.clone(),
    }
}
