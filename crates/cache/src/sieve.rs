//! Which entry leaves when space is needed.

use crate::slots::{EntrySlots, NO_SLOT};

/// The eviction order: a list from the newest entry to the oldest, and a hand that walks it from
/// old to new, passes each entry that was used since it last came by, and stops at the first that
/// was not.
pub(crate) struct Sieve {
    newest: u32,
    oldest: u32,
    hand: u32,
}

impl Default for Sieve {
    fn default() -> Sieve {
        Sieve {
            newest: NO_SLOT,
            oldest: NO_SLOT,
            hand: NO_SLOT,
        }
    }
}

impl Sieve {
    pub fn push<T>(&mut self, slots: &mut EntrySlots<T>, slot: u32) {
        slots[slot].older = self.newest;
        slots[slot].newer = NO_SLOT;
        match self.newest {
            NO_SLOT => self.oldest = slot,
            newest => slots[newest].newer = slot,
        }
        self.newest = slot;
    }

    pub fn unlink<T>(&mut self, slots: &mut EntrySlots<T>, slot: u32) {
        let (older, newer) = (slots[slot].older, slots[slot].newer);
        match older {
            NO_SLOT => self.oldest = newer,
            _ => slots[older].newer = newer,
        }
        match newer {
            NO_SLOT => self.newest = older,
            _ => slots[newer].older = older,
        }
        if self.hand == slot {
            self.hand = newer;
        }
    }

    /// The entry to evict. Each step clears one mark that a hit has set, so the steps of all
    /// evictions together are no more than the evictions and the hits.
    pub fn victim<T>(&mut self, slots: &mut EntrySlots<T>) -> u32 {
        loop {
            let slot = match self.hand {
                NO_SLOT => self.oldest,
                hand => hand,
            };
            assert!(slot != NO_SLOT, "an empty table needs no space");
            self.hand = slots[slot].newer;
            if !std::mem::take(&mut slots[slot].is_visited) {
                return slot;
            }
        }
    }
}
