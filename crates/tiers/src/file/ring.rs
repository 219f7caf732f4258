//! Reads, which lock nothing, and records, which are written where no other process writes.
//!
//! A writer raises the head of a ring, then writes the record, then the bucket that names it.
//! Killed between any two of these, it leaves the old record of the key or none: a position is used
//! once, so no bucket can come to name a record that was written later. The head is raised under
//! the lock of its ring, and the bucket written under its own; the record is written with neither.
//! A process that goes on to write raises a head by more than one small record needs, and has the
//! positions between for its next ones.

use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use super::super::host::Host;
use super::super::listing::TokenGuard;
use super::super::tier::{Lookup, MissTicket, NEVER_MS, Stored, TierError, TierFault, TierHit};
use super::failed::{damaged, io};
use super::fresh;
use super::layout::{
    self, Bucket, HEAD_BYTES, KeyPlace, RECORD_HEADER_BYTES, RecordHead, RecordPlace, UNIT,
};
use super::lock::{LockedBytes, PartGuard, Patience};
use super::opened::{OpenedFile, ReservedRun};

/// How often a reader looks again when a record was overwritten between its slot and its bytes.
const TRIES: u32 = 3;

/// A record that takes more than this part of a run has a position of its own: what is left at the
/// end of a run stays empty.
const SHARE_OF_RUN: u64 = 8;

/// A process takes one record, then more and more: few write once, and many end soon.
const RUN_GROWTH: u64 = 8;

