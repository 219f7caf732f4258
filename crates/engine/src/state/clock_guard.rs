//! Whether the clock can be believed: one wrong year would fix "now" there for ever, because
//! marks never go back.

use model::{Mark, Timestamp};

use crate::error::{EngineError, Unavailable};

/// A clock may be ahead of the last commit by the time elapsed plus an hour, where it is known how
/// much that is: in a running server, and at a start on a machine that has run ever since.
pub const DRIFT_MAX_US: i64 = 3_600 * 1_000_000;

/// The last commit, and what to hold the clock against.
pub(crate) struct ClockGuard {
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

impl ClockGuard {
    /// Nothing is held against the clock.
    pub(crate) fn accepted() -> ClockGuard {
        ClockGuard { last: None }
    }

    /// As of the start: `mark` is that of the latest commit ever, after which the server rested for
    /// `rest_ms`, or, where that is not known, for `downtime_max_us` at most.
    pub(crate) fn new(
        mark: Mark,
        elapsed_ms: u64,
        rest_ms: Option<u64>,
        downtime_max_us: i64,
    ) -> ClockGuard {
        if mark == Mark::ZERO {
            return ClockGuard::accepted();
        }
        let last = Last {
            mark,
            elapsed_ms: elapsed_ms.saturating_sub(rest_ms.unwrap_or_default()),
            ahead_max_us: rest_ms.map_or(downtime_max_us, |_| DRIFT_MAX_US),
        };
        ClockGuard { last: Some(last) }
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
    /// [`Unavailable::ClockImplausible`] when the clock ran ahead of the time that passed.
    pub(crate) fn check(&self, now: Timestamp, elapsed_ms: u64) -> Result<(), EngineError> {
        let Some(last) = &self.last else {
            return Ok(());
        };
        let ahead_us = last.ahead_us(now, elapsed_ms);
        if ahead_us > last.ahead_max_us {
            return Err(Unavailable::ClockImplausible {
                ahead_s: (ahead_us / 1_000_000) as u64,
            }
            .into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_US: i64 = 3_600_000_000;

    fn start() -> ClockGuard {
        ClockGuard::new(Mark(HOUR_US), 0, None, HOUR_US)
    }

    #[test]
    fn a_clock_that_jumps_an_hour_ahead_stops_writes_and_time_that_passed_does_not() {
        let mut guard = start();
        guard.committed(Mark(HOUR_US), 0);
        assert_eq!(guard.check(Timestamp(2 * HOUR_US), 0), Ok(()));
        let error = guard.check(Timestamp(2 * HOUR_US + 1), 0);
        assert_eq!(
            error,
            Err(EngineError::Unavailable(Unavailable::ClockImplausible {
                ahead_s: 3_600
            }))
        );
        assert_eq!(guard.check(Timestamp(3 * HOUR_US), 3_600_000), Ok(()));
        assert_eq!(
            guard.check(Timestamp(0), 0),
            Ok(()),
            "steps back are no danger"
        );
    }

    #[test]
    fn an_unbelievable_clock_is_replaced_by_the_time_that_passed() {
        let mut guard = start();
        guard.committed(Mark(HOUR_US), 0);
        let (early, late) = (Timestamp(2 * HOUR_US), Timestamp(100 * HOUR_US));
        assert_eq!(guard.believed(early, 0), early);
        assert_eq!(guard.believed(late, 7), Timestamp(HOUR_US + 7_000));
        assert_eq!(guard.believed(Timestamp(0), 7), Timestamp(0));
    }

    #[test]
    fn a_start_allows_the_rest_that_is_known_or_as_much_as_is_stated() {
        const DAY_US: i64 = 24 * HOUR_US;
        let mark = Mark(HOUR_US);
        let check = |guard: &ClockGuard, clock_us: i64, is_believed: bool| {
            let checked = guard.check(Timestamp(clock_us), DAY_US as u64 / 1_000);
            assert_eq!(checked.is_ok(), is_believed, "{clock_us}: {checked:?}");
        };
        // Ten minutes after the last commit, a clock a day ahead is not believed.
        let (elapsed_ms, rest_ms) = (DAY_US as u64 / 1_000, 600_000);
        let known = ClockGuard::new(mark, elapsed_ms, Some(rest_ms), 90 * DAY_US);
        let most_us = mark.0 + rest_ms as i64 * 1_000 + HOUR_US;
        check(&known, most_us, true);
        check(&known, most_us + 1, false);
        check(&known, HOUR_US + DAY_US, false);
        let unknown = ClockGuard::new(mark, elapsed_ms, None, 90 * DAY_US);
        check(&unknown, HOUR_US + 90 * DAY_US, true);
        check(&unknown, HOUR_US + 90 * DAY_US + 1, false);
        let stated = ClockGuard::new(mark, elapsed_ms, None, DAY_US / 2);
        check(&stated, HOUR_US + DAY_US, false);
        check(&ClockGuard::accepted(), 100 * DAY_US, true);
        let first = ClockGuard::new(Mark::ZERO, elapsed_ms, None, DAY_US);
        check(&first, 100 * DAY_US, true);
    }
}
