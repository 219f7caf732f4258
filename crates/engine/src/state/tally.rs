//! What the writer has done, and what waits for it.

use std::sync::atomic::AtomicU64;

use store::tally::{Count, Distribution, Histogram, TIMES_NS};

/// What the writer's thread counts.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) commits: Count,
    pub(crate) failed: Count,
    pub(crate) unknown: Count,
    pub(crate) panics: Count,
    pub(crate) rows: Count,
    pub(crate) pending: Count,
    pub(crate) requests: Histogram,
    pub(crate) apply_ns: Histogram,
    pub(crate) sync_ns: Histogram,
    /// Counted by the caller's thread, so by several.
    pub(crate) refused: AtomicU64,
}

/// Bounds of how many requests one commit answers; at most 1,024.
const REQUESTS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];

impl Default for Written {
    fn default() -> Written {
        Written {
            commits: Count::default(),
            failed: Count::default(),
            unknown: Count::default(),
            panics: Count::default(),
            rows: Count::default(),
            pending: Count::default(),
            requests: Histogram::new(REQUESTS),
            apply_ns: Histogram::new(TIMES_NS),
            sync_ns: Histogram::new(TIMES_NS),
            refused: AtomicU64::new(0),
        }
    }
}

/// What the writer has done since the start, and what waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writes {
    /// Groups that were committed and changed something.
    pub commits: u64,
    /// Groups that came to nothing, because the database failed. Their requests were run again
    /// one by one where there were several.
    pub failed: u64,
    /// Groups of which the database did not say at once whether they were committed.
    pub unknown: u64,
    /// Faults of the program while it wrote.
    pub panics: u64,
    /// Rows that commits inserted, changed or deleted, where their images were kept; tables that
    /// were changed as a whole count no rows.
    pub rows: u64,
    /// Requests that were refused because too many waited.
    pub refused: u64,
    /// Requests that wait now.
    pub waiting: usize,
    /// Most that may wait.
    pub waiting_max: usize,
    /// Requests whose marks are given and not published now.
    pub pending: u64,
    /// How many requests a commit answered.
    pub requests: Distribution,
    /// How long a group was applied before it was durable, in nanoseconds.
    pub apply_ns: Distribution,
    /// How long it took to make a group durable and visible, in nanoseconds.
    pub sync_ns: Distribution,
}
