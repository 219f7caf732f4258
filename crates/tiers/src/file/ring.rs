//! Reads, which lock nothing, and writes, which lock one stripe.
//!
//! A writer raises the head first, then writes the record, then the bucket that names it. Killed
//! between any two of these, it leaves the old record of the key or none: a position is used once,
//! so no bucket can come to name a record that was written later.

use std::os::unix::fs::FileExt;

use super::super::host::Host;
use super::super::tier::{Lookup, MissTicket, NEVER_MS, Stored, TierError, TierFault, TierHit};
use super::failed::{damaged, io};
use super::layout::{
    self, BUCKET_BYTES, Bucket, HEAD_BYTES, KeyPlace, RECORD_HEADER_BYTES, RecordHead, RecordPlace,
    UNIT,
};
use super::lock::Patience;
use super::opened::OpenedFile;

/// How often a reader looks again when a record was overwritten between its slot and its bytes.
const TRIES: u32 = 3;
/// Buckets that [`OpenedFile::clear`] holds in memory at once.
const BUCKETS_AT_ONCE: usize = 256;

impl OpenedFile {
    /// The bucket, to be written again.
    pub fn sound_bucket(&self, place: KeyPlace) -> Result<Bucket, TierError> {
        let bucket = self.bucket(place)?;
        match bucket.deletions() {
            Some(_) => Ok(bucket),
            None => Err(damaged("a bucket of the cache file is damaged")),
        }
    }

    pub fn bucket(&self, place: KeyPlace) -> Result<Bucket, TierError> {
        let at = self.layout.bucket_at(place.stripe, place.bucket);
        let mut bytes = [0; BUCKET_BYTES];
        self.file.read_exact_at(&mut bytes, at).map_err(io)?;
        Ok(Bucket::new(bytes, at, self.seed))
    }

    pub fn write_bucket(&self, place: KeyPlace, bucket: &Bucket) -> Result<(), TierError> {
        let at = self.layout.bucket_at(place.stripe, place.bucket);
        self.file.write_all_at(bucket.bytes(), at).map_err(io)
    }

    pub fn place(&self, key: &[u8]) -> KeyPlace {
        KeyPlace::new(key, self.seed, &self.layout)
    }

    pub fn get(&self, key: &[u8], now_ms: u64) -> Result<Lookup, TierError> {
        let place = self.place(key);
        let mut seen = None;
        let mut bucket = self.bucket(place)?;
        for _ in 0..TRIES {
            let Some(record) = bucket.find(place.tag) else {
                break;
            };
            if let Some(hit) = self.record(place.stripe, record, key)? {
                if now_ms < hit.until_ms {
                    let found = Lookup::Hit(hit);
                    self.learn(key, &found, record);
                    return Ok(found);
                }
                break;
            }
            // The same record again is damaged or of another key, and not being replaced.
            if seen.replace(record) == Some(record) {
                break;
            }
            bucket = self.bucket(place)?;
        }
        Ok(Lookup::Miss(self.ticket_of(&bucket)))
    }

    pub fn ticket(&self, key: &[u8]) -> Result<MissTicket, TierError> {
        Ok(self.ticket_of(&self.bucket(self.place(key))?))
    }

    /// A ticket of damaged bytes is void: the number before the first deletion comes last.
    fn ticket_of(&self, bucket: &Bucket) -> MissTicket {
        MissTicket {
            epoch: self.seed,
            deletions: bucket.deletions().unwrap_or(u64::MAX),
        }
    }

    pub fn record(
        &self,
        stripe: u32,
        place: RecordPlace,
        key: &[u8],
    ) -> Result<Option<TierHit>, TierError> {
        let length = (place.units * UNIT) as usize;
        if length > self.layout.record_bytes_max {
            return Ok(None);
        }
        let mut bytes = vec![0; length];
        let at = self.layout.record_at(stripe, place.position);
        self.file.read_exact_at(&mut bytes, at).map_err(io)?;
        let Some((head, key_length, value_length)) = layout::read_record(&bytes, self.seed) else {
            return Ok(None);
        };
        let value = RECORD_HEADER_BYTES + key_length;
        if head.position != place.position || bytes[RECORD_HEADER_BYTES..value] != *key {
            return Ok(None);
        }
        let range = value..value + value_length;
        Ok(Some(TierHit::new(
            bytes,
            range,
            head.written_ms,
            head.until_ms,
        )))
    }

    pub fn set(
        &self,
        key: &[u8],
        value: &[u8],
        lifetime_ms: Option<u64>,
        ticket: Option<MissTicket>,
        host: &Host,
    ) -> Result<Stored, TierError> {
        self.check_size(key.len(), value.len())?;
        let place = self.place(key);
        let _lock = self.lock(place.stripe, Patience::Set, host)?;
        let mut bucket = self.sound_bucket(place)?;
        if ticket.is_some_and(|ticket| ticket != self.ticket_of(&bucket)) {
            return Ok(Stored::Overtaken);
        }
        self.write_record(place, &mut bucket, key, value, lifetime_ms, host)?;
        Ok(Stored::Kept)
    }

