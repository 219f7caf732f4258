use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use model::{DatabaseId, Direction, ProjectId, Selection, Table, TableId, TableNumber, Timestamp};
use query::{Filter, Query, Visibility};

use super::*;
use crate::key::Family;

const TABLE: TableNumber = TableNumber(1);
const ROWS: Part = Part::Rows(Family::Tables);

fn table(number: TableNumber) -> Table {
    Table {
        number,
        project: ProjectId::new("p").unwrap(),
        database: DatabaseId::new("d").unwrap(),
        id: TableId::new("t").unwrap(),
        name: "t".into(),
        enabled: true,
        row_security: false,
        permissions: vec![],
        columns: vec![],
        indexes: vec![],
        created: Timestamp(0),
        updated: Timestamp(0),
        schema_epoch: 1,
        permission_epoch: 1,
    }
}

fn query_of(table: Table) -> Query {
    Query {
        table: Arc::new(table),
        filter: Filter::All(vec![]),
        order: vec![],
        tie: Direction::Asc,
        random: false,
        limit: 25,
        offset: 0,
        cursor: None,
        selection: Selection::All,
        visibility: Visibility::Everything,
        at: None,
    }
}

fn query() -> Query {
    query_of(table(TABLE))
}

fn rows(read_ms: u64) -> Rows {
    Rows {
        body: Arc::from(&b"{}"[..]),
        tag: 0,
        mark: Mark(1),
        read_ms,
    }
}

fn lead(cache: &ListCache, query: &Query) -> Ticket {
    match cache.rows(&cache.key(query, ROWS), 60, 0) {
        Lookup::Lead(ticket) => ticket,
        _ => panic!("expected the right to read"),
    }
}

fn fill(cache: &ListCache, query: &Query, read_ms: u64) {
    cache.fill_rows(lead(cache, query), rows(read_ms));
}

/// `hit`, `join` or `lead`.
fn look(cache: &ListCache, query: &Query, ttl_s: u32, now_ms: u64) -> &'static str {
    match cache.rows(&cache.key(query, ROWS), ttl_s, now_ms) {
        Lookup::Hit(_) => "hit",
        Lookup::Join(_) => "join",
        Lookup::Lead(_) => "lead",
    }
}

fn poll(joined: &mut Joined) -> Poll<Option<Mark>> {
    let polled = Pin::new(joined).poll(&mut Context::from_waker(Waker::noop()));
    polled.map(|rows| rows.map(|rows| rows.mark))
}

use crate::fill::Joined;

#[test]
fn the_readers_ttl_decides() {
    let cache = ListCache::new(1 << 20);
    fill(&cache, &query(), 1_000);
    assert_eq!(look(&cache, &query(), 10, 10_999), "hit");
    assert_eq!(look(&cache, &query(), 10, 11_000), "lead");
    assert_eq!(look(&cache, &query(), 86_400, 11_000), "hit");
}

#[test]
fn a_fill_replaces_the_entry_and_restarts_its_age() {
    let cache = ListCache::new(1 << 20);
    fill(&cache, &query(), 0);
    let Lookup::Lead(ticket) = cache.rows(&cache.key(&query(), ROWS), 5, 5_000) else {
        panic!()
    };
    cache.fill_rows(ticket, rows(5_000));
    assert_eq!(look(&cache, &query(), 5, 9_999), "hit");
}

#[test]
fn family_schema_permissions_and_table_stand_in_the_key() {
    let cache = ListCache::new(1 << 20);
    fill(&cache, &query(), 0);
    let others = [
        Table {
            schema_epoch: 2,
            ..table(TABLE)
        },
        Table {
            permission_epoch: 2,
            ..table(TABLE)
        },
        table(TableNumber(2)),
    ];
    for other in others {
        assert_eq!(look(&cache, &query_of(other), 60, 0), "lead");
    }
    let documents = cache.key(&query(), Part::Rows(Family::Documents));
    assert!(matches!(cache.rows(&documents, 60, 0), Lookup::Lead(_)));
    assert_eq!(look(&cache, &query(), 60, 0), "hit");
}

#[test]
fn totals_are_shared_by_pages_and_live_apart_from_rows() {
    let cache = ListCache::new(1 << 20);
    let second_page = Query {
        offset: 25,
        ..query()
    };
    let key = cache.key(&query(), Part::Total);
    cache.fill_total(
        key,
        Total {
            count: 7,
            read_ms: 0,
        },
    );
    let found = cache.total(&cache.key(&second_page, Part::Total), 60, 0);
    assert_eq!(found.map(|total| total.count), Some(7));
    assert_eq!(look(&cache, &query(), 60, 0), "lead");
    assert!(
        cache
            .total(&cache.key(&query(), Part::Total), 60, 60_000)
            .is_none()
    );
}

