//! The entries and the runs in progress of one function, or of one instance's method.

use std::sync::{Arc, OnceLock};

use cache::{EntryPlace, NEVER_US, NewEntry, ObjectTable, ProbedEntry, Removal, TableLimits};
use pyo3::ffi;
use pyo3::prelude::*;
use tiers::{Host, RedisTier};

use crate::entry::KeptEntry;
use crate::flight::FlightRuns;
use crate::guard::{Guarded, SharedCount};
use crate::isolate::Isolation;
use crate::key::LookupKey;
use crate::memory_budget::FunctionBudget;
use crate::object::{HeldObject, Outcome, PlainRc};
use crate::python;
use crate::recent_tables::RecentTables;
use crate::tables_by_address::TablesByAddress;

/// What all stores of one function share: its own, or those of a method's instances.
pub struct StoreShared {
    /// What each table may hold.
    pub limits: TableLimits,
    /// Called with the reason and the value when an entry leaves.
    pub on_evict: Option<HeldObject>,
    /// Bytes of all entries of all tables, where bytes are bounded.
    pub bytes: SharedCount,
    /// Bytes that other functions share.
    pub budget: Option<Py<FunctionBudget>>,
    /// Of a method: its instances' tables.
    pub recent: RecentTables,
    /// Of a method: the tables of instances without a `__dict__`.
    pub by_address: TablesByAddress,
    /// Entries that left for want of space.
    pub evicted: SharedCount,
    /// Entries that left because their time was over.
    pub expired: SharedCount,
    /// How often an entry was kept past its time.
    pub renewed: SharedCount,
    /// What says that it is right for longer.
    pub renewal: OnceLock<EntryRenewal>,
}

/// The stream of a tier, which says until when what is in memory is known to be right.
pub struct EntryRenewal {
    pub tier: Arc<RedisTier>,
    pub host: Host,
    /// From then on an entry is right for so long.
    pub span_ms: u64,
}

impl EntryRenewal {
    /// Until when an entry may stay that was read in this run, on the clock of the table.
    fn until_us(&self, stream_run: u64, now_us: u64) -> Option<u64> {
        let right_until_ms = self.tier.right_until_ms(stream_run)?;
        // By a clock that goes on while the machine is suspended.
        let age_ms = (self.host.now_ms)().saturating_sub(right_until_ms);
        let left_ms = self
            .span_ms
            .checked_sub(age_ms)
            .filter(|left_ms| *left_ms > 0)?;
        Some(now_us.saturating_add(left_ms.saturating_mul(1_000)))
    }
}

/// Entries and runs. Locked only between calls of the interpreter, never across one.
pub struct CallStore {
    /// The entries.
    pub table: Guarded<ObjectTable<PlainRc<KeptEntry>>>,
    /// Runs that callers may join.
    pub runs: FlightRuns,
    /// The generation of the function's own store when an instance's was last cleared with it.
    pub cleared: SharedCount,
    /// Rises when everything is invalidated.
    pub generation: SharedCount,
    /// What it shares with the others of its function.
    pub shared: Arc<StoreShared>,
}

/// What [`CallStore::find`] gives.
pub type FoundEntry = ProbedEntry<PlainRc<KeptEntry>>;

/// An entry on its way into a store.
pub struct StoredEntry {
    /// Of the key.
    pub hash: u64,
    /// Key and value.
    pub entry: PlainRc<KeptEntry>,
    /// Bytes, or 1 where bytes are not bounded.
    pub weight: u32,
    /// `None` if it never expires.
    pub lifetime_us: Option<u64>,
    /// Where it may stand.
    pub way: EntryWay,
}

/// Where an entry may stand.
#[derive(Clone, Copy, Debug, Default)]
pub struct EntryWay {
    /// Only in the place of this very entry.
    pub only: Option<EntryPlace>,
    /// The edition of the table at which no entry of its key was there.
    pub absent_at: Option<u64>,
}

/// A comparison that keeps changing the table finds nothing in the end.
const TRIES_MAX: usize = 8;

