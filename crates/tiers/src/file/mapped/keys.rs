//! What a record is called in the file: its group, its key, and the generations of both.
//!
//! A flush changes a generation, so that no key made before it is ever looked for again. It is a
//! random number and no count: damage cannot bring an earlier one back.

use std::ops::Deref;
use std::sync::atomic::Ordering;

use twox_hash::XxHash3_64;

use super::super::super::host::Host;
use super::super::super::tier::TierError;
use super::super::layout::{KeyPlace, word};
use super::super::lock::Patience;
use super::MappedFile;

const GROUP_AT: usize = 20;
/// Where the page of the header has the generation of all keys.
const GENERATION_AT: u64 = 320;

/// XXH3 with seed 0 of the group and the key: what processes call a key that they cannot look for.
/// Two pairs may have one hash. Then only the later one is found, as its record has the whole key.
pub fn key_hash(name: &[u8]) -> u64 {
    XxHash3_64::oneshot(name.get(GROUP_AT..).unwrap_or_default())
}

/// That of all keys, and that of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generations {
    pub all: u64,
    pub group: u64,
}

/// Names up to so many bytes take no memory of their own.
const SHORT_BYTES: usize = 224;

/// Bytes that are joined: short ones in their place, since every look-up makes some.
pub struct NameBytes {
    short: [u8; SHORT_BYTES],
    length: usize,
    /// All of them, where they are too many.
    long: Vec<u8>,
}

impl NameBytes {
    fn joined(parts: [&[u8]; 5]) -> NameBytes {
        let length = parts.iter().map(|part| part.len()).sum();
        let mut short = [0; SHORT_BYTES];
        if length > SHORT_BYTES {
            let long = parts.concat();
            return NameBytes {
                short,
                length,
                long,
            };
        }
        let mut at = 0;
        for part in parts {
            short[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        NameBytes {
            short,
            length,
            long: Vec::new(),
        }
    }
}

impl Deref for NameBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.short.get(..self.length).unwrap_or(&self.long)
    }
}

/// The whole key of a record, and where it belongs.
pub struct KeyName {
    pub bytes: NameBytes,
    pub generations: Generations,
    pub place: KeyPlace,
}

/// The group of the last look-up, and where its generation is: the next one is often of the same.
#[derive(Default)]
pub struct LastGroup {
    name: Vec<u8>,
    /// 0 before the first look-up.
    at: u64,
}

/// A longer name is not remembered.
const LAST_GROUP_BYTES: usize = 256;

impl MappedFile {
    pub fn name(&self, group: &[u8], key: &[u8]) -> KeyName {
        let generations = self.generations_at(self.last_group_at(group));
        let bytes = NameBytes::joined([
            &generations.all.to_le_bytes(),
            &generations.group.to_le_bytes(),
            // So that no group and key together are those of another pair.
            &(group.len() as u32).to_le_bytes(),
            group,
            key,
        ]);
        KeyName {
            place: self.place_of(key_hash(&bytes)),
            bytes,
            generations,
        }
    }

    /// Where a key belongs whose hash this is. Seeded: no client can fill one bucket.
    pub fn place_of(&self, hash: u64) -> KeyPlace {
        let hash = hash.to_be_bytes();
        KeyPlace::new(&hash, self.opened.seed, &self.opened.layout)
    }

    fn last_group_at(&self, group: &[u8]) -> u64 {
        let mut last = self.last_group.borrow_mut();
        if last.at != 0 && last.name == group {
            return last.at;
        }
        let (at, _) = self.group_at(XxHash3_64::oneshot(group));
        if group.len() <= LAST_GROUP_BYTES {
            last.name.clear();
            last.name.extend_from_slice(group);
            last.at = at;
        }
        at
    }

    fn generations(&self, group: &[u8]) -> Generations {
        let (at, _) = self.group_at(XxHash3_64::oneshot(group));
        self.generations_at(at)
    }

    fn generations_at(&self, at: u64) -> Generations {
        Generations {
            all: self.word(GENERATION_AT).load(Ordering::Acquire),
            group: self.word(at).load(Ordering::Acquire),
        }
    }

    fn group_at(&self, hash: u64) -> (u64, u32) {
        let hash = XxHash3_64::oneshot_with_seed(self.opened.seed, &hash.to_be_bytes());
        self.opened.layout.generation_at(hash)
    }

    /// Whether a record with these bytes as its whole key may still be looked for.
    pub fn is_of_this_generation(&self, name: &[u8]) -> bool {
        let length = name.get(16..GROUP_AT).and_then(|bytes| bytes.first_chunk());
        let length = length.map(|bytes| u32::from_le_bytes(*bytes) as usize);
        let group = length.and_then(|length| name.get(GROUP_AT..)?.get(..length));
        group.is_some_and(|group| {
            let found = self.generations(group);
            (found.all, found.group) == (word(name, 0), word(name, 8))
        })
    }

    pub fn flush_group(&self, hash: u64, host: &Host) -> Result<(), TierError> {
        let (at, stripe) = self.group_at(hash);
        self.change_generation(at, stripe, host)
    }

    pub fn flush(&self, host: &Host) -> Result<(), TierError> {
        self.change_generation(GENERATION_AT, 0, host)
    }

    fn change_generation(&self, at: u64, stripe: u32, host: &Host) -> Result<(), TierError> {
        let _lock = self.opened.lock(stripe, Patience::Delete, host)?;
        self.leave_clean()?;
        let mut random = [0; 8];
        (host.random)(&mut random);
        let generation = u64::from_ne_bytes(random);
        self.word(at).store(generation, Ordering::Release);
        Ok(())
    }
}