#[test]
fn those_who_miss_together_share_one_read() {
    let cache = ListCache::new(1 << 20);
    let ticket = lead(&cache, &query());
    let Lookup::Join(mut joined) = cache.rows(&cache.key(&query(), ROWS), 60, 0) else {
        panic!()
    };
    assert_eq!(poll(&mut joined), Poll::Pending);
    cache.fill_rows(ticket, rows(0));
    assert_eq!(poll(&mut joined), Poll::Ready(Some(Mark(1))));
}

#[test]
fn a_read_that_fails_lets_the_others_read() {
    let cache = ListCache::new(1 << 20);
    let ticket = lead(&cache, &query());
    let Lookup::Join(mut joined) = cache.rows(&cache.key(&query(), ROWS), 60, 0) else {
        panic!()
    };
    drop(ticket);
    assert_eq!(poll(&mut joined), Poll::Ready(None));
    assert_eq!(look(&cache, &query(), 60, 0), "lead");
}

#[test]
fn a_commit_keeps_later_askers_from_joining_but_not_the_fill() {
    let cache = ListCache::new(1 << 20);
    let before = lead(&cache, &query());
    cache.withhold(&[TABLE]);
    let during = lead(&cache, &query());
    assert_eq!(
        look(&cache, &query(), 60, 0),
        "lead",
        "a run opened meanwhile is not joined"
    );
    cache.publish(&[TABLE]);
    assert_eq!(
        look(&cache, &query(), 60, 0),
        "lead",
        "nor after the commit"
    );
    cache.fill_rows(before, rows(0));
    assert_eq!(
        look(&cache, &query(), 60, 0),
        "hit",
        "the ttl contract allows older rows"
    );
    drop(during);
}

#[test]
fn other_tables_may_be_joined_while_a_commit_holds_one() {
    let cache = ListCache::new(1 << 20);
    cache.withhold(&[TABLE]);
    let other = query_of(table(TableNumber(2)));
    let _ticket = lead(&cache, &other);
    assert_eq!(look(&cache, &other, 60, 0), "join");
    cache.publish(&[TABLE]);
}

#[test]
fn a_purge_is_a_fence_for_entries_runs_and_late_fills() {
    let cache = ListCache::new(1 << 20);
    fill(&cache, &query(), 0);
    let slow = Query {
        limit: 9,
        ..query()
    };
    let late = lead(&cache, &slow);
    cache.fill_total(
        cache.key(&query(), Part::Total),
        Total {
            count: 7,
            read_ms: 0,
        },
    );
    cache.purge(TABLE);
    assert_eq!(look(&cache, &query(), 60, 0), "lead");
    assert!(
        cache
            .total(&cache.key(&query(), Part::Total), 60, 0)
            .is_none()
    );
    assert_eq!(
        look(&cache, &slow, 60, 0),
        "lead",
        "a run from before is not joined"
    );
    cache.fill_rows(late, rows(0));
    assert_eq!(
        look(&cache, &slow, 60, 0),
        "lead",
        "and its fill is refused"
    );
    assert_eq!(cache.bytes(), 0);
}

#[test]
fn a_purge_leaves_other_tables_alone() {
    let cache = ListCache::new(1 << 20);
    let other = query_of(table(TableNumber(2)));
    fill(&cache, &other, 0);
    cache.purge(TABLE);
    assert_eq!(look(&cache, &other, 60, 0), "hit");
}

#[test]
fn memory_is_bounded_in_all_and_per_entry() {
    let cache = ListCache::new(64_000);
    let big = Rows {
        body: vec![0; 1_000].into(),
        tag: 0,
        mark: Mark(1),
        read_ms: 0,
    };
    cache.fill_rows(lead(&cache, &query()), big);
    assert_eq!(
        look(&cache, &query(), 60, 0),
        "lead",
        "over 1/64 of the bound"
    );
    for limit in 1..2_000 {
        let query = Query { limit, ..query() };
        let body = vec![0; 500].into();
        cache.fill_rows(
            lead(&cache, &query),
            Rows {
                body,
                tag: 0,
                mark: Mark(1),
                read_ms: 0,
            },
        );
        assert!(cache.bytes() <= 64_000);
    }
    assert!(cache.bytes() > 10_000, "something is kept");
}
