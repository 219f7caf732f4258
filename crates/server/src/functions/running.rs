//! What executes functions, once it has started.

use std::collections::HashSet;
use std::convert::Infallible;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use engine::{ArchivePart, Engine};
use functions::cgroup::{CGROUPS, GroupFolder, OWN_CGROUP};
use functions::jail::JailLevel;
use functions::jail::attempt::try_jail;
use functions::{
    Executor, ExecutorSettings, FunctionIsolation, FunctionOutcome, FunctionWork, HeldMemory,
    InstalledRuntimes, RunCause,
};
use model::{DeploymentId, Function, Timestamp};
use tokio::runtime::Handle;

use super::Ways;
use super::builds::{Builds, read_archive};
use super::config::FunctionsConfig;
use super::counts::FunctionCounts;
use super::detachable_run::DetachableRun;
use super::execution::{Execution, ExecutionCall, ExecutionFault};
use super::guest_queue::GuestQueue;
use super::live_runs::LiveRuns;
use super::prepared::PreparedFunctions;
use super::queue_flights::QueuedRuns;
use super::records::ExecutionRecords;
use super::removal::remove_folder;
use super::unpacked::UnpackedFolder;
use crate::rng::Rng;

/// A caller waits no longer (wire protocol, executions).
const WAIT_MAX: Duration = Duration::from_secs(30);
/// The key of an execution for which no caller waits counts so long beyond its timeout, should
/// no one see its end: it may wait for a process as long.
const QUEUE_MAX: Duration = Duration::from_hours(1);
/// A process whose code is not loaded by then is ended.
const START_MAX: Duration = Duration::from_secs(30);
/// Bytes of the body of an execution or its response (wire protocol, executions).
pub const BODY_BYTES_MAX: usize = 10_485_760;
/// How often it is looked for what no function needs any more.
const ROUND: Duration = Duration::from_secs(2);
/// How often it is looked for deployments that are older than their function keeps them: ages are
/// days.
const EXPIRY_ROUND: Duration = Duration::from_hours(1);
/// Most functions that a line of the log names.
const NAMED_MAX: usize = 10;
/// What this server has unpacked, within its folder.
const NOW: &str = "now";
/// What servers before it have left: the beginning of such names.
const LEFT: &str = "left-";

/// Executes functions and builds deployments.
pub struct RunningFunctions {
    engine: Arc<Engine>,
    executor: Executor,
    prepared: PreparedFunctions,
    unpacked: Arc<UnpackedFolder>,
    builds: Builds,
    records: ExecutionRecords,
    live: Arc<LiveRuns>,
    queue: QueuedRuns,
    guests: GuestQueue,
    rng: Rng,
    counts: Arc<FunctionCounts>,
    runtime: Handle,
    left: Vec<PathBuf>,
}

