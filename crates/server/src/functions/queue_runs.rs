//! Executions for which no caller waits: started as they become due, and seen to their end.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use engine::{EngineError, ExecutionRecord, STARTS_MAX, StartedExecution, failed_execution};
use functions::{FunctionOutcome, HeldMemory, RunCause, RunRefusal};
use model::Function;

use super::execution::{Execution, ExecutionCall, ExecutionFault};
use super::queue_flights::QueuedFlight;
use super::running::RunningFunctions;

/// Leases are renewed this often (wire protocol, queue).
const RENEW: Duration = Duration::from_secs(10);
/// How often it is looked for what has become due.
const ROUND: Duration = Duration::from_secs(1);
/// After a failure of the store.
const PAUSE: Duration = Duration::from_secs(1);
/// How often the end of an execution is tried to be kept, before its lease is left to end.
const KEEP_TRIES: u32 = 5;

/// What a start has come to.
enum StartEnd {
    /// Its end, which is for ever.
    Ended(Box<ExecutionRecord>),
    /// Its end was not seen.
    Again {
        /// Whether its handler may have begun.
        counts: bool,
        /// Whether its function rests for a while.
        rests: bool,
    },
}

impl RunningFunctions {
    /// Starts executions as they become due.
    pub async fn run_queue(self: &Arc<RunningFunctions>) -> Infallible {
        while let Err(error) = self.engine().release_leases().await {
            tracing::warn!(%error, "executions that wait cannot be started");
            tokio::time::sleep(PAUSE).await;
        }
        let mut renewed = Instant::now();
        loop {
            if let Err(error) = self.start_due().await {
                tracing::warn!(%error, "executions that wait were not started");
                tokio::time::sleep(PAUSE).await;
            }
            if renewed.elapsed() >= RENEW {
                renewed = Instant::now();
                let flights: Vec<i64> = self.queue().lock().keys().copied().collect();
                if !flights.is_empty()
                    && let Err(error) = self.engine().renew_leases(flights).await
                {
                    tracing::warn!(%error, "leases of executions were not renewed");
                }
            }
            let _ = tokio::time::timeout(ROUND, self.queue().expected.notified()).await;
        }
    }

    async fn start_due(self: &Arc<RunningFunctions>) -> Result<(), EngineError> {
        let mut tasks = self.queue().tasks.lock().await;
        while tasks.try_join_next().is_some() {}
        loop {
            let room = self.queue().room();
            if room == 0 {
                return Ok(());
            }
            let crowded = self.queue().crowded_projects();
            let mut passed = self.queue().passed_over();
            passed.extend(self.engine().functions_of_projects(&crowded));
            let started = self.engine().start_executions(&passed, room).await?;
            if started.is_empty() {
                return Ok(());
            }
            for one in started {
                let flight = QueuedFlight {
                    function: one.function.seq,
                    project: one.function.project.clone(),
                    bytes: one.call.size_bytes(),
                };
                let seq = one.queued.seq;
                if !self.queue().admit(seq, flight) {
                    self.queue().rest(one.function.seq);
                    self.engine().return_execution(seq, false).await?;
                    continue;
                }
                let running = self.clone();
                tasks.spawn(async move { running.fly(one).await });
            }
        }
    }

