//! A tier in memory that fails when a test wants it to, and counts how often it is used.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tiers::{
    LeaseAct, LeaseAnswer, LeaseHolder, LeasingTier, Lookup, MissTicket, NEVER_MS, NarrowTier,
    Stored, Tier, TierError, TierFault, TierHit,
};

/// A value, and when it was written, 0 if nothing said so.
type Written = (Vec<u8>, u64);

#[derive(Default)]
pub struct FaultyTier {
    values: Mutex<HashMap<Vec<u8>, Written>>,
    /// Runs after each value is stored.
    pub after_set: Mutex<Option<fn()>>,
    deletions: AtomicU64,
    leases: Mutex<HashMap<Vec<u8>, LeaseHolder>>,
    pub is_failing: AtomicBool,
    pub fail_leases: AtomicBool,
    pub reads: AtomicU64,
    pub checks: AtomicU64,
}

impl FaultyTier {
    fn fail(&self) -> Result<(), TierError> {
        if self.is_failing.load(Ordering::SeqCst) {
            return Err(TierError::new(TierFault::Io, "it was made to fail"));
        }
        Ok(())
    }

    fn ticket_now(&self) -> MissTicket {
        MissTicket {
            epoch: 0,
            deletions: self.deletions.load(Ordering::SeqCst),
        }
    }

    /// As if another process had taken, or given back, the lease of every key.
    pub fn lease_elsewhere(&self, keys: &[Vec<u8>], is_taken: bool) {
        let mut leases = self.leases.lock().unwrap();
        leases.clear();
        if is_taken {
            leases.extend(keys.iter().map(|key| (key.clone(), [9; 16])));
        }
    }

    pub fn leased(&self) -> Vec<Vec<u8>> {
        self.leases.lock().unwrap().keys().cloned().collect()
    }

    pub fn fail_from_now(&self, is_failing: bool) {
        self.is_failing.store(is_failing, Ordering::SeqCst);
    }

    pub fn len(&self) -> usize {
        self.values.lock().unwrap().len()
    }
}

impl LeasingTier for FaultyTier {
    fn lease(
        &self,
        key: &[u8],
        holder: &LeaseHolder,
        act: LeaseAct,
    ) -> Result<LeaseAnswer, TierError> {
        self.fail()?;
        if self.fail_leases.load(Ordering::SeqCst) {
            return Err(TierError::new(TierFault::Busy, "it was made to fail"));
        }
        let mut leases = self.leases.lock().unwrap();
        let is_free = matches!(act, LeaseAct::Take { .. }) && !leases.contains_key(key);
        if !is_free && leases.get(key) != Some(holder) {
            return Ok(LeaseAnswer::Other);
        }
        if act == LeaseAct::Release {
            leases.remove(key);
        } else {
            leases.insert(key.to_vec(), *holder);
        }
        Ok(LeaseAnswer::Own)
    }
}

impl NarrowTier for FaultyTier {
    fn set_known_at(
        &self,
        key: &[u8],
        value: &[u8],
        _: Option<u64>,
        ticket: Option<MissTicket>,
        known_ms: u64,
    ) -> Result<Stored, TierError> {
        self.fail()?;
        let mut values = self.values.lock().unwrap();
        if ticket.is_some_and(|ticket| ticket != self.ticket_now()) {
            return Ok(Stored::Overtaken);
        }
        values.insert(key.to_vec(), (value.to_vec(), known_ms));
        if let Some(act) = *self.after_set.lock().unwrap() {
            act();
        }
        Ok(Stored::Kept)
    }
}

impl Tier for FaultyTier {
    fn check(&self) -> Result<(), TierError> {
        let checked = self.fail();
        // Last: a test that sees the count may end the failure.
        self.checks.fetch_add(1, Ordering::SeqCst);
        checked
    }

    fn get(&self, key: &[u8]) -> Result<Lookup, TierError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.fail()?;
        let values = self.values.lock().unwrap();
        Ok(match values.get(key) {
            Some((value, written_ms)) => {
                let all = 0..value.len();
                Lookup::Hit(TierHit::new(value.clone(), all, *written_ms, NEVER_MS))
            }
            None => Lookup::Miss(self.ticket_now()),
        })
    }

    fn ticket(&self, _: &[u8]) -> Result<MissTicket, TierError> {
        self.fail()?;
        Ok(self.ticket_now())
    }

    fn set(
        &self,
        key: &[u8],
        value: &[u8],
        lifetime_ms: Option<u64>,
        ticket: Option<MissTicket>,
    ) -> Result<Stored, TierError> {
        self.set_known_at(key, value, lifetime_ms, ticket, 0)
    }

    fn leases(&self) -> Option<&dyn LeasingTier> {
        Some(self)
    }

    fn delete(&self, key: &[u8]) -> Result<bool, TierError> {
        self.fail()?;
        let mut values = self.values.lock().unwrap();
        self.deletions.fetch_add(1, Ordering::SeqCst);
        Ok(values.remove(key).is_some())
    }

    fn clear(&self) -> Result<(), TierError> {
        self.fail()?;
        let mut values = self.values.lock().unwrap();
        self.deletions.fetch_add(1, Ordering::SeqCst);
        values.clear();
        Ok(())
    }
}
