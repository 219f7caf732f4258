//! Reads, which lock nothing, and records, which are written where no other process writes.
//!
//! A writer raises the head of a ring, then writes the record, then the bucket that names it.
//! Killed between any two of these, it leaves the old record of the key or none: a position is used
//! once, so no bucket can come to name a record that was written later. The head is raised under
//! the lock of its ring, and the bucket written under its own; the record is written with neither.

use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use super::super::host::Host;
use super::super::tier::{Lookup, MissTicket, NEVER_MS, Stored, TierError, TierFault, TierHit};
use super::failed::{damaged, io};
use super::fresh;
use super::layout::{
    self, Bucket, HEAD_BYTES, KeyPlace, RECORD_HEADER_BYTES, RecordHead, RecordPlace, UNIT,
};
use super::lock::{LockedBytes, PartGuard, Patience};
use super::opened::OpenedFile;

/// How often a reader looks again when a record was overwritten between its slot and its bytes.
const TRIES: u32 = 3;

/// A record on its way into the file.
#[derive(Clone, Copy)]
pub struct NewRecord<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// For ever if `None`.
    pub lifetime_ms: Option<u64>,
}

impl OpenedFile {
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
            if let Some(hit) = self.record(record, key)? {
                if now_ms < hit.until_ms {
                    let found = Lookup::Hit(hit);
                    self.learn(key, &found, place, record);
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

    /// Where the record at this position begins.
    pub fn record_at(&self, position: u64) -> u64 {
        let (ring, in_ring) = self.layout.ring_of(position);
        self.layout.record_at(ring, in_ring)
    }

    pub fn record(&self, place: RecordPlace, key: &[u8]) -> Result<Option<TierHit>, TierError> {
        let length = (place.units * UNIT) as usize;
        if length > self.layout.record_bytes_max {
            return Ok(None);
        }
        let at = self.record_at(place.position);
        let bytes = fresh::read_at(&self.file, length, at).map_err(io)?;
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
        record: NewRecord<'_>,
        ticket: Option<MissTicket>,
        host: &Host,
    ) -> Result<Stored, TierError> {
        let place = self.place(record.key);
        let written = self.append(place.stripe, record, host)?;
        let _lock = self.lock_bucket(place, Patience::Set, host)?;
        let mut bucket = self.sound_bucket(place)?;
        if ticket.is_some_and(|ticket| ticket != self.ticket_of(&bucket)) {
            return Ok(Stored::Overtaken);
        }
        self.name_record(place, &mut bucket, written)?;
        Ok(Stored::Kept)
    }

    /// Writes a record and its slot. The bucket must be locked, and read since.
    pub fn write_record(
        &self,
        place: KeyPlace,
        bucket: &mut Bucket,
        record: NewRecord<'_>,
        host: &Host,
    ) -> Result<(), TierError> {
        let written = self.append(place.stripe, record, host)?;
        self.name_record(place, bucket, written)
    }

    /// Writes a record that no slot names yet, into the ring of this stripe or another one. The
    /// inner failure is one of the disk: what the record was to replace has to go.
    fn append(
        &self,
        stripe: u32,
        record: NewRecord<'_>,
        host: &Host,
    ) -> Result<Result<RecordPlace, TierError>, TierError> {
        self.check_size(record.key.len(), record.value.len())?;
        let units = layout::units(record.key.len(), record.value.len());
        let position = self.reserve(stripe, units, host)?;
        Ok(self.write_at(position, record, host))
    }

    /// A position that no other record has: in the ring of this stripe, or if another process
    /// has that, in the next one that is free. Where processes are many, the one that has it is
    /// hardly ever running.
    fn reserve(&self, stripe: u32, units: u64, host: &Host) -> Result<u64, TierError> {
        let stripes = self.layout.stripes;
        for ring in (stripe..stripes).chain(0..stripe) {
            if let Some(lock) = self.try_lock_ring(ring)? {
                return self.raise_head(&lock, ring, units);
            }
        }
        let lock = self.lock(stripe, Patience::Set, host)?;
        self.raise_head(&lock, stripe, units)
    }

    fn raise_head(&self, _lock: &PartGuard<'_>, ring: u32, units: u64) -> Result<u64, TierError> {
        let position = self.layout.place(self.head(ring)?, units);
        let in_file = self.layout.position_in(ring, position);
        let in_file = in_file.ok_or_else(|| damaged("the cache file has used up its positions"))?;
        self.write_head(ring, position + units)?;
        self.heads[ring as usize].fetch_max(position + units, Ordering::Relaxed);
        Ok(in_file)
    }

    /// Whether the record at this position is surely written over: by what this process knows of
    /// its ring, without a look into the file.
    fn is_gone(&self, position: u64) -> bool {
        let (ring, in_ring) = self.layout.ring_of(position);
        let head = self.heads[ring as usize].load(Ordering::Relaxed);
        head > in_ring && !self.layout.is_whole(head, in_ring)
    }

    /// Writes a record at a position that is its own. Others may have had the ring go round
    /// meanwhile: then this makes one of their records a miss, whose checksum and position are not
    /// those of its slot any more.
    fn write_at(
        &self,
        position: u64,
        record: NewRecord<'_>,
        host: &Host,
    ) -> Result<RecordPlace, TierError> {
        let written_ms = (host.now_ms)();
        let head = RecordHead {
            position,
            until_ms: (record.lifetime_ms)
                .map_or(NEVER_MS, |life_ms| written_ms.saturating_add(life_ms)),
            written_ms,
        };
        let bytes = layout::record_bytes(head, record.key, record.value, self.seed);
        let at = self.record_at(position);
        self.file.write_all_at(&bytes, at).map_err(io)?;
        let units = layout::units(record.key.len(), record.value.len());
        Ok(RecordPlace { position, units })
    }

    /// Has the bucket name a record that was written, or nothing for its key if that failed. The
    /// bucket must be locked, and read since.
    fn name_record(
        &self,
        place: KeyPlace,
        bucket: &mut Bucket,
        written: Result<RecordPlace, TierError>,
    ) -> Result<(), TierError> {
        match &written {
            Ok(record) => bucket.insert(place.tag, *record, |position| self.is_gone(position)),
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

    fn try_lock_ring(&self, ring: u32) -> Result<Option<PartGuard<'_>>, TierError> {
        let bytes = LockedBytes::one(self.layout.head_at(ring));
        self.stripes[ring as usize].try_lock(&self.file, bytes)
    }

    /// Of a mapped file locks the whole stripe, of a copying one its ring.
    pub fn lock(
        &self,
        stripe: u32,
        patience: Patience,
        host: &Host,
    ) -> Result<PartGuard<'_>, TierError> {
        let bytes = LockedBytes::one(self.layout.head_at(stripe));
        let lock = &self.stripes[stripe as usize];
        lock.lock(&self.file, bytes, patience, host.now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::super::FileSettings;
    use super::super::opened::OpenWay;
    use super::*;

    fn opened(folder: &std::path::Path, stripes: u32, host: &Host) -> OpenedFile {
        let settings = FileSettings {
            path: folder.join("own").join("values"),
            bytes: 1 << 20,
            stripes,
            codec: *b"test   1",
        };
        OpenedFile::open(&settings, OpenWay::Copying, host, None).unwrap()
    }

    fn record<'a>(key: &'a [u8], value: &'a [u8]) -> NewRecord<'a> {
        NewRecord {
            key,
            value,
            lifetime_ms: None,
        }
    }

    fn found(file: &OpenedFile, key: &[u8]) -> Option<Vec<u8>> {
        match file.get(key, 0).unwrap() {
            Lookup::Hit(hit) => Some(hit.value().to_vec()),
            Lookup::Miss(_) => None,
        }
    }

    #[test]
    fn record_written_after_its_ring_went_round_makes_no_value_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::of_this_machine(|| 0).unwrap();
        let file = opened(folder.path(), 1, &host);
        file.set(record(b"slow", b"old"), None, &host).unwrap();
        // This writer stops after it has a position, and goes on when the ring has gone round.
        let (place, value) = (file.place(b"slow"), [7; 5_000]);
        let units = layout::units(b"slow".len(), value.len());
        let position = file.reserve(place.stripe, units, &host).unwrap();
        for number in 0..400_u32 {
            let value = vec![number as u8; 5_000];
            let key = number.to_le_bytes();
            file.set(record(&key, &value), None, &host).unwrap();
        }
        let written = file.write_at(position, record(b"slow", &value), &host);
        let mut bucket = file.sound_bucket(place).unwrap();
        file.name_record(place, &mut bucket, written).unwrap();
        assert_eq!(found(&file, b"slow").unwrap(), value);
        // It may have cost others their records, and has made none wrong.
        let kept: Vec<_> = (0..400_u32)
            .filter_map(|number| Some((number, found(&file, &number.to_le_bytes())?)))
            .collect();
        assert!(kept.len() > 100, "{}", kept.len());
        for (number, value) in kept {
            assert_eq!(value, vec![number as u8; 5_000]);
        }
    }

    #[test]
    fn record_goes_into_another_ring_while_its_own_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::of_this_machine(|| 0).unwrap();
        let (file, other) = (
            opened(folder.path(), 3, &host),
            opened(folder.path(), 3, &host),
        );
        let keys: Vec<[u8; 4]> = (0..60_u32).map(u32::to_le_bytes).collect();
        let taken = [0, 2].map(|ring| other.lock(ring, Patience::Set, &host).unwrap());
        for key in &keys {
            file.set(record(key, key), None, &host).unwrap();
        }
        let heads = [0, 1, 2].map(|ring| file.head(ring).unwrap());
        assert_eq!(heads, [0, 60, 0]);
        for key in &keys {
            assert_eq!(found(&other, key).unwrap(), key);
            assert!(other.delete(key, &host).unwrap());
            assert_eq!(found(&file, key), None);
        }
        drop(taken);
        file.set(record(b"k", b"v"), None, &host).unwrap();
        assert_eq!(found(&other, b"k").unwrap(), b"v");
    }
}
