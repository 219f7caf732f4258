//! What is done to the file, its folder or the host, and what the tier makes of it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tiers::{FileSettings, FileTier, Host, Tier, TierFault};

mod support;

use support::mapped::MappedAsTier;
use support::{Numbers, no_forks, read, settings};

const BYTES: u64 = 256 << 10;
/// After this a refused or damaged file is tried again.
const AGAIN_MS: u64 = 1_000;

static NOW_MS: AtomicU64 = AtomicU64::new(1_000);

/// Runs ahead by itself, since waiting for a lock ends by the clock.
fn now_ms() -> u64 {
    NOW_MS.fetch_add(1, Ordering::Relaxed)
}

fn host(boot: u8) -> Host {
    Host {
        now_ms,
        forks: no_forks,
        boot_id: [boot; 16],
        ..support::host()
    }
}

fn small(folder: &Path) -> FileSettings {
    settings(folder, BYTES, 2)
}

fn tier(folder: &Path) -> FileTier {
    FileTier::new(small(folder), host(1))
}

fn opened(folder: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options.open(small(folder).path).unwrap()
}

fn demand_off(tier: &FileTier, part: &str) {
    let errors = [
        tier.check().unwrap_err(),
        tier.get(b"k").unwrap_err(),
        tier.set(b"k", b"v", None, None).unwrap_err(),
        tier.delete(b"k").unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.fault, TierFault::Off, "{error}");
        assert!(error.text.contains(part), "{error}");
    }
}

#[test]
fn file_of_another_start_of_the_host_is_discarded() {
    let folder = tempfile::tempdir().unwrap();
    tier(folder.path()).set(b"k", b"v", None, None).unwrap();
    let inode = opened(folder.path()).metadata().unwrap().ino();
    let after = FileTier::new(small(folder.path()), host(2));
    assert_eq!(read(&after, b"k").unwrap(), None);
    assert_ne!(opened(folder.path()).metadata().unwrap().ino(), inode);
    after.set(b"k", b"w", None, None).unwrap();
    assert_eq!(read(&after, b"k").unwrap().unwrap(), b"w");
}

#[test]
fn file_of_an_older_format_is_discarded_and_one_of_a_newer_format_left_alone() {
    for format in [0_u32, 2, 4, u32::MAX] {
        let folder = tempfile::tempdir().unwrap();
        tier(folder.path()).set(b"k", b"v", None, None).unwrap();
        let file = opened(folder.path());
        file.write_all_at(&format.to_le_bytes(), 8).unwrap();
        let after = tier(folder.path());
        if format < 3 {
            assert_eq!(read(&after, b"k").unwrap(), None);
            after.set(b"k", b"v", None, None).unwrap();
        } else {
            demand_off(&after, "newer library");
            let left = opened(folder.path()).metadata().unwrap();
            assert_eq!(left.ino(), file.metadata().unwrap().ino());
        }
    }
}

#[test]
fn file_of_another_codec_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    tier(folder.path()).set(b"k", b"v", None, None).unwrap();
    let mut other = small(folder.path());
    other.codec = *b"test   2";
    demand_off(&FileTier::new(other, host(1)), "another language");
    assert_eq!(read(&tier(folder.path()), b"k").unwrap().unwrap(), b"v");
}

#[test]
fn file_that_is_none_is_replaced() {
    let full = vec![0xa5; BYTES as usize];
    for garbage in [&b""[..], b"TMRKTIER", &[0; 5_000], &full] {
        let folder = tempfile::tempdir().unwrap();
        tier(folder.path()).check().unwrap();
        fs::write(small(folder.path()).path, garbage).unwrap();
        let after = tier(folder.path());
        assert_eq!(read(&after, b"k").unwrap(), None);
        after.set(b"k", b"v", None, None).unwrap();
        assert_eq!(read(&after, b"k").unwrap().unwrap(), b"v");
    }
}

