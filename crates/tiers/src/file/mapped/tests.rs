//! A mapped file by itself: what it keeps, what it forgets, and what readers see of writers.

use std::fs::{self, OpenOptions};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::super::super::host::Host;
use super::*;

const MIB: u64 = 1 << 20;

static NOW_MS: AtomicU64 = AtomicU64::new(1_000);

fn now_ms() -> u64 {
    NOW_MS.load(Ordering::Relaxed)
}

fn host(boot: u8) -> Host {
    Host {
        now_ms,
        wall_ms: now_ms,
        boot_id: [boot; 16],
        ..Host::of_this_machine(|| 0).unwrap()
    }
}

fn settings(folder: &Path, bytes: u64, stripes: u32) -> FileSettings {
    FileSettings {
        path: folder.join("own").join("values"),
        bytes,
        stripes,
        codec: *b"test   1",
    }
}

/// One whose clock stands still but for what its test adds: tests of other clocks take the host's.
fn tier(folder: &Path, boot: u8) -> MappedTier {
    MappedTier::new(settings(folder, MIB, 2), host(boot))
}

fn real(folder: &Path, bytes: u64) -> MappedTier {
    let host = Host::of_this_machine(|| 0).unwrap();
    MappedTier::new(settings(folder, bytes, 1), host)
}

fn entry<'a>(group: &'a [u8], key: &'a [u8], value: &'a [u8]) -> MappedEntry<'a> {
    MappedEntry {
        group,
        key,
        value,
        lifetime_ms: None,
        ticket: None,
        when: MappedWhen::Always,
    }
}

fn read(tier: &MappedTier, group: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    match tier.get(group, key).unwrap() {
        MappedLookup::Hit(hit) => hit.to_vec(),
        MappedLookup::Miss(_) => None,
    }
}

#[test]
fn group_and_key_are_never_those_of_another_pair() {
    let folder = tempfile::tempdir().unwrap();
    let tier = tier(folder.path(), 1);
    let pairs: [(&[u8], &[u8]); 6] = [
        (b"ab", b"c"),
        (b"a", b"bc"),
        (b"", b"abc"),
        (b"abc", b""),
        (b"a\0\0\0", b"b"),
        (b"a", b"\0\0\0b"),
    ];
    for (number, (group, key)) in pairs.iter().enumerate() {
        tier.set(&entry(group, key, &[number as u8])).unwrap();
        // Those with the same bytes have one hash, so the one before is gone.
        for (other, (group, key)) in pairs.iter().enumerate() {
            let found = read(&tier, group, key);
            assert!(found.is_none_or(|found| found == [other as u8]));
        }
        assert_eq!(read(&tier, group, key).unwrap(), [number as u8]);
    }
}

#[test]
fn flush_of_a_group_is_seen_by_every_process_and_voids_tickets() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (tier(folder.path(), 1), tier(folder.path(), 1));
    one.set(&entry(b"posts", b"k", b"p")).unwrap();
    one.set(&entry(b"terms", b"k", b"t")).unwrap();
    for other in 0..20_u8 {
        one.set(&entry(&[other], b"k", b"t")).unwrap();
    }
    let before = two.ticket(b"posts", b"k").unwrap();
    one.flush_group(b"posts").unwrap();
    assert_eq!(read(&two, b"posts", b"k"), None);
    // Groups share generations by chance: one or two may have that of the flushed one.
    let stay = (0..20_u8).filter(|other| read(&two, &[*other], b"k").is_some());
    assert!(stay.count() >= 15);
    let late = MappedEntry {
        ticket: Some(before),
        ..entry(b"posts", b"k", b"old")
    };
    assert_eq!(two.set(&late).unwrap(), MappedStored::Overtaken);
    two.set(&entry(b"posts", b"k", b"new")).unwrap();
    assert_eq!(read(&one, b"posts", b"k").unwrap(), b"new");
    two.flush().unwrap();
    assert_eq!(read(&one, b"posts", b"k"), None);
    assert_eq!(read(&one, b"terms", b"k"), None);
}