impl RunningFunctions {
    /// Looks for interpreters, tries the jail and starts the executor. Blocks.
    ///
    /// # Errors
    /// Why functions cannot be executed, as a clause.
    pub(super) fn start(
        engine: Arc<Engine>,
        (config, ways): (&FunctionsConfig, Ways),
        runtime: Handle,
    ) -> io::Result<RunningFunctions> {
        if let FunctionIsolation::Jail { launcher, level } = &config.isolation {
            try_jail(launcher, *level).map_err(|why| {
                let level = level.as_str();
                io::Error::other(format!("no jail of level `{level}` can be made: {why}"))
            })?;
        }
        let runtimes = InstalledRuntimes::find(&config.search_path, &config.runtimes);
        for missing in runtimes.missing() {
            tracing::info!(%missing, "an interpreter is not used");
        }
        if runtimes.found().is_empty() {
            return Err(io::Error::other("this host has neither Node nor Python"));
        }
        let in_folder = |error: io::Error| {
            let folder = config.folder.display();
            io::Error::new(error.kind(), format!("the folder {folder}: {error}"))
        };
        let left = set_aside(&config.folder).map_err(in_folder)?;
        need_open_way(&config.isolation, &config.folder)?;
        let now = config.folder.join(NOW);
        let settings = ExecutorSettings {
            folder: now.clone(),
            isolation: config.isolation.clone(),
            processes_max: config.processes_max,
            memory_max_mib: config.memory_max_mib,
            idle_max: config.idle_max,
            spare_idle_max: config.spare_idle_max,
            start_max: START_MAX,
            body_bytes_max: BODY_BYTES_MAX,
            outside: config.outside.clone(),
            groups: groups(&config.isolation),
        };
        let counts = ways.counts;
        let builds = Builds::new(
            now.join("build"),
            (config.launcher.clone(), config.outside.clone()),
            config.build_variables.clone(),
            counts.clone(),
        );
        let builds = builds.map_err(in_folder)?;
        let executor = Executor::with_api(settings, runtimes, Some(ways.connections))?;
        counts.watch(executor.counts());
        Ok(RunningFunctions {
            engine,
            unpacked: UnpackedFolder::new(now.join("code"), runtime.clone()).map_err(in_folder)?,
            executor,
            prepared: PreparedFunctions::default(),
            builds,
            records: ExecutionRecords::new(config.records, counts.clone()),
            live: ways.runs,
            queue: QueuedRuns::default(),
            guests: GuestQueue::default(),
            rng: ways.rng,
            counts,
            runtime,
            left,
        })
    }

    /// The interpreters of this host.
    pub fn runtimes(&self) -> &InstalledRuntimes {
        self.executor.runtimes()
    }

    /// The interpreters, for the log.
    pub fn described(&self) -> String {
        let found = self.runtimes().found().iter();
        let found = found.map(|runtime| format!("{} {}", runtime.name, runtime.version));
        found.collect::<Vec<_>>().join(", ")
    }

    /// Lets a deployment that was sent be built soon.
    pub fn expect_build(&self) {
        self.builds.expect();
    }

    /// What the build of this deployment has said so far; `None` when it is not being built.
    pub fn build_log(&self, deployment: i64) -> Option<String> {
        self.builds.log(deployment)
    }

    /// What the processes of this deployment have written outside of any execution.
    pub fn output(&self, deployment: i64) -> String {
        self.executor.output(&deployment.to_string())
    }

    /// Builds deployments as they come.
    pub async fn build_all(&self) -> Infallible {
        self.builds.run(&self.engine, self.runtimes()).await
    }

