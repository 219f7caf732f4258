//! Users' code beside the data: deployments are built and functions are executed here, on threads
//! apart from those that answer requests.
//!
//! Nothing of it is started before the first function needs it, and nothing of it keeps a server
//! from starting: where functions cannot be executed, requests learn why.

mod builds;
mod config;
pub mod counts;
mod detachable_run;
mod execution;
mod guest_queue;
mod live_runs;
mod log_rate;
mod own_variables;
mod package_caches;
mod prepared;
mod queue_flights;
mod queue_runs;
mod records;
mod removal;
mod row_events;
mod running;
mod schedules;
mod unpacked;

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::{Engine, EngineError, FunctionError};
use functions::ApiConnection;
use model::Function;
use tokio::sync::{mpsc, watch};

pub use config::FunctionsConfig;
use counts::FunctionCounts;
pub use execution::{Execution, ExecutionCall, ExecutionFault, own_headers};
pub use live_runs::{LiveRun, LiveRuns, is_of_run};
pub use own_variables::OwnVariables;
pub use records::RecordsDurability;
pub use running::{BODY_BYTES_MAX, RunningFunctions};

use crate::rng::Rng;

/// Threads for what reads and writes files: unpacking, building, clearing away, and one more.
const BLOCKING_MAX: usize = 4;

/// What runs of the queue is returned to it within this time at the end.
const RETURNING_MAX: Duration = Duration::from_millis(500);
/// Connections of functions to the API that wait to be taken; more wait in their jails.
const CONNECTIONS_WAITING_MAX: usize = 64;

/// What executing has come to: what executes, or why nothing does.
type Started = Result<Arc<RunningFunctions>, String>;

/// Executes functions, once it has begun to.
pub struct Functions {
    engine: Arc<Engine>,
    /// Or why functions are not executed, as a clause.
    config: Result<FunctionsConfig, String>,
    ways: Ways,
    /// `None` once it is taken.
    connections: Mutex<Option<mpsc::Receiver<ApiConnection>>>,
    begun: OnceLock<Begun>,
}

/// How executions reach the API, what of it may be theirs, and where they are counted.
#[derive(Clone)]
struct Ways {
    connections: mpsc::Sender<ApiConnection>,
    runs: Arc<LiveRuns>,
    rng: Rng,
    counts: Arc<FunctionCounts>,
}

/// The thread that holds everything, and how others reach it.
struct Begun {
    started: watch::Receiver<Option<Started>>,
    end: watch::Sender<Option<Duration>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Functions {
    /// Begins at once where there are functions: deployments may wait for their build.
    pub fn new(
        engine: Arc<Engine>,
        config: Result<FunctionsConfig, String>,
        (rng, counts): (Rng, Arc<FunctionCounts>),
    ) -> Functions {
        let (sender, connections) = mpsc::channel(CONNECTIONS_WAITING_MAX);
        let functions = Functions {
            engine,
            config,
            ways: Ways {
                connections: sender,
                runs: LiveRuns::new(rng),
                rng,
                counts,
            },
            connections: Mutex::new(Some(connections)),
            begun: OnceLock::new(),
        };
        if functions.engine.has_functions() {
            functions.begin();
        }
        functions
    }

    /// Starts what builds and executes, if it is not started.
    fn begin(&self) -> Option<&Begun> {
        let config = self.config.as_ref().ok()?;
        let begin = || begin(&self.engine, config, &self.ways);
        Some(self.begun.get_or_init(begin))
    }

    /// Executions in flight.
    pub fn live_runs(&self) -> &LiveRuns {
        &self.ways.runs
    }

    /// The connections that functions make to the API. To be called once.
    ///
    /// # Panics
    /// When it is called again.
    pub fn api_connections(&self) -> mpsc::Receiver<ApiConnection> {
        let connections = self.connections.lock();
        let mut connections = connections.unwrap_or_else(PoisonError::into_inner);
        connections.take().expect("one acceptor takes them")
    }

    /// What executes functions; waits while it starts.
    ///
    /// # Errors
    /// Why nothing executes them, as a clause.
    pub async fn running(&self) -> Started {
        let Some(begun) = self.begin() else {
            return Err(self.config.as_ref().err().cloned().unwrap_or_default());
        };
        let mut started = begun.started.clone();
        let found = started.wait_for(Option::is_some).await;
        let found = found.map(|found| found.clone());
        found
            .ok()
            .flatten()
            .unwrap_or_else(|| Err("the thread that executes functions has ended".to_owned()))
    }

    /// What executes this function.
    ///
    /// # Errors
    /// [`FunctionError::RuntimeUnsupported`] where nothing does.
    pub async fn running_for(
        &self,
        function: &Function,
    ) -> Result<Arc<RunningFunctions>, EngineError> {
        let unsupported = |why| FunctionError::RuntimeUnsupported {
            runtime: function.definition.runtime.clone(),
            why,
        };
        Ok(self.running().await.map_err(unsupported)?)
    }

    /// Lets a deployment that was sent be built soon.
    pub fn expect_build(&self) {
        let started = self.begin().map(|begun| begun.started.borrow());
        if let Some(Some(Ok(running))) = started.as_deref() {
            running.expect_build();
        }
    }

    /// What the build of this deployment has said so far; `None` when it is not being built.
    pub fn build_log(&self, deployment: i64) -> Option<String> {
        self.if_running()?.build_log(deployment)
    }

    /// What the processes of this deployment have written outside of any execution.
    pub fn output(&self, deployment: i64) -> String {
        let running = self.if_running();
        running.map_or_else(String::new, |running| running.output(deployment))
    }

    /// Writes the records of all executions that have ended.
    pub async fn write_records(&self) {
        if let Some(running) = self.if_running() {
            running.write_records().await;
        }
    }

    /// What executes functions, if it has started.
    fn if_running(&self) -> Option<Arc<RunningFunctions>> {
        let started = self.begun.get()?.started.borrow();
        started.as_ref()?.as_ref().ok().cloned()
    }

    /// Ends builds, gives runs so long to end, and ends all processes. Blocks until that is done.
    pub fn shut_down(&self, limit: Duration) {
        let Some(begun) = self.begun.get() else {
            return;
        };
        begun.end.send_replace(Some(limit));
        let mut thread = begun.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            // What it broke down over stands in the log.
            let _ = thread.join();
        }
    }
}

