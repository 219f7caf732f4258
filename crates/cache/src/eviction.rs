//! Which entry leaves when space is needed.

use crate::ghost::Ghost;
use crate::slots::{EntrySlots, EvictionQueue, NO_SLOT};

/// The share of the entries that may be on probation, in thousandths: at first, and at least and
/// at most after it was adapted.
const SHARE_FIRST: u32 = 100;
const SHARE_MIN: u32 = 20;
const SHARE_MAX: u32 = 500;

/// The eviction order of S3-FIFO (Yang et al., SOSP 2023): new entries stand in a small queue on
/// probation and leave soon unless they are hit; others go to the main queue, whose end gives
/// entries that were hit another round. A hit counts up a number and moves nothing.
///
/// The small queue's share adapts, as in ARC: a key that comes back soon after it left on
/// probation would have been hit in a longer queue, one that left the main queue in a shorter one.
pub(crate) struct Eviction {
    probation: Fifo,
    main: Fifo,
    left_probation: Ghost,
    left_main: Ghost,
    share: u32,
}

impl Default for Eviction {
    fn default() -> Eviction {
        Eviction {
            probation: Fifo::default(),
            main: Fifo::default(),
            left_probation: Ghost::default(),
            left_main: Ghost::default(),
            share: SHARE_FIRST,
        }
    }
}

impl Eviction {
    /// Places a new entry.
    pub fn push<T>(&mut self, slots: &mut EntrySlots<T>, slot: u32) {
        let hash = slots[slot].hash.spread();
        let queue = if self.left_probation.take(hash) {
            self.share = (self.share + self.step()).min(SHARE_MAX);
            EvictionQueue::Main
        } else if self.left_main.take(hash) {
            self.share = self.share.saturating_sub(self.step()).max(SHARE_MIN);
            EvictionQueue::Main
        } else {
            EvictionQueue::Probation
        };
        self.enqueue(slots, slot, queue);
    }

    /// By how much the share adapts: a tenth of the range for a tenth of the entries that return.
    fn step(&self) -> u32 {
        let len = self.probation.len + self.main.len;
        (2_000 / len.max(1)).clamp(1, 20)
    }

    /// Takes an entry out of its queue.
    pub fn unlink<T>(&mut self, slots: &mut EntrySlots<T>, slot: u32) {
        self.queue(slots[slot].marks.queue()).unlink(slots, slot);
    }

    /// The entry to evict, which is remembered as evicted. Each step before counts a hit down, or
    /// moves an entry out of probation, which it enters once: the steps of all evictions together
    /// are no more than the hits and the insertions.
    pub fn victim<T>(&mut self, slots: &mut EntrySlots<T>) -> u32 {
        let len = self.probation.len + self.main.len;
        assert!(len > 0, "an empty table needs no space");
        loop {
            let is_long =
                u64::from(self.probation.len) * 1_000 > u64::from(self.share) * u64::from(len);
            let queue = if self.main.len == 0 || (is_long && self.probation.len > 0) {
                EvictionQueue::Probation
            } else {
                EvictionQueue::Main
            };
            let slot = self.queue(queue).oldest;
            let hits = slots[slot].marks.hits();
            if hits == 0 {
                let left = match queue {
                    EvictionQueue::Probation => &mut self.left_probation,
                    EvictionQueue::Main => &mut self.left_main,
                };
                left.put(slots[slot].hash.spread(), len);
                return slot;
            }
            slots[slot].marks.set_hits(match queue {
                EvictionQueue::Probation => 0,
                EvictionQueue::Main => hits - 1,
            });
            self.queue(queue).unlink(slots, slot);
            self.enqueue(slots, slot, EvictionQueue::Main);
        }
    }

    fn enqueue<T>(&mut self, slots: &mut EntrySlots<T>, slot: u32, queue: EvictionQueue) {
        slots[slot].marks.set_queue(queue);
        self.queue(queue).push(slots, slot);
    }

    fn queue(&mut self, queue: EvictionQueue) -> &mut Fifo {
        match queue {
            EvictionQueue::Probation => &mut self.probation,
            EvictionQueue::Main => &mut self.main,
        }
    }
}

/// A list of entries from the newest to the oldest.
struct Fifo {
    newest: u32,
    oldest: u32,
    len: u32,
}

impl Default for Fifo {
    fn default() -> Fifo {
        Fifo {
            newest: NO_SLOT,
            oldest: NO_SLOT,
            len: 0,
        }
    }
}

impl Fifo {
    fn push<T>(&mut self, slots: &mut EntrySlots<T>, slot: u32) {
        slots[slot].older = self.newest;
        slots[slot].newer = NO_SLOT;
        match self.newest {
            NO_SLOT => self.oldest = slot,
            newest => slots[newest].newer = slot,
        }
        self.newest = slot;
        self.len += 1;
    }

    fn unlink<T>(&mut self, slots: &mut EntrySlots<T>, slot: u32) {
        let (older, newer) = (slots[slot].older, slots[slot].newer);
        match older {
            NO_SLOT => self.oldest = newer,
            _ => slots[older].newer = newer,
        }
        match newer {
            NO_SLOT => self.newest = older,
            _ => slots[newer].older = older,
        }
        self.len -= 1;
    }
}
