//! A run of a body, as a node of the graph of which run waits for which.

use std::sync::Arc;

use crate::guard::{Guarded, SharedCount};

/// A run, as far as others wait for it.
#[derive(Default)]
pub struct RunNode {
    over: SharedCount,
    /// Runs for which something inside this one waits at the moment.
    pub waits_for: Guarded<Vec<Arc<RunNode>>>,
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
    pub fn leads_to(self: &Arc<RunNode>, other: &Arc<RunNode>) -> bool {
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
