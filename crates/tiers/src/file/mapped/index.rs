//! Buckets as atomic words.
//!
//! A bucket is read word by word, so a slot may be half of one write and half of another; its check
//! then makes it one that names nothing. Which slots were visited stands in the half word that
//! the first slot, which counts deletions, has for a tag and does not use.

use std::sync::atomic::{AtomicU64, Ordering};

use super::super::layout::{self, BUCKET_BYTES, Bucket, KeyPlace, RecordPlace, SLOT_BYTES, SLOTS};
use super::MappedFile;

const WORDS: usize = BUCKET_BYTES / 8;
/// The word with the check of the count of deletions, and above it the visited slots.
const VISITS: usize = SLOT_BYTES / 8 / 2;
const VISITS_BITS: u32 = 32;

/// A bucket as it was found, and what is to become of it.
pub struct MappedBucket {
    pub bucket: Bucket,
    at: u64,
    found: [u64; WORDS],
    /// One bit for each slot.
    visited: u32,
}

impl MappedFile {
    fn bucket_words(&self, at: u64) -> &[AtomicU64; WORDS] {
        self.map.words(at)
    }

    fn words_of(&self, place: KeyPlace) -> (&[AtomicU64; WORDS], u64) {
        let at = self.opened.layout.bucket_at(place.stripe, place.bucket);
        (self.bucket_words(at), at)
    }

    /// The slot of the place's tag, and its record. Reads no more of the bucket than it needs.
    pub fn find(&self, place: KeyPlace) -> Option<(usize, RecordPlace)> {
        let (words, at) = self.words_of(place);
        (1..=SLOTS).find_map(|slot| {
            // With the store of a slot comes the record that it names.
            let second = u64::from_le(words[slot * 2 + 1].load(Ordering::Acquire));
            if (second >> 32) as u32 != place.tag {
                return None;
            }
            let first = u64::from_le(words[slot * 2].load(Ordering::Acquire));
            let at = at + slot as u64;
            let record = layout::record_in_words([first, second], at, self.opened.seed)?;
            Some((slot, record))
        })
    }

    /// Deletions that may have been of the place's key; `None` while they are being counted.
    pub fn deletions(&self, place: KeyPlace) -> Option<u64> {
        let (words, at) = self.words_of(place);
        let [first, second] = [0, 1].map(|word| u64::from_le(words[word].load(Ordering::Acquire)));
        layout::deletions_in_words([first, second], at, self.opened.seed)
    }

    pub fn bucket(&self, place: KeyPlace) -> MappedBucket {
        let at = self.opened.layout.bucket_at(place.stripe, place.bucket);
        let mut found = [0; WORDS];
        let (words, _) = self.words_of(place);
        for (found, word) in found.iter_mut().zip(words) {
            // With the store of a slot comes the record that it names.
            *found = u64::from_le(word.load(Ordering::Acquire));
        }
        let visited = (found[VISITS] >> VISITS_BITS) as u32;
        found[VISITS] &= u64::from(u32::MAX);
        let mut bytes = [0; BUCKET_BYTES];
        for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(found) {
            *bytes = word.to_le_bytes();
        }
        MappedBucket {
            bucket: Bucket::new(bytes, at, self.opened.seed),
            at,
            found,
            visited,
        }
    }

    /// Stores what has changed. The stripe must have been locked since before the bucket was read.
    pub fn store_bucket(&self, bucket: &MappedBucket) {
        let (bytes, _) = bucket.bucket.bytes().as_chunks::<8>();
        let visits = u64::from(bucket.visited) << VISITS_BITS;
        for (index, word) in self.bucket_words(bucket.at).iter().enumerate() {
            let wanted = u64::from_le_bytes(bytes[index]);
            if index != VISITS && wanted == bucket.found[index] {
                continue;
            }
            #[cfg(test)]
            super::tests::may_die();
            let wanted = if index == VISITS {
                wanted | visits
            } else {
                wanted
            };
            word.store(wanted.to_le(), Ordering::Release);
        }
    }

    /// Notes that a slot was read. It needs no lock; another note that is lost costs a value its
    /// second turn.
    pub fn visit(&self, place: KeyPlace, slot: usize) {
        let bit = (1_u64 << VISITS_BITS << slot).to_le();
        let word = &self.words_of(place).0[VISITS];
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }
}

impl MappedBucket {
    pub fn is_visited(&self, slot: usize) -> bool {
        self.visited & 1 << slot != 0
    }

    pub fn forget_visit(&mut self, slot: usize) {
        self.visited &= !(1 << slot);
    }

    pub fn forget_visits(&mut self) {
        self.visited = 0;
    }
}
