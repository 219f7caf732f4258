//! The processes of one deployment, and the runs that wait for one of them.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::executor_counts::ExecutorCounts;
use crate::launch::ProcessExit;
use crate::log_tail::LogTail;
use crate::memory_budget::{HeldMemory, MemoryBudget};
use crate::outgoing::Outgoing;
use crate::pending_run::{PendingRun, RunFailure};
use crate::process::{EndWords, ProcessEnd, ProcessStage, WarmProcess};
use crate::runtime::InstalledRuntime;
use crate::spare::SparePlan;
use crate::start_backoff::{EndedProcess, StartBackoff};
use crate::work::{RunCause, RunRefusal, UnpackedDeployment};

/// Runs that wait.
const QUEUE_RUNS_MAX: usize = 1_000;
/// What their bodies hold.
const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// What the bodies of all runs whose callers wait may hold, of all deployments.
pub const BODIES_BYTES_MAX: usize = 256 * 1024 * 1024;
/// A body of this size counts for nothing of that.
const BODY_BYTES_FREE: usize = 16 * 1024;
/// A run that was in so many processes when they ended, before it was started, is not moved again.
const MOVES_MAX: u32 = 3;
/// A process is replaced after this time.
const AGE_MAX: Duration = Duration::from_hours(1);
/// A process is replaced after so many requests.
const ANSWERS_MAX: u64 = 1_000_000;
/// Of its limit; a process above it is replaced.
const MEMORY_PERCENT_MAX: u64 = 80;
/// Where the host could not start another process next to those that take work, it is tried again
/// after so long.
const START_AGAIN: Duration = Duration::from_secs(1);
/// Where there are none that take work, it is tried again this often, until the run that has waited
/// the longest has waited for `START_TRIED_MAX`: a host is short of processes for a moment only.
const START_SOON: Duration = Duration::from_millis(100);
const START_TRIED_MAX: Duration = Duration::from_secs(1);
/// A process has so long before it makes way for a deployment that has none, and a deployment that
/// has lost one by its own fault waits so long until others make way for it.
const TURN_MIN: Duration = Duration::from_secs(10);
/// What an ended process has sent is read for so long: its children may hold the socket open.
const CLOSE_MAX: Duration = Duration::from_millis(100);
/// A process that was killed and is not reported as ended by then is given up.
const EXIT_MAX: Duration = Duration::from_secs(2);
/// Letters of its standard error in the errors of the run that it ended with.
const LAST_WORDS_SHOWN: usize = 2_000;
/// Of what processes write while no request, or more than one, is in flight.
pub const OUTPUT_LETTERS_MAX: usize = 100_000;
/// Of all deployments, beyond what each may have.
pub const OUTPUT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Connections that were refused are told so often.
const REFUSALS_TOLD: Duration = Duration::from_mins(1);

/// What is seen of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessReport {
    /// The process id.
    pub pid: u32,
    /// Whether its code is loaded and it takes requests.
    pub is_ready: bool,
    /// Whether it takes them only when another process is needed.
    pub is_spare: bool,
    /// Requests in flight.
    pub flights: usize,
    /// Requests that it has answered.
    pub answered: u64,
    /// Resident, as last looked at.
    pub memory_bytes: u64,
}

/// What is seen of one deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeploymentReport {
    /// The deployment's id.
    pub id: String,
    /// Its processes.
    pub processes: Vec<ProcessReport>,
    /// Runs that wait for a process.
    pub waiting: usize,
    /// Processes that were started since the executor was.
    pub starts: u64,
}

/// How many processes a deployment may have, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// Without the spare.
    pub processes: usize,
    pub idle: Duration,
    /// A spare ends this long after the last request; with zero there is none.
    pub spare_idle: Duration,
}

