//! One run of a body, and the threads that wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use cache::{Flight, TagTokens};
use pyo3::ffi;

use crate::entry::{self, KeptEntry};
use crate::guard::{Guarded, SharedCount};
use crate::key::{HeldKey, LookupKey};
use crate::object::{HeldObject, Outcome, PlainRc, Raised};
use crate::run_graph::{LedByThread, WaitEdges};
use crate::run_node::RunNode;

/// Waiters look for signals this often: a native wait would ignore Ctrl-C.
const SLICE: Duration = Duration::from_millis(50);

/// How often this process is a child of a `fork`.
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Lets children of a fork know that they are, whatever forks: a server written in C, too.
pub fn watch_forks() -> bool {
    unsafe { libc::pthread_atfork(None, None, Some(count_fork)) == 0 }
}

/// How often this process is a child of a `fork`.
pub fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// How a run ended.
#[derive(Clone)]
pub enum RunEnding {
    /// With a value, whether or not it was stored.
    Value(PlainRc<KeptEntry>),
    /// With an exception that reaches every waiter.
    Raised(HeldObject),
}

/// One run.
pub struct FlightRun {
    hash: u64,
    key: HeldKey,
    /// A child of `fork` inherits the list of runs and none of the threads that lead them.
    forks: u32,
    signal: Flight<()>,
    ending: Guarded<Option<RunEnding>>,
    tokens: Guarded<Option<TagTokens>>,
    detached: SharedCount,
    /// Its place among the runs that wait for each other.
    pub node: Arc<RunNode>,
}

/// The runs in progress of one function, or of one instance's method.
#[derive(Default)]
pub struct FlightRuns {
    all: Guarded<RunList>,
}

#[derive(Default)]
struct RunList {
    runs: Vec<Arc<FlightRun>>,
    edition: u64,
}

impl FlightRuns {
    /// Rises whenever a run begins or ends.
    pub fn edition(&self) -> u64 {
        self.all.lock().edition
    }

    /// Lets no caller join any of them from now on, and none store its value.
    pub fn detach(&self) {
        let runs = std::mem::take(&mut self.all.lock().runs);
        runs.iter().for_each(|run| run.detach());
    }
}

/// What a waiter came back with.
pub enum FlightWait {
    /// The run ended so.
    Ended(RunEnding),
    /// It was given up: start again.
    Abandoned,
    /// Waiting would be for ever, or already was too long: run the body and share nothing.
    Unshared,
}

struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl FlightRun {
    /// A run that others may join, if no run began or ended since `edition`: else another one may
    /// be under way for the same key, or have stored its value. This thread leads it until the
    /// second part of the answer is dropped.
    pub unsafe fn begin(
        runs: &FlightRuns,
        edition: u64,
        hash: u64,
        lookup: &LookupKey<'_>,
    ) -> Option<(Arc<FlightRun>, LedByThread)> {
        let run = Arc::new(FlightRun {
            hash,
            key: lookup.held(),
            forks: forks(),
            tokens: Guarded::default(),
            signal: Flight::default(),
            ending: Guarded::default(),
            detached: SharedCount::default(),
            node: Arc::default(),
        });
        let mut all = runs.all.lock();
        if all.edition != edition {
            // The key goes with the run, once nothing is locked.
            drop(all);
            return None;
        }
        all.runs.push(run.clone());
        all.edition += 1;
        drop(all);
        let led = LedByThread::begin(run.node.clone());
        Some((run, led))
    }

    /// The run of that key that a caller may join.
    pub unsafe fn find(
        runs: &FlightRuns,
        hash: u64,
        lookup: &LookupKey<'_>,
    ) -> Outcome<Option<Arc<FlightRun>>> {
        let runs: Vec<Arc<FlightRun>> = {
            let all = runs.all.lock();
            let alike = all.runs.iter().filter(|run| run.hash == hash);
            alike.cloned().collect()
        };
        for run in runs {
            if !run.is_detached()
                && !run.node.is_over()
                && run.forks == forks()
                && run.is_current()
                && lookup.equals(&run.key)?
            {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    /// What its tags were before its body ran: who calls after one was invalidated must not join.
    pub fn set_tokens(&self, tokens: Option<TagTokens>) {
        let before = std::mem::replace(&mut *self.tokens.lock(), tokens);
        drop(before);
    }

    fn is_current(&self) -> bool {
        let tokens = self.tokens.lock();
        tokens.as_ref().is_none_or(entry::tags_are_current)
    }

    /// From now on no caller joins it and its value is not stored.
    pub fn detach(&self) {
        self.detached.set(1);
    }

    /// Whether its value may not be stored.
    pub fn is_detached(&self) -> bool {
        self.detached.get() != 0
    }

    /// Whether another caller waits for it: the list of runs and who leads it have it as well.
    pub fn is_waited_for(self: &Arc<FlightRun>) -> bool {
        Arc::strong_count(self) > 2
    }

    /// Ends the run and wakes who waits; without an ending they start again.
    pub fn end(self: &Arc<FlightRun>, runs: &FlightRuns, ending: Option<RunEnding>) {
        self.node.end();
        let mine = {
            let mut all = runs.all.lock();
            all.edition += 1;
            let mine = all.runs.iter().position(|run| Arc::ptr_eq(run, self));
            mine.map(|mine| all.runs.swap_remove(mine))
        };
        let is_whole = ending.is_some();
        let before = std::mem::replace(&mut *self.ending.lock(), ending);
        match is_whole {
            true => self.signal.complete(()),
            false => self.signal.abandon(),
        }
        drop((mine, before));
    }

    /// Waits until the run ends, at most `limit`, with the interpreter given to others.
    pub unsafe fn wait(self: &Arc<FlightRun>, limit: Duration) -> Outcome<FlightWait> {
        match WaitEdges::of_thread(&self.node)? {
            None => Ok(FlightWait::Unshared),
            Some(_edges) => self.wait_in_slices(limit),
        }
    }

    unsafe fn wait_in_slices(&self, limit: Duration) -> Outcome<FlightWait> {
        let waker = Waker::from(Arc::new(ThreadWaker(std::thread::current())));
        let start = Instant::now();
        loop {
            match self.signal.poll(&waker) {
                Poll::Ready(Some(())) => {
                    let ending = self.ending.lock().clone();
                    return Ok(ending.map_or(FlightWait::Abandoned, FlightWait::Ended));
                }
                Poll::Ready(None) => return Ok(FlightWait::Abandoned),
                Poll::Pending => {}
            }
            let left = limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(FlightWait::Unshared);
            }
            let thread = ffi::PyEval_SaveThread();
            std::thread::park_timeout(left.min(SLICE));
            ffi::PyEval_RestoreThread(thread);
            if ffi::PyErr_CheckSignals() != 0 {
                return Err(Raised);
            }
        }
    }
}
