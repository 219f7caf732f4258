//! Closed-open spans of valid time, and what they have to do with each other.

use std::fmt;

use crate::error::ModelError;
use crate::time::Timestamp;

mod allen;
mod cover;
mod join;
mod predicate;

pub use allen::Allen;
pub use join::{Shared, join};
pub use predicate::PeriodPredicate;

/// The half-open span `[from, to)`, never empty. Without an end it goes on until further notice.
///
/// `from` may be [`Timestamp::BOT`]. [`Timestamp::END`] is no instant: no period contains it, and
/// as an end it means that there is none.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Period {
    // Invariant: from < end, so the fields stay private. END stands for "no end", so that every
    // question below is a comparison of two integers, as it is in the databases.
    from: Timestamp,
    end: Timestamp,
}

impl Period {
    /// From the beginning of time until further notice.
    pub const ALWAYS: Period = Period {
        from: Timestamp::BOT,
        end: Timestamp::END,
    };

    /// The period from `from` to `to`, or without an end.
    ///
    /// # Errors
    /// [`ModelError::EmptyPeriod`] when `to` is not after `from`, or `from` is the end of time.
    pub fn new(from: Timestamp, to: Option<Timestamp>) -> Result<Period, ModelError> {
        let end = to.unwrap_or(Timestamp::END);
        Period::spanning(from, end).ok_or(ModelError::EmptyPeriod { from, to: end })
    }

    /// `[from, end)`, if there is an instant in it.
    /// From one instant to before another one; `None` where no instant lies between.
    pub fn spanning(from: Timestamp, end: Timestamp) -> Option<Period> {
        (from < end).then_some(Period { from, end })
    }

    /// First instant inside.
    pub fn from(&self) -> Timestamp {
        self.from
    }

    /// First instant after, if the period ends.
    pub fn to(&self) -> Option<Timestamp> {
        (self.end < Timestamp::END).then_some(self.end)
    }

    /// First instant after; [`Timestamp::END`] if the period has no end, as databases store it.
    pub fn end(&self) -> Timestamp {
        self.end
    }

    /// Whether `instant` lies inside.
    pub fn contains(&self, instant: Timestamp) -> bool {
        self.from <= instant && instant < self.end
    }

    /// The part in both, if they share an instant.
    pub fn intersect(&self, other: &Period) -> Option<Period> {
        Period::spanning(self.from.max(other.from), self.end.min(other.end))
    }

    /// What is left of this period before and after `other`.
    pub fn subtract(&self, other: &Period) -> [Option<Period>; 2] {
        [
            Period::spanning(self.from, self.end.min(other.from)),
            Period::spanning(self.from.max(other.end), self.end),
        ]
    }

    /// Both as one period, if `other` begins at the very instant at which this one ends.
    pub fn extend(&self, other: &Period) -> Option<Period> {
        (self.end == other.from).then_some(Period {
            from: self.from,
            end: other.end,
        })
    }

    /// The first of its boundaries after `instant`. The end of time is none.
    pub fn boundary_after(&self, instant: Timestamp) -> Option<Timestamp> {
        [Some(self.from), self.to()]
            .into_iter()
            .flatten()
            .find(|boundary| *boundary > instant)
    }
}

/// As messages show it: `from … to …`, or `from … on`.
impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to() {
            Some(to) => write!(f, "from {} to {to}", self.from),
            None => write!(f, "from {} on", self.from),
        }
    }
}

/// As people write it: `[5, 7)`, `[min, 7)`, `[5, ∞)`.
impl fmt::Debug for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from {
            Timestamp::BOT => f.write_str("[min, ")?,
            Timestamp(from) => write!(f, "[{from}, ")?,
        }
        match self.to() {
            Some(Timestamp(to)) => write!(f, "{to})"),
            None => f.write_str("∞)"),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// `[from, to)`; no end from 100 on, so that cases stay short.
    pub(crate) fn period(from: i64, to: i64) -> Period {
        let to = (to < 100).then_some(Timestamp(to));
        Period::new(Timestamp(from), to).unwrap()
    }

    #[test]
    fn a_period_is_closed_open_and_never_empty() {
        let inside = [4, 5, 6, 7].map(|at| period(5, 7).contains(Timestamp(at)));
        assert_eq!(inside, [false, true, true, false]);
        for to in [5, 4] {
            let empty = Period::new(Timestamp(5), Some(Timestamp(to)));
            let (from, to) = (Timestamp(5), Timestamp(to));
            assert_eq!(empty, Err(ModelError::EmptyPeriod { from, to }));
        }
    }

    #[test]
    fn the_end_of_time_is_an_end_and_no_instant() {
        let open = Period::new(Timestamp(5), None).unwrap();
        assert_eq!(
            Period::new(Timestamp(5), Some(Timestamp::END)).as_ref(),
            Ok(&open)
        );
        assert_eq!(open.to(), None);
        assert!(open.contains(Timestamp(i64::MAX - 1)));
        assert!(!open.contains(Timestamp::END));
        assert!(Period::new(Timestamp::END, None).is_err());
        assert!(Period::ALWAYS.contains(Timestamp::BOT));
    }

    #[test]
    fn intersection_and_remainder_make_up_the_period() {
        let whole = period(10, 20);
        for (other, shared, left) in [
            (period(0, 10), None, [None, Some(whole)]),
            (period(20, 100), None, [Some(whole), None]),
            (
                period(0, 12),
                Some(period(10, 12)),
                [None, Some(period(12, 20))],
            ),
            (
                period(12, 15),
                Some(period(12, 15)),
                [Some(period(10, 12)), Some(period(15, 20))],
            ),
            (
                period(15, 100),
                Some(period(15, 20)),
                [Some(period(10, 15)), None],
            ),
            (Period::ALWAYS, Some(whole), [None, None]),
        ] {
            assert_eq!(whole.intersect(&other), shared, "{other:?}");
            let parts: Vec<Period> = whole.subtract(&other).into_iter().flatten().collect();
            let expected: Vec<Period> = left.into_iter().flatten().collect();
            assert_eq!(parts, expected, "{other:?}");
        }
    }

    #[test]
    fn boundaries_lie_after_the_instant_asked_about() {
        let boundaries = [4, 5, 6, 7].map(|at| period(5, 7).boundary_after(Timestamp(at)));
        let expected = [Some(5), Some(7), Some(7), None].map(|at| at.map(Timestamp));
        assert_eq!(boundaries, expected);
        assert_eq!(period(5, 100).boundary_after(Timestamp(5)), None);
    }
}
