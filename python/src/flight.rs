//! One run of a body, and the threads that wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use cache::{ClaimList, ClaimNumber, Flight, TagTokens};
use pyo3::ffi;

use crate::entry::{self, KeptEntry};
use crate::guard::Guarded;
use crate::key::{HeldKey, LookupKey};
use crate::object::{HeldObject, Outcome, PlainRc, Raised};
use crate::ownership;
use crate::run_graph::{LedByThread, WaitEdges};
use crate::run_node::HeldNode;

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

/// What its leader says of a run.
struct RunClaim {
    key: HeldKey,
    node: HeldNode,
    /// A child of `fork` inherits the list of runs and none of the threads that lead them.
    forks: u32,
    /// What its tags were before its body ran: a call made after one was invalidated must not join.
    tokens: Option<TagTokens>,
}

/// What the waiters of a run share.
pub struct FlightRun {
    /// Its place in the list.
    pub number: ClaimNumber,
    key: HeldKey,
    node: HeldNode,
    signal: Flight<()>,
    ending: Guarded<Option<RunEnding>>,
}

/// The runs in progress of one function, or of one instance's method.
#[derive(Default)]
pub struct FlightRuns {
    all: Guarded<ClaimList<RunClaim, Arc<FlightRun>>>,
}

impl RunClaim {
    fn may_be_joined(&self) -> bool {
        let tokens = self.tokens.as_ref();
        self.forks == forks() && tokens.is_none_or(entry::tags_are_current)
    }
}

impl FlightRuns {
    /// Rises whenever a run begins or ends.
    #[inline]
    pub fn edition(&self) -> u64 {
        self.all.lock().edition()
    }

    /// Lets no caller join any of them from now on, and none store its value.
    pub fn detach_all(&self) {
        self.all.lock().detach_all();
    }

    /// As above, one run.
    pub fn detach(&self, number: ClaimNumber) {
        if let Some(run) = self.all.lock().get_mut(number) {
            run.is_detached = true;
        }
    }

    /// The run of that key that a caller may join.
    #[inline]
    pub unsafe fn find(
        &self,
        hash: u64,
        lookup: &LookupKey<'_>,
    ) -> Outcome<Option<Arc<FlightRun>>> {
        let alike = self
            .all
            .lock()
            .join(hash, RunClaim::may_be_joined, |number, claim| {
                Arc::new(FlightRun {
                    number,
                    key: claim.key.clone(),
                    node: claim.node.clone(),
                    signal: Flight::default(),
                    ending: Guarded::default(),
                })
            });
        for run in alike {
            if lookup.equals(&run.key)? {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }
}

/// A run that this thread leads. Ends with it, if it has not ended: waiters start again then.
pub struct LedRun<'a> {
    runs: &'a FlightRuns,
    number: ClaimNumber,
    led: LedByThread,
    is_entered: bool,
    is_over: bool,
}

impl<'a> LedRun<'a> {
    /// A run that others may join, if no run began or ended since `edition`: else another one may
    /// be under way for the same key, or have stored its value.
    #[inline]
    pub unsafe fn begin(
        runs: &'a FlightRuns,
        edition: u64,
        hash: u64,
        lookup: &LookupKey<'_>,
    ) -> Outcome<Option<LedRun<'a>>> {
        let (node, is_entered) = ownership::begin()?;
        let claim = RunClaim {
            key: lookup.held(),
            node: node.clone(),
            forks: forks(),
            tokens: None,
        };
        let begun = runs.all.lock().begin(edition, hash, claim);
        // A claim that was refused is dropped here, with nothing locked.
        let Ok(number) = begun else {
            node.end();
            return Ok(None);
        };
        Ok(Some(LedRun {
            runs,
            number,
            led: LedByThread::begin(node),
            is_entered,
            is_over: false,
        }))
    }

    /// Says in the context that the code from here on belongs to this run.
    #[inline]
    pub unsafe fn enter(&self) -> Outcome<()> {
        match self.is_entered {
            true => Ok(()),
            false => ownership::enter(self.led.node()),
        }
    }

    /// Says what its tags were before its body ran.
    pub fn set_tokens(&self, tokens: &Option<TagTokens>) {
        if tokens.is_some()
            && let Some(run) = self.runs.all.lock().get_mut(self.number)
        {
            run.claim.tokens = tokens.clone();
        }
    }

    /// Whether its value may not be stored.
    #[inline]
    pub fn is_detached(&self) -> bool {
        let mut all = self.runs.all.lock();
        all.get_mut(self.number).is_none_or(|run| run.is_detached)
    }

    /// Whether another caller waits for it, or looks whether to.
    pub fn is_waited_for(&self) -> bool {
        let mut all = self.runs.all.lock();
        let shared = all.get_mut(self.number).and_then(|run| run.shared.as_ref());
        shared.is_some_and(|shared| Arc::strong_count(shared) > 1)
    }

    /// Ends the run and wakes its waiters; without an ending they start again.
    #[inline]
    pub fn end(mut self, ending: Option<RunEnding>) {
        self.finish(ending);
    }

    #[inline]
    fn finish(&mut self, ending: Option<RunEnding>) {
        self.is_over = true;
        // First, with its edition: a caller that no longer finds it must look at what this run
        // has stored before it begins another.
        let ended = self.runs.all.lock().end(self.number);
        self.led.node().end();
        // Waiters are woken before the key is dropped, which may run code of the user's.
        if let Some(shared) = ended.as_ref().and_then(|run| run.shared.as_ref()) {
            shared.end(ending);
        }
        drop(ended);
    }
}

impl Drop for LedRun<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.is_over {
            self.finish(None);
        }
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
    fn end(&self, ending: Option<RunEnding>) {
        let is_whole = ending.is_some();
        let before = std::mem::replace(&mut *self.ending.lock(), ending);
        match is_whole {
            true => self.signal.complete(()),
            false => self.signal.abandon(),
        }
        drop(before);
    }

    /// Waits until the run ends, at most `limit`, with the interpreter given to others.
    pub unsafe fn wait(&self, limit: Duration) -> Outcome<FlightWait> {
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