impl CallStore {
    /// An empty one.
    pub fn new(shared: Arc<StoreShared>) -> CallStore {
        CallStore {
            table: Guarded::new(ObjectTable::new(shared.limits)),
            runs: FlightRuns::default(),
            cleared: SharedCount::new(0),
            generation: SharedCount::new(0),
            shared,
        }
    }

    /// The entry of that key. May run Python code, with nothing locked.
    ///
    /// One whose time in memory is over is given if it may stay there for longer.
    #[inline]
    pub unsafe fn find(
        &self,
        hash: u64,
        lookup: &LookupKey<'_>,
        now_us: u64,
    ) -> Outcome<Option<FoundEntry>> {
        let found = self.find_held(hash, lookup, now_us)?;
        Ok(match (found, self.shared.renewal.get()) {
            (Some(entry), Some(renewal)) if entry.is_stale => self.renewed(entry, renewal, now_us),
            (found, _) => found,
        })
    }

    #[inline(never)]
    fn renewed(
        &self,
        entry: FoundEntry,
        renewal: &EntryRenewal,
        now_us: u64,
    ) -> Option<FoundEntry> {
        let extras = entry.item.extras.as_ref()?;
        let renewable = extras.renewable.as_ref()?;
        let until_us = renewal.until_us(renewable.stream_run, now_us)?;
        let until_us = until_us.min(renewable.fresh_until_us);
        // Last: one that a notice has removed before that moment is not there any more.
        if until_us <= now_us || !self.table.lock().touch(entry.place, until_us) {
            return None;
        }
        self.shared.renewed.raise();
        Some(FoundEntry {
            is_stale: false,
            ..entry
        })
    }

