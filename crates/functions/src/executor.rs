//! The executor: the one door to users' code.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};

use crate::api_listener::ApiConnection;
use crate::cgroup::GroupFolder;
use crate::conductor::{Conductor, ConductorLimits};
use crate::executor_counts::ExecutorCounts;
use crate::launch::{FunctionIsolation, Launcher, ProcessNews};
use crate::memory_budget::HeldMemory;
use crate::outside::OutsideNetwork;
use crate::pending_run::PendingRun;
use crate::pool::{DeploymentReport, PoolLimits};
use crate::process::ProcessLimits;
use crate::runtime::InstalledRuntimes;
use crate::shared_conductor::SharedConductor;
use crate::work::{FunctionOutcome, FunctionWork, RunRefusal};

/// Letters of logs, and of errors, that are kept of a run.
const LOG_LETTERS_MAX: usize = 1_000_000;
/// Events of processes that wait; their sockets and pipes hold back the rest.
const EVENTS_WAITING_MAX: usize = 256;

/// How far threads that look at memory stand back behind those that answer, as `nice` counts.
const STANDS_BACK: i32 = 5;

/// How much of the host functions may use. There are no defaults here: the caller decides.
#[derive(Clone, Debug)]
pub struct ExecutorSettings {
    /// The executor's own folder; the adapters are written to it.
    pub folder: PathBuf,
    /// What shuts processes in.
    pub isolation: FunctionIsolation,
    /// Processes of one deployment.
    pub processes_max: usize,
    /// What the memory limits of all processes together may be.
    pub memory_max_mib: u64,
    /// A process without a request ends after this time.
    pub idle_max: Duration,
    /// A spare process ends this long after the last request of its deployment; with zero none is
    /// kept.
    pub spare_idle_max: Duration,
    /// A process whose code is not loaded by then is ended.
    pub start_max: Duration,
    /// Of a response.
    pub body_bytes_max: usize,
    /// What deployments reach that reach outside.
    pub outside: OutsideNetwork,
    /// Where groups of the kernel are made for the processes of jails, if they can be.
    pub groups: Option<GroupFolder>,
}

/// Runs users' code on a thread of its own; may be called from any thread and any runtime.
#[derive(Debug)]
pub struct Executor {
    conductor: Arc<SharedConductor>,
    thread: Mutex<Option<JoinHandle<()>>>,
    runtimes: InstalledRuntimes,
    counts: Arc<ExecutorCounts>,
}

impl Executor {
    /// # Errors
    /// When the folder cannot be written, or the thread does not start.
    pub fn new(settings: ExecutorSettings, runtimes: InstalledRuntimes) -> io::Result<Executor> {
        Executor::with_api(settings, runtimes, None)
    }

    /// As [`Executor::new`]; connections that functions make to the API go to `api`. In jails of
    /// level `full` alone, which have a network of their own.
    ///
    /// # Errors
    /// As [`Executor::new`].
    pub fn with_api(
        settings: ExecutorSettings,
        runtimes: InstalledRuntimes,
        api: Option<mpsc::Sender<ApiConnection>>,
    ) -> io::Result<Executor> {
        let limits = ConductorLimits {
            memory_max_mib: settings.memory_max_mib,
            pool: PoolLimits {
                processes: settings.processes_max,
                idle: settings.idle_max,
                spare_idle: settings.spare_idle_max,
            },
            process: ProcessLimits {
                body_bytes: settings.body_bytes_max,
                log_letters: LOG_LETTERS_MAX,
                start_max: settings.start_max,
            },
        };
        let counts = Arc::<ExecutorCounts>::default();
        let has_networks = settings.isolation.has_networks();
        let conductor = Conductor::new(&runtimes, has_networks, limits, counts.clone());
        let conductor = SharedConductor::new(conductor);
        let (events, happened) = mpsc::channel(EVENTS_WAITING_MAX);
        let taking = conductor.clone();
        let news = ProcessNews {
            frames: Arc::new(move |process, frames| taking.take_frames(process, frames)),
            events,
        };
        let launcher = Launcher::new(
            &settings.folder,
            runtimes.found(),
            (settings.isolation, settings.groups),
            (api, settings.outside),
            news,
        )?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            // Those that look through `/proc`, and no others.
            .on_thread_start(stand_back)
            .build()?;
        let conducting = conductor.clone();
        let conduct = move || runtime.block_on(conducting.conduct(launcher, happened));
        let thread = std::thread::Builder::new()
            .name("functions".into())
            .spawn(conduct)?;
        Ok(Executor {
            conductor,
            thread: Mutex::new(Some(thread)),
            runtimes,
            counts,
        })
    }

    /// What its processes come to.
    pub fn counts(&self) -> Arc<ExecutorCounts> {
        self.counts.clone()
    }

    /// The interpreters it was given.
    pub fn runtimes(&self) -> &InstalledRuntimes {
        &self.runtimes
    }

    /// Runs a function. A caller who drops the future does not end the run.
    ///
    /// # Errors
    /// When the run is not accepted; then nothing of it was run.
    pub async fn run(&self, work: FunctionWork) -> Result<FunctionOutcome, RunRefusal> {
        let (reply, outcome) = oneshot::channel();
        self.conductor.run(PendingRun {
            work,
            accepted: Instant::now(),
            reply,
            held: HeldMemory::default(),
            moves: 0,
            is_cold: false,
        })?;
        // Without an outcome nothing conducts any more.
        outcome.await.map_err(|_| RunRefusal::Closing)
    }

    /// The processes of this deployment take no new work, and end when they are empty.
    pub fn retire(&self, deployment: &str) {
        self.conductor.retire(deployment);
    }

    /// What runs now, in the order of the deployments' ids.
    pub fn report(&self) -> Vec<DeploymentReport> {
        self.conductor.report()
    }

    /// What the processes of this deployment wrote outside of any run, and what they were refused;
    /// the end of it.
    pub fn output(&self, deployment: &str) -> String {
        self.conductor.output(deployment)
    }

    /// Accepts no more runs, gives those in flight so long to end, and kills what is left.
    /// Blocks until no process is left.
    pub fn shut_down(&self, limit: Duration) {
        self.conductor.close(limit);
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            let _ = thread.join();
        }
    }
}

/// Lowers the priority of this thread alone.
fn stand_back() {
    // Without it a look at memory is only less polite.
    let _ = rustix::process::setpriority_process(None, STANDS_BACK);
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.shut_down(Duration::ZERO);
    }
}
