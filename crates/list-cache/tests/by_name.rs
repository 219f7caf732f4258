//! Looking for a list by names that were made once.

mod fixture;

use fixture::{EXACT, TABLE, TTL, World, query, row, says};
use list_cache::{Contract, Names};
use query::Query;

fn some_rows() -> Query {
    query(&[r#"{"method":"equal","attribute":"n","values":[1]}"#])
}

/// A world in which the list is cached, and its names.
fn cached(contract: Contract) -> (World, Query, Names) {
    let world = World::with(&[("a", 1, 1), ("b", 1, 2), ("c", 2, 3)]);
    let query = some_rows();
    let names = world.names(&query, contract);
    assert!(world.lists.look(&names, 0).is_none(), "nobody has asked");
    world.ask(&query, contract);
    (world, query, names)
}

#[test]
fn lists_are_found_by_their_names_until_a_commit_removes_them() {
    let (mut world, query, names) = cached(EXACT);
    let (body, total, _) = world.read(&query);
    let found = world.lists.look(&names, 0).unwrap();
    assert!(says(&found, &body, total) && found.is_hit && found.is_stale.is_none());
    world.commit(&[("c", row(2, 9))]);
    assert!(world.lists.look(&names, 0).is_some(), "another row");
    let changes = world.changes(&[("a", row(1, 9))]);
    let withheld = world.withhold(&changes);
    assert!(world.lists.look(&names, 0).is_none(), "about to be altered");
    world.show(changes);
    world.lists.publish(withheld, true);
    assert!(world.lists.look(&names, 0).is_none());
    world.ask(&query, EXACT);
    let (body, total, _) = world.read(&query);
    let found = world.lists.look(&names, 0).unwrap();
    assert!(says(&found, &body, total), "the names are still good");
}

#[test]
fn both_parts_must_be_there() {
    let (mut world, query, names) = cached(EXACT);
    // The rows of the page stay, the total does not while the commit is on its way.
    let changes = world.changes(&[("z", row(1, 99))]);
    let withheld = world.withhold(&changes);
    assert!(world.lists.look(&names, 0).is_none());
    world.show(changes);
    world.lists.publish(withheld, true);
    world.ask(&query, EXACT);
    let total = world.lists.look(&names, 0).unwrap().total;
    assert_eq!(total, Some(3));
}

#[test]
fn within_a_ttl_an_older_list_is_found_and_says_so() {
    let (mut world, _, names) = cached(TTL);
    let is_stale = |world: &World| world.lists.look(&names, 0).unwrap().is_stale;
    assert_eq!(is_stale(&world), Some(false));
    world.commit(&[("a", row(1, 9))]);
    assert_eq!(is_stale(&world), Some(true));
    assert!(world.lists.look(&names, 59_999).is_some());
    assert!(world.lists.look(&names, 60_000).is_none(), "too old");
}

#[test]
fn a_purge_ends_names_within_a_ttl_and_exact_lists() {
    for contract in [EXACT, TTL] {
        let (world, query, names) = cached(contract);
        world.lists.purge(TABLE);
        assert!(world.lists.look(&names, 0).is_none());
        world.ask(&query, contract);
        let new = world.names(&query, contract);
        assert!(world.lists.look(&new, 0).is_some());
        let old = world.lists.look(&names, 0);
        assert_eq!(old.is_some(), contract == EXACT, "{contract:?}");
    }
}
