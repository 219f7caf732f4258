//! The cached lists of a server: the map that holds them and the registry that watches over them.
//!
//! A lookup in the map locks nothing else. Whatever registers, fills, withholds or
//! unregisters holds the registry's lock while it does so, and touches the map under it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use cache::WeightedMap;
use model::{TableNumber, Timestamp};
use query::{Frame, Query};

use crate::batch::Batch;
use crate::boundaries::{Boundaries, Next};
use crate::entry::{Entry, EntryContent, FlaggedPart, Rows, StaleFlag, Total};
use crate::invalidated::DeferredTotal;
use crate::key::{Contract, Key};
use crate::past_epochs::PastEpochs;
use crate::purges::Purges;
use crate::registry::{Counts, Registry};
use crate::rules::{Rule, Rules};
use crate::run::Runs;
use crate::weight;

/// An entry may weigh at most this share of the capacity.
const ENTRY_SHARE: u64 = 64;
/// A page of 25 rows of half a kilobyte, as in the published benchmark.
const ENTRY_BYTES_TYPICAL: u64 = 12_000;

/// How much is kept, and how far totals are counted.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of all entries together; 0 keeps nothing.
    pub bytes_max: u64,
    /// Up to what totals are counted; `None` counts all.
    pub total_cap: Option<u64>,
}

/// The cached lists of a server.
pub struct ListCache {
    pub(crate) entries: WeightedMap<Key, Entry>,
    bytes_max: u64,
    pub(crate) past_epochs: RwLock<PastEpochs>,
    purges: RwLock<Purges>,
    purges_of_all: AtomicU64,
    watched: Mutex<WatchState>,
    boundaries: Boundaries,
    rules: Rules,
    total_cap: Option<u64>,
}

/// What is registered.
#[derive(Default)]
pub(crate) struct WatchState {
    pub(crate) registry: Registry,
    pub(crate) runs: Runs,
}

pub(crate) type Locked<'a> = MutexGuard<'a, WatchState>;

/// What a commit took away until it is published.
#[must_use = "totals come back when it is published, and nothing it may alter is kept before"]
pub struct Withheld {
    totals: Vec<DeferredTotal>,
    /// Tables whose answers at fixed coordinates cannot be looked for.
    past_changed: Vec<TableNumber>,
    /// When tables change next if it is given up, and if it becomes visible.
    next: [Next; 2],
}

impl ListCache {
    /// An empty cache.
    pub fn new(bounds: Bounds) -> ListCache {
        let entries = cache::Bounds {
            bytes_max: bounds.bytes_max,
            entry_bytes_typical: ENTRY_BYTES_TYPICAL,
        };
        ListCache {
            entries: WeightedMap::new(entries, weight::entry),
            bytes_max: bounds.bytes_max,
            past_epochs: RwLock::default(),
            purges: RwLock::default(),
            purges_of_all: AtomicU64::new(0),
            watched: Mutex::default(),
            boundaries: Boundaries::default(),
            rules: Rules::default(),
            total_cap: bounds.total_cap,
        }
    }

    /// Whether lists like this may be kept at all: not in random order, not chosen by
    /// relationships, which changes of other tables would alter, and not at coordinates.
    pub fn keeps(&self, query: &Query) -> bool {
        let is_watched = !query.random && !query.filters_relationships();
        let is_of_now = query.at.is_none() && query.frame == Frame::One;
        is_of_now && (is_watched || !self.rules.hold(Rule::KeepsWhatIsWatched))
    }

