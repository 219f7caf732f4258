//! What the cache says it takes, against what is allocated.

#![allow(
    unsafe_code,
    reason = "an allocator is asked for bytes, and gives pointers"
)]

mod fixture;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fixture::{EXACT, TTL, World, query, row, table};
use list_cache::{Contract, Step};
use model::Table;
use query::Query;

/// The system's allocator, and how much of it is taken.
struct Counting;

static TAKEN: AtomicUsize = AtomicUsize::new(0);

// SAFETY: both calls go to the system's allocator as they came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.fetch_add(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        TAKEN.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Tests of one process share the count, so one runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// What is said of so many lists, and what is allocated for them.
fn said_and_taken(
    lists: i64,
    request: impl Fn(i64) -> Query,
    with_total: bool,
    contract: Contract,
) -> (u64, u64) {
    let mut world = World::new();
    world.commit(&[("a", row(1, 1)), ("b", row(1, 2))]);
    let before = TAKEN.load(Ordering::Relaxed);
    for number in 0..lists {
        let query = request(number);
        if with_total {
            world.ask(&query, contract);
        } else {
            world.ask_rows(&query, contract);
        }
    }
    let taken = TAKEN.load(Ordering::Relaxed) - before;
    assert_eq!(world.lists.counts().evictions, 0);
    (world.lists.bytes(), taken as u64)
}

fn among(number: i64, count: i64) -> String {
    let values: Vec<String> = (0..count)
        .map(|place| (number * count + place).to_string())
        .collect();
    let values = values.join(",");
    format!(r#"{{"method":"equal","attribute":"n","values":[{values}]}}"#)
}

#[test]
fn counted_bytes_are_close_to_allocated_bytes() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let one_row = r#"{"method":"limit","values":[1]}"#;
    let many = |number| query(&[&among(number, 500), one_row]);
    let few = |number| query(&[&among(number, 5)]);
    let one = |number| query(&[&among(number, 1), one_row]);
    let long = |number: i64| {
        let word = "x".repeat(900);
        query(&[&format!(
            r#"{{"method":"equal","attribute":"w","values":["{word}{number}"]}}"#
        )])
    };
    let either = |number| {
        let words: Vec<String> = (0..40).map(|place| among(number * 40 + place, 2)).collect();
        query(&[&format!(
            r#"{{"method":"or","values":[{}]}}"#,
            words.join(",")
        )])
    };
    let within = |number: i64| {
        query(&[
            &format!(r#"{{"method":"greaterThan","attribute":"n","values":[{number}]}}"#),
            r#"{"method":"orderAsc","attribute":"m"}"#,
        ])
    };
    let found = |number: i64| {
        query(&[&format!(
            r#"{{"method":"regex","attribute":"w","values":["^x{number}.*(a|b)+[c-z]{{1,9}}$"]}}"#
        )])
    };
    let kinds = [(false, EXACT), (true, EXACT), (false, TTL), (true, TTL)];
    for (with_total, contract) in kinds {
        for (what, (said, taken)) in [
            ("many", said_and_taken(60, many, with_total, contract)),
            ("few", said_and_taken(700, few, with_total, contract)),
            ("one", said_and_taken(1_000, one, with_total, contract)),
            ("long", said_and_taken(500, long, with_total, contract)),
            ("either", said_and_taken(60, either, with_total, contract)),
            (
                "within",
                said_and_taken(1_000, within, with_total, contract),
            ),
            ("found", said_and_taken(400, found, with_total, contract)),
        ] {
            let share = said as f64 / taken as f64;
            println!("{what} {with_total} {contract:?}: {said} {taken} {share}");
            assert!(
                (0.7..1.5).contains(&share),
                "{what}, with a total: {with_total}, {contract:?}: {taken} bytes are allocated, {said} said"
            );
        }
    }
}

#[test]
fn dropped_tables_leave_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let world = World::new();
    let late = |number: i64| {
        let mut table = Table::clone(&table());
        table.number.0 = number;
        let query = Query {
            table: Arc::new(table),
            ..query(&[&among(1, 1)])
        };
        // A reader asks, and goes away, when the table has been deleted.
        let mut fetch = world.fetch(&query, EXACT);
        let Step::Read(fill) = fetch.step(0) else {
            panic!("nobody has read it");
        };
        drop(fill);
    };
    late(1);
    let before = TAKEN.load(Ordering::Relaxed);
    (2..5_000).for_each(late);
    let taken = TAKEN.load(Ordering::Relaxed).saturating_sub(before);
    assert!(taken < 20_000, "{taken} bytes for nothing");
}
