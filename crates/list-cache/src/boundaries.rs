//! When tables change by themselves: rows that are scheduled begin and end without a commit.
//!
//! An exact list of a table ends at the table's next boundary. Until what is due has been activated
//! in, which counts as a change like any other, no list of it is exact.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use model::{TableNumber, Timestamp};

/// The next boundary of each table that has one.
pub type Next = Arc<BTreeMap<TableNumber, Timestamp>>;

/// Tables share so many counts of passages: one that counts for its neighbour has a list read once
/// more, and nothing else.
const COUNTS: usize = 64;

/// The same, as far as lists must know it.
#[derive(Debug)]
pub(crate) struct Boundaries {
    /// The first of all. Every request asks for it, and nearly none for more.
    first: AtomicI64,
    tables: RwLock<Next>,
    /// How often the boundary of a table has gone, by its number.
    passages: [AtomicU64; COUNTS],
}

impl Default for Boundaries {
    fn default() -> Boundaries {
        Boundaries {
            first: AtomicI64::new(Timestamp::END.0),
            tables: RwLock::default(),
            passages: [const { AtomicU64::new(0) }; COUNTS],
        }
    }
}

impl Boundaries {
    pub(crate) fn first(&self) -> Timestamp {
        Timestamp(self.first.load(Ordering::Acquire))
    }

    /// That of one table; the end of time if it has none.
    pub(crate) fn of(&self, table: TableNumber) -> Timestamp {
        if self.first() == Timestamp::END {
            return Timestamp::END;
        }
        self.next().get(&table).copied().unwrap_or(Timestamp::END)
    }

    /// Whether a boundary of the table lies at or before `now`.
    pub(crate) fn is_passed(&self, table: TableNumber, now: Timestamp) -> bool {
        self.first() <= now && self.next().get(&table).is_some_and(|at| *at <= now)
    }

    pub(crate) fn next(&self) -> Next {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&tables)
    }

    /// A number that has risen once a boundary of the table does not stand any more.
    pub(crate) fn passages(&self, table: TableNumber) -> u64 {
        self.passages[place(table)].load(Ordering::Acquire)
    }

    /// The same for all tables.
    pub(crate) fn passages_of_all(&self) -> u64 {
        let counts = self.passages.iter();
        counts.map(|count| count.load(Ordering::Acquire)).sum()
    }

    pub(crate) fn set(&self, next: Next) {
        // First, so that a reader that finds no boundary passed finds this.
        for (table, at) in &*self.next() {
            if next.get(table).is_none_or(|later| later > at) {
                self.passages[place(*table)].fetch_add(1, Ordering::Release);
            }
        }
        let first = next.values().min().copied().unwrap_or(Timestamp::END);
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        *tables = next;
        self.first.store(first.0, Ordering::Release);
    }

    /// From now on a boundary counts whether it stands now or in `further`.
    pub(crate) fn expect(&self, further: &Next) {
        let known = self.next();
        if known == *further {
            return;
        }
        let mut both = BTreeMap::clone(&known);
        for (table, at) in &**further {
            let earliest = both.entry(*table).or_insert(*at);
            *earliest = (*earliest).min(*at);
        }
        self.set(Arc::new(both));
    }
}

fn place(table: TableNumber) -> usize {
    table.0.unsigned_abs() as usize % COUNTS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(pairs: &[(i64, i64)]) -> Next {
        let pairs = pairs.iter();
        Arc::new(
            pairs
                .map(|(table, at)| (TableNumber(*table), Timestamp(*at)))
                .collect(),
        )
    }

    #[test]
    fn the_earlier_of_two_boundaries_counts_until_it_is_settled() {
        let boundaries = Boundaries::default();
        let is_passed = |table, now| boundaries.is_passed(TableNumber(table), Timestamp(now));
        assert!(!is_passed(1, i64::MAX - 1));
        boundaries.set(next(&[(1, 10), (2, 20)]));
        boundaries.expect(&next(&[(1, 30), (3, 5)]));
        assert_eq!(boundaries.first(), Timestamp(5));
        assert_eq!(boundaries.of(TableNumber(1)), Timestamp(10));
        assert_eq!(boundaries.of(TableNumber(4)), Timestamp::END);
        assert!(!is_passed(1, 9) && is_passed(1, 10) && is_passed(3, 5));
        boundaries.set(next(&[(1, 30)]));
        assert!(!is_passed(1, 29) && is_passed(1, 30) && !is_passed(2, 30));
    }

    #[test]
    fn a_boundary_that_goes_is_counted_and_one_that_comes_is_not() {
        let boundaries = Boundaries::default();
        let counts = || [1, 2, 3].map(|table| boundaries.passages(TableNumber(table)));
        boundaries.set(next(&[(1, 10), (2, 20)]));
        boundaries.expect(&next(&[(1, 5), (3, 5)]));
        assert_eq!(counts(), [0, 0, 0]);
        boundaries.set(next(&[(1, 30), (2, 20), (3, 5)]));
        assert_eq!(counts(), [1, 0, 0]);
        boundaries.set(next(&[(1, 30)]));
        assert_eq!((counts(), boundaries.passages_of_all()), ([1, 1, 1], 3));
    }
}