#[test]
fn value_is_stored_only_in_the_state_demanded() {
    let folder = tempfile::tempdir().unwrap();
    let tier = tier(folder.path(), 1);
    let set = |value, when| {
        let entry = MappedEntry {
            when,
            ..entry(b"g", b"k", value)
        };
        tier.set(&entry).unwrap()
    };
    assert_eq!(set(b"1", MappedWhen::Present), MappedStored::Refused);
    assert_eq!(read(&tier, b"g", b"k"), None);
    assert_eq!(set(b"2", MappedWhen::Absent), MappedStored::Kept);
    assert_eq!(set(b"3", MappedWhen::Absent), MappedStored::Refused);
    assert_eq!(read(&tier, b"g", b"k").unwrap(), b"2");
    assert_eq!(set(b"4", MappedWhen::Present), MappedStored::Kept);
    assert_eq!(read(&tier, b"g", b"k").unwrap(), b"4");
    assert!(tier.delete(b"g", b"k").unwrap());
    assert!(!tier.delete(b"g", b"k").unwrap());
    assert_eq!(set(b"5", MappedWhen::Present), MappedStored::Refused);
}

fn counted(value: &[u8]) -> Option<Vec<u8>> {
    let number = u64::from_le_bytes(value.try_into().ok()?);
    Some((number + 1).to_le_bytes().to_vec())
}

#[test]
fn change_of_a_value_keeps_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let tier = real(folder.path(), MIB);
    assert_eq!(
        tier.update(b"g", b"k", counted).unwrap(),
        MappedStored::Refused
    );
    let with_end = MappedEntry {
        lifetime_ms: Some(3_600_000),
        ..entry(b"g", b"k", &[0; 8])
    };
    tier.set(&with_end).unwrap();
    let end = |tier: &MappedTier| match tier.get(b"g", b"k").unwrap() {
        MappedLookup::Hit(hit) => hit.until_ms,
        MappedLookup::Miss(_) => panic!("it was stored"),
    };
    let before = end(&tier);
    assert_eq!(
        tier.update(b"g", b"k", counted).unwrap(),
        MappedStored::Kept
    );
    assert_eq!(end(&tier), before);
    tier.set(&entry(b"g", b"k", b"no number")).unwrap();
    assert_eq!(
        tier.update(b"g", b"k", counted).unwrap(),
        MappedStored::Refused
    );
    assert_eq!(read(&tier, b"g", b"k").unwrap(), b"no number");
}

#[test]
fn changes_of_several_threads_are_all_counted_and_one_of_them_adds() {
    const THREADS: u64 = 4;
    const TURNS: u64 = 2_000;
    let folder = tempfile::tempdir().unwrap();
    let added = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let tier = real(folder.path(), MIB);
                let first = MappedEntry {
                    when: MappedWhen::Absent,
                    ..entry(b"g", b"k", &[0; 8])
                };
                // An owner of the lock may not run for longer than a writer waits.
                let stored = std::iter::repeat_with(|| tier.set(&first)).find_map(Result::ok);
                let is_first = stored == Some(MappedStored::Kept);
                added.fetch_add(u64::from(is_first), Ordering::Relaxed);
                for _ in 0..TURNS {
                    while tier.update(b"g", b"k", counted).is_err() {}
                }
            });
        }
    });
    assert_eq!(added.into_inner(), 1);
    let found = read(&real(folder.path(), MIB), b"g", b"k").unwrap();
    assert_eq!(found, (THREADS * TURNS).to_le_bytes());
}

#[test]
fn value_that_is_read_stays_while_many_others_pass() {
    let folder = tempfile::tempdir().unwrap();
    let tier = tier(folder.path(), 1);
    let value = vec![7; 1_000];
    for hot in 0..20_u64 {
        tier.set(&entry(b"g", &hot.to_le_bytes(), &value)).unwrap();
    }
    for cold in 1_000..30_000_u64 {
        tier.set(&entry(b"g", &cold.to_le_bytes(), &value)).unwrap();
        let hot = cold % 20;
        let found = read(&tier, b"g", &hot.to_le_bytes());
        assert!(
            found.is_some_and(|found| found == value),
            "{hot} after {cold}"
        );
    }
    let length = fs::metadata(settings(folder.path(), 0, 0).path)
        .unwrap()
        .len();
    assert_eq!(length, MIB);
}

