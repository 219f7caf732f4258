//! A bounded table for callers whose keys and values run foreign code when they are compared or
//! dropped: an interpreter's objects.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::eviction::Eviction;
use crate::short_hash::ShortHash;
use crate::slots::{EntryMarks, EntrySlot, EntrySlots, NO_SLOT};

/// What a table may hold.
#[derive(Clone, Copy, Debug)]
pub struct TableLimits {
    /// Entries. At least one.
    pub entries_max: usize,
    /// Bytes of all entries together, as the caller weighs them.
    pub bytes_max: u64,
    /// How long an entry past its lifetime is still given, as stale.
    pub stale_us: u64,
}

/// At most this many entries share a hash, of which a table keeps 32 bits: a caller that makes keys
/// collide waits for eight comparisons, and then loses the oldest of the entries that share it. So
/// hashes should begin with what callers cannot know.
pub const CANDIDATES_MAX: usize = 8;
/// Entries past their lifetime that one insertion looks for.
const SWEEP_STEPS: usize = 2;
/// The lifetime of what never expires.
pub const NEVER_US: u64 = u64::MAX;

/// Where an entry stands. Another entry in the same slot has another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryPlace {
    slot: u32,
    generation: u32,
}

/// An entry that may be the one asked for: its hash is equal.
#[derive(Debug)]
pub struct ProbedEntry<T> {
    /// What [`ObjectTable::confirm`] and [`ObjectTable::hit`] take.
    pub place: EntryPlace,
    /// A reference of the caller's own.
    pub item: T,
    /// Whether its lifetime has ended, and only the window for stale answers is left.
    pub is_stale: bool,
}

/// What [`ObjectTable::probe`] found, the newest first.
#[derive(Debug)]
pub struct ProbedEntries<T> {
    /// The first one; nearly always the only one.
    pub first: Option<ProbedEntry<T>>,
    /// The others of the same hash.
    pub more: Vec<ProbedEntry<T>>,
}

/// An entry that may be the one asked for, as it stands in the table.
pub struct NewestEntry<'a, T> {
    index: u32,
    slot: &'a mut EntrySlot<T>,
    hits: &'a mut u64,
}

impl<T> NewestEntry<'_, T> {
    /// Key and value.
    #[inline]
    pub fn item(&self) -> &T {
        let item = self.slot.item.as_ref();
        item.expect("a slot in the index is taken")
    }

    /// What [`ObjectTable::confirm`] and [`ObjectTable::hit`] take.
    pub fn place(&self) -> EntryPlace {
        place(self.index, self.slot)
    }

    /// Marks the entry as used.
    #[inline]
    pub fn hit(self) {
        self.slot.marks.count_hit();
        *self.hits += 1;
    }
}

/// What is to be stored.
#[derive(Debug)]
pub struct NewEntry<T> {
    /// Of the key.
    pub hash: u64,
    /// Key and value.
    pub item: T,
    /// Bytes, key included.
    pub weight: u32,
    /// When the lifetime ends, on the caller's clock; [`NEVER_US`] if it does not.
    pub expires_us: u64,
    /// The entry of the same key, if there is one.
    pub replaces: Option<EntryPlace>,
}

/// Why an entry left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Out of space.
    Evicted,
    /// Out of time.
    Expired,
    /// A newer entry of the same key took its place.
    Replaced,
    /// Heavier than the whole table may be: never stored.
    Refused,
}

/// An entry that left. The caller drops it, when no borrow of the table is held.
#[derive(Debug)]
pub struct Removed<T> {
    /// Key and value.
    pub item: T,
    /// Why it left.
    pub why: Removal,
}

/// What happened since the table was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounters {
    /// Entries that answered.
    pub hits: u64,
    /// Entries that left for want of space.
    pub evicted: u64,
    /// Entries that left because their time was over.
    pub expired: u64,
}

/// A map bounded in entries and in bytes that never compares a key and never drops an entry.
///
/// It gives candidates of equal hash, and hands out whatever leaves it. The caller compares and
/// drops when it holds no borrow, since either may run code that calls the table again. Evicts
/// by S3-FIFO with a small queue that adapts: a hit counts up a number and moves nothing.
///
/// `T: Clone` is called inside [`ObjectTable::probe`], so it must do nothing but count a reference.
pub struct ObjectTable<T> {
    limits: TableLimits,
    index: HashTable<u32>,
    slots: EntrySlots<T>,
    eviction: Eviction,
    bytes: u64,
    edition: u64,
    /// Whether any entry may have had a lifetime since the last drain.
    has_lifetimes: bool,
    sweep_from: u32,
    counters: TableCounters,
}

