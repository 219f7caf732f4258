//! The table against a model, and items whose drop calls the table again.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cache::{
    CANDIDATES_MAX, EntryPlace, NEVER_US, NewEntry, ObjectTable, Removal, Removed, TableLimits,
};
use proptest::prelude::*;

const LIMITS: TableLimits = TableLimits {
    entries_max: 20,
    bytes_max: 400,
    stale_us: 10,
};

type Item = (u8, u32);

#[derive(Clone, Debug)]
enum Step {
    Put { key: u8, weight: u32, ttl: u64 },
    Get(u8),
    Remove(u8),
    Wait(u64),
    Drain,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (any::<u8>(), 0..90u32, 0..60u64)
            .prop_map(|(key, weight, ttl)| Step::Put { key: key % 40, weight, ttl }),
        6 => any::<u8>().prop_map(|key| Step::Get(key % 40)),
        1 => any::<u8>().prop_map(|key| Step::Remove(key % 40)),
        1 => (0..40u64).prop_map(Step::Wait),
        1 => (0..20u8).prop_map(|n| if n == 0 { Step::Drain } else { Step::Wait(1) }),
    ];
    prop::collection::vec(step, 1..400)
}

/// Few hashes, so that entries meet in one.
fn hash(key: u8) -> u64 {
    u64::from(key % 11) << 60 | u64::from(key % 11)
}

fn find(table: &ObjectTable<Item>, key: u8, now: u64) -> Option<(EntryPlace, Item, bool)> {
    let found = table.probe(hash(key), now);
    let all = found.first.into_iter().chain(found.more);
    let mut equal = all.filter(|candidate| candidate.item.0 == key);
    let one = equal.next();
    assert!(equal.next().is_none(), "a key stands in the table once");
    one.map(|candidate| (candidate.place, candidate.item, candidate.is_stale))
}

/// What the table may answer: the last value put under a key, and when its lifetime ends.
#[derive(Default)]
struct Model {
    held: BTreeMap<u8, (u32, u32, u64)>,
    serial: u32,
    now: u64,
}

impl Model {
    fn put(&mut self, table: &mut ObjectTable<Item>, key: u8, weight: u32, ttl: u64) {
        self.serial += 1;
        let new = NewEntry {
            hash: hash(key),
            item: (key, self.serial),
            weight,
            expires_us: self.now + ttl,
            replaces: find(table, key, self.now).map(|(place, ..)| place),
        };
        let gone = table.insert(new, self.now);
        let expires = self.now + ttl;
        let older = self.held.insert(key, (self.serial, weight, expires));
        for Removed { item, why } in gone {
            match why {
                Removal::Replaced => assert_eq!(older.map(|held| held.0), Some(item.1)),
                Removal::Refused => panic!("no weight here is beyond the table's"),
                Removal::Evicted | Removal::Expired => {
                    // Else a newer one stood there: what is past its time is not found.
                    if self.held.get(&item.0).is_some_and(|held| held.0 == item.1) {
                        let ends = self.held[&item.0].2;
                        self.held.remove(&item.0);
                        assert_eq!(why == Removal::Expired, ends + LIMITS.stale_us <= self.now);
                    }
                }
            }
        }
    }

    fn get(&self, table: &mut ObjectTable<Item>, key: u8) {
        let found = find(table, key, self.now);
        let held = self.held.get(&key).copied();
        let alive = held.filter(|held| self.now < held.2 + LIMITS.stale_us);
        assert_eq!(found.map(|(_, item, _)| item.1), alive.map(|held| held.0));
        if let (Some((place, _, is_stale)), Some(held)) = (found, alive) {
            assert_eq!(is_stale, self.now >= held.2);
            assert!(table.confirm(place));
            table.hit(place);
        }
    }

    fn remove(&mut self, table: &mut ObjectTable<Item>, key: u8) {
        if let Some((place, item, _)) = find(table, key, self.now) {
            assert_eq!(table.remove(place), Some(item));
            assert!(!table.confirm(place) && table.remove(place).is_none());
            self.held.remove(&key);
        }
    }
}

