//! Which runs wait for which, and which run the code of a context belongs to: what keeps a body
//! from waiting for itself, directly or through others. Runs of threads and of tasks are in one
//! graph.

use std::cell::RefCell;
use std::sync::Arc;

use pyo3::prelude::*;

use crate::api;
use crate::guard::{Guarded, SharedCount};
use crate::object::{HeldObject, Outcome, Raised};
use crate::python::{self, PythonFunction};
use crate::raised;

/// A run, as far as others wait for it.
#[derive(Default)]
pub struct RunNode {
    over: SharedCount,
    /// Runs for which something inside this one waits at the moment.
    waits_for: Guarded<Vec<Arc<RunNode>>>,
}

impl RunNode {
    /// Nothing waits for it any more.
    pub fn end(&self) {
        self.over.set(1);
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.over.get() != 0
    }

    /// Whether `other` is this run, or this run waits for it through others.
    fn leads_to(self: &Arc<RunNode>, other: &Arc<RunNode>) -> bool {
        let (mut seen, mut next) = (vec![self.clone()], 0);
        while let Some(run) = seen.get(next).cloned() {
            if Arc::ptr_eq(&run, other) {
                return true;
            }
            for waited in run.waits_for.lock().iter() {
                if !seen.iter().any(|known| Arc::ptr_eq(known, waited)) {
                    seen.push(waited.clone());
                }
            }
            next += 1;
        }
        false
    }
}

thread_local! {
    /// Runs that this thread leads. None of them goes on while it waits, whatever context is
    /// current: a collection before the context says whose it is runs destructors too.
    static LED: RefCell<Vec<Arc<RunNode>>> = const { RefCell::new(Vec::new()) };
}

/// That this thread leads a run. Gone on the same thread.
pub struct LedByThread(Arc<RunNode>);

impl LedByThread {
    /// Says that this thread leads `run`. Calls nothing of the interpreter.
    pub fn begin(run: Arc<RunNode>) -> LedByThread {
        // Fails only while the thread ends, when nothing is left that could wait.
        let _ = LED.try_with(|led| led.borrow_mut().push(run.clone()));
        LedByThread(run)
    }
}

impl Drop for LedByThread {
    fn drop(&mut self) {
        let _ = LED.try_with(|led| {
            let mut led = led.borrow_mut();
            // Not always the last one: a greenlet may end before one that began later.
            let mine = led.iter().rposition(|run| Arc::ptr_eq(run, &self.0));
            mine.map(|mine| led.swap_remove(mine))
        });
    }
}

/// The edges of one wait, from every run that the waiting code holds up. Gone with it.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct WaitEdges {
    from: Vec<Arc<RunNode>>,
    to: Arc<RunNode>,
}

impl WaitEdges {
    /// The edges of a task that waits for `run`, or `None` if the wait would be for ever.
    pub unsafe fn of_task(run: &Arc<RunNode>) -> Outcome<Option<WaitEdges>> {
        Ok(WaitEdges::between(owned_runs()?, run))
    }

    /// The edges of this thread, which waits for `run`, or `None` if the wait would be for ever.
    pub unsafe fn of_thread(run: &Arc<RunNode>) -> Outcome<Option<WaitEdges>> {
        let mut from = owned_runs()?;
        let _ = LED.try_with(|led| {
            let led = led.borrow();
            from.extend(led.iter().filter(|run| !run.is_over()).cloned());
        });
        Ok(WaitEdges::between(from, run))
    }

    fn between(from: Vec<Arc<RunNode>>, run: &Arc<RunNode>) -> Option<WaitEdges> {
        if from.iter().any(|owned| run.leads_to(owned)) {
            return None;
        }
        for owned in &from {
            owned.waits_for.lock().push(run.clone());
        }
        let to = run.clone();
        // Two waits that begin at one moment may both have found no circle before the other's
        // edges stood; then both see it now, and neither waits.
        let edges = WaitEdges { from, to };
        let is_circle = edges.from.iter().any(|owned| run.leads_to(owned));
        (!is_circle).then_some(edges)
    }
}

