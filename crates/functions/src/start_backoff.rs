//! When a deployment may start another process, after its processes have ended by their own fault.
//!
//! A start takes as long as many executions. Without a bound a handler that exits at each request
//! keeps a core busy with starts, however few runs it answers.

use std::time::{Duration, Instant};

/// So many ends in a row bring a pause; fewer cost nothing.
const PAUSED_ENDS: u32 = 3;
/// The longest pause, of a deployment whose processes answer nothing.
const PAUSE_MAX: Duration = Duration::from_mins(1);
/// Of a deployment whose processes answer something before they end: its runs wait meanwhile.
const PAUSE: Duration = Duration::from_secs(1);
/// A process that has answered and takes work for so long has not ended early.
const PROVEN_AFTER: Duration = Duration::from_secs(10);

/// A process that has ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedProcess {
    pub has_answered: bool,
    /// For how long it took work.
    pub lasted: Duration,
    /// It exited, broke a rule, was blocked or took too much memory.
    pub is_at_fault: bool,
}

/// What is known of the ends of a deployment's processes.
#[derive(Debug, Default)]
pub struct StartBackoff {
    /// Ends in a row of processes that had answered nothing.
    unanswered: u32,
    /// Ends in a row of processes that did not last.
    early: u32,
    not_before: Option<Instant>,
    last_fault: Option<Instant>,
}

impl StartBackoff {
    /// A process has ended; whether the next start has to wait for it.
    pub fn ended(&mut self, ended: EndedProcess, now: Instant) -> bool {
        if ended.has_answered {
            self.unanswered = 0;
            if !ended.is_at_fault || ended.lasted >= PROVEN_AFTER {
                self.early = 0;
            }
        }
        if !ended.is_at_fault {
            return false;
        }
        self.last_fault = Some(now);
        self.unanswered += u32::from(!ended.has_answered);
        self.early += u32::from(ended.lasted < PROVEN_AFTER);
        let Some(pause) = self.pause() else {
            return false;
        };
        self.put_off(pause, now);
        true
    }

    /// A process is started for runs, or a spare takes them; the next one waits, unless this one
    /// answers before.
    pub fn began(&mut self, now: Instant) {
        if let Some(pause) = self.pause() {
            self.put_off(pause, now);
        }
    }

    /// A process that has taken work for so long has answered something.
    pub fn answered(&mut self, lasted: Duration, now: Instant) {
        if lasted >= PROVEN_AFTER {
            self.early = 0;
        }
        if std::mem::take(&mut self.unanswered) > 0 {
            self.not_before = self.not_before.min(Some(now + PAUSE));
        }
    }

    fn pause(&self) -> Option<Duration> {
        if let Some(doublings) = self.unanswered.checked_sub(PAUSED_ENDS) {
            return Some(PAUSE_MAX.min(Duration::from_secs(1 << doublings.min(6))));
        }
        (self.early >= PAUSED_ENDS).then_some(PAUSE)
    }

    /// The next start waits so long.
    pub fn put_off(&mut self, pause: Duration, now: Instant) {
        self.not_before = self.not_before.max(Some(now + pause));
    }

