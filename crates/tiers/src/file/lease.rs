//! Who of several processes runs the body for a key: a record of its own beside the entry's.

use super::super::host::Host;
use super::super::tier::{LeaseAct, LeaseAnswer, LeaseHolder, TierError};
use super::lock::Patience;
use super::opened::OpenedFile;
use super::ring::NewRecord;

const PREFIX: &[u8] = b"lease";

impl OpenedFile {
    pub fn lease(
        &self,
        key: &[u8],
        holder: &LeaseHolder,
        act: LeaseAct,
        host: &Host,
    ) -> Result<LeaseAnswer, TierError> {
        let name = [PREFIX, key].concat();
        let is_overdue = {
            let place = self.place(&name);
            let _lock = self.lock_bucket(place, Patience::Set, host)?;
            let mut bucket = self.sound_bucket(place)?;
            let found = match bucket.find(place.tag) {
                Some(record) => self.record(record, &name)?,
                None => None,
            };
            let is_own = found.as_ref().is_some_and(|hit| hit.value() == holder);
            let is_over = found
                .as_ref()
                .is_some_and(|hit| (host.now_ms)() >= hit.until_ms);
            let lifetime_ms = match act {
                LeaseAct::Take { lifetime_ms } if found.is_none() || is_own || is_over => {
                    lifetime_ms
                }
                LeaseAct::Renew { lifetime_ms } if is_own => lifetime_ms,
                LeaseAct::Release if is_own => {
                    bucket.remove(place.tag);
                    self.write_bucket(place, &bucket)?;
                    return Ok(LeaseAnswer::Own);
                }
                _ => return Ok(LeaseAnswer::Other),
            };
            let record = NewRecord {
                key: &name,
                value: holder,
                lifetime_ms: Some(lifetime_ms),
                known_ms: None,
            };
            self.write_record(place, &mut bucket, record, host)?;
            is_over && !is_own
        };
        if is_overdue && let Err(error) = self.void_tickets(key, host) {
            // Without this the late holder could still store; so the lease is free again.
            self.lease(key, holder, LeaseAct::Release, host)?;
            return Err(error);
        }
        Ok(LeaseAnswer::Own)
    }

    /// Fences off the holder before: what it computes is not stored, whenever it comes.
    fn void_tickets(&self, key: &[u8], host: &Host) -> Result<(), TierError> {
        let place = self.place(key);
        let _lock = self.lock_bucket(place, Patience::Delete, host)?;
        let mut bucket = self.sound_bucket(place)?;
        bucket.count_on();
        self.write_bucket(place, &bucket)
    }
}
