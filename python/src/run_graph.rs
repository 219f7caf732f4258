//! Which runs wait for which: what keeps a body from waiting for itself, directly or through
//! others. Runs of threads and of tasks are in one graph.

use std::cell::RefCell;
use std::sync::Arc;

use pyo3::prelude::*;

use crate::object::Outcome;
use crate::ownership;
use crate::run_node::RunNode;

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
        Ok(WaitEdges::between(ownership::owned_runs()?, run))
    }

    /// The edges of this thread, which waits for `run`, or `None` if the wait would be for ever.
    pub unsafe fn of_thread(run: &Arc<RunNode>) -> Outcome<Option<WaitEdges>> {
        let mut from = ownership::owned_runs()?;
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
