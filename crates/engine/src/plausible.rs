//! Whether the clock can be believed: one wrong year would fix "now" there for ever, because
//! marks never go back.

use model::{Mark, Timestamp};

use crate::error::EngineError;

/// A running clock may be ahead of the last commit by the time elapsed plus an hour.
const DRIFT_MAX_US: i64 = 3_600 * 1_000_000;
/// A server may have been down for so long before its clock looks wrong at start: ninety days.
pub const DOWNTIME_MAX_US: i64 = 90 * 24 * DRIFT_MAX_US;

/// The last commit, and what to hold the clock against.
pub(crate) struct Plausible {
    /// Nothing is held against the clock of a new store, or when its owner vouches for it.
    last: Option<Last>,
}

struct Last {
    mark: Mark,
    elapsed_ms: u64,
    ahead_max_us: i64,
}

impl Last {
    fn passed_us(&self, elapsed_ms: u64) -> i64 {
        elapsed_ms.saturating_sub(self.elapsed_ms) as i64 * 1_000
    }

    /// How much further the clock moved than time did.
    fn ahead_us(&self, now: Timestamp, elapsed_ms: u64) -> i64 {
        let moved_us = now.0.saturating_sub(self.mark.0);
        moved_us.saturating_sub(self.passed_us(elapsed_ms))
    }
}

impl Plausible {
    /// As of the start: `mark` is that of the latest commit ever.
    pub(crate) fn new(mark: Mark, elapsed_ms: u64, accepted: bool) -> Plausible {
        let is_new = mark == Mark::ZERO;
        let last = Last {
            mark,
            elapsed_ms,
            ahead_max_us: DOWNTIME_MAX_US,
        };
        Plausible {
            last: (!is_new && !accepted).then_some(last),
        }
    }

    /// A commit went through at a clock that was believed.
    pub(crate) fn committed(&mut self, mark: Mark, elapsed_ms: u64) {
        self.last = Some(Last {
            mark,
            elapsed_ms,
            ahead_max_us: DRIFT_MAX_US,
        });
    }

    /// `now`, or what it should be by the time that passed since the last commit, if it is not to
    /// be believed.
    pub(crate) fn believed(&self, now: Timestamp, elapsed_ms: u64) -> Timestamp {
        match &self.last {
            Some(last) if last.ahead_us(now, elapsed_ms) > last.ahead_max_us => {
                Timestamp(last.mark.0.saturating_add(last.passed_us(elapsed_ms)))
            }
            _ => now,
        }
    }

    /// # Errors
    /// [`EngineError::ClockImplausible`] when the clock ran ahead of the time that passed.
    pub(crate) fn check(&self, now: Timestamp, elapsed_ms: u64) -> Result<(), EngineError> {
        let Some(last) = &self.last else {
            return Ok(());
        };
        let ahead_us = last.ahead_us(now, elapsed_ms);
        if ahead_us > last.ahead_max_us {
            return Err(EngineError::ClockImplausible {
                ahead_s: (ahead_us / 1_000_000) as u64,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_US: i64 = 3_600_000_000;

    #[test]
    fn a_clock_that_jumps_an_hour_ahead_stops_writes_and_time_that_passed_does_not() {
        let mut plausible = Plausible::new(Mark(HOUR_US), 0, false);
        plausible.committed(Mark(HOUR_US), 0);
        assert_eq!(plausible.check(Timestamp(2 * HOUR_US), 0), Ok(()));
        let error = plausible.check(Timestamp(2 * HOUR_US + 1), 0);
        assert_eq!(error, Err(EngineError::ClockImplausible { ahead_s: 3_600 }));
        assert_eq!(plausible.check(Timestamp(3 * HOUR_US), 3_600_000), Ok(()));
        assert_eq!(
            plausible.check(Timestamp(0), 0),
            Ok(()),
            "steps back are no danger"
        );
    }

    #[test]
    fn an_unbelievable_clock_is_replaced_by_the_time_that_passed() {
        let mut plausible = Plausible::new(Mark(HOUR_US), 0, false);
        plausible.committed(Mark(HOUR_US), 0);
        let (early, late) = (Timestamp(2 * HOUR_US), Timestamp(100 * HOUR_US));
        assert_eq!(plausible.believed(early, 0), early);
        assert_eq!(plausible.believed(late, 7), Timestamp(HOUR_US + 7_000));
        assert_eq!(plausible.believed(Timestamp(0), 7), Timestamp(0));
    }

    #[test]
    fn a_start_allows_ninety_days_of_rest_unless_the_owner_vouches() {
        let late = Timestamp(HOUR_US + DOWNTIME_MAX_US + 1);
        assert!(
            Plausible::new(Mark(HOUR_US), 0, false)
                .check(late, 0)
                .is_err()
        );
        assert!(
            Plausible::new(Mark(HOUR_US), 0, true)
                .check(late, 0)
                .is_ok()
        );
        assert!(Plausible::new(Mark::ZERO, 0, false).check(late, 0).is_ok());
    }
}