    /// Step 1 of a commit, before it can be seen: takes away what it may alter. What is being
    /// read now, or begins to be before [`ListCache::publish`], and may be altered, is kept by
    /// no longer kept, nor joined. One commit may be in flight at a time.
    ///
    /// # Panics
    /// When another commit is in flight.
    pub fn withhold(&self, mut batch: Batch) -> Withheld {
        batch.include_due(self.rules.hold(Rule::DueRowsAreChanges));
        let next = [self.boundaries.next(), Arc::clone(&batch.next)];
        let past_changed = std::mem::take(&mut batch.past_changed);
        self.raise_past_epochs(&past_changed);
        if self.rules.hold(Rule::BoundariesAreMovedBefore) {
            self.boundaries.expect(&batch.next);
        }
        let mut locked = self.lock();
        let invalidated = locked.registry.withhold(batch, self.total_cap, &self.rules);
        let gone = invalidated.gone.iter().filter_map(|(key, number)| {
            self.entries
                .delete_if(key, |entry| entry.place.number == *number)
        });
        let mut gone: Vec<(Key, Entry)> = gone.collect();
        for (key, number) in &invalidated.lost {
            let is_meant = |entry: &Entry| number.is_none_or(|number| entry.place.number == number);
            let Some((key, entry)) = self.entries.delete_if(key, is_meant) else {
                continue;
            };
            locked.registry.evict(&key, &entry, true, &self.rules);
            gone.push((key, entry));
        }
        let mut withheld = Withheld {
            totals: invalidated.totals,
            past_changed,
            next,
        };
        if !self.rules.hold(Rule::TotalsWaitForPublish) {
            drop(self.put_back(&mut locked, &mut withheld, true));
        }
        // Bodies are freed when no thread waits for it.
        drop(locked);
        drop(gone);
        withheld
    }

    /// Step 3 of a commit, after it became visible, or was given up: what it moved comes back,
    /// moved if it was `committed`.
    pub fn publish(&self, mut withheld: Withheld, committed: bool) {
        let mut locked = self.lock();
        locked.registry.publish();
        let gone = self.put_back(&mut locked, &mut withheld, committed);
        drop(locked);
        drop(gone);
        self.settle_past_epochs(&withheld.past_changed);
        let [given_up, visible] = withheld.next;
        if self.rules.hold(Rule::BoundariesAreMovedBefore) || committed {
            self.boundaries
                .set(if committed { visible } else { given_up });
        }
    }

    /// Takes in when each table changes next, as the store says when it is opened.
    pub fn expect(&self, next: Next) {
        self.boundaries.set(next);
    }

    /// The first instant at which anything changes by itself; the end of time if nothing does.
    pub fn first_boundary(&self) -> Timestamp {
        self.boundaries.first()
    }

    /// The first instant at which something of the table changes by itself; the end of time if
    /// nothing does.
    pub fn boundary(&self, table: TableNumber) -> Timestamp {
        self.boundaries.of(table)
    }

    /// A number that has risen once something of the table that was to change by itself does so no
    /// more: it has been activated, or was called off.
    pub fn passages(&self, table: TableNumber) -> u64 {
        self.boundaries.passages(table)
    }

    /// The same of all tables.
    pub fn passages_of_all(&self) -> u64 {
        self.boundaries.passages_of_all()
    }

    /// Whether something of the table was to change by itself up to `now`, and has not been
    /// activated: then no list of it is to be looked for, nor kept.
    pub fn is_overdue(&self, table: TableNumber, now: Timestamp) -> bool {
        self.boundaries.is_passed(table, now) && self.rules.hold(Rule::ListsEndAtBoundaries)
    }

    fn put_back(
        &self,
        locked: &mut Locked<'_>,
        withheld: &mut Withheld,
        committed: bool,
    ) -> Vec<(Key, Entry)> {
        let mut gone = Vec::new();
        let patches = committed || !self.rules.hold(Rule::FailedCommitsPatchNothing);
        for deferred in withheld.totals.drain(..) {
            let mut total = deferred.total;
            if patches {
                let count = total.saturating_add_signed(deferred.delta);
                total = self.total_cap.map_or(count, |cap| count.min(cap));
            }
            let stale = StaleFlag::default();
            let key = &deferred.key;
            let reopened = locked.registry.reopen(key, &deferred.place, &stale, total);
            if let Some(watch_bytes) = reopened {
                locked.registry.patched_totals += u64::from(patches);
                let content = EntryContent::Total(Total {
                    count: total,
                    read_ms: 0,
                });
                let place = deferred.place;
                let entry = Entry {
                    place,
                    stale,
                    content,
                    watch_bytes,
                };
                gone.extend(self.put(locked, deferred.key, entry));
            }
        }
        gone
    }

