//! One figure: what every pass over the whole test has seen of it, and all of them as one.
//!
//! A machine that others share is faster or slower for minutes. Slices that follow one another
//! closely do not see that, so a figure is taken again in each pass, minutes apart.

use std::time::Duration;

use measure::percentile::Sorted;

use crate::run::{Pass, Sample};

/// A slice of load in one pass.
#[derive(Clone, Debug, Default)]
pub struct Share {
    /// Answers that were a success, in the order of their ends.
    pub samples: Vec<Sample>,
    /// Answers that were none, and connections that broke.
    pub errors: u64,
    /// From the first request to the last answer.
    pub wall: Duration,
    /// Processor time of the server in microseconds, where its process is known.
    pub cpu_us: Option<f64>,
    /// That of the database which has the server's store, where it is counted.
    pub backends_us: Option<f64>,
    /// Most memory of the server so far in MiB, where its process is known.
    pub memory_mib: Option<f64>,
    /// Lists among the answers, where they were counted.
    pub lists: u64,
    /// Lists that the server says came from its cache.
    pub hits: u64,
}

/// The shares of all passes, as one load without a pause between them.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// All of it.
    pub whole: Share,
    /// Each pass that had an answer.
    pub passes: Vec<Pass>,
}

impl Share {
    /// Answers a second.
    pub fn per_s(&self) -> f64 {
        self.samples.len() as f64 / self.wall.as_secs_f64()
    }

    /// Processor time of the server for each answer, in microseconds.
    pub fn cpu_each(&self) -> Option<f64> {
        self.each(self.cpu_us)
    }

    /// The same of the database.
    pub fn backends_each(&self) -> Option<f64> {
        self.each(self.backends_us)
    }

    fn each(&self, us: Option<f64>) -> Option<f64> {
        Some(us? / (self.samples.len() as f64 + self.errors as f64))
    }

    /// p50, p90, p99 and p99.9 in microseconds; `None` without samples.
    pub fn points(&self) -> Option<[f64; 4]> {
        let sorted = Sorted::new(self.samples.iter().map(|sample| sample.took))?;
        Some([500, 900, 990, 999].map(|at| sorted.at(at).as_secs_f64() * 1e6))
    }

    /// Lists that came from the cache, in per cent; `None` where no lists were counted.
    pub fn hits_percent(&self) -> Option<f64> {
        (self.lists > 0).then(|| 100.0 * self.hits as f64 / self.lists as f64)
    }
}

impl Figure {
    /// Adds the next pass.
    pub fn add(&mut self, share: Share) {
        self.passes.extend(Pass::of(&share.samples, share.wall));
        let whole = &mut self.whole;
        let is_first = whole.wall.is_zero();
        let begun = whole.wall;
        let samples = share.samples.into_iter().map(|sample| sample.behind(begun));
        whole.samples.extend(samples);
        whole.errors += share.errors;
        whole.wall += share.wall;
        whole.lists += share.lists;
        whole.hits += share.hits;
        let sum = |one: Option<f64>, next: Option<f64>| {
            let both = one.zip(next).map(|(one, next)| one + next);
            if is_first { next } else { both }
        };
        whole.cpu_us = sum(whole.cpu_us, share.cpu_us);
        whole.backends_us = sum(whole.backends_us, share.backends_us);
        let memories = [whole.memory_mib, share.memory_mib].into_iter().flatten();
        whole.memory_mib = memories.max_by(f64::total_cmp);
    }

    /// How often the slowest pass goes into the fastest; `None` below two passes.
    pub fn again(&self) -> Option<f64> {
        Pass::spread(&self.passes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One request after the other, of a millisecond each.
    fn share(count: u64, cpu_us: Option<f64>, memory_mib: f64) -> Share {
        let ms = Duration::from_millis;
        Share {
            samples: (1..=count)
                .map(|n| Sample {
                    ended: ms(n),
                    took: ms(1),
                })
                .collect(),
            errors: 1,
            wall: ms(2 * count),
            cpu_us,
            backends_us: cpu_us.map(|us| us / 2.0),
            memory_mib: Some(memory_mib),
            lists: 10,
            hits: count,
        }
    }

    #[test]
    fn passes_follow_one_another_and_each_keeps_its_rate() {
        let mut figure = Figure::default();
        figure.add(share(4, Some(80.0), 9.0));
        assert_eq!(figure.again(), None, "one pass has no second");
        let mut slow = share(2, Some(70.0), 7.0);
        slow.wall *= 2;
        figure.add(slow);
        let whole = &figure.whole;
        let ends: Vec<u128> = whole
            .samples
            .iter()
            .map(|sample| sample.ended.as_millis())
            .collect();
        assert_eq!(ends, [1, 2, 3, 4, 9, 10]);
        assert_eq!((whole.errors, whole.wall.as_millis()), (2, 16));
        assert_eq!((whole.per_s(), whole.memory_mib), (375.0, Some(9.0)));
        assert_eq!(whole.cpu_each(), Some(150.0 / 8.0));
        assert_eq!(whole.backends_each(), Some(75.0 / 8.0));
        assert_eq!(whole.hits_percent(), Some(30.0));
        let rates: Vec<f64> = figure.passes.iter().map(|pass| pass.per_s).collect();
        assert_eq!((rates, figure.again()), (vec![500.0, 250.0], Some(2.0)));
    }

    #[test]
    fn notes_of_one_pass_only_are_left_out() {
        let mut figure = Figure::default();
        figure.add(share(1, None, 1.0));
        figure.add(share(1, Some(5.0), 1.0));
        assert_eq!(figure.whole.cpu_each(), None);
        assert_eq!(Share::default().hits_percent(), None);
    }
}
