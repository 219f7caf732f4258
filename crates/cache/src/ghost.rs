//! Which keys have left lately, without the keys.

/// Places for a hash that finds its place taken by an older one.
const WAYS: usize = 4;
/// Cells of the smallest memory.
const CELLS_MIN: usize = 16;

/// Fingerprints of the last evicted entries, half as many as there are entries. It may forget one
/// early, and takes another key for it once in 2³² times; it decides the order of eviction alone.
#[derive(Default)]
pub(crate) struct Ghost {
    /// A power of two of them; none before the first eviction.
    cells: Vec<GhostCell>,
    /// Evictions so far.
    clock: u32,
    /// How many evictions back a fingerprint counts.
    reach: u32,
}

#[derive(Clone, Copy, Default)]
struct GhostCell {
    fingerprint: u32,
    /// Of the clock; 0 in a cell that never held anything.
    put_at: u32,
}

impl Ghost {
    /// Remembers that the entry of this hash has left a table of `entries`.
    pub fn put(&mut self, hash: u64, entries: u32) {
        self.reach = (entries / 2).max(1);
        let wanted = (self.reach as usize).next_power_of_two().max(CELLS_MIN);
        if self.cells.len() < wanted {
            self.grow(wanted);
        }
        self.clock = self.clock.wrapping_add(1).max(1);
        let put_at = self.clock;
        let fingerprint = fingerprint(hash);
        let set = self.set(hash);
        let age = |cell: &GhostCell| match cell.put_at {
            0 => u32::MAX,
            at => put_at.wrapping_sub(at),
        };
        let oldest = set.iter_mut().max_by_key(|cell| age(cell));
        *oldest.expect("a set has cells") = GhostCell {
            fingerprint,
            put_at,
        };
    }

    /// Whether the entry of this hash left lately; forgets it.
    pub fn take(&mut self, hash: u64) -> bool {
        if self.cells.is_empty() {
            return false;
        }
        let (clock, reach, wanted) = (self.clock, self.reach, fingerprint(hash));
        let mut cells = self.set(hash).iter_mut();
        let found = cells.find(|cell| cell.fingerprint == wanted && cell.put_at != 0);
        found.is_some_and(|cell| {
            let put_at = std::mem::take(cell).put_at;
            clock.wrapping_sub(put_at) < reach
        })
    }

    /// What was remembered is dropped: a place depends on the number of cells.
    fn grow(&mut self, cells: usize) {
        self.cells = vec![GhostCell::default(); cells];
        self.clock = 0;
    }

    fn set(&mut self, hash: u64) -> &mut [GhostCell] {
        let sets = self.cells.len() / WAYS;
        let set = (mixed(hash) >> 32) as usize & (sets - 1);
        &mut self.cells[set * WAYS..][..WAYS]
    }
}

fn fingerprint(hash: u64) -> u32 {
    mixed(hash) as u32
}

/// The hash of an interpreter's small number is that number (constants of SplitMix64).
fn mixed(hash: u64) -> u64 {
    let mixed = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ghost_remembers_half_as_many_as_there_are_entries() {
        let mut ghost = Ghost::default();
        assert!(!ghost.take(1), "nothing has left");
        for hash in 0..1_000 {
            ghost.put(hash, 200);
        }
        let known = (0..1_000)
            .filter(|hash| ghost.take(*hash))
            .collect::<Vec<_>>();
        assert!(known.iter().all(|hash| *hash >= 900), "{known:?}");
        assert!(known.len() > 60, "{} of 100 are remembered", known.len());
        assert!(!ghost.take(known[0]), "it was taken");
    }

    #[test]
    fn ghost_of_a_table_that_grows_begins_again() {
        let mut ghost = Ghost::default();
        ghost.put(1, 2);
        ghost.put(2, 100_000);
        assert!(!ghost.take(1));
        assert!(ghost.take(2));
    }
}