/// The processes of one deployment.
#[derive(Debug)]
pub struct DeploymentPool {
    pub deployment: Arc<UnpackedDeployment>,
    pub runtime: Arc<InstalledRuntime>,
    pub processes: Vec<WarmProcess>,
    limits: PoolLimits,
    starts: u64,
    spares: SparePlan,
    counts: Arc<ExecutorCounts>,
    queue: VecDeque<PendingRun>,
    queue_bytes: usize,
    backoff: StartBackoff,
    last_end: EndWords,
    /// What its processes wrote outside of any run.
    pub output: LogTail,
    /// What the logs of its runs take their memory from.
    pub logs: Arc<MemoryBudget>,
    /// The same for bodies.
    bodies: Arc<MemoryBudget>,
    /// Connections that were refused and not told, and when some were told last.
    refused: u64,
    refusals_told: Option<Instant>,
    /// When it had work last.
    pub last_work: Instant,
}

impl DeploymentPool {
    pub fn new(
        deployment: Arc<UnpackedDeployment>,
        runtime: Arc<InstalledRuntime>,
        (limits, counts): (PoolLimits, Arc<ExecutorCounts>),
        [logs, outputs, bodies]: [Arc<MemoryBudget>; 3],
        now: Instant,
    ) -> DeploymentPool {
        DeploymentPool {
            deployment,
            runtime,
            processes: Vec::new(),
            limits,
            starts: 0,
            spares: SparePlan::default(),
            counts,
            queue: VecDeque::new(),
            queue_bytes: 0,
            backoff: StartBackoff::default(),
            last_end: EndWords {
                sentence: String::new(),
                last_words: String::new(),
            },
            output: LogTail::within(OUTPUT_LETTERS_MAX, &outputs),
            logs,
            bodies,
            refused: 0,
            refusals_told: None,
            last_work: now,
        }
    }

    /// Takes a run, or fails it at once while processes do not start.
    ///
    /// # Errors
    /// When the queue is full, or the memory of bodies; the run is dropped.
    pub fn accept(&mut self, mut run: PendingRun, now: Instant) -> Result<(), RunRefusal> {
        self.last_work = now;
        // One that is there takes it when it can.
        if self.fails_runs(now) {
            let reason = self.last_end.whole();
            run.fail(RunCause::NeverStarted, RunFailure::because(reason));
            return Ok(());
        }
        let bytes = self.queue_bytes + run.work.body.len();
        let is_waiting = !self
            .processes
            .iter()
            .any(|process| self.has_room(process, now));
        if is_waiting && (self.queue.len() >= QUEUE_RUNS_MAX || bytes > QUEUE_BYTES_MAX) {
            return Err(RunRefusal::QueueFull {
                runs_max: QUEUE_RUNS_MAX,
                bytes_max: QUEUE_BYTES_MAX,
            });
        }
        self.hold_body(&mut run)?;
        self.queue_bytes = bytes;
        self.queue.push_back(run);
        self.dispatch(now);
        Ok(())
    }

    /// Whether runs fail at once: processes do not start, and none is there.
    fn fails_runs(&self, now: Instant) -> bool {
        self.backoff.fails_runs(now) && !self.has_process() && !self.has_spare()
    }

    /// Takes the memory of a body until its run ends. Who hands in runs without a caller bounds
    /// their bodies.
    fn hold_body(&self, run: &mut PendingRun) -> Result<(), RunRefusal> {
        let bytes = run.work.body.len();
        if run.work.wait_max.is_none() || bytes <= BODY_BYTES_FREE {
            return Ok(());
        }
        run.held = HeldMemory::of(self.bodies.clone());
        if run.held.take(bytes) {
            return Ok(());
        }
        Err(RunRefusal::BodiesFull {
            bytes_max: BODIES_BYTES_MAX,
        })
    }

    fn has_room(&self, process: &WarmProcess, now: Instant) -> bool {
        process.has_room(self.deployment.concurrency, now)
    }