proptest! {
    #[test]
    fn table_answers_as_the_model_and_keeps_its_bounds(steps in steps()) {
        let (mut table, mut model) = (ObjectTable::new(LIMITS), Model::default());
        for step in steps {
            let edition = table.edition();
            match step {
                Step::Put { key, weight, ttl } => {
                    model.put(&mut table, key, weight, ttl);
                    prop_assert!(table.edition() > edition);
                }
                Step::Get(key) => model.get(&mut table, key),
                Step::Remove(key) => model.remove(&mut table, key),
                Step::Wait(us) => model.now += us,
                Step::Drain => {
                    let mut places = Vec::new();
                    table.visit(|place, _| places.push(place));
                    prop_assert_eq!(table.drain().len(), places.len());
                    prop_assert!(places.iter().all(|place| !table.confirm(*place)));
                    model.held.clear();
                }
            }
            let mut seen = 0;
            table.visit(|_, _| seen += 1);
            prop_assert_eq!(seen, table.entries());
            prop_assert!(table.entries() <= LIMITS.entries_max);
            prop_assert!(table.bytes() <= LIMITS.bytes_max);
        }
    }
}

fn entry(hash: u64, item: Item, weight: u32) -> NewEntry<Item> {
    NewEntry {
        hash,
        item,
        weight,
        expires_us: NEVER_US,
        replaces: None,
    }
}

#[test]
fn entry_as_heavy_as_the_table_is_kept_and_one_beyond_is_refused() {
    let mut table = ObjectTable::new(LIMITS);
    assert!(table.insert(entry(1, (1, 1), 400), 0).is_empty());
    let gone = table.insert(entry(2, (2, 2), 401), 0);
    assert_eq!((gone.len(), gone[0].why), (1, Removal::Refused));
    assert_eq!((table.entries(), table.bytes()), (1, 400));
}

#[test]
fn equal_hashes_are_bounded_and_the_oldest_leaves() {
    let mut table = ObjectTable::new(LIMITS);
    for key in 0..CANDIDATES_MAX as u8 {
        assert!(table.insert(entry(7, (key, 0), 1), 0).is_empty());
    }
    let gone = table.insert(entry(7, (100, 0), 1), 0);
    assert_eq!((gone.len(), gone[0].item), (1, (0, 0)));
    let found = table.probe(7, 0);
    assert_eq!(found.more.len() + 1, CANDIDATES_MAX);
}

#[test]
fn newest_is_the_last_one_of_its_hash_while_its_time_lasts() {
    let mut table = ObjectTable::new(LIMITS);
    assert!(table.newest(7, 0).is_none());
    table.insert(entry(7, (1, 1), 1), 0);
    let mut short = entry(7, (2, 2), 1);
    short.expires_us = 100;
    table.insert(short, 0);
    let newest = table.newest(7, 99).expect("it was stored");
    assert_eq!(*newest.item(), (2, 2));
    let place = newest.place();
    newest.hit();
    assert!(table.confirm(place) && table.counters().hits == 1);
    // An older one of the same hash is found among all candidates only.
    assert!(table.newest(7, 100).is_none() && table.newest(8, 0).is_none());
    let older = table.probe(7, 100 + LIMITS.stale_us).first;
    assert_eq!(older.expect("it never ends").item, (1, 1));
}

#[test]
fn used_entries_outlive_a_scan() {
    let mut table = ObjectTable::new(LIMITS);
    // Apart from the scan's in both halves.
    let hash = |key: u8| u64::from(key + 100) << 56;
    for key in 0..10 {
        table.insert(entry(hash(key), (key, 0), 1), 0);
    }
    for scan in 0..1_000u64 {
        for key in 0..10 {
            let found = table.probe(hash(key), 0).first.expect("it is used").place;
            table.hit(found);
        }
        table.insert(entry(scan + 1, (255, 0), 1), 0);
    }
    assert_eq!(table.counters().hits, 10_000);
    assert_eq!(table.counters().evicted, 990);
}

#[test]
fn entries_past_their_time_leave_before_those_within_it() {
    let mut table = ObjectTable::new(LIMITS);
    for key in 0..10 {
        let mut short = entry(u64::from(key), (key, 0), 1);
        short.expires_us = 100;
        table.insert(short, 0);
    }
    for key in 10..20 {
        let gone = table.insert(entry(u64::from(key), (key, 0), 1), 110);
        assert!(gone.iter().all(|gone| gone.why == Removal::Expired));
    }
    assert_eq!((table.entries(), table.counters().expired), (10, 10));
}

