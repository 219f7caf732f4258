//! What several processes did to one file, and whether it can have been right.
//!
//! Every value is stored once, so a read says which `set` it saw. It is wrong if that value was never
//! stored, or if a later `set` or `delete` of the key, or the value's lifetime, was over before the
//! read began. A miss is never wrong.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use nix::time::{ClockId, clock_gettime};
use tiers::{Lookup, Stored, Tier};

use super::Numbers;

const KEYS: u64 = 24;
const LIFETIME_MS: u64 = 5;
/// Ends of lifetimes are counted in whole milliseconds.
const GRAIN_NS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Set,
    SetForAWhile,
    /// Stored with the ticket of a miss, which ended at `known_ns`.
    SetAfterMiss,
    Delete,
}

const KINDS: [Kind; 5] = [
    Kind::Read,
    Kind::Set,
    Kind::SetForAWhile,
    Kind::SetAfterMiss,
    Kind::Delete,
];

/// One call that did what it says. Reads that missed and calls that failed are left out.
#[derive(Clone, Copy, Debug)]
struct Act {
    kind: Kind,
    key: u64,
    value: u64,
    begin_ns: u64,
    end_ns: u64,
    known_ns: u64,
}

fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Bytes that follow from one number, of different lengths.
fn bytes_of(value: u64) -> Vec<u8> {
    let length = 16 + value % 3_001;
    let filled = (16..length).map(|at| (at ^ value) as u8);
    let mut bytes = value.to_le_bytes().to_vec();
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend(filled);
    bytes
}

fn value_of(bytes: &[u8]) -> u64 {
    let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(bytes_of(value) == bytes, "a value of bytes nobody stored");
    value
}

/// Acts `count` times on the keys that all processes share, and writes down what was done. Some of
/// the values serve only to crowd others out.
pub fn act(tier: &dyn Tier, writer: u64, count: u64, to: &Path) {
    let mut numbers = Numbers(writer);
    let mut acts = Vec::new();
    for turn in 0..count {
        let value = writer << 40 | turn;
        let key = numbers.below(KEYS);
        acts.extend(act_once(tier, &mut numbers, key, value));
    }
    let words = acts.iter().flat_map(|act| {
        let kind = KINDS.iter().position(|kind| *kind == act.kind).unwrap() as u64;
        [
            kind,
            act.key,
            act.value,
            act.begin_ns,
            act.end_ns,
            act.known_ns,
        ]
    });
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    fs::write(to, bytes).unwrap();
}

fn act_once(tier: &dyn Tier, numbers: &mut Numbers, key: u64, value: u64) -> Option<Act> {
    let name = key.to_le_bytes();
    let begin_ns = now_ns();
    let mut act = Act {
        kind: Kind::Read,
        key,
        value,
        begin_ns,
        end_ns: 0,
        known_ns: 0,
    };
    let set = |lifetime| tier.set(&name, &bytes_of(value), lifetime, None);
    let is_done = match numbers.below(100) {
        0..20 => {
            act.kind = Kind::Set;
            matches!(set(None), Ok(Stored::Kept))
        }
        20..28 => {
            act.kind = Kind::SetForAWhile;
            matches!(set(Some(LIFETIME_MS)), Ok(Stored::Kept))
        }
        28..45 => {
            act.kind = Kind::Delete;
            tier.delete(&name).is_ok()
        }
        45..50 => {
            let filler = numbers.next().to_le_bytes();
            let _ = tier.set(&filler, &bytes_of(value), None, None);
            false
        }
        _ => match tier.get(&name) {
            Ok(Lookup::Hit(hit)) => {
                act.value = value_of(hit.value());
                true
            }
            Ok(Lookup::Miss(ticket)) if numbers.below(2) == 0 => {
                act.known_ns = now_ns();
                // Others get their turn between the miss and what is made of it.
                std::thread::yield_now();
                act.begin_ns = now_ns();
                act.kind = Kind::SetAfterMiss;
                let stored = tier.set(&name, &bytes_of(value), None, Some(ticket));
                matches!(stored, Ok(Stored::Kept))
            }
            _ => false,
        },
    };
    act.end_ns = now_ns();
    is_done.then_some(act)
}

fn read(path: &Path) -> Vec<Act> {
    let bytes = fs::read(path).unwrap();
    let (words, rest) = bytes.as_chunks::<48>();
    assert!(rest.is_empty());
    let word =
        |act: &[u8; 48], at: usize| u64::from_le_bytes(act[at * 8..at * 8 + 8].try_into().unwrap());
    let act = |act: &[u8; 48]| Act {
        kind: KINDS[word(act, 0) as usize],
        key: word(act, 1),
        value: word(act, 2),
        begin_ns: word(act, 3),
        end_ns: word(act, 4),
        known_ns: word(act, 5),
    };
    words.iter().map(act).collect()
}

/// What was seen, so that a test can demand that something happened at all.
#[derive(Debug, Default)]
pub struct Seen {
    pub hits: usize,
    pub deletions: usize,
    pub stored_after_miss: usize,
}

/// Demands that the histories in these files, taken together, can have been right.
pub fn check(paths: &[impl AsRef<Path>]) -> Seen {
    let acts: Vec<Act> = paths.iter().flat_map(|path| read(path.as_ref())).collect();
    let mut seen = Seen::default();
    for key in 0..KEYS {
        let acts: Vec<&Act> = acts.iter().filter(|act| act.key == key).collect();
        check_key(&acts, &mut seen);
    }
    seen
}

fn check_key(acts: &[&Act], seen: &mut Seen) {
    let mut changes: Vec<&Act> = acts.to_vec();
    changes.retain(|act| act.kind != Kind::Read);
    changes.sort_by_key(|act| act.begin_ns);
    let mut deletions = changes.clone();
    deletions.retain(|act| act.kind == Kind::Delete);
    let sets: HashMap<u64, &Act> = changes
        .iter()
        .filter(|act| act.kind != Kind::Delete)
        .map(|act| (act.value, *act))
        .collect();
    seen.deletions += deletions.len();
    for read in acts.iter().filter(|act| act.kind == Kind::Read) {
        seen.hits += 1;
        let set = sets
            .get(&read.value)
            .expect("a value nobody stored for this key");
        if let Some(later) = between(&changes, set.end_ns, read.begin_ns) {
            panic!("{read:?} gives the value of {set:?}, and {later:?} was done before");
        }
        let end_ns = set.end_ns + LIFETIME_MS * 1_000_000 + GRAIN_NS;
        let is_over = set.kind == Kind::SetForAWhile && read.begin_ns > end_ns;
        assert!(
            !is_over,
            "{read:?} gives the value of {set:?} after its end"
        );
    }
    for set in changes.iter().filter(|act| act.kind == Kind::SetAfterMiss) {
        seen.stored_after_miss += 1;
        if let Some(deletion) = between(&deletions, set.known_ns, set.begin_ns) {
            panic!("{set:?} was stored although {deletion:?} came after its miss");
        }
    }
}

/// A change that both began and ended within a time. Changes are sorted by their beginning.
fn between<'a>(changes: &[&'a Act], from_ns: u64, to_ns: u64) -> Option<&'a Act> {
    let first = changes.partition_point(|act| act.begin_ns <= from_ns);
    let after = changes[first..]
        .iter()
        .take_while(|act| act.begin_ns < to_ns);
    after.copied().find(|act| act.end_ns < to_ns)
}
