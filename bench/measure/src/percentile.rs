//! Percentiles by nearest rank.

use std::cmp::Ordering;
use std::time::Duration;

/// The points a phase is reported at: what they are called, and their rank in thousandths.
/// Minimum and maximum are the ranks at both ends.
pub const POINTS: [(&str, u64); 8] = [
    ("min", 0),
    ("p50", 500),
    ("p75", 750),
    ("p90", 900),
    ("p95", 950),
    ("p99", 990),
    ("p99.9", 999),
    ("max", 1_000),
];

/// What can be sorted: times, and numbers of which none is NaN.
pub trait SampleOrder: Copy {
    /// Which of two is the lesser one.
    fn order(&self, other: &Self) -> Ordering;
}

impl SampleOrder for Duration {
    fn order(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

impl SampleOrder for f64 {
    fn order(&self, other: &Self) -> Ordering {
        self.total_cmp(other)
    }
}

/// Sorted samples, at least one.
#[derive(Clone, Debug)]
pub struct Sorted<T = Duration>(Vec<T>);

impl<T: SampleOrder> Sorted<T> {
    /// `None` when there is no sample.
    pub fn new(samples: impl IntoIterator<Item = T>) -> Option<Sorted<T>> {
        let mut samples: Vec<T> = samples.into_iter().collect();
        samples.sort_unstable_by(T::order);
        (!samples.is_empty()).then_some(Sorted(samples))
    }

    /// The smallest sample that at least `per_mille` thousandths of all samples do not exceed.
    pub fn at(&self, per_mille: u64) -> T {
        let rank = (per_mille * self.0.len() as u64).div_ceil(1_000);
        self.0[(rank.max(1) - 1) as usize]
    }
}

impl Sorted {
    /// The middle sample, the lower one of two.
    pub fn median(&self) -> Duration {
        self.at(500)
    }

    /// The mean.
    pub fn average(&self) -> Duration {
        self.0.iter().sum::<Duration>() / self.0.len() as u32
    }
}

impl Sorted<f64> {
    /// The middle value; of an even number, the middle between the two. Of two rounds the lower
    /// one would be the better one of every cost.
    pub fn midpoint(&self) -> f64 {
        let middle = self.0.len() / 2;
        match self.0.len() % 2 {
            0 => f64::midpoint(self.0[middle - 1], self.0[middle]),
            _ => self.0[middle],
        }
    }
}

/// The middle value, the lower one of two; `None` of none.
pub fn median<T: SampleOrder>(values: impl IntoIterator<Item = T>) -> Option<T> {
    Some(Sorted::new(values)?.at(500))
}

/// The medians of two interleaved halves of the same samples, as a ratio (odd to even): what
/// two phases may differ by and yet be the same. `None` below two samples.
pub fn odd_to_even(samples: &[Duration]) -> Option<f64> {
    let half = |start| median(samples.iter().copied().skip(start).step_by(2));
    Some(ratio(half(1)?, half(0)?))
}

/// The medians of the second half of the samples and the first, as a ratio. `None` below two.
pub fn second_to_first(samples: &[Duration]) -> Option<f64> {
    let (first, second) = samples.split_at(samples.len() / 2);
    let median = |half: &[Duration]| median(half.iter().copied());
    Some(ratio(median(second)?, median(first)?))
}

/// `left / right`
pub fn ratio(left: Duration, right: Duration) -> f64 {
    left.as_nanos() as f64 / right.as_nanos() as f64
}

/// The greatest to the least: what the same thing, measured again, differs by. `None` of nothing,
/// and where the least is no measure.
pub fn spread(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let ends = |(least, most): (f64, f64), value: f64| (least.min(value), most.max(value));
    let (least, most) = values.into_iter().fold((f64::INFINITY, 0.0), ends);
    (least > 0.0 && most > 0.0).then(|| most / least)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durations(ns: &[u64]) -> Vec<Duration> {
        ns.iter().copied().map(Duration::from_nanos).collect()
    }

    /// By the definition, word for word: try every sample, count, take the least that will do.
    fn naive(samples: &[u64], per_mille: u64) -> u64 {
        let reaches = |candidate: &u64| {
            let not_above = samples.iter().filter(|sample| *sample <= candidate).count() as u64;
            not_above * 1_000 >= per_mille * samples.len() as u64
        };
        samples
            .iter()
            .copied()
            .filter(|sample| reaches(sample))
            .min()
            .unwrap()
    }

    #[test]
    fn percentiles_equal_the_definition_for_every_count_up_to_400() {
        let mut state = 1_u64;
        for count in 1..400 {
            let samples: Vec<u64> = (0..count)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (state >> 33) % 90 // so that samples tie
                })
                .collect();
            let sorted = Sorted::new(durations(&samples)).unwrap();
            for (name, per_mille) in POINTS {
                let got = sorted.at(per_mille).as_nanos() as u64;
                assert_eq!(got, naive(&samples, per_mille), "{name} of {count}");
            }
        }
    }

    #[test]
    fn known_samples_have_their_known_points() {
        let sorted = Sorted::new(durations(&[15, 20, 35, 40, 50])).unwrap();
        let points = [0, 50, 300, 400, 500, 1_000].map(|at| sorted.at(at).as_nanos());
        assert_eq!(points, [15, 15, 20, 20, 35, 50]);
        assert_eq!(sorted.average(), Duration::from_nanos(32));
        assert!(Sorted::<Duration>::new([]).is_none());
    }

    #[test]
    fn of_two_middle_samples_times_take_the_lower_and_values_the_middle() {
        let four = Sorted::new(durations(&[40, 10, 20, 90])).unwrap();
        assert_eq!(four.median(), Duration::from_nanos(20));
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 3.0, 2.0]), Some(2.0));
        assert_eq!(median(Vec::<f64>::new()), None);
        let values = |values: &[f64]| Sorted::new(values.iter().copied()).unwrap();
        let four = values(&[40.0, 10.0, 20.0, 90.0]);
        assert_eq!((four.at(500), four.midpoint()), (20.0, 30.0));
        assert_eq!(values(&[40.0, 15.0, 35.0]).midpoint() as u32, 35);
    }

    #[test]
    fn halves_are_taken_in_turn_or_one_after_the_other() {
        let samples = durations(&[10, 20, 10, 20, 10, 20]);
        assert_eq!(odd_to_even(&samples), Some(2.0));
        let samples = durations(&[10, 10, 30, 30]);
        assert_eq!(second_to_first(&samples), Some(3.0));
        assert_eq!(odd_to_even(&samples[..1]), None);
        assert_eq!(second_to_first(&samples[..1]), None);
    }
}
