//! A concurrent map that is bounded in bytes.

use std::borrow::Borrow;
use std::hash::Hash;

use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, Weighter};

#[cfg(feature = "fixed-hash")]
type Hashes = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;
#[cfg(not(feature = "fixed-hash"))]
type Hashes = quick_cache::DefaultHashBuilder;

/// What a map may hold.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of all entries together.
    pub bytes_max: u64,
    /// The weight entries are expected to have; sizes the ghost list that keeps scans out.
    pub entry_bytes_typical: u64,
}

/// Weighs an entry, in bytes, its key included.
pub type Weigh<K, V> = fn(&K, &V) -> u64;

#[derive(Clone)]
struct ByWeight<K, V>(Weigh<K, V>);

impl<K, V> Weighter<K, V> for ByWeight<K, V> {
    fn weight(&self, key: &K, value: &V) -> u64 {
        // quick_cache never evicts what weighs nothing.
        (self.0)(key, value).max(1)
    }
}

/// Hands out what leaves the map.
#[derive(Clone, Default)]
struct HandOut;

impl<K, V> Lifecycle<K, V> for HandOut {
    type RequestState = Vec<(K, V)>;

    fn on_evict(&self, gone: &mut Vec<(K, V)>, key: K, value: V) {
        gone.push((key, value));
    }
}

/// A concurrent map bounded in bytes, evicting by S3-FIFO as `quick_cache` does.
pub struct WeightedMap<K, V> {
    entries: Cache<K, V, ByWeight<K, V>, Hashes, HandOut>,
    weigh: Weigh<K, V>,
}

impl<K: Hash + Eq + Clone, V: Clone> WeightedMap<K, V> {
    /// An empty map.
    pub fn new(bounds: Bounds, weigh: Weigh<K, V>) -> WeightedMap<K, V> {
        let expected = (bounds.bytes_max / bounds.entry_bytes_typical.max(1)).max(1);
        let entries = Cache::with(
            expected as usize,
            bounds.bytes_max,
            ByWeight(weigh),
            Hashes::default(),
            HandOut,
        );
        WeightedMap { entries, weigh }
    }

    /// The value under `key`, which counts as a use.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key)
    }

    /// Keeps `value` under `key`, in the place of an older one. Gives what left the map for it:
    /// the older one, what was evicted, and the value itself if it weighs more than
    /// `entry_bytes_max` and so is not kept.
    pub fn put(&self, key: K, value: V, entry_bytes_max: u64) -> Vec<(K, V)> {
        if (self.weigh)(&key, &value) > entry_bytes_max {
            // The older value is no longer what the caller wants answered.
            let older = self.entries.remove(&key);
            return older.into_iter().chain([(key, value)]).collect();
        }
        let mut gone = Vec::new();
        self.entries.insert_with_lifecycle(key, value, &mut gone);
        gone
    }

    /// Takes out what is under `key`, if it is what is meant.
    pub fn delete_if(&self, key: &K, is_meant: impl FnOnce(&V) -> bool) -> Option<(K, V)> {
        self.entries.remove_if(key, is_meant)
    }

    /// Drops every entry that `keep` does not want. Walks the whole map.
    pub fn retain(&self, keep: impl Fn(&K, &V) -> bool) {
        self.entries.retain(keep);
    }

    /// Bytes of all entries together.
    pub fn bytes(&self) -> u64 {
        self.entries.weight()
    }

    /// How many entries there are.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY_BYTES_MAX: u64 = 1_000;

    fn map(bytes_max: u64) -> WeightedMap<u64, Vec<u8>> {
        let bounds = Bounds {
            bytes_max,
            entry_bytes_typical: 100,
        };
        WeightedMap::new(bounds, |_, value| value.len() as u64)
    }

    #[test]
    fn the_bound_holds_whatever_is_put() {
        let map = map(10_000);
        for key in 0..10_000 {
            map.put(key, vec![0; 1 + (key as usize * 37) % 900], ENTRY_BYTES_MAX);
            assert!(map.bytes() <= 10_000);
        }
        assert!(map.bytes() > 1_000, "something is kept");
    }

    #[test]
    fn an_entry_at_its_limit_is_kept_and_one_beyond_removes_the_older_value() {
        let map = map(100_000);
        assert!(map.put(1, vec![7; 1_000], ENTRY_BYTES_MAX).is_empty());
        assert_eq!(map.get(&1).map(|value| value.len()), Some(1_000));
        let gone = map.put(1, vec![7; 1_001], ENTRY_BYTES_MAX);
        let lengths: Vec<usize> = gone.iter().map(|(_, value)| value.len()).collect();
        assert_eq!(lengths, [1_000, 1_001]);
        assert_eq!(map.get(&1), None);
    }

    #[test]
    fn removed_entries_are_handed_out() {
        let map = map(10_000);
        let mut kept = std::collections::BTreeMap::new();
        for key in 0..1_000 {
            kept.insert(key % 300, key);
            for (gone, value) in map.put(key % 300, vec![(key % 251) as u8; 500], ENTRY_BYTES_MAX) {
                let is_older = kept[&gone] == key && gone == key % 300;
                assert!(!value.is_empty());
                if !is_older || map.get(&gone).is_none() {
                    kept.remove(&gone);
                }
            }
        }
        let found = (0..300).filter(|key| map.get(key).is_some()).count();
        assert_eq!(found, kept.len());
    }

    #[test]
    fn retain_drops_what_is_not_wanted() {
        let map = map(100_000);
        for key in 0..10 {
            map.put(key, vec![0; 10], ENTRY_BYTES_MAX);
        }
        map.retain(|key, _| key % 2 == 0);
        let kept: Vec<u64> = (0..10).filter(|key| map.get(key).is_some()).collect();
        assert_eq!(kept, [0, 2, 4, 6, 8]);
        assert!(map.delete_if(&0, Vec::is_empty).is_none());
        assert!(map.get(&0).is_some());
        assert!(map.delete_if(&0, |value| value.len() == 10).is_some());
        assert_eq!(map.get(&0), None);
    }
}