#[test]
fn values_that_were_flushed_are_not_moved() {
    let folder = tempfile::tempdir().unwrap();
    let tier = tier(folder.path(), 1);
    for number in 0..400_u64 {
        tier.set(&entry(b"old", &number.to_le_bytes(), &[1; 1_000]))
            .unwrap();
        assert!(read(&tier, b"old", &number.to_le_bytes()).is_some());
    }
    tier.flush_group(b"old").unwrap();
    for number in 0..600_u64 {
        tier.set(&entry(b"new", &number.to_le_bytes(), &[2; 1_000]))
            .unwrap();
    }
    // 1 MiB has room for about 850 of these records.
    let kept = |number: &u64| read(&tier, b"new", &number.to_le_bytes()).is_some();
    assert_eq!((0..600_u64).filter(kept).count(), 600);
}

#[test]
fn file_outlives_a_start_of_the_host_only_with_a_clean_mark() {
    let after_restart = |with_mark: bool, write_after: bool| {
        let folder = tempfile::tempdir().unwrap();
        let before = tier(folder.path(), 1);
        before.set(&entry(b"g", b"k", b"v")).unwrap();
        if with_mark {
            before.sync().unwrap();
            assert_eq!(read(&before, b"g", b"k").unwrap(), b"v");
        }
        if write_after {
            before.delete(b"g", b"other").unwrap();
        }
        let after = tier(folder.path(), 2);
        let found = read(&after, b"g", b"k");
        // It is now of this start, and marked until it is written to.
        let again = tier(folder.path(), 3);
        assert_eq!(read(&again, b"g", b"k"), found);
        again.set(&entry(b"g", b"k", b"v")).unwrap();
        assert_eq!(read(&tier(folder.path(), 4), b"g", b"k"), None);
        found
    };
    assert_eq!(after_restart(false, false), None);
    assert_eq!(after_restart(true, false).unwrap(), b"v");
    assert_eq!(after_restart(true, true), None);
}

#[test]
fn file_whose_folder_was_moved_is_left_for_the_one_that_has_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let before = tier(folder.path(), 1);
    before.set(&entry(b"g", b"k", b"moved")).unwrap();
    fs::rename(folder.path().join("own"), folder.path().join("away")).unwrap();
    let after = tier(folder.path(), 1);
    after.set(&entry(b"g", b"k", b"new")).unwrap();
    NOW_MS.fetch_add(CHECK_MS, Ordering::Relaxed);
    assert_eq!(read(&before, b"g", b"k").unwrap(), b"new");
}

#[test]
fn file_is_never_opened_in_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path(), MIB, 2);
    let mapped = MappedTier::new(settings.clone(), host(1));
    mapped.check().unwrap();
    let copying = super::super::FileTier::new(settings.clone(), host(1));
    let error = super::super::Tier::check(&copying).unwrap_err();
    assert_eq!(error.fault, TierFault::Off);
    assert!(error.text.contains("another way"), "{error}");
    let survey = super::super::FileSurvey::of(&settings, &host(1)).unwrap_err();
    assert_eq!(survey.fault, TierFault::Off);
    mapped.set(&entry(b"g", b"k", b"v")).unwrap();
    assert_eq!(read(&mapped, b"g", b"k").unwrap(), b"v");
}

#[test]
fn key_is_forgotten_by_its_hash_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (tier(folder.path(), 1), tier(folder.path(), 1));
    one.set(&entry(b"g:", b"k", b"v")).unwrap();
    one.set(&entry(b"g:", b"l", b"v")).unwrap();
    let before = other.ticket(b"g:", b"k").unwrap();
    other.forget(XxHash3_64::oneshot(b"g:k")).unwrap();
    assert_eq!(read(&one, b"g:", b"k"), None);
    assert_eq!(read(&one, b"g:", b"l").unwrap(), b"v");
    let late = MappedEntry {
        ticket: Some(before),
        ..entry(b"g:", b"k", b"old")
    };
    assert_eq!(one.set(&late).unwrap(), MappedStored::Overtaken);
    other.flush_group_of(XxHash3_64::oneshot(b"g:")).unwrap();
    assert_eq!(read(&one, b"g:", b"l"), None);
}