impl<T: Clone> ObjectTable<T> {
    /// An empty table.
    pub fn new(limits: TableLimits) -> ObjectTable<T> {
        assert!(limits.entries_max > 0, "a table holds at least one entry");
        ObjectTable {
            limits,
            index: HashTable::new(),
            slots: EntrySlots::default(),
            eviction: Eviction::default(),
            bytes: 0,
            edition: 0,
            has_lifetimes: false,
            sweep_from: 0,
            counters: TableCounters::default(),
        }
    }

    /// The entries under `hash` whose time is not over at `now_us`.
    #[inline]
    pub fn probe(&self, hash: u64, now_us: u64) -> ProbedEntries<T> {
        let mut found = ProbedEntries {
            first: None,
            more: Vec::new(),
        };
        let mut next = self.head(ShortHash::of(hash));
        while next != NO_SLOT {
            let slot = &self.slots[next];
            if let Some(is_stale) = self.state(slot, now_us) {
                let candidate = ProbedEntry {
                    place: place(next, slot),
                    item: slot.item.clone().expect("a slot in the index is taken"),
                    is_stale,
                };
                match found.first {
                    None => found.first = Some(candidate),
                    Some(_) => found.more.push(candidate),
                }
            }
            next = slot.same_hash;
        }
        found
    }