impl Drop for WaitEdges {
    fn drop(&mut self) {
        for run in &self.from {
            let mut waits = run.waits_for.lock();
            let mine = waits.iter().position(|other| Arc::ptr_eq(other, &self.to));
            let mine = mine.map(|mine| waits.swap_remove(mine));
            drop(waits);
            drop(mine);
        }
    }
}

/// What a context variable says: which run the code belongs to, and which that run belongs to.
#[pyclass(frozen, freelist = 16, module = "tidemark_cache._native")]
pub struct Ownership {
    run: Arc<RunNode>,
    parent: Option<Py<Ownership>>,
}

/// The context variable's value, if it has one.
unsafe fn current_ownership() -> Outcome<Option<HeldObject>> {
    let mut current = std::ptr::null_mut();
    let variable = python::known(PythonFunction::Ownership);
    if api::PyContextVar_Get(variable, std::ptr::null_mut(), &raw mut current) != 0 {
        return Err(Raised);
    }
    Ok(HeldObject::owned(current).ok())
}

/// The runs that the code of this context belongs to.
unsafe fn owned_runs() -> Outcome<Vec<Arc<RunNode>>> {
    let mut runs = Vec::new();
    let Some(current) = current_ownership()? else {
        return Ok(runs);
    };
    let py = Python::assume_attached();
    let current = Bound::from_borrowed_ptr(py, current.as_ptr());
    let mut next = current.cast_into::<Ownership>().ok();
    while let Some(ownership) = next {
        let ownership = ownership.get();
        if !ownership.run.is_over() {
            runs.push(ownership.run.clone());
        }
        next = ownership
            .parent
            .as_ref()
            .map(|parent| parent.bind(py).clone());
    }
    Ok(runs)
}

/// Says in the context that the code from here on belongs to `run`. Gives what undoes it.
pub unsafe fn enter(run: &Arc<RunNode>) -> Outcome<HeldObject> {
    let py = Python::assume_attached();
    let parent = match current_ownership()? {
        None => None,
        Some(current) => {
            let current = Bound::from_borrowed_ptr(py, current.as_ptr());
            living(current.cast_into::<Ownership>().ok())
        }
    };
    let run = run.clone();
    let Ok(ownership) = Py::new(py, Ownership { run, parent }) else {
        return Err(python::raise_runtime("no memory for the context of a run"));
    };
    // Held as ours: PyO3 does not know that this thread is attached, and would keep what it drops
    // until some later call of its own.
    let ownership = HeldObject::owned(ownership.into_ptr())?;
    let variable = python::known(PythonFunction::Ownership);
    HeldObject::owned(api::PyContextVar_Set(variable, ownership.as_ptr()))
}

/// The nearest whose run is not over: a chain of tasks must not keep every run before it.
fn living(from: Option<Bound<'_, Ownership>>) -> Option<Py<Ownership>> {
    let mut next = from;
    while let Some(ownership) = next {
        if !ownership.get().run.is_over() {
            return Some(ownership.unbind());
        }
        let parent = ownership.get().parent.as_ref();
        next = parent.map(|parent| parent.bind(ownership.py()).clone());
    }
    None
}

/// Undoes `enter`, keeping an exception that is set.
pub unsafe fn leave(token: HeldObject) {
    let raised = python::take_exception();
    // Fails only in a context that is not the one entered, and there is nothing to undo in it.
    let variable = python::known(PythonFunction::Ownership);
    if api::PyContextVar_Reset(variable, token.as_ptr()) != 0 {
        pyo3::ffi::PyErr_Clear();
    }
    drop(token);
    if let Some(raised) = raised {
        python::raise_object(&raised);
    }
}

/// The run of an async function, as the code in Python holds it.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct TaskRun(Arc<RunNode>);

#[pymethods]
impl TaskRun {
    #[new]
    fn new() -> TaskRun {
        TaskRun(Arc::default())
    }

    /// Says in the current context that its code belongs to this run.
    fn enter(&self, py: Python<'_>) -> PyResult<()> {
        raised(py, unsafe { enter(&self.0) }).map(drop)
    }

    /// To be held while waiting for this run; None when that would be for ever.
    fn wait_edges(&self, py: Python<'_>) -> PyResult<Option<WaitEdges>> {
        raised(py, unsafe { WaitEdges::of_task(&self.0) })
    }

    fn end(&self) {
        self.0.end();
    }
}