#[test]
fn survey_counts_what_answers() {
    let folder = tempfile::tempdir().unwrap();
    let tier = tier(folder.path(), 1);
    for key in 0..10_u8 {
        tier.set(&entry(b"a", &[key], b"v")).unwrap();
        tier.set(&entry(b"b", &[key], b"v")).unwrap();
    }
    tier.delete(b"a", &[3]).unwrap();
    tier.flush_group(b"b").unwrap();
    let survey = tier.survey().unwrap();
    assert_eq!((survey.entries, survey.expired, survey.damaged), (9, 10, 0));
    assert_eq!(survey.file_bytes, MIB);
    let file = OpenOptions::new()
        .write(true)
        .open(settings(folder.path(), MIB, 2).path);
    let layout = tier.last().unwrap().file.opened.layout;
    for stripe in 0..2 {
        let at = layout.record_at(stripe, 0) + 24;
        let file = file.as_ref().unwrap();
        std::os::unix::fs::FileExt::write_all_at(file, &[0xff; 4], at).unwrap();
    }
    assert_eq!(tier.survey().unwrap().damaged, 2);
}

#[test]
fn group_of_the_owner_may_write_and_others_may_not() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = settings(folder.path(), MIB, 2).path;
    tier(folder.path(), 1).check().unwrap();
    for (mode_folder, mode_file, is_used) in [
        (0o770, 0o660, true),
        (0o770, 0o662, false),
        (0o772, 0o660, false),
    ] {
        let parent = path.parent().unwrap();
        fs::set_permissions(parent, fs::Permissions::from_mode(mode_folder)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode_file)).unwrap();
        let checked = tier(folder.path(), 1).check();
        assert_eq!(checked.is_ok(), is_used, "{mode_folder:o} {mode_file:o}");
    }
}

