//! Writes, each under the lock of one stripe.
//!
//! The head is raised first, then the record is written, then a slot that names it is stored, then
//! that of the value before is emptied. Killed between any two of these, a writer leaves the value
//! before or its own: a slot has two words, and one that is stored half names nothing.

use std::os::unix::fs::FileExt;

use super::super::super::host::Host;
use super::super::super::tier::{NEVER_MS, TierError, TierFault};
use super::super::failed::io;
use super::super::layout::{self, KeyPlace, RECORD_HEADER_BYTES, RecordHead, RecordPlace};
use super::super::lock::Patience;
use super::index::MappedBucket;
use super::keys::KeyName;
use super::reads::MappedHit;
use super::{MappedEntry, MappedFile, MappedStored, MappedTicket, MappedWhen};

impl MappedFile {
    pub fn set(&self, entry: &MappedEntry<'_>, host: &Host) -> Result<MappedStored, TierError> {
        let (group, key) = (entry.group, entry.key);
        let name = self.name(group, key);
        self.check_size(&name, entry.value)?;
        let _lock = self.opened.lock(name.place.stripe, Patience::Set, host)?;
        let bucket = self.locked_bucket(name.place);
        let now = self.ticket_of(&self.name(group, key), bucket.bucket.deletions());
        let now_ms = self.now_ms(host);
        let is_wanted = match entry.when {
            MappedWhen::Always => true,
            MappedWhen::Absent => self.live(&name, &bucket, now_ms).is_none(),
            MappedWhen::Present => self.live(&name, &bucket, now_ms).is_some(),
        };
        if !is_wanted {
            return Ok(MappedStored::Refused);
        }
        if entry.ticket.is_some_and(|ticket| ticket != now) {
            return Ok(MappedStored::Overtaken);
        }
        let until_ms = entry
            .lifetime_ms
            .map_or(NEVER_MS, |life_ms| now_ms.saturating_add(life_ms));
        self.write(&name, entry.value, until_ms, now_ms)?;
        Ok(MappedStored::Kept)
    }

    pub fn update(
        &self,
        group: &[u8],
        key: &[u8],
        change: &impl Fn(&[u8]) -> Option<Vec<u8>>,
        host: &Host,
    ) -> Result<MappedStored, TierError> {
        let name = self.name(group, key);
        let _lock = self
            .opened
            .lock(name.place.stripe, Patience::Delete, host)?;
        let bucket = self.locked_bucket(name.place);
        let now_ms = self.now_ms(host);
        let Some(hit) = self.live(&name, &bucket, now_ms) else {
            return Ok(MappedStored::Refused);
        };
        let until_ms = match hit.until_ms {
            NEVER_MS => NEVER_MS,
            until_ms => until_ms.wrapping_add(self.offset_ms),
        };
        let Some(value) = hit.to_vec().and_then(|value| change(&value)) else {
            return Ok(MappedStored::Refused);
        };
        self.check_size(&name, &value)?;
        self.write(&name, &value, until_ms, now_ms)?;
        Ok(MappedStored::Kept)
    }

    pub fn delete(
        &self,
        group: &[u8],
        key: &[u8],
        host: &Host,
    ) -> Result<(bool, MappedTicket), TierError> {
        let name = self.name(group, key);
        let _lock = self
            .opened
            .lock(name.place.stripe, Patience::Delete, host)?;
        let mut bucket = self.locked_bucket(name.place);
        let was_there = self.live(&name, &bucket, self.now_ms(host)).is_some();
        self.take_out(name.place, &mut bucket)?;
        let ticket = self.ticket_of(&name, bucket.bucket.deletions());
        Ok((was_there, ticket))
    }

    /// Removes the value of each key with this hash.
    pub fn forget(&self, hash: u64, host: &Host) -> Result<(), TierError> {
        let place = self.place_of(hash);
        let _lock = self.opened.lock(place.stripe, Patience::Delete, host)?;
        let mut bucket = self.locked_bucket(place);
        self.take_out(place, &mut bucket)
    }

    fn take_out(&self, place: KeyPlace, bucket: &mut MappedBucket) -> Result<(), TierError> {
        self.leave_clean()?;
        bucket.bucket.count_on();
        bucket.bucket.remove(place.tag);
        self.store_bucket(bucket);
        Ok(())
    }

    /// The bucket, with a count of deletions that is whole, and one slot at most of the tag: a
    /// writer killed while it counted or replaced one had not said yet that it is done. Of two
    /// slots the one that readers find stays.
    fn locked_bucket(&self, place: KeyPlace) -> MappedBucket {
        let mut bucket = self.bucket(place);
        let found = bucket.bucket.slot_of(place.tag);
        let mut is_mended = found.is_some_and(|(slot, _)| bucket.bucket.keep_only(place.tag, slot));
        if bucket.bucket.deletions().is_none() {
            bucket.bucket.count_on();
            is_mended = true;
        }
        if is_mended {
            self.store_bucket(&bucket);
            bucket = self.bucket(place);
        }
        bucket
    }

    fn live(&self, name: &KeyName, bucket: &MappedBucket, now_ms: u64) -> Option<MappedHit<'_>> {
        self.hit(name, bucket.bucket.find(name.place.tag)?, now_ms)
    }

    /// Writes a record and its slot. The stripe must be locked.
    fn write(
        &self,
        name: &KeyName,
        value: &[u8],
        until_ms: u64,
        written_ms: u64,
    ) -> Result<(), TierError> {
        self.leave_clean()?;
        let stripe = name.place.stripe;
        let units = layout::units(name.bytes.len(), value.len());
        let position = self.make_room(stripe, units, written_ms)?;
        let head = RecordHead {
            position,
            until_ms,
            written_ms,
        };
        let bytes = layout::record_bytes(head, &name.bytes, value, self.opened.seed);
        let written = self.write_record(stripe, position, units, &bytes);
        // Making room may have moved a record of this bucket.
        let mut bucket = self.bucket(name.place);
        let tag = name.place.tag;
        let mut kept = 0;
        if written.is_ok() {
            kept = self.slot_for_new(stripe, &mut bucket, tag, written_ms)?;
            let record = RecordPlace { position, units };
            bucket.bucket.put_record(kept, tag, record);
            self.seen.note(stripe, position);
            self.store_bucket(&bucket);
        }
        if bucket.bucket.keep_only(tag, kept) {
            self.store_bucket(&bucket);
        }
        written
    }

    /// Raises the head over a record, then writes it.
    pub fn write_record(
        &self,
        stripe: u32,
        position: u64,
        units: u64,
        bytes: &[u8],
    ) -> Result<(), TierError> {
        self.raise_head(stripe, position + units);
        let at = self.opened.layout.record_at(stripe, position);
        self.opened.file.write_all_at(bytes, at).map_err(io)
    }

    fn check_size(&self, name: &KeyName, value: &[u8]) -> Result<(), TierError> {
        let max = self.opened.layout.record_bytes_max - RECORD_HEADER_BYTES;
        let key = name.bytes.len();
        if key <= max && value.len() <= max - key {
            return Ok(());
        }
        let value = value.len();
        let text = format!("key and value have {key} + {value} bytes, an entry at most {max}");
        Err(TierError::new(TierFault::TooLarge, text))
    }
}
