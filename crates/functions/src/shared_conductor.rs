//! How threads reach the conductor, and the one that starts processes and watches the clock.
//!
//! Runs are handed over and ended on the threads of those who are concerned: a queue between them
//! and a thread of its own would cost each run several wake-ups.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use crate::conductor::{Conductor, LeftToDo, SWEEP, WantedProcess};
use crate::frame::PipeFrame;
use crate::head::{self, AdapterLimits};
use crate::launch::{Launched, Launcher, ProcessEvent};
use crate::memory::MemoryLook;
use crate::outgoing::flush_all;
use crate::pending_run::PendingRun;
use crate::pool::DeploymentReport;
use crate::work::RunRefusal;

/// Events taken before the next look at what waits.
const EVENTS_MAX: usize = 64;

/// The conductor. Any thread may call it; none waits for a process or a disk meanwhile.
#[derive(Debug)]
pub struct SharedConductor {
    conductor: Mutex<Conductor>,
    /// Wakes the thread.
    is_due: Notify,
    /// Whether the thread looks at the clock often enough for deadlines.
    is_watching: AtomicBool,
    /// What was seen of the memory of each process.
    looks: Mutex<HashMap<u64, MemoryLook>>,
}

impl SharedConductor {
    pub fn new(conductor: Conductor) -> Arc<SharedConductor> {
        Arc::new(SharedConductor {
            conductor: Mutex::new(conductor),
            is_due: Notify::new(),
            is_watching: AtomicBool::new(false),
            looks: Mutex::default(),
        })
    }

    /// Takes a run.
    ///
    /// # Errors
    /// When it is not accepted; then nothing of it is run.
    pub fn run(&self, run: PendingRun) -> Result<(), RunRefusal> {
        let now = Instant::now();
        let left = self.lock().run(run, now)?;
        self.do_rest(left);
        if !self.is_watching.load(Ordering::SeqCst) {
            self.is_due.notify_one();
        }
        Ok(())
    }

    /// Takes frames that a process has sent.
    pub fn take_frames(&self, process: u64, frames: Vec<PipeFrame>) {
        let now = Instant::now();
        let left = self.lock().take_frames(process, frames, now);
        self.do_rest(left);
    }

    /// No process of this deployment takes new work.
    pub fn retire(&self, deployment: &str) {
        self.lock().retire(deployment, Instant::now());
        self.is_due.notify_one();
    }

    /// What runs, in the order of the deployments' ids.
    pub fn report(&self) -> Vec<DeploymentReport> {
        self.lock().report()
    }

    /// What the processes of this deployment wrote outside of any run.
    pub fn output(&self, deployment: &str) -> String {
        self.lock().output(deployment)
    }

    /// Takes no more runs, and gives those in flight so long.
    pub fn close(&self, limit: Duration) {
        self.lock().close(Instant::now() + limit);
        self.is_due.notify_one();
    }

    fn do_rest(&self, left: LeftToDo) {
        flush_all(&left.unsent);
        if left.wants_process {
            self.is_due.notify_one();
        }
    }

    /// Starts processes, takes what happens to them, and watches the clock, until it is closed.
    pub async fn conduct(
        self: Arc<Self>,
        launcher: Launcher,
        mut events: mpsc::Receiver<ProcessEvent>,
    ) {
        let _end = AbandonAtEnd(&self);
        let mut last_tick = Instant::now();
        let mut sweep = Sweep::begin(last_tick);
        loop {
            self.start_wanted(&launcher);
            let (tick, is_closed) = {
                let mut conductor = self.lock();
                let tick = conductor.tick_period();
                // Under the lock: a run that comes next sees it.
                let is_watching = tick.is_some_and(|tick| tick < SWEEP);
                self.is_watching.store(is_watching, Ordering::SeqCst);
                (tick, conductor.is_closed(Instant::now()))
            };
            if is_closed {
                return;
            }
            // From the last look, not from the last event, or a steady stream would put it off.
            let next = last_tick + tick.unwrap_or(SWEEP);
            tokio::select! {
                () = self.is_due.notified() => {}
                Some(event) = events.recv() => self.take_events(event, &mut events),
                () = tokio::time::sleep_until(next.into()), if tick.is_some() => {
                    last_tick = Instant::now();
                    let conductor = self.clone();
                    let is_sweep = sweep.go_on(last_tick, move || conductor.look_at_memory());
                    self.tick(is_sweep, last_tick);
                }
            }
        }
    }

