//! Leases that were given back, as far as this process hears of it: a caller that waits for one
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

#[derive(Default)]
struct ReleaseState {
    /// Threads that hear of releases now.
    listeners: u32,
    waited: HashMap<Vec<u8>, WaitedLease>,
}

/// A lease that callers of this process wait for.
#[derive(Default)]
struct WaitedLease {
    callers: u32,
    /// How often it was given back.
    releases: u64,
}

/// One caller that waits for a lease.
pub struct ReleaseWait {
    releases: Arc<Releases>,
    key: Vec<u8>,
    seen: u64,
}

/// While this lives a thread hears of releases.
pub struct ReleaseListener<'a>(&'a Releases);

impl Releases {
    fn lock(&self) -> MutexGuard<'_, ReleaseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread hears of releases from now on.
    pub fn listen(&self) -> ReleaseListener<'_> {
        self.lock().listeners += 1;
        ReleaseListener(self)
    }

    /// The lease of this key was given back.
    pub fn release(&self, key: &[u8]) {
        if let Some(waited) = self.lock().waited.get_mut(key) {
            waited.releases += 1;
            self.changed.notify_all();
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
        }
    }
}

impl Drop for ReleaseListener<'_> {
    fn drop(&mut self) {
        self.0.lock().listeners -= 1;
    }
}

impl ReleaseWait {
    /// Whether the release would be heard.
    pub fn is_heard(&self) -> bool {
        self.releases.lock().listeners > 0
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
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_mins(10);

    #[test]
    fn release_wakes_those_who_wait_for_its_key_and_no_other() {
        let releases = Arc::new(Releases::default());
        let mut other = releases.wait(b"b".to_vec());
        assert!(!other.is_heard());
        let listener = releases.listen();
        let waiting: Vec<_> = (0..4)
            .map(|_| {
                let mut wait = releases.wait(b"a".to_vec());
                assert!(wait.is_heard());
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
        assert!(!other.is_heard());
        drop(other);
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
