//! Where the entries of a table stand: numbered slots that are used again.

use std::ops::{Index, IndexMut};

/// The number of no slot.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// One entry, and its links to others.
pub(crate) struct EntrySlot<T> {
    pub hash: u64,
    /// `None` in a slot that is free.
    pub item: Option<T>,
    pub expires_us: u64,
    /// Toward the older entries of the eviction order; in a free slot, the next free one.
    pub older: u32,
    pub newer: u32,
    /// The next entry with the same whole hash.
    pub same_hash: u32,
    pub generation: u32,
    pub weight: u32,
    pub is_visited: bool,
}

/// Slots under their numbers.
pub(crate) struct EntrySlots<T> {
    all: Vec<EntrySlot<T>>,
    free: u32,
    taken: usize,
    /// The generation of slots that never held anything. It rises with each drain, so that a place
    /// from before names nothing after it.
    first_generation: u32,
}

impl<T> Default for EntrySlots<T> {
    fn default() -> EntrySlots<T> {
        EntrySlots {
            all: Vec::new(),
            free: NO_SLOT,
            taken: 0,
            first_generation: 0,
        }
    }
}

impl<T> EntrySlots<T> {
    /// Slots, the free ones included.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn taken(&self) -> usize {
        self.taken
    }

    pub fn holds(&self, slot: u32, generation: u32) -> bool {
        self.all
            .get(slot as usize)
            .is_some_and(|held| held.generation == generation && held.item.is_some())
    }

    pub fn take(&mut self, mut new: EntrySlot<T>) -> u32 {
        self.taken += 1;
        if self.free != NO_SLOT {
            let slot = self.free;
            let held = &mut self.all[slot as usize];
            self.free = held.older;
            new.generation = held.generation;
            *held = new;
            return slot;
        }
        if self.all.len() == self.all.capacity() {
            // An eighth more, not twice as many: a full table shall not be half empty.
            self.all.reserve_exact(self.all.len() / 8 + 4);
        }
        new.generation = self.first_generation;
        self.all.push(new);
        let slot = self.all.len() - 1;
        assert!(slot < NO_SLOT as usize, "slots are numbered in 32 bits");
        slot as u32
    }

    pub fn give_back(&mut self, slot: u32) -> T {
        let free = self.free;
        let held = &mut self[slot];
        held.older = free;
        held.generation = held.generation.wrapping_add(1);
        let item = held.item.take().expect("only a taken slot is given back");
        self.free = slot;
        self.taken -= 1;
        item
    }

    pub fn drain(&mut self) -> Vec<T> {
        let newest = self.all.iter().map(|slot| slot.generation).max();
        self.first_generation = newest.unwrap_or(self.first_generation).wrapping_add(1);
        (self.free, self.taken) = (NO_SLOT, 0);
        let all = std::mem::take(&mut self.all);
        all.into_iter().filter_map(|slot| slot.item).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &EntrySlot<T>)> {
        (0..).zip(&self.all)
    }
}

impl<T> Index<u32> for EntrySlots<T> {
    type Output = EntrySlot<T>;

    #[inline]
    fn index(&self, slot: u32) -> &EntrySlot<T> {
        &self.all[slot as usize]
    }
}

impl<T> IndexMut<u32> for EntrySlots<T> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut EntrySlot<T> {
        &mut self.all[slot as usize]
    }
}
