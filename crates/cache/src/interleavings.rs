//! Threads that share a table or a flight, in every order their steps can take.
//!
//! `cargo xtask full` and `night` build this with `--cfg loom`.

use std::task::{Poll, Wake, Waker};

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex, Notify};
use loom::thread;

use crate::{
    ClaimList, EntryPlace, Flight, NEVER_US, NewEntry, ObjectTable, ProbedEntry, Removal,
    TableLimits,
};

/// Runs `test` in every interleaving of at most two preemptions; by night, with optimisation, in
/// every one.
fn in_all_orders(test: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = cfg!(debug_assertions).then_some(2);
    model.check(test);
}

/// What an entry holds. Its drop takes the table's lock, as a destructor that calls the cache
/// does: dropped under the lock, it would wait for itself.
struct LockingItem {
    key: u8,
    value: u8,
    table: SharedTable,
}

type Item = Arc<LockingItem>;
type SharedTable = Arc<Mutex<Option<ObjectTable<Item>>>>;

impl Drop for LockingItem {
    fn drop(&mut self) {
        drop(self.table.lock().unwrap());
    }
}

/// The callers of the Python cache: they compare and drop with nothing locked.
#[derive(Clone)]
struct TableUser(SharedTable);

/// All keys meet in one hash, so that candidates have to be compared.
const HASH: u64 = 7;

impl TableUser {
    fn new(entries_max: usize) -> TableUser {
        let limits = TableLimits {
            entries_max,
            bytes_max: 100,
            stale_us: 0,
        };
        TableUser(Arc::new(Mutex::new(Some(ObjectTable::new(limits)))))
    }

    fn with<R>(&self, use_it: impl FnOnce(&mut ObjectTable<Item>) -> R) -> R {
        let mut table = self.0.lock().unwrap();
        use_it(table.as_mut().expect("it is taken out at the end only"))
    }

    fn find(&self, key: u8) -> Option<ProbedEntry<Item>> {
        loop {
            let found = self.with(|table| table.probe(HASH, 0));
            let all: Vec<_> = found.first.into_iter().chain(found.more).collect();
            let mut equal = all.into_iter().filter(|one| one.item.key == key);
            let first = equal.next()?;
            assert!(equal.next().is_none(), "a key stands in the table once");
            if self.with(|table| table.confirm(first.place)) {
                return Some(first);
            }
        }
    }

    fn put(&self, key: u8, value: u8) {
        let item = Arc::new(LockingItem {
            key,
            value,
            table: self.0.clone(),
        });
        loop {
            let edition = self.with(|table| table.edition());
            let replaces = self.find(key).map(|older| older.place);
            let new = NewEntry {
                hash: HASH,
                item: item.clone(),
                weight: 1,
                expires_us: NEVER_US,
                replaces,
            };
            let gone = self.with(|table| {
                // Else another caller may have stored the same key meanwhile.
                (table.edition() == edition).then(|| table.insert(new, 0))
            });
            if let Some(gone) = gone {
                assert!(gone.iter().all(|gone| gone.why != Removal::Refused));
                return;
            }
        }
    }

    fn remove(&self, place: EntryPlace) -> Option<Item> {
        self.with(|table| table.remove(place))
    }

    /// The values under each key at the end, when no other thread runs.
    fn end(&self) -> Vec<(u8, u8)> {
        let mut held = Vec::new();
        self.with(|table| table.visit(|_, item| held.push((item.key, item.value))));
        held.sort_unstable();
        // The table leaves its lock first: what it holds takes that lock as it drops.
        let table = self.0.lock().unwrap().take();
        drop(table);
        held
    }
}

#[test]
fn table_holds_one_entry_of_a_key_that_two_threads_store() {
    in_all_orders(|| {
        let caller = TableUser::new(4);
        let other = caller.clone();
        let storing = thread::spawn(move || other.put(1, 1));
        caller.put(1, 2);
        storing.join().unwrap();
        assert!(matches!(caller.end()[..], [(1, 1 | 2)]));
    });
}

#[test]
fn table_gives_no_entry_that_left_before_the_search_began() {
    in_all_orders(|| {
        let caller = TableUser::new(4);
        caller.put(1, 1);
        let other = caller.clone();
        let removing = thread::spawn(move || {
            let found = other.find(1).expect("nothing else removes it");
            let gone = other.remove(found.place);
            assert_eq!(gone.map(|gone| gone.value), Some(1));
            assert!(other.find(1).is_none(), "it has left");
        });
        if let Some(found) = caller.find(1) {
            assert_eq!(found.item.value, 1);
        }
        removing.join().unwrap();
        assert!(caller.end().is_empty());
    });
}

#[test]
fn table_that_evicts_leaves_the_entry_to_its_reader() {
    in_all_orders(|| {
        let caller = TableUser::new(1);
        caller.put(1, 1);
        let other = caller.clone();
        let storing = thread::spawn(move || other.put(2, 2));
        if let Some(found) = caller.find(1) {
            caller.with(|table| table.hit(found.place));
            assert_eq!(found.item.value, 1);
        }
        storing.join().unwrap();
        assert_eq!(caller.end(), [(2, 2)]);
    });
}

#[test]
fn table_that_is_drained_keeps_only_what_came_later() {
    in_all_orders(|| {
        let caller = TableUser::new(4);
        caller.put(1, 1);
        let other = caller.clone();
        let storing = thread::spawn(move || other.put(2, 2));
        let gone = caller.with(ObjectTable::drain);
        assert!(gone.iter().any(|gone| gone.key == 1));
        let has_left = gone.iter().any(|gone| gone.key == 2);
        drop(gone);
        storing.join().unwrap();
        assert_eq!(caller.end().is_empty(), has_left);
    });
}