/// A record on its way into the file.
#[derive(Clone, Copy)]
pub struct NewRecord<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// For ever if `None`.
    pub lifetime_ms: Option<u64>,
    /// When nothing had invalidated it, before now.
    pub known_ms: Option<u64>,
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
        guard: Option<&TokenGuard>,
        host: &Host,
    ) -> Result<Stored, TierError> {
        let place = self.place(record.key);
        let written = self.append(place.stripe, record, host)?;
        let _lock = self.lock_bucket(place, Patience::Set, host)?;
        let mut bucket = self.sound_bucket(place)?;
        if ticket.is_some_and(|ticket| ticket != self.ticket_of(&bucket)) {
            return Ok(Stored::Overtaken);
        }
        // Under the lock: who deletes the guard waits for it before they look into the bucket.
        if let Some(guard) = guard
            && !self.is_guarded(guard, (host.now_ms)())?
        {
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

    /// A position that no other record has.
    fn reserve(&self, stripe: u32, units: u64, host: &Host) -> Result<u64, TierError> {
        let run_units = self.layout.run_units();
        let is_small = units <= run_units / SHARE_OF_RUN;
        // Another thread may have the run.
        let Some(mut run) = is_small.then(|| self.run.try_lock().ok()).flatten() else {
            return self.position_in(&self.reserve_run(stripe, units, host)?);
        };
        if run.units() < units || !self.is_ahead(&run) {
            // So that rings take about as much each, also where a process writes once.
            let first = match run.size {
                0 => stripe,
                _ => (run.ring + 1) % self.layout.stripes,
            };
            let size = (run.size * RUN_GROWTH).clamp(units, run_units);
            *run = self.reserve_run(first, size, host)?;
        }
        let position = self.position_in(&run)?;
        run.next += units;
        Ok(position)
    }

    fn position_in(&self, run: &ReservedRun) -> Result<u64, TierError> {
        let position = self.layout.position_in(run.ring, run.next);
        position.ok_or_else(|| damaged("the cache file has used up its positions"))
    }

    /// Whether the ring has not come round to a run so far that what is written there would soon be
    /// written over, or would write over what is newer. Another process may be raising the head:
    /// one that is half written, or damaged, is read again under its lock.
    fn is_ahead(&self, run: &ReservedRun) -> bool {
        let head = self.head(run.ring);
        head.is_ok_and(|head| head >= run.end && self.layout.is_in_newer_half(head, run.next))
    }

    /// Positions of this ring, or if another process has that, of the next one that is free. Where
    /// processes are many, the one that has it is hardly ever running.
    fn reserve_run(&self, first: u32, units: u64, host: &Host) -> Result<ReservedRun, TierError> {
        let stripes = self.layout.stripes;
        for ring in (first..stripes).chain(0..first) {
            if let Some(lock) = self.try_lock_ring(ring)? {
                return self.raise_head(&lock, ring, units);
            }
        }
        let lock = self.lock(first, Patience::Set, host)?;
        self.raise_head(&lock, first, units)
    }

    fn raise_head(
        &self,
        _lock: &PartGuard<'_>,
        ring: u32,
        units: u64,
    ) -> Result<ReservedRun, TierError> {
        let next = self.layout.place(self.head(ring)?, units);
        let end = next + units;
        let run = ReservedRun {
            ring,
            next,
            end,
            size: units,
        };
        self.position_in(&run)?;
        self.write_head(ring, end)?;
        self.heads[ring as usize].fetch_max(end, Ordering::Relaxed);
        Ok(run)
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
        let now_ms = (host.now_ms)();
        let head = RecordHead {
            position,
            until_ms: (record.lifetime_ms)
                .map_or(NEVER_MS, |life_ms| now_ms.saturating_add(life_ms)),
            written_ms: record
                .known_ms
                .map_or(now_ms, |known_ms| known_ms.min(now_ms)),
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
            known_ms: None,
        }
    }

    fn found(file: &OpenedFile, key: &[u8]) -> Option<Vec<u8>> {
        match file.get(key, 0).unwrap() {
            Lookup::Hit(hit) => Some(hit.value().to_vec()),
            Lookup::Miss(_) => None,
        }
    }

    #[test]
    fn age_of_a_record_counts_from_when_it_was_known_and_its_lifetime_from_now() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host {
            now_ms: || 5_000,
            ..Host::of_this_machine(|| 0).unwrap()
        };
        let file = opened(folder.path(), 1, &host);
        for (known_ms, written_ms) in [(None, 5_000), (Some(2_000), 2_000), (Some(9_000), 5_000)] {
            let record = NewRecord {
                lifetime_ms: Some(10_000),
                known_ms,
                ..record(b"k", b"v")
            };
            assert_eq!(file.set(record, None, None, &host).unwrap(), Stored::Kept);
            let Lookup::Hit(hit) = file.get(b"k", 5_000).unwrap() else {
                panic!("it was stored");
            };
            assert_eq!((hit.written_ms, hit.until_ms), (written_ms, 15_000));
        }
    }

    #[test]
    fn record_written_after_its_ring_went_round_makes_no_value_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::of_this_machine(|| 0).unwrap();
        let file = opened(folder.path(), 1, &host);
        file.set(record(b"slow", b"old"), None, None, &host)
            .unwrap();
        // This writer stops after it has a position, and goes on when the ring has gone round.
        let (place, value) = (file.place(b"slow"), [7; 5_000]);
        let units = layout::units(b"slow".len(), value.len());
        let position = file.reserve(place.stripe, units, &host).unwrap();
        for number in 0..400_u32 {
            let value = vec![number as u8; 5_000];
            let key = number.to_le_bytes();
            file.set(record(&key, &value), None, None, &host).unwrap();
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
            file.set(record(key, key), None, None, &host).unwrap();
        }
        let heads = [0, 1, 2].map(|ring| file.head(ring).unwrap());
        // Runs of 1, 8 and 64.
        assert_eq!(heads, [0, 73, 0]);
        for key in &keys {
            assert_eq!(found(&other, key).unwrap(), key);
            assert!(other.delete(key, &host).unwrap());
            assert_eq!(found(&file, key), None);
        }
        drop(taken);
        file.set(record(b"k", b"v"), None, None, &host).unwrap();
        assert_eq!(found(&other, b"k").unwrap(), b"v");
    }

    /// Where the record of a key stands, as its slot says.
    fn place_of(file: &OpenedFile, key: &[u8]) -> (u32, u64) {
        let place = file.place(key);
        let record = file.bucket(place).unwrap().find(place.tag).unwrap();
        file.layout.ring_of(record.position)
    }

    #[test]
    fn head_is_raised_ever_less_for_small_records_and_for_each_large_one() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::of_this_machine(|| 0).unwrap();
        let file = opened(folder.path(), 2, &host);
        let run_units = file.layout.run_units();
        let heads = || [0, 1].map(|ring| file.head(ring).unwrap());
        let keys: Vec<_> = (0..2 * run_units).map(u64::to_le_bytes).collect();
        let mut raised = vec![[0, 0]];
        for key in &keys {
            file.set(record(key, b"v"), None, None, &host).unwrap();
            raised.push(heads());
            raised.dedup();
        }
        let stripe = file.place(&keys[0]).stripe;
        assert_eq!(place_of(&file, &keys[0]), (stripe, 0));
        assert_eq!(raised[1][stripe as usize], 1);
        // Of 1, 8, 64, and twice as many as there may be.
        assert_eq!(raised.len(), 1 + 5);
        assert!(keys.iter().all(|key| found(&file, key).unwrap() == b"v"));
        let before = heads();
        let large = vec![7; (run_units / SHARE_OF_RUN * UNIT) as usize];
        file.set(record(b"large", &large), None, None, &host)
            .unwrap();
        let (ring, position) = place_of(&file, b"large");
        let mut after = before;
        after[ring as usize] += layout::units(5, large.len());
        assert_eq!((position, heads()), (before[ring as usize], after));
        // Another process has positions of its own.
        let other = opened(folder.path(), 2, &host);
        other
            .set(record(b"other", b"v"), None, None, &host)
            .unwrap();
        let before = heads();
        file.set(record(b"more", b"v"), None, None, &host).unwrap();
        assert_eq!(heads(), before);
        assert_ne!(place_of(&file, b"other"), place_of(&file, b"more"));
        for key in [&b"other"[..], b"more"] {
            assert_eq!(found(&file, key).unwrap(), b"v");
        }
    }

    #[test]
    fn processes_that_write_once_use_all_rings() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::of_this_machine(|| 0).unwrap();
        for number in 0..64_u32 {
            let file = opened(folder.path(), 2, &host);
            file.set(record(&number.to_le_bytes(), b"v"), None, None, &host)
                .unwrap();
        }
        let file = opened(folder.path(), 2, &host);
        let heads = [0, 1].map(|ring| file.head(ring).unwrap());
        assert_eq!(heads.iter().sum::<u64>(), 64);
        assert!(heads.iter().all(|head| *head > 10), "{heads:?}");
    }

    #[test]
    fn run_is_given_up_when_the_ring_has_gone_half_round() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::of_this_machine(|| 0).unwrap();
        let (file, other) = (
            opened(folder.path(), 1, &host),
            opened(folder.path(), 1, &host),
        );
        for key in [b"first", b"again"] {
            file.set(record(key, b"v"), None, None, &host).unwrap();
        }
        let mut number = 0_u32;
        let mut write_until = |end: u64| {
            while file.head(0).unwrap() < end {
                other
                    .set(record(&number.to_le_bytes(), &[7; 300]), None, None, &host)
                    .unwrap();
                number += 1;
            }
        };
        // 1 MiB has some 15,300 units.
        write_until(7_000);
        file.set(record(b"second", b"v"), None, None, &host)
            .unwrap();
        assert_eq!(place_of(&file, b"second"), (0, 2));
        write_until(9_000);
        let head = file.head(0).unwrap();
        file.set(record(b"third", b"v"), None, None, &host).unwrap();
        assert!(place_of(&file, b"third").1 >= head);
        // A head that another process is writing is none yet.
        let third = place_of(&file, b"third").1;
        let at = file.layout.head_at(0);
        let whole = layout::head_bytes(file.head(0).unwrap(), 0, file.seed);
        file.file.write_all_at(&[0xff; 4], at).unwrap();
        assert!(!file.is_ahead(&file.run.lock().unwrap()));
        file.file.write_all_at(&whole, at).unwrap();
        file.set(record(b"fourth", b"v"), None, None, &host)
            .unwrap();
        assert_eq!(place_of(&file, b"fourth").1, third + 1);
    }
}
