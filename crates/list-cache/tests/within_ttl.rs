//! Lists that a reader accepts up to an age it names.

mod fixture;

use std::sync::Arc;
use std::task::Poll;

use fixture::{
    EVERYBODY, EXACT, NOBODY, TABLE, TTL, World, guests, image, query, row, says, seen_by, table,
};
use list_cache::{Batch, Contract, Family, ListRequest, Step};
use model::{Change, Role, RoleSet, Table};
use query::{Query, Visibility};

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
    let mut fetch = world.lists.ask(ListRequest {
        query: &query,
        family: Family::Documents,
        total: true,
        contract: TTL,
    });
    let Step::Read(fill) = fetch.step(0) else {
        panic!("its rows are written otherwise");
    };
    assert!(!fill.total(), "its total is the same");
    drop(fill);
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
        let mut leader = world.fetch(&query, TTL);
        let Step::Read(fill) = leader.step(0) else {
            panic!("nobody reads yet");
        };
        let found = world.found(&query, &fill);
        let withheld = world.withhold(&changes);
        let mut late = world.fetch(&query, TTL);
        assert!(matches!(late.step(0), Step::Read(_)), "not joined");
        leader.fill(fill, found);
        withheld
    };
    world.show(changes);
    world.lists.publish(withheld, true);
    let answer = world.ask(&query, TTL);
    assert_eq!((answer.is_hit, answer.is_stale), (true, Some(true)));
}

