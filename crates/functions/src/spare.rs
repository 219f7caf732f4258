//! When a deployment keeps a spare: a process whose code is loaded, and which has run nothing.

use std::time::{Duration, Instant};

/// A deployment none of whose starts was quicker keeps a spare: as long as a cold execution may
/// take.
const SLOW_START: Duration = Duration::from_millis(150);
/// Loading code takes a core, which those that have just begun need first.
const REST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_mins(1);

/// What is known of the starts of a deployment.
#[derive(Debug, Default)]
pub struct SparePlan {
    fastest_start: Option<Duration>,
    not_before: Option<Instant>,
    /// Spares in a row that were never used.
    unused: u32,
}

impl SparePlan {
    /// A process was started, or begins to take work.
    pub fn began(&mut self, now: Instant) {
        self.put_off(now + REST);
    }

    /// A process has loaded its code, which took so long, if it has.
    pub fn loaded(&mut self, took: Option<Duration>) {
        let known = self.fastest_start.into_iter().chain(took);
        self.fastest_start = known.min();
    }

    /// The spare was used.
    pub fn used(&mut self, now: Instant) {
        self.unused = 0;
        self.began(now);
    }

    /// A spare has ended, or did not start: one that does so always must not take a core.
    pub fn lost(&mut self, now: Instant) {
        self.unused += 1;
        let doubled = Duration::from_secs(1 << self.unused.min(6));
        self.put_off(now + doubled.min(BACKOFF_MAX));
    }

    fn put_off(&mut self, until: Instant) {
        self.not_before = self.not_before.max(Some(until));
    }

    /// Whether starts are so slow that a spare helps.
    pub fn is_worthwhile(&self) -> bool {
        self.fastest_start.is_some_and(|took| took > SLOW_START)
    }

    /// Whether one may be started now.
    pub fn is_due(&self, now: Instant) -> bool {
        self.is_worthwhile() && self.not_before.is_none_or(|instant| now >= instant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_millis(400);

    #[test]
    fn spare_is_kept_where_each_start_is_slow() {
        let now = Instant::now();
        let mut plan = SparePlan::default();
        assert!(!plan.is_due(now), "nothing is known");
        plan.began(now);
        plan.loaded(Some(SLOW));
        assert!(!plan.is_due(now), "another one has just begun");
        assert!(plan.is_due(now + REST));
        plan.used(now + REST);
        assert!(!plan.is_due(now + REST));
        assert!(plan.is_due(now + 2 * REST));
        // The first may have met a busy machine.
        plan.loaded(Some(SLOW_START));
        plan.loaded(Some(SLOW));
        assert!(!plan.is_worthwhile() && !plan.is_due(now + 2 * REST));
    }

    #[test]
    fn spare_that_always_ends_is_started_ever_less() {
        let mut now = Instant::now();
        let mut plan = SparePlan::default();
        plan.loaded(Some(SLOW));
        let mut pauses = Vec::new();
        for _ in 0..7 {
            plan.lost(now);
            let begun = now;
            while !plan.is_due(now) {
                now += Duration::from_secs(1);
            }
            pauses.push((now - begun).as_secs());
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60]);
        plan.used(now);
        plan.lost(now);
        assert!(plan.is_due(now + Duration::from_secs(2)));
    }
}
