//! Percentiles by nearest rank, and the median of a few rounds.

/// Sorted samples, at least one, none of them NaN.
#[derive(Clone, Debug)]
pub struct Sorted(Vec<f64>);

impl Sorted {
    /// `None` when there is no sample.
    pub fn new(samples: impl IntoIterator<Item = f64>) -> Option<Sorted> {
        let mut samples: Vec<f64> = samples.into_iter().collect();
        samples.sort_unstable_by(f64::total_cmp);
        (!samples.is_empty()).then_some(Sorted(samples))
    }

    /// The smallest sample that at least `per_mille` thousandths of all samples do not exceed.
    pub fn at(&self, per_mille: usize) -> f64 {
        let rank = (per_mille * self.0.len()).div_ceil(1_000);
        self.0[rank.clamp(1, self.0.len()) - 1]
    }

    /// The middle sample; of an even number, the middle between the two. Of two rounds the lower
    /// one would be the better one of every cost.
    pub fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        match self.0.len() % 2 {
            0 => f64::midpoint(self.0[middle - 1], self.0[middle]),
            _ => self.0[middle],
        }
    }

    /// The smallest sample.
    pub fn least(&self) -> f64 {
        self.at(0)
    }

    /// The greatest sample.
    pub fn greatest(&self) -> f64 {
        self.at(1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the definition, word for word: try every sample, count, take the least that will do.
    fn naive(samples: &[f64], per_mille: usize) -> f64 {
        let reaches = |candidate: &f64| {
            let not_above = samples.iter().filter(|sample| *sample <= candidate).count();
            not_above * 1_000 >= per_mille * samples.len()
        };
        let enough = samples.iter().copied().filter(reaches);
        enough.fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn percentiles_equal_the_definition_for_every_count_up_to_300() {
        let mut state = 7_u64;
        for count in 1..300 {
            let mut draw = || {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                ((state >> 33) % 60) as f64 / 4.0 // so that samples tie
            };
            let samples: Vec<f64> = (0..count).map(|_| draw()).collect();
            let sorted = Sorted::new(samples.clone()).unwrap();
            for per_mille in [0, 1, 250, 500, 501, 900, 990, 999, 1_000] {
                let (got, wanted) = (sorted.at(per_mille), naive(&samples, per_mille));
                assert_eq!(got.to_bits(), wanted.to_bits(), "{per_mille} of {count}");
            }
        }
    }

    #[test]
    fn known_samples_have_their_known_points() {
        let sorted = Sorted::new([40.0, 15.0, 50.0, 20.0, 35.0]).unwrap();
        let points = [0, 50, 300, 400, 500, 1_000].map(|at| sorted.at(at) as u32);
        assert_eq!(points, [15, 15, 20, 20, 35, 50]);
        assert!(Sorted::new([]).is_none());
        assert_eq!(sorted.median() as u32, 35);
        let even = Sorted::new([40.0, 10.0, 20.0, 90.0]).unwrap();
        assert_eq!(even.median() as u32, 30);
    }
}
