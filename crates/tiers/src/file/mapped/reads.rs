//! Reads, which lock nothing.
//!
//! A reader may use bytes that are being overwritten, and must not believe them until it has seen,
//! afterwards, that the head has not reached them. A record's checksum is compared once in each
//! process: a position is used once, so what was right there stays right until it is overwritten.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{Ordering, fence};

use super::super::super::tier::TierError;
use super::super::layout::{self, RECORD_HEADER_BYTES, RecordPlace, UNIT};
use super::super::map::SharedBytes;
use super::keys::KeyName;
use super::{MappedFile, MappedLookup, MappedTicket};

/// How often a reader looks again when a record was overwritten meanwhile.
const TRIES: u32 = 3;
/// Places for positions whose records were found to be right; 256 KiB.
const SEEN: usize = 1 << SEEN_BITS;
const SEEN_BITS: u32 = 15;

/// What a checksum is computed of is copied to memory that is kept, up to so many bytes.
const COPY_BYTES: usize = 64 << 10;

/// Positions of records that were found to be right, some of them.
pub struct SeenRecords {
    places: Box<[Cell<u64>]>,
    copy: RefCell<Vec<u8>>,
}

impl SeenRecords {
    pub fn new() -> SeenRecords {
        SeenRecords {
            places: (0..SEEN).map(|_| Cell::new(0)).collect(),
            copy: RefCell::default(),
        }
    }

    /// What `act` says of a copy of these bytes.
    fn with_copy<T>(&self, bytes: SharedBytes<'_>, act: impl FnOnce(&[u8]) -> T) -> T {
        if bytes.len() > COPY_BYTES {
            return act(&bytes.to_vec());
        }
        let mut copy = self.copy.borrow_mut();
        if copy.len() < bytes.len() {
            copy.resize(bytes.len(), 0);
        }
        let copy = &mut copy[..bytes.len()];
        bytes.copy_to(copy);
        act(copy)
    }

    fn cell(&self, stripe: u32, position: u64) -> (&Cell<u64>, u64) {
        // Positions have 44 bits; 0 is no record.
        let record = (u64::from(stripe) + 1) << 44 | position;
        let place = record.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SEEN_BITS);
        (&self.places[place as usize % SEEN], record)
    }

    /// Notes that this record is right: its checksum was compared, or this process has written it.
    pub fn note(&self, stripe: u32, position: u64) {
        let (cell, record) = self.cell(stripe, position);
        cell.set(record);
    }
}

/// What stands at the front of a record, each number read once.
pub struct FoundHead {
    pub until_ms: u64,
    pub written_ms: u64,
    pub key: usize,
    pub value: usize,
}

/// A value in its place, until other values are written over it.
pub struct MappedHit<'a> {
    pub(super) file: &'a MappedFile,
    stripe: u32,
    pub(super) position: u64,
    value: SharedBytes<'a>,
    /// When it was stored, in milliseconds of the host's clock.
    pub written_ms: u64,
    /// When it expires, in milliseconds of the host's clock, or [`super::super::super::NEVER_MS`].
    pub until_ms: u64,
    now_ms: u64,
}

impl<'a> MappedHit<'a> {
    /// Milliseconds from the look-up until it expires; `None` if it never does.
    pub fn left_ms(&self) -> Option<u64> {
        let has_end = self.until_ms != super::super::super::tier::NEVER_MS;
        has_end.then(|| self.until_ms.saturating_sub(self.now_ms))
    }

    /// The value's bytes, which may become others at any time. Whatever was made of them counts
    /// only if [`MappedHit::is_whole`] says so afterwards, and must have had no effect before.
    pub fn bytes(&self) -> SharedBytes<'a> {
        self.value
    }

    /// Whether everything read so far was the value.
    pub fn is_whole(&self) -> bool {
        // No load before this comes after the load of the head.
        fence(Ordering::Acquire);
        let head = self.file.head(self.stripe);
        let layout = &self.file.opened.layout;
        head.is_ok_and(|head| layout.is_whole(head, self.position)) && !self.file.map.is_lost()
    }

    /// A copy of the value; `None` if it was overwritten meanwhile.
    pub fn to_vec(&self) -> Option<Vec<u8>> {
        let bytes = self.value.to_vec();
        self.is_whole().then_some(bytes)
    }
}

