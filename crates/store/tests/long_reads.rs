//! Long reads run apart, and hold up no caller.
//!
//! A gate inside the encoder, which reads at coordinates call for each row, keeps the threads for
//! long reads busy for as long as a test wants.

#[path = "suite/db.rs"]
#[allow(dead_code, reason = "written for the conformance suite, too")]
mod db;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use db::{Db, Directory, Place, content, encode_row, listing, note, options, row_id};
use futures_executor::block_on;
use model::{Coordinates, Field, Selection, Table, Value};
use query::{Filter, Pattern, Query, Search, Test, Visibility};
use store::{
    Listed, Listing, LongReads, OffloadKind, Options, Point, Snapshot, Store, StoreError,
    StoreFuture,
};
use testing::places::on_database;

/// Enough that listing them takes many thousand steps of SQLite's machine.
const ROWS: usize = 3_000;

#[derive(Default)]
struct Gate {
    is_closed: bool,
    /// Threads that wait at it.
    waiting: usize,
    /// Names of threads that encoded a row.
    seen: BTreeSet<String>,
    /// Rows that were encoded.
    encoded: usize,
}

static GATE: (Mutex<Gate>, Condvar) = (
    Mutex::new(Gate {
        is_closed: false,
        waiting: 0,
        seen: BTreeSet::new(),
        encoded: 0,
    }),
    Condvar::new(),
);
/// The gate is one for the whole process.
static ONE_TEST: Mutex<()> = Mutex::new(());

fn gate() -> MutexGuard<'static, Gate> {
    GATE.0.lock().unwrap_or_else(PoisonError::into_inner)
}

fn set_gate(is_closed: bool) {
    gate().is_closed = is_closed;
    GATE.1.notify_all();
}

fn until_somebody_waits() {
    let mut state = gate();
    while state.waiting == 0 {
        state = GATE.1.wait(state).unwrap();
    }
}

fn encode_at_gate(table: &Table, values: &[Value], out: &mut Vec<u8>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or_default().to_owned();
    let may_wait = name.starts_with("reads-");
    let mut state = gate();
    state.seen.insert(name);
    state.encoded += 1;
    while may_wait && state.is_closed {
        state.waiting += 1;
        GATE.1.notify_all();
        state = GATE.1.wait(state).unwrap();
        state.waiting -= 1;
    }
    drop(state);
    encode_row(table, values, out);
}

/// Opens the gate at the end, however the test ends.
struct Open(#[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Drop for Open {
    fn drop(&mut self) {
        set_gate(false);
    }
}

