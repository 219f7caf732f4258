//! What a program knows of the deletions of the keys that it missed: for one request of PHP.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use twox_hash::XxHash3_64;

use super::MappedTicket;

/// Keys whose tickets are remembered, in 17 bytes each. With more of them all are forgotten but for
/// a bit each: then it is known of a key that it was missed, and not when.
const TICKETS_MAX: usize = 200_000;
/// Places of that bit, in 1 MiB.
const BITS: u32 = 23;
/// The room for tickets that is kept when they are cleared.
const KEPT: usize = 4_096;

/// What was known of a key when it was missed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KnownKey {
    /// It was not missed.
    Unmissed,
    /// It was, with this ticket.
    Ticket {
        /// What was known of its deletions then.
        ticket: MappedTicket,
        /// Whether a value was stored with it since.
        is_used: bool,
    },
    /// It was, or one of the same bit, and the ticket is forgotten: what was computed may be of
    /// before a deletion.
    Forgotten,
}

/// Tickets by the hash of their keys.
pub struct MissedKeys {
    tickets: HashMap<u64, RememberedTicket, BuildHasherDefault<HashedKey>>,
    forgotten: Vec<u64>,
    /// Seeds the hashes: nothing outside can find two keys of one.
    seed: u64,
}

/// A ticket, and whether it was used, in one word.
#[derive(Clone, Copy)]
struct RememberedTicket(u64);

impl RememberedTicket {
    const USED: u64 = 1;

    fn known(self) -> KnownKey {
        KnownKey::Ticket {
            ticket: MappedTicket(self.0 & !Self::USED),
            is_used: self.0 & Self::USED != 0,
        }
    }
}

/// What is a hash already.
#[derive(Default)]
struct HashedKey(u64);

impl Hasher for HashedKey {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are hashes of 64 bits");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Default for MissedKeys {
    fn default() -> MissedKeys {
        MissedKeys {
            tickets: HashMap::default(),
            forgotten: Vec::new(),
            seed: RandomState::new().hash_one(0),
        }
    }
}

impl MissedKeys {
    fn hash(&self, group: &[u8], key: &[u8]) -> u64 {
        let group = XxHash3_64::oneshot_with_seed(self.seed, group);
        XxHash3_64::oneshot_with_seed(group, key)
    }

    /// What is known of a key.
    pub fn known(&self, group: &[u8], key: &[u8]) -> KnownKey {
        if self.tickets.is_empty() && self.forgotten.is_empty() {
            return KnownKey::Unmissed;
        }
        let hash = self.hash(group, key);
        match self.tickets.get(&hash) {
            Some(ticket) => ticket.known(),
            None if self.is_forgotten(hash) => KnownKey::Forgotten,
            None => KnownKey::Unmissed,
        }
    }

    /// Notes that a key was missed, or deleted, and the ticket that came with it.
    pub fn remember(&mut self, group: &[u8], key: &[u8], ticket: MappedTicket) {
        if self.tickets.len() >= TICKETS_MAX {
            self.forget_tickets();
        }
        let hash = self.hash(group, key);
        self.tickets.insert(hash, RememberedTicket(ticket.0));
    }

    /// Notes that a value was stored with the ticket of a key. The ticket stays: what is stored
    /// later may have been computed before a deletion, too.
    pub fn use_ticket(&mut self, group: &[u8], key: &[u8]) {
        let hash = self.hash(group, key);
        if let Some(ticket) = self.tickets.get_mut(&hash) {
            ticket.0 |= RememberedTicket::USED;
        }
    }

    fn is_forgotten(&self, hash: u64) -> bool {
        let (word, bit) = place(hash);
        self.forgotten.get(word).is_some_and(|word| word & bit != 0)
    }

    fn forget_tickets(&mut self) {
        self.forgotten.resize(1 << (BITS - u64::BITS.ilog2()), 0);
        for (hash, _) in self.tickets.drain() {
            let (word, bit) = place(hash);
            self.forgotten[word] |= bit;
        }
    }

    /// Forgets all of it.
    pub fn clear(&mut self) {
        self.forgotten = Vec::new();
        if self.tickets.capacity() > KEPT {
            self.tickets = HashMap::default();
        }
        self.tickets.clear();
    }
}

/// The word of the bit of a hash, and the bit.
fn place(hash: u64) -> (usize, u64) {
    let place = hash >> (u64::BITS - BITS);
    ((place / 64) as usize, 1 << (place % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(number: u64) -> MappedTicket {
        let generations = super::super::keys::Generations { all: 1, group: 2 };
        MappedTicket::new(3, generations, number)
    }

    fn with(ticket: MappedTicket, is_used: bool) -> KnownKey {
        KnownKey::Ticket { ticket, is_used }
    }

    #[test]
    fn key_is_known_by_its_ticket_until_many_others_were_missed() {
        let mut missed = MissedKeys::default();
        assert_eq!(missed.known(b"g", b"k"), KnownKey::Unmissed);
        missed.remember(b"g", b"k", ticket(1));
        missed.remember(b"g", b"k", ticket(2));
        for other in 1..TICKETS_MAX as u64 {
            missed.remember(b"g", &other.to_le_bytes(), ticket(9));
        }
        assert_eq!(missed.known(b"g", b"k"), with(ticket(2), false));
        missed.use_ticket(b"g", b"k");
        missed.use_ticket(b"g", b"other");
        assert_eq!(missed.known(b"g", b"k"), with(ticket(2), true));
        assert_eq!(missed.known(b"h", b"k"), KnownKey::Unmissed);
        missed.remember(b"g", b"last", ticket(9));
        assert_eq!(missed.known(b"g", b"k"), KnownKey::Forgotten);
        assert_eq!(missed.known(b"g", b"last"), with(ticket(9), false));
        let unmissed = (0..10_000_u64).filter(|key| {
            let known = missed.known(b"others", &key.to_le_bytes());
            known == KnownKey::Unmissed
        });
        // One in 42 shares its bit with a key that was missed.
        assert!(unmissed.count() > 9_500);
        missed.clear();
        assert_eq!(missed.known(b"g", b"k"), KnownKey::Unmissed);
    }

    #[test]
    fn tickets_that_differ_in_the_count_differ() {
        let tickets: std::collections::HashSet<_> = (0..10_000).map(|at| ticket(at).0).collect();
        assert_eq!(tickets.len(), 10_000);
        assert_ne!(ticket(u64::MAX), ticket(0));
    }
}