    /// Executes a function. A caller who goes away does not end the run; what bounds its runs is
    /// held until then.
    ///
    /// # Errors
    /// When there is no execution, or none that a caller could wait for.
    pub async fn execute(
        self: &Arc<RunningFunctions>,
        function: Arc<Function>,
        call: ExecutionCall,
        (held, of_guest): (impl Send + 'static, bool),
    ) -> Result<Execution, ExecutionFault> {
        let running = self.clone();
        let run = async move {
            let ended = running.run(&function, call).await;
            drop(held);
            ended
        };
        if of_guest {
            // Steps of guests wait for each other's turns, and a run may hold what others need.
            let ended = self.runtime.spawn(run).await;
            return ended.unwrap_or_else(|broken| Err(broken.to_string().into()));
        }
        DetachableRun::new(run, self.runtime.clone()).await
    }

    async fn run(
        &self,
        function: &Arc<Function>,
        mut call: ExecutionCall,
    ) -> Result<Execution, ExecutionFault> {
        let created = self.engine.now();
        let ran = self
            .perform(function, &mut call, (1, Some(WAIT_MAX)))
            .await?;
        let (deployment, outcome) = ran;
        let waited_too_long = outcome.cause == RunCause::WaitedTooLong;
        let times = (created, self.engine.now());
        let execution = Execution::new(call, deployment, outcome, times);
        let kept = execution.kept(function, self.records.log_rate());
        let kept = self.records.keep(&self.engine, function.clone(), kept);
        kept.await?;
        if waited_too_long {
            let seconds = WAIT_MAX.as_secs();
            return Err(ExecutionFault::WaitedTooLong { seconds });
        }
        Ok(execution)
    }

    /// Starts an execution, which takes the body, and waits for its end: the deployment that was
    /// executed, and what came of it. `wait_max` is how long its caller waits, if one does.
    ///
    /// # Errors
    /// When nothing was executed.
    pub(super) async fn perform(
        &self,
        function: &Arc<Function>,
        call: &mut ExecutionCall,
        (attempt, wait_max): (u32, Option<Duration>),
    ) -> Result<(DeploymentId, FunctionOutcome), ExecutionFault> {
        let path = |deployment| self.unpacked.path(deployment);
        let prepared = self.prepared.get(&self.engine, function, path).await?;
        let (seq, deployment) = prepared;
        let read = async {
            let archive = read_archive(&self.engine, seq, ArchivePart::Output).await;
            archive.map_err(ExecutionFault::from)
        };
        let _held = self.unpacked.hold(seq, read).await?;
        let timeout = Duration::from_secs(u64::from(function.definition.timeout_s));
        let key_max = wait_max.unwrap_or(timeout + QUEUE_MAX);
        let expires = Timestamp(self.engine.now().0 + key_max.as_micros() as i64);
        let key = self.live.begin(function, seq, call.depth, expires);
        let work = FunctionWork {
            deployment,
            method: call.method.clone(),
            path: call.path.clone(),
            headers: call.handed_headers(key.reveal(), attempt),
            body: std::mem::replace(&mut call.body, Bytes::new()),
            timeout,
            wait_max,
        };
        let handed_over = Instant::now();
        let run = self.executor.run(work).await;
        drop(key);
        let run = run.inspect_err(|refusal| self.counts.refused(refusal));
        let mut outcome = run.map_err(ExecutionFault::Refused)?;
        let (trigger, took) = (call.trigger.as_str(), handed_over.elapsed());
        self.counts.ran(function, trigger, &outcome, took);
        if !function.definition.logging {
            (outcome.logs, outcome.errors) = Default::default();
            outcome.held = HeldMemory::default();
        }
        let active = function.active.as_ref();
        let active = active.ok_or_else(|| "a function lost its deployment".to_owned())?;
        Ok((active.id.clone(), outcome))
    }

    /// Whose the executions of guests in the queue are.
    pub fn guests(&self) -> &GuestQueue {
        &self.guests
    }

    /// What runs of the queue.
    pub(super) fn queue(&self) -> &QueuedRuns {
        &self.queue
    }

    /// What keeps the records of executions.
    pub(super) fn records(&self) -> &ExecutionRecords {
        &self.records
    }

    /// Where runs are counted.
    pub(super) fn counts(&self) -> &FunctionCounts {
        &self.counts
    }

    /// Where ids get their chance.
    pub(super) fn rng(&self) -> Rng {
        self.rng
    }

    /// What holds functions and executions.
    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Lets an execution that was queued be started soon.
    pub fn expect_queued(&self) {
        self.queue.expect();
    }

    /// Waits for executions from the queue to be returned to it, or to be kept.
    pub async fn finish_queued(&self) {
        self.queue.finish().await;
    }

    /// Writes records as they come.
    pub async fn keep_records(&self) -> Infallible {
        self.records.run(&self.engine).await
    }

    /// Writes all records of executions that have ended.
    pub async fn write_records(&self) {
        self.records.write_all(&self.engine).await;
    }

    /// Ends processes and removes folders that no function needs any more.
    pub async fn clear_away(&self) -> Infallible {
        let left = self.left.clone();
        let removed = move || left.iter().for_each(|folder| remove_folder(folder));
        let _ = tokio::task::spawn_blocking(removed).await;
        loop {
            tokio::time::sleep(ROUND).await;
            let active = self.engine.active_deployments();
            let mut busy = HashSet::new();
            for report in self.executor.report() {
                let deployment = report.id.parse().unwrap_or_default();
                // Runs that wait still need a process. No new ones come, so the next round is due.
                if !active.contains(&deployment) && report.waiting == 0 {
                    self.executor.retire(&report.id);
                }
                if !report.processes.is_empty() || report.waiting > 0 {
                    busy.insert(deployment);
                }
            }
            self.prepared.clear(&active);
            let unpacked = self.unpacked.clone();
            let cleared = move || unpacked.clear(&active, &busy);
            let _ = tokio::task::spawn_blocking(cleared).await;
        }
    }

    /// Says in the log which functions lack their variables, because the key is not there.
    pub async fn warn_of_sealed(&self) {
        match self.engine.functions_without_variables(NAMED_MAX).await {
            Ok(lacking) if lacking.is_empty() => {}
            Ok(lacking) => {
                let functions = lacking.join(", ");
                tracing::warn!(
                    functions,
                    "the variables of these functions, and perhaps of more, cannot be opened: \
                     their executions are refused until the file with the key is put back"
                );
            }
            Err(error) => tracing::warn!(%error, "variables of functions cannot be read"),
        }
    }

    /// Deletes deployments and records as functions say, now and every hour.
    pub async fn expire_old(&self) -> Infallible {
        loop {
            if let Err(error) = self.engine.trim_executions().await {
                tracing::warn!(%error, "old records of executions cannot be deleted");
            }
            match self.engine.expire_deployments().await {
                Ok(0) => {}
                Ok(count) => tracing::info!(count, "old deployments were deleted"),
                Err(error) => tracing::warn!(%error, "old deployments cannot be deleted"),
            }
            tokio::time::sleep(EXPIRY_ROUND).await;
        }
    }

    /// Gives runs so long to end, and ends all processes. Blocks.
    pub fn shut_down(&self, limit: Duration) {
        self.executor.shut_down(limit);
    }
}

/// Where the kernel bounds what jails hold, if it can here.
fn groups(isolation: &FunctionIsolation) -> Option<GroupFolder> {
    if !matches!(isolation, FunctionIsolation::Jail { .. }) {
        return None;
    }
    let own = fs::read_to_string(OWN_CGROUP).unwrap_or_default();
    let found = GroupFolder::look(Path::new(CGROUPS), &own).and_then(GroupFolder::take);
    match &found {
        Ok(_) => tracing::info!("functions have control groups of the kernel"),
        Err(why) => tracing::info!(%why, "functions have no control groups of the kernel"),
    }
    found.ok()
}

/// Without namespaces a process reads its code by its path, and a server of root's gives each
/// another user.
///
/// # Errors
/// Which folder on the way that user may not enter, and what to do.
fn need_open_way(isolation: &FunctionIsolation, folder: &Path) -> io::Result<()> {
    let FunctionIsolation::Jail { level, .. } = isolation else {
        return Ok(());
    };
    if *level != JailLevel::Reduced || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    for on_the_way in folder.ancestors() {
        if fs::metadata(on_the_way)?.permissions().mode() & 0o001 == 0 {
            let shown = on_the_way.display();
            return Err(io::Error::other(format!(
                "with isolation `reduced` functions are another user's, who may not enter \
                 {shown}: `chmod o+x` it, or start the server as a user of its own"
            )));
        }
    }
    Ok(())
}

/// Makes an empty folder for this server. What an earlier one has left is put out of the way and
/// told, to be removed without haste: after a power cut its files may be empty.
fn set_aside(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::create_dir_all(folder)?;
    let (now, mut nth) = (folder.join(NOW), 0);
    while fs::symlink_metadata(&now).is_ok() {
        // A name may be taken by a folder that is not empty.
        match fs::rename(&now, folder.join(format!("{LEFT}{nth}"))) {
            Err(_) if nth < 1_000 => nth += 1,
            renamed => renamed?,
        }
    }
    fs::create_dir(&now)?;
    let is_left = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(LEFT);
    let left = fs::read_dir(folder)?.filter_map(Result::ok);
    Ok(left.filter(is_left).map(|entry| entry.path()).collect())
}
