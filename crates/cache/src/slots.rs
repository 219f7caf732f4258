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
    /// Toward the older entries of its queue; in a free slot, the next free one.
    pub older: u32,
    pub newer: u32,
    /// The next entry with the same whole hash.
    pub same_hash: u32,
    pub generation: u32,
    pub weight: u32,
    /// Hits that the order of eviction has not yet counted down.
    pub hits: u8,
    pub queue: EvictionQueue,
}

/// Where an entry stands in the order of eviction.
#[derive(Clone, Copy)]
pub(crate) enum EvictionQueue {
    /// New, and soon gone unless it is hit.
    Probation,
    /// Hit while it was new, or back soon after it had left.
    Main,
}

/// Slots of one chunk. A table grows by a chunk, and moves nothing: growing one vector would copy
/// every slot again and again, and leave holes in the heap as large as the table.
const CHUNK_BITS: u32 = 8;
const CHUNK: usize = 1 << CHUNK_BITS;

/// Slots under their numbers.
pub(crate) struct EntrySlots<T> {
    /// All of them full but the last, which has room for a whole chunk unless it is the only one.
    chunks: Vec<Vec<EntrySlot<T>>>,
    count: usize,
    free: u32,
    taken: usize,
    /// The generation of slots that never held anything. It rises with each drain, so that a place
    /// from before names nothing after it.
    first_generation: u32,
}

impl<T> Default for EntrySlots<T> {
    fn default() -> EntrySlots<T> {
        EntrySlots {
            chunks: Vec::new(),
            count: 0,
            free: NO_SLOT,
            taken: 0,
            first_generation: 0,
        }
    }
}

impl<T> EntrySlots<T> {
    /// Slots, the free ones included.
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn taken(&self) -> usize {
        self.taken
    }

    pub fn holds(&self, slot: u32, generation: u32) -> bool {
        if slot as usize >= self.count {
            return false;
        }
        let held = &self[slot];
        held.generation == generation && held.item.is_some()
    }

    pub fn take(&mut self, mut new: EntrySlot<T>) -> u32 {
        self.taken += 1;
        if self.free != NO_SLOT {
            let slot = self.free;
            let held = &mut self[slot];
            let next_free = held.older;
            new.generation = held.generation;
            *held = new;
            self.free = next_free;
            return slot;
        }
        assert!(
            self.count < NO_SLOT as usize,
            "slots are numbered in 32 bits"
        );
        new.generation = self.first_generation;
        self.last_chunk().push(new);
        self.count += 1;
        (self.count - 1) as u32
    }

    /// A chunk with room for one more. The first one grows with its entries: most instances of a
    /// cached method hold few.
    fn last_chunk(&mut self) -> &mut Vec<EntrySlot<T>> {
        if self.count.is_multiple_of(CHUNK) {
            let room = if self.count == 0 { 4 } else { CHUNK };
            self.chunks.push(Vec::with_capacity(room));
        }
        self.chunks.last_mut().expect("there is one")
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
        let newest = self.iter().map(|(_, slot)| slot.generation).max();
        self.first_generation = newest.unwrap_or(self.first_generation).wrapping_add(1);
        (self.free, self.taken, self.count) = (NO_SLOT, 0, 0);
        let chunks = std::mem::take(&mut self.chunks);
        let all = chunks.into_iter().flatten();
        all.filter_map(|slot| slot.item).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &EntrySlot<T>)> {
        (0..).zip(self.chunks.iter().flatten())
    }
}

impl<T> Index<u32> for EntrySlots<T> {
    type Output = EntrySlot<T>;

    #[inline]
    fn index(&self, slot: u32) -> &EntrySlot<T> {
        &self.chunks[(slot >> CHUNK_BITS) as usize][slot as usize % CHUNK]
    }
}

impl<T> IndexMut<u32> for EntrySlots<T> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut EntrySlot<T> {
        &mut self.chunks[(slot >> CHUNK_BITS) as usize][slot as usize % CHUNK]
    }
}