    /// As `find`, with the entries whose time is over, for as long as they are held.
    #[inline]
    pub unsafe fn find_held(
        &self,
        hash: u64,
        lookup: &LookupKey<'_>,
        now_us: u64,
    ) -> Outcome<Option<FoundEntry>> {
        for _ in 0..TRIES_MAX {
            let probed = self.table.lock().probe(hash, now_us);
            let Some(first) = probed.first else {
                return Ok(None);
            };
            let mut is_changed = false;
            for entry in std::iter::once(first).chain(probed.more) {
                if !lookup.equals(&entry.item.key)? {
                    continue;
                }
                if !lookup.runs_python() || self.table.lock().confirm(entry.place) {
                    return Ok(Some(entry));
                }
                is_changed = true;
            }
            if !is_changed {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// As `find`, but an entry whose tag was invalidated is none.
    #[inline]
    pub unsafe fn find_current(
        &self,
        hash: u64,
        lookup: &LookupKey<'_>,
        now_us: u64,
    ) -> Outcome<Option<FoundEntry>> {
        let found = self.find(hash, lookup, now_us)?;
        Ok(found.filter(|entry| entry.item.is_current()))
    }

    /// Stores an entry in the place of the one with its key, if `may_keep` still says so once
    /// nothing can come in between. Whether it was stored.
    pub unsafe fn insert(
        &self,
        new: StoredEntry,
        now_us: u64,
        may_keep: impl Fn() -> bool,
    ) -> Outcome<bool> {
        for _ in 0..TRIES_MAX {
            let edition = self.table.lock().edition();
            // Whatever its lifetime: two entries of one key would be two answers.
            let older = match new.way.absent_at {
                Some(absent_at) if absent_at == edition => None,
                _ => {
                    let key = &new.entry.key;
                    key.with_lookup(|lookup| self.find(new.hash, lookup, 0))?
                }
            };
            let mut table = self.table.lock();
            if table.edition() != edition {
                continue;
            }
            let replaces = older.as_ref().map(|older| older.place);
            let is_late = new.entry.is_late();
            if is_late || !may_keep() || new.way.only.is_some_and(|only| Some(only) != replaces) {
                drop(table);
                return Ok(false);
            }
            let before = table.bytes();
            let lifetime = new.lifetime_us;
            let gone = table.insert(
                NewEntry {
                    hash: new.hash,
                    item: new.entry.clone(),
                    weight: new.weight,
                    expires_us: lifetime.map_or(NEVER_US, |us| now_us.saturating_add(us)),
                    replaces,
                },
                now_us,
            );
            self.shared.move_bytes(before, table.bytes());
            drop(table);
            let mut is_stored = true;
            for gone in gone {
                is_stored &= gone.why != Removal::Refused;
                self.shared.leaves(gone.why, &gone.item);
                // Dropped here, with nothing locked: a destructor may call the cache.
            }
            self.make_room(now_us);
            if let Some(budget) = &self.shared.budget {
                budget.get().make_room()?;
            }
            return Ok(is_stored);
        }
        Ok(false)
    }

    /// Evicts from this table until all tables together keep to the bytes they share.
    unsafe fn make_room(&self, now_us: u64) {
        while self.shared.bytes.get() > self.shared.limits.bytes_max {
            if !self.give_up_one(now_us) {
                return;
            }
        }
    }

    /// Evicts one entry of this table; false if it has none.
    pub unsafe fn give_up_one(&self, now_us: u64) -> bool {
        let gone = {
            let mut table = self.table.lock();
            let before = table.bytes();
            let gone = table.evict(now_us);
            self.shared.move_bytes(before, table.bytes());
            gone
        };
        if let Some(gone) = &gone {
            self.shared.leaves(gone.why, &gone.item);
        }
        gone.is_some()
    }

    /// Takes an entry out, and drops it with nothing locked.
    pub unsafe fn remove(&self, place: EntryPlace) -> bool {
        let gone = {
            let mut table = self.table.lock();
            let before = table.bytes();
            let gone = table.remove(place);
            self.shared.move_bytes(before, table.bytes());
            gone
        };
        if let Some(entry) = &gone {
            self.shared.notify(c"invalidated", entry);
        }
        gone.is_some()
    }

    /// Takes every entry out, and lets no run of now store its value.
    pub fn clear(&self) -> Vec<PlainRc<KeptEntry>> {
        self.generation.raise();
        self.runs.detach_all();
        let mut table = self.table.lock();
        self.shared.move_bytes(table.bytes(), 0);
        table.drain()
    }

    /// As `clear`, and notifies the function of the user's of each entry.
    pub unsafe fn clear_notifying(&self) {
        for entry in self.clear() {
            self.shared.notify(c"cleared", &entry);
        }
    }

    /// Shows every object the entries hold, to the collector.
    pub fn visit(&self, show: &mut dyn FnMut(&HeldObject)) {
        self.table.lock().visit(|_, entry| {
            entry.key.visit(show);
            show(&entry.value);
        });
    }
}

impl StoreShared {
    fn move_bytes(&self, before: u64, after: u64) {
        if self.limits.bytes_max == u64::MAX {
            return;
        }
        self.bytes.move_by(before, after);
        if let Some(budget) = &self.budget {
            budget.get().move_bytes(before, after);
        }
    }

    unsafe fn leaves(&self, why: Removal, entry: &KeptEntry) {
        let reason = match why {
            Removal::Evicted => {
                self.evicted.raise();
                c"evicted"
            }
            Removal::Expired => {
                self.expired.raise();
                c"expired"
            }
            Removal::Replaced => c"replaced",
            Removal::Refused => c"too large",
        };
        self.notify(reason, entry);
    }

    /// Notifies the function of the user's. What it raises goes to `sys.unraisablehook`: the
    /// caller of the cache has nothing to do with this entry.
    unsafe fn notify(&self, reason: &std::ffi::CStr, entry: &KeptEntry) {
        let Some(on_evict) = &self.on_evict else {
            return;
        };
        python::apart(|| {
            let reason = HeldObject::owned(ffi::PyUnicode_FromString(reason.as_ptr()))?;
            let value = match entry.isolation {
                Isolation::Same | Isolation::Raise => entry.value.clone(),
                // As a caller gets it: what is kept may stand for it in another form.
                _ => entry.answer()?,
            };
            let parts = [reason.as_ptr(), value.as_ptr()];
            python::call(on_evict.as_ptr(), parts.as_ptr(), 2, std::ptr::null_mut())
        });
    }
}
