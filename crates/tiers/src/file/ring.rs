//! Reads, which lock nothing, and writes, which lock one stripe.
//!
//! A writer raises the head first, then writes the record, then the bucket that names it. Killed
//! between any two of these, it leaves the old record of the key or none: a position is used once,
//! so no bucket can come to name a record that was written later. Head and bucket are written under
//! the lock; between them a large record is written without it, and in the end the bucket names it
//! only if the ring has not gone round meanwhile.

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
/// A value of so many bytes is written while its stripe is not locked: where processes are many,
/// one that has to stop in the middle would keep all others from the stripe until it goes on.
const APART_FROM_BYTES: usize = 1_024;
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
        let apart = if value.len() < APART_FROM_BYTES {
            None
        } else {
            let units = layout::units(key.len(), value.len());
            let position = {
                let _lock = self.lock(place.stripe, Patience::Set, host)?;
                self.reserve(place.stripe, units)?
            };
            Some(self.write_at(place.stripe, position, key, value, lifetime_ms, host))
        };
        let _lock = self.lock(place.stripe, Patience::Set, host)?;
        let mut bucket = self.sound_bucket(place)?;
        if ticket.is_some_and(|ticket| ticket != self.ticket_of(&bucket)) {
            return Ok(Stored::Overtaken);
        }
        match apart {
            None => self.write_record(place, &mut bucket, key, value, lifetime_ms, host)?,
            Some(written) => {
                let head = self.head(place.stripe)?;
                self.name_record(place, &mut bucket, head, written)?;
            }
        }
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
        let position = self.reserve(place.stripe, units)?;
        let written = self.write_at(place.stripe, position, key, value, lifetime_ms, host);
        self.name_record(place, bucket, position + units, written)
    }

    /// A position that no other record has. The stripe must be locked.
    fn reserve(&self, stripe: u32, units: u64) -> Result<u64, TierError> {
        let position = self.layout.place(self.head(stripe)?, units);
        self.write_head(stripe, position + units)?;
        Ok(position)
    }

    /// Writes a record at a position that is its own, whether or not the stripe is locked. Others
    /// may have had the ring go round meanwhile: then this makes one of their records a miss, whose
    /// checksum and position are not those of its slot any more.
    fn write_at(
        &self,
        stripe: u32,
        position: u64,
        key: &[u8],
        value: &[u8],
        lifetime_ms: Option<u64>,
        host: &Host,
    ) -> Result<RecordPlace, TierError> {
        let written_ms = (host.now_ms)();
        let record = RecordHead {
            position,
            until_ms: lifetime_ms.map_or(NEVER_MS, |life| written_ms.saturating_add(life)),
            written_ms,
        };
        let bytes = layout::record_bytes(record, key, value, self.seed);
        let at = self.layout.record_at(stripe, position);
        self.file.write_all_at(&bytes, at).map_err(io)?;
        let units = layout::units(key.len(), value.len());
        Ok(RecordPlace { position, units })
    }

    /// Has the bucket name a record that was written, or nothing for its key if that failed. The
    /// stripe must be locked, and the bucket and the head read since.
    fn name_record(
        &self,
        place: KeyPlace,
        bucket: &mut Bucket,
        head: u64,
        written: Result<RecordPlace, TierError>,
    ) -> Result<(), TierError> {
        let written = written.and_then(|record| {
            if self.layout.is_whole(head, record.position) {
                return Ok(record);
            }
            let text = "the value was written over before it was whole";
            Err(TierError::new(TierFault::Busy, text))
        });
        match &written {
            Ok(record) => bucket.insert(place.tag, *record, head, &self.layout),
            // The value that the new one was to replace may not stay.
            Err(_) => drop(bucket.remove(place.tag)),
        }
        self.write_bucket(place, bucket)?;
        written.map(drop)
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

#[cfg(test)]
mod tests {
    use super::super::FileSettings;
    use super::super::opened::OpenWay;
    use super::*;

    #[test]
    fn record_that_the_ring_went_round_over_is_not_named() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::of_this_machine(|| 0).unwrap();
        let settings = FileSettings {
            path: folder.path().join("own").join("values"),
            bytes: 1 << 20,
            stripes: 1,
            codec: *b"test   1",
        };
        let file = OpenedFile::open(&settings, OpenWay::Copying, &host, None).unwrap();
        let found = |key: &[u8]| match file.get(key, 0).unwrap() {
            Lookup::Hit(hit) => Some(hit.value().to_vec()),
            Lookup::Miss(_) => None,
        };
        file.set(b"slow", b"old", None, None, &host).unwrap();
        // This writer stops after it has a position, and goes on when the ring has gone round.
        let (place, value) = (file.place(b"slow"), [7; 5_000]);
        let units = layout::units(b"slow".len(), value.len());
        let position = file.reserve(place.stripe, units).unwrap();
        let key = |number: u32| number.to_le_bytes();
        for number in 0..400 {
            let value = vec![number as u8; 5_000];
            file.set(&key(number), &value, None, None, &host).unwrap();
        }
        let written = file.write_at(place.stripe, position, b"slow", &value, None, &host);
        let mut bucket = file.sound_bucket(place).unwrap();
        let head = file.head(place.stripe).unwrap();
        let named = file.name_record(place, &mut bucket, head, written);
        assert_eq!(named.unwrap_err().fault, TierFault::Busy);
        assert_eq!(found(b"slow"), None);
        // It may have cost others their records, and has made none wrong.
        let kept = (0..400).filter(|number| match found(&key(*number)) {
            Some(value) => value == vec![*number as u8; 5_000],
            None => false,
        });
        let kept = kept.count();
        let there = (0..400)
            .filter(|number| found(&key(*number)).is_some())
            .count();
        assert!(kept == there && kept > 100, "{kept} {there}");
    }
}