fn alone() -> Open {
    Open(ONE_TEST.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Where, the long reads it allows, and the milliseconds of each.
struct Limited(Directory, LongReads, u64);

impl Place for Limited {
    fn open(&self) -> Arc<dyn Store> {
        self.0.open_with(Options {
            encode_row: encode_at_gate,
            read_limit_ms: self.2,
            long_reads: self.1,
            ..options(&self.0.data())
        })
    }
}

/// A store whose reads have no time at all on the thread that asks: each that takes 1,000 steps
/// is long. And a query at coordinates, for the gate to hold up.
fn furnished(threads: usize, waiting_max: usize) -> (Limited, Db, Query) {
    furnished_with(threads, waiting_max, ROWS, note)
}

/// The same with few rows, of a text of so many bytes: SQLite takes few steps over them.
fn furnished_large(rows: usize, bytes: usize) -> (Limited, Db, Query) {
    let large = |id: &str| {
        let mut values = note(id);
        values[0] = Value::Text("x".repeat(bytes));
        values
    };
    furnished_with(1, 10, rows, large)
}

fn furnished_with(
    threads: usize,
    waiting_max: usize,
    rows: usize,
    values: impl Fn(&str) -> Vec<Value>,
) -> (Limited, Db, Query) {
    let limits = LongReads {
        after_us: 0,
        threads,
        waiting_max,
    };
    let directory = Limited(Directory::new(), limits, 60_000);
    let mut db = Db::with_notes(&directory);
    let ids: Vec<String> = (0..rows).map(|nth| format!("r{nth}")).collect();
    for ids in ids.chunks(1_000) {
        let rows = ids.iter().map(|id| db.insert(id, values(id)));
        db.ok(rows.collect());
    }
    let mark = db.load().mark;
    let query = Query {
        at: Some(Coordinates {
            valid: mark.timestamp(),
            system: mark,
        }),
        ..db.all()
    };
    gate().seen.clear();
    (directory, db, query)
}

/// The same rows by a pattern, which is read apart wherever the store is.
fn apart(query: &Query) -> Query {
    let test = Test::Matches(Pattern::parse("^r").unwrap());
    Query {
        filter: Filter::Field(Field::Id, test),
        ..query.clone()
    }
}

fn ask<'a>(db: &'a Db, query: &'a Query) -> StoreFuture<'a, Snapshot<Listed>> {
    ask_as(db, query, false)
}

fn ask_as<'a>(db: &'a Db, query: &'a Query, of_guest: bool) -> StoreFuture<'a, Snapshot<Listed>> {
    db.store.list(Listing {
        of_guest,
        ..listing(query, db.catalogue.epoch)
    })
}

fn is_pending<T>(future: &mut StoreFuture<'_, T>) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    matches!(future.as_mut().poll(&mut context), Poll::Pending)
}

#[track_caller]
fn assert_whole(answer: Result<Snapshot<Listed>, StoreError>) {
    assert_eq!(answer.unwrap().answer.rows.len(), ROWS);
}

#[test]
fn a_long_read_answers_as_a_short_one_would() {
    let _alone = alone();
    let (mut directory, db, query) = furnished(2, 10);
    let of = |listed: Listed, table: &Table| -> Vec<String> {
        let row = |row| format!("{} {}", content(row, table), row.id);
        listed.rows.iter().map(row).collect()
    };
    let now = db.all();
    let (long, long_at) = (db.list(&now), db.list(&query));
    assert_eq!(long.total, ROWS as u64, "totals are long, too");
    let threads = gate().seen.clone();
    assert!(
        threads.iter().any(|name| name.starts_with("reads-")),
        "{threads:?}"
    );
    db.close();

    directory.1.after_us = 3_600_000_000;
    let db = Db::open(&directory);
    gate().seen.clear();
    let (short, short_at) = (db.list(&now), db.list(&query));
    let threads = gate().seen.clone();
    assert!(
        !threads.iter().any(|name| name.starts_with("reads-")),
        "{threads:?}"
    );
    assert_eq!(of(long, &now.table), of(short, &now.table));
    assert_eq!(of(long_at, &now.table), of(short_at, &now.table));
}

/// Rows whose text in this column matches.
fn matching(db: &Db, field: Field, pattern: &str) -> Query {
    let test = Test::Matches(Pattern::parse(pattern).unwrap());
    Query {
        filter: Filter::Field(field, test),
        ..db.all()
    }
}

/// A table with one row, so that no thousand steps of SQLite's machine pass, and 100 KB of the
/// letters a and b in no order, behind a c: a database looks for the letter of a pattern by itself.
fn one_long_text(read_limit_ms: u64) -> (Limited, Db) {
    let limits = LongReads {
        after_us: 1_000,
        threads: 1,
        waiting_max: 10,
    };
    let directory = Limited(Directory::new(), limits, read_limit_ms);
    let mut db = Db::with_notes(&directory);
    let mut state = 1_u64;
    let mut letter = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        if state >> 40 & 1 == 0 { 'a' } else { 'b' }
    };
    let mut values = note("one");
    let text = std::iter::once('c').chain((0..100_000).map(|_| letter()));
    values[0] = Value::Text(text.collect());
    db.ok(vec![db.insert("one", values)]);
    (directory, db)
}

#[test]
fn a_pattern_never_runs_on_the_thread_of_whoever_asks() {
    let _alone = alone();
    let (mut directory, db, query) = furnished(1, 10);
    db.close();
    directory.1.after_us = 3_600_000_000;
    let db = Db::open(&directory);
    let matching = Query {
        at: query.at,
        ..matching(&db, Field::Id, "^r7$")
    };
    let listed = block_on(ask(&db, &matching));
    assert_eq!(listed.unwrap().answer.rows.len(), 1);
    let threads = gate().seen.clone();
    assert_eq!(threads, BTreeSet::from(["reads-0".to_owned()]));
}

/// As many tests that each row passes.
fn tested(db: &Db, at: Option<Coordinates>, tests: usize) -> Query {
    let test = || Filter::Field(Field::Id, Test::IsNotNull);
    Query {
        filter: Filter::All((0..tests).map(|_| test()).collect()),
        at,
        ..db.all()
    }
}

#[test]
fn a_long_statement_is_planned_apart_and_one_too_long_is_refused() {
    let _alone = alone();
    let (mut directory, db, query) = furnished(1, 10);
    db.close();
    directory.1.after_us = 3_600_000_000;
    let db = Db::open(&directory);
    let here = std::thread::current().name().unwrap().to_owned();
    for (tests, thread) in [(10, here.as_str()), (400, "reads-0")] {
        gate().seen.clear();
        assert_whole(block_on(ask(&db, &tested(&db, query.at, tests))));
        assert_eq!(gate().seen, BTreeSet::from([thread.to_owned()]), "{tests}");
    }
    let refused = block_on(ask(&db, &tested(&db, query.at, 20_000))).unwrap_err();
    let bytes_max = 131_072;
    assert_eq!(refused, StoreError::QueryTooLong { bytes_max });
}

#[test]
fn a_search_never_runs_on_the_thread_of_whoever_asks() {
    let _alone = alone();
    let (mut directory, db, query) = furnished(1, 10);
    db.close();
    directory.1.after_us = 3_600_000_000;
    let db = Db::open(&directory);
    for test in [Test::Finds as fn(Search) -> Test, Test::FindsNot] {
        gate().seen.clear();
        let field = Filter::Field(Field::Column(0), test(Search::parse("r7").unwrap()));
        let searching = Query {
            filter: Filter::All(vec![field]),
            limit: 1,
            ..query.clone()
        };
        let listed = block_on(ask(&db, &searching));
        assert_eq!(listed.unwrap().answer.rows.len(), 1);
        let threads = gate().seen.clone();
        assert_eq!(threads, BTreeSet::from(["reads-0".to_owned()]));
    }
}

#[test]
fn a_pattern_is_stopped_inside_one_text() {
    let _alone = alone();
    let (_directory, db) = one_long_text(0);
    let query = matching(&db, Field::Column(0), "x$");
    let stopped = block_on(ask(&db, &query)).unwrap_err();
    assert_eq!(stopped, StoreError::Timeout { limit_ms: 0 });
}

#[test]
fn a_pattern_too_hard_for_a_text_is_refused() {
    let _alone = alone();
    let (_directory, db) = one_long_text(60_000);
    let query = matching(&db, Field::Column(0), "[ab]*a[ab]{200}c");
    let refused = block_on(ask(&db, &query)).unwrap_err();
    assert_eq!(refused, StoreError::PatternTooHard);
    let query = matching(&db, Field::Column(0), "a[ab]{20}b");
    assert_eq!(block_on(ask(&db, &query)).unwrap().answer.rows.len(), 1);
}

#[test]
fn a_shape_known_to_be_long_begins_apart() {
    let _alone = alone();
    let (_directory, db, query) = furnished(1, 10);
    let here = std::thread::current().name().unwrap().to_owned();
    assert_whole(block_on(ask(&db, &query)));
    assert!(gate().seen.contains(&here), "it began here");
    gate().seen.clear();
    let later = Query {
        limit: ROWS as u32 - 1,
        ..query.clone()
    };
    assert_eq!(
        block_on(ask(&db, &later)).unwrap().answer.rows.len(),
        ROWS - 1
    );
    let threads = gate().seen.clone();
    assert_eq!(threads, BTreeSet::from(["reads-0".to_owned()]));
}

#[test]
fn while_long_reads_run_and_wait_short_ones_are_answered() {
    let _alone = alone();
    let (_directory, db, query) = furnished(1, 1);
    let query = apart(&query);
    set_gate(true);
    let mut first = ask(&db, &query);
    assert!(is_pending(&mut first));
    until_somebody_waits();
    let mut second = ask(&db, &query);
    assert!(is_pending(&mut second));
    for _ in 0..3 {
        let refused = block_on(ask(&db, &query)).unwrap_err();
        assert_eq!(refused, StoreError::ReadersBusy { waiting_max: 1 });
        assert!(refused.is_retryable());
    }
    assert!(db.get("r7").is_some(), "a point read is short");
    let few = Query {
        limit: 5,
        ..db.all()
    };
    let listing = listing(&few, db.catalogue.epoch);
    let listed = block_on(db.store.list(listing)).unwrap();
    assert_eq!(listed.answer.rows.len(), 5, "so is a short list");
    set_gate(false);
    assert_whole(block_on(first));
    assert_whole(block_on(second));
}

#[test]
fn a_read_that_nobody_waits_for_gives_up_its_place() {
    let _alone = alone();
    let (_directory, db, query) = furnished(1, 1);
    let query = apart(&query);
    set_gate(true);
    let mut first = ask(&db, &query);
    assert!(is_pending(&mut first));
    until_somebody_waits();
    drop(ask(&db, &query));
    let mut third = ask(&db, &query);
    assert!(is_pending(&mut third), "there is room again");
    drop(first);
    set_gate(false);
    assert_whole(block_on(third));
}

#[test]
fn work_on_what_was_read_goes_before_reads_that_wait() {
    let _alone = alone();
    let (_directory, db, query) = furnished(1, 1);
    let query = apart(&query);
    set_gate(true);
    let mut first = ask(&db, &query);
    assert!(is_pending(&mut first));
    until_somebody_waits();
    let mut second = ask(&db, &query);
    assert!(is_pending(&mut second));
    gate().encoded = 0;
    let (noted, seen) = std::sync::mpsc::channel();
    let work = || {
        let noted = noted.clone();
        let work = move |_: &AtomicBool| {
            let name = std::thread::current().name().map(str::to_owned);
            noted.send((name, gate().encoded)).unwrap();
        };
        db.store.offload(OffloadKind::Answer, false, Box::new(work))
    };
    drop(work());
    let mut wanted = work();
    assert!(is_pending(&mut wanted), "there is room again, and it waits");
    let refused = block_on(work()).unwrap_err();
    assert_eq!(refused, StoreError::ReadersBusy { waiting_max: 1 });
    set_gate(false);
    assert_whole(block_on(second));
    block_on(wanted).unwrap();
    assert_whole(block_on(first));
    let (name, encoded) = seen.try_recv().unwrap();
    assert_eq!(name.as_deref(), Some("reads-0"));
    assert!(encoded < ROWS, "{encoded} rows were read before");
    assert!(
        seen.try_recv().is_err(),
        "what nobody waits for is not done"
    );
}

#[test]
fn guests_fill_their_part_and_keys_are_answered() {
    let _alone = alone();
    let (_directory, db, query) = furnished(2, 4);
    let query = apart(&query);
    set_gate(true);
    // One runs, and two wait; then their places are taken.
    let mut guests = vec![ask_as(&db, &query, true)];
    assert!(is_pending(&mut guests[0]));
    until_somebody_waits();
    guests.extend((0..2).map(|_| ask_as(&db, &query, true)));
    assert!(guests.iter_mut().all(is_pending));
    let refused = block_on(ask_as(&db, &query, true)).unwrap_err();
    assert_eq!(refused, StoreError::ReadersBusy { waiting_max: 2 });
    // What guests have read is answered by any thread: that is short.
    for (kind, of_guest) in [
        (OffloadKind::Read, false),
        (OffloadKind::Answer, false),
        (OffloadKind::Answer, true),
        (OffloadKind::Read, false),
    ] {
        let mut answer = db.store.offload(kind, of_guest, Box::new(|_| {}));
        let began = Instant::now();
        while is_pending(&mut answer) {
            let waits = began.elapsed();
            assert!(waits < Duration::from_mins(1), "guests have the thread");
            std::thread::yield_now();
        }
    }
    let counts = db.store.counts().long_reads;
    assert_eq!((counts.running, counts.waiting, counts.threads), (1, 2, 2));
    set_gate(false);
    for guest in guests {
        assert_whole(block_on(guest));
    }
}

#[test]
fn work_of_keys_goes_before_that_of_guests() {
    let _alone = alone();
    let (_directory, db, query) = furnished(1, 4);
    let query = apart(&query);
    set_gate(true);
    let mut first = ask_as(&db, &query, true);
    assert!(is_pending(&mut first));
    until_somebody_waits();
    let (noted, seen) = std::sync::mpsc::channel();
    let queue = [
        (OffloadKind::Read, true),
        (OffloadKind::Answer, true),
        (OffloadKind::Read, false),
        (OffloadKind::Answer, false),
    ];
    let mut waiting: Vec<_> = queue
        .iter()
        .map(|(kind, of_guest)| {
            let (noted, what) = (noted.clone(), (*kind, *of_guest));
            let work = Box::new(move |_: &AtomicBool| noted.send(what).unwrap());
            db.store.offload(*kind, *of_guest, work)
        })
        .collect();
    assert!(waiting.iter_mut().all(is_pending));
    set_gate(false);
    assert_whole(block_on(first));
    for one in waiting {
        block_on(one).unwrap();
    }
    let mut order = queue;
    order.reverse();
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), order);
}