    /// The newest entry under `hash`, if its lifetime is not over at `now_us`, without a reference
    /// of the caller's own: for callers whose comparison runs no foreign code.
    #[inline]
    pub fn newest(&mut self, hash: u64, now_us: u64) -> Option<NewestEntry<'_, T>> {
        let index = self.head(ShortHash::of(hash));
        if index == NO_SLOT {
            return None;
        }
        let slot = &mut self.slots[index];
        let hits = &mut self.counters.hits;
        (now_us < slot.expires_us).then_some(NewestEntry { index, slot, hits })
    }

    /// Whether the entry is still in the table: for callers whose comparison ran foreign code.
    pub fn confirm(&self, place: EntryPlace) -> bool {
        self.slots.holds(place.slot, place.generation)
    }

    /// Marks the entry as used. Has no effect once it has left.
    #[inline]
    pub fn hit(&mut self, place: EntryPlace) {
        if self.confirm(place) {
            self.slots[place.slot].marks.count_hit();
        }
        self.counters.hits += 1;
    }

    /// Rises whenever an entry comes or goes; what was found stays whole until it does.
    pub fn edition(&self) -> u64 {
        self.edition
    }

    /// Stores an entry, and gives whatever leaves for it: the replaced one, those evicted, those
    /// whose time was over at `now_us`, and the new one itself if it is too heavy.
    pub fn insert(&mut self, new: NewEntry<T>, now_us: u64) -> Vec<Removed<T>> {
        let mut gone = Vec::new();
        if let Some(item) = new.replaces.and_then(|older| self.remove(older)) {
            let why = Removal::Replaced;
            gone.push(Removed { item, why });
        }
        if u64::from(new.weight) > self.limits.bytes_max {
            let (item, why) = (new.item, Removal::Refused);
            gone.push(Removed { item, why });
            return gone;
        }
        self.has_lifetimes |= new.expires_us != NEVER_US;
        if self.has_lifetimes {
            self.sweep(now_us, SWEEP_STEPS, &mut gone);
        }
        let bytes_free = self.limits.bytes_max - u64::from(new.weight);
        while self.slots.taken() >= self.limits.entries_max || self.bytes > bytes_free {
            let slot = self.eviction.victim(&mut self.slots);
            self.take_out(slot, now_us, &mut gone);
        }
        let hash = ShortHash::of(new.hash);
        self.make_room_among_equals(hash, now_us, &mut gone);
        self.bytes += u64::from(new.weight);
        let slot = self.slots.take(slot_of(new));
        self.eviction.push(&mut self.slots, slot);
        self.put_into_index(hash, slot);
        self.edition += 1;
        gone
    }

    /// Takes out the entry that would leave next for want of space.
    pub fn evict(&mut self, now_us: u64) -> Option<Removed<T>> {
        if self.entries() == 0 {
            return None;
        }
        let slot = self.eviction.victim(&mut self.slots);
        let mut gone = Vec::with_capacity(1);
        self.take_out(slot, now_us, &mut gone);
        gone.pop()
    }

    /// Takes the entry out, unless it has left already.
    pub fn remove(&mut self, place: EntryPlace) -> Option<T> {
        self.confirm(place).then(|| self.unlink(place.slot))
    }

    /// Gives the entry another end of its lifetime. False once it has left.
    pub fn touch(&mut self, place: EntryPlace, expires_us: u64) -> bool {
        let is_held = self.confirm(place);
        if is_held {
            self.slots[place.slot].expires_us = expires_us;
            self.has_lifetimes |= expires_us != NEVER_US;
        }
        is_held
    }

    /// Takes everything out.
    pub fn drain(&mut self) -> Vec<T> {
        let items = self.slots.drain();
        self.index = HashTable::new();
        self.eviction = Eviction::default();
        self.bytes = 0;
        self.has_lifetimes = false;
        self.sweep_from = 0;
        self.edition += 1;
        items
    }

    /// Shows every item, those included whose time is over.
    pub fn visit(&self, mut show: impl FnMut(EntryPlace, &T)) {
        for (index, slot) in self.slots.iter() {
            if let Some(item) = &slot.item {
                show(place(index, slot), item);
            }
        }
    }

    /// Entries, those included that have expired but were not met since.
    pub fn entries(&self) -> usize {
        self.slots.taken()
    }

    /// Bytes of all entries together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What happened so far.
    pub fn counters(&self) -> TableCounters {
        self.counters
    }

    /// The newest entry of that hash, or [`NO_SLOT`].
    #[inline]
    fn head(&self, hash: ShortHash) -> u32 {
        let is_head = |slot: &u32| self.slots[*slot].hash == hash;
        let head = self.index.find(hash.spread(), is_head);
        head.copied().unwrap_or(NO_SLOT)
    }

    /// `None` when its time is over, else whether it is stale.
    #[inline]
    fn state(&self, slot: &EntrySlot<T>, now_us: u64) -> Option<bool> {
        if now_us < slot.expires_us {
            return Some(false);
        }
        let is_stale = now_us < slot.expires_us.saturating_add(self.limits.stale_us);
        is_stale.then_some(true)
    }

    fn sweep(&mut self, now_us: u64, steps: usize, gone: &mut Vec<Removed<T>>) {
        for _ in 0..steps.min(self.slots.len()) {
            let slot = self.sweep_from;
            self.sweep_from = (slot + 1) % self.slots.len() as u32;
            let held = &self.slots[slot];
            if held.item.is_some() && self.state(held, now_us).is_none() {
                self.take_out(slot, now_us, gone);
            }
        }
    }

    fn make_room_among_equals(&mut self, hash: ShortHash, now_us: u64, gone: &mut Vec<Removed<T>>) {
        let mut next = self.head(hash);
        let (mut oldest, mut count) = (NO_SLOT, 0);
        while next != NO_SLOT {
            (oldest, count) = (next, count + 1);
            next = self.slots[next].same_hash;
        }
        if count >= CANDIDATES_MAX {
            self.take_out(oldest, now_us, gone);
        }
    }

    fn take_out(&mut self, slot: u32, now_us: u64, gone: &mut Vec<Removed<T>>) {
        let why = match self.state(&self.slots[slot], now_us) {
            None => Removal::Expired,
            Some(_) => Removal::Evicted,
        };
        match why {
            Removal::Expired => self.counters.expired += 1,
            _ => self.counters.evicted += 1,
        }
        let item = self.unlink(slot);
        gone.push(Removed { item, why });
    }

    fn put_into_index(&mut self, hash: ShortHash, slot: u32) {
        let slots = &mut self.slots;
        let is_head = |held: &u32| slots[*held].hash == hash;
        let spread = |held: &u32| slots[*held].hash.spread();
        match self.index.entry(hash.spread(), is_head, spread) {
            Entry::Occupied(mut head) => {
                slots[slot].same_hash = std::mem::replace(head.get_mut(), slot);
            }
            Entry::Vacant(free) => drop(free.insert(slot)),
        }
    }

    fn unlink(&mut self, slot: u32) -> T {
        let (hash, next) = (self.slots[slot].hash, self.slots[slot].same_hash);
        let slots = &mut self.slots;
        let mut head = self
            .index
            .find_entry(hash.spread(), |held| slots[*held].hash == hash)
            .expect("every entry is in the index");
        match (*head.get() == slot, next) {
            (true, NO_SLOT) => drop(head.remove()),
            (true, _) => *head.get_mut() = next,
            (false, _) => {
                let mut before = *head.get();
                while slots[before].same_hash != slot {
                    before = slots[before].same_hash;
                }
                slots[before].same_hash = next;
            }
        }
        self.eviction.unlink(&mut self.slots, slot);
        self.bytes -= u64::from(self.slots[slot].weight);
        self.edition += 1;
        self.slots.give_back(slot)
    }
}

fn place<T>(index: u32, slot: &EntrySlot<T>) -> EntryPlace {
    EntryPlace {
        slot: index,
        generation: slot.marks.generation(),
    }
}

fn slot_of<T>(new: NewEntry<T>) -> EntrySlot<T> {
    EntrySlot {
        hash: ShortHash::of(new.hash),
        item: Some(new.item),
        expires_us: new.expires_us,
        older: NO_SLOT,
        newer: NO_SLOT,
        same_hash: NO_SLOT,
        weight: new.weight,
        marks: EntryMarks::default(),
    }
}
