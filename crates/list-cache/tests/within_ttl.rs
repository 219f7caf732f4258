//! Lists that a reader accepts up to an age it names.

mod stage;

use std::sync::Arc;
use std::task::Poll;

use list_cache::{Asked, Contract, Family, Step};
use model::Table;
use query::Query;
use stage::{EXACT, TABLE, TTL, World, query, row, table};

fn all() -> Query {
    query(&[])
}

fn world() -> World {
    World::with(&[("a", 1, 1)])
}

fn within(age_s_max: u32) -> Contract {
    Contract::Ttl { age_s_max }
}

#[test]
fn the_readers_ttl_decides() {
    let mut world = world();
    world.now_ms = 1_000;
    world.ask(&all(), within(10));
    for (age_s_max, now_ms, hit) in [
        (10, 10_999, true),
        (86_400, 11_000, true),
        (10, 11_000, false),
    ] {
        world.now_ms = now_ms;
        assert_eq!(world.ask(&all(), within(age_s_max)).is_hit, hit, "{now_ms}");
    }
    world.now_ms = 20_999;
    assert!(world.ask(&all(), within(10)).is_hit, "its age began anew");
}

#[test]
fn the_contracts_share_nothing() {
    let world = world();
    world.ask(&all(), TTL);
    assert!(!world.ask(&all(), EXACT).is_hit);
    assert_eq!(world.ask(&all(), EXACT).is_stale, None);
    assert_eq!(world.ask(&all(), TTL).is_stale, Some(false));
}

#[test]
fn family_schema_permissions_and_table_stand_in_the_key() {
    let world = world();
    world.ask(&all(), TTL);
    let of = |change: fn(&mut Table)| {
        let mut table = Table::clone(&table());
        change(&mut table);
        Query {
            table: Arc::new(table),
            ..all()
        }
    };
    for other in [
        of(|table| table.schema_epoch = 2),
        of(|table| table.permission_epoch = 2),
        of(|table| table.number.0 = 9),
    ] {
        assert!(!world.ask(&other, TTL).is_hit);
    }
    let query = all();
    let mut asking = world.lists.ask(Asked {
        query: &query,
        family: Family::Documents,
        total: true,
        contract: TTL,
    });
    let Step::Read(reading) = asking.step(0) else {
        panic!("its rows are written otherwise");
    };
    assert!(!reading.total(), "its total is the same");
    drop(reading);
    assert!(world.ask(&all(), TTL).is_hit);
}

#[test]
fn a_commit_leaves_what_is_there_and_lets_it_say_so() {
    let mut world = world();
    let other = query(&[r#"{"method":"equal","attribute":"n","values":[5]}"#]);
    for query in [&all(), &other] {
        assert_eq!(world.ask(query, TTL).is_stale, Some(false));
    }
    world.commit(&[("b", row(2, 2))]);
    let old = world.ask(&all(), TTL);
    assert_eq!(
        (old.is_hit, old.is_stale, old.total),
        (true, Some(true), Some(1))
    );
    assert_eq!(
        world.ask(&other, TTL).is_stale,
        Some(false),
        "that is proof"
    );
}

#[test]
fn a_commit_keeps_later_askers_from_joining_but_not_the_fill() {
    let mut world = world();
    let query = all();
    let changes = world.changes(&[("b", row(2, 2))]);
    let withheld = {
        let mut leader = world.asking(&query, TTL);
        let Step::Read(reading) = leader.step(0) else {
            panic!("nobody reads yet");
        };
        let found = world.found(&query, &reading);
        let withheld = world.withhold(&changes);
        let mut late = world.asking(&query, TTL);
        assert!(matches!(late.step(0), Step::Read(_)), "not joined");
        leader.fill(reading, found);
        withheld
    };
    world.show(changes);
    world.lists.publish(withheld, true);
    let answer = world.ask(&query, TTL);
    assert_eq!((answer.is_hit, answer.is_stale), (true, Some(true)));
}

#[test]
fn what_does_not_concern_a_read_leaves_it_open_to_others() {
    let mut world = world();
    let query = query(&[r#"{"method":"equal","attribute":"n","values":[5]}"#]);
    let changes = world.changes(&[("b", row(2, 2))]);
    let mut leader = world.asking(&query, TTL);
    let Step::Read(reading) = leader.step(0) else {
        panic!("nobody reads yet");
    };
    let withheld = world.withhold(&changes);
    let mut late = world.asking(&query, TTL);
    let Step::Wait(joined) = late.step(0) else {
        panic!("it may be joined");
    };
    drop(reading);
    assert!(matches!(joined.look(), Poll::Ready(None)));
    world.lists.publish(withheld, false);
}

#[test]
fn a_purge_takes_one_tables_lists_and_fences_off_open_reads() {
    let mut world = world();
    let (query, slow) = (all(), query(&[r#"{"method":"limit","values":[9]}"#]));
    let elsewhere = {
        let mut table = Table::clone(&table());
        table.number.0 = 9;
        Query {
            table: Arc::new(table),
            ..all()
        }
    };
    world.ask(&query, TTL);
    world.ask(&elsewhere, TTL);
    {
        let mut late = world.asking(&slow, TTL);
        let Step::Read(reading) = late.step(0) else {
            panic!("nobody reads yet");
        };
        world.lists.purge(TABLE);
        let mut after = world.asking(&slow, TTL);
        assert!(matches!(after.step(0), Step::Read(_)), "not joined");
        let found = world.found(&slow, &reading);
        late.fill(reading, found);
    }
    assert!(!world.ask(&slow, TTL).is_hit, "its fill was refused");
    assert!(!world.ask(&query, TTL).is_hit);
    assert!(world.ask(&elsewhere, TTL).is_hit);
    world.commit(&[("b", row(1, 2))]);
}

#[test]
fn memory_is_bounded_in_all_and_per_entry() {
    let world = World::of_bytes(64_000);
    for limit in 1..500 {
        let text = format!(r#"{{"method":"limit","values":[{}]}}"#, limit % 100 + 1);
        let other = format!(r#"{{"method":"offset","values":[{limit}]}}"#);
        world.ask(&query(&[&text, &other]), TTL);
        assert!(world.lists.bytes() <= 64_000);
    }
    assert!(world.lists.bytes() > 10_000, "something is kept");
    let small = World::of_bytes(2_000);
    small.ask(&all(), TTL);
    let again = small.ask(&all(), TTL);
    assert!(!again.is_hit, "over 1/64 of the bound");
    assert_eq!(again.is_stale, Some(false), "and fresh all the same");
    assert_eq!(small.lists.counts().watches, 0);
}

#[test]
fn a_part_that_was_evicted_proves_nothing_any_more() {
    let mut world = World::of_bytes(200_000);
    world.commit(&[("a", row(1, 1))]);
    let query = query(&[r#"{"method":"equal","attribute":"n","values":[1]}"#]);
    world.ask_rows(&query, TTL);
    let changes = world.changes(&[("b", row(1, 2))]);
    let mut shown = World::with(&[("a", 1, 1)]);
    shown.commit(&[("b", row(1, 2))]);
    let mut asking = world.asking(&query, TTL);
    let Step::Read(reading) = asking.step(0) else {
        panic!("nobody has read the total");
    };
    world.crowd_out(TTL);
    let withheld = world.withhold(&changes);
    let found = shown.found(&query, &reading);
    asking.fill(reading, found);
    world.lists.publish(withheld, true);
    let Step::Answer(answer) = asking.step(0) else {
        panic!("all of it is there");
    };
    assert_eq!(answer.is_stale, Some(true), "its rows are the old ones");
}
