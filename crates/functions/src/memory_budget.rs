//! What the logs of all runs together hold in memory, and likewise their bodies.
//!
//! A run whose logs are long, or whose body is large, takes from here, and gives it back when they
//! are no longer held. No deployment may hold more than it leaves free: one that floods its logs
//! never takes what others need for theirs, and where many do, each gets an equal part.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Of the runs of an executor, until their records are kept.
pub const LOG_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Of logs, and of errors, that each run may hold whatever the others do.
pub const LOG_BYTES_FREE: usize = 4 * 1024;

/// What one deployment holds of it.
#[derive(Debug)]
pub struct MemoryBudget {
    all: Arc<AtomicUsize>,
    own: AtomicUsize,
    bytes_max: usize,
}

impl MemoryBudget {
    /// A budget of which one deployment has nothing yet.
    pub fn new(bytes_max: usize) -> MemoryBudget {
        MemoryBudget {
            all: Arc::default(),
            own: AtomicUsize::new(0),
            bytes_max,
        }
    }

    /// The same budget for another deployment.
    pub fn for_another(&self) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget {
            all: self.all.clone(),
            own: AtomicUsize::new(0),
            bytes_max: self.bytes_max,
        })
    }

    fn take(&self, bytes: usize) -> bool {
        // Counted first: two threads that take at once may both be refused, never both succeed.
        let all = self.all.fetch_add(bytes, Ordering::SeqCst) + bytes;
        let own = self.own.fetch_add(bytes, Ordering::SeqCst) + bytes;
        let fits = all <= self.bytes_max && own <= self.bytes_max - all;
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    fn give_back(&self, bytes: usize) {
        self.all.fetch_sub(bytes, Ordering::SeqCst);
        self.own.fetch_sub(bytes, Ordering::SeqCst);
    }
}

/// What a run holds of a budget, until this is dropped.
#[derive(Debug, Default)]
pub struct HeldMemory {
    budget: Option<Arc<MemoryBudget>>,
    bytes: usize,
}

impl HeldMemory {
    /// Nothing of this budget yet.
    pub fn of(budget: Arc<MemoryBudget>) -> HeldMemory {
        HeldMemory {
            budget: Some(budget),
            bytes: 0,
        }
    }

    /// Takes more; false where there is no more.
    pub fn take(&mut self, bytes: usize) -> bool {
        let is_taken = self.budget.as_ref().is_none_or(|budget| budget.take(bytes));
        if is_taken {
            self.bytes += bytes;
        }
        is_taken
    }

    /// Gives back what is above this.
    pub fn shrink_to(&mut self, bytes: usize) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.bytes -= surplus;
        if let Some(budget) = &self.budget {
            budget.give_back(surplus);
        }
    }

    /// Both together. They are of the same deployment.
    #[must_use]
    pub fn join(mut self, mut other: HeldMemory) -> HeldMemory {
        self.bytes += std::mem::take(&mut other.bytes);
        self
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_shared_by_those_that_use_it() {
        let first = MemoryBudget::new(120).for_another();
        let held = |budget: &Arc<MemoryBudget>| HeldMemory::of(budget.clone());
        let mut a = held(&first);
        assert!(a.take(60), "as much as it leaves free");
        assert!(!a.take(1));
        let second = first.for_another();
        let mut b = held(&second);
        assert!(b.take(30), "half of what the first has left");
        assert!(!b.take(1));
        // A third of all for each, once the first has less.
        a.shrink_to(40);
        assert!(b.take(10));
        assert!(!a.take(1) && !b.take(1));
        let mut c = held(&first.for_another());
        assert!(c.take(20));
        drop((a, c));
        assert!(b.take(20));
        b.shrink_to(10);
        let mut more = held(&second);
        assert!(more.take(5));
        drop(b.join(more));
        assert_eq!(first.all.load(Ordering::SeqCst), 0);
        assert_eq!(second.own.load(Ordering::SeqCst), 0);
    }
}
