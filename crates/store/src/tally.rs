//! Counts with one writer and any number of readers.
//!
//! A thread that counts owns its counts, and is the only one that writes them: so it adds by a load
//! and a store, without a locked instruction, and no other thread takes the place in memory from it
//! but for a look. Readers may see a count a moment late, and two counts as of two moments.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread raises and others look at.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds. For the one writer: of two, one might be lost.
    #[inline]
    pub fn add(&self, more: u64) {
        self.set(self.get().wrapping_add(more));
    }

    /// Replaces it, where it is a level and not a sum. For the one writer.
    #[inline]
    pub fn set(&self, to: u64) {
        self.0.store(to, Ordering::Relaxed);
    }

    /// As it is now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Bounds of times in nanoseconds: a cached list takes some 20 µs, a read at most 10 s by default.
pub const TIMES_NS: &[u64] = &[
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// How many values fell between which bounds. One writer, as of a [`Count`].
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One more than bounds: the last one counts what lies beyond them.
    counts: Box<[Count]>,
    sum: Count,
}

impl Histogram {
    /// Holds nothing yet. `bounds` rise.
    pub fn new(bounds: &'static [u64]) -> Histogram {
        debug_assert!(bounds.is_sorted(), "bounds rise");
        Histogram {
            bounds,
            counts: (0..=bounds.len()).map(|_| Count::default()).collect(),
            sum: Count::default(),
        }
    }

    /// Takes a value in. A value on a bound counts below it.
    #[inline]
    pub fn record(&self, value: u64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        self.counts[place].add(1);
        self.sum.add(value);
    }

    /// As it is now.
    pub fn read(&self) -> Distribution {
        Distribution {
            bounds: self.bounds,
            counts: self.counts.iter().map(Count::get).collect(),
            sum: self.sum.get(),
        }
    }
}

/// What a [`Histogram`] held when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// Rising; each is the greatest value that counts below it.
    pub bounds: &'static [u64],
    /// How many values lie up to each bound and above the one before; then those beyond all.
    pub counts: Vec<u64>,
    /// All values together.
    pub sum: u64,
}

impl Distribution {
    /// Of no value.
    pub fn none(bounds: &'static [u64]) -> Distribution {
        Distribution {
            bounds,
            counts: vec![0; bounds.len() + 1],
            sum: 0,
        }
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Takes in another one of the same bounds.
    pub fn add(&mut self, other: &Distribution) {
        debug_assert_eq!(self.bounds, other.bounds, "of the same bounds");
        for (here, there) in self.counts.iter_mut().zip(&other.counts) {
            *here += there;
        }
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_a_bound_counts_below_it() {
        let histogram = Histogram::new(&[10, 20]);
        for value in [0, 10, 11, 20, 21, 1_000] {
            histogram.record(value);
        }
        let read = histogram.read();
        assert_eq!((read.counts.as_slice(), read.sum), (&[2, 2, 2][..], 1_062));
        assert_eq!(read.count(), 6);
    }

    #[test]
    fn distributions_add_up() {
        let one = Histogram::new(&[10]);
        one.record(1);
        let mut sum = Distribution::none(&[10]);
        sum.add(&one.read());
        sum.add(&one.read());
        assert_eq!((sum.counts.as_slice(), sum.sum), (&[2, 0][..], 2));
    }

    #[test]
    fn one_writer_loses_nothing_while_others_look() {
        let count = Count::default();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..10_000).for_each(|_| count.add(1)));
            let mut before = 0;
            while before < 10_000 {
                let now = count.get();
                assert!(now >= before, "a sum never falls");
                before = now;
            }
        });
        assert_eq!(count.get(), 10_000);
    }
}