#[test]
fn long_reads_stay_on_their_thread() {
    let _alone = alone();
    // One that waited for another thread would wait for ever.
    let (_directory, db, query) = furnished(1, 1);
    let (store, catalogue_epoch) = (db.store.clone(), db.catalogue.epoch);
    let (noted, found) = std::sync::mpsc::channel();
    let work = move |_: &AtomicBool| {
        let listed = block_on(store.list(listing(&query, catalogue_epoch)));
        let inner = Box::new(move |_: &AtomicBool| {
            let name = std::thread::current().name().map(str::to_owned);
            noted.send((name, listed)).unwrap();
        });
        block_on(store.offload(OffloadKind::Answer, false, inner)).unwrap();
    };
    block_on(db.store.offload(OffloadKind::Read, false, Box::new(work))).unwrap();
    let (name, listed) = found.try_recv().unwrap();
    assert_whole(listed);
    assert_eq!(name.as_deref(), Some("reads-0"));
    let threads = gate().seen.clone();
    assert_eq!(threads, BTreeSet::from(["reads-0".to_owned()]));
}

#[test]
fn rows_of_many_bytes_are_long_however_few_they_are() {
    let _alone = alone();
    let (_directory, db, query) = furnished_large(4, 100_000);
    let listed = block_on(ask(&db, &query)).unwrap().answer;
    assert_eq!(listed.rows.len(), 4);
    let threads = gate().seen.clone();
    assert!(threads.contains("reads-0"), "{threads:?}");
}