#[test]
fn copied_file_is_discarded() {
    let folder = tempfile::tempdir().unwrap();
    tier(folder.path()).set(b"k", b"v", None, None).unwrap();
    let path = small(folder.path()).path;
    let copy = path.with_extension("copy");
    fs::copy(&path, &copy).unwrap();
    fs::rename(&copy, &path).unwrap();
    assert_eq!(read(&tier(folder.path()), b"k").unwrap(), None);
}

#[test]
fn places_that_others_may_change_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own");
    tier(folder.path()).check().unwrap();
    let path = small(folder.path()).path;
    fs::set_permissions(&path, Permissions::from_mode(0o622)).unwrap();
    demand_off(&tier(folder.path()), "others may write");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&own, Permissions::from_mode(0o770)).unwrap();
    demand_off(&tier(folder.path()), "others may write");
    fs::set_permissions(&own, Permissions::from_mode(0o700)).unwrap();
    tier(folder.path()).check().unwrap();
    // Only a privileged user can give a file away.
    if std::os::unix::fs::chown(&path, Some(1), None).is_ok() {
        demand_off(&tier(folder.path()), "belongs to user 1");
    }
}

#[test]
fn links_and_pipes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    tier(folder.path()).check().unwrap();
    let path = small(folder.path()).path;
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    demand_off(&tier(folder.path()), "cannot be opened");
    fs::remove_file(&path).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    demand_off(&tier(folder.path()), "is not a file");
    let linked = folder.path().join("linked");
    symlink(folder.path().join("own"), &linked).unwrap();
    let mut settings = small(folder.path());
    settings.path = linked.join("values");
    demand_off(&FileTier::new(settings, host(1)), "not a folder");
}

#[test]
fn file_that_does_not_fit_on_the_disk_is_not_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let huge = settings(folder.path(), 1 << 44, 16);
    demand_off(&FileTier::new(huge, host(1)), "cannot be made");
    let left = fs::read_dir(folder.path().join("own")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["values.lock"]);
    demand_off(
        &FileTier::new(settings(folder.path(), 4_096, 16), host(1)),
        "too few",
    );
}

#[test]
fn file_truncated_under_readers_is_a_miss_and_begins_again() {
    let folder = tempfile::tempdir().unwrap();
    let tier = tier(folder.path());
    let value = |key: u32| vec![key as u8; 900];
    let keys = 0..100_u32;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    for key in keys.clone() {
                        if let Ok(Some(found)) = read(&tier, &key.to_le_bytes()) {
                            assert!(found == value(key), "{key}");
                        }
                    }
                }
            });
        }
        let lengths = [BYTES / 2, 0, 100, BYTES - 1, 4_096, 8_193];
        for length in lengths {
            NOW_MS.fetch_add(AGAIN_MS, Ordering::Relaxed);
            let _ = tier.check();
            NOW_MS.fetch_add(AGAIN_MS, Ordering::Relaxed);
            tier.check().unwrap();
            for key in keys.clone() {
                let _ = tier.set(&key.to_le_bytes(), &value(key), None, None);
            }
            let file = opened(folder.path());
            file.set_len(length).unwrap();
            for key in keys.clone() {
                let _ = tier.get(&key.to_le_bytes());
            }
            file.set_len(BYTES).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    NOW_MS.fetch_add(2 * AGAIN_MS, Ordering::Relaxed);
    let _ = tier.set(b"k", b"v", None, None);
    NOW_MS.fetch_add(2 * AGAIN_MS, Ordering::Relaxed);
    tier.set(b"k", b"v", None, None).unwrap();
    assert_eq!(read(&tier, b"k").unwrap().unwrap(), b"v");
}

#[test]
fn file_replaced_by_another_process_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (tier(folder.path()), tier(folder.path()));
    one.set(b"k", b"old", None, None).unwrap();
    assert!(read(&two, b"k").unwrap().is_some());
    fs::remove_file(small(folder.path()).path).unwrap();
    NOW_MS.fetch_add(AGAIN_MS, Ordering::Relaxed);
    one.set(b"k", b"new", None, None).unwrap();
    // Whether or not it has noticed: its deletion counts for the file that has the name.
    two.delete(b"k").unwrap();
    assert_eq!(read(&one, b"k").unwrap(), None);
    assert_eq!(read(&two, b"k").unwrap(), None);
}

