//! Lines of the log that were lost: counted for the whole process, as the log is its.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing_appender::non_blocking::ErrorCounter;

/// Lines that could not be written.
static FAILED: AtomicU64 = AtomicU64::new(0);
/// Counts lines that were dropped because too many waited.
static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// Takes what this counter counts for the lines that were dropped.
pub fn count_dropped(counter: ErrorCounter) {
    // A process has one log; what would come second is not counted.
    let _ = DROPPED.set(counter);
}

/// Counts a line that could not be written.
pub fn one_failed() {
    FAILED.fetch_add(1, Ordering::Relaxed);
}

/// All lines that were lost so far.
pub fn lost() -> u64 {
    let dropped = DROPPED.get().map_or(0, ErrorCounter::dropped_lines);
    FAILED.load(Ordering::Relaxed) + dropped as u64
}
