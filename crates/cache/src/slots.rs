//! Where the entries of a table stand: numbered slots that are used again.

use std::ops::{Index, IndexMut};

use crate::short_hash::ShortHash;

/// The number of no slot.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// One entry, and its links to others.
pub(crate) struct EntrySlot<T> {
    /// `None` in a slot that is free.
    pub item: Option<T>,
    pub expires_us: u64,
    /// Toward the older entries of its queue; in a free slot, the next free one.
    pub older: u32,
    pub newer: u32,
    /// The next entry with the same hash.
    pub same_hash: u32,
    pub hash: ShortHash,
    pub weight: u32,
    pub marks: EntryMarks,
}

/// The generation of a slot, the queue of its entry, and the hits that the order of eviction has
/// not yet counted down: in one word, since every entry pays for each.
#[derive(Clone, Copy, Default)]
pub(crate) struct EntryMarks(u32);

const HITS: u32 = 0b011;
const MAIN: u32 = 0b100;
const GENERATION_SHIFT: u32 = 3;
/// Hits that an entry remembers. It passes the end of a queue so many times without a further one.
const HITS_MAX: u32 = HITS;

impl EntryMarks {
    /// Of a new entry, which is on probation.
    pub fn of(generation: u32) -> EntryMarks {
        EntryMarks(generation << GENERATION_SHIFT)
    }

    /// Which of the entries in this slot it is: 29 bits, and then again from 0.
    #[inline]
    pub fn generation(self) -> u32 {
        self.0 >> GENERATION_SHIFT
    }

    pub fn hits(self) -> u32 {
        self.0 & HITS
    }

    pub fn set_hits(&mut self, hits: u32) {
        self.0 = self.0 & !HITS | hits.min(HITS_MAX);
    }

    /// Counts one more.
    #[inline]
    pub fn count_hit(&mut self) {
        self.0 += u32::from(self.0 & HITS < HITS_MAX);
    }

    pub fn queue(self) -> EvictionQueue {
        match self.0 & MAIN {
            0 => EvictionQueue::Probation,
            _ => EvictionQueue::Main,
        }
    }

    pub fn set_queue(&mut self, queue: EvictionQueue) {
        self.0 = match queue {
            EvictionQueue::Probation => self.0 & !MAIN,
            EvictionQueue::Main => self.0 | MAIN,
        };
    }

    /// Of the next entry.
    fn next(self) -> EntryMarks {
        EntryMarks::of(self.generation().wrapping_add(1))
    }
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
    first: EntryMarks,
}

impl<T> Default for EntrySlots<T> {
    fn default() -> EntrySlots<T> {
        EntrySlots {
            chunks: Vec::new(),
            count: 0,
            free: NO_SLOT,
            taken: 0,
            first: EntryMarks::default(),
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
        held.marks.generation() == generation && held.item.is_some()
    }

    pub fn take(&mut self, mut new: EntrySlot<T>) -> u32 {
        self.taken += 1;
        if self.free != NO_SLOT {
            let slot = self.free;
            let held = &mut self[slot];
            let next_free = held.older;
            new.marks = held.marks;
            *held = new;
            self.free = next_free;
            return slot;
        }
        assert!(
            self.count < NO_SLOT as usize,
            "slots are numbered in 32 bits"
        );
        new.marks = self.first;
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
        held.marks = held.marks.next();
        let item = held.item.take().expect("only a taken slot is given back");
        self.free = slot;
        self.taken -= 1;
        item
    }

    pub fn drain(&mut self) -> Vec<T> {
        let newest = self.iter().map(|(_, slot)| slot.marks);
        let newest = newest.max_by_key(|marks| marks.generation());
        self.first = newest.unwrap_or(self.first).next();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_of_a_pointer_takes_forty_bytes() {
        assert_eq!(size_of::<EntrySlot<Box<u8>>>(), 40);
    }

    #[test]
    fn marks_keep_their_parts_apart() {
        let last = EntryMarks::of(u32::MAX >> GENERATION_SHIFT);
        assert_eq!(last.next().generation(), 0);
        let mut marks = EntryMarks::of(5);
        (0..5).for_each(|_| marks.count_hit());
        assert_eq!((marks.hits(), marks.generation()), (3, 5));
        assert!(matches!(marks.queue(), EvictionQueue::Probation));
        marks.set_queue(EvictionQueue::Main);
        marks.set_hits(1);
        assert_eq!((marks.hits(), marks.generation()), (1, 5));
        assert!(matches!(marks.queue(), EvictionQueue::Main));
        assert_eq!((marks.next().hits(), marks.next().generation()), (0, 6));
    }
}
