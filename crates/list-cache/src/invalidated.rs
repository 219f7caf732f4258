//! What a commit takes out of the cache, and which totals come back after it.

use crate::entry::{StaleFlag, WatchPlace};
use crate::key::Key;
use crate::shown::Lost;

/// What a commit takes away.
#[derive(Default)]
pub(crate) struct Invalidated {
    /// Entries that must leave the map, each by its own number.
    pub(crate) gone: Vec<(Key, u64)>,
    /// Entries within a `ttl` that must leave it, too, because they show what was taken.
    pub(crate) lost: Vec<Lost>,
    /// Totals that come back when the commit is published.
    pub(crate) totals: Vec<DeferredTotal>,
    /// Entries and open reads that it takes away.
    pub(crate) count: u64,
}

/// A total that comes back when the commit is published.
pub(crate) struct DeferredTotal {
    pub(crate) key: Key,
    pub(crate) place: WatchPlace,
    pub(crate) total: u64,
    pub(crate) delta: i64,
}

impl Invalidated {
    pub(crate) fn defer_total(
        &mut self,
        key: Key,
        group: u32,
        number: u64,
        stale: &StaleFlag,
        total: u64,
        delta: i64,
    ) {
        self.count += 1;
        stale.set();
        self.gone.push((key.clone(), number));
        self.totals.push(DeferredTotal {
            key,
            place: WatchPlace {
                group: Some(group),
                number,
            },
            total,
            delta,
        });
    }
}
