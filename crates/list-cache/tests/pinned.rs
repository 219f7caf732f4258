//! Answers at fixed coordinates: kept until the past is changed, and never overtaken by a commit
//! that does.

mod fixture;

use fixture::{EXACT, TABLE, World, query, row};
use list_cache::{Batch, Bounds, Family, ListCache, Pinned, PinnedName};
use model::{Coordinates, Mark, TableNumber, Timestamp};
use query::Query;

fn at(us: i64) -> Query {
    Query {
        at: Some(Coordinates {
            valid: Timestamp(us),
            system: Mark(us),
        }),
        ..query(&[])
    }
}

fn name(lists: &ListCache, us: i64) -> Option<PinnedName> {
    lists.name_pinned(&at(us), Family::Tables, true)
}

fn pinned(bytes: usize) -> Pinned {
    Pinned {
        body: vec![7; bytes].into(),
        tag: 3,
        total: 9,
        mark: Mark(5),
        read_ms: 0,
        is_erased: false,
    }
}

fn is_kept(lists: &ListCache, us: i64) -> bool {
    name(lists, us).is_some_and(|name| lists.pinned(&name).is_some())
}

fn keep(lists: &ListCache, us: i64) {
    lists.keep_pinned(name(lists, us).unwrap(), pinned(10));
    assert!(is_kept(lists, us));
}

fn past_changed(table: TableNumber) -> Batch {
    Batch {
        past_changed: vec![table],
        ..Batch::default()
    }
}

#[test]
fn an_answer_is_kept_by_its_coordinates_family_and_total_whatever_is_committed() {
    let mut world = World::with(&[("a", 1, 1)]);
    keep(&world.lists, 5);
    world.commit(&[("a", row(2, 2)), ("b", row(1, 1))]);
    assert!(is_kept(&world.lists, 5));
    assert!(!is_kept(&world.lists, 6), "other coordinates");
    for (family, total) in [(Family::Documents, true), (Family::Tables, false)] {
        let name = world.lists.name_pinned(&at(5), family, total).unwrap();
        assert!(world.lists.pinned(&name).is_none());
    }
    let now = world.lists.name_pinned(&query(&[]), Family::Tables, true);
    assert!(now.is_none(), "now is no fixed coordinate");
    let random = Query {
        random: true,
        ..at(5)
    };
    assert!(
        world
            .lists
            .name_pinned(&random, Family::Tables, true)
            .is_none()
    );
}

#[test]
fn a_commit_that_changes_the_past_makes_older_answers_unreachable_from_before_it_is_seen() {
    let world = World::new();
    for committed in [true, false] {
        keep(&world.lists, 5);
        let before = name(&world.lists, 5).unwrap();
        let withheld = world.lists.withhold(past_changed(TABLE));
        assert!(name(&world.lists, 5).is_none(), "neither found nor kept");
        // A read that was open already is kept where no reader looks.
        world.lists.keep_pinned(before.clone(), pinned(10));
        world.lists.publish(withheld, committed);
        let after = name(&world.lists, 5).unwrap();
        assert_ne!(before.epochs, after.epochs);
        assert!(!is_kept(&world.lists, 5));
    }
    keep(&world.lists, 5);
    let withheld = world.lists.withhold(past_changed(TableNumber(TABLE.0 + 1)));
    assert!(is_kept(&world.lists, 5), "another table");
    world.lists.publish(withheld, true);
    assert!(is_kept(&world.lists, 5));
    world.lists.forget_pinned();
    assert!(!is_kept(&world.lists, 5), "marks are given anew");
}

#[test]
fn pinned_lists_share_the_bound_and_leave_other_watches_alone() {
    let bytes_max = 64 << 10;
    let world = World::of_bytes(bytes_max);
    let all = query(&[]);
    assert!(!world.is_hit(&all) && world.is_hit(&all));
    for us in 0..1_000 {
        let name = name(&world.lists, us).unwrap();
        world.lists.keep_pinned(name.clone(), pinned(500));
        // In use, so that others give way to it.
        world.lists.pinned(&name);
        assert!(world.lists.bytes() <= bytes_max);
    }
    assert!(world.lists.entries() > 10);
    assert!(world.lists.counts().evictions > 100);
    assert!(world.is_exact(&all));
    world.ask(&all, EXACT);
    assert_eq!(world.lists.counts().degraded, 0);
    let small = ListCache::new(Bounds {
        bytes_max: 0,
        total_cap: None,
    });
    small.keep_pinned(name(&small, 5).unwrap(), pinned(10));
    assert!(!is_kept(&small, 5), "a cache of no bytes keeps nothing");
}
