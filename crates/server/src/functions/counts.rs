//! What functions have come to: counted where it happens, read by whatever watches the server.
//!
//! What can be told apart is fixed: runtimes by the protocol's list, triggers and causes by this
//! program. Only what `tidemark top` shows names functions, and of those so many are kept.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use engine::tally::{Distribution, Histogram, TIMES_NS};
use functions::{ExecutorCounts, FunctionOutcome, RunRefusal, RuntimeCounts};
use model::Function;

/// Bounds of the times of runs and builds, in nanoseconds: a run takes 15 minutes at most, and so
/// does a build.
const RUN_TIMES_NS: &[u64] = &[
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
    60_000_000_000,
    300_000_000_000,
    900_000_000_000,
];
/// Functions that are told apart; of more, those that ran last.
const FUNCTIONS_MAX: usize = 256;

/// The counts of one server.
#[derive(Debug, Default)]
pub struct FunctionCounts {
    executor: OnceLock<Arc<ExecutorCounts>>,
    counted: Mutex<CountedFunctions>,
}

#[derive(Debug)]
struct CountedFunctions {
    executions: BTreeMap<ExecutionLabels, u64>,
    took_ns: BTreeMap<(String, StartKind), Histogram>,
    refused: BTreeMap<&'static str, u64>,
    builds: BTreeMap<&'static str, u64>,
    build_ns: Histogram,
    records_waiting: usize,
    records_lost: u64,
    record_delay_ns: Histogram,
    event_projects: usize,
    event_lag: Duration,
    /// By [`Function::seq`].
    functions: HashMap<i64, FunctionTally>,
    /// Rises with each run.
    latest: u64,
}

impl Default for CountedFunctions {
    fn default() -> CountedFunctions {
        CountedFunctions {
            executions: BTreeMap::new(),
            took_ns: BTreeMap::new(),
            refused: BTreeMap::new(),
            builds: BTreeMap::new(),
            build_ns: Histogram::new(RUN_TIMES_NS),
            records_waiting: 0,
            event_projects: 0,
            event_lag: Duration::ZERO,
            records_lost: 0,
            record_delay_ns: Histogram::new(TIMES_NS),
            functions: HashMap::new(),
            latest: 0,
        }
    }
}

/// What tells executions apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExecutionLabels {
    /// The id of its runtime.
    pub runtime: String,
    /// The protocol's word for what called for it.
    pub trigger: &'static str,
    /// `completed` or `failed`.
    pub status: &'static str,
    /// Why it ended.
    pub cause: &'static str,
}

/// Whether a run found a process that was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StartKind {
    /// It waited for one to start.
    Cold,
    /// It did not.
    Warm,
}

impl StartKind {
    /// As metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            StartKind::Cold => "cold",
            StartKind::Warm => "warm",
        }
    }
}

/// What one function has come to since the start of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionTally {
    /// Project and function, joined by a slash.
    pub name: String,
    /// Runs that have ended.
    pub runs: u64,
    /// Of these, those that failed.
    pub failed: u64,
    /// Of these, those that waited for a process to start.
    pub cold: u64,
    /// How long handlers ran, in nanoseconds.
    pub run_ns: u64,
    /// By which the function that ran last is found.
    latest: u64,
}

/// What was counted up to now.
#[derive(Clone, Debug)]
pub struct CountedRuns {
    /// Executions that have ended.
    pub executions: Vec<(ExecutionLabels, u64)>,
    /// By runtime and start: from acceptance to the end, in nanoseconds.
    pub took_ns: Vec<((String, StartKind), Distribution)>,
    /// Executions that were not accepted, by the word for why.
    pub refused: BTreeMap<&'static str, u64>,
    /// By runtime.
    pub processes: BTreeMap<String, RuntimeCounts>,
    /// Builds that have ended, by their end.
    pub builds: BTreeMap<&'static str, u64>,
    /// How long those took that came to an end by themselves.
    pub build_ns: Distribution,
    /// Records of executions that are not stored yet.
    pub records_waiting: usize,
    /// Records that the store did not take.
    pub records_lost: u64,
    /// From the end of an execution until its record was stored.
    pub record_delay_ns: Distribution,
    /// Projects whose events wait while those of others go on.
    pub event_projects: usize,
    /// The age of the oldest commit whose events are not queued.
    pub event_lag: Duration,
}

impl FunctionCounts {
    /// Tells of the processes of this executor, too.
    pub fn watch(&self, executor: Arc<ExecutorCounts>) {
        // A server has one.
        let _ = self.executor.set(executor);
    }