    fn take_events(&self, first: ProcessEvent, events: &mut mpsc::Receiver<ProcessEvent>) {
        let now = Instant::now();
        let mut conductor = self.lock();
        conductor.take_event(first, now);
        for _ in 1..EVENTS_MAX {
            let Ok(event) = events.try_recv() else { break };
            conductor.take_event(event, now);
        }
        let unsent = conductor.unsent();
        drop(conductor);
        flush_all(&unsent);
    }

    fn tick(&self, is_sweep: bool, now: Instant) {
        let mut conductor = self.lock();
        conductor.tick(is_sweep, now);
        let unsent = conductor.unsent();
        drop(conductor);
        flush_all(&unsent);
    }

    /// Looks at the memory of all processes, without holding up their runs.
    fn look_at_memory(&self) {
        let observed = self.lock().observed();
        // There is one look at a time.
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *looks);
        for at in observed {
            let mut look = before.remove(&at.process).unwrap_or_default();
            // Half of the limit leaves room to look closer in time.
            let bytes = look.held_bytes(at.pid, at.depth, at.limit_bytes / 2);
            looks.insert(at.process, look);
            self.lock().take_memory(at.process, bytes);
        }
    }

    fn start_wanted(&self, launcher: &Launcher) {
        loop {
            let (wanted, limits) = {
                let mut conductor = self.lock();
                (conductor.wanted(Instant::now()), conductor.limits())
            };
            let Some(wanted) = wanted else { return };
            let adapter = AdapterLimits {
                body_bytes: limits.process.body_bytes,
                log_letters: limits.process.log_letters,
                has_starts: launcher.has_starts(),
            };
            let started = start(launcher, &wanted, adapter);
            let mut conductor = self.lock();
            conductor.add(wanted, started, Instant::now());
            let unsent = conductor.unsent();
            drop(conductor);
            flush_all(&unsent);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Conductor> {
        self.conductor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at memory, one after the other, on a thread of its own: a function with 64 children makes
/// one take some 40 ms (0043), for which the runs of all others would wait.
struct Sweep {
    last: Instant,
    looking: Option<JoinHandle<()>>,
}

impl Sweep {
    fn begin(now: Instant) -> Sweep {
        Sweep {
            last: now,
            looking: None,
        }
    }

    /// Begins the next one if it is due; whether one has ended.
    fn go_on(&mut self, now: Instant, look: impl FnOnce() + Send + 'static) -> bool {
        let looking = self.looking.take_if(|looking| looking.is_finished());
        if self.looking.is_none() && now >= self.last + SWEEP {
            self.last = now;
            self.looking = Some(tokio::task::spawn_blocking(look));
        }
        looking.is_some()
    }
}

/// Callers that wait for a run learn that nothing conducts any more, also after a panic.
struct AbandonAtEnd<'a>(&'a SharedConductor);

impl Drop for AbandonAtEnd<'_> {
    fn drop(&mut self) {
        self.0.lock().abandon(Instant::now());
    }
}

/// A process and what it is sent first, or why there is none.
fn start(
    launcher: &Launcher,
    wanted: &WantedProcess,
    limits: AdapterLimits,
) -> Result<(Launched, Vec<u8>), String> {
    let started = launcher.start(wanted.number, &wanted.runtime, &wanted.deployment);
    let process = started.map_err(|error| error.to_string())?;
    let folder = launcher.code_folder(&wanted.deployment);
    let setup = head::setup(&wanted.deployment, &folder, limits);
    Ok((process, setup))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn slow_look_at_memory_holds_up_nothing_and_is_the_only_one() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.unwrap();
        let _inside = runtime.enter();
        let (begun, begins) = channel();
        let (end, ends) = channel();
        let ends = Arc::new(Mutex::new(ends));
        let look = || {
            let (begun, ends) = (begun.clone(), ends.clone());
            move || {
                begun.send(()).unwrap();
                ends.lock().unwrap().recv().unwrap();
            }
        };
        let mut now = Instant::now();
        let mut sweep = Sweep::begin(now);
        assert!(!sweep.go_on(now, look()));
        assert!(sweep.looking.is_none(), "none is due");
        for _ in 0..5 {
            now += SWEEP;
            assert!(!sweep.go_on(now, look()), "the first one goes on");
        }
        begins.recv().unwrap();
        end.send(()).unwrap();
        now += SWEEP;
        while !sweep.go_on(now, look()) {
            std::thread::yield_now();
        }
        begins.recv().unwrap();
        end.send(()).unwrap();
        assert!(begins.try_recv().is_err(), "one after the other");
    }
}