    /// Sends what waits to the processes with the fewest requests in flight.
    pub fn dispatch(&mut self, now: Instant) {
        while !self.queue.is_empty() {
            let concurrency = self.deployment.concurrency;
            let free = self
                .processes
                .iter_mut()
                .filter(|process| process.has_room(concurrency, now));
            let Some(process) = free.min_by_key(|process| process.flights()) else {
                if self.use_spare(now) {
                    continue;
                }
                let is_ready = |process: &WarmProcess| {
                    process.stage == ProcessStage::Ready && !process.is_spare
                };
                let is_cold = !self.processes.iter().any(is_ready);
                for run in &mut self.queue {
                    run.is_cold |= is_cold;
                }
                return;
            };
            if let Some(run) = self.queue.pop_front() {
                self.queue_bytes -= run.work.body.len();
                process.send(run, now);
            }
        }
    }

    /// What has bytes to send.
    pub fn unsent(&self) -> impl Iterator<Item = Arc<Outgoing>> {
        let all = self
            .processes
            .iter()
            .map(|process| &process.launched.outgoing);
        all.filter(|outgoing| outgoing.has_waiting()).cloned()
    }

    /// Whether what waits needs another process to be started, and it may be.
    pub fn wants_process(&self, now: Instant) -> bool {
        self.lacks_process() && !self.has_spare() && self.backoff.is_due(now)
    }

    /// Whether there is a spare that can take work.
    fn has_spare(&self) -> bool {
        self.processes.iter().any(WarmProcess::is_usable_spare)
    }

    /// Whether what waits needs another process than those that are being started for it. Those
    /// that retire count only against twice the bound: one that takes an hour over its last run
    /// must not keep others waiting for so long.
    fn lacks_process(&self) -> bool {
        let (mut starting, mut ready, mut retiring) = (0, 0, 0);
        for process in self.processes.iter().filter(|process| !process.is_spare) {
            match process.stage {
                ProcessStage::Starting => starting += 1,
                ProcessStage::Ready => ready += 1,
                ProcessStage::Retiring => retiring += 1,
                ProcessStage::Ending(..) => {}
            }
        }
        let (taking, processes_max) = (starting + ready, self.limits.processes);
        let has_place = taking < processes_max && taking + retiring < 2 * processes_max;
        self.queue.len() > starting * self.deployment.concurrency && has_place
    }

    /// Has the spare take work if another process is needed; false where there is none.
    fn use_spare(&mut self, now: Instant) -> bool {
        if !self.lacks_process() {
            return false;
        }
        let mut processes = self.processes.iter_mut();
        let Some(spare) = processes.find(|process| process.is_usable_spare()) else {
            return false;
        };
        spare.is_spare = false;
        spare.last_work = now;
        spare.takes_since = now;
        self.spares.used(now);
        self.backoff.began(now);
        true
    }

    /// Whether a spare is to be started. Not while work waits, which needs the cores first.
    pub fn wants_spare(&self, now: Instant) -> bool {
        let unused = now.saturating_duration_since(self.last_work);
        let is_due = self.backoff.is_due(now);
        let has_one = self.processes.iter().any(|process| process.is_spare);
        let is_quiet = self.queue.is_empty() && unused < self.limits.spare_idle;
        is_quiet && is_due && !has_one && self.spares.is_due(now)
    }

    /// Whether a process of it takes work, or will.
    pub fn has_process(&self) -> bool {
        let takes = |process: &WarmProcess| {
            let stage = &process.stage;
            !process.is_spare && matches!(stage, ProcessStage::Starting | ProcessStage::Ready)
        };
        self.processes.iter().any(takes)
    }

    /// When the run was accepted that has waited the longest.
    pub fn waits_since(&self) -> Option<Instant> {
        self.queue.front().map(|run| run.accepted)
    }

    /// What its processes may hold: all of them, and those of them that are about to end.
    pub fn memory_mib(&self) -> (u64, u64) {
        let is_leaving = |process: &WarmProcess| {
            let stage = &process.stage;
            matches!(stage, ProcessStage::Retiring | ProcessStage::Ending(..))
        };
        (self.sum_mib(|_| true), self.sum_mib(is_leaving))
    }

