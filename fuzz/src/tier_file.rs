//! A cache file that is written over in any places, while values are stored, read and deleted: a
//! read gives what was stored last, or nothing.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use tiers::{FileSettings, FileTier, Host, Lookup, Stored, Tier};

const BYTES: u64 = 64 << 10;
const KEYS: u8 = 16;

static NOW_MS: AtomicU64 = AtomicU64::new(1);

/// Runs ahead at each look, so that a file found to be damaged is soon replaced.
fn now_ms() -> u64 {
    NOW_MS.fetch_add(100, Ordering::Relaxed)
}

fn no_forks() -> u32 {
    0
}

/// The same each time, so that an input does the same each time.
fn random(bytes: &mut [u8]) {
    bytes.fill(0x5a);
}

fn host() -> Host {
    Host {
        now_ms,
        wall_ms: now_ms,
        forks: no_forks,
        boot_id: [1; 16],
        random,
    }
}

struct Act<'a> {
    tier: FileTier,
    file: File,
    bytes: std::slice::Iter<'a, u8>,
    /// What the keys hold; those that are not here hold nothing.
    stored: HashMap<u8, Vec<u8>>,
}

impl Act<'_> {
    fn next(&mut self) -> u8 {
        self.bytes.next().copied().unwrap_or(0)
    }

    fn step(&mut self, turn: usize) {
        let key = self.next() % KEYS;
        match self.next() % 8 {
            0..4 => {
                let (fill, length) = (self.next(), usize::from(self.next()) * 8);
                let mut value = vec![fill; length];
                value.extend_from_slice(&turn.to_le_bytes());
                // What was there may be gone also when the new value could not be stored.
                let set = self.tier.set(&[key], &value, None, None);
                self.stored.remove(&key);
                if matches!(set, Ok(Stored::Kept)) {
                    self.stored.insert(key, value);
                }
            }
            4 => {
                if self.tier.delete(&[key]).is_ok() {
                    self.stored.remove(&key);
                }
            }
            _ => {
                let at = u64::from(u16::from_le_bytes([self.next(), self.next()]));
                let length = 1 + usize::from(self.next() % 32);
                let bytes: Vec<u8> = (0..length).map(|_| self.next()).collect();
                self.file
                    .write_all_at(&bytes, at)
                    .expect("a file can be written");
            }
        }
    }

    fn check(&self) {
        for key in 0..KEYS {
            if let Ok(Lookup::Hit(hit)) = self.tier.get(&[key]) {
                let stored = self.stored.get(&key).map(Vec::as_slice);
                assert_eq!(Some(hit.value()), stored, "key {key}");
            }
        }
    }
}

pub fn check(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("own").join("values");
    let settings = FileSettings {
        path: path.clone(),
        bytes: BYTES,
        stripes: 1,
        codec: *b"fuzz   1",
    };
    let tier = FileTier::new(settings, host());
    tier.check().expect("a cache file can be made here");
    let file = OpenOptions::new().read(true).write(true).open(path);
    let mut act = Act {
        tier,
        file: file.expect("it was made"),
        bytes: bytes.iter(),
        stored: HashMap::new(),
    };
    for turn in 0.. {
        if act.bytes.as_slice().is_empty() {
            break;
        }
        act.step(turn);
    }
    act.check();
}
