//! Where things stand in the file, and what they look like as bytes.
//!
//! ```text
//! page of the header and the notices │ stripe │ stripe │ …
//!                                    └ page of its head │ buckets │ ring
//! ```
//! A stripe has the keys whose hash chooses it. Its ring is written from front to end and again
//! from the front. Positions in it count on and on, in units of [`UNIT`] bytes, so that no two
//! records ever have the same one. A bucket holds the slots of some keys: each the position and
//! length of a record and 32 bits of the key's hash.
//!
//! In a mapped file a record is in the ring of its key's stripe, under one lock for both. In a
//! copying one it is in any ring, and its slot has a [`Layout::position_in`] that names the ring.
//!
//! Header, heads, slots and records carry a checksum each; all but the header's are seeded with the
//! file's random number, so that bytes of an older file are never taken for bytes of this one.

use twox_hash::XxHash3_64;

pub const PAGE: u64 = 4_096;
/// Bytes of a position in a ring.
pub const UNIT: u64 = 64;
pub const SLOTS: usize = 15;
/// Divides a page, so that a bucket never lies on two of them and one write is never half done.
pub const BUCKET_BYTES: usize = SLOT_BYTES * (SLOTS + 1);
pub const HEAD_BYTES: usize = 16;
pub const RECORD_HEADER_BYTES: usize = 40;

/// Where the header's page of a mapped file says that another one has taken its place.
pub const OVER_AT: u64 = 256;
/// Where a head's page of a mapped file has the position of the oldest record that is followed.
const TAIL_AT: u64 = 64;
/// Where it has the generations of groups, one word each.
const GENERATIONS_AT: u64 = 1_024;
const GENERATIONS: u64 = (PAGE - GENERATIONS_AT) / 8;

pub const SLOT_BYTES: usize = 16;
/// Bytes of a ring for each bucket: records of less than 273 bytes are crowded out by the lack of
/// slots, larger ones by the lack of space.
const RING_BYTES_PER_BUCKET: u64 = 4_096;
/// A process that writes no more leaves no larger a part of a ring empty.
const RING_PER_RUN: u64 = 32;
/// Some ten records of 10 KB, so that the head is written for few of them.
const RUN_BYTES_MAX: u64 = 128 << 10;
const LENGTH_BITS: u32 = 20;
const POSITION_BITS: u32 = 64 - LENGTH_BITS;
const UNITS_MAX: u64 = (1 << LENGTH_BITS) - 1;

/// The parts of a file of some size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub stripes: u32,
    stripe_bytes: u64,
    pub buckets: u32,
    ring_units: u64,
    pub record_bytes_max: usize,
}

impl Layout {
    /// `None` if so many stripes do not fit.
    pub fn new(bytes: u64, stripes: u32, share: u64) -> Option<Layout> {
        let stripe_bytes = bytes.checked_sub(PAGE)?.checked_div(u64::from(stripes))?;
        let stripe_bytes = stripe_bytes / PAGE * PAGE;
        let usable = stripe_bytes.checked_sub(PAGE)?;
        let buckets = usable / (RING_BYTES_PER_BUCKET + BUCKET_BYTES as u64);
        let ring_units = (usable - buckets * BUCKET_BYTES as u64) / UNIT;
        let record_units = (ring_units / share).min(UNITS_MAX);
        if record_units * UNIT < PAGE || buckets == 0 {
            return None;
        }
        Some(Layout {
            stripes,
            stripe_bytes,
            buckets: u32::try_from(buckets).ok()?,
            ring_units,
            record_bytes_max: usize::try_from(record_units * UNIT).ok()?,
        })
    }

    pub fn head_at(&self, stripe: u32) -> u64 {
        PAGE + u64::from(stripe) * self.stripe_bytes
    }

    /// The word of the generation of a group whose name has this hash, and the stripe whose lock
    /// belongs to it.
    pub fn generation_at(&self, hash: u64) -> (u64, u32) {
        let stripe = (hash % u64::from(self.stripes)) as u32;
        let index = hash / u64::from(self.stripes) % GENERATIONS;
        (self.head_at(stripe) + GENERATIONS_AT + index * 8, stripe)
    }

    pub fn tail_at(&self, stripe: u32) -> u64 {
        self.head_at(stripe) + TAIL_AT
    }

    pub fn bucket_at(&self, stripe: u32, bucket: u32) -> u64 {
        self.head_at(stripe) + PAGE + u64::from(bucket) * BUCKET_BYTES as u64
    }