    fn sum_mib(&self, is_one: impl Fn(&WarmProcess) -> bool) -> u64 {
        let counted = self.processes.iter().filter(|process| is_one(process));
        counted
            .map(|process| u64::from(process.memory_max_mib))
            .sum()
    }

    /// What those of its processes may hold that are ending, and those that `can_end` at once
    /// without a run. Those that retire are neither: their runs may take long.
    pub fn loose_mib(&self, can_end: impl Fn(&WarmProcess) -> bool) -> (u64, u64) {
        let is_ending = |process: &WarmProcess| matches!(process.stage, ProcessStage::Ending(..));
        (self.sum_mib(is_ending), self.sum_mib(can_end))
    }

    /// Whether it has lost a process by its own fault, and has not waited for its turn since.
    pub fn is_at_fault(&self, now: Instant) -> bool {
        self.backoff.is_at_fault(TURN_MIN, now)
    }

    /// Whether it shares the starts of deployments at fault: also after it has waited for its
    /// turn, or those that wait for long would all start at once.
    pub fn is_paced(&self, now: Instant) -> bool {
        self.backoff.has_faults() || self.is_at_fault(now)
    }

    /// Lets the process that has had the longest turn make way, once it has had a while.
    pub fn yield_process(&mut self, now: Instant) {
        let had_turn = |process: &&mut WarmProcess| {
            let had = now.saturating_duration_since(process.takes_since);
            process.stage == ProcessStage::Ready && !process.is_spare && had >= TURN_MIN
        };
        let processes = self.processes.iter_mut().filter(had_turn);
        if let Some(process) = processes.min_by_key(|process| process.takes_since) {
            process.retire();
        }
    }

    /// No process of before takes new work.
    pub fn retire(&mut self, now: Instant) {
        for process in &mut self.processes {
            process.retire();
            process.tick(now);
        }
        self.backoff = StartBackoff::default();
        self.spares = SparePlan::default();
    }

    /// Ends everything; what waits fails.
    pub fn shut_down(&mut self, now: Instant) {
        for process in &mut self.processes {
            process.end(ProcessEnd::ShutDown, now);
        }
        self.fail_queue(RunCause::ShutDown, "The server is stopping.");
    }

    /// Runs that wait for a process.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// A process is about to be started. A spare that is never used tries nothing.
    pub fn count_start(&mut self, is_spare: bool, now: Instant) {
        self.starts += 1;
        if !is_spare {
            self.backoff.began(now);
        }
        self.spares.began(now);
        self.counts.started(&self.deployment.runtime);
    }

    /// A spare could not be started at all.
    pub fn fail_spare(&mut self, now: Instant) {
        self.counts.ended(&self.deployment.runtime, "not_started");
        self.spares.lost(now);
    }

    /// A process could not be started at all.
    pub fn fail_start(&mut self, reason: &str, now: Instant) {
        self.counts.ended(&self.deployment.runtime, "not_started");
        if self.has_process() {
            self.backoff.put_off(START_AGAIN, now);
            return;
        }
        let waited = self.waits_since();
        let waited = waited.map(|since| now.saturating_duration_since(since));
        if waited.is_some_and(|waited| waited < START_TRIED_MAX) {
            self.backoff.put_off(START_SOON, now);
            return;
        }
        let sentence = format!("The process could not be started: {reason}.");
        self.fail_queue(RunCause::NotStarted, &sentence);
    }

    fn fail_queue(&mut self, cause: RunCause, reason: &str) {
        self.queue_bytes = 0;
        for run in self.queue.drain(..) {
            run.fail(cause, RunFailure::because(reason));
        }
    }

