//! What a commit of one row costs before the list cache: `cargo run --release --example withhold`.

#[path = "../tests/stage/mod.rs"]
mod stage;

use std::hint::black_box;
use std::time::Instant;

use query::Query;
use stage::{EXACT, World, query, row};

const SHAPES: i64 = 1_000;
const VALUES: i64 = 10;
const COMMITS: usize = 2_000;
const COMMITS_AT_ONCE: usize = 50;

fn is(column: &str, value: i64) -> String {
    format!(r#"{{"method":"equal","attribute":"{column}","values":[{value}]}}"#)
}

/// An equality of ten values, a range of the shape, an order, a page.
fn with_equality(shape: i64, value: i64) -> Query {
    query(&[
        &is("n", value),
        &format!(
            r#"{{"method":"between","attribute":"m","values":[{},{}]}}"#,
            1_000_000 + shape,
            2_000_000 + shape
        ),
        r#"{"method":"orderDesc","attribute":"m"}"#,
    ])
}

/// A range alone.
fn with_range(shape: i64, value: i64) -> Query {
    query(&[
        &format!(
            r#"{{"method":"between","attribute":"m","values":[{},{}]}}"#,
            1_000_000 + shape,
            2_000_000 + shape * VALUES + value
        ),
        r#"{"method":"orderDesc","attribute":"m"}"#,
    ])
}

fn measure(what: &str, of: Option<fn(i64, i64) -> Query>) {
    let mut world = World::with(&[("a", 3, 5), ("b", 4, 6)]);
    let of = of.iter().flat_map(|of| {
        (0..SHAPES).flat_map(move |shape| (0..VALUES).map(move |value| of(shape, value)))
    });
    for query in of {
        world.ask(&query, EXACT);
    }
    let counts = world.lists.counts();
    let changes: Vec<_> = (0..COMMITS)
        .map(|n| {
            let changes = world.changes(&[("a", row(3, 5 + n as i64 % 7))]);
            world.show(changes.clone());
            changes
        })
        .collect();
    // Of many short rounds the shortest: nothing else had the core meanwhile.
    let each_us = changes.chunks(COMMITS_AT_ONCE).map(|round| {
        let start = Instant::now();
        for changes in round {
            let withheld = world.withhold(changes);
            world.lists.publish(black_box(withheld), true);
        }
        start.elapsed().as_secs_f64() * 1e6 / COMMITS_AT_ONCE as f64
    });
    let each_us = each_us.fold(f64::MAX, f64::min);
    println!("{what}: {each_us:.2} µs a commit, {counts:?}");
}

fn main() {
    measure("nothing cached", None);
    measure("10,000 with an equality", Some(with_equality));
    measure("10,000 with a range alone", Some(with_range));
}
