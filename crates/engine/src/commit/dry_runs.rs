//! The queues of dry runs, and the share of the writer's time that they may take.
//!
//! A dry run blocks all writes. So dry runs wait in queues of their own, which leave the queue of
//! writes free, and those of callers without a key get only a share of the time, because many of
//! them may be hostile.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use store::{Preview, StoreError, Trial, WriteTurn};

use crate::error::{EngineError, Unavailable};
use crate::state::shared::Shared;

/// Most dry runs of callers with a key that may wait.
const WAITING_MAX: usize = 256;
/// Most dry runs of callers without one that may wait.
const GUESTS_WAITING_MAX: usize = 64;
/// After a dry run of a guest the writer is free of them for so many times what it took: they have
/// a fifth of its time.
const REST: u32 = 4;
/// So much of that rest may be still to come when the next one begins: dry runs that take a part of
/// a millisecond, as most do, need not wait for the rest of each.
const REST_OWED_MAX: Duration = Duration::from_millis(100);

/// How long one dry run may keep writers waiting. At the 18.7 microseconds a change that the
/// bitemporal page measured (section 7), a transaction of as many rows as one commit may change
/// takes a fifth of it; the rest is for what a read inside it looks at.
const DRY_RUN_MS_MAX: u64 = 1_000;
/// The same for callers without a key, of whom there may be many that mean harm.
const DRY_RUN_OF_GUEST_MS_MAX: u64 = 100;

/// Batches to try, and what to look at then.
pub(crate) struct DryRun {
    pub(crate) trials: Vec<Trial>,
    pub(crate) is_of_guest: bool,
    pub(crate) look: Box<Look>,
}

type Look = dyn FnOnce(Result<&dyn Preview, StoreError>) + Send;

impl DryRun {
    /// Runs it in a turn, if that could be taken. Blocks.
    pub(crate) fn run(self, shared: &Shared, turn: Result<Box<dyn WriteTurn + '_>, StoreError>) {
        let first = shared.marks.untaken(shared.now());
        let limit_ms = if self.is_of_guest {
            DRY_RUN_OF_GUEST_MS_MAX
        } else {
            DRY_RUN_MS_MAX
        };
        let preview =
            |turn: Box<dyn WriteTurn + '_>| block_on(turn.preview(&self.trials, first, limit_ms));
        match turn.and_then(preview) {
            Ok(preview) => (self.look)(Ok(&*preview)),
            Err(error) => (self.look)(Err(error)),
        }
    }

    /// It is not run, and the same request may succeed later.
    pub(crate) fn refuse(self) {
        (self.look)(Err(StoreError::Interrupted));
    }
}

/// The dry runs that wait.
#[derive(Default)]
pub(crate) struct DryRuns {
    keyed: VecDeque<DryRun>,
    guests: VecDeque<DryRun>,
    rest: OwedRest,
}

impl DryRuns {
    /// # Errors
    /// [`Unavailable::DryRunsBusy`] when as many wait as may.
    pub(crate) fn push(&mut self, dry_run: DryRun) -> Result<(), EngineError> {
        let (line, waiting_max) = if dry_run.is_of_guest {
            (&mut self.guests, GUESTS_WAITING_MAX)
        } else {
            (&mut self.keyed, WAITING_MAX)
        };
        if line.len() >= waiting_max {
            return Err(Unavailable::DryRunsBusy { waiting_max }.into());
        }
        line.push_back(dry_run);
        Ok(())
    }

    /// Runs none of them any more.
    pub(crate) fn clear(&mut self) {
        self.keyed.clear();
        self.guests.clear();
    }

    /// Takes all of them out.
    pub(crate) fn drain(&mut self) -> Vec<DryRun> {
        let keyed = std::mem::take(&mut self.keyed);
        keyed.into_iter().chain(self.guests.drain(..)).collect()
    }

    /// How long until one may begin; `None` if none waits.
    pub(crate) fn until_next(&self, now: Instant) -> Option<Duration> {
        if !self.keyed.is_empty() {
            return Some(Duration::ZERO);
        }
        (!self.guests.is_empty()).then(|| self.rest.left(now))
    }

    /// The next one that may begin.
    pub(crate) fn next(&mut self, now: Instant) -> Option<DryRun> {
        let keyed = self.keyed.pop_front();
        keyed.or_else(|| {
            let is_rested = self.rest.left(now).is_zero();
            is_rested.then(|| self.guests.pop_front()).flatten()
        })
    }

    /// A dry run of a guest that began then has taken so long.
    pub(crate) fn guest_took(&mut self, began: Instant, took: Duration) {
        self.rest.owe(began, took);
    }
}

/// The time that the writer is to be free of guests' dry runs.
#[derive(Default)]
struct OwedRest {
    until: Option<Instant>,
}

impl OwedRest {
    /// How long until the next may begin.
    fn left(&self, now: Instant) -> Duration {
        let owed = self.until.map(|until| until.saturating_duration_since(now));
        owed.unwrap_or_default().saturating_sub(REST_OWED_MAX)
    }

    fn owe(&mut self, began: Instant, took: Duration) {
        let from = self.until.map_or(began, |until| until.max(began));
        self.until = Some(from + took + took * REST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A caller asks for one dry run after another of `took` each, from `now` on: how many begin.
    fn begun(took: Duration, within: Duration) -> u32 {
        let (mut rest, began) = (OwedRest::default(), Instant::now());
        let mut now = began;
        let mut count = 0;
        while now < began + within {
            now += rest.left(now);
            rest.owe(now, took);
            now += took;
            count += 1;
        }
        count
    }

    #[test]
    fn guests_have_a_fifth_of_the_writers_time() {
        let second = Duration::from_secs(1);
        for took_ms in [1, 5, 100] {
            let took = Duration::from_millis(took_ms);
            let share = (begun(took, 100 * second) * took).as_secs_f64() / 100.0;
            assert!((0.199..0.205).contains(&share), "{took_ms} ms: {share}");
        }
    }

    #[test]
    fn short_dry_runs_after_a_pause_follow_each_other_at_once() {
        let took = Duration::from_micros(100);
        let mut rest = OwedRest::default();
        let mut now = Instant::now();
        for _ in 0..200 {
            assert_eq!(rest.left(now), Duration::ZERO);
            rest.owe(now, took);
            now += took;
        }
        now += Duration::from_millis(100);
        assert_eq!(rest.left(now), Duration::ZERO);
    }
}
