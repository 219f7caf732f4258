//! The entries and the runs in progress of one function, or of one instance's method.

use std::cell::{Cell, RefCell};

use cache::{EntryPlace, NEVER_US, NewEntry, ObjectTable, ProbedEntry, Removal, TableLimits};

use crate::entry::{KeptEntry, tags_are_current};
use crate::flight::FlightRuns;
use crate::key::AskedKey;
use crate::object::{HeldObject, Outcome, PlainRc};

/// Entries and runs. Borrowed only between calls of the interpreter, never across one.
pub struct CallStore {
    /// The entries.
    pub table: RefCell<ObjectTable<PlainRc<KeptEntry>>>,
    /// FlightRuns that callers may join.
    pub runs: FlightRuns,
    /// The generation of the function's own store when an instance's was last cleared with it.
    pub cleared: Cell<u64>,
    /// Rises when everything is invalidated.
    pub generation: Cell<u64>,
}

/// A comparison that keeps changing the table finds nothing in the end.
const TRIES_MAX: usize = 8;

impl CallStore {
    /// An empty one. Entries are bounded by number; each weighs one byte for the table.
    pub fn new(entries_max: usize) -> CallStore {
        let limits = TableLimits {
            entries_max,
            bytes_max: u64::MAX,
            stale_us: 0,
        };
        CallStore {
            table: RefCell::new(ObjectTable::new(limits)),
            runs: FlightRuns::default(),
            cleared: Cell::new(0),
            generation: Cell::new(0),
        }
    }

    /// What was found of entries and runs stays whole while these are the same.
    pub fn editions(&self) -> (u64, u64) {
        (self.table.borrow().edition(), self.runs.edition())
    }

    /// The entry of that key. May run Python code, with nothing borrowed.
    #[inline]
    pub unsafe fn find(
        &self,
        hash: u64,
        asked: &AskedKey<'_>,
        now_us: u64,
    ) -> Outcome<Option<ProbedEntry<PlainRc<KeptEntry>>>> {
        for _ in 0..TRIES_MAX {
            let probed = self.table.borrow().probe(hash, now_us);
            let Some(first) = probed.first else {
                return Ok(None);
            };
            let mut is_changed = false;
            for entry in std::iter::once(first).chain(probed.more) {
                if !asked.equals(&entry.item.key)? {
                    continue;
                }
                if !asked.runs_python() || self.table.borrow().confirm(entry.place) {
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
        asked: &AskedKey<'_>,
        now_us: u64,
    ) -> Outcome<Option<ProbedEntry<PlainRc<KeptEntry>>>> {
        let found = self.find(hash, asked, now_us)?;
        Ok(found.filter(|entry| match &entry.item.tokens {
            None => true,
            Some(tokens) => tags_are_current(tokens),
        }))
    }

    /// Stores an entry in the place of the one with its key.
    pub unsafe fn insert(
        &self,
        hash: u64,
        entry: PlainRc<KeptEntry>,
        now_us: u64,
        lifetime_us: Option<u64>,
    ) -> Outcome<()> {
        for _ in 0..TRIES_MAX {
            let edition = self.table.borrow().edition();
            // Whatever its lifetime: two entries of one key would be two answers.
            let older = entry.key.with_asked(|asked| self.find(hash, asked, 0))?;
            if self.table.borrow().edition() != edition {
                continue;
            }
            let new = NewEntry {
                hash,
                item: entry,
                weight: 1,
                expires_us: lifetime_us.map_or(NEVER_US, |us| now_us.saturating_add(us)),
                replaces: older.as_ref().map(|older| older.place),
            };
            let gone = self.table.borrow_mut().insert(new, now_us);
            debug_assert!(gone.iter().all(|gone| gone.why != Removal::Refused));
            // Dropped here, with nothing borrowed: a destructor may call the cache.
            drop(gone);
            return Ok(());
        }
        Ok(())
    }

    /// Takes an entry out, and drops it with nothing borrowed.
    pub fn remove(&self, place: EntryPlace) -> bool {
        let gone = self.table.borrow_mut().remove(place);
        gone.is_some()
    }

    /// Takes every entry out, and lets no run of now store its value.
    pub fn clear(&self) {
        self.generation.set(self.generation.get() + 1);
        self.runs.detach();
        let gone = self.table.borrow_mut().drain();
        drop(gone);
    }

    /// Shows every object the entries hold, to the collector.
    pub fn visit(&self, show: &mut dyn FnMut(&HeldObject)) {
        self.table.borrow().visit(|_, entry| {
            entry.key.visit(show);
            show(&entry.value);
        });
    }
}
