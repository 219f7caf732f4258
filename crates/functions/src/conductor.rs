//! The one thread that holds all processes: takes runs, what happens to processes, and the clock.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use crate::executor_counts::{ExecutorCounts, RuntimeLevel};
use crate::head::{self, AdapterLimits};
use crate::launch::{Happening, Launcher, ProcessEvent};
use crate::memory::held_bytes;
use crate::pool::{DeploymentPool, DeploymentReport};
use crate::process::{PendingRun, ProcessEnd, ProcessLimits, ProcessStage, WarmProcess};
use crate::runtime::{InstalledRuntime, InstalledRuntimes};
use crate::work::{FunctionOutcome, FunctionWork, RunRefusal, UnpackedDeployment};

/// Deadlines are kept to this while anything is in flight.
const BUSY_TICK: Duration = Duration::from_millis(10);
/// Memory is looked at, and idle processes are ended, this often.
const SWEEP: Duration = Duration::from_millis(100);
/// Events taken before the next look at what waits.
const EVENTS_MAX: usize = 64;

/// What a caller wants of the conductor.
#[derive(Debug)]
pub enum ExecutorCall {
    Run {
        work: FunctionWork,
        accepted: Instant,
        reply: oneshot::Sender<FunctionOutcome>,
        refused: oneshot::Sender<RunRefusal>,
    },
    Retire(String),
    Report(oneshot::Sender<Vec<DeploymentReport>>),
    ShutDown(Duration),
}

/// How much of the host may be used, and what a run may send.
#[derive(Clone, Copy, Debug)]
pub struct ConductorLimits {
    pub processes_max: usize,
    pub memory_max_mib: u64,
    pub idle_max: Duration,
    pub process: ProcessLimits,
}

/// All pools.
#[derive(Debug)]
pub struct Conductor {
    runtimes: HashMap<String, Arc<InstalledRuntime>>,
    launcher: Launcher,
    limits: ConductorLimits,
    counts: Arc<ExecutorCounts>,
    pools: HashMap<String, DeploymentPool>,
    /// The pool of each process.
    owners: HashMap<u64, String>,
    next_process: u64,
    last_tick: Instant,
    last_sweep: Instant,
    closing: Option<Instant>,
}

impl Conductor {
    pub fn new(
        runtimes: &InstalledRuntimes,
        launcher: Launcher,
        limits: ConductorLimits,
        counts: Arc<ExecutorCounts>,
    ) -> Conductor {
        let mut by_id = HashMap::new();
        for runtime in runtimes.found() {
            let shared = Arc::new(runtime.clone());
            for id in &runtime.ids {
                by_id
                    .entry(id.clone())
                    .or_insert_with(|| Arc::clone(&shared));
            }
        }
        Conductor {
            runtimes: by_id,
            launcher,
            limits,
            counts,
            pools: HashMap::new(),
            owners: HashMap::new(),
            next_process: 1,
            last_tick: Instant::now(),
            last_sweep: Instant::now(),
            closing: None,
        }
    }

    /// Runs until it is shut down, or all callers are gone.
    pub async fn conduct(
        mut self,
        mut calls: mpsc::UnboundedReceiver<ExecutorCall>,
        mut events: mpsc::Receiver<ProcessEvent>,
    ) {
        loop {
            let tick = self.tick_period();
            // From the last look, not from the last event, or a steady stream would put it off.
            let next = self.last_tick + tick.unwrap_or(SWEEP);
            tokio::select! {
                call = calls.recv() => match call {
                    Some(call) => self.take_call(call),
                    None => return,
                },
                Some(event) = events.recv() => {
                    self.take_event(event);
                    for _ in 1..EVENTS_MAX {
                        let Ok(event) = events.try_recv() else { break };
                        self.take_event(event);
                    }
                }
                () = tokio::time::sleep_until(next.into()), if tick.is_some() => self.tick(),
            }
            self.start_processes();
            if self.is_closed() {
                return;
            }
        }
    }

    /// How soon to look at the clock; `None` when nothing runs.
    fn tick_period(&self) -> Option<Duration> {
        let is_busy = self.pools.values().any(|pool| {
            let stage = |process: &WarmProcess| process.stage != ProcessStage::Ready;
            pool.has_runs() || pool.processes.iter().any(stage)
        });
        match (is_busy || self.closing.is_some(), self.pools.is_empty()) {
            (true, _) => Some(BUSY_TICK),
            (false, false) => Some(SWEEP),
            (false, true) => None,
        }
    }

