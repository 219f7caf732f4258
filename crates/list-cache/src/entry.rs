//! What is kept of a list, and whether it is still true.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::Mark;

/// The encoded rows of a list.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The rows, joined by commas.
    pub body: Arc<[u8]>,
    /// What [`fingerprint`](crate::fingerprint) says of the body, kept so that no hit computes it.
    pub tag: u128,
    /// The mark of the snapshot they were read from.
    pub mark: Mark,
    /// When the read began, in milliseconds of the caller's monotonic clock.
    pub read_ms: u64,
}

/// The total of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Total {
    /// Matches, up to the cap.
    pub(crate) count: u64,
    /// When the read began, in milliseconds of the caller's monotonic clock.
    pub(crate) read_ms: u64,
}

/// A list, or a row, at fixed coordinates.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// The encoded rows, joined by commas.
    pub body: Arc<[u8]>,
    /// What [`fingerprint`](crate::fingerprint) says of them.
    pub tag: u128,
    /// Matches up to the cap, if the total was wanted; else 0.
    pub total: u64,
    /// The mark of the coordinates.
    pub mark: Mark,
    /// When the read began, in milliseconds of the caller's monotonic clock.
    pub read_ms: u64,
    /// Whether rows that it may have shown once are erased since. A further erasure alters the
    /// name that it is kept under.
    pub is_erased: bool,
}

/// Whether a commit may have altered what was read, or it can no longer be known. Set once, never
/// unset, and set before the commit is visible.
#[derive(Clone, Debug, Default)]
pub(crate) struct StaleFlag(Arc<AtomicBool>);

impl StaleFlag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Whether an answer is still what a read would give.
#[derive(Clone, Debug)]
pub struct Freshness {
    rows: StaleFlag,
    total: Option<StaleFlag>,
}

impl Freshness {
    pub(crate) fn new(rows: StaleFlag, total: Option<StaleFlag>) -> Freshness {
        Freshness { rows, total }
    }

    /// Whether nothing that is visible by now has altered it. Once it does not hold, it
    /// never does again, also where nothing but its place in the cache was lost.
    pub fn holds(&self) -> bool {
        let total = self.total.as_ref();
        !self.rows.is_set() && !total.is_some_and(StaleFlag::is_set)
    }
}

/// A part of an answer, and whether it is still true.
#[derive(Clone, Debug)]
pub(crate) struct FlaggedPart<T> {
    pub(crate) value: T,
    pub(crate) stale: StaleFlag,
}

/// Where a watch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatchPlace {
    /// Its group; `None` if it stands beyond the bounds of its table, or nowhere.
    pub(crate) group: Option<u32>,
    pub(crate) number: u64,
}

/// What stands in the map.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Where its watch stands in the registry.
    pub(crate) place: WatchPlace,
    pub(crate) stale: StaleFlag,
    pub(crate) content: EntryContent,
    /// What the registry spends on it. It was weighed with this, and leaves with the same weight.
    pub(crate) watch_bytes: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum EntryContent {
    Rows(Rows),
    Total(Total),
    /// Not watched.
    Pinned(Pinned),
}

impl Entry {
    pub(crate) fn rows(self) -> Option<FlaggedPart<Rows>> {
        let stale = self.stale;
        match self.content {
            EntryContent::Rows(value) => Some(FlaggedPart { value, stale }),
            EntryContent::Total(_) | EntryContent::Pinned(_) => None,
        }
    }

    pub(crate) fn total(self) -> Option<FlaggedPart<Total>> {
        let stale = self.stale;
        match self.content {
            EntryContent::Total(value) => Some(FlaggedPart { value, stale }),
            EntryContent::Rows(_) | EntryContent::Pinned(_) => None,
        }
    }
}