    /// Where the record at this position begins.
    pub fn record_at(&self, stripe: u32, position: u64) -> u64 {
        self.bucket_at(stripe, self.buckets) + position % self.ring_units * UNIT
    }

    /// Whether so many units from a position on end before the ring does: no record goes beyond,
    /// but a damaged length may.
    pub fn is_within(&self, position: u64, units: u64) -> bool {
        position % self.ring_units + units <= self.ring_units
    }

    /// The position in the whole of a copying file of what has this one in a ring. Rings take about
    /// as much each, so that of two records the one with the smaller number is about the older one.
    /// `None` beyond what a slot can name.
    pub fn position_in(&self, ring: u32, position: u64) -> Option<u64> {
        let all = position.checked_mul(u64::from(self.stripes))? + u64::from(ring);
        (all < 1 << POSITION_BITS).then_some(all)
    }

    /// The ring of such a position, and the position in it.
    pub fn ring_of(&self, position: u64) -> (u32, u64) {
        let stripes = u64::from(self.stripes);
        ((position % stripes) as u32, position / stripes)
    }

    /// The position of a record of `units` written next, none of which passes the ring's end.
    pub fn place(&self, head: u64, units: u64) -> u64 {
        let at = head % self.ring_units;
        if at + units > self.ring_units {
            head - at + self.ring_units
        } else {
            head
        }
    }

    /// The position after the end of the ring in which this one lies.
    pub fn next_lap(&self, position: u64) -> u64 {
        (position / self.ring_units + 1) * self.ring_units
    }

    /// The first position that stays whole when the head is raised to this one.
    pub fn whole_from(&self, head: u64) -> u64 {
        head.saturating_sub(self.ring_units)
    }

    /// What a process takes of a ring at once, for its next small records.
    pub fn run_units(&self) -> u64 {
        (self.ring_units / RING_PER_RUN).min(RUN_BYTES_MAX / UNIT)
    }

    /// Whether less than half of the ring has been taken since this position was.
    pub fn is_in_newer_half(&self, head: u64, position: u64) -> bool {
        head - position <= self.ring_units / 2
    }

    /// Whether nothing has been written over the record at this position.
    pub fn is_whole(&self, head: u64, position: u64) -> bool {
        position < head && head - position <= self.ring_units
    }
}

/// Which stripe, bucket and slot a key belongs to.
#[derive(Clone, Copy, Debug)]
pub struct KeyPlace {
    pub stripe: u32,
    pub bucket: u32,
    pub tag: u32,
}

impl KeyPlace {
    pub fn new(key: &[u8], seed: u64, layout: &Layout) -> KeyPlace {
        let hash = XxHash3_64::oneshot_with_seed(seed, key);
        let (low, tag) = (hash as u32, (hash >> 32) as u32);
        let scaled = u64::from(low) * u64::from(layout.stripes);
        let within = u64::from(scaled as u32) * u64::from(layout.buckets);
        KeyPlace {
            stripe: (scaled >> 32) as u32,
            bucket: (within >> 32) as u32,
            tag,
        }
    }
}

/// The position and length of a record, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPlace {
    pub position: u64,
    pub units: u64,
}

/// The slots of some keys, and how many deletions they have seen.
pub struct Bucket {
    bytes: [u8; BUCKET_BYTES],
    /// Where it stands in the file: a bucket that was moved is damaged.
    at: u64,
    seed: u64,
}

impl Bucket {
    pub fn new(bytes: [u8; BUCKET_BYTES], at: u64, seed: u64) -> Bucket {
        Bucket { bytes, at, seed }
    }

    pub fn bytes(&self) -> &[u8; BUCKET_BYTES] {
        &self.bytes
    }

    fn word(&self, index: usize) -> u64 {
        word(&self.bytes, index * SLOT_BYTES)
    }

    pub fn tag(&self, index: usize) -> u32 {
        (word(&self.bytes, index * SLOT_BYTES + 8) >> 32) as u32
    }

    fn check(&self, index: usize) -> u32 {
        let at = self.at + index as u64;
        slot_check(self.word(index), self.tag(index), at, self.seed)
    }

    fn is_right(&self, index: usize) -> bool {
        word(&self.bytes, index * SLOT_BYTES + 8) as u32 == self.check(index)
    }

    fn put(&mut self, index: usize, word: u64, tag: u32) {
        let slot = &mut self.bytes[slot(index)];
        slot[..8].copy_from_slice(&word.to_le_bytes());
        slot[12..].copy_from_slice(&tag.to_le_bytes());
        let check = self.check(index);
        self.bytes[index * SLOT_BYTES + 8..][..4].copy_from_slice(&check.to_le_bytes());
    }