    fn take_call(&mut self, call: ExecutorCall) {
        let now = Instant::now();
        match call {
            ExecutorCall::Run {
                work,
                accepted,
                reply,
                refused,
            } => {
                let run = PendingRun {
                    work,
                    accepted,
                    reply,
                    moves: 0,
                    is_cold: false,
                };
                if let Err(refusal) = self.accept(run, now) {
                    let _ = refused.send(refusal);
                }
            }
            ExecutorCall::Retire(deployment) => {
                if let Some(pool) = self.pools.get_mut(&deployment) {
                    pool.retire(now);
                }
            }
            ExecutorCall::Report(reply) => {
                let mut reports: Vec<_> = self.pools.values().map(DeploymentPool::report).collect();
                reports.sort_by(|a, b| a.id.cmp(&b.id));
                let _ = reply.send(reports);
            }
            ExecutorCall::ShutDown(limit) => self.closing = Some(now + limit),
        }
    }

    fn accept(&mut self, run: PendingRun, now: Instant) -> Result<(), RunRefusal> {
        if self.closing.is_some() {
            return Err(RunRefusal::Closing);
        }
        let deployment = Arc::clone(&run.work.deployment);
        let runtime = self.runtime(&deployment)?;
        if deployment.reaches_outside && !self.launcher.has_networks() {
            return Err(RunRefusal::NetworkMissing);
        }
        let pool = self.pools.entry(deployment.id.clone()).or_insert_with(|| {
            let counts = Arc::clone(&self.counts);
            DeploymentPool::new(Arc::clone(&deployment), Arc::clone(&runtime), counts, now)
        });
        if deployment.revision > pool.deployment.revision {
            pool.retire(now);
            pool.deployment = deployment;
            pool.runtime = runtime;
        }
        pool.accept(run, now)
    }

    fn runtime(
        &self,
        deployment: &UnpackedDeployment,
    ) -> Result<Arc<InstalledRuntime>, RunRefusal> {
        let id = &deployment.runtime;
        let found = self
            .runtimes
            .get(id)
            .or_else(|| self.runtimes.get(&format!("{id}.0")));
        found.cloned().ok_or_else(|| RunRefusal::RuntimeMissing {
            runtime: id.clone(),
        })
    }

    fn take_event(&mut self, event: ProcessEvent) {
        let now = Instant::now();
        let owner = self.owners.get(&event.process);
        let Some(pool) = owner.and_then(|owner| self.pools.get_mut(owner)) else {
            return;
        };
        let mut processes = pool.processes.iter_mut();
        let Some(process) = processes.find(|process| process.number == event.process) else {
            return;
        };
        match event.what {
            Happening::Frames(frames) => {
                for frame in frames {
                    if let Err(rule) = process.receive(frame, now) {
                        process.end(ProcessEnd::RuleBroken(rule), now);
                        break;
                    }
                }
            }
            Happening::Broken(rule) => {
                let rule = format!("it sent {rule}");
                process.end(ProcessEnd::RuleBroken(rule), now);
            }
            Happening::Closed => {
                process.is_closed = true;
                // A moment for its exit, which says more.
                if process.exit.is_none() && !matches!(process.stage, ProcessStage::Ending(..)) {
                    process.closed_at.get_or_insert(now);
                }
            }
            Happening::Output(is_error, bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                if !process.log_output(is_error, &text) {
                    pool.log_output(&text);
                }
            }
            Happening::Refused(address) => pool.refuse(address, now),
            Happening::Exited(exit) => {
                process.exit = Some(exit);
                process.end(ProcessEnd::ByItself, now);
            }
        }
        self.settle(event.process, now);
    }

    /// What an event has made possible: a process is free again, or has ended.
    fn settle(&mut self, process: u64, now: Instant) {
        let Some(owner) = self.owners.get(&process) else {
            return;
        };
        if let Some(pool) = self.pools.get_mut(owner) {
            pool.bury(now);
            pool.dispatch(now);
            if !pool.processes.iter().any(|living| living.number == process) {
                self.owners.remove(&process);
            }
        }
    }

