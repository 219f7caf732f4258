//! Clocks for engines under test.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use engine::Clock;
use model::Timestamp;

/// Moves by a fixed step each time it is read, and as tests tell it to.
pub struct TickingClock {
    now_us: AtomicI64,
    step_us: i64,
    elapsed_ms: AtomicI64,
}

impl TickingClock {
    /// Three microseconds a read.
    pub fn at(now_us: i64) -> Arc<TickingClock> {
        TickingClock::with_step(now_us, 3)
    }

    /// Stands still until it is moved.
    pub fn still_at(now_us: i64) -> Arc<TickingClock> {
        TickingClock::with_step(now_us, 0)
    }

    /// Moves by `step_us` a read.
    pub fn with_step(now_us: i64, step_us: i64) -> Arc<TickingClock> {
        Arc::new(TickingClock {
            now_us: AtomicI64::new(now_us),
            step_us,
            elapsed_ms: AtomicI64::new(0),
        })
    }

    /// Moves it by this much.
    pub fn step_us(&self, by_us: i64) {
        self.now_us.fetch_add(by_us, Ordering::SeqCst);
    }

    /// Now, without moving.
    pub fn look(&self) -> Timestamp {
        Timestamp(self.now_us.load(Ordering::SeqCst))
    }

    /// Lets time pass that the clock of instants does not show.
    pub fn pass_ms(&self, by_ms: i64) {
        self.elapsed_ms.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for TickingClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now_us.fetch_add(self.step_us, Ordering::SeqCst))
    }

    fn elapsed_ms(&self) -> u64 {
        self.elapsed_ms.load(Ordering::SeqCst) as u64
    }
}

/// The machine's clock, which a test can put forward.
pub struct WallClock {
    since: Instant,
    ahead_us: AtomicI64,
    /// What has passed, where a test holds it.
    held_ms: OnceLock<u64>,
}

impl WallClock {
    /// A clock that counts from now on.
    pub fn start() -> Arc<WallClock> {
        Arc::new(WallClock {
            since: Instant::now(),
            ahead_us: AtomicI64::new(0),
            held_ms: OnceLock::new(),
        })
    }

    /// From now on time passes only where a test lets it, however busy the machine is: an age of
    /// zero stays zero.
    pub fn hold(&self) {
        self.held_ms.get_or_init(|| self.passed_ms());
    }

    fn passed_ms(&self) -> u64 {
        self.since.elapsed().as_millis() as u64
    }

    /// Puts it forward by this much.
    pub fn put_forward_us(&self, by_us: i64) {
        self.ahead_us.fetch_add(by_us, Ordering::Relaxed);
    }
}

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.expect("the clock is past 1970");
        Timestamp(since.as_micros() as i64 + self.ahead_us.load(Ordering::Relaxed))
    }

    fn elapsed_ms(&self) -> u64 {
        let ahead_ms = self.ahead_us.load(Ordering::Relaxed) / 1_000;
        let passed_ms = self.held_ms.get().copied();
        passed_ms.unwrap_or_else(|| self.passed_ms()) + ahead_ms as u64
    }
}
