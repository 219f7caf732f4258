//! What is overwritten first: what has expired or was flushed, then what was not read.
//!
//! A ring overwrites its oldest record. One that was read since it was written, or since it was
//! last spared, is written again at the head instead, as in the clock algorithm; so each set
//! may move some records, up to a bound.

use std::sync::atomic::Ordering;

use super::super::super::tier::TierError;
use super::super::layout::{self, RECORD_HEADER_BYTES, RecordHead, RecordPlace, SLOTS};
use super::MappedFile;
use super::index::MappedBucket;
use super::keys::key_hash;
use super::reads::read_front;

/// Units of [`layout::UNIT`] bytes that one set moves at most: 128 KiB.
const MOVED_MAX: u64 = 2_048;

impl MappedFile {
    /// The position of a record of `units` to be written next; older records that are worth it are
    /// moved first. The stripe must be locked.
    pub fn make_room(&self, stripe: u32, units: u64, now_ms: u64) -> Result<u64, TierError> {
        let layout = &self.opened.layout;
        let mut head = self.head(stripe)?;
        let mut tail = self.tail(stripe, head);
        let mut moved = 0;
        loop {
            let position = layout.place(head, units);
            if tail >= layout.whole_from(position + units) {
                self.word(layout.tail_at(stripe))
                    .store(tail.to_le(), Ordering::Relaxed);
                return Ok(position);
            }
            let Some(record) = self.record_at_tail(stripe, tail, head) else {
                // Nothing was written from here to the end of the ring, or by a writer that was
                // killed.
                tail = layout.next_lap(tail).min(head);
                continue;
            };
            tail += record.units;
            if moved + record.units > MOVED_MAX {
                continue;
            }
            let to = layout.place(head, record.units);
            if tail >= layout.whole_from(to + record.units)
                && self.move_record(stripe, record, to, now_ms)?
            {
                head = to + record.units;
                moved += record.units;
            }
        }
    }

    /// The position of the oldest record that is followed; one that cannot be is the head, from
    /// where records are followed again.
    fn tail(&self, stripe: u32, head: u64) -> u64 {
        let layout = &self.opened.layout;
        let tail = u64::from_le(self.word(layout.tail_at(stripe)).load(Ordering::Relaxed));
        let is_possible = tail <= head && tail >= layout.whole_from(head);
        if is_possible { tail } else { head }
    }

    fn record_at_tail(&self, stripe: u32, tail: u64, head: u64) -> Option<RecordPlace> {
        let front = self.record_bytes(stripe, tail, RECORD_HEADER_BYTES);
        let (found, key, value) = read_front(front)?;
        let units = layout::units(key, value);
        let is_record = found.position == tail && units <= head - tail;
        is_record.then_some(RecordPlace {
            position: tail,
            units,
        })
    }

    /// Writes the record again at `to` if it is the one that its key has, was visited, and is alive
    /// and right. Whether it did.
    fn move_record(
        &self,
        stripe: u32,
        record: RecordPlace,
        to: u64,
        now_ms: u64,
    ) -> Result<bool, TierError> {
        let Some((found, bytes)) = self.found(stripe, record) else {
            return Ok(false);
        };
        let Some(name) = bytes.part(RECORD_HEADER_BYTES, found.key) else {
            return Ok(false);
        };
        let place = self.place_of(key_hash(&name.to_vec()));
        let bucket = self.bucket(place);
        let slot = match bucket.bucket.slot_of(place.tag) {
            Some((slot, found)) if place.stripe == stripe && found == record => slot,
            _ => return Ok(false),
        };
        if !bucket.is_visited(slot) || self.is_dead(stripe, record, now_ms) {
            return Ok(false);
        }
        let bytes = bytes.to_vec();
        let Some((head, key, value)) = layout::read_record(&bytes, self.opened.seed) else {
            return Ok(false);
        };
        let (key, value) = bytes[RECORD_HEADER_BYTES..][..key + value].split_at(key);
        let head = RecordHead {
            position: to,
            ..head
        };
        let bytes = layout::record_bytes(head, key, value, self.opened.seed);
        self.write_record(stripe, to, record.units, &bytes)?;
        let mut bucket = self.bucket(place);
        let moved = RecordPlace {
            position: to,
            units: record.units,
        };
        bucket.bucket.put_record(slot, place.tag, moved);
        bucket.forget_visit(slot);
        self.store_bucket(&bucket);
        Ok(true)
    }

    /// Whether no read would give this record: it has expired, or its group was flushed.
    fn is_dead(&self, stripe: u32, record: RecordPlace, now_ms: u64) -> bool {
        self.found(stripe, record).is_none_or(|(found, bytes)| {
            let name = bytes.part(RECORD_HEADER_BYTES, found.key);
            let is_current = name.is_some_and(|name| self.is_of_this_generation(&name.to_vec()));
            now_ms >= found.until_ms || !is_current
        })
    }

    /// The slot for a new record: an empty one, or that of the record that is missed least. Never
    /// that of a value of this tag that a reader would get.
    pub fn slot_for_new(
        &self,
        stripe: u32,
        bucket: &mut MappedBucket,
        tag: u32,
        now_ms: u64,
    ) -> Result<usize, TierError> {
        let head = self.head(stripe)?;
        let is_free = |slot: &usize| {
            let record = bucket.bucket.record(*slot);
            record.is_none_or(|record| !self.opened.layout.is_whole(head, record.position))
        };
        let slot = (1..=SLOTS).find(is_free);
        let slot = slot.unwrap_or_else(|| self.least_missed(stripe, bucket, tag, now_ms));
        if bucket.is_visited(slot) {
            // All of them were: each has to be read again to be spared.
            bucket.forget_visits();
        }
        bucket.forget_visit(slot);
        Ok(slot)
    }

    fn least_missed(&self, stripe: u32, bucket: &MappedBucket, tag: u32, now_ms: u64) -> usize {
        let rank = |slot: &usize| {
            let record = bucket.bucket.record(*slot);
            record.map_or((0, 0), |record| {
                let its_tag = bucket.bucket.tag(*slot);
                // Of two slots that a killed writer left, the one behind goes first: no reader
                // that found the other may come to find it.
                let found = bucket.bucket.slot_of(its_tag);
                let is_found = found.is_some_and(|(found, _)| found == *slot);
                let is_alive = is_found && !self.is_dead(stripe, record, now_ms);
                let rank = match (is_alive, its_tag == tag) {
                    (false, _) => 0,
                    (true, false) => 1 + u8::from(bucket.is_visited(*slot)),
                    (true, true) => u8::MAX,
                };
                (rank, record.position)
            })
        };
        (1..=SLOTS).min_by_key(rank).unwrap_or(1)
    }
}
