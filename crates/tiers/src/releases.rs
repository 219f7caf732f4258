//! Leases that were given back, as far as this process is notified: a caller that waits for one
//! looks again at once.
//!
//! A message can be lost, so each caller looks from time to time as well.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Those of one tier, in one process.
#[derive(Default)]
pub struct Releases {
    state: Mutex<ReleaseState>,
    changed: Condvar,
}

/// What a caller that does not block its thread is woken by: called once, on the thread of a
/// listener, with nothing locked.
pub type ReleaseWaker = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct ReleaseState {
    /// Threads that are notified of releases now.
    listeners: u32,
    waited: HashMap<Vec<u8>, WaitedLease>,
    /// Wakers until now, of which each has a number.
    wakers: u64,
}

/// A lease that callers of this process wait for.
#[derive(Default)]
struct WaitedLease {
    callers: u32,
    /// How often it was given back.
    releases: u64,
    wakers: Vec<(u64, ReleaseWaker)>,
}

/// One caller that waits for a lease.
pub struct ReleaseWait {
    releases: Arc<Releases>,
    key: Vec<u8>,
    seen: u64,
    waker: Option<u64>,
}

/// While this lives a thread is notified of releases.
pub struct ReleaseListener<'a>(&'a Releases);

impl Releases {
    fn lock(&self) -> MutexGuard<'_, ReleaseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread is notified of releases from now on.
    pub fn listen(&self) -> ReleaseListener<'_> {
        self.lock().listeners += 1;
        ReleaseListener(self)
    }

    /// The lease of this key was given back.
    pub fn release(&self, key: &[u8]) {
        let wakers = match self.lock().waited.get_mut(key) {
            Some(waited) => {
                waited.releases += 1;
                self.changed.notify_all();
                std::mem::take(&mut waited.wakers)
            }
            None => return,
        };
        for (_, waker) in wakers {
            waker();
        }
    }

    /// A caller waits for the lease of this key. It must look once more after this before it waits
    /// long.
    pub fn wait(self: &Arc<Self>, key: Vec<u8>) -> ReleaseWait {
        let seen = {
            let mut state = self.lock();
            let waited = state.waited.entry(key.clone()).or_default();
            waited.callers += 1;
            waited.releases
        };
        ReleaseWait {
            releases: self.clone(),
            key,
            seen,
            waker: None,
        }
    }
}

impl Drop for ReleaseListener<'_> {
    fn drop(&mut self) {
        self.0.lock().listeners -= 1;
    }
}

impl ReleaseWait {
    /// Whether this process would be notified.
    pub fn is_notified(&self) -> bool {
        self.releases.lock().listeners > 0
    }

    /// Has `waker` called when the lease is given back, in the place of the one before. False if it
    /// was already, since this was last asked: then it is not called.
    pub fn wake_by(&mut self, waker: ReleaseWaker) -> bool {
        // What it holds is dropped with nothing locked.
        let _old = self.without_waker();
        let mut state = self.releases.lock();
        state.wakers += 1;
        let number = state.wakers;
        let Some(waited) = state.waited.get_mut(&self.key) else {
            return false;
        };
        if waited.releases != self.seen {
            self.seen = waited.releases;
            drop(state);
            return false;
        }
        waited.wakers.push((number, waker));
        self.waker = Some(number);
        true
    }

    fn without_waker(&mut self) -> Option<ReleaseWaker> {
        let number = self.waker.take()?;
        let mut state = self.releases.lock();
        let waited = state.waited.get_mut(&self.key)?;
        let place = waited.wakers.iter().position(|(own, _)| *own == number)?;
        Some(waited.wakers.swap_remove(place).1)
    }

    /// Waits until the lease is given back, so long at most. Whether it was, since the last time.
    pub fn pause(&mut self, limit: Duration) -> bool {
        let releases = |state: &ReleaseState| {
            let waited = state.waited.get(&self.key);
            waited.map_or(0, |waited| waited.releases)
        };
        let state = self.releases.lock();
        let waited = (self.releases.changed)
            .wait_timeout_while(state, limit, |state| releases(state) == self.seen);
        let now = releases(&waited.unwrap_or_else(PoisonError::into_inner).0);
        std::mem::replace(&mut self.seen, now) != now
    }
}

impl Drop for ReleaseWait {
    fn drop(&mut self) {
        let _waker = self.without_waker();
        let mut state = self.releases.lock();
        if let Some(waited) = state.waited.get_mut(&self.key) {
            waited.callers -= 1;
            if waited.callers == 0 {
                state.waited.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_mins(10);

    #[test]
    fn release_wakes_those_who_wait_for_its_key_and_no_other() {
        let releases = Arc::new(Releases::default());
        let mut other = releases.wait(b"b".to_vec());
        assert!(!other.is_notified());
        let listener = releases.listen();
        let waiting: Vec<_> = (0..4)
            .map(|_| {
                let mut wait = releases.wait(b"a".to_vec());
                assert!(wait.is_notified());
                thread::spawn(move || wait.pause(LONG))
            })
            .collect();
        // No caller waits for this one.
        releases.release(b"c");
        releases.release(b"a");
        for thread in waiting {
            assert!(thread.join().unwrap());
        }
        assert!(!other.pause(Duration::ZERO));
        drop(listener);
        assert!(!other.is_notified());
        drop(other);
        assert!(releases.lock().waited.is_empty());
    }

    #[test]
    fn release_calls_the_last_waker_of_each_caller_once() {
        let releases = Arc::new(Releases::default());
        let called = Arc::new(AtomicU32::new(0));
        let count = |number: u32| -> ReleaseWaker {
            let called = called.clone();
            Box::new(move || {
                called.fetch_add(number, Ordering::SeqCst);
            })
        };
        let mut waits: Vec<_> = (0..3).map(|_| releases.wait(b"a".to_vec())).collect();
        for (number, wait) in waits.iter_mut().enumerate() {
            assert!(wait.wake_by(count(1_000)));
            assert!(wait.wake_by(count(1 << number)));
        }
        // Who waits no longer is not woken.
        waits.remove(1);
        releases.release(b"b");
        releases.release(b"a");
        releases.release(b"a");
        assert_eq!(called.load(Ordering::SeqCst), 0b101);
        // It was given back since: the caller looks again before it waits.
        assert!(!waits[0].wake_by(count(1_000)));
        assert!(waits[0].wake_by(count(2)));
        releases.release(b"a");
        assert_eq!(called.load(Ordering::SeqCst), 0b111);
        drop(waits);
        assert!(releases.lock().waited.is_empty());
    }

    #[test]
    fn release_before_the_wait_counts_once() {
        let releases = Arc::new(Releases::default());
        let mut wait = releases.wait(b"a".to_vec());
        releases.release(b"a");
        assert!(wait.pause(LONG));
        assert!(!wait.pause(Duration::from_millis(1)));
    }
}
