//! Lists without a `ttl`: what stays, what goes, and who reads.

mod fixture;

use std::task::Poll;

use fixture::{
    CAP, EVERYBODY, EXACT, NOBODY, TABLE, World, guests, image, query, row, says, seen_by,
};
use list_cache::{Batch, Fill, ListFetch, Step, Waiter};
use model::{Image, Mark, Period, TableNumber, Timestamp};
use query::Query;

fn is(column: &str, value: i64) -> String {
    format!(r#"{{"method":"equal","attribute":"{column}","values":[{value}]}}"#)
}

fn above(value: i64) -> String {
    format!(r#"{{"method":"greaterThan","attribute":"n","values":[{value}]}}"#)
}

fn page(limit: u32, offset: u32) -> Query {
    query(&[
        r#"{"method":"orderAsc","attribute":"m"}"#,
        &format!(r#"{{"method":"limit","values":[{limit}]}}"#),
        &format!(r#"{{"method":"offset","values":[{offset}]}}"#),
    ])
}

fn world() -> World {
    World::with(&[("a", 1, 1), ("b", 1, 2), ("c", 2, 3), ("d", 2, 4)])
}

/// Caches each query, makes the change, and says which of them are hits after it.
fn hits_after(queries: &[Query], changes: &[(&str, Option<(i64, i64)>)]) -> Vec<bool> {
    let mut world = world();
    for query in queries {
        world.ask(query, EXACT);
    }
    let changes: Vec<_> = changes
        .iter()
        .map(|(id, to)| (*id, to.and_then(|(n, m)| row(n, m))))
        .collect();
    world.commit(&changes);
    let hits = queries.iter().map(|query| world.is_hit(query)).collect();
    assert!(queries.iter().all(|query| world.is_exact(query)));
    hits
}

#[test]
fn a_change_drops_the_lists_that_it_alters_and_no_others() {
    let queries = [
        query(&[&is("n", 1)]),
        query(&[&is("n", 2)]),
        query(&[&is("n", 1), &is("m", 2)]),
        query(&[&above(1)]),
        query(&[&above(5)]),
    ];
    let hits = |id, to| hits_after(&queries, &[(id, to)]);
    assert_eq!(hits("a", Some((1, 9))), [false, true, true, true, true]);
    assert_eq!(hits("a", Some((2, 1))), [false, false, true, false, true]);
    assert_eq!(hits("b", None), [false, true, false, true, true]);
    assert_eq!(hits("e", Some((6, 6))), [true, true, true, false, false]);
    assert_eq!(hits("e", Some((0, 0))), [true; 5]);
}

/// A row with these ends of valid time, known since then.
fn over(from: i64, to: Option<i64>, known: i64) -> Image {
    let valid = Period::new(Timestamp(from), to.map(Timestamp)).unwrap();
    Image {
        valid,
        system_from: Mark(known),
        ..image(1, 1, EVERYBODY)
    }
}

#[test]
fn an_end_that_moves_drops_the_lists_that_look_at_it() {
    let by = |method: &str, field: &str, values: &str| {
        let values = format!(r#""values":[{values}]"#);
        query(&[&format!(
            r#"{{"method":"{method}","attribute":"{field}",{values}}}"#
        )])
    };
    let queries = [
        by("isNull", "$validTo", ""),
        by("lessThan", "$validTo", "50"),
        by("equal", "$validFrom", "20"),
        by("greaterThan", "$systemFrom", "8"),
        by("orderDesc", "$validFrom", ""),
        by("orderAsc", "$systemFrom", ""),
        // Its values stay as they are, and so does what is shown.
        query(&[&is("n", 2)]),
    ];
    let hits = |before: Image, after: Image| {
        let mut world = World::new();
        world.commit(&[("a", Some(before)), ("b", Some(over(-10, None, 1)))]);
        let others = [("c", over(-20, None, 2)), ("d", over(-30, None, 3))];
        world.commit(&others.map(|(id, image)| (id, Some(image))));
        for query in &queries {
            world.ask(query, EXACT);
        }
        world.commit(&[("a", Some(after))]);
        let hits: Vec<bool> = queries.iter().map(|query| world.is_hit(query)).collect();
        assert!(queries.iter().all(|query| world.is_exact(query)));
        hits
    };
    // Beyond the page in ascending order, and the first in descending order.
    let ended = hits(over(20, None, 7), over(20, Some(40), 7));
    assert_eq!(ended, [false, false, false, true, false, true, true]);
    let later = hits(over(20, None, 7), over(30, None, 7));
    assert_eq!(later, [false, true, false, true, false, true, true]);
    let known = hits(over(-40, Some(90), 7), over(-40, Some(90), 9));
    assert_eq!(known, [true, true, true, false, true, true, true]);
}

#[test]
fn alternatives_with_equalities_are_found_by_each_of_them() {
    let either = format!(
        r#"{{"method":"or","values":[{},{}]}}"#,
        is("n", 7),
        is("m", 4)
    );
    let queries = [query(&[&either])];
    for (id, to, hit) in [
        ("a", Some((7, 1)), false),
        ("a", Some((1, 4)), false),
        ("d", Some((2, 5)), false),
        ("d", None, false),
        ("a", Some((8, 5)), true),
    ] {
        assert_eq!(hits_after(&queries, &[(id, to)]), [hit], "{id} {to:?}");
    }
}

#[test]
fn beyond_a_full_page_only_the_total_moves() {
    let mut world = world();
    let first = page(2, 0);
    world.ask(&first, EXACT);
    world.commit(&[("c", None)]);
    let answer = world.ask(&first, EXACT);
    assert!(answer.is_hit, "the total was patched");
    assert_eq!(answer.total, Some(3));
    // A row that stays beyond it, and one that comes there.
    world.commit(&[("d", row(2, 8)), ("e", row(1, 9))]);
    let answer = world.ask(&first, EXACT);
    assert_eq!((answer.is_hit, answer.total), (true, Some(4)));
    world.commit(&[("d", row(2, 0))]);
    assert!(!world.is_hit(&first), "it came in from beyond");
    assert!(world.is_exact(&first));
}

#[test]
fn a_page_further_on_ends_as_well_and_one_with_room_does_not() {
    let pages = [page(2, 2), page(1, 1), page(5, 0)];
    for (id, to, hits) in [
        ("e", Some((1, 9)), [true, true, false]),
        ("d", Some((1, 8)), [false, true, false]),
        ("a", None, [false, false, false]),
        ("e", Some((1, 0)), [false, false, false]),
    ] {
        assert_eq!(hits_after(&pages, &[(id, to)]), hits, "{id} {to:?}");
    }
}

#[test]
fn pages_of_two_orders_over_one_filter_are_told_apart() {
    let order = |method: &str| {
        query(&[
            &is("n", 1),
            &format!(r#"{{"method":"{method}","attribute":"m"}}"#),
            r#"{"method":"limit","values":[1]}"#,
        ])
    };
    let both = [order("orderAsc"), order("orderDesc")];
    // Only `w` changes: where the row stands decides.
    for (id, hits) in [("a", [false, true]), ("b", [true, false])] {
        let mut world = world();
        for query in &both {
            world.ask(query, EXACT);
        }
        let m = if id == "a" { 1 } else { 2 };
        let mut after = image(1, m, fixture::EVERYBODY);
        after.values[2] = model::Value::Text("changed".into());
        world.commit(&[(id, Some(after))]);
        assert_eq!([0, 1].map(|which: usize| world.is_hit(&both[which])), hits);
        assert!(both.iter().all(|query| world.is_exact(query)));
    }
}

#[test]
fn a_row_that_only_moves_among_others_keeps_the_total() {
    let mut world = world();
    let (first, second) = (page(2, 0), page(2, 2));
    world.ask(&first, EXACT);
    world.commit(&[("a", row(1, 7))]);
    // The total of the first page is that of the second one.
    let mut fetch = world.fetch(&second, EXACT);
    let Step::Read(fill) = fetch.step(0) else {
        panic!("the rows are nowhere");
    };
    assert!(fill.rows() && !fill.total());
}

#[test]
fn a_total_below_the_cap_is_patched_up_to_it_and_one_at_the_cap_only_shrinks_by_reading() {
    let mut world = world();
    let first = page(1, 0);
    world.ask(&first, EXACT);
    for id in ["e", "f", "g"] {
        world.commit(&[(id, row(1, 9))]);
        assert!(world.is_hit(&first) && world.is_exact(&first), "{id}");
    }
    assert_eq!(world.ask(&first, EXACT).total, Some(CAP));
    world.commit(&[("g", None)]);
    assert!(!world.is_hit(&first));
    assert!(world.is_exact(&first));
}

#[test]
fn a_page_beside_a_cursor_goes_with_the_cursors_row() {
    let beside = |side| {
        let cursor = format!(r#"{{"method":"{side}","values":["b"]}}"#);
        query(&[
            &is("n", 2),
            r#"{"method":"orderAsc","attribute":"m"}"#,
            &cursor,
        ])
    };
    for side in ["cursorAfter", "cursorBefore"] {
        let queries = [beside(side)];
        assert_eq!(hits_after(&queries, &[("b", None)]), [false], "{side}");
        assert_eq!(hits_after(&queries, &[("b", Some((1, 9)))]), [false]);
        // It keeps its place.
        assert_eq!(hits_after(&queries, &[("b", Some((5, 2)))]), [true]);
    }
}

#[test]
fn a_page_beside_a_row_goes_when_others_may_see_the_row() {
    let beside = [r#"{"method":"cursorAfter","values":["b"]}"#, &is("n", 2)];
    let (mine, all) = (seen_by(&beside, guests()), query(&beside));
    let mut world = World::new();
    world.commit(&[("b", row(1, 1)), ("c", row(2, 2))]);
    for (permissions, why) in [(NOBODY, "hidden"), (EVERYBODY, "shown again")] {
        for query in [&mine, &all] {
            world.ask(query, EXACT);
        }
        world.commit(&[("b", Some(image(1, 1, permissions)))]);
        assert!(!world.is_hit(&mine), "{why}");
        assert!(world.is_exact(&mine) && world.is_exact(&all), "{why}");
    }
}

#[test]
fn rows_before_a_cursor_are_bounded_on_their_other_side() {
    let before = [query(&[
        r#"{"method":"orderAsc","attribute":"m"}"#,
        r#"{"method":"cursorBefore","values":["d"]}"#,
        r#"{"method":"limit","values":[2]}"#,
    ])];
    assert_eq!(hits_after(&before, &[("a", Some((1, 0)))]), [true]);
    assert_eq!(hits_after(&before, &[("a", Some((1, 3)))]), [false]);
}

#[test]
fn rows_a_caller_may_not_see_alter_none_of_its_lists() {
    let mut world = World::new();
    world.commit(&[("a", row(1, 1)), ("b", Some(image(1, 2, NOBODY)))]);
    let (mine, all) = (seen_by(&[&is("n", 1)], guests()), query(&[&is("n", 1)]));
    for query in [&mine, &all] {
        world.ask(query, EXACT);
    }
    world.commit(&[("b", Some(image(1, 3, NOBODY)))]);
    assert_eq!([world.is_hit(&mine), world.is_hit(&all)], [true, false]);
    world.commit(&[("b", row(1, 3))]);
    assert!(!world.is_hit(&mine), "it is shown from now on");
    assert!(world.is_exact(&mine) && world.is_exact(&all));
}

#[test]
fn a_commit_that_tells_tables_drops_theirs_only() {
    let world = world();
    let first = page(2, 0);
    for (table, hit) in [(TableNumber(8), true), (TABLE, false)] {
        world.ask(&first, EXACT);
        let withheld = world.lists.withhold(Batch {
            images: vec![],
            tables: vec![table],
            ..Batch::default()
        });
        world.lists.publish(withheld, true);
        assert_eq!(world.is_hit(&first), hit, "{table:?}");
    }
}

/// Two who ask for what is not cached: one reads, the other waits for that read.
fn two_who_miss<'a>(
    world: &'a World,
    query: &'a Query,
) -> (ListFetch<'a>, Fill<'a>, ListFetch<'a>, Waiter) {
    let mut leader = world.fetch(query, EXACT);
    let Step::Read(fill) = leader.step(0) else {
        panic!("nobody reads yet");
    };
    let mut other = world.fetch(query, EXACT);
    let Step::Wait(joined) = other.step(0) else {
        panic!("somebody reads already");
    };
    (leader, fill, other, joined)
}

#[test]
fn misses_at_one_time_share_one_read() {
    let world = world();
    let first = page(2, 0);
    let (mut leader, fill, mut other, joined) = two_who_miss(&world, &first);
    assert!(joined.look().is_pending());
    let found = world.found(&first, &fill);
    leader.fill(fill, found);
    let Poll::Ready(outcome) = joined.look() else {
        panic!("the read has ended");
    };
    other.take_outcome(outcome).unwrap();
    for fetch in [&mut leader, &mut other] {
        let Step::Answer(answer) = fetch.step(0) else {
            panic!("all of it was read");
        };
        assert_eq!((answer.is_hit, answer.total), (false, Some(4)));
    }
    assert!(world.is_hit(&first));
}

#[test]
fn waiters_for_a_total_take_no_rows_of_another_page() {
    let mut world = World::with(&[("a", 1, 1), ("b", 1, 2), ("c", 2, 3)]);
    let (first, other) = (page(1, 0), page(2, 0));
    world.ask(&first, EXACT);
    // Only the total goes: it is at its cap, and a row beyond the page leaves.
    for id in ["d", "e"] {
        world.commit(&[(id, row(1, 9))]);
    }
    world.ask(&first, EXACT);
    world.commit(&[("e", None)]);
    let mut leader = world.fetch(&other, EXACT);
    let Step::Read(fill) = leader.step(0) else {
        panic!("nobody has read that page");
    };
    let mut fetch = world.fetch(&first, EXACT);
    let Step::Wait(joined) = fetch.step(0) else {
        panic!("the total is being read");
    };
    let found = world.found(&other, &fill);
    leader.fill(fill, found);
    let Poll::Ready(outcome) = joined.look() else {
        panic!("the read has ended");
    };
    fetch.take_outcome(outcome).unwrap();
    let Step::Answer(answer) = fetch.step(0) else {
        panic!("its own rows and the total make it whole");
    };
    let (body, total, _) = world.read(&first);
    assert!(says(&answer, &body, total));
}

#[test]
fn a_read_that_fails_lets_the_others_read() {
    let world = world();
    let first = page(2, 0);
    let (_leader, fill, mut other, joined) = two_who_miss(&world, &first);
    drop(fill);
    let Poll::Ready(outcome) = joined.look() else {
        panic!("the read has ended");
    };
    assert!(outcome.is_none());
    other.take_outcome(outcome).unwrap();
    assert!(matches!(other.step(0), Step::Read(_)));
}

#[test]
fn registrations_end_with_their_lists() {
    let mut world = World::of_bytes(200_000);
    world.commit(&[("a", row(1, 1))]);
    let request = |n: i64| query(&[&is("n", n), r#"{"method":"cursorAfter","values":["a"]}"#]);
    for n in 0..3_000 {
        world.ask(&request(n), EXACT);
        let abandoned = request(-1);
        let mut fetch = world.fetch(&abandoned, EXACT);
        drop(fetch.step(0));
    }
    let counts = world.lists.counts();
    assert!(counts.watches < 400, "{counts:?}");
    assert!(counts.watches > 50, "{counts:?}");
    world.commit(&[("a", None)]);
    let withheld = world.lists.withhold(Batch {
        images: vec![],
        tables: vec![TABLE],
        ..Batch::default()
    });
    world.lists.publish(withheld, true);
    assert_eq!(world.lists.counts().watches, 0);
    assert_eq!(world.lists.bytes(), 0);
}

#[test]
fn beyond_the_bound_of_a_table_any_change_of_it_drops_a_list() {
    let mut world = world();
    world.lists.rules().limit_watches(256);
    let request = |n: i64| query(&[&above(n)]);
    for n in 10..1_010 {
        world.ask(&request(n), EXACT);
    }
    let counts = world.lists.counts();
    assert_eq!((counts.watches, counts.degraded), (512, 2 * 744));
    world.commit(&[("a", row(0, 1))]);
    assert!(world.is_hit(&request(10)), "it was asked");
    assert!(!world.is_hit(&request(1_009)), "there was no room for it");
    assert_eq!(world.lists.counts().degraded, 2);
    // An equality has a place of its own, whatever the ranges do.
    world.ask(&query(&[&is("n", 2)]), EXACT);
    world.commit(&[("a", row(0, 2))]);
    assert!(world.is_hit(&query(&[&is("n", 2)])));
}

#[test]
fn a_set_that_fewest_share_is_chosen() {
    let mut world = world();
    // 3,000 filters share `n = 1`, more than a bucket holds; each has an `m` of its own.
    let request = |m: i64| query(&[&is("n", 1), &is("m", m)]);
    for m in 0..3_000 {
        world.ask(&request(m), EXACT);
    }
    assert_eq!(world.lists.counts().degraded, 0);
    world.commit(&[("a", row(1, 2_000))]);
    let dropped = (0..3_000).filter(|m| !world.is_hit(&request(*m))).count();
    assert_eq!(dropped, 2, "that of the old value, that of the new one");
}