#[test]
fn a_read_of_large_rows_ends_when_nobody_waits_for_it() {
    let _alone = alone();
    let (_directory, db, query) = furnished_large(20, 100_000);
    set_gate(true);
    let mut first = ask(&db, &query);
    assert!(is_pending(&mut first));
    until_somebody_waits();
    drop(first);
    gate().encoded = 0;
    set_gate(false);
    // On the one thread, so behind the other.
    let one = Query {
        limit: 1,
        offset: 19,
        ..query.clone()
    };
    let mut last = ask(&db, &one);
    let answer = loop {
        if let Poll::Ready(answer) = last.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            break answer;
        }
        std::thread::yield_now();
    };
    assert_eq!(answer.unwrap().answer.rows.len(), 1);
    let encoded = gate().encoded;
    assert!(encoded < 5, "{encoded} rows were read for nobody");
}

#[test]
fn rows_beyond_the_bytes_that_were_allowed_are_refused() {
    let _alone = alone();
    let (_directory, db, query) = furnished_large(4, 100_000);
    for (bytes_max, is_enough) in [(399_999, false), (500_000, true)] {
        let listing = Listing {
            bytes_max,
            ..listing(&query, db.catalogue.epoch)
        };
        match block_on(db.store.list(listing)) {
            Ok(listed) => assert!(is_enough && listed.answer.rows.len() == 4),
            Err(error) => {
                assert_eq!(error, StoreError::AnswerTooLarge { bytes_max });
                assert!(!is_enough && !error.is_retryable());
            }
        }
    }
}