impl MappedFile {
    pub fn get(
        &self,
        group: &[u8],
        key: &[u8],
        host_ms: u64,
    ) -> Result<MappedLookup<'_>, TierError> {
        let name = self.name(group, key);
        let now_ms = host_ms.wrapping_add(self.offset_ms);
        for _ in 0..TRIES {
            let Some((slot, record)) = self.find(name.place) else {
                break;
            };
            if let Some(hit) = self.hit(&name, record, now_ms) {
                self.visit(name.place, slot);
                return Ok(MappedLookup::Hit(hit));
            }
            let head = self.head(name.place.stripe)?;
            if self.opened.layout.is_whole(head, record.position) {
                // It is damaged, expired or of another key, and not being replaced.
                break;
            }
        }
        let deletions = self.deletions(name.place);
        Ok(MappedLookup::Miss(self.ticket_of(&name, deletions)))
    }

    pub fn ticket(&self, group: &[u8], key: &[u8]) -> MappedTicket {
        let name = self.name(group, key);
        self.ticket_of(&name, self.deletions(name.place))
    }

    /// A ticket of a torn count is void: the number before the first deletion comes last.
    pub fn ticket_of(&self, name: &KeyName, deletions: Option<u64>) -> MappedTicket {
        let deletions = deletions.unwrap_or(u64::MAX);
        MappedTicket::new(self.opened.seed, name.generations, deletions)
    }

    /// The record if it is of this name, right, and not expired.
    pub fn hit(&self, name: &KeyName, record: RecordPlace, now_ms: u64) -> Option<MappedHit<'_>> {
        let stripe = name.place.stripe;
        let (found, bytes) = self.found(stripe, record)?;
        let key = bytes.part(RECORD_HEADER_BYTES, found.key)?;
        let value = bytes.part(RECORD_HEADER_BYTES + found.key, found.value)?;
        if now_ms >= found.until_ms || !key.equals(&name.bytes) {
            return None;
        }
        if !self.is_right(stripe, record.position, bytes) {
            return None;
        }
        let hit = MappedHit {
            file: self,
            stripe,
            position: record.position,
            value,
            written_ms: found.written_ms.wrapping_sub(self.offset_ms),
            until_ms: self.host_ms(found.until_ms),
            now_ms: now_ms.wrapping_sub(self.offset_ms),
        };
        // Everything so far was read from this record, or is nothing.
        hit.is_whole().then_some(hit)
    }

    fn host_ms(&self, until_ms: u64) -> u64 {
        match until_ms {
            super::super::super::tier::NEVER_MS => until_ms,
            _ => until_ms.wrapping_sub(self.offset_ms),
        }
    }

    /// The front of a record and all its bytes, as far as they can be those of one.
    pub fn found(&self, stripe: u32, record: RecordPlace) -> Option<(FoundHead, SharedBytes<'_>)> {
        let length = usize::try_from(record.units * UNIT).ok()?;
        if length > self.opened.layout.record_bytes_max {
            return None;
        }
        if !self.opened.layout.is_within(record.position, record.units) {
            return None;
        }
        let bytes = self.record_bytes(stripe, record.position, length);
        let (head, key, value) = read_front(bytes)?;
        let end = RECORD_HEADER_BYTES.checked_add(key)?.checked_add(value)?;
        let is_it = head.position == record.position && layout::units(key, value) == record.units;
        let found = FoundHead {
            until_ms: head.until_ms,
            written_ms: head.written_ms,
            key,
            value,
        };
        is_it.then_some((found, bytes.part(0, end)?))
    }

    /// Whether the checksum of these bytes, which are a whole record, is right or was so before.
    fn is_right(&self, stripe: u32, position: u64, bytes: SharedBytes<'_>) -> bool {
        let (cell, record) = self.seen.cell(stripe, position);
        if cell.get() == record {
            return true;
        }
        let is_right = self.seen.with_copy(bytes, |copy| {
            layout::read_record(copy, self.opened.seed)
                .is_some_and(|(head, ..)| head.position == position)
        });
        if is_right {
            self.seen.note(stripe, position);
        }
        is_right
    }
}

/// What stands at the front of a record, as it says: its head, and the lengths of key and value.
pub fn read_front(bytes: SharedBytes<'_>) -> Option<(layout::RecordHead, usize, usize)> {
    let mut front = [0; RECORD_HEADER_BYTES];
    bytes.part(0, RECORD_HEADER_BYTES)?.copy_to(&mut front);
    Some(layout::read_record_front(&front))
}