    fn tick(&mut self) {
        let now = Instant::now();
        self.last_tick = now;
        let is_sweep = now >= self.last_sweep + SWEEP;
        if is_sweep {
            self.last_sweep = now;
            for pool in self.pools.values_mut() {
                let limit = u64::from(pool.deployment.memory_mib) * 1024 * 1024;
                for process in &mut pool.processes {
                    let (pid, depth) = (process.launched.pid, process.launched.depth);
                    // Half of the limit leaves room to look closer in time.
                    process.memory_bytes = held_bytes(pid, depth, limit / 2);
                }
            }
        }
        for pool in self.pools.values_mut() {
            pool.tick(self.limits.idle_max, now);
        }
        // Kept a while beyond its last process, for its count of early ends and its output.
        let keep = self.limits.idle_max;
        self.pools.retain(|_, pool| {
            !pool.is_empty() || now.saturating_duration_since(pool.last_work) < keep
        });
        // Nothing is looked at any more once no pool is left.
        if is_sweep || self.pools.is_empty() {
            self.tell_levels();
        }
        let pools = &self.pools;
        self.owners.retain(|process, owner| {
            let pool = pools.get(owner);
            let mut living = pool.into_iter().flat_map(|pool| &pool.processes);
            living.any(|living| living.number == *process)
        });
        if self.closing.is_some_and(|limit| now >= limit) {
            for pool in self.pools.values_mut() {
                pool.shut_down(now);
            }
        }
    }

    fn tell_levels(&self) {
        let mut levels: BTreeMap<&str, RuntimeLevel> = BTreeMap::new();
        for pool in self.pools.values() {
            let level = levels.entry(pool.deployment.runtime.as_str()).or_default();
            level.processes += pool.processes.len();
            let memory = pool.processes.iter().map(|process| process.memory_bytes);
            level.memory_bytes += memory.sum::<u64>();
            level.waiting += pool.waiting();
        }
        self.counts.set_levels(&levels);
    }

    /// Whether it is shut down and nothing runs any more.
    fn is_closed(&mut self) -> bool {
        let is_quiet = self.closing.is_some() && !self.pools.values().any(DeploymentPool::has_runs);
        if is_quiet {
            let now = Instant::now();
            for pool in self.pools.values_mut() {
                pool.shut_down(now);
                pool.bury(now);
            }
        }
        is_quiet && self.pools.values().all(DeploymentPool::is_empty)
    }

    /// Starts what the pools want, within the memory of the host.
    fn start_processes(&mut self) {
        let now = Instant::now();
        let wanting: Vec<String> = self
            .pools
            .iter()
            .filter(|(_, pool)| pool.wants_process(self.limits.processes_max, now))
            .map(|(id, _)| id.clone())
            .collect();
        for id in wanting {
            let wanted = self
                .pools
                .get(&id)
                .map_or(0, |pool| pool.deployment.memory_mib);
            if self.has_memory(u64::from(wanted)) || self.free_memory(&id, now) {
                self.start_process(&id, now);
            }
        }
    }

    /// Whether another process of this size fits. Counts limits, not what is held now. One process
    /// always fits.
    fn has_memory(&self, wanted_mib: u64) -> bool {
        let held: u64 = self
            .pools
            .values()
            .map(|pool| pool.processes.len() as u64 * u64::from(pool.deployment.memory_mib))
            .sum();
        held == 0 || held + wanted_mib <= self.limits.memory_max_mib
    }

    /// Ends the process of another deployment that has been idle the longest. The new one starts
    /// when that has ended.
    fn free_memory(&mut self, wanting: &str, now: Instant) -> bool {
        let others = self.pools.iter_mut().filter(|(id, _)| *id != wanting);
        let processes = others.flat_map(|(_, pool)| &mut pool.processes);
        let idle = processes
            .filter(|process| process.stage == ProcessStage::Ready && process.flights() == 0);
        if let Some(process) = idle.min_by_key(|process| process.last_work) {
            process.end(ProcessEnd::Retired, now);
        }
        false
    }

    fn start_process(&mut self, id: &str, now: Instant) {
        let Some(pool) = self.pools.get_mut(id) else {
            return;
        };
        let number = self.next_process;
        self.next_process += 1;
        pool.count_start();
        match launch(&self.launcher, number, pool, self.limits.process, now) {
            Ok(process) => {
                pool.processes.push(process);
                self.owners.insert(number, id.to_owned());
            }
            Err(error) => pool.fail_start(&error.to_string()),
        }
    }
}

fn launch(
    launcher: &Launcher,
    number: u64,
    pool: &DeploymentPool,
    limits: ProcessLimits,
    now: Instant,
) -> io::Result<WarmProcess> {
    let deployment = &pool.deployment;
    let started = launcher.start(number, &pool.runtime, deployment)?;
    let folder = launcher.code_folder(deployment);
    let adapter = AdapterLimits {
        body_bytes: limits.body_bytes,
        log_letters: limits.log_letters,
    };
    let setup = head::setup(deployment, &folder, adapter);
    Ok(WarmProcess::new(number, started, &setup, limits, now))
}