#[test]
fn the_end_stops_what_runs_and_refuses_what_waits() {
    let _alone = alone();
    let (_directory, db, query) = furnished(1, 1);
    let query = apart(&query);
    let horizon = db.load().horizon;
    set_gate(true);
    let mut first = ask(&db, &query);
    assert!(is_pending(&mut first));
    until_somebody_waits();
    let second = ask(&db, &query);
    let store = db.store.clone();
    let closing = std::thread::spawn(move || block_on(store.close(horizon)));
    // The gate is closed, so nothing else can end it.
    assert_eq!(block_on(second).unwrap_err(), StoreError::Interrupted);
    set_gate(false);
    assert_eq!(block_on(first).unwrap_err(), StoreError::Interrupted);
    closing.join().unwrap().unwrap();
    let id = row_id("r1");
    let point = Point {
        table: &query.table,
        id: &id,
        selection: &Selection::All,
        visibility: &Visibility::Everything,
        at: None,
        shows_span: false,
        catalogue_epoch: db.catalogue.epoch,
    };
    // A read that still runs on a thread of its own is not stopped, but for want of a connection.
    let read = block_on(db.store.get(point)).map(|_| ());
    let stopped = on_database().then_some(StoreError::Interrupted);
    assert_eq!(read.err(), stopped);
    assert_eq!(
        block_on(ask(&db, &query)).unwrap_err(),
        StoreError::Interrupted
    );
}
