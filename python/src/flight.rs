//! One run of a body, and the threads that wait for it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use cache::{Flight, TagTokens};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::entry::{self, KeptEntry};
use crate::key::{AskedKey, HeldKey};
use crate::object::{HeldObject, Outcome, PlainRc, Raised};
use crate::python::{self, PythonFunction};

/// Waiters look for signals this often: a native wait would ignore Ctrl-C.
const SLICE: Duration = Duration::from_millis(50);

/// How often this process is a child of a `fork`.
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Lets children of a fork know that they are, whoever forks: a server written in C, too.
pub fn watch_forks() -> bool {
    unsafe { libc::pthread_atfork(None, None, Some(count_fork)) == 0 }
}

/// How a run ended.
#[derive(Clone)]
pub enum RunEnding {
    /// With a value, whether or not it was stored.
    Value(PlainRc<KeptEntry>),
    /// With an exception that reaches every waiter.
    Raised(HeldObject),
}

/// One run. All of it but the signal is touched only by threads that hold the interpreter.
pub struct FlightRun {
    hash: u64,
    key: HeldKey,
    /// A child of `fork` inherits the list of runs and none of the threads that lead them.
    forks: u32,
    signal: Flight<()>,
    ending: RefCell<Option<RunEnding>>,
    tokens: RefCell<Option<Box<TagTokens>>>,
    is_detached: Cell<bool>,
    is_over: Cell<bool>,
    /// FlightRuns for which something inside this one waits at the moment.
    waits_for: RefCell<Vec<Rc<FlightRun>>>,
}

/// The runs in progress of one function, or of one instance's method.
#[derive(Default)]
pub struct FlightRuns {
    all: RefCell<Vec<Rc<FlightRun>>>,
    edition: Cell<u64>,
}

impl FlightRuns {
    /// Rises whenever a run begins or ends.
    pub fn edition(&self) -> u64 {
        self.edition.get()
    }

    /// Lets nobody join any of them from now on, and none store its value.
    pub fn detach(&self) {
        let runs = std::mem::take(&mut *self.all.borrow_mut());
        runs.iter().for_each(|run| run.detach());
    }
}

/// What a context variable says: which run the code belongs to, and which that run belongs to.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct Ownership {
    run: AttachedRun,
    parent: Option<Py<Ownership>>,
}

struct AttachedRun(Rc<FlightRun>);

// Contexts travel between threads. The run is touched, counted and dropped only by threads that
// hold the interpreter's lock, which this module keeps switched on.
unsafe impl Send for AttachedRun {}
unsafe impl Sync for AttachedRun {}

/// What a waiter came back with.
pub enum FlightWait {
    /// The run ended so.
    Ended(RunEnding),
    /// It was given up: start again.
    Abandoned,
    /// Waiting would be for ever, or already was too long: run the body and tell nobody.
    Unshared,
}

struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl FlightRun {
    /// A run in progress, which others may join.
    pub unsafe fn begin(runs: &FlightRuns, hash: u64, asked: &AskedKey<'_>) -> Rc<FlightRun> {
        let run = Rc::new(FlightRun {
            hash,
            key: asked.held(),
            forks: FORKS.load(Ordering::Relaxed),
            tokens: RefCell::new(None),
            signal: Flight::default(),
            ending: RefCell::new(None),
            is_detached: Cell::new(false),
            is_over: Cell::new(false),
            waits_for: RefCell::new(Vec::new()),
        });
        runs.all.borrow_mut().push(run.clone());
        runs.edition.set(runs.edition.get() + 1);
        run
    }

    /// The run of that key that a caller may join.
    pub unsafe fn find(
        runs: &FlightRuns,
        hash: u64,
        asked: &AskedKey<'_>,
    ) -> Outcome<Option<Rc<FlightRun>>> {
        if runs.all.borrow().is_empty() {
            return Ok(None);
        }
        let runs: Vec<Rc<FlightRun>> = {
            let all = runs.all.borrow();
            all.iter().filter(|run| run.hash == hash).cloned().collect()
        };
        for run in runs {
            if !run.is_detached.get()
                && !run.is_over.get()
                && run.forks == FORKS.load(Ordering::Relaxed)
                && run.is_current()
                && asked.equals(&run.key)?
            {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    /// What its tags were before its body ran: who calls after one was invalidated must not join.
    pub fn set_tokens(&self, tokens: Option<Box<TagTokens>>) {
        self.tokens.replace(tokens);
    }

    fn is_current(&self) -> bool {
        let tokens = self.tokens.borrow();
        tokens
            .as_ref()
            .is_none_or(|tokens| entry::tags_are_current(tokens))
    }

    /// From now on nobody joins it and its value is not stored.
    pub fn detach(&self) {
        self.is_detached.set(true);
    }

    /// Whether its value may be stored.
    pub fn is_detached(&self) -> bool {
        self.is_detached.get()
    }

    /// Ends the run and wakes who waits; without an ending they start again.
    pub fn end(self: &Rc<FlightRun>, runs: &FlightRuns, ending: Option<RunEnding>) {
        self.is_over.set(true);
        runs.edition.set(runs.edition.get() + 1);
        let mine = {
            let mut runs = runs.all.borrow_mut();
            let mine = runs.iter().position(|run| Rc::ptr_eq(run, self));
            mine.map(|mine| runs.swap_remove(mine))
        };
        let is_whole = ending.is_some();
        let before = self.ending.replace(ending);
        match is_whole {
            true => self.signal.complete(()),
            false => self.signal.abandon(),
        }
        drop((mine, before));
    }

    /// Waits until the run ends, at most `limit`, with the interpreter given to others.
    pub unsafe fn wait(self: &Rc<FlightRun>, limit: Duration) -> Outcome<FlightWait> {
        let owned = owned_runs()?;
        if owned.iter().any(|run| self.leads_to(run)) {
            return Ok(FlightWait::Unshared);
        }
        for run in &owned {
            run.waits_for.borrow_mut().push(self.clone());
        }
        let waited = self.wait_in_slices(limit);
        for run in &owned {
            let mut waits = run.waits_for.borrow_mut();
            let mine = waits.iter().position(|other| Rc::ptr_eq(other, self));
            let mine = mine.map(|mine| waits.swap_remove(mine));
            drop(waits);
            drop(mine);
        }
        waited
    }

    unsafe fn wait_in_slices(&self, limit: Duration) -> Outcome<FlightWait> {
        let waker = Waker::from(Arc::new(ThreadWaker(std::thread::current())));
        let start = Instant::now();
        loop {
            match self.signal.poll(&waker) {
                Poll::Ready(Some(())) => {
                    let ending = self.ending.borrow().clone();
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

    /// Whether `other` is this run, or this run waits for it through others.
    fn leads_to(self: &Rc<FlightRun>, other: &Rc<FlightRun>) -> bool {
        let (mut seen, mut next) = (vec![self.clone()], 0);
        while let Some(run) = seen.get(next).cloned() {
            if Rc::ptr_eq(&run, other) {
                return true;
            }
            for waited in run.waits_for.borrow().iter() {
                if !seen.iter().any(|known| Rc::ptr_eq(known, waited)) {
                    seen.push(waited.clone());
                }
            }
            next += 1;
        }
        false
    }
}

/// The context variable's value, if it has one.
unsafe fn current_ownership() -> Outcome<Option<HeldObject>> {
    let mut current = std::ptr::null_mut();
    let variable = python::known(PythonFunction::Ownership);
    if ffi::PyContextVar_Get(variable, std::ptr::null_mut(), &raw mut current) != 0 {
        return Err(Raised);
    }
    Ok(HeldObject::owned(current).ok())
}

/// The runs that the code of this context belongs to.
unsafe fn owned_runs() -> Outcome<Vec<Rc<FlightRun>>> {
    let mut runs = Vec::new();
    let Some(current) = current_ownership()? else {
        return Ok(runs);
    };
    let py = Python::assume_attached();
    let current = Bound::from_borrowed_ptr(py, current.as_ptr());
    let mut next = current.cast_into::<Ownership>().ok();
    while let Some(ownership) = next {
        let ownership = ownership.get();
        if !ownership.run.0.is_over.get() {
            runs.push(ownership.run.0.clone());
        }
        next = ownership
            .parent
            .as_ref()
            .map(|parent| parent.bind(py).clone());
    }
    Ok(runs)
}

/// Says in the context that the code from here on belongs to `run`. Gives what undoes it.
pub unsafe fn enter(run: &Rc<FlightRun>) -> Outcome<HeldObject> {
    let py = Python::assume_attached();
    let parent = match current_ownership()? {
        None => None,
        Some(current) => {
            let current = Bound::from_borrowed_ptr(py, current.as_ptr());
            living(current.cast_into::<Ownership>().ok())
        }
    };
    let run = AttachedRun(run.clone());
    let Ok(ownership) = Py::new(py, Ownership { run, parent }) else {
        return Err(python::raise_runtime("no memory for the context of a run"));
    };
    let variable = python::known(PythonFunction::Ownership);
    HeldObject::owned(ffi::PyContextVar_Set(variable, ownership.as_ptr()))
}

/// The nearest whose run is not over: a chain of tasks must not keep every run before it.
fn living(from: Option<Bound<'_, Ownership>>) -> Option<Py<Ownership>> {
    let mut next = from;
    while let Some(ownership) = next {
        if !ownership.get().run.0.is_over.get() {
            return Some(ownership.unbind());
        }
        let parent = ownership.get().parent.as_ref();
        next = parent.map(|parent| parent.bind(ownership.py()).clone());
    }
    None
}

/// Undoes `enter`, keeping an exception that is set.
pub unsafe fn leave(token: HeldObject) {
    let mut kind = std::ptr::null_mut();
    let (mut value, mut trace) = (kind, kind);
    ffi::PyErr_Fetch(&raw mut kind, &raw mut value, &raw mut trace);
    // Fails only in a context that is not the one entered, and there is nothing to undo in it.
    if ffi::PyContextVar_Reset(python::known(PythonFunction::Ownership), token.as_ptr()) != 0 {
        ffi::PyErr_Clear();
    }
    drop(token);
    ffi::PyErr_Restore(kind, value, trace);
}