    pub fn is_due(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|instant| now >= instant)
    }

    /// Whether runs that find no process fail at once: those before have answered nothing.
    pub fn fails_runs(&self, now: Instant) -> bool {
        self.unanswered >= PAUSED_ENDS && !self.is_due(now)
    }

    /// Whether a process has ended by its own fault in the last `within`.
    pub fn is_at_fault(&self, within: Duration, now: Instant) -> bool {
        let since = |last| now.saturating_duration_since(last);
        self.last_fault.is_some_and(|last| since(last) < within)
    }

    /// Whether processes have ended by their own fault, and none has lasted since.
    pub fn has_faults(&self) -> bool {
        self.unanswered > 0 || self.early > 0
    }

    /// Whether it still says something: a pause is not to be forgotten before it is over.
    pub fn is_remembered(&self, now: Instant) -> bool {
        let is_recent = |instant| now < instant + PAUSE_MAX;
        self.not_before.is_some_and(is_recent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const CRASH: EndedProcess = EndedProcess {
        has_answered: false,
        lasted: Duration::ZERO,
        is_at_fault: true,
    };
    const LATER_CRASH: EndedProcess = EndedProcess {
        has_answered: true,
        ..CRASH
    };
    const SUCCESS: EndedProcess = EndedProcess {
        has_answered: true,
        is_at_fault: false,
        ..CRASH
    };

    /// Seconds from each end to the next start, where a process is started as soon as it may be
    /// and ends at once.
    fn pauses(backoff: &mut StartBackoff, ends: &[EndedProcess], now: &mut Instant) -> Vec<u64> {
        let pause = |ended: &EndedProcess| {
            let begun = *now;
            let waits = backoff.ended(*ended, *now);
            while !backoff.is_due(*now) {
                *now += SECOND;
            }
            let waited = (*now - begun).as_secs();
            assert_eq!(waits, waited > 0);
            waited
        };
        ends.iter().map(pause).collect()
    }

    #[test]
    fn processes_that_answer_nothing_are_started_ever_less() {
        let (mut backoff, mut now) = (StartBackoff::default(), Instant::now());
        let waited = pauses(&mut backoff, &[CRASH; 10], &mut now);
        assert_eq!(waited, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(!backoff.fails_runs(now), "one is tried");
        backoff.began(now);
        assert!(
            !backoff.is_due(now + PAUSE_MAX / 2),
            "and no other beside it"
        );
        backoff.ended(CRASH, now);
        assert!(backoff.fails_runs(now));
        // One that has answered is the end of it.
        let waited = pauses(
            &mut backoff,
            &[SUCCESS, CRASH, CRASH],
            &mut (now + PAUSE_MAX),
        );
        assert_eq!(waited, [0, 0, 0]);
    }

    #[test]
    fn processes_that_end_soon_after_an_answer_are_started_once_a_second() {
        let (mut backoff, mut now) = (StartBackoff::default(), Instant::now());
        let waited = pauses(&mut backoff, &[LATER_CRASH; 6], &mut now);
        assert_eq!(waited, [0, 0, 1, 1, 1, 1]);
        backoff.ended(LATER_CRASH, now);
        assert!(
            !backoff.is_due(now) && !backoff.fails_runs(now),
            "they wait"
        );
        now += SECOND;
        // In turns with those that answer nothing, too.
        let turns = [CRASH, LATER_CRASH, CRASH, CRASH, LATER_CRASH];
        assert_eq!(pauses(&mut backoff, &turns, &mut now), [1; 5]);
        let lasting = EndedProcess {
            lasted: PROVEN_AFTER,
            ..LATER_CRASH
        };
        let waited = pauses(&mut backoff, &[lasting, CRASH, CRASH, lasting], &mut now);
        assert_eq!(waited, [0; 4]);
    }

    #[test]
    fn process_that_answers_lets_others_start() {
        let (mut backoff, mut now) = (StartBackoff::default(), Instant::now());
        pauses(&mut backoff, &[CRASH; 9], &mut now);
        backoff.began(now);
        backoff.answered(Duration::ZERO, now);
        assert!(!backoff.fails_runs(now) && !backoff.is_due(now));
        now += PAUSE;
        assert!(backoff.is_due(now));
        backoff.began(now);
        assert!(!backoff.is_due(now), "one a second");
        now += PAUSE;
        backoff.answered(PROVEN_AFTER, now);
        backoff.began(now);
        assert!(backoff.is_due(now), "as many as are needed");
    }

    #[test]
    fn pause_is_remembered_until_it_has_been_over_for_long() {
        let (mut backoff, now) = (StartBackoff::default(), Instant::now());
        assert!(!backoff.is_remembered(now) && !backoff.is_at_fault(SECOND, now));
        for _ in 0..3 {
            backoff.ended(CRASH, now);
        }
        assert!(backoff.is_at_fault(SECOND, now) && !backoff.is_at_fault(SECOND, now + SECOND));
        assert!(backoff.is_remembered(now + PAUSE_MAX));
        assert!(!backoff.is_remembered(now + SECOND + PAUSE_MAX));
    }
}
