//! How long the read that runs on this thread may go on.
//!
//! A short read runs on the caller's thread, and is given up when it has used its time
//! there; a long one runs on a thread of its own until its limit, or until no caller waits for it.
//! SQLite asks every few thousand steps of its machine, on the thread that reads; so all of this
//! belongs to the thread, and a read of fewer steps is never asked about.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ffi};
use rustix::time::{ClockId, clock_gettime};

use crate::sqlite::disk::functions;

/// Steps of SQLite's machine between two looks: some 70 microseconds, a look takes 0.3 at most.
const STEPS_PER_LOOK: i32 = 1_000;
/// Bytes of rows taken between two looks: some 20 to 60 microseconds. However many bytes a row
/// has, it takes SQLite few steps.
const BYTES_PER_LOOK: usize = 64 * 1_024;
/// A short read that waits, for the disk or for its turn on a busy processor, is given up after
/// so many times its limit. Up to that only time on the processor counts: otherwise a machine
/// that is busy with long reads would take short ones for long.
const WAITING_TIMES: u32 = 10;

/// What ends a read.
#[derive(Clone, Debug)]
pub(super) enum Limit {
    /// It is given up when its statements have taken the first time. Whatever else it does, such
    /// as taking in a new schema, must be done on this thread some time, and is stopped after
    /// the second time only.
    Short(Duration, Duration),
    /// It is stopped after this time, or when the flag is raised.
    Long(Duration, Arc<AtomicBool>),
}

struct Running {
    limit: RefCell<Limit>,
    /// The first look. What came before it was too little to count.
    began: Cell<Option<Instant>>,
    /// Whether a statement runs whose time counts against a short read.
    is_counted: Cell<bool>,
    counted: Cell<Option<Counted>>,
    /// Bytes that were moved since the last look for that reason.
    moved_bytes: Cell<usize>,
}

/// The first look at a statement that counts.
#[derive(Clone, Copy)]
struct Counted {
    began: Instant,
    /// What the thread had used of the processor.
    used: Duration,
}

thread_local! {
    static RUNNING: Running = const {
        Running {
            limit: RefCell::new(Limit::Short(Duration::MAX, Duration::MAX)),
            began: Cell::new(None),
            is_counted: Cell::new(false),
            counted: Cell::new(None),
            moved_bytes: Cell::new(0),
        }
    };
}

/// Begins a read on this thread.
pub(super) fn begin(limit: Limit) {
    RUNNING.with(|running| {
        running.limit.replace(limit);
        running.began.set(None);
        running.is_counted.set(false);
        running.counted.set(None);
        running.moved_bytes.set(0);
    });
}

/// Whether this thread's read is a short one.
pub(super) fn is_short() -> bool {
    RUNNING.with(|running| matches!(*running.limit.borrow(), Limit::Short(..)))
}

/// Runs a part of this thread's read whose time counts against a short one.
pub(super) fn count<T>(part: impl FnOnce() -> T) -> T {
    RUNNING.with(|running| {
        running.is_counted.set(true);
        let answer = part();
        running.is_counted.set(false);
        answer
    })
}

/// Notes that this thread's read has taken so many bytes of rows.
///
/// # Errors
/// As SQLite ends a statement, when the read has taken its time.
pub(super) fn moved(bytes: usize) -> rusqlite::Result<()> {
    let is_over = RUNNING.with(|running| {
        let moved = running.moved_bytes.get() + bytes;
        let is_due = moved >= BYTES_PER_LOOK;
        running.moved_bytes.set(if is_due { 0 } else { moved });
        is_due && running.is_over()
    });
    if is_over {
        let code = ffi::Error::new(ffi::SQLITE_INTERRUPT);
        return Err(rusqlite::Error::SqliteFailure(code, None));
    }
    Ok(())
}

/// Lets this connection ask.
pub(super) fn over(connection: &mut Connection) -> rusqlite::Result<()> {
    let is_over = || RUNNING.with(Running::is_over);
    functions::provide_searches(connection, is_over)?;
    connection.progress_handler(STEPS_PER_LOOK, Some(is_over))
}

impl Running {
    fn is_over(&self) -> bool {
        let now = Instant::now();
        let began = self.began.get().unwrap_or(now);
        self.began.set(Some(began));
        let elapsed = now - began;
        match &*self.limit.borrow() {
            Limit::Short(limit, stop) => {
                elapsed >= *stop || (self.is_counted.get() && self.is_too_long(now, *limit))
            }
            Limit::Long(limit, stop) => elapsed >= *limit || stop.load(Ordering::Relaxed),
        }
    }

    fn is_too_long(&self, now: Instant, limit: Duration) -> bool {
        let Some(counted) = self.counted.get() else {
            let used = used();
            self.counted.set(Some(Counted { began: now, used }));
            return limit.is_zero();
        };
        let elapsed = now - counted.began;
        elapsed >= limit
            && (used().saturating_sub(counted.used) >= limit || elapsed >= limit * WAITING_TIMES)
    }
}

/// What this thread has used of the processor.
pub(super) fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over() -> bool {
        RUNNING.with(Running::is_over)
    }

    fn begin_short(limit: Duration) {
        begin(Limit::Short(limit, Duration::from_hours(1)));
        assert!(is_short());
    }

    #[test]
    fn a_short_read_is_over_once_it_has_used_its_time() {
        begin_short(Duration::from_micros(200));
        assert!(!count(over), "the first look only begins to count");
        while !count(over) {
            std::hint::spin_loop();
        }
        begin_short(Duration::from_mins(1));
        assert!(!count(over) && !count(over));
        begin_short(Duration::ZERO);
        assert!(count(over), "without any time it is over at the first look");
    }

    #[test]
    fn uncounted_work_has_another_limit() {
        begin_short(Duration::ZERO);
        assert!(!over() && !over());
        begin(Limit::Short(Duration::from_hours(1), Duration::ZERO));
        assert!(over() && count(over));
    }

    #[test]
    fn a_short_read_that_only_waits_is_over_later() {
        let limit = Duration::from_micros(50);
        begin_short(limit);
        assert!(!count(over));
        let began = RUNNING.with(|running| running.counted.get().unwrap().began);
        while began.elapsed() < limit * WAITING_TIMES {
            std::thread::yield_now();
        }
        assert!(count(over));
    }

    #[test]
    fn bytes_that_move_are_looked_at_as_steps_are() {
        begin(Limit::Long(Duration::ZERO, Arc::default()));
        assert!(moved(BYTES_PER_LOOK - 1).is_ok());
        assert!(moved(1).is_err());
        assert!(moved(BYTES_PER_LOOK - 1).is_ok(), "each look begins again");
        let stop = Arc::new(AtomicBool::new(false));
        begin(Limit::Long(Duration::from_hours(1), stop.clone()));
        assert!(moved(10 * BYTES_PER_LOOK).is_ok());
        stop.store(true, Ordering::Relaxed);
        assert!(moved(BYTES_PER_LOOK).is_err());
        begin_short(Duration::ZERO);
        assert!(count(|| moved(BYTES_PER_LOOK)).is_err());
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
