//! Distributions as they are sent: how many values lie below which bounds, and what that says of
//! their quantiles.

use engine::tally::Distribution;
use serde::{Deserialize, Serialize};

/// Times in nanoseconds, or sizes, by how many lie below which bounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Held {
    /// Rising.
    pub bounds: Vec<u64>,
    /// One more than bounds: up to each, and beyond all.
    pub counts: Vec<u64>,
    /// Of all values together.
    pub sum: u64,
}

impl From<&Distribution> for Held {
    fn from(distribution: &Distribution) -> Held {
        Held {
            bounds: distribution.bounds.to_vec(),
            counts: distribution.counts.clone(),
            sum: distribution.sum,
        }
    }
}

impl Held {
    /// How many.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// What came since `before`. Where the server has been restarted meanwhile, all of it.
    #[must_use]
    pub fn since(&self, before: &Held) -> Held {
        let fits = before.bounds == self.bounds && before.counts.len() == self.counts.len();
        let pairs = || self.counts.iter().zip(&before.counts);
        if !fits || pairs().any(|(now, before)| now < before) {
            return self.clone();
        }
        Held {
            bounds: self.bounds.clone(),
            counts: pairs().map(|(now, before)| now - before).collect(),
            sum: self.sum.saturating_sub(before.sum),
        }
    }

    /// Takes another one in.
    pub fn add(&mut self, other: &Held) {
        if self.counts.is_empty() {
            self.clone_from(other);
        } else if self.bounds == other.bounds {
            for (here, there) in self.counts.iter_mut().zip(&other.counts) {
                *here += there;
            }
            self.sum += other.sum;
        }
    }

    /// The value below which `share` of all lie, in nanoseconds: within its bounds, as if all
    /// between two bounds lay evenly. `None` of none, and the last bound of what lies beyond it.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = share * self.count() as f64;
        let mut below = 0.0;
        let mut low = 0.0;
        for (nth, count) in self.counts.iter().enumerate() {
            let Some(high) = self.bounds.get(nth).map(|bound| *bound as f64) else {
                break;
            };
            let count = *count as f64;
            if count > 0.0 && below + count >= wanted {
                return Some(low + (high - low) * (wanted - below) / count);
            }
            below += count;
            low = high;
        }
        (self.count() > 0).then_some(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(counts: &[u64]) -> Held {
        Held {
            bounds: vec![10, 20],
            counts: counts.to_vec(),
            sum: 0,
        }
    }

    #[test]
    fn quantiles_lie_within_their_bounds() {
        assert_eq!(held(&[0, 0, 0]).quantile(0.5), None);
        assert_eq!(held(&[4, 0, 0]).quantile(0.5), Some(5.0));
        assert_eq!(held(&[2, 2, 0]).quantile(0.75), Some(15.0));
        assert_eq!(held(&[2, 2, 0]).quantile(1.0), Some(20.0));
        assert_eq!(held(&[0, 0, 5]).quantile(0.5), Some(20.0), "beyond all");
    }

    #[test]
    fn a_server_that_was_started_anew_counts_from_nothing() {
        assert_eq!(held(&[5, 1, 0]).since(&held(&[2, 1, 0])), held(&[3, 0, 0]));
        assert_eq!(held(&[1, 1, 0]).since(&held(&[2, 1, 0])), held(&[1, 1, 0]));
        assert_eq!(held(&[1, 1, 0]).since(&Held::default()), held(&[1, 1, 0]));
    }
}