    /// A run has ended, `took` after it was handed over.
    pub fn ran(
        &self,
        function: &Function,
        trigger: &'static str,
        outcome: &FunctionOutcome,
        took: Duration,
    ) {
        let has_failed = outcome.response.status >= 500;
        let labels = ExecutionLabels {
            runtime: function.definition.runtime.clone(),
            trigger,
            status: if has_failed { "failed" } else { "completed" },
            cause: outcome.cause.as_str(),
        };
        let start = if outcome.is_cold {
            StartKind::Cold
        } else {
            StartKind::Warm
        };
        let mut counted = self.lock();
        let times = (labels.runtime.clone(), start);
        *counted.executions.entry(labels).or_default() += 1;
        let times = counted.took_ns.entry(times);
        let times = times.or_insert_with(|| Histogram::new(RUN_TIMES_NS));
        times.record(took.as_nanos() as u64);
        let tally = counted.tally(function);
        tally.runs += 1;
        tally.failed += u64::from(has_failed);
        tally.cold += u64::from(outcome.is_cold);
        tally.run_ns += outcome.duration.as_nanos() as u64;
    }

    /// A run was not accepted.
    pub fn refused(&self, refusal: &RunRefusal) {
        let mut counted = self.lock();
        *counted.refused.entry(refusal.as_str()).or_default() += 1;
    }

    /// A build has ended; `took` is of one that came to an end by itself.
    pub fn built(&self, end: &'static str, took: Option<Duration>) {
        let mut counted = self.lock();
        *counted.builds.entry(end).or_default() += 1;
        if let Some(took) = took {
            counted.build_ns.record(took.as_nanos() as u64);
        }
    }

    /// The events of so many projects wait while those of others go on, and the oldest commit whose
    /// events are not queued is so old.
    pub fn events_wait(&self, projects: usize, lag: Duration) {
        let mut counted = self.lock();
        counted.event_projects = projects;
        counted.event_lag = lag;
    }

    /// So many records wait for the store.
    pub fn records_wait(&self, count: usize) {
        self.lock().records_waiting = count;
    }

    /// Records were stored so long after their executions had ended.
    pub fn records_stored(&self, delays: impl Iterator<Item = Duration>) {
        let counted = self.lock();
        for delay in delays {
            counted.record_delay_ns.record(delay.as_nanos() as u64);
        }
    }

    /// So many records were not taken by the store.
    pub fn records_lost(&self, count: usize) {
        self.lock().records_lost += count as u64;
    }

    /// All of it.
    pub fn read(&self) -> CountedRuns {
        let executor = self.executor.get();
        let processes = executor.map(|executor| executor.read());
        let counted = self.lock();
        let executions = counted.executions.iter();
        let took_ns = counted.took_ns.iter();
        CountedRuns {
            executions: executions.map(|(of, count)| (of.clone(), *count)).collect(),
            took_ns: took_ns
                .map(|(of, took)| (of.clone(), took.read()))
                .collect(),
            refused: counted.refused.clone(),
            processes: processes.unwrap_or_default(),
            builds: counted.builds.clone(),
            build_ns: counted.build_ns.read(),
            records_waiting: counted.records_waiting,
            event_projects: counted.event_projects,
            event_lag: counted.event_lag,
            records_lost: counted.records_lost,
            record_delay_ns: counted.record_delay_ns.read(),
        }
    }

    /// The functions that ran last, by their names.
    pub fn functions(&self) -> Vec<FunctionTally> {
        let mut all: Vec<_> = self.lock().functions.values().cloned().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    fn lock(&self) -> MutexGuard<'_, CountedFunctions> {
        // A count that a panic has left out is all that can be wrong.
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CountedFunctions {
    /// The tally of a function; a new one takes the place of the one that ran the longest ago.
    fn tally(&mut self, function: &Function) -> &mut FunctionTally {
        let (functions, seq) = (&mut self.functions, function.seq);
        self.latest += 1;
        if functions.len() >= FUNCTIONS_MAX && !functions.contains_key(&seq) {
            let oldest = functions.iter().min_by_key(|(_, tally)| tally.latest);
            let oldest = oldest.map(|(seq, _)| *seq);
            oldest.and_then(|oldest| functions.remove(&oldest));
        }
        let tally = functions.entry(seq).or_insert_with(|| FunctionTally {
            name: format!("{}/{}", function.project.as_str(), function.id.as_str()),
            runs: 0,
            failed: 0,
            cold: 0,
            run_ns: 0,
            latest: 0,
        });
        tally.latest = self.latest;
        tally
    }
}