    /// Writes a record and its slot. The stripe must be locked, and the bucket read since.
    pub fn write_record(
        &self,
        place: KeyPlace,
        bucket: &mut Bucket,
        key: &[u8],
        value: &[u8],
        lifetime_ms: Option<u64>,
        host: &Host,
    ) -> Result<(), TierError> {
        let units = layout::units(key.len(), value.len());
        let position = self.layout.place(self.head(place.stripe)?, units);
        let head = position + units;
        self.write_head(place.stripe, head)?;
        let written_ms = (host.now_ms)();
        let record = RecordHead {
            position,
            until_ms: lifetime_ms.map_or(NEVER_MS, |life| written_ms.saturating_add(life)),
            written_ms,
        };
        let bytes = layout::record_bytes(record, key, value, self.seed);
        let at = self.layout.record_at(place.stripe, position);
        let written = self.file.write_all_at(&bytes, at).map_err(io);
        if written.is_ok() {
            let record = RecordPlace { position, units };
            bucket.insert(place.tag, record, head, &self.layout);
        } else {
            // The value that the new one was to replace may not stay.
            bucket.remove(place.tag);
        }
        self.write_bucket(place, bucket)?;
        written
    }

    fn check_size(&self, key: usize, value: usize) -> Result<(), TierError> {
        let max = self.layout.record_bytes_max - RECORD_HEADER_BYTES;
        if key <= max && value <= max - key {
            return Ok(());
        }
        let text = format!("key and value have {key} + {value} bytes, an entry at most {max}");
        Err(TierError::new(TierFault::TooLarge, text))
    }

    pub fn head(&self, stripe: u32) -> Result<u64, TierError> {
        let mut bytes = [0; HEAD_BYTES];
        let at = self.layout.head_at(stripe);
        self.file.read_exact_at(&mut bytes, at).map_err(io)?;
        let head = layout::read_head(&bytes, stripe, self.seed);
        head.ok_or_else(|| damaged("the head of a ring of the cache file is damaged"))
    }

    fn write_head(&self, stripe: u32, head: u64) -> Result<(), TierError> {
        let bytes = layout::head_bytes(head, stripe, self.seed);
        let at = self.layout.head_at(stripe);
        self.file.write_all_at(&bytes, at).map_err(io)
    }

    pub fn lock<'a>(
        &'a self,
        stripe: u32,
        patience: Patience,
        host: &Host,
    ) -> Result<super::lock::StripeGuard<'a>, TierError> {
        let lock = &self.stripes[stripe as usize];
        lock.lock(
            &self.file,
            self.layout.head_at(stripe),
            patience,
            host.now_ms,
        )
    }

    pub fn delete(&self, key: &[u8], host: &Host) -> Result<bool, TierError> {
        let place = self.place(key);
        let _lock = self.lock(place.stripe, Patience::Delete, host)?;
        let mut bucket = self.sound_bucket(place)?;
        if let Some(deletions) = bucket.deletions() {
            bucket.count_deletion(deletions);
        }
        let was_there = bucket.remove(place.tag);
        self.write_bucket(place, &bucket)?;
        Ok(was_there)
    }

    pub fn clear(&self, host: &Host) -> Result<(), TierError> {
        for stripe in 0..self.layout.stripes {
            let _lock = self.lock(stripe, Patience::Delete, host)?;
            let mut first = 0;
            while first < self.layout.buckets {
                let rest = (self.layout.buckets - first) as usize;
                first += self.clear_buckets(stripe, first, rest.min(BUCKETS_AT_ONCE))?;
            }
        }
        Ok(())
    }

    fn clear_buckets(&self, stripe: u32, first: u32, count: usize) -> Result<u32, TierError> {
        let start = self.layout.bucket_at(stripe, first);
        let mut bytes = vec![0; count * BUCKET_BYTES];
        self.file.read_exact_at(&mut bytes, start).map_err(io)?;
        let (buckets, _) = bytes.as_chunks_mut::<BUCKET_BYTES>();
        for (place, bytes) in buckets.iter_mut().enumerate() {
            let at = start + (place * BUCKET_BYTES) as u64;
            let mut bucket = Bucket::new(*bytes, at, self.seed);
            let Some(deletions) = bucket.deletions() else {
                return Err(damaged("a bucket of the cache file is damaged"));
            };
            bucket.empty();
            bucket.count_deletion(deletions);
            *bytes = *bucket.bytes();
        }
        self.file.write_all_at(&bytes, start).map_err(io)?;
        Ok(count as u32)
    }
}
