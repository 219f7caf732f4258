//! What every tier promises, for each of them, by one process.

use std::cell::Cell;
use std::path::Path;

use tiers::{
    FileSurvey, FileTier, Host, LeaseAct, LeaseAnswer, Lookup, RECORD_MS_MAX, RecordTier, Stored,
    Tier, TierFault,
};

mod support;

use support::mapped::MappedAsTier;
use support::records::MemoryRecords;
use support::sqlite::SqliteTier;
use support::{read, settings};

thread_local! {
    static NOW_MS: Cell<u64> = const { Cell::new(1_000) };
}

fn now_ms() -> u64 {
    NOW_MS.get()
}

fn pass_ms(time: u64) {
    NOW_MS.set(NOW_MS.get() + time);
}

fn host() -> Host {
    Host {
        now_ms,
        wall_ms: now_ms,
        ..support::host()
    }
}

fn mapped(folder: &Path) -> MappedAsTier {
    MappedAsTier::new(settings(folder, 1 << 20, 2), host())
}

fn file(folder: &Path) -> FileTier {
    FileTier::new(settings(folder, 1 << 20, 2), host())
}

/// Runs a law on each tier, in a folder of its own.
fn on_each_tier(law: impl Fn(&dyn Tier)) {
    let folder = tempfile::tempdir().unwrap();
    law(&file(folder.path()));
    let sqlite = SqliteTier::open(&folder.path().join("sqlite"), host());
    law(&sqlite);
}

/// As [`on_each_tier`], and on a mapped file, which has no leases.
fn on_each_tier_and_map(law: impl Fn(&dyn Tier)) {
    on_each_tier(&law);
    let folder = tempfile::tempdir().unwrap();
    law(&mapped(folder.path()));
}

fn records() -> RecordTier<MemoryRecords> {
    RecordTier::new(MemoryRecords::default(), host())
}

fn ticket(tier: &dyn Tier, key: &[u8]) -> tiers::MissTicket {
    match tier.get(key).unwrap() {
        Lookup::Miss(ticket) => ticket,
        Lookup::Hit(hit) => panic!("{hit:?}"),
    }
}

#[test]
fn value_reads_back_until_it_is_replaced_or_deleted() {
    let law = |tier: &dyn Tier| {
        assert_eq!(read(tier, b"k").unwrap(), None);
        for value in [&b""[..], b"one", &vec![0; 20_000], b"two"] {
            assert_eq!(tier.set(b"k", value, None, None).unwrap(), Stored::Kept);
            assert_eq!(read(tier, b"k").unwrap().as_deref(), Some(value));
            assert_eq!(read(tier, b"").unwrap(), None);
        }
        assert!(tier.delete(b"k").unwrap());
        assert!(!tier.delete(b"k").unwrap());
        assert_eq!(read(tier, b"k").unwrap(), None);
    };
    on_each_tier_and_map(law);
    law(&records());
}

#[test]
fn value_ends_with_its_lifetime() {
    let law = |tier: &dyn Tier| {
        tier.set(b"k", b"v", Some(10), None).unwrap();
        tier.set(b"now", b"v", Some(0), None).unwrap();
        tier.set(b"long", b"v", Some(u64::MAX / 4), None).unwrap();
        assert_eq!(read(tier, b"now").unwrap(), None);
        pass_ms(9);
        let Lookup::Hit(hit) = tier.get(b"k").unwrap() else {
            panic!("it has not ended")
        };
        assert_eq!((hit.until_ms - now_ms(), now_ms() - hit.written_ms), (1, 9));
        pass_ms(1);
        assert_eq!(read(tier, b"k").unwrap(), None);
        assert!(read(tier, b"long").unwrap().is_some());
    };
    on_each_tier_and_map(law);
    law(&records());
}

#[test]
fn ticket_is_void_after_a_deletion() {
    on_each_tier_and_map(|tier| {
        let before = ticket(tier, b"k");
        let kept = tier.set(b"k", b"1", None, Some(before)).unwrap();
        assert_eq!(kept, Stored::Kept);
        tier.delete(b"k").unwrap();
        let after = ticket(tier, b"k");
        let overtaken = tier.set(b"k", b"2", None, Some(before)).unwrap();
        assert_eq!(overtaken, Stored::Overtaken);
        assert_eq!(read(tier, b"k").unwrap(), None);
        tier.clear().unwrap();
        let overtaken = tier.set(b"k", b"3", None, Some(after)).unwrap();
        assert_eq!(overtaken, Stored::Overtaken);
        let now = ticket(tier, b"k");
        assert_eq!(tier.ticket(b"k").unwrap(), now);
        let kept = tier.set(b"k", b"4", None, Some(now)).unwrap();
        assert_eq!(kept, Stored::Kept);
        assert_eq!(tier.ticket(b"k").unwrap(), now);
    });
}

