//! Which shapes of queries have turned out long.
//!
//! A shape is the text of its SQL, in which values do not stand. Memory is bounded by being one
//! table of fixed size: a shape that falls into a taken place drives the older one out, which
//! costs that one another try and nothing else.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Places for shapes, 8 bytes each. A busy application has some hundred shapes in all.
const PLACES: usize = 4_096;
/// How long a shape counts as long: often enough tried again after an index was made for it,
/// seldom enough that the tries cost nothing.
const REMEMBERED: Duration = Duration::from_mins(1);

/// The shapes that were long lately.
#[derive(Debug)]
pub(crate) struct SlowShapes {
    /// Half of a shape's hash, then the second up to which it counts. Keyed by chance, so that
    /// a caller cannot aim at a place.
    places: Box<[AtomicU64]>,
    hasher: RandomState,
    /// The last second up to which any counts: as long as none does, nothing is hashed.
    latest_s: AtomicU64,
    began: Instant,
}

impl SlowShapes {
    pub(crate) fn new() -> SlowShapes {
        SlowShapes {
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
            latest_s: AtomicU64::new(0),
            began: Instant::now(),
        }
    }

    /// Whether this SQL was long within the last minute.
    pub(crate) fn contains(&self, sql: &str) -> bool {
        self.latest_s.load(Ordering::Relaxed) > 0 && self.contains_at(sql, self.now_s())
    }

    /// Remembers that this SQL was long.
    pub(crate) fn remember(&self, sql: &str) {
        self.remember_at(sql, self.now_s());
    }

    /// Forgets that this SQL was long.
    pub(crate) fn forget(&self, sql: &str) {
        let (place, name) = self.place(sql);
        let found = place.load(Ordering::Relaxed);
        if found & NAME == name {
            // A thread that has just put another shape there loses a try at most.
            place.store(0, Ordering::Relaxed);
        }
    }

    fn now_s(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    fn contains_at(&self, sql: &str, now_s: u64) -> bool {
        if self.latest_s.load(Ordering::Relaxed) <= now_s {
            return false;
        }
        let (place, name) = self.place(sql);
        let found = place.load(Ordering::Relaxed);
        found & NAME == name && now_s < found & !NAME
    }

    fn remember_at(&self, sql: &str, now_s: u64) {
        let until_s = now_s + REMEMBERED.as_secs();
        let (place, name) = self.place(sql);
        place.store(name | (until_s & !NAME), Ordering::Relaxed);
        self.latest_s.fetch_max(until_s, Ordering::Relaxed);
    }

    /// Where the shape stands, and the half of its hash that names it there.
    fn place(&self, sql: &str) -> (&AtomicU64, u64) {
        let hash = self.hasher.hash_one(sql);
        (&self.places[hash as usize % PLACES], hash & NAME)
    }
}

/// The upper half; the lower one counts seconds for 136 years.
const NAME: u64 = !0 << 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_counts_for_a_minute() {
        let shapes = SlowShapes::new();
        assert!(!shapes.contains_at("a", 0));
        shapes.remember_at("a", 5);
        assert!(shapes.contains_at("a", 5) && shapes.contains_at("a", 64));
        assert!(!shapes.contains_at("a", 65));
        assert!(!shapes.contains_at("b", 5));
        shapes.remember_at("b", 70);
        assert!(!shapes.contains_at("a", 70), "others do not prolong it");
    }

    #[test]
    fn a_shape_is_forgotten_and_its_neighbours_are_not() {
        let shapes = SlowShapes::new();
        shapes.remember_at("a", 0);
        shapes.remember_at("b", 0);
        shapes.forget("a");
        shapes.forget("never there");
        assert!(!shapes.contains_at("a", 0) && shapes.contains_at("b", 0));
    }

    #[test]
    fn however_many_shapes_come_the_latest_is_known() {
        let shapes = SlowShapes::new();
        for nth in 0..3 * PLACES {
            let sql = format!("select {nth}");
            shapes.remember_at(&sql, 0);
            assert!(shapes.contains_at(&sql, 0));
        }
    }
}