    /// Whether it is kept beyond its last process: for what is known of its ends, and for a spare
    /// that is to be started.
    pub fn is_remembered(&self, now: Instant) -> bool {
        let unused = now.saturating_duration_since(self.last_work);
        let has_spares = self.spares.is_worthwhile() && unused < self.limits.spare_idle;
        has_spares || unused < self.limits.idle || self.backoff.is_remembered(now)
    }

    /// Whether nothing of it runs or waits.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.queue.is_empty()
    }

    /// Whether a run of it has not ended.
    pub fn has_runs(&self) -> bool {
        let mut processes = self.processes.iter();
        !self.queue.is_empty() || processes.any(|process| process.flights() > 0)
    }

    /// What a process wrote outside of any run.
    pub fn log_output(&mut self, text: &str) {
        self.output.push(text);
    }

    /// Counts a connection that was refused, and says so once in a while.
    pub fn refuse(&mut self, address: SocketAddr, now: Instant) {
        self.counts.refused(&self.deployment.runtime);
        self.refused += 1;
        let last = self.refusals_told;
        if last.is_none_or(|last| now.saturating_duration_since(last) >= REFUSALS_TOLD) {
            let refused = std::mem::take(&mut self.refused);
            self.refusals_told = Some(now);
            let line = format!(
                "Connections that functions may not make: {refused}, the last one to {address}.\n"
            );
            self.output.push(&line);
        }
    }

    /// What is due by the clock.
    pub fn tick(&mut self, now: Instant) {
        self.fail_late(now);
        for process in &mut self.processes {
            let memory_max = process.memory_max_bytes();
            self.spares.loaded(process.loaded_after.take());
            let is_old = now.saturating_duration_since(process.started) >= AGE_MAX;
            let is_large = process.memory_bytes > memory_max / 100 * MEMORY_PERCENT_MAX;
            // Before, it would end without a run, and the next one after it.
            let is_loaded = process.stage != ProcessStage::Starting;
            if process.memory_bytes > memory_max {
                process.end(ProcessEnd::Memory, now);
            } else if is_loaded && is_large {
                process.is_large |= process.stage == ProcessStage::Ready;
                process.retire();
            } else if is_loaded && (is_old || process.answered >= ANSWERS_MAX) {
                process.retire();
            }
            // One that has answered long ago says nothing of those that end meanwhile.
            if process.answered > process.answered_before {
                process.answered_before = process.answered;
                let lasted = now.saturating_duration_since(process.takes_since);
                self.backoff.answered(lasted, now);
            }
            let (last_work, idle_max) = if process.is_spare {
                (self.last_work, self.limits.spare_idle)
            } else {
                (process.last_work, self.limits.idle)
            };
            let is_idle = process.stage == ProcessStage::Ready && process.flights() == 0;
            let is_unused = now.saturating_duration_since(last_work) >= idle_max;
            let is_needless = process.is_spare && !self.spares.is_worthwhile();
            if is_idle && (is_unused || is_needless) {
                process.retire();
            }
            process.tick(now);
        }
        self.bury(now);
        self.dispatch(now);
    }

    /// Runs in the queue whose callers have waited too long.
    fn fail_late(&mut self, now: Instant) {
        let is_late = |run: &PendingRun| run.wait_end().is_some_and(|end| now >= end);
        if !self.queue.iter().any(is_late) {
            return;
        }
        let (late, waiting) = self.queue.drain(..).partition(is_late);
        self.queue = waiting;
        self.queue_bytes = self.queue.iter().map(|run| run.work.body.len()).sum();
        for run in Vec::from(late) {
            let reason = "The caller has waited as long as a caller may.";
            run.fail(RunCause::WaitedTooLong, RunFailure::because(reason));
        }
    }

    /// Takes out the processes that have ended.
    pub fn bury(&mut self, now: Instant) {
        let mut at = 0;
        while at < self.processes.len() {
            if is_over(&self.processes[at], now) {
                let process = self.processes.remove(at);
                self.take_end(process, now);
            } else {
                at += 1;
            }
        }
    }

    fn take_end(&mut self, mut process: WarmProcess, now: Instant) {
        // It may have ended before the clock was looked at.
        self.spares.loaded(process.loaded_after.take());
        let mut reason = match &process.stage {
            ProcessStage::Ending(reason, _) => reason.clone(),
            _ => ProcessEnd::ByItself,
        };
        let lacked_memory = self.runtime.lacked_memory(process.last_words.text());
        if reason == ProcessEnd::ByItself && lacked_memory {
            reason = ProcessEnd::Memory;
        }
        let last_words = process.last_words.last(LAST_WORDS_SHOWN).to_owned();
        self.counts.ended(&self.deployment.runtime, reason.as_str());
        if process.is_spare {
            // It had no run that could fail with it.
            self.spares.lost(now);
            return;
        }
        let sentence = sentence(&process, &reason);
        let words = EndWords {
            sentence,
            last_words,
        };
        let was_expected = matches!(reason, ProcessEnd::Retired | ProcessEnd::ShutDown);
        let ended = EndedProcess {
            // One that has grown beyond its share has not failed.
            has_answered: process.answered > 0 || process.is_large,
            lasted: now.saturating_duration_since(process.takes_since),
            is_at_fault: !was_expected || process.is_large,
        };
        let moving = process.abandon(&reason, &words, now);
        self.last_end = words;
        self.take_back(moving, reason == ProcessEnd::ShutDown);
        if !self.backoff.ended(ended, now) {
            return;
        }
        self.counts.paused(&self.deployment.runtime);
        if self.fails_runs(now) {
            let reason = self.last_end.whole();
            self.fail_queue(RunCause::NeverStarted, &reason);
        }
    }

    /// Runs that were not started in a process that ended, the oldest first.
    fn take_back(&mut self, moving: Vec<PendingRun>, is_shutting_down: bool) {
        for mut run in moving.into_iter().rev() {
            run.moves += 1;
            if is_shutting_down {
                run.fail(
                    RunCause::ShutDown,
                    RunFailure::because("The server is stopping."),
                );
            } else if run.moves >= MOVES_MAX {
                run.fail(
                    RunCause::NeighbourStopped,
                    RunFailure::because("worker stopped"),
                );
            } else {
                self.queue_bytes += run.work.body.len();
                self.queue.push_front(run);
            }
        }
    }

    pub fn report(&self) -> DeploymentReport {
        let processes = self.processes.iter().map(|process| ProcessReport {
            pid: process.launched.pid,
            is_ready: process.stage == ProcessStage::Ready,
            is_spare: process.is_spare,
            flights: process.flights(),
            answered: process.answered,
            memory_bytes: process.memory_bytes,
        });
        DeploymentReport {
            id: self.deployment.id.clone(),
            processes: processes.collect(),
            waiting: self.queue.len(),
            starts: self.starts,
        }
    }
}

/// How a process has ended.
fn sentence(process: &WarmProcess, reason: &ProcessEnd) -> String {
    match reason {
        ProcessEnd::RuleBroken(rule) => format!("The process was ended: {rule}."),
        ProcessEnd::Memory => {
            let limit = process.memory_max_mib;
            format!("The function ran out of memory ({limit} MiB).")
        }
        ProcessEnd::Silent => "The process was ended: it did not start in time.".into(),
        _ => match process.exit {
            Some(ProcessExit::Code(code)) => format!("The process ended (exit code {code})."),
            Some(ProcessExit::Signal(signal)) => {
                format!("The process ended (signal {signal}).")
            }
            None => "The process ended.".into(),
        },
    }
}

/// Whether all that a process will ever send was read, or it is given up.
fn is_over(process: &WarmProcess, now: Instant) -> bool {
    let ProcessStage::Ending(_, since) = &process.stage else {
        return false;
    };
    let waited = now.saturating_duration_since(*since);
    let has_exited = process.exit.is_some() && (process.is_closed || waited >= CLOSE_MAX);
    has_exited || waited >= EXIT_MAX
}