#[test]
fn records_store_nothing_with_a_ticket_from_before_a_deletion_or_a_loss() {
    let tier = records();
    let before = ticket(&tier, b"k");
    assert_eq!(tier.ticket(b"k").unwrap(), before);
    tier.set(b"k", b"1", None, Some(before)).unwrap();
    tier.delete(b"k").unwrap();
    let stored = tier.set(b"k", b"2", None, Some(before)).unwrap();
    assert_eq!(
        (stored, read(&tier, b"k").unwrap()),
        (Stored::Overtaken, None)
    );
    let after = ticket(&tier, b"k");
    assert_ne!(after, before);
    tier.set(b"k", b"3", None, Some(after)).unwrap();
    assert_eq!(read(&tier, b"k").unwrap().unwrap(), b"3");
    // A late one replaces the entry and is no answer.
    tier.set(b"k", b"2", None, Some(before)).unwrap();
    assert_eq!(read(&tier, b"k").unwrap(), None);
}

#[test]
fn records_that_are_lost_or_changed_are_misses() {
    let store = MemoryRecords::default();
    let tier = RecordTier::new(store.clone(), host());
    tier.set(b"k", b"value", None, None).unwrap();
    let whole = store.records.lock().unwrap().clone();
    assert_eq!(whole.len(), 2);
    for (key, record) in &whole {
        for length in 0..record.len() {
            let cut = record[..length].to_vec();
            store.records.lock().unwrap().insert(key.clone(), cut);
            let found = read(&tier, b"k").unwrap();
            // Of the value itself the frame in it knows the length.
            assert!(found.is_none_or(|value| b"value".starts_with(&value)));
            store.records.lock().unwrap().clone_from(&whole);
            assert_eq!(read(&tier, b"k").unwrap().unwrap(), b"value");
        }
        store.records.lock().unwrap().remove(key);
        assert_eq!(read(&tier, b"k").unwrap(), None);
        store.records.lock().unwrap().clone_from(&whole);
    }
    // Nothing is needed for longer, and a store may have kept it.
    pass_ms(RECORD_MS_MAX);
    assert_eq!(read(&tier, b"k").unwrap(), None);
}

#[test]
fn records_give_no_value_a_longer_life_when_the_clock_is_set_back() {
    fn earlier_ms() -> u64 {
        now_ms() - 900
    }
    let store = MemoryRecords::default();
    let tier = RecordTier::new(store.clone(), host());
    tier.set(b"k", b"v", Some(RECORD_MS_MAX + 5), None).unwrap();
    let host = Host {
        wall_ms: earlier_ms,
        ..host()
    };
    let Lookup::Hit(hit) = RecordTier::new(store, host).get(b"k").unwrap() else {
        panic!("it has not ended")
    };
    assert_eq!(
        (hit.written_ms, hit.until_ms),
        (now_ms(), now_ms() + RECORD_MS_MAX)
    );
}

const FIRST: [u8; 16] = [1; 16];
const SECOND: [u8; 16] = [2; 16];
const TAKE: LeaseAct = LeaseAct::Take { lifetime_ms: 10 };
const RENEW: LeaseAct = LeaseAct::Renew { lifetime_ms: 10 };

#[test]
fn lease_has_one_holder_until_it_is_given_back_or_overdue() {
    on_each_tier(|tier| {
        let lease = |holder, act| {
            tier.leases().unwrap().lease(b"k", holder, act).unwrap() == LeaseAnswer::Own
        };
        assert!(!lease(&FIRST, RENEW) && !lease(&FIRST, LeaseAct::Release));
        assert!(lease(&FIRST, TAKE) && !lease(&SECOND, TAKE) && !lease(&SECOND, RENEW));
        assert!(!lease(&SECOND, LeaseAct::Release));
        assert!(
            tier.leases()
                .unwrap()
                .lease(b"other", &SECOND, TAKE)
                .unwrap()
                == LeaseAnswer::Own
        );
        pass_ms(9);
        assert!(lease(&FIRST, RENEW));
        pass_ms(9);
        assert!(!lease(&SECOND, TAKE) && lease(&FIRST, TAKE));
        assert!(lease(&FIRST, LeaseAct::Release) && lease(&SECOND, TAKE));
        pass_ms(10);
        // No other has taken it meanwhile.
        assert!(lease(&SECOND, RENEW) && !lease(&FIRST, TAKE));
        pass_ms(10);
        assert!(lease(&FIRST, TAKE) && !lease(&SECOND, RENEW));
        assert!(!lease(&SECOND, LeaseAct::Release));
        assert_eq!(read(tier, b"k").unwrap(), None);
    });
}

