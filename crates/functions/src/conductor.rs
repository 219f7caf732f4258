//! All processes: what becomes of runs, of what happens to processes, and by the clock.
//!
//! Decides; starts nothing and waits for nothing. `shared_conductor.rs` is how threads reach it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::executor_counts::{ExecutorCounts, RuntimeLevel};
use crate::frame::PipeFrame;
use crate::launch::{Happening, Launched, ProcessEvent};
use crate::log_tail::LogTail;
use crate::memory_budget::{LOG_BYTES_MAX, MemoryBudget};
use crate::outgoing::Outgoing;
use crate::pending_run::PendingRun;
use crate::pool::{
    BODIES_BYTES_MAX, DeploymentPool, DeploymentReport, OUTPUT_BYTES_MAX, OUTPUT_LETTERS_MAX,
    PoolLimits,
};
use crate::process::{ProcessEnd, ProcessLimits, ProcessStage, WarmProcess};
use crate::runtime::{InstalledRuntime, InstalledRuntimes};
use crate::work::{RunRefusal, UnpackedDeployment};

/// Deadlines are kept to this while anything is in flight.
const BUSY_TICK: Duration = Duration::from_millis(10);
/// Memory is looked at, and idle processes are ended, this often.
pub const SWEEP: Duration = Duration::from_millis(100);

/// An idle process that has worked so recently does not end for a deployment that has just lost
/// its own by its own fault.
const IN_USE: Duration = Duration::from_secs(5);
/// Deployments that have lost a process by their own fault get another one so often, all of them
/// together, until one of theirs lasts: a start takes a core for some 60 to 100 ms.
const FAULTY_STARTS: Duration = Duration::from_millis(200);
/// Deployments without a process whose output is kept.
const OUTPUTS_KEPT: usize = 64;

/// How much of the host may be used, and what a run may send.
#[derive(Clone, Copy, Debug)]
pub struct ConductorLimits {
    pub memory_max_mib: u64,
    pub pool: PoolLimits,
    pub process: ProcessLimits,
}

/// All pools.
#[derive(Debug)]
pub struct Conductor {
    runtimes: HashMap<String, Arc<InstalledRuntime>>,
    /// Whether each process has a network of its own.
    has_networks: bool,
    limits: ConductorLimits,
    counts: Arc<ExecutorCounts>,
    /// What the logs of all runs take their memory from.
    logs: MemoryBudget,
    /// The same for what processes write outside of any run.
    outputs: MemoryBudget,
    /// The same for bodies.
    bodies: MemoryBudget,
    pools: HashMap<String, DeploymentPool>,
    /// What was written in pools that are no more, the latest last.
    outputs_of_before: VecDeque<(String, LogTail)>,
    /// The pool of each process.
    owners: HashMap<u64, String>,
    next_process: u64,
    /// When a process was started for a deployment that had lost one by its own fault.
    last_faulty_start: Option<Instant>,
    closing: Option<Instant>,
}

/// A process that is to be started.
#[derive(Debug)]
pub struct WantedProcess {
    pub number: u64,
    /// Whether it waits until another process is needed.
    pub is_spare: bool,
    pub deployment: Arc<UnpackedDeployment>,
    pub runtime: Arc<InstalledRuntime>,
}

/// What a step has left to others.
#[derive(Debug, Default)]
pub struct LeftToDo {
    /// These have bytes to send.
    pub unsent: Vec<Arc<Outgoing>>,
    /// A process is to be started.
    pub wants_process: bool,
}

/// A process whose memory is to be looked at.
#[derive(Clone, Copy, Debug)]
pub struct ObservedProcess {
    pub process: u64,
    pub pid: u32,
    pub depth: usize,
    pub limit_bytes: u64,
}