    /// Runs a started execution and keeps what it came to.
    async fn fly(&self, started: StartedExecution) {
        let seq = started.queued.seq;
        let function = started.function.clone();
        let id = started.queued.id.clone();
        // The memory of its logs counts until its record is kept.
        let (end, _held) = self.run_started(&function, started).await;
        for _ in 0..KEEP_TRIES {
            let kept = match &end {
                StartEnd::Ended(record) => {
                    let record = ExecutionRecord::clone(record);
                    self.engine().end_execution(&function, seq, record).await
                }
                StartEnd::Again { counts, rests } => {
                    if *rests {
                        self.queue().rest(function.seq);
                    }
                    self.engine().return_execution(seq, *counts).await
                }
            };
            match kept {
                Ok(()) => {
                    if matches!(end, StartEnd::Ended(_)) {
                        self.guests().release(function.seq, &id);
                    }
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, "the end of an execution was not kept");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        self.queue().lock().remove(&seq);
        // There is room for another one.
        self.queue().expect();
    }

    async fn run_started(
        &self,
        function: &Arc<Function>,
        started: StartedExecution,
    ) -> (StartEnd, HeldMemory) {
        let StartedExecution { queued, call, .. } = started;
        let mut request = ExecutionCall {
            id: queued.id.clone(),
            trigger: queued.trigger,
            method: queued.method.clone(),
            path: queued.path.clone(),
            headers: call.headers,
            body: Bytes::from_owner(call.body),
            depth: queued.depth,
        };
        let ran = self.perform(function, &mut request, (queued.attempt, None));
        let why = match ran.await {
            Ok((deployment, outcome)) => {
                let is_last = queued.attempt >= STARTS_MAX;
                if let Some(again) = again(&outcome, is_last) {
                    return (again, HeldMemory::default());
                }
                let times = (queued.created, self.engine().now());
                let execution = Execution::new(request, deployment, outcome, times);
                let rate = self.records().log_rate();
                let (mut record, held) = execution.into_kept(function, rate);
                record.scheduled = queued.is_scheduled.then_some(queued.due);
                return (StartEnd::Ended(Box::new(record)), held);
            }
            Err(fault) => match unseen(fault, queued.attempt) {
                Ok(again) => return (again, HeldMemory::default()),
                Err(why) => why,
            },
        };
        let record = failed_execution(&queued, self.engine().now(), &why);
        (StartEnd::Ended(Box::new(record)), HeldMemory::default())
    }
}

/// Whether a run that the executor has ended is to be started again: no one has seen the end of its
/// handler.
fn again(outcome: &FunctionOutcome, is_last: bool) -> Option<StartEnd> {
    let (counts, rests) = match outcome.cause {
        RunCause::NeighbourStopped | RunCause::ShutDown => (!outcome.duration.is_zero(), false),
        // A host without descriptors or memory may have them again in a second.
        RunCause::NotStarted => (true, true),
        _ => return None,
    };
    (!(counts && is_last)).then_some(StartEnd::Again { counts, rests })
}

/// What becomes of an execution that the executor has not run, or why it has failed for ever.
fn unseen(fault: ExecutionFault, attempt: u32) -> Result<StartEnd, String> {
    let is_last = attempt >= STARTS_MAX;
    let (counts, rests) = (false, true);
    match fault {
        ExecutionFault::Refused(
            RunRefusal::QueueFull { .. } | RunRefusal::BodiesFull { .. } | RunRefusal::Closing,
        )
        | ExecutionFault::Engine(EngineError::Function(
            engine::FunctionError::NoActiveDeployment,
        )) => Ok(StartEnd::Again { counts, rests }),
        ExecutionFault::Refused(refusal) => Err(format!("Not executed: {refusal}.")),
        ExecutionFault::Engine(error) if is_last => Err(format!("Not executed: {error}")),
        ExecutionFault::Broken(detail) if is_last => Err(format!("Not executed: {detail}")),
        ExecutionFault::WaitedTooLong { .. }
        | ExecutionFault::Engine(_)
        | ExecutionFault::Broken(_) => Ok(StartEnd::Again {
            counts: true,
            rests,
        }),
    }
}

#[cfg(test)]
mod tests {
    use functions::RunResponse;

    use super::*;

    fn outcome(cause: RunCause, ran_ms: u64) -> FunctionOutcome {
        FunctionOutcome {
            cause,
            response: RunResponse {
                status: 500,
                headers: Vec::new(),
                body: Bytes::new(),
            },
            logs: String::new(),
            errors: String::new(),
            held: HeldMemory::default(),
            duration: Duration::from_millis(ran_ms),
            is_cold: false,
        }
    }

    /// Whether it starts again, and if so whether this start counts.
    fn counts(cause: RunCause, ran_ms: u64, is_last: bool) -> Option<bool> {
        again(&outcome(cause, ran_ms), is_last).map(|end| match end {
            StartEnd::Again { counts, .. } => counts,
            StartEnd::Ended(_) => unreachable!(),
        })
    }

    #[test]
    fn start_is_repeated_where_its_end_was_not_seen() {
        for cause in [RunCause::NeighbourStopped, RunCause::ShutDown] {
            assert_eq!(counts(cause, 5, false), Some(true), "{cause:?}");
            assert_eq!(counts(cause, 5, true), None, "{cause:?}");
            // Its handler had not begun.
            assert_eq!(counts(cause, 0, true), Some(false), "{cause:?}");
        }
        // The host could not start a process: three times, and no more.
        assert_eq!(counts(RunCause::NotStarted, 0, false), Some(true));
        assert_eq!(counts(RunCause::NotStarted, 0, true), None);
        for cause in [
            RunCause::Answered,
            RunCause::TimedOut,
            RunCause::OutOfMemory,
            RunCause::ProcessEnded,
            RunCause::NeverStarted,
        ] {
            assert_eq!(counts(cause, 5, false), None, "{cause:?}");
        }
    }

    #[test]
    fn start_that_the_executor_refuses_does_not_count() {
        let full = RunRefusal::QueueFull {
            runs_max: 1,
            bytes_max: 1,
        };
        for refusal in [full, RunRefusal::Closing] {
            let end = unseen(ExecutionFault::Refused(refusal), STARTS_MAX);
            assert!(matches!(end, Ok(StartEnd::Again { counts: false, .. })));
        }
        let missing = RunRefusal::RuntimeMissing {
            runtime: "node-14.5".to_owned(),
        };
        let end = unseen(ExecutionFault::Refused(missing), 1);
        assert!(end.is_err_and(|why| why.contains("node-14.5")));
        let broken = |attempt| unseen(ExecutionFault::Broken("no disk".to_owned()), attempt);
        assert!(matches!(
            broken(2),
            Ok(StartEnd::Again { counts: true, .. })
        ));
        assert!(broken(3).is_err_and(|why| why.contains("no disk")));
    }
}