#[test]
fn holder_that_wakes_after_its_lease_stores_nothing() {
    on_each_tier(|tier| {
        let lease = |holder, act| {
            tier.leases().unwrap().lease(b"k", holder, act).unwrap() == LeaseAnswer::Own
        };
        assert!(lease(&FIRST, TAKE));
        let late = ticket(tier, b"k");
        // It is late, and no other has computed the value.
        pass_ms(11);
        assert_eq!(
            tier.set(b"k", b"1", None, Some(late)).unwrap(),
            Stored::Kept
        );
        // The next one has: at first it still computes, then it has stored.
        assert!(lease(&SECOND, TAKE));
        let next = tier.ticket(b"k").unwrap();
        let stored = tier.set(b"k", b"late", None, Some(late)).unwrap();
        assert_eq!(stored, Stored::Overtaken);
        assert_eq!(
            tier.set(b"k", b"2", None, Some(next)).unwrap(),
            Stored::Kept
        );
        assert!(lease(&SECOND, LeaseAct::Release));
        let stored = tier.set(b"k", b"late", None, Some(late)).unwrap();
        assert_eq!(stored, Stored::Overtaken);
        assert_eq!(read(tier, b"k").unwrap().unwrap(), b"2");
    });
}

#[test]
fn clear_removes_every_value() {
    on_each_tier_and_map(|tier| {
        for number in 0..500_u32 {
            tier.set(&number.to_le_bytes(), b"v", None, None).unwrap();
        }
        tier.clear().unwrap();
        for number in 0..500_u32 {
            assert_eq!(read(tier, &number.to_le_bytes()).unwrap(), None);
        }
    });
}

#[test]
fn file_keeps_the_values_written_last() {
    let folder = tempfile::tempdir().unwrap();
    let tier = file(folder.path());
    let value = |number: u32| vec![number as u8; 300 + number as usize % 700];
    for number in 0..20_000_u32 {
        tier.set(&number.to_le_bytes(), &value(number), None, None)
            .unwrap();
    }
    let mut kept = 0;
    for number in 0..20_000_u32 {
        if let Some(found) = read(&tier, &number.to_le_bytes()).unwrap() {
            assert!(found == value(number), "{number}");
            kept += usize::from(number >= 19_000);
        }
    }
    // 1 MiB holds about 1,500 of them; a full bucket pushes out a few earlier.
    assert!(kept >= 950, "{kept}");
    let length = std::fs::metadata(settings(folder.path(), 0, 0).path)
        .unwrap()
        .len();
    assert_eq!(length, 1 << 20);
}

#[test]
fn file_refuses_an_entry_of_more_than_its_share() {
    let folder = tempfile::tempdir().unwrap();
    let tier = file(folder.path());
    let error = tier.set(b"k", &vec![0; 200_000], None, None).unwrap_err();
    assert_eq!(error.fault, TierFault::TooLarge);
    let max: usize = error.text.rsplit(' ').next().unwrap().parse().unwrap();
    tier.set(b"k", &vec![7; max - 1], None, None).unwrap();
    assert_eq!(read(&tier, b"k").unwrap().unwrap(), vec![7; max - 1]);
    let error = tier.set(b"k", &vec![7; max], None, None).unwrap_err();
    assert_eq!(error.fault, TierFault::TooLarge);
    let key = vec![0; max + 1];
    let error = tier.set(&key, b"", None, None).unwrap_err();
    assert_eq!(error.fault, TierFault::TooLarge);
    assert_eq!(read(&tier, &key).unwrap(), None);
}

#[test]
fn file_outlives_its_tier() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path()).set(b"k", b"v", None, None).unwrap();
    let again = file(folder.path());
    assert_eq!(read(&again, b"k").unwrap().unwrap(), b"v");
}

#[test]
fn survey_counts_what_is_in_the_file_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path(), 1 << 20, 2);
    std::fs::create_dir(folder.path().join("own")).unwrap();
    assert_eq!(FileSurvey::of(&settings, &host()).unwrap(), None);
    let tier = file(folder.path());
    for number in 0..30_u32 {
        let lifetime_ms = (number < 10).then_some(5);
        let key = number.to_le_bytes();
        tier.set(&key, &[1; 100], lifetime_ms, None).unwrap();
    }
    tier.delete(&29_u32.to_le_bytes()).unwrap();
    pass_ms(5);
    let found = FileSurvey::of(&settings, &host()).unwrap().unwrap();
    let wanted = FileSurvey {
        file_bytes: 1 << 20,
        entries: 19,
        entry_bytes: 19 * 192,
        expired: 10,
        overwritten: 0,
        damaged: 0,
    };
    assert_eq!(found, wanted);
    for number in 0..5_000_u32 {
        tier.set(&number.to_le_bytes(), &[2; 1_000], None, None)
            .unwrap();
    }
    let found = FileSurvey::of(&settings, &host()).unwrap().unwrap();
    assert!(found.entries > 700 && found.overwritten > 0, "{found:?}");
    assert_eq!((found.expired, found.damaged), (0, 0));
    std::fs::write(&settings.path, b"garbage").unwrap();
    assert_eq!(FileSurvey::of(&settings, &host()).unwrap(), None);
    assert_eq!(std::fs::read(&settings.path).unwrap(), b"garbage");
}