    /// Drops every list of `table`. Within a `ttl`, a request after this call finds nothing
    /// that was read before it: keys made from now on count one purge more, so neither an entry,
    /// nor an open read, nor a late fill is found under them.
    pub fn purge(&self, table: TableNumber) {
        if self.rules.hold(Rule::PurgeIsAFence) {
            let mut purges = self.purges.write().unwrap_or_else(PoisonError::into_inner);
            purges.purge(table);
            self.purges_of_all.fetch_add(1, Ordering::Release);
        }
        let takes_exact = self.rules.hold(Rule::PurgeTakesExactLists);
        let mut locked = self.lock();
        if takes_exact {
            locked.registry.forget(table, &self.rules);
        }
        locked.registry.forget_kept(table);
        let gone = RefCell::new(Vec::new());
        self.entries.retain(|key, entry| {
            let stays = key.table() != table || (key.is_exact() && !takes_exact);
            if !stays {
                gone.borrow_mut().push(entry.clone());
            }
            stays
        });
        drop(locked);
        drop(gone);
    }

    /// Bytes of all entries together.
    pub fn bytes(&self) -> u64 {
        self.entries.bytes()
    }

    /// How many entries there are; the rows of a list and its total are two.
    pub fn entries(&self) -> usize {
        self.entries.entries()
    }

    /// What the registry holds, and has done.
    pub fn counts(&self) -> Counts {
        self.lock().registry.counts()
    }

    /// The rules, to be switched off.
    #[cfg(feature = "test-switches")]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    #[cfg(not(feature = "test-switches"))]
    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The rows under `key`, if `contract` allows them.
    pub(crate) fn rows(
        &self,
        key: &[u8],
        contract: Contract,
        now_ms: u64,
    ) -> Option<FlaggedPart<Rows>> {
        let held = self.entries.get(key)?.rows()?;
        allows(contract, &held.stale, held.value.read_ms, now_ms).then_some(held)
    }

    /// The total under `key`, if `contract` allows it.
    pub(crate) fn total(
        &self,
        key: &[u8],
        contract: Contract,
        now_ms: u64,
    ) -> Option<FlaggedPart<Total>> {
        let held = self.entries.get(key)?.total()?;
        allows(contract, &held.stale, held.value.read_ms, now_ms).then_some(held)
    }

    /// The number that each purge of the table raises, as far as the contract asks for it.
    pub(crate) fn purges(&self, contract: Contract, table: TableNumber) -> u64 {
        if contract.is_exact() {
            return 0;
        }
        let purges = self.purges.read().unwrap_or_else(PoisonError::into_inner);
        purges.of(table)
    }

    /// How often any table was purged.
    pub(crate) fn purges_of_all(&self) -> u64 {
        self.purges_of_all.load(Ordering::Acquire)
    }

    /// Whether a fill under `key` is of any use: not if the table was purged since it was made.
    pub(crate) fn may_fill(&self, key: &Key, contract: Contract) -> bool {
        key.purges() == self.purges(contract, key.table())
    }

    /// Puts an entry whose watch is registered, and unregisters what goes for it. Gives that, to
    /// be freed when the lock is.
    pub(crate) fn put(&self, locked: &mut Locked<'_>, key: Key, entry: Entry) -> Vec<(Key, Entry)> {
        let (name, number) = (key.clone(), entry.place.number);
        let entry_bytes_max = self.bytes_max / self.rules.share(ENTRY_SHARE);
        let gone = self.entries.put(key, entry, entry_bytes_max);
        for (key, gone) in &gone {
            locked.registry.evictions += u64::from(*key != name);
            if matches!(gone.content, EntryContent::Pinned(_)) {
                continue;
            }
            let was_kept = gone.place.number != number;
            locked.registry.evict(key, gone, was_kept, &self.rules);
        }
        gone
    }

    pub(crate) fn lock(&self) -> Locked<'_> {
        // A panic while it was held came from a broken promise of its own; what it guards may
        // then lack a removal, which costs memory, never an addition.
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an entry in this state may be served.
fn allows(contract: Contract, stale: &StaleFlag, read_ms: u64, now_ms: u64) -> bool {
    match contract {
        Contract::Exact => !stale.is_set(),
        Contract::Ttl { age_s_max } => {
            now_ms.saturating_sub(read_ms) < u64::from(age_s_max) * 1_000
        }
    }
}
