//! Which parts of a period others leave uncovered.

use super::Period;
use crate::time::Timestamp;

impl Period {
    /// The parts of this period that none of `others` covers, from left to right. `others` come
    /// in the order of their beginnings; they may overlap.
    pub fn uncovered<'a>(&self, others: impl IntoIterator<Item = &'a Period>) -> Vec<Period> {
        let mut gaps = Vec::new();
        let mut reached = self.from;
        let mut last_from = Timestamp::BOT;
        for other in others {
            assert!(last_from <= other.from, "they come in order");
            last_from = other.from;
            gaps.extend(Period::spanning(reached, other.from.min(self.end)));
            reached = reached.max(other.end);
        }
        gaps.extend(Period::spanning(reached, self.end));
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::period;
    use super::*;

    #[test]
    fn adjacent_periods_cover_together_and_gaps_are_named() {
        let whole = period(10, 50);
        for (others, gaps) in [
            (vec![], vec![whole]),
            (vec![period(0, 30), period(30, 100)], vec![]),
            (vec![period(0, 20), period(21, 60)], vec![period(20, 21)]),
            (
                vec![period(12, 14), period(13, 40)],
                vec![period(10, 12), period(40, 50)],
            ),
            (vec![period(0, 10), period(50, 60)], vec![whole]),
            (vec![period(60, 70)], vec![whole]),
        ] {
            assert_eq!(whole.uncovered(&others), gaps, "{others:?}");
        }
        assert_eq!(Period::ALWAYS.uncovered(&[period(5, 100)]).len(), 1);
        assert_eq!(Period::ALWAYS.uncovered(&[Period::ALWAYS]), []);
    }
}