/// Wakes a thread that waits for a flight.
struct Bell {
    notify: Notify,
    rings: AtomicUsize,
}

impl Wake for Bell {
    fn wake(self: std::sync::Arc<Self>) {
        self.rings.fetch_add(1, Ordering::SeqCst);
        self.notify.notify();
    }
}

fn wait(flight: &Flight<u8>) -> Option<u8> {
    let bell = std::sync::Arc::new(Bell {
        notify: Notify::new(),
        rings: AtomicUsize::new(0),
    });
    let waker = Waker::from(bell.clone());
    loop {
        match flight.poll(&waker) {
            Poll::Ready(value) => {
                assert!(bell.rings.load(Ordering::SeqCst) <= 1, "woken once");
                return value;
            }
            Poll::Pending => bell.notify.wait(),
        }
    }
}

#[test]
fn flight_wakes_every_waiter_whenever_it_ends() {
    in_all_orders(|| {
        let flight = Arc::new(Flight::default());
        let waiting =
            [flight.clone(), flight.clone()].map(|flight| thread::spawn(move || wait(&flight)));
        flight.complete(7);
        // A leader that leaves in any way abandons: after the end that has no effect.
        flight.abandon();
        for waiter in waiting {
            assert_eq!(waiter.join().unwrap(), Some(7));
        }
    });
}

#[test]
fn flight_that_is_abandoned_wakes_its_waiters_with_nothing() {
    in_all_orders(|| {
        let flight = Arc::new(Flight::default());
        let other = flight.clone();
        let waiting = thread::spawn(move || wait(&other));
        flight.abandon();
        assert_eq!(waiting.join().unwrap(), None);
    });
}

/// The callers of one function of one key: what is stored, and the run in progress.
#[derive(Clone, Default)]
struct RunUser {
    stored: Arc<Mutex<Option<u8>>>,
    runs: Arc<Mutex<ClaimList<(), Arc<Flight<u8>>>>>,
    /// Bodies that ran; each gives a number of its own.
    bodies: Arc<AtomicUsize>,
}

impl RunUser {
    /// As the Python cache answers: it looks for an entry, then joins a run or leads one.
    fn answer(&self) -> u8 {
        loop {
            let edition = self.runs.lock().unwrap().edition();
            if let Some(value) = *self.stored.lock().unwrap() {
                return value;
            }
            let joined = {
                let mut runs = self.runs.lock().unwrap();
                runs.join(HASH, |()| true, |_, ()| Arc::new(Flight::default()))
            };
            if let Some(flight) = joined.first() {
                match wait(flight) {
                    Some(value) => return value,
                    None => continue,
                }
            }
            let begun = self.runs.lock().unwrap().begin(edition, HASH, ());
            let Ok(number) = begun else {
                continue;
            };
            let value = self.bodies.fetch_add(1, Ordering::SeqCst) as u8;
            {
                let mut stored = self.stored.lock().unwrap();
                let mut runs = self.runs.lock().unwrap();
                let run = runs.get_mut(number).expect("it has not ended");
                if !run.is_detached {
                    *stored = Some(value);
                }
            }
            let ended = self.runs.lock().unwrap().end(number);
            if let Some(flight) = ended.and_then(|run| run.shared) {
                flight.complete(value);
            }
            return value;
        }
    }

    fn clear(&self) {
        self.runs.lock().unwrap().detach_all();
        *self.stored.lock().unwrap() = None;
    }
}

#[test]
fn claim_lets_one_body_run_for_callers_that_miss_together() {
    in_all_orders(|| {
        let caller = RunUser::default();
        let others =
            [caller.clone(), caller.clone()].map(|other| thread::spawn(move || other.answer()));
        assert_eq!(caller.answer(), 0);
        for other in others {
            assert_eq!(other.join().unwrap(), 0);
        }
        assert_eq!(caller.bodies.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn claim_of_before_an_invalidation_gives_nothing_to_a_call_of_after_it() {
    in_all_orders(|| {
        let caller = RunUser::default();
        let other = caller.clone();
        let before = thread::spawn(move || other.answer());
        let began = caller.bodies.load(Ordering::SeqCst);
        caller.clear();
        let answer = usize::from(caller.answer());
        before.join().unwrap();
        assert!(caller.bodies.load(Ordering::SeqCst) <= 2);
        // A body that began before the invalidation answers no later call.
        assert!(answer >= began, "{answer} began before {began} bodies had");
        // None if it was stored while the invalidation was under way.
        let stored = *caller.stored.lock().unwrap();
        assert!(stored.is_none_or(|stored| usize::from(stored) >= began));
    });
}

#[test]
fn claim_that_ends_without_a_value_lets_who_joined_it_lead() {
    in_all_orders(|| {
        let caller = RunUser::default();
        let number = caller
            .runs
            .lock()
            .unwrap()
            .begin(0, HASH, ())
            .expect("the first run");
        let other = caller.clone();
        let waiting = thread::spawn(move || other.answer());
        let ended = caller.runs.lock().unwrap().end(number);
        if let Some(flight) = ended.and_then(|run| run.shared) {
            flight.abandon();
        }
        assert_eq!(waiting.join().unwrap(), 0);
        assert_eq!(caller.bodies.load(Ordering::SeqCst), 1);
    });
}
