//! From what clients saw to figures: rates and percentiles.

use std::time::Duration;

use measure::costs::Spent;
use measure::percentile::{Sorted, median};

use super::drive::Driven;
use crate::run::Sample;

/// All runs of one operation.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Objects a second as each client of each run saw them: its objects over the sum of its
    /// latencies.
    rates: Vec<f64>,
    /// Objects a second of all clients of each run, over the time from the common beginning to
    /// the last answer.
    rates_of_all: Vec<f64>,
    /// Each run's median of `rates`.
    rates_of_runs: Vec<f64>,
    /// One for each request of each run, the runs one after the other.
    pub samples: Vec<Sample>,
    /// The time of all runs.
    pub wall: Duration,
    /// What the server's side has spent in those runs in which that was counted, and the objects
    /// of these.
    spent: Spent,
    spent_on: f64,
}

impl Tally {
    /// Adds a run.
    pub fn add(&mut self, driven: Driven) {
        let objects = f64::from(driven.objects);
        let rate = |samples: &Vec<Sample>| {
            let spent: Duration = samples.iter().map(|sample| sample.took).sum();
            objects / spent.as_secs_f64()
        };
        let rates: Vec<f64> = driven.samples.iter().map(rate).collect();
        let all = objects * rates.len() as f64;
        self.rates_of_all.push(all / driven.wall.as_secs_f64());
        if let Some(spent) = driven.spent {
            self.spent = self.spent.and(spent);
            self.spent_on += all;
        }
        self.rates_of_runs.extend(median(rates.iter().copied()));
        self.rates.extend(rates);
        let begun = self.wall;
        let mut samples: Vec<Sample> = driven.samples.into_iter().flatten().collect();
        samples.sort_by_key(|sample| sample.ended);
        let samples = samples.into_iter().map(|sample| sample.behind(begun));
        self.samples.extend(samples);
        self.wall += driven.wall;
    }

    /// Objects a second that a client saw: the median of all clients of all runs.
    pub fn each(&self) -> Option<f64> {
        median(self.rates.iter().copied())
    }

    /// Objects a second of all clients together: the median of all runs.
    pub fn all(&self) -> Option<f64> {
        median(self.rates_of_all.iter().copied())
    }

    /// Processor time of an object on the server's side, in microseconds: of the node, and of its
    /// database; `None` where it was not counted.
    pub fn cpu(&self) -> (Option<f64>, Option<f64>) {
        let each = |us: f64| (self.spent_on > 0.0).then(|| us / self.spent_on);
        let backends = self.spent.backends_us.and_then(each);
        (each(self.spent.node_us), backends)
    }

    /// The rate of every second run to that of the others: what the same thing measured twice
    /// differs by. `None` below two runs.
    pub fn again(&self) -> Option<f64> {
        let half = |start| median(self.rates_of_runs.iter().copied().skip(start).step_by(2));
        Some(half(1)? / half(0)?)
    }

    /// The latency that so many thousandths of all requests do not exceed.
    pub fn at(&self, per_mille: u64) -> Option<Duration> {
        let sorted = Sorted::new(self.samples.iter().map(|sample| sample.took))?;
        Some(sorted.at(per_mille))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// Clients whose requests take so many milliseconds each, one after the other.
    fn driven(objects: u32, clients: &[&[u64]]) -> Driven {
        let mut wall = Duration::ZERO;
        let mut samples = Vec::new();
        for took in clients {
            let mut ended = Duration::ZERO;
            let one = took.iter().map(|took| {
                ended += ms(*took);
                Sample {
                    ended,
                    took: ms(*took),
                }
            });
            samples.push(one.collect());
            wall = wall.max(ended);
        }
        Driven {
            samples,
            objects,
            wall,
            spent: None,
        }
    }

    #[test]
    fn a_client_sees_its_own_rate_and_all_together_the_sum_over_the_whole_time() {
        let mut tally = Tally::default();
        // 4 objects in 40 ms, and in 80 ms; 8 objects in 80 ms together.
        tally.add(driven(4, &[&[10, 10, 10, 10], &[20, 20, 20, 20]]));
        assert_eq!(tally.each(), Some(50.0), "the lower one of two");
        assert_eq!(tally.all(), Some(100.0));
        assert_eq!(tally.again(), None, "one run has no second");
        // Batches: 4 objects by one request of each.
        tally.add(driven(4, &[&[5], &[8]]));
        tally.add(driven(4, &[&[5], &[8]]));
        // Clients saw 100, 50, 800, 500, 800 and 500 objects a second.
        assert_eq!(tally.each(), Some(500.0));
        // All together made 100, 1,000 and 1,000.
        assert_eq!(tally.all(), Some(1_000.0));
        // Runs: 50, then 500, then 500.
        assert_eq!(tally.again(), Some(10.0));
    }

    #[test]
    fn percentiles_are_of_the_requests_of_all_runs_and_runs_follow_one_another() {
        let mut tally = Tally::default();
        for _ in 0..2 {
            tally.add(driven(3, &[&[1, 2, 9]]));
        }
        assert_eq!(tally.at(500), Some(ms(2)));
        assert_eq!(tally.at(990), Some(ms(9)));
        let ends: Vec<Duration> = tally.samples.iter().map(|sample| sample.ended).collect();
        assert_eq!(ends, [1, 3, 12, 13, 15, 24].map(ms));
        assert_eq!(tally.wall, ms(24));
        assert_eq!(Tally::default().at(500), None);
    }
}
