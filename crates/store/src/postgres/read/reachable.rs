//! Whether a database can be reached, and when it is tried again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::StoreError;

/// After the first failure it is tried again so soon, then twice as late each time.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
/// No later than this: what waits for the database goes on within a second of its first answer.
const PAUSE_MAX: Duration = Duration::from_millis(400);

/// What is known of it.
#[derive(Default)]
pub(super) struct Reachability {
    outage: Mutex<Option<Outage>>,
    /// Whether an answer on any connection ends the outage: looked at after each read.
    ends_with_answer: AtomicBool,
}

struct Outage {
    since: Instant,
    /// What the last try came to.
    error: StoreError,
    pause: Duration,
    next: Instant,
}

impl Reachability {
    /// Whether a connection may be tried now. Of several that come in a pause one is.
    ///
    /// # Errors
    /// What the last try came to.
    pub(super) fn may_try(&self, now: Instant) -> Result<(), StoreError> {
        if let Some(outage) = &mut *self.lock() {
            if now < outage.next {
                return Err(outage.error.clone());
            }
            outage.next = now + outage.pause;
        }
        Ok(())
    }

    /// A try has failed.
    pub(super) fn failed(&self, now: Instant, error: StoreError) {
        let mut outage = self.lock();
        let pause = match &*outage {
            Some(outage) => (outage.pause * 2).min(PAUSE_MAX),
            None => FIRST_PAUSE,
        };
        // What is open may still answer, and others be refused.
        self.ends_with_answer.store(false, Ordering::Relaxed);
        *outage = Some(Outage {
            since: outage.as_ref().map_or(now, |outage| outage.since),
            error,
            pause,
            next: now + pause,
        });
    }

    /// A connection was silent for as long as a read may take: it is tried at once.
    pub(super) fn was_silent(&self, now: Instant, error: StoreError) {
        let mut outage = self.lock();
        if outage.is_none() {
            self.ends_with_answer.store(true, Ordering::Relaxed);
            *outage = Some(Outage {
                since: now,
                error,
                pause: FIRST_PAUSE,
                next: now,
            });
        }
    }

    /// A try has succeeded.
    pub(super) fn succeeded(&self) {
        let mut outage = self.lock();
        self.ends_with_answer.store(false, Ordering::Relaxed);
        *outage = None;
    }

    /// A read was answered, on a connection that was there, say.
    pub(super) fn answered(&self) {
        if self.ends_with_answer.load(Ordering::Relaxed) {
            self.succeeded();
        }
    }

    /// Since when it cannot be reached, and what the last try came to.
    pub(super) fn outage(&self) -> Option<(Instant, StoreError)> {
        let outage = self.lock();
        outage
            .as_ref()
            .map(|outage| (outage.since, outage.error.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Outage>> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_tried_ever_more_seldom_until_it_ends() {
        let reachability = Reachability::default();
        let error = || StoreError::Interrupted;
        let began = Instant::now();
        assert_eq!(reachability.may_try(began), Ok(()));
        assert_eq!(reachability.outage(), None);
        let mut now = began;
        for pause in [25, 50, 100, 200, 400, 400] {
            reachability.failed(now, error());
            assert_eq!(reachability.outage(), Some((began, error())));
            let before = now + Duration::from_millis(pause - 1);
            let end = now + Duration::from_millis(pause);
            assert_eq!(reachability.may_try(before), Err(error()), "{pause}");
            assert_eq!(reachability.may_try(end), Ok(()), "{pause}");
            // The others wait for what the one finds.
            assert_eq!(reachability.may_try(end), Err(error()), "{pause}");
            now = end;
        }
        reachability.succeeded();
        assert_eq!(reachability.may_try(now), Ok(()));
        assert_eq!(reachability.outage(), None);
        reachability.failed(now, error());
        let soon = now + FIRST_PAUSE;
        assert_eq!(reachability.may_try(soon), Ok(()), "it begins again");
    }

    #[test]
    fn a_silent_database_is_tried_at_once() {
        let reachability = Reachability::default();
        let (now, silent) = (Instant::now(), StoreError::Timeout { limit_ms: 1 });
        reachability.was_silent(now, silent.clone());
        assert_eq!(reachability.outage(), Some((now, silent)));
        assert_eq!(reachability.may_try(now), Ok(()));
        assert!(reachability.may_try(now).is_err());
    }

    #[test]
    fn an_answer_ends_a_silence_and_no_refusal_of_connections() {
        let reachability = Reachability::default();
        let (now, silent) = (Instant::now(), StoreError::Timeout { limit_ms: 1 });
        reachability.was_silent(now, silent.clone());
        reachability.answered();
        assert_eq!(reachability.outage(), None);
        reachability.was_silent(now, silent);
        reachability.failed(now, StoreError::Interrupted);
        reachability.answered();
        assert_eq!(
            reachability.outage(),
            Some((now, StoreError::Interrupted)),
            "a read that needs another connection gets none"
        );
    }
}