thread_local! {
    /// How many words of buckets this thread still stores before it is killed.
    static STORES_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

pub fn may_die() {
    let left = STORES_LEFT.take();
    if left == Some(0) {
        resume_unwind(Box::new("killed"));
    }
    STORES_LEFT.set(left.map(|left| left - 1));
}

/// Whether it was done before so many words were stored.
fn is_done_within(stores: u32, act: impl FnOnce()) -> bool {
    STORES_LEFT.set(Some(stores));
    let done = catch_unwind(AssertUnwindSafe(act));
    STORES_LEFT.set(None);
    done.is_ok()
}

/// Other keys of the bucket that has this one, more than it has slots.
fn neighbours(tier: &MappedTier, key: u8) -> Vec<[u8; 4]> {
    let file = &tier.last().unwrap().file;
    let bucket = |key: &[u8]| {
        let place = file.name(b"g", key).place;
        (place.stripe, place.bucket)
    };
    let keys = (0_u32..).map(u32::to_le_bytes);
    let keys = keys.filter(|other| bucket(other) == bucket(&[key]));
    keys.take(20).collect()
}

/// Kills a set and then a deletion of one key between any two words that they store. In a crowded
/// bucket, values of other keys come before and between.
fn kill_between_words(is_crowded: bool, lifetime_ms: Option<u64>) {
    const NEW: [u8; 200] = [2; 200];
    let folder = tempfile::tempdir().unwrap();
    let (tier, reader) = (tier(folder.path(), 1), tier(folder.path(), 1));
    tier.check().unwrap();
    for key in 0..5 {
        let found = || read(&reader, b"g", &[key]);
        let others = if is_crowded {
            neighbours(&tier, key)
        } else {
            Vec::new()
        };
        let steps = (0..).flat_map(|set| (0..6).map(move |deletion| (set, deletion)));
        for (stores, stores_of_deletion) in steps {
            for other in &others {
                tier.set(&entry(b"g", other, b"v")).unwrap();
            }
            tier.set(&entry(b"g", &[key], b"before")).unwrap();
            for other in &others {
                // What is read is not the least missed: that would be this key.
                let _ = read(&reader, b"g", other);
            }
            let is_set = is_done_within(stores, || {
                let name = [key];
                let new = MappedEntry {
                    lifetime_ms,
                    ..entry(b"g", &name, &NEW)
                };
                tier.set(&new).unwrap();
            });
            let first = found();
            match &first {
                Some(value) => assert!(*value == NEW || value == b"before" && !is_set),
                None => assert_eq!(lifetime_ms, Some(0), "an acknowledged value is gone"),
            }
            for other in &others {
                tier.set(&entry(b"g", other, b"w")).unwrap();
                let now = found();
                assert!(now.is_none() || now == first || now.is_some_and(|now| now == NEW));
            }
            let last = found();
            let is_gone = is_done_within(stores_of_deletion, || {
                tier.delete(b"g", &[key]).unwrap();
            });
            let now = found();
            assert!(now.is_none() || now == last && !is_gone);
            if is_set {
                break;
            }
        }
    }
}

#[test]
fn writer_killed_between_two_words_loses_no_value_and_brings_none_back() {
    for is_crowded in [false, true] {
        kill_between_words(is_crowded, None);
        kill_between_words(is_crowded, Some(0));
    }
}

fn cut(folder: &Path, length: u64) {
    let path = settings(folder, 0, 0).path;
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(length).unwrap();
}

#[test]
fn file_cut_short_under_its_readers_is_a_miss_and_no_signal() {
    for length in [0, 100, 4_096, 8_192, MIB / 2, MIB - 1] {
        let folder = tempfile::tempdir().unwrap();
        let mut tier = MappedTier::new(settings(folder.path(), MIB, 2), host(1));
        let value = |key: u32| vec![key as u8; 900];
        for key in 0..300_u32 {
            tier.set(&entry(b"g", &key.to_le_bytes(), &value(key)))
                .unwrap();
        }
        cut(folder.path(), length);
        for key in 0..300_u32 {
            if let Ok(MappedLookup::Hit(hit)) = tier.get(b"g", &key.to_le_bytes()) {
                assert!(
                    hit.to_vec().is_none_or(|found| found == value(key)),
                    "{key}"
                );
            }
            let _ = tier.set(&entry(b"h", &key.to_le_bytes(), &value(key)));
        }
        for _ in 0..2 {
            NOW_MS.fetch_add(2 * CHECK_MS, Ordering::Relaxed);
            let _ = tier.check();
        }
        tier.release();
        tier.set(&entry(b"g", b"k", b"v")).unwrap();
        assert_eq!(read(&tier, b"g", b"k").unwrap(), b"v");
    }
}

#[test]
fn hit_outlives_the_file_it_was_found_in() {
    let folder = tempfile::tempdir().unwrap();
    let mut tier = tier(folder.path(), 1);
    tier.set(&entry(b"g", b"k", b"old")).unwrap();
    let MappedLookup::Hit(hit) = tier.get(b"g", b"k").unwrap() else {
        panic!("it was stored")
    };
    fs::remove_file(settings(folder.path(), 0, 0).path).unwrap();
    let other = self::tier(folder.path(), 1);
    other.set(&entry(b"g", b"k", b"new")).unwrap();
    tier.delete(b"g", b"nothing").unwrap();
    assert_eq!(read(&tier, b"g", b"k").unwrap(), b"new");
    assert_eq!(hit.to_vec().unwrap(), b"old");
    tier.release();
    assert_eq!(read(&tier, b"g", b"k").unwrap(), b"new");
}

#[test]
fn file_that_is_replaced_says_so_to_those_who_have_it_open() {
    let folder = tempfile::tempdir().unwrap();
    let old = tier(folder.path(), 1);
    old.set(&entry(b"g", b"k", b"old")).unwrap();
    let new = tier(folder.path(), 2);
    assert_eq!(read(&new, b"g", b"k"), None);
    let opening = old.last().unwrap();
    assert!(opening.file.is_over() && !opening.is_usable(Path::new(""), &host(1), now_ms()));
    assert!(!opening.file.map.is_lost());
}

/// What a reader makes of a hit; `None` for a miss.
type Reader = fn(&MappedHit<'_>, u64) -> Option<Vec<u8>>;

/// As the product reads: lengths once, and the head afterwards.
fn by_position(hit: &MappedHit<'_>, _: u64) -> Option<Vec<u8>> {
    let bytes = hit.bytes();
    let length = bytes.number(0)? as usize;
    let mut value = vec![0; 8];
    bytes.part(0, 8)?.copy_to(&mut value);
    let rest = bytes.part(8, length)?.to_vec();
    value[..8].copy_from_slice(&(length as u64).to_le_bytes());
    value.extend(rest);
    hit.is_whole().then_some(value)
}

/// Planted: whether the slot still names the record is all that is looked at afterwards.
fn by_slot(hit: &MappedHit<'_>, key: u64) -> Option<Vec<u8>> {
    std::thread::yield_now();
    let value = hit.bytes().to_vec();
    let name = hit.file.name(b"g", &key.to_le_bytes());
    let found = hit.file.bucket(name.place).bucket.find(name.place.tag);
    found
        .is_some_and(|found| found.position == hit.position)
        .then_some(value)
}

/// Planted: a length is checked, and then read again to be used.
fn by_two_fetches(hit: &MappedHit<'_>, _: u64) -> Option<Vec<u8>> {
    let bytes = hit.bytes();
    let checked = bytes.number(0)? as usize;
    bytes.part(8, checked)?;
    std::thread::yield_now();
    let used = bytes.number(0)? as usize;
    // Where this is none, a decoder without bounds has read somewhere else: the reader is dead.
    let rest = bytes.part(8, used).map(|rest| rest.to_vec());
    let mut value = (used as u64).to_le_bytes().to_vec();
    value.extend(rest.unwrap_or_default());
    (used != checked || hit.is_whole()).then_some(value)
}

/// A length, then so many bytes that follow from the key and the length.
fn value_of(key: u64, turn: u64) -> Vec<u8> {
    let length = 200 + (key * 37 + turn * 101) % 900;
    let mut value = length.to_le_bytes().to_vec();
    value.extend((0..length).map(|at| (at ^ key ^ length) as u8));
    value
}

fn is_value_of(key: u64, value: &[u8]) -> bool {
    let Some(length) = value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)) else {
        return false;
    };
    let is_right = |(at, byte): (usize, &u8)| *byte == (at as u64 ^ key ^ length) as u8;
    value.len() as u64 == 8 + length && value[8..].iter().enumerate().all(is_right)
}