impl Conductor {
    pub fn new(
        runtimes: &InstalledRuntimes,
        has_networks: bool,
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
            has_networks,
            limits,
            counts,
            logs: MemoryBudget::new(LOG_BYTES_MAX),
            outputs: MemoryBudget::new(OUTPUT_BYTES_MAX),
            bodies: MemoryBudget::new(BODIES_BYTES_MAX),
            pools: HashMap::new(),
            outputs_of_before: VecDeque::new(),
            owners: HashMap::new(),
            next_process: 1,
            last_faulty_start: None,
            closing: None,
        }
    }

    pub fn limits(&self) -> ConductorLimits {
        self.limits
    }

    /// How soon to look at the clock; `None` when nothing runs.
    pub fn tick_period(&self) -> Option<Duration> {
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

    /// No process of this deployment takes new work.
    pub fn retire(&mut self, deployment: &str, now: Instant) {
        if let Some(pool) = self.pools.get_mut(deployment) {
            pool.retire(now);
        }
    }

    /// What runs, in the order of the deployments' ids.
    pub fn report(&self) -> Vec<DeploymentReport> {
        let mut reports: Vec<_> = self.pools.values().map(DeploymentPool::report).collect();
        reports.sort_by(|a, b| a.id.cmp(&b.id));
        reports
    }

    /// What the processes of this deployment wrote outside of any run, and what they were refused.
    pub fn output(&self, deployment: &str) -> String {
        let pool = self.pools.get(deployment).map(|pool| &pool.output);
        let mut before = self.outputs_of_before.iter();
        let before = || Some(&before.find(|(id, _)| id == deployment)?.1);
        let output = pool.or_else(before);
        let end = output.map(|output| output.last(OUTPUT_LETTERS_MAX));
        end.unwrap_or_default().to_owned()
    }

    /// Takes no more runs; what is left at this instant is ended.
    pub fn close(&mut self, limit: Instant) {
        self.closing = Some(limit);
    }

    /// Drops all processes and runs: nothing conducts any more.
    pub fn abandon(&mut self, now: Instant) {
        self.close(now);
        self.pools.clear();
        self.owners.clear();
    }

    /// Takes a run.
    ///
    /// # Errors
    /// When it is not accepted; then nothing of it is run.
    pub fn run(&mut self, run: PendingRun, now: Instant) -> Result<LeftToDo, RunRefusal> {
        let deployment = run.work.deployment.clone();
        self.accept(run, now)?;
        Ok(self.left_to_do(&deployment.id, now))
    }

    fn left_to_do(&self, owner: &str, now: Instant) -> LeftToDo {
        let Some(pool) = self.pools.get(owner) else {
            return LeftToDo::default();
        };
        LeftToDo {
            unsent: pool.unsent().collect(),
            wants_process: pool.wants_process(now),
        }
    }

    /// All that is to be sent.
    pub fn unsent(&self) -> Vec<Arc<Outgoing>> {
        let pools = self.pools.values();
        pools.flat_map(DeploymentPool::unsent).collect()
    }

    fn accept(&mut self, run: PendingRun, now: Instant) -> Result<(), RunRefusal> {
        if self.closing.is_some() {
            return Err(RunRefusal::Closing);
        }
        let deployment = Arc::clone(&run.work.deployment);
        let runtime = self.runtime(&deployment)?;
        if deployment.reaches_outside && !self.has_networks {
            return Err(RunRefusal::NetworkMissing);
        }
        let pool = self.pools.entry(deployment.id.clone()).or_insert_with(|| {
            let bounds = (self.limits.pool, Arc::clone(&self.counts));
            let budgets = [&self.logs, &self.outputs, &self.bodies].map(MemoryBudget::for_another);
            let runtime = Arc::clone(&runtime);
            let mut pool =
                DeploymentPool::new(Arc::clone(&deployment), runtime, bounds, budgets, now);
            let mut before = self.outputs_of_before.iter();
            let at = before.position(|(id, _)| *id == deployment.id);
            if let Some((_, output)) = at.and_then(|at| self.outputs_of_before.remove(at)) {
                pool.output = output;
            }
            pool
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

    /// Takes frames that a process has sent.
    pub fn take_frames(&mut self, process: u64, frames: Vec<PipeFrame>, now: Instant) -> LeftToDo {
        let Some(owner) = self.owners.get(&process).cloned() else {
            return LeftToDo::default();
        };
        if let Some(living) = self.living(process) {
            for frame in frames {
                if let Err(rule) = living.receive(frame, now) {
                    living.end(ProcessEnd::RuleBroken(rule), now);
                    break;
                }
            }
        }
        self.settle(process, now);
        self.left_to_do(&owner, now)
    }

    fn living(&mut self, process: u64) -> Option<&mut WarmProcess> {
        let pool = self.pools.get_mut(self.owners.get(&process)?)?;
        let mut processes = pool.processes.iter_mut();
        processes.find(|living| living.number == process)
    }

    /// Takes what happened to a process.
    pub fn take_event(&mut self, event: ProcessEvent, now: Instant) {
        let owner = self.owners.get(&event.process);
        let Some(pool) = owner.and_then(|owner| self.pools.get_mut(owner)) else {
            return;
        };
        let mut processes = pool.processes.iter_mut();
        let Some(process) = processes.find(|process| process.number == event.process) else {
            return;
        };
        match event.what {
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
            Happening::LackedMemory => process.end(ProcessEnd::Memory, now),
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

    /// Whose memory is to be looked at.
    pub fn observed(&self) -> Vec<ObservedProcess> {
        let pools = self.pools.values();
        let processes = pools.flat_map(|pool| &pool.processes);
        let observed = processes.map(|process| ObservedProcess {
            process: process.number,
            pid: process.launched.pid,
            depth: process.launched.depth,
            limit_bytes: process.memory_max_bytes(),
        });
        observed.collect()
    }

    /// What a process holds.
    pub fn take_memory(&mut self, process: u64, bytes: u64) {
        if let Some(process) = self.living(process) {
            process.memory_bytes = bytes;
        }
    }

    /// What is due by the clock. `is_sweep` says whether memory was looked at.
    pub fn tick(&mut self, is_sweep: bool, now: Instant) {
        for pool in self.pools.values_mut() {
            pool.tick(now);
        }
        let gone =
            |_: &String, pool: &mut DeploymentPool| pool.is_empty() && !pool.is_remembered(now);
        for (id, pool) in self.pools.extract_if(gone) {
            if !pool.output.text().is_empty() {
                self.outputs_of_before.push_back((id, pool.output));
            }
        }
        let surplus = self.outputs_of_before.len().saturating_sub(OUTPUTS_KEPT);
        self.outputs_of_before.drain(..surplus);
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
    pub fn is_closed(&mut self, now: Instant) -> bool {
        let is_quiet = self.closing.is_some() && !self.pools.values().any(DeploymentPool::has_runs);
        if is_quiet {
            for pool in self.pools.values_mut() {
                pool.shut_down(now);
                pool.bury(now);
            }
        }
        is_quiet && self.pools.values().all(DeploymentPool::is_empty)
    }

    /// The next process that a pool wants, within the memory of the host. Deployments that have
    /// none come first, those that have lost one by their own fault behind others, in the order in
    /// which their runs have come. Spares come last, and take no memory from others.
    pub fn wanted(&mut self, now: Instant) -> Option<WantedProcess> {
        let mut wanting = self.wanting(|pool| pool.wants_process(now));
        let has_none_waiting = wanting.is_empty();
        let last = self.last_faulty_start;
        if last.is_some_and(|last| now.saturating_duration_since(last) < FAULTY_STARTS) {
            let is_paced = |pool: &DeploymentPool| pool.is_paced(now);
            wanting.retain(|(id, _)| !self.pools.get(id).is_some_and(is_paced));
        }
        wanting.sort_by_key(|(id, _)| {
            let pool = self.pools.get(id);
            pool.map(|pool| {
                let after_others = (pool.has_process(), pool.is_at_fault(now));
                (after_others, pool.waits_since())
            })
        });
        let mut is_short = false;
        for (id, memory_mib) in &wanting {
            let has_process = self.pools.get(id).is_some_and(DeploymentPool::has_process);
            // What becomes free is for those that have none.
            if is_short && has_process {
                break;
            }
            if self.has_memory(*memory_mib) {
                return self.begin(id, false, now);
            }
            is_short |= self.free_memory(id, (*memory_mib, has_process), now);
        }
        if !has_none_waiting || self.closing.is_some() {
            return None;
        }
        let spares = self.wanting(|pool| pool.wants_spare(now));
        let mut spares = spares.into_iter();
        let (id, _) = spares.find(|(_, memory_mib)| self.has_memory(*memory_mib))?;
        self.begin(&id, true, now)
    }

    /// Pools, and what a process of each may hold.
    fn wanting(&self, is_one: impl Fn(&DeploymentPool) -> bool) -> Vec<(String, u64)> {
        let wanting = self.pools.iter().filter(|(_, pool)| is_one(pool));
        wanting
            .map(|(id, pool)| (id.clone(), u64::from(pool.deployment.memory_mib)))
            .collect()
    }

    fn begin(&mut self, id: &str, is_spare: bool, now: Instant) -> Option<WantedProcess> {
        let pool = self.pools.get_mut(id)?;
        if pool.is_paced(now) {
            self.last_faulty_start = Some(now);
        }
        pool.count_start(is_spare, now);
        let number = self.next_process;
        self.next_process += 1;
        Some(WantedProcess {
            number,
            is_spare,
            deployment: pool.deployment.clone(),
            runtime: pool.runtime.clone(),
        })
    }

    /// Takes a process that was wanted. One whose deployment has changed meanwhile ends.
    pub fn add(
        &mut self,
        wanted: WantedProcess,
        started: Result<(Launched, Vec<u8>), String>,
        now: Instant,
    ) {
        let Some(pool) = self.pools.get_mut(&wanted.deployment.id) else {
            return;
        };
        match started {
            Ok((launched, setup)) => {
                let number = wanted.number;
                let limits = (self.limits.process, pool.logs.clone());
                let launched = (launched, wanted.deployment.memory_mib);
                let mut process = WarmProcess::new(number, launched, &setup, limits, now);
                process.is_spare = wanted.is_spare;
                if !Arc::ptr_eq(&pool.deployment, &wanted.deployment) {
                    process.end(ProcessEnd::Retired, now);
                }
                self.owners.insert(number, wanted.deployment.id.clone());
                pool.processes.push(process);
                // Work may have come while it was started as a spare.
                pool.dispatch(now);
            }
            Err(_) if wanted.is_spare => pool.fail_spare(now),
            Err(reason) => pool.fail_start(&reason, now),
        }
    }

    /// Whether another process of this size fits. Counts limits, not what is held now. One process
    /// always fits.
    fn has_memory(&self, wanted_mib: u64) -> bool {
        let held: u64 = self.pools.values().map(|pool| pool.memory_mib().0).sum();
        held == 0 || held + wanted_mib <= self.limits.memory_max_mib
    }

    /// Ends a spare of another deployment, or where there is none the process that has been idle
    /// the longest. Where all are busy, the deployment that has the most lets one of them make way,
    /// if `wanting` has none and would not have more. The new one starts when that has ended.
    /// Nothing ends where enough is ending already, or where all that is idle would not do, and
    /// what is in use does not end for who has just lost a process by its own fault.
    /// Whether memory comes that must be left to `wanting`.
    fn free_memory(
        &mut self,
        wanting: &str,
        (wanted_mib, has_process): (u64, bool),
        now: Instant,
    ) -> bool {
        let max = self.limits.memory_max_mib;
        let fits = |rest: u64| rest == 0 || rest + wanted_mib <= max;
        let is_at_fault = self
            .pools
            .get(wanting)
            .is_some_and(|pool| pool.is_at_fault(now));
        let can_end = |process: &WarmProcess| {
            let is_in_use = !process.is_spare && now < process.last_work + IN_USE;
            process.is_idle() && !(is_at_fault && is_in_use)
        };
        let (mut rest, mut idle) = (0, 0);
        for (id, pool) in &self.pools {
            let (ending, idle_now) = pool.loose_mib(can_end);
            rest += pool.memory_mib().0 - ending;
            idle += if id == wanting { 0 } else { idle_now };
        }
        if fits(rest) {
            return !has_process;
        }
        if fits(rest - idle) {
            let others = self.pools.iter_mut().filter(|(id, _)| *id != wanting);
            let processes = others.flat_map(|(_, pool)| &mut pool.processes);
            let idle = processes.filter(|process| can_end(process));
            if let Some(process) = idle.min_by_key(|process| (!process.is_spare, process.last_work))
            {
                process.end(ProcessEnd::Retired, now);
            }
            return !has_process;
        }
        if has_process || is_at_fault {
            return false;
        }
        let levels = self.pools.values().map(DeploymentPool::memory_mib);
        let (held, leaving) = levels.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if held - leaving + wanted_mib <= self.limits.memory_max_mib {
            return true;
        }
        let stays = |pool: &DeploymentPool| pool.memory_mib().0 - pool.memory_mib().1;
        let others = self.pools.iter_mut().filter(|(id, _)| *id != wanting);
        let largest = others.max_by_key(|(_, pool)| stays(pool));
        let Some((_, pool)) = largest.filter(|(_, pool)| stays(pool) >= wanted_mib) else {
            return false;
        };
        pool.yield_process(now);
        true
    }
}

#[cfg(test)]
mod tests;