    /// Deletions seen; `None` if the bytes are damaged or being written.
    pub fn deletions(&self) -> Option<u64> {
        // All bytes are zero in a new file.
        let is_new = self.bytes[..SLOT_BYTES] == [0; SLOT_BYTES];
        (is_new || self.is_right(0)).then(|| self.word(0))
    }

    /// Counts a deletion, also where the number before it is torn, by a writer that was killed: no
    /// ticket has a number that comes after it.
    pub fn count_on(&mut self) {
        self.put(0, self.word(0).wrapping_add(1), 0);
    }

    /// The record that a slot names.
    pub fn record(&self, index: usize) -> Option<RecordPlace> {
        let place = record_in_word(self.word(index));
        (place.units != 0 && self.is_right(index)).then_some(place)
    }

    /// The record of the key with this tag.
    pub fn find(&self, tag: u32) -> Option<RecordPlace> {
        self.slot_of(tag).map(|(_, record)| record)
    }

    /// The slot of the key with this tag, and its record.
    pub fn slot_of(&self, tag: u32) -> Option<(usize, RecordPlace)> {
        let mut slots = (1..=SLOTS).filter(|index| self.tag(*index) == tag);
        slots.find_map(|index| Some((index, self.record(index)?)))
    }

    /// Every record that the slots name.
    pub fn records(&self) -> impl Iterator<Item = RecordPlace> {
        (1..=SLOTS).filter_map(|index| self.record(index))
    }

    /// Empties all slots of this tag. Whether there was one.
    pub fn remove(&mut self, tag: u32) -> bool {
        self.keep_only(tag, 0)
    }

    /// Empties all slots of this tag but one. Whether another named a record.
    pub fn keep_only(&mut self, tag: u32, kept: usize) -> bool {
        let mut found = false;
        for index in 1..=SLOTS {
            if index != kept && self.tag(index) == tag && self.word(index) != 0 {
                found |= self.record(index).is_some();
                self.bytes[slot(index)].fill(0);
            }
        }
        found
    }

    pub fn empty(&mut self) {
        self.bytes[SLOT_BYTES..].fill(0);
    }

    /// Puts a record into the slot of its tag, else into one that names none, or one that is gone,
    /// else in the place of the record written first. There is never more than one slot of a tag,
    /// so a key that shares the tag of another loses it, and no key can have two values.
    pub fn insert(&mut self, tag: u32, place: RecordPlace, is_gone: impl Fn(u64) -> bool) {
        self.remove(tag);
        let age = |index: &usize| {
            let position = self.record(*index)?.position;
            (!is_gone(position)).then_some(position)
        };
        let oldest = (1..=SLOTS).min_by_key(age).unwrap_or(1);
        self.put_record(oldest, tag, place);
    }

    pub fn put_record(&mut self, index: usize, tag: u32, place: RecordPlace) {
        self.put(index, place.position << LENGTH_BITS | place.units, tag);
    }
}

fn record_in_word(word: u64) -> RecordPlace {
    RecordPlace {
        position: word >> LENGTH_BITS,
        units: word & UNITS_MAX,
    }
}

/// The check of a slot at `at`, by its first word and its tag.
fn slot_check(word: u64, tag: u32, at: u64, seed: u64) -> u32 {
    let mut bytes = [0; SLOT_BYTES + 4];
    bytes[..8].copy_from_slice(&word.to_le_bytes());
    bytes[8..12].copy_from_slice(&tag.to_le_bytes());
    bytes[12..].copy_from_slice(&at.to_le_bytes());
    XxHash3_64::oneshot_with_seed(seed, &bytes) as u32
}

/// The record that the two words of a slot name; `at` is the place of its bucket and its number.
pub fn record_in_words(words: [u64; 2], at: u64, seed: u64) -> Option<RecordPlace> {
    let place = record_in_word(words[0]);
    let tag = (words[1] >> 32) as u32;
    let is_right = place.units != 0 && slot_check(words[0], tag, at, seed) == words[1] as u32;
    is_right.then_some(place)
}

/// As [`Bucket::deletions`], of the first two words of the bucket at `at`.
pub fn deletions_in_words(words: [u64; 2], at: u64, seed: u64) -> Option<u64> {
    // What is above the check in a mapped file is no part of the count.
    let check = words[1] as u32;
    let is_new = words[0] == 0 && check == 0;
    (is_new || slot_check(words[0], 0, at, seed) == check).then_some(words[0])
}

