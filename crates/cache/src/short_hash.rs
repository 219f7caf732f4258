//! Half a hash, which is what an entry keeps of the hash of its key.

/// The 32 bits of both halves, folded: the caller's hash is mixed already. Two keys among 100,000
/// share it about once; then both are candidates, and the caller compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShortHash(u32);

impl ShortHash {
    #[inline]
    pub fn of(hash: u64) -> ShortHash {
        ShortHash((hash ^ (hash >> 32)) as u32)
    }

    /// 64 bits again: an index takes its place from the lowest and a tag from the highest ones.
    #[inline]
    pub fn spread(self) -> u64 {
        // Odd, so that no two are the same: the golden ratio, as Knuth multiplies.
        u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

#[cfg(test)]
mod tests {
    use super::ShortHash;

    #[test]
    fn short_hash_depends_on_every_bit() {
        let base = ShortHash::of(0x1234_5678_9abc_def0);
        assert!((0..64).all(|bit| ShortHash::of(0x1234_5678_9abc_def0 ^ (1 << bit)) != base));
    }

    #[test]
    fn spread_numbers_in_a_row_have_all_tags() {
        let mut tags = [false; 128];
        for hash in 0..4_096 {
            tags[(ShortHash::of(hash).spread() >> 57) as usize] = true;
        }
        assert!(tags.iter().all(|found| *found));
    }
}