/// The bytes of a file before a `set`, and the writes of that `set` in their order.
fn writes(before: &[u8], after: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut found: Vec<(usize, Vec<u8>)> = Vec::new();
    for at in (0..before.len()).filter(|at| before[*at] != after[*at]) {
        match found.last_mut() {
            Some((start, bytes)) if *start + bytes.len() + 64 > at => {
                bytes.extend_from_slice(&after[*start + bytes.len()..=at]);
            }
            _ => found.push((at, vec![after[at]])),
        }
    }
    // If need be the head, then record and bucket; the record stands last in the file.
    let (bucket, record) = (found.len() - 2, found.len() - 1);
    found.swap(bucket, record);
    found
}

#[test]
fn set_cut_off_after_any_byte_leaves_the_old_value_or_none() {
    cut_off_sets(300, 2);
    // A record that has a position for itself, for which the head is raised.
    cut_off_sets(2_000, 3);
}

fn cut_off_sets(length: usize, count: usize) {
    let folder = tempfile::tempdir().unwrap();
    let tier = FileTier::new(settings(folder.path(), BYTES, 1), host(1));
    tier.set(b"other", b"stays", None, None).unwrap();
    // The second one of a ring takes room for two, so that the third raises no head.
    for _ in 0..2 {
        tier.set(b"k", &vec![1; length], None, None).unwrap();
    }
    let file = opened(folder.path());
    let path = small(folder.path()).path;
    let before = fs::read(&path).unwrap();
    tier.set(b"k", &vec![2; length], None, None).unwrap();
    let after = fs::read(&path).unwrap();
    let mut state = before.clone();
    let writes = writes(&before, &after);
    assert_eq!(writes.len(), count, "{writes:?}");
    for (start, bytes) in writes {
        for (at, byte) in bytes.iter().enumerate() {
            state[start + at] = *byte;
            file.write_all_at(&state, 0).unwrap();
            let found = read(&tier, b"k").unwrap();
            let is_right =
                found.is_none_or(|found| found == vec![1; length] || found == vec![2; length]);
            assert!(is_right, "byte {at} at {start}");
            assert_eq!(read(&tier, b"other").unwrap().unwrap(), b"stays");
        }
    }
    assert_eq!(read(&tier, b"k").unwrap().unwrap(), vec![2; length]);
}

#[test]
fn damage_anywhere_is_a_miss() {
    damage_anywhere(|folder| Box::new(tier(folder)));
    damage_anywhere(|folder| Box::new(MappedAsTier::new(small(folder), host(1))));
}

fn damage_anywhere(open: fn(&Path) -> Box<dyn Tier>) {
    let mut numbers = Numbers(7);
    let rounds = if support::is_night() { 2_000 } else { 100 };
    for round in 0..rounds {
        let folder = tempfile::tempdir().unwrap();
        let tier = open(folder.path());
        let value = |key: u64| vec![key as u8; 64 + key as usize * 7];
        for key in 0..40_u64 {
            tier.set(&key.to_le_bytes(), &value(key), None, None)
                .unwrap();
        }
        for key in 40..80_u64 {
            tier.set(&key.to_le_bytes(), b"gone", None, None).unwrap();
            tier.delete(&key.to_le_bytes()).unwrap();
        }
        let file = opened(folder.path());
        for _ in 0..=numbers.below(20) {
            let bytes: Vec<u8> = (0..=numbers.below(600))
                .map(|_| numbers.next() as u8)
                .collect();
            file.write_at(&bytes, numbers.below(BYTES - 600)).unwrap();
        }
        // What a process wrote itself it has checked; another one reads.
        let other = open(folder.path());
        for key in 0..80_u64 {
            if let Ok(Some(found)) = read(&*other, &key.to_le_bytes()) {
                assert!(key < 40 && found == value(key), "round {round}, key {key}");
            }
        }
    }
}