fn slot(index: usize) -> std::ops::Range<usize> {
    index * SLOT_BYTES..(index + 1) * SLOT_BYTES
}

/// The head of a stripe as bytes: the position of the next record.
pub fn head_bytes(head: u64, stripe: u32, seed: u64) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    bytes[..8].copy_from_slice(&head.to_le_bytes());
    let check = XxHash3_64::oneshot_with_seed(seed ^ u64::from(stripe), &bytes[..8]);
    bytes[8..].copy_from_slice(&check.to_le_bytes());
    bytes
}

/// `None` if damaged, or beyond what a slot can name.
pub fn read_head(bytes: &[u8; HEAD_BYTES], stripe: u32, seed: u64) -> Option<u64> {
    let head = word(bytes, 0);
    let is_right = head_bytes(head, stripe, seed) == *bytes;
    (is_right && head < 1 << (63 - LENGTH_BITS)).then_some(head)
}

/// The head of a stripe of a mapped file, in one word with a check, so that a killed writer leaves
/// the one before or this one.
pub fn head_word(head: u64, stripe: u32, seed: u64) -> u64 {
    let check = XxHash3_64::oneshot_with_seed(seed ^ u64::from(stripe), &head.to_le_bytes());
    head | check << POSITION_BITS
}

/// The head in a word that is known to be right.
pub fn head_in_word(word: u64) -> u64 {
    word & ((1 << POSITION_BITS) - 1)
}

/// `None` if damaged.
pub fn read_head_word(word: u64, stripe: u32, seed: u64) -> Option<u64> {
    let head = head_in_word(word);
    (head_word(head, stripe, seed) == word && head < 1 << (63 - LENGTH_BITS)).then_some(head)
}

/// What a record says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    pub position: u64,
    pub until_ms: u64,
    pub written_ms: u64,
}

/// Units of a record with so many bytes of key and value.
pub fn units(key: usize, value: usize) -> u64 {
    ((RECORD_HEADER_BYTES + key + value) as u64).div_ceil(UNIT)
}

/// A record as bytes, filled up to a whole unit.
pub fn record_bytes(head: RecordHead, key: &[u8], value: &[u8], seed: u64) -> Vec<u8> {
    let units = units(key.len(), value.len());
    let mut bytes = Vec::with_capacity((units * UNIT) as usize);
    bytes.extend_from_slice(&[0; 8]);
    for number in [head.position, head.until_ms, head.written_ms] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for length in [key.len(), value.len()] {
        bytes.extend_from_slice(&(length as u32).to_le_bytes());
    }
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(value);
    let check = XxHash3_64::oneshot_with_seed(seed, &bytes[8..]);
    bytes[..8].copy_from_slice(&check.to_le_bytes());
    bytes.resize((units * UNIT) as usize, 0);
    bytes
}

/// What stands in `bytes` if that is a record: its head, and the lengths of key and value.
pub fn read_record(bytes: &[u8], seed: u64) -> Option<(RecordHead, usize, usize)> {
    if bytes.len() < RECORD_HEADER_BYTES {
        return None;
    }
    let (head, key, value) = read_record_front(bytes);
    let end = RECORD_HEADER_BYTES.checked_add(key)?.checked_add(value)?;
    let checked = bytes.get(8..end)?;
    let is_right = XxHash3_64::oneshot_with_seed(seed, checked) == word(bytes, 0);
    is_right.then_some((head, key, value))
}

/// What the first [`RECORD_HEADER_BYTES`] of a record say, unchecked.
pub fn read_record_front(bytes: &[u8]) -> (RecordHead, usize, usize) {
    let lengths = word(bytes, 32);
    let head = RecordHead {
        position: word(bytes, 8),
        until_ms: word(bytes, 16),
        written_ms: word(bytes, 24),
    };
    (head, lengths as u32 as usize, (lengths >> 32) as usize)
}

