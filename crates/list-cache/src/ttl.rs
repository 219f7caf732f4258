//! Lists that a reader accepts up to an age it names.
//!
//! An entry keeps when it was read, not when it expires: the reader's own `ttl` decides (wire
//! protocol, section 4.2). Writes leave entries alone; a purge, and each change of schema or
//! permissions, takes them away.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use cache::{Bounds, WeightedMap};
use model::{Mark, TableNumber};
use query::Query;

use crate::fill::{Lookup, Runs, Ticket};
use crate::key::{Key, Part};

/// An entry may weigh at most this share of the capacity.
const ENTRY_SHARE: u64 = 64;
/// A page of 25 rows of half a kilobyte, as in the published benchmark.
const ENTRY_BYTES_TYPICAL: u64 = 12_000;
/// What the map itself spends on an entry, about.
const ENTRY_OVERHEAD_BYTES: u64 = 96;

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
pub struct Total {
    /// Matches, up to the cap.
    pub count: u64,
    /// When the read began, in milliseconds of the caller's monotonic clock.
    pub read_ms: u64,
}

#[derive(Clone)]
enum Entry {
    Rows(Rows),
    Total(Total),
}

/// The TTL lists of a server.
pub struct ListCache {
    entries: WeightedMap<Key, Entry>,
    purge_epochs: RwLock<HashMap<TableNumber, u64>>,
    /// How many purges there were, of all tables.
    purges: AtomicU64,
    pub(crate) runs: Arc<Mutex<Runs>>,
}

impl ListCache {
    /// An empty cache of at most `bytes_max` bytes; 0 keeps nothing.
    pub fn new(bytes_max: u64) -> ListCache {
        let bounds = Bounds {
            bytes_max,
            entry_bytes_max: bytes_max / ENTRY_SHARE,
            entry_bytes_typical: ENTRY_BYTES_TYPICAL,
        };
        ListCache {
            entries: WeightedMap::new(bounds, weigh),
            purge_epochs: RwLock::default(),
            purges: AtomicU64::new(0),
            runs: Arc::default(),
        }
    }

    /// The key of `query`'s `part` as of now.
    pub fn key(&self, query: &Query, part: Part) -> Key {
        Key::new(query, part, self.purge_epoch(query.table.number))
    }

    /// The rows under `key` if they are younger than `ttl_s` seconds at `now_ms`, else a run of
    /// somebody else that may be joined, else the right to run.
    pub fn rows(&self, key: &Key, ttl_s: u32, now_ms: u64) -> Lookup {
        if let Some(rows) = self.young_rows(key, ttl_s, now_ms) {
            return Lookup::Hit(rows);
        }
        Runs::join_or_lead(&self.runs, key)
    }

    /// The rows under `key` if they are younger than `ttl_s` seconds at `now_ms`.
    pub fn young_rows(&self, key: &Key, ttl_s: u32, now_ms: u64) -> Option<Rows> {
        match self.entries.get(key) {
            Some(Entry::Rows(rows)) if is_young(rows.read_ms, ttl_s, now_ms) => Some(rows),
            _ => None,
        }
    }

    /// The total under `key` if it is younger than `ttl_s` seconds at `now_ms`.
    pub fn total(&self, key: &Key, ttl_s: u32, now_ms: u64) -> Option<Total> {
        match self.entries.get(key) {
            Some(Entry::Total(total)) if is_young(total.read_ms, ttl_s, now_ms) => Some(total),
            _ => None,
        }
    }

    /// Keeps the rows a leader read and hands them to those who joined.
    ///
    /// A purge since the ticket was given refuses the fill. Whoever joined before it gets the
    /// rows all the same: those requests had begun before the purge was answered.
    pub fn fill_rows(&self, ticket: Ticket, rows: Rows) {
        self.fill(ticket.key().clone(), Entry::Rows(rows.clone()));
        ticket.land(rows);
    }

    /// Keeps a total, unless the table was purged since its key was made.
    pub fn fill_total(&self, key: Key, total: Total) {
        self.fill(key, Entry::Total(total));
    }

    /// A purge between the question and the fill leaves an entry under a key nobody asks for
    /// any more: of no effect, and evicted in its turn.
    fn fill(&self, key: Key, entry: Entry) {
        if key.purge_epoch == self.purge_epoch(key.table) {
            self.entries.put(key, entry);
        }
    }

    /// Before a commit becomes visible: runs over `tables` that are open, or are opened before
    /// [`ListCache::publish`], may not be joined, because whoever asks after the commit may not
    /// get an answer from before it that nobody had cached.
    pub fn withhold(&self, tables: &[TableNumber]) {
        self.lock_runs().withhold(tables);
    }

    /// After the commit became visible, or was given up.
    pub fn publish(&self, tables: &[TableNumber]) {
        self.lock_runs().publish(tables);
    }

    /// Drops every entry of `table`. Whoever asks after this call finds nothing that was read
    /// before it: keys made from now on carry another purge epoch, so neither an entry, nor an
    /// open run, nor a late fill is found under them.
    pub fn purge(&self, table: TableNumber) {
        let mut epochs = self
            .purge_epochs
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *epochs.entry(table).or_default() += 1;
        self.purges.fetch_add(1, Ordering::Release);
        drop(epochs);
        self.entries.retain(|key, _| key.table != table);
    }

    /// How many purges there were. A key that was made after a number was read here is as good as
    /// a new one for as long as the number stays.
    pub fn purges(&self) -> u64 {
        self.purges.load(Ordering::Acquire)
    }

    /// Bytes of all entries together.
    pub fn bytes(&self) -> u64 {
        self.entries.bytes()
    }

    fn purge_epoch(&self, table: TableNumber) -> u64 {
        let epochs = self
            .purge_epochs
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        epochs.get(&table).copied().unwrap_or_default()
    }

    fn lock_runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether what was read at `read_ms` is younger than `ttl_s` seconds.
fn is_young(read_ms: u64, ttl_s: u32, now_ms: u64) -> bool {
    now_ms.saturating_sub(read_ms) < u64::from(ttl_s) * 1_000
}

fn weigh(key: &Key, entry: &Entry) -> u64 {
    let body = match entry {
        Entry::Rows(rows) => rows.body.len() as u64,
        Entry::Total(_) => 0,
    };
    key.size_bytes() + body + ENTRY_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests;
