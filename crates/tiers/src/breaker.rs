//! Whether a tier is asked at all: after some failures it is left alone for a while.
//!
//! No call of an application tries out a tier that has failed. When the pause is over the driver
//! checks the tier beside its callers, and they go on without it until the checks were good.

use std::collections::VecDeque;

/// When a breaker opens and closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Failures within `window_ms` that open it.
    pub failures_max: u32,
    /// How long a failure counts.
    pub window_ms: u64,
    /// How long it stays open before the tier is checked, and how long a check may take.
    pub pause_ms: u64,
    /// Checks in a row that must be good to close it.
    pub checks: u32,
}

impl Default for BreakerSettings {
    /// The numbers of cachekit's presets.
    fn default() -> Self {
        BreakerSettings {
            failures_max: 5,
            window_ms: 60_000,
            pause_ms: 30_000,
            checks: 3,
        }
    }
}

/// What a breaker says of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerAnswer {
    /// The tier may be asked.
    Closed,
    /// It may not.
    Open,
    /// It may not, and the driver has it checked beside the callers, under this number.
    Check(u64),
}

#[derive(Clone, Copy, Debug)]
enum BreakerState {
    Closed,
    Open { until_ms: u64 },
    Checking { number: u64, begin_ms: u64 },
}

/// The breaker of one tier in one process.
#[derive(Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    state: BreakerState,
    /// When the failures that still count happened, at most `failures_max` of them.
    failures: VecDeque<u64>,
    checks_begun: u64,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(settings: BreakerSettings) -> Breaker {
        Breaker {
            settings,
            state: BreakerState::Closed,
            failures: VecDeque::new(),
            checks_begun: 0,
        }
    }

    /// Whether the tier may be asked now.
    pub fn admit(&mut self, now_ms: u64) -> BreakerAnswer {
        let is_due = match self.state {
            BreakerState::Closed => return BreakerAnswer::Closed,
            BreakerState::Open { until_ms } => now_ms >= until_ms,
            // Who checked it may have been lost with its process's threads at a fork.
            BreakerState::Checking { begin_ms, .. } => {
                now_ms >= begin_ms.saturating_add(self.settings.pause_ms)
            }
        };
        if !is_due {
            return BreakerAnswer::Open;
        }
        self.checks_begun += 1;
        let number = self.checks_begun;
        self.state = BreakerState::Checking {
            number,
            begin_ms: now_ms,
        };
        BreakerAnswer::Check(number)
    }

    /// Counts a failure of an operation. What began before the breaker opened counts no more.
    pub fn failed(&mut self, now_ms: u64) {
        if !matches!(self.state, BreakerState::Closed) {
            return;
        }
        let window_ms = self.settings.window_ms;
        self.failures
            .retain(|at_ms| now_ms.saturating_sub(*at_ms) < window_ms);
        self.failures.push_back(now_ms);
        if self.failures.len() >= self.settings.failures_max as usize {
            self.open(now_ms);
        }
    }

    /// How many good checks in a row close it.
    pub fn checks(&self) -> u32 {
        self.settings.checks
    }

    /// Ends the check of this number; one that was given up for lost changes nothing.
    pub fn checked(&mut self, number: u64, is_good: bool, now_ms: u64) {
        match self.state {
            BreakerState::Checking {
                number: current, ..
            } if current == number => {}
            _ => return,
        }
        if is_good {
            self.state = BreakerState::Closed;
        } else {
            self.open(now_ms);
        }
    }

    /// Whether it keeps callers from the tier.
    pub fn is_open(&self) -> bool {
        !matches!(self.state, BreakerState::Closed)
    }

    fn open(&mut self, now_ms: u64) {
        self.failures.clear();
        let until_ms = now_ms.saturating_add(self.settings.pause_ms);
        self.state = BreakerState::Open { until_ms };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SETTINGS: BreakerSettings = BreakerSettings {
        failures_max: 3,
        window_ms: 10,
        pause_ms: 20,
        checks: 2,
    };

    #[test]
    fn breaker_opens_at_the_last_failure_and_not_before() {
        let mut breaker = Breaker::new(SETTINGS);
        breaker.failed(0);
        breaker.failed(9);
        assert_eq!(breaker.admit(9), BreakerAnswer::Closed);
        // The first one is ten milliseconds old by now.
        breaker.failed(10);
        assert_eq!(breaker.admit(10), BreakerAnswer::Closed);
        breaker.failed(11);
        assert_eq!(breaker.admit(11), BreakerAnswer::Open);
        assert_eq!(breaker.admit(30), BreakerAnswer::Open);
        assert_eq!(breaker.admit(31), BreakerAnswer::Check(1));
        assert_eq!(breaker.admit(31), BreakerAnswer::Open);
    }

    #[test]
    fn breaker_gives_up_a_check_that_never_ends() {
        let mut breaker = Breaker::new(SETTINGS);
        for _ in 0..3 {
            breaker.failed(0);
        }
        assert_eq!(breaker.admit(20), BreakerAnswer::Check(1));
        assert_eq!(breaker.admit(39), BreakerAnswer::Open);
        assert_eq!(breaker.admit(40), BreakerAnswer::Check(2));
        breaker.checked(1, true, 41);
        assert!(breaker.is_open());
        breaker.checked(2, false, 41);
        assert_eq!(breaker.admit(60), BreakerAnswer::Open);
        assert_eq!(breaker.admit(61), BreakerAnswer::Check(3));
        breaker.checked(3, true, 62);
        assert_eq!(breaker.admit(62), BreakerAnswer::Closed);
        // Nothing of the time before counts.
        breaker.failed(62);
        breaker.failed(62);
        assert_eq!(breaker.admit(62), BreakerAnswer::Closed);
    }

    proptest! {
        /// Beside a model that keeps every event and looks through all of them each time.
        #[test]
        fn breaker_agrees_with_a_model(
            events in prop::collection::vec((0..4_u8, 0..15_u64), 0..200),
        ) {
            let mut breaker = Breaker::new(SETTINGS);
            let (mut now_ms, mut check) = (0, None);
            let (mut failures, mut opened): (Vec<u64>, Option<u64>) = (Vec::new(), None);
            for (event, pass_ms) in events {
                now_ms += pass_ms;
                match event {
                    0 | 1 => {
                        breaker.failed(now_ms);
                        if opened.is_none() {
                            failures.push(now_ms);
                            let young = failures.iter().filter(|at| now_ms - **at < 10).count();
                            if young >= 3 {
                                opened = Some(now_ms);
                            }
                        }
                    }
                    2 => {
                        let is_due = opened.is_some_and(|at| now_ms >= at + 20);
                        match breaker.admit(now_ms) {
                            BreakerAnswer::Closed => prop_assert!(opened.is_none()),
                            BreakerAnswer::Open => prop_assert!(opened.is_some() && !is_due),
                            BreakerAnswer::Check(number) => {
                                prop_assert!(is_due);
                                (check, opened) = (Some(number), Some(now_ms));
                            }
                        }
                    }
                    _ => {
                        let Some(number) = check.take() else { continue };
                        let is_good = pass_ms % 2 == 0;
                        breaker.checked(number, is_good, now_ms);
                        opened = (!is_good).then_some(now_ms);
                        failures.clear();
                    }
                }
                prop_assert_eq!(breaker.is_open(), opened.is_some());
            }
        }
    }
}