/// An item whose drop stores into the table it left.
#[derive(Clone)]
struct Restless(#[expect(dead_code, reason = "held for its drop")] Rc<Restlessness>);

struct Restlessness {
    table: Rc<RefCell<ObjectTable<Restless>>>,
    lives: u64,
}

impl Drop for Restlessness {
    fn drop(&mut self) {
        if self.lives > 0 {
            store(&self.table, self.lives, self.lives - 1);
        }
    }
}

fn store(table: &Rc<RefCell<ObjectTable<Restless>>>, hash: u64, lives: u64) {
    let held = table.clone();
    let item = Restless(Rc::new(Restlessness { table: held, lives }));
    let new = NewEntry {
        hash,
        item,
        weight: 1,
        expires_us: NEVER_US,
        replaces: None,
    };
    // Bound first: the borrow ends before what left is dropped.
    let gone = table.borrow_mut().insert(new, 0);
    drop(gone);
}

#[test]
fn item_whose_drop_calls_the_table_again_meets_no_borrow() {
    let table = Rc::new(RefCell::new(ObjectTable::new(LIMITS)));
    for round in 0..500 {
        store(&table, round, 5);
        assert!(table.borrow().entries() <= LIMITS.entries_max);
    }
    assert!(
        table.borrow().counters().evicted > 2_000,
        "drops stored again"
    );
    loop {
        let gone = table.borrow_mut().drain();
        if gone.is_empty() {
            break;
        }
    }
}

#[test]
fn evict_takes_unused_entries_first_and_nothing_from_an_empty_table() {
    let mut table = ObjectTable::new(LIMITS);
    for key in 0..3u8 {
        drop(table.insert(entry(u64::from(key), (key, 0), 1), 0));
    }
    let used = table.probe(0, 0).first.expect("it is there").place;
    table.hit(used);
    let gone = |table: &mut ObjectTable<Item>| table.evict(0).map(|gone| gone.item.0);
    assert_eq!([gone(&mut table), gone(&mut table)], [Some(1), Some(2)]);
    assert_eq!(
        (gone(&mut table), gone(&mut table), table.bytes()),
        (Some(0), None, 0)
    );
}

#[test]
fn places_stay_good_while_a_table_grows_by_chunks() {
    let limits = TableLimits {
        entries_max: 10_000,
        bytes_max: u64::MAX,
        stale_us: 0,
    };
    let mut table: ObjectTable<u32> = ObjectTable::new(limits);
    let mut places = Vec::new();
    for key in 0..2_000u32 {
        let new = NewEntry {
            hash: u64::from(key),
            item: key,
            weight: 1,
            expires_us: NEVER_US,
            replaces: None,
        };
        assert!(table.insert(new, 0).is_empty());
        places.push(
            table
                .probe(u64::from(key), 0)
                .first
                .expect("it is there")
                .place,
        );
    }
    for (key, place) in (0..).zip(&places) {
        assert!(table.confirm(*place));
        let found = table.probe(key, 0).first.expect("it is there");
        assert_eq!((u64::from(found.item), found.place), (key, *place));
    }
    for place in places.iter().step_by(3) {
        assert!(table.remove(*place).is_some() && !table.confirm(*place));
    }
    assert_eq!(table.entries(), 2_000 - places.iter().step_by(3).count());
    let mut shown = 0;
    table.visit(|_, _| shown += 1);
    assert_eq!(shown, table.entries());
    assert_eq!(table.drain().len(), shown);
    assert!(!table.confirm(places[1]) && table.entries() == 0);
}

fn plain(key: u64) -> NewEntry<u64> {
    NewEntry {
        hash: key,
        item: key,
        weight: 1,
        expires_us: NEVER_US,
        replaces: None,
    }
}

#[test]
fn entries_that_are_used_outlast_a_scan() {
    let limits = TableLimits {
        entries_max: 100,
        bytes_max: u64::MAX,
        stale_us: 0,
    };
    let mut table = ObjectTable::new(limits);
    for key in 0..100 {
        drop(table.insert(plain(key), 0));
        let found = table.probe(key, 0).first.expect("it was just stored");
        table.hit(found.place);
    }
    for key in 1_000..10_000 {
        drop(table.insert(plain(key), 0));
    }
    let left = (0..100).filter(|key| table.probe(*key, 0).first.is_some());
    assert!(left.count() >= 89, "a scan passes through the small queue");
}

#[test]
fn entry_that_returns_soon_after_it_left_stays() {
    let limits = TableLimits {
        entries_max: 100,
        bytes_max: u64::MAX,
        stale_us: 0,
    };
    let mut table = ObjectTable::new(limits);
    for key in 0..200 {
        drop(table.insert(plain(key), 0));
    }
    let gone = (0..200)
        .rev()
        .find(|key| table.probe(*key, 0).first.is_none());
    let back = gone.expect("half of them left");
    drop(table.insert(plain(back), 0));
    for key in 1_000..1_300 {
        drop(table.insert(plain(key), 0));
    }
    assert!(table.probe(back, 0).first.is_some());
}
