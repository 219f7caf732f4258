//! Which runs wait for which: what keeps a body from waiting for itself, directly or through
//! others. Runs of threads and of tasks are in one graph.

use std::cell::RefCell;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::object::{HeldObject, Outcome};
use crate::ownership;
use crate::run_node::HeldNode;

thread_local! {
    /// Runs that this thread leads. None of them goes on while it waits, whatever context is
    /// current: a collection before the context says whose it is runs destructors too.
    ///
    /// Each is held by its [`LedByThread`]. This counts no reference: what is left of it when the
    /// thread ends is dropped when the interpreter has left the thread already.
    static LED: RefCell<Vec<*mut ffi::PyObject>> = const { RefCell::new(Vec::new()) };
}

/// That this thread leads a run. Gone on the same thread.
pub struct LedByThread(HeldNode);

impl LedByThread {
    /// Says that this thread leads `run`. Calls nothing of the interpreter.
    #[inline]
    pub fn begin(run: HeldNode) -> LedByThread {
        // Fails only while the thread ends, when nothing is left that could wait.
        let _ = LED.try_with(|led| led.borrow_mut().push(run.as_ptr()));
        LedByThread(run)
    }

    /// The run.
    #[inline]
    pub fn node(&self) -> &HeldNode {
        &self.0
    }
}

impl Drop for LedByThread {
    #[inline]
    fn drop(&mut self) {
        let _ = LED.try_with(|led| {
            let mut led = led.borrow_mut();
            // Not always the last one: a greenlet may end before one that began later.
            let mine = led.iter().rposition(|run| *run == self.0.as_ptr());
            mine.map(|mine| led.swap_remove(mine))
        });
    }
}

/// The edges of one wait, from every run that the waiting code holds up. Gone with it.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct WaitEdges {
    from: Vec<HeldNode>,
    to: HeldNode,
}

impl WaitEdges {
    /// The edges of a task that waits for `run`, or `None` if the wait would be for ever.
    pub unsafe fn of_task(run: &HeldNode) -> Outcome<Option<WaitEdges>> {
        Ok(WaitEdges::between(ownership::owned_runs()?, run))
    }

    /// The edges of this thread, which waits for `run`, or `None` if the wait would be for ever.
    pub unsafe fn of_thread(run: &HeldNode) -> Outcome<Option<WaitEdges>> {
        let mut from = ownership::owned_runs()?;
        let _ = LED.try_with(|led| {
            let led = led.borrow();
            let led = led.iter().map(|run| HeldObject::borrowed(*run));
            let led = led.filter_map(|run| HeldNode::of(run));
            from.extend(led.filter(|run| !run.is_over()));
        });
        Ok(WaitEdges::between(from, run))
    }

    /// Whether no run waits by them.
    pub fn is_empty(&self) -> bool {
        self.from.is_empty()
    }

    fn between(from: Vec<HeldNode>, run: &HeldNode) -> Option<WaitEdges> {
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
            let mine = waits.iter().position(|other| other.is(&self.to));
            let mine = mine.map(|mine| waits.swap_remove(mine));
            drop(waits);
            drop(mine);
        }
    }
}
