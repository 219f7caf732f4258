//! The leases that this process holds, and the thread that renews them while bodies run.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::host::Host;
use super::tier::{LeaseAct, LeaseAnswer, LeaseHolder, LeasingTier, TierError};

/// A lease that is not renewed for so long is overdue: so long others wait for a dead process.
pub const LEASE_MS: u64 = 3_000;
/// How often a lease is renewed.
const RENEW: Duration = Duration::from_millis(LEASE_MS / 3);
/// The thread ends when it has found no lease for so many times.
const IDLE_MAX: u32 = 5;

/// The leases of one process in one tier.
#[derive(Default)]
pub struct LeaseBook {
    state: Mutex<BookState>,
}

#[derive(Default)]
struct BookState {
    holder: Option<LeaseHolder>,
    /// How many calls of this process have the lease of a key. More than one where single flight
    /// lets a body run twice, as when it asks for its own key.
    held: HashMap<Vec<u8>, u32>,
    has_thread: bool,
}

impl LeaseBook {
    fn lock(&self) -> MutexGuard<'_, BookState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lease of a key. Whether this process has it now.
    pub fn take(&self, tier: &dyn LeasingTier, key: &[u8], host: &Host) -> Result<bool, TierError> {
        let holder = {
            let mut state = self.lock();
            if let Some(count) = state.held.get_mut(key) {
                *count += 1;
                return Ok(true);
            }
            *state.holder.get_or_insert_with(|| {
                let mut holder = LeaseHolder::default();
                (host.random)(&mut holder);
                holder
            })
        };
        let act = LeaseAct::Take {
            lifetime_ms: LEASE_MS,
        };
        let is_own = tier.lease(key, &holder, act)? == LeaseAnswer::Own;
        if is_own {
            *self.lock().held.entry(key.to_vec()).or_default() += 1;
        }
        Ok(is_own)
    }

    /// Gives a lease back, unless another call of this process has it, too.
    pub fn release(&self, tier: &dyn LeasingTier, key: &[u8]) -> Result<(), TierError> {
        let mut state = self.lock();
        let Some(count) = state.held.get_mut(key) else {
            return Ok(());
        };
        *count -= 1;
        if *count > 0 {
            return Ok(());
        }
        state.held.remove(key);
        let holder = state.holder.unwrap_or_default();
        drop(state);
        tier.lease(key, &holder, LeaseAct::Release).map(drop)
    }

    /// Renews every lease. Whether there was one.
    fn renew(&self, tier: &dyn LeasingTier) -> bool {
        let (holder, keys) = {
            let state = self.lock();
            let keys: Vec<Vec<u8>> = state.held.keys().cloned().collect();
            (state.holder.unwrap_or_default(), keys)
        };
        let act = LeaseAct::Renew {
            lifetime_ms: LEASE_MS,
        };
        for key in &keys {
            // One that is lost stays lost: the tier has voided what this call could store with. One
            // that cannot be renewed now is tried again before it is overdue.
            let _ = tier.lease(key, &holder, act);
        }
        !keys.is_empty()
    }

    /// Whether a thread has to be started that renews the leases, which then counts as started.
    pub fn wants_thread(&self) -> bool {
        let mut state = self.lock();
        !std::mem::replace(&mut state.has_thread, true)
    }

    /// The thread could not be started: the next lease tries again.
    pub fn has_no_thread(&self) {
        self.lock().has_thread = false;
    }

    /// What the thread does, until there has been no lease for a while.
    pub fn keep_renewed(&self, tier: &dyn LeasingTier) {
        let mut idle = 0;
        loop {
            thread::sleep(RENEW);
            idle = if self.renew(tier) { 0 } else { idle + 1 };
            if idle >= IDLE_MAX {
                let mut state = self.lock();
                if state.held.is_empty() {
                    state.has_thread = false;
                    return;
                }
            }
        }
    }
}
