//! The decoder of the codec over a mapped file whose records are overwritten meanwhile: two writers, two readers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tiers::{
    FileSettings, Host, MappedEntry, MappedHit, MappedLookup, MappedTier, MappedWhen, SharedBytes,
};

use php_codec::parts::{ValuePart, decode, encode};
use php_codec::{PhpBytes, PhpKey, PhpRefusal, PhpScalar, PhpWhole};

const KEYS: u64 = 400;
const MIB: u64 = 1 << 20;
/// So small that it goes round while a reader is between two steps.
const NARROW: u64 = 96 << 10;
/// Lifetimes of records begin here; each has another one, which tells them apart.
const LIFETIME_MS: u64 = 1 << 40;

#[derive(Clone, Copy)]
struct InMap<'a>(SharedBytes<'a>);

impl PhpBytes for InMap<'_> {
    fn length(&self) -> usize {
        self.0.len()
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.0.byte(at)
    }

    fn part(&self, at: usize, length: usize) -> Option<Self> {
        self.0.part(at, length).map(InMap)
    }
}

type Decoded = Result<Vec<ValuePart>, PhpRefusal>;
/// What a reader believes of a hit; `None` where it believes nothing.
type Reader = fn(&MappedTier, &MappedHit<'_>, u64) -> Option<Decoded>;

/// As the extension reads.
fn by_position(_: &MappedTier, hit: &MappedHit<'_>, _: u64) -> Option<Decoded> {
    let decoded = decode(InMap(hit.bytes()), false);
    hit.is_whole().then_some(decoded)
}

/// Planted: whether the slot still names the record is all that is compared afterwards.
fn by_slot(tier: &MappedTier, hit: &MappedHit<'_>, key: u64) -> Option<Decoded> {
    let before = hit.until_ms;
    std::thread::yield_now();
    let decoded = decode(InMap(hit.bytes()), false);
    match tier.get(b"g", &key.to_le_bytes()) {
        Ok(MappedLookup::Hit(again)) if again.until_ms != before => None,
        Ok(MappedLookup::Hit(_) | MappedLookup::Miss(_)) => Some(decoded),
        Err(_) => None,
    }
}

/// Planted: what is used was fetched once more after it was checked.
fn by_two_fetches(_: &MappedTier, hit: &MappedHit<'_>, _: u64) -> Option<Decoded> {
    let checked = decode(InMap(hit.bytes()), false);
    if checked.is_err() || !hit.is_whole() {
        return None;
    }
    std::thread::yield_now();
    Some(decode(InMap(hit.bytes()), false))
}

/// One that is gone afterwards, in which no file of another run is.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidemark-ring-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn tier(folder: &Path, bytes: u64) -> MappedTier {
    let settings = FileSettings {
        path: folder.join("own").join("values"),
        bytes,
        stripes: 1,
        codec: *b"test   2",
    };
    MappedTier::new(settings, Host::of_this_machine(|| 0).unwrap())
}

/// A map whose parts all follow from the key and the turn, which it names.
fn value_of(key: u64, turn: u64) -> Vec<ValuePart> {
    let int = |number: u64| ValuePart::Scalar(PhpScalar::Int(number as i64));
    let name = |name: &str| ValuePart::Key(PhpKey::Text(name.into()));
    let count = (key * 37 + turn * 101) % 90;
    let mut parts = vec![ValuePart::Begin(PhpWhole::Map, 4)];
    parts.extend([name("key"), int(key), name("turn"), int(turn)]);
    parts.extend([
        name("list"),
        ValuePart::Begin(PhpWhole::List, count as usize),
    ]);
    parts.extend((0..count).map(|at| int(at ^ key ^ turn)));
    let byte = (key ^ turn) as u8;
    parts.extend([
        name("text"),
        ValuePart::Text(vec![byte; count as usize * 5]),
    ]);
    parts
}

fn is_value_of(key: u64, decoded: &Decoded) -> bool {
    let turn = decoded.as_ref().ok().and_then(|parts| parts.get(4));
    match turn {
        Some(ValuePart::Scalar(PhpScalar::Int(turn))) => {
            decoded.as_deref() == Ok(value_of(key, *turn as u64).as_slice())
        }
        _ => false,
    }
}

/// How many reads were right and how many wrong; ends early when one was wrong.
fn read_while_written(reader: Reader, bytes: u64, reads: u64) -> (u64, u64) {
    let folder = Folder::new();
    let (right, wrong) = (AtomicU64::new(0), AtomicU64::new(0));
    let is_over = AtomicBool::new(false);
    let write = |writer: u64| {
        let tier = tier(folder.path(), bytes);
        for turn in 0.. {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let key = turn * 2 % KEYS + writer;
            let _ = tier.set(&MappedEntry {
                group: b"g",
                key: &key.to_le_bytes(),
                value: &encode(&value_of(key, turn)).unwrap(),
                lifetime_ms: Some(LIFETIME_MS + turn * 2 + writer),
                ticket: None,
                when: MappedWhen::Always,
            });
        }
    };
    let read = |first: u64| {
        let tier = tier(folder.path(), bytes);
        for turn in 0..reads / 2 {
            let key = (first + turn * 7) % KEYS;
            let Ok(MappedLookup::Hit(hit)) = tier.get(b"g", &key.to_le_bytes()) else {
                continue;
            };
            if let Some(decoded) = reader(&tier, &hit, key) {
                let is_right = is_value_of(key, &decoded);
                let counter = if is_right { &right } else { &wrong };
                counter.fetch_add(1, Ordering::Relaxed);
            }
            if wrong.load(Ordering::Relaxed) > 0 {
                break;
            }
        }
    };
    std::thread::scope(|scope| {
        for writer in 0..2 {
            scope.spawn(move || write(writer));
        }
        let readers = [0, 200].map(|first| scope.spawn(move || read(first)));
        let ended = readers.map(|reader| reader.join().is_ok());
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(ended, [true; 2]);
    });
    (right.into_inner(), wrong.into_inner())
}

#[test]
fn decoder_over_a_ring_that_is_overwritten_gives_no_wrong_value() {
    let is_night = std::env::var("TIDEMARK_LANE").is_ok_and(|lane| lane == "night");
    let reads = if is_night { 10_000_000 } else { 60_000 };
    for bytes in [MIB, NARROW] {
        let (right, wrong) = read_while_written(by_position, bytes, reads);
        assert_eq!(wrong, 0);
        assert!(right > reads / 100, "{right}");
    }
}

/// A planted fault is found long before.
const ENOUGH: u64 = 100_000_000;

#[test]
fn decoder_that_compares_the_slot_alone_fails_the_test_of_the_ring() {
    let (_, wrong) = read_while_written(by_slot, NARROW, ENOUGH);
    assert!(wrong > 0);
}

#[test]
fn decoder_that_fetches_twice_fails_the_test_of_the_ring() {
    let (_, wrong) = read_while_written(by_two_fetches, NARROW, ENOUGH);
    assert!(wrong > 0);
}