/// Two writers and two readers on one ring. How many reads were right and how many wrong; ends
/// early when one was wrong.
fn read_while_written(reader: Reader, bytes: u64, reads: u64) -> (u64, u64) {
    const KEYS: u64 = 400;
    let folder = tempfile::tempdir().unwrap();
    let (right, wrong) = (AtomicU64::new(0), AtomicU64::new(0));
    let is_over = AtomicBool::new(false);
    let write = |writer: u64| {
        let tier = real(folder.path(), bytes);
        for turn in 0.. {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let key = turn * 2 % KEYS + writer;
            let value = value_of(key, turn);
            let _ = tier.set(&entry(b"g", &key.to_le_bytes(), &value));
        }
    };
    let read = |first: u64| {
        let tier = real(folder.path(), bytes);
        for turn in 0..reads / 2 {
            let key = (first + turn * 7) % KEYS;
            let Ok(MappedLookup::Hit(hit)) = tier.get(b"g", &key.to_le_bytes()) else {
                continue;
            };
            if let Some(value) = reader(&hit, key) {
                let counter = if is_value_of(key, &value) {
                    &right
                } else {
                    &wrong
                };
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

/// Small, so that it goes round while a reader is between two steps.
const NARROW: u64 = 96 << 10;
/// A planted fault is found long before.
const ENOUGH: u64 = 100_000_000;

#[test]
fn readers_of_a_ring_see_no_wrong_value_while_it_is_overwritten() {
    let is_night = std::env::var("TIDEMARK_LANE").is_ok_and(|lane| lane == "night");
    let reads = if is_night { 10_000_000 } else { 100_000 };
    for bytes in [MIB, NARROW] {
        let (right, wrong) = read_while_written(by_position, bytes, reads);
        assert_eq!(wrong, 0);
        assert!(right > reads / 100, "{right}");
    }
}

#[test]
fn planted_check_of_the_slot_alone_fails_the_test_of_the_ring() {
    let (_, wrong) = read_while_written(by_slot, NARROW, ENOUGH);
    assert!(wrong > 0);
}

#[test]
fn planted_second_fetch_of_a_length_fails_the_test_of_the_ring() {
    let (_, wrong) = read_while_written(by_two_fetches, NARROW, ENOUGH);
    assert!(wrong > 0);
}
