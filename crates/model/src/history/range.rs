//! Over which valid period a write asks to be done.

use super::WriteRefusal;
use crate::period::Period;
use crate::time::{Mark, Timestamp};

/// The range of a write, before its mark is known. By default from the mark on until further
/// notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Range {
    /// First instant; `None` is the mark of the write, [`Timestamp::BOT`] is the beginning of time.
    pub from: Option<Timestamp>,
    /// Where it ends.
    pub until: Until,
}

/// Where the range of a write ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Until {
    /// Nowhere. Whatever was scheduled is written over.
    #[default]
    Open,
    /// Before this instant.
    At(Timestamp),
    /// At the row's next boundary, if it has one: what is scheduled stays as it is.
    Next,
}

impl From<Period> for Range {
    fn from(period: Period) -> Range {
        Range {
            from: Some(period.from()),
            until: Until::At(period.end()),
        }
    }
}

impl Range {
    /// First instant, in a write of this mark.
    pub fn from_at(&self, mark: Mark) -> Timestamp {
        self.from.unwrap_or(mark.timestamp())
    }

    /// The period, in a write of this mark. `next` finds the first boundary after an instant of
    /// the row's pieces as known now; it is asked only by [`Until::Next`].
    ///
    /// # Errors
    /// [`WriteRefusal::EmptyRange`] when no instant lies in it.
    pub fn resolve(
        &self,
        mark: Mark,
        next: impl FnOnce(Timestamp) -> Option<Timestamp>,
    ) -> Result<Period, WriteRefusal> {
        let from = self.from_at(mark);
        let end = match self.until {
            Until::Open => Timestamp::END,
            Until::At(end) => end,
            Until::Next => next(from).unwrap_or(Timestamp::END),
        };
        Period::spanning(from, end).ok_or(WriteRefusal::EmptyRange { from, to: end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::period::tests::period;

    #[test]
    fn range_is_from_the_mark_without_an_end_by_default() {
        let resolve = |from: Option<i64>, until| {
            let from = from.map(Timestamp);
            let next = |from: Timestamp| (from < Timestamp(30)).then_some(Timestamp(30));
            Range { from, until }.resolve(Mark(20), next)
        };
        let at = |to| Until::At(Timestamp(to));
        assert_eq!(resolve(None, Until::Open), Ok(period(20, 100)));
        assert_eq!(resolve(None, at(25)), Ok(period(20, 25)));
        assert_eq!(resolve(None, Until::Next), Ok(period(20, 30)));
        assert_eq!(resolve(Some(30), Until::Next), Ok(period(30, 100)));
        let from = Some(i64::MIN);
        assert_eq!(resolve(from, Until::Open), Ok(Period::ALWAYS));
        let refused = |from, to| {
            let (from, to) = (Timestamp(from), Timestamp(to));
            Err(WriteRefusal::EmptyRange { from, to })
        };
        assert_eq!(resolve(None, at(20)), refused(20, 20));
        assert_eq!(resolve(Some(9), at(8)), refused(9, 8));
        let end = i64::MAX;
        assert_eq!(resolve(Some(end), Until::Next), refused(end, end));
    }
}
