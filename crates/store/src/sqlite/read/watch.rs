//! How long the read that runs on this thread may go on.
//!
//! A short read runs on the thread of whoever asks, and is given up when it has used its time
//! there; a long one runs on a thread of its own until its limit, or until nobody waits for it.
//! SQLite asks every few thousand steps of its machine, on the thread that reads; so all of this
//! belongs to the thread, and a read of fewer steps is never asked about.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustix::time::{ClockId, clock_gettime};

/// Steps of SQLite's machine between two looks: some 70 microseconds, a look takes 0.3 at most.
const STEPS_PER_LOOK: i32 = 1_000;
/// A short read that waits, for the disk or for its turn on a busy processor, is given up after
/// so many times its limit. Up to that only time on the processor counts: otherwise a machine
/// that is busy with long reads would take short ones for long.
const WAITING_TIMES: u32 = 10;

/// What ends a read.
#[derive(Clone, Debug)]
pub(super) enum Limit {
    /// It is given up after this time.
    Short(Duration),
    /// It is stopped after this time, or when the flag is raised.
    Long(Duration, Arc<AtomicBool>),
}

struct Running {
    began: Cell<Option<Instant>>,
    /// What the thread had used of the processor at the first look.
    used_before: Cell<Option<Duration>>,
    limit: RefCell<Limit>,
}

thread_local! {
    static RUNNING: Running = const {
        Running {
            began: Cell::new(None),
            used_before: Cell::new(None),
            limit: RefCell::new(Limit::Short(Duration::MAX)),
        }
    };
}

/// Begins a read on this thread.
pub(super) fn begin(limit: Limit) {
    RUNNING.with(|running| {
        running.began.set(Some(Instant::now()));
        running.used_before.set(None);
        running.limit.replace(limit);
    });
}

/// Whether this thread's read is a short one.
pub(super) fn is_short() -> bool {
    RUNNING.with(|running| matches!(*running.limit.borrow(), Limit::Short(_)))
}

/// Lets this connection ask.
pub(super) fn over(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.progress_handler(STEPS_PER_LOOK, Some(|| RUNNING.with(Running::is_over)))
}

impl Running {
    fn is_over(&self) -> bool {
        let Some(began) = self.began.get() else {
            return false;
        };
        match &*self.limit.borrow() {
            Limit::Short(limit) => self.is_too_long(began, *limit),
            Limit::Long(limit, stop) => began.elapsed() >= *limit || stop.load(Ordering::Relaxed),
        }
    }

    fn is_too_long(&self, began: Instant, limit: Duration) -> bool {
        let Some(used_before) = self.used_before.get() else {
            self.used_before.set(Some(used()));
            return limit.is_zero();
        };
        let elapsed = began.elapsed();
        elapsed >= limit
            && (used().saturating_sub(used_before) >= limit || elapsed >= limit * WAITING_TIMES)
    }
}

/// What this thread has used of the processor.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over() -> bool {
        RUNNING.with(Running::is_over)
    }

    #[test]
    fn a_short_read_is_over_once_it_has_used_its_time() {
        begin(Limit::Short(Duration::from_micros(200)));
        assert!(is_short());
        assert!(!over(), "the first look only begins to count");
        while !over() {
            std::hint::spin_loop();
        }
        begin(Limit::Short(Duration::from_hours(1)));
        assert!(!over() && !over());
        begin(Limit::Short(Duration::ZERO));
        assert!(over(), "without any time it is over at the first look");
    }

    #[test]
    fn a_short_read_that_only_waits_is_over_later() {
        let limit = Duration::from_micros(50);
        begin(Limit::Short(limit));
        assert!(!over());
        let waited = || RUNNING.with(|running| running.began.get().unwrap().elapsed());
        while waited() < limit * WAITING_TIMES {
            std::thread::yield_now();
        }
        assert!(over());
    }

    #[test]
    fn a_long_read_ends_by_its_limit_or_when_it_is_stopped() {
        let stop = Arc::new(AtomicBool::new(false));
        begin(Limit::Long(Duration::from_hours(1), stop.clone()));
        assert!(!is_short() && !over());
        stop.store(true, Ordering::Relaxed);
        assert!(over());
        begin(Limit::Long(Duration::ZERO, Arc::default()));
        assert!(over());
    }
}