#[test]
fn unrelated_commits_leave_a_read_open_to_others() {
    let mut world = world();
    let query = query(&[r#"{"method":"equal","attribute":"n","values":[5]}"#]);
    let changes = world.changes(&[("b", row(2, 2))]);
    let mut leader = world.fetch(&query, TTL);
    let Step::Read(fill) = leader.step(0) else {
        panic!("nobody reads yet");
    };
    let withheld = world.withhold(&changes);
    let mut late = world.fetch(&query, TTL);
    let Step::Wait(joined) = late.step(0) else {
        panic!("it may be joined");
    };
    drop(fill);
    assert!(matches!(joined.look(), Poll::Ready(None)));
    world.lists.publish(withheld, false);
}

#[test]
fn a_purge_takes_one_tables_lists_and_bars_open_reads() {
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
        let mut late = world.fetch(&slow, TTL);
        let Step::Read(fill) = late.step(0) else {
            panic!("nobody reads yet");
        };
        world.lists.purge(TABLE);
        let mut after = world.fetch(&slow, TTL);
        assert!(matches!(after.step(0), Step::Read(_)), "not joined");
        let found = world.found(&slow, &fill);
        late.fill(fill, found);
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
    let mut fetch = world.fetch(&query, TTL);
    let Step::Read(fill) = fetch.step(0) else {
        panic!("nobody has read the total");
    };
    world.crowd_out(TTL);
    let withheld = world.withhold(&changes);
    let found = shown.found(&query, &fill);
    fetch.fill(fill, found);
    world.lists.publish(withheld, true);
    let Step::Answer(answer) = fetch.step(0) else {
        panic!("all of it is there");
    };
    assert_eq!(answer.is_stale, Some(true), "its rows are the old ones");
}

const IS_ONE: &str = r#"{"method":"equal","attribute":"n","values":[1]}"#;
const IS_TWO: &str = r#"{"method":"equal","attribute":"n","values":[2]}"#;

/// Whether a list within a `ttl` is found, and whether it says that it may be old.
fn found(world: &World, query: &Query) -> (bool, Option<bool>) {
    let answer = world.ask(query, TTL);
    let (body, total, _) = world.read(query);
    assert!(answer.is_hit || says(&answer, &body, total), "{answer:?}");
    (answer.is_hit, answer.is_stale)
}

fn user(name: &str) -> Visibility {
    let role = Role::parse(&format!("user:{name}")).unwrap();
    Visibility::Granted(Arc::new(RoleSet::new(vec![role])))
}

#[test]
fn a_row_that_is_deleted_takes_the_lists_that_show_it() {
    let mut world = World::with(&[("a", 1, 1), ("b", 1, 2), ("c", 2, 3)]);
    let (with, without) = (query(&[IS_ONE]), query(&[IS_TWO]));
    let of_guests = seen_by(&[IS_ONE], guests());
    for query in [&with, &without, &of_guests] {
        world.ask(query, TTL);
    }
    world.commit(&[("a", None)]);
    assert_eq!(found(&world, &without), (true, Some(false)));
    assert_eq!(found(&world, &with), (false, Some(false)));
    assert_eq!(found(&world, &of_guests), (false, Some(false)));
    assert_eq!(found(&world, &with), (true, Some(false)));
    assert_eq!(world.lists.counts().shown, 3);
}

#[test]
fn a_list_that_was_altered_before_goes_as_well() {
    let mut world = World::with(&[("a", 1, 1), ("b", 1, 2)]);
    let query = query(&[IS_ONE]);
    world.ask(&query, TTL);
    // Neither what comes nor what leaves by its values alone is a loss.
    world.commit(&[("c", row(1, 3)), ("a", row(2, 1))]);
    assert_eq!(found(&world, &query), (true, Some(true)));
    world.commit(&[("a", None)]);
    assert_eq!(found(&world, &query), (false, Some(false)));
}

#[test]
fn a_grant_that_goes_takes_the_lists_of_those_who_lose_it_and_no_others() {
    let of_both = r#"["read(\"user:ann\")","read(\"user:bob\")"]"#;
    let of_bob = r#"["read(\"user:bob\")"]"#;
    let mut world = World::new();
    world.commit(&[("a", Some(image(1, 1, of_both)))]);
    let lists = [
        seen_by(&[IS_ONE], user("ann")),
        seen_by(&[IS_ONE], user("bob")),
        query(&[IS_ONE]),
    ];
    for query in &lists {
        world.ask(query, TTL);
    }
    world.commit(&[("a", Some(image(1, 1, of_bob)))]);
    let told: Vec<_> = lists.iter().map(|query| found(&world, query)).collect();
    let kept = (true, Some(true));
    assert_eq!(told, [(false, Some(false)), kept, kept]);
    world.commit(&[("a", Some(image(1, 1, NOBODY)))]);
    let hits: Vec<bool> = lists.iter().map(|query| found(&world, query).0).collect();
    assert_eq!(hits, [true, false, true]);
}

#[test]
fn a_read_that_a_loss_overtakes_is_neither_joined_nor_kept() {
    let texts: &[&str] = &[IS_ONE];
    for (query, loses) in [
        (query(texts), None),
        (seen_by(texts, guests()), Some(image(1, 1, NOBODY))),
        (seen_by(texts, guests()), None),
    ] {
        for commits in [true, false] {
            let mut world = World::with(&[("a", 1, 1), ("b", 1, 2)]);
            let changes = world.changes(&[("a", loses.clone())]);
            let withheld = {
                let mut leader = world.fetch(&query, TTL);
                let Step::Read(fill) = leader.step(0) else {
                    panic!("nobody reads yet");
                };
                let read = world.found(&query, &fill);
                let withheld = world.withhold(&changes);
                let mut late = world.fetch(&query, TTL);
                let Step::Read(inside) = late.step(0) else {
                    panic!("joined a read that was overtaken");
                };
                let read_inside = world.found(&query, &inside);
                leader.fill(fill, read);
                late.fill(inside, read_inside);
                withheld
            };
            if commits {
                world.show(changes);
            }
            world.lists.publish(withheld, commits);
            assert_eq!(world.lists.counts().shown, 0);
            assert_eq!(found(&world, &query), (false, Some(false)), "{commits}");
        }
    }
}

#[test]
fn rights_that_others_lose_leave_a_read_open_and_cached() {
    let mut world = World::with(&[("a", 1, 1), ("b", 1, 2)]);
    let query = query(&[IS_ONE]);
    let changes = world.changes(&[("a", Some(image(1, 1, NOBODY)))]);
    let withheld = {
        let mut leader = world.fetch(&query, TTL);
        let Step::Read(fill) = leader.step(0) else {
            panic!("nobody reads yet");
        };
        let read = world.found(&query, &fill);
        let withheld = world.withhold(&changes);
        leader.fill(fill, read);
        withheld
    };
    world.show(changes);
    world.lists.publish(withheld, true);
    assert_eq!(found(&world, &query), (true, Some(true)));
}

#[test]
fn more_rows_than_are_told_take_every_list_and_another_definition_takes_none() {
    let world = World::with(&[("a", 1, 1)]);
    let tell = |tables: &[_], unseen: &[_]| {
        let withheld = world.lists.withhold(Batch {
            tables: tables.to_vec(),
            unseen: unseen.to_vec(),
            ..Batch::default()
        });
        world.lists.publish(withheld, true);
    };
    let of_guests = seen_by(&[IS_TWO], guests());
    for query in [&all(), &of_guests] {
        world.ask(query, TTL);
    }
    tell(&[TABLE], &[]);
    for query in [&all(), &of_guests] {
        assert_eq!(found(&world, query), (true, Some(true)));
    }
    tell(&[], &[TABLE]);
    for query in [&all(), &of_guests] {
        assert_eq!(found(&world, query), (false, Some(false)));
    }
}

#[test]
fn scheduled_rows_remove_lists_as_commits_do() {
    let mut world = World::with(&[("a", 1, 1), ("b", 2, 2)]);
    let due = world.changes(&[("a", None)]);
    for query in [query(&[IS_ONE]), query(&[IS_TWO])] {
        world.ask(&query, TTL);
    }
    let bring = |due: &[Change], due_tables: &[_]| {
        let withheld = world.lists.withhold(Batch {
            due: vec![Arc::new(due.to_vec())],
            due_tables: due_tables.to_vec(),
            ..Batch::default()
        });
        world.lists.publish(withheld, true);
    };
    let hit = |text| world.ask(&query(&[text]), TTL).is_hit;
    bring(&due, &[]);
    assert_eq!([hit(IS_ONE), hit(IS_TWO)], [false, true]);
    bring(&[], &[TABLE]);
    assert_eq!([hit(IS_ONE), hit(IS_TWO)], [false, false]);
}

#[test]
fn removed_lists_leave_nothing() {
    let mut world = World::of_bytes(200_000);
    world.commit(&[("a", row(1, 1)), ("b", row(1, 2))]);
    world.ask(&all(), TTL);
    world.now_ms = 61_000;
    world.ask(&all(), TTL);
    assert_eq!(world.lists.counts().shown, 1, "one took the other's place");
    world.crowd_out(TTL);
    let (entries, shown) = (world.lists.entries() as u64, world.lists.counts().shown);
    assert!(shown <= entries, "{shown} of {entries}");
    let query = query(&[IS_ONE]);
    world.ask(&query, TTL);
    drop(world.fetch(&seen_by(&[IS_ONE], guests()), TTL).step(0));
    world.lists.purge(TABLE);
    assert_eq!(world.lists.counts().shown, 0);
    world.lists.rules().limit_watches(1);
    for n in 0..5 {
        let filter = format!(r#"{{"method":"greaterThan","attribute":"n","values":[{n}]}}"#);
        world.ask(&fixture::query(&[&filter]), TTL);
    }
    assert!(world.lists.counts().degraded > 0, "beyond their bound");
    world.commit(&[
        ("a", None),
        ("b", None),
        ("c", Some(image(1, 1, EVERYBODY))),
    ]);
    world.lists.purge(TABLE);
    let counts = world.lists.counts();
    assert_eq!((counts.shown, counts.watches, counts.degraded), (0, 0, 0));
}