impl Drop for Functions {
    fn drop(&mut self) {
        self.shut_down(Duration::ZERO);
    }
}

fn begin(engine: &Arc<Engine>, config: &FunctionsConfig, ways: &Ways) -> Begun {
    let (tell, started) = watch::channel(None);
    let (end, ended) = watch::channel(None);
    let (engine, config, ways) = (engine.clone(), config.clone(), ways.clone());
    let thread = std::thread::Builder::new()
        .name("functions-host".to_owned())
        .spawn({
            let tell = tell.clone();
            move || work(&engine, (&config, ways), &tell, ended)
        });
    let thread = thread.map_err(|error| fail(&tell, &error)).ok();
    Begun {
        started,
        end,
        thread: Mutex::new(thread),
    }
}

/// Says in the log, and to requests that wait, that nothing is executed.
fn fail(tell: &watch::Sender<Option<Started>>, error: &io::Error) {
    tracing::warn!(%error, "functions are not executed");
    tell.send_replace(Some(Err(error.to_string())));
}

fn work(
    engine: &Arc<Engine>,
    (config, ways): (&FunctionsConfig, Ways),
    tell: &watch::Sender<Option<Started>>,
    mut ended: watch::Receiver<Option<Duration>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(BLOCKING_MAX)
        .thread_name("functions-io")
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(tell, &error),
    };
    let running = RunningFunctions::start(engine.clone(), (config, ways), runtime.handle().clone());
    let running = match running {
        Ok(running) => Arc::new(running),
        Err(error) => return fail(tell, &error),
    };
    tracing::info!(runtimes = running.described(), "functions are executed");
    tell.send_replace(Some(Ok(running.clone())));
    runtime.block_on(async {
        running.warn_of_sealed().await;
        let limit = tokio::select! {
            limit = ended.wait_for(Option::is_some) => {
                limit.ok().and_then(|limit| *limit).unwrap_or_default()
            }
            never = running.build_all() => match never {},
            never = running.clear_away() => match never {},
            never = running.expire_old() => match never {},
            never = running.keep_records() => match never {},
            never = running.run_queue() => match never {},
            never = running.keep_schedules() => match never {},
            never = running.follow_rows() => match never {},
        };
        // Meanwhile this thread tells callers what became of their runs.
        let executing = running.clone();
        let shut_down = move || executing.shut_down(limit);
        let _ = tokio::task::spawn_blocking(shut_down).await;
        // What the last runs came to is told by their tasks, which have been woken.
        tokio::task::yield_now().await;
        let _ = tokio::time::timeout(RETURNING_MAX, running.finish_queued()).await;
        running.write_records().await;
    });
    // What reads of a disk that does not answer is left behind.
    runtime.shutdown_timeout(Duration::from_secs(1));
}