pub fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 5;

    fn layout() -> Layout {
        Layout::new(1 << 20, 2, 4).unwrap()
    }

    #[test]
    fn layout_keeps_parts_apart_and_inside_the_file() {
        for (bytes, stripes) in [(1 << 20, 2), (1 << 20, 16), (1 << 30, 16), (64 << 10, 1)] {
            let layout = Layout::new(bytes, stripes, 4).unwrap();
            for stripe in 0..stripes {
                let next = PAGE + u64::from(stripe + 1) * layout.stripe_bytes;
                let ring = layout.record_at(stripe, 0);
                assert!(layout.bucket_at(stripe, layout.buckets) <= ring);
                assert!(ring + layout.ring_units * UNIT <= next);
                assert!(next <= bytes);
            }
            assert!(layout.bucket_at(0, 1).is_multiple_of(BUCKET_BYTES as u64));
        }
        for (bytes, stripes) in [(0, 1), (PAGE, 1), (8 * PAGE, 16), (1 << 20, 0)] {
            assert_eq!(Layout::new(bytes, stripes, 4), None);
        }
    }

    #[test]
    fn record_never_passes_the_end_of_the_ring() {
        let layout = layout();
        let (mut head, units) = (0, 100);
        for _ in 0..1_000 {
            let position = layout.place(head, units);
            assert!(position >= head);
            assert!(position % layout.ring_units + units <= layout.ring_units);
            head = position + units;
        }
    }

    #[test]
    fn bucket_has_one_slot_for_each_tag_and_drops_the_oldest() {
        let mut bucket = Bucket::new([0; BUCKET_BYTES], 512, SEED);
        let place = |position| RecordPlace { position, units: 1 };
        for number in 0..=SLOTS as u64 {
            bucket.insert(number as u32, place(number), |_| false);
        }
        assert_eq!(bucket.find(0), None);
        assert_eq!(bucket.find(1), Some(place(1)));
        bucket.insert(1, place(99), |_| false);
        assert_eq!(bucket.find(1), Some(place(99)));
        assert_eq!(bucket.records().count(), SLOTS);
        assert!(bucket.remove(1) && !bucket.remove(1));
        assert_eq!(bucket.find(1), None);
    }

    #[test]
    fn record_takes_the_slot_of_one_that_is_gone_before_that_of_an_older_one() {
        let mut bucket = Bucket::new([0; BUCKET_BYTES], 512, SEED);
        let place = |position| RecordPlace { position, units: 1 };
        for number in 0..SLOTS as u64 {
            bucket.insert(number as u32, place(number), |_| false);
        }
        // Of a ring that is ahead of the others, and has gone round.
        let is_gone = |position| (5..10).contains(&position);
        for number in 100..105 {
            bucket.insert(number as u32, place(number), is_gone);
        }
        let kept = |tag| bucket.find(tag as u32).is_some();
        assert!((0..5).chain(10..SLOTS).chain(100..105).all(kept));
        assert!(!(5..10).any(kept));
    }

    #[test]
    fn position_in_the_file_names_its_ring_and_is_bounded() {
        let layout = Layout::new(1 << 20, 3, 4).unwrap();
        let mut last = None;
        for position in 0..5 {
            for ring in 0..3 {
                let all = layout.position_in(ring, position).unwrap();
                assert_eq!(layout.ring_of(all), (ring, position));
                assert!(last < Some(all));
                last = Some(all);
            }
        }
        let end = (1 << POSITION_BITS) / 3;
        assert!(layout.position_in(0, end).is_some());
        assert_eq!(layout.position_in(1, end), None);
        assert_eq!(layout.position_in(2, u64::MAX), None);
    }

    #[test]
    fn bucket_takes_no_damaged_slot_for_a_record() {
        let mut bucket = Bucket::new([0; BUCKET_BYTES], 512, SEED);
        let units = UNITS_MAX;
        let place = RecordPlace { position: 7, units };
        bucket.insert(3, place, |_| false);
        (0..5).for_each(|_| bucket.count_on());
        assert_eq!((bucket.find(3), bucket.deletions()), (Some(place), Some(5)));
        for bit in 0..BUCKET_BYTES * 8 {
            let mut bytes = *bucket.bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let turned = Bucket::new(bytes, 512, SEED);
            let found = (turned.find(3), turned.deletions());
            match bit / 8 / SLOT_BYTES {
                0 => assert_eq!(found, (Some(place), None)),
                1 => assert_eq!(found, (None, Some(5))),
                _ => assert_eq!(found, (Some(place), Some(5))),
            }
        }
        let moved = Bucket::new(*bucket.bytes(), 768, SEED);
        assert_eq!((moved.find(3), moved.deletions()), (None, None));
    }

    #[test]
    fn record_with_any_bit_turned_is_none() {
        let head = RecordHead {
            position: 1,
            until_ms: 2,
            written_ms: 3,
        };
        let bytes = record_bytes(head, b"key", b"value", SEED);
        assert_eq!(read_record(&bytes, SEED), Some((head, 3, 5)));
        assert_eq!(read_record(&bytes, SEED + 1), None);
        for bit in 0..(RECORD_HEADER_BYTES + 8) * 8 {
            let mut turned = bytes.clone();
            turned[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_record(&turned, SEED), None, "bit {bit}");
        }
    }
}
