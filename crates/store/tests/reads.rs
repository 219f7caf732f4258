//! Lists and points of the embedded store against a slow oracle, and how reads fail.

#[path = "suite/db.rs"]
#[allow(dead_code, reason = "written for the conformance suite, too")]
mod db;
#[path = "reads/drawn.rs"]
mod drawn;
#[path = "reads/oracle.rs"]
mod oracle;
#[path = "reads/world.rs"]
mod world;

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use drawn::{ARRAY_TESTS, ATTRIBUTES, Asked, TESTS, TEXT_TESTS, random_asked};
use futures_executor::block_on;
use model::permission::Role;
use model::{Content, Coordinates, Mark, RoleSet, Row, Selection, Table, Timestamp, Value};
use oracle::{Ask, Key, Known};
use query::ast::Method;
use query::{Query, Side, Visibility, predicate};
use store::{Listed, Listing, Op, Point, StoreError, TotalCap};
use testing::OwnTurn;
use world::{Chance, Directory, Stage, World, domain};

/// Filter methods that are no test of the oracle: `or` and `and` hold others, words need an index
/// of them, and expressions are drawn by the simulation of the engine.
const NOT_DRAWN: &[Method] = &[
    Method::Search,
    Method::NotSearch,
    Method::Regex,
    Method::Or,
    Method::And,
];

#[test]
fn each_filter_method_is_drawn() {
    let drawn = [TESTS, TEXT_TESTS, ARRAY_TESTS].concat();
    let is_absent = |method: &&Method| {
        let is_drawn = drawn.contains(&method.as_str()) || NOT_DRAWN.contains(method);
        method.is_filter() && !is_drawn
    };
    let absent: Vec<&Method> = Method::ALL.iter().filter(is_absent).collect();
    assert!(
        absent.is_empty(),
        "neither TESTS, TEXT_TESTS nor ARRAY_TESTS has {absent:?}"
    );
}

/// One table of a world at one stage, read at the stage's coordinates or as it is now.
struct View<'a> {
    world: &'a World,
    table: &'a Arc<Table>,
    rows: &'a [Known],
    at: Option<Coordinates>,
}

impl View<'_> {
    fn list(&self, query: &Query) -> Result<Vec<Row>, StoreError> {
        let listing = Listing {
            place: true,
            ..db::listing(query, self.world.db.catalogue.epoch)
        };
        let listed = block_on(self.world.db.store.list(listing))?.answer;
        self.check_place(query, &listed);
        Ok(listed.rows)
    }

    /// A full page says where the row read last stands; before a cursor that is its first one.
    #[track_caller]
    fn check_place(&self, query: &Query, listed: &Listed) {
        let is_backwards = matches!(&query.cursor, Some(cursor) if cursor.side == Side::Before);
        let last = if is_backwards {
            listed.rows.first()
        } else {
            listed.rows.last()
        };
        let last = last.filter(|_| listed.rows.len() == query.limit as usize);
        let place = last.map(|last| {
            let known = self.rows.iter().find(|known| known.id == last.id).unwrap();
            let keys = query.read_order().into_iter();
            keys.map(|key| known.field(key.field))
                .collect::<Vec<Value>>()
        });
        assert_eq!(listed.last_place, place, "{query:?}");
    }

    /// Memory decides which rows match as the database does, where it says that it can.
    fn check_predicate(&self, query: &Query, expected: &[&Known]) {
        if !predicate::is_decidable(&query.filter) {
            return;
        }
        let matches = |known: &&Known| {
            let permissions = format!(r#"["read(\"{}\")"]"#, known.role);
            predicate::satisfies(&query.filter, &|field| known.field(field))
                && query.visibility.sees(&permissions)
        };
        let found: HashSet<i64> = self
            .rows
            .iter()
            .filter(matches)
            .map(|row| row.seq)
            .collect();
        let expected: HashSet<i64> = expected.iter().map(|row| row.seq).collect();
        assert_eq!(found, expected, "{:?}", query.filter);
    }

    fn total(&self, query: &Query, cap: TotalCap) -> u64 {
        let listing = Listing {
            rows: false,
            total: Some(cap),
            ..db::listing(query, self.world.db.catalogue.epoch)
        };
        block_on(self.world.db.store.list(listing))
            .unwrap()
            .answer
            .total
    }

    #[track_caller]
    fn check_rows(&self, asked: &Asked, found: &[Row], expected: &[&Known]) {
        let ids = |known: &[&Known]| -> Vec<String> {
            known.iter().map(|row| row.id.to_string()).collect()
        };
        let found_ids: Vec<String> = found.iter().map(|row| row.id.to_string()).collect();
        assert_eq!(found_ids, ids(expected), "{asked:#?} at {:?}", self.at);
        for (row, known) in found.iter().zip(expected) {
            let shown = (
                row.seq,
                row.created,
                row.updated,
                row.permissions.to_string(),
            );
            let role = known.role;
            let permissions = format!(r#"["read(\"{role}\")"]"#);
            assert_eq!(
                shown,
                (known.seq, known.created, known.updated, permissions),
                "{asked:?}"
            );
            if let Some(span) = &row.span {
                let shown = (span.valid, span.system_from);
                assert_eq!(shown, (known.valid, known.system_from), "{asked:?}");
            }
            match &asked.selected {
                None => db::assert_holds(row, self.table, &known.values),
                Some(keys) => {
                    let value = |key: &&str| known.value(self.table, key);
                    let values: Vec<Value> = keys.iter().map(value).collect();
                    assert_eq!(row.content, Content::Values(values));
                }
            }
        }
    }

    /// The first page, a page further on, the pages on both sides of a row, and the total.
    fn check(&self, chance: &mut Chance, asked: &Asked) {
        let expected = asked.expected(self.table, self.rows);
        let offset = chance.below(1 + expected.len());
        let skip = format!(r#"{{"method":"offset","values":[{offset}]}}"#);
        let page = |from: usize| &expected[from..expected.len().min(from + asked.limit)];
        let first = asked.query(self.table, self.at, &[]);
        self.check_predicate(&first, &expected);
        self.check_rows(asked, &self.list(&first).unwrap(), page(0));
        let later = asked.query(self.table, self.at, &[skip]);
        self.check_rows(asked, &self.list(&later).unwrap(), page(offset));
        let count = expected.len() as u64;
        assert_eq!(self.total(&later, TotalCap::None), count, "{asked:?}");
        assert_eq!(
            self.total(&later, TotalCap::UpTo(5)),
            count.min(5),
            "{asked:?}"
        );
        if !self.rows.is_empty() {
            self.check_cursor(asked, chance.pick(self.rows), &expected);
        }
    }

    fn check_cursor(&self, asked: &Asked, row: &Known, expected: &[&Known]) {
        let query = |method: &str| {
            let cursor = format!(r#"{{"method":"{method}","values":["{}"]}}"#, row.id);
            asked.query(self.table, self.at, &[cursor])
        };
        let (after, before) = (query("cursorAfter"), query("cursorBefore"));
        if !asked.sees(row) {
            for query in [&after, &before] {
                let hidden = Err(StoreError::CursorNotFound { id: row.id.clone() });
                assert_eq!(self.list(query), hidden, "{asked:?}");
            }
            return;
        }
        // Keys after one that no two rows share take no part in the order.
        let attribute = |position: usize| &asked.order[position].0;
        let has_null = (0..after.order.len())
            .any(|position| row.value(self.table, attribute(position)) == Value::Null);
        if has_null {
            let refused = Err(StoreError::CursorNull { id: row.id.clone() });
            assert_eq!(self.list(&after), refused, "{asked:?}");
            return;
        }
        let compare = |known: &Known| oracle::order(self.table, &asked.order, known, row);
        let beyond = |side: Ordering| -> Vec<&Known> {
            expected
                .iter()
                .copied()
                .filter(|known| compare(known) == side)
                .collect()
        };
        let (left, right) = (beyond(Ordering::Less), beyond(Ordering::Greater));
        let page = &right[..right.len().min(asked.limit)];
        self.check_rows(asked, &self.list(&after).unwrap(), page);
        let page = &left[left.len().saturating_sub(asked.limit)..];
        self.check_rows(asked, &self.list(&before).unwrap(), page);
    }
}

fn views(world: &World) -> Vec<View<'_>> {
    let view = |stage: &'_ Stage, position: usize, at| View {
        world,
        table: &world.tables[position],
        rows: world.stages[world
            .stages
            .iter()
            .position(|s| s.mark == stage.mark)
            .unwrap()]
        .rows[position]
            .as_slice(),
        at,
    };
    let now = world.now();
    let mut views: Vec<View<'_>> = (0..2).map(|position| view(now, position, None)).collect();
    for stage in &world.stages {
        views.extend((0..2).map(|position| view(stage, position, Some(stage.coordinates()))));
    }
    views
}

#[test]
fn lists_hold_what_the_oracle_says_now_and_at_every_stage() {
    for seed in 0..2 {
        let world = World::new(seed, 120);
        let mut chance = Chance::new(seed + 100);
        for view in views(&world) {
            for _ in 0..60 {
                let asked = random_asked(&mut chance, view.rows, view.table);
                view.check(&mut chance, &asked);
            }
        }
    }
}

#[test]
fn points_hold_what_the_oracle_says_now_and_at_every_stage() {
    let world = World::new(7, 40);
    let visible = Visibility::Granted(Arc::new(RoleSet::new(vec![Role::parse("any").unwrap()])));
    for view in views(&world) {
        let get = |id: &str, visibility: &Visibility, selection: &Selection| {
            let point = Point {
                table: view.table,
                id: &db::row_id(id),
                selection,
                visibility,
                at: view.at,
                shows_span: false,
                catalogue_epoch: world.db.catalogue.epoch,
            };
            block_on(world.db.store.get(point)).unwrap()
        };
        let some = Selection::Some {
            columns: vec![3, 6],
            fields: Vec::new(),
            permissions: false,
        };
        for number in 0..45 {
            let id = format!("r{number}");
            let known = view.rows.iter().find(|row| row.id.as_str() == id);
            let snapshot = get(&id, &Visibility::Everything, &Selection::All);
            assert_eq!(snapshot.mark, world.now().mark);
            assert_eq!(
                snapshot.answer.is_some(),
                known.is_some(),
                "{id} at {:?}",
                view.at
            );
            let seen = get(&id, &visible, &some).answer;
            let expected = known.filter(|row| row.role == "any");
            assert_eq!(seen.is_some(), expected.is_some(), "{id} at {:?}", view.at);
            let (Some(row), Some(known)) = (snapshot.answer, known) else {
                continue;
            };
            db::assert_holds(&row, view.table, &known.values);
            assert_eq!((row.seq, row.updated), (known.seq, known.updated));
            if let Some(seen) = seen {
                let values = vec![known.values[3].clone(), known.values[6].clone()];
                assert_eq!(seen.content, Content::Values(values));
            }
        }
    }
}

#[test]
fn bodies_of_an_older_schema_are_encoded_anew() {
    let world = World::new(8, 40);
    let file = world.directory.0.path().join("data/tidemark.db");
    let connection = rusqlite::Connection::open(file).unwrap();
    let now = query::names::now(world.tables[0].number);
    let sql = format!("UPDATE {now} SET body = 'wrong', body_epoch = body_epoch - 1");
    assert!(connection.execute(&sql, ()).unwrap() > 10);
    let mut chance = Chance::new(8);
    let view = &views(&world)[0];
    let asked = Asked {
        order: vec![("price".into(), true)],
        ..Asked::everything(1_000)
    };
    view.check(&mut chance, &asked);
}

#[test]
fn a_cursor_that_is_not_there_is_named() {
    let world = World::new(9, 40);
    let asked = Asked::everything(5);
    let cursor = r#"{"method":"cursorAfter","values":["nobody"]}"#.to_owned();
    for view in views(&world) {
        let query = asked.query(view.table, view.at, std::slice::from_ref(&cursor));
        let id = db::row_id("nobody");
        assert_eq!(view.list(&query), Err(StoreError::CursorNotFound { id }));
    }
}

#[test]
fn a_read_under_another_catalogue_is_noticed() {
    let mut world = World::new(10, 20);
    let table = world.tables[0].clone();
    let query = Asked {
        order: vec![("price".into(), false)],
        ..Asked::everything(5)
    }
    .query(&table, None, &[]);
    let old = world.db.catalogue.epoch;
    let read = |world: &World, catalogue_epoch: u64| {
        let listing = db::listing(&query, catalogue_epoch);
        let listed = block_on(world.db.store.list(listing)).map(|_| ());
        let point = Point {
            table: &table,
            id: &db::row_id("r1"),
            selection: &Selection::All,
            visibility: &Visibility::Everything,
            at: None,
            shows_span: false,
            catalogue_epoch,
        };
        (listed, block_on(world.db.store.get(point)).map(|_| ()))
    };
    assert_eq!(read(&world, old), (Ok(()), Ok(())));
    world
        .db
        .ok(vec![Op::Catalogue(db::delete_table("indexed"))]);
    let moved = || Err(StoreError::CatalogueMoved);
    assert_eq!(read(&world, old), (moved(), moved()));
    while block_on(world.db.store.run_upkeep()).unwrap() {}
    // Now the physical table is gone, too: what was prepared for it finds nothing.
    assert_eq!(read(&world, old), (moved(), moved()));
    assert_eq!(read(&world, world.db.catalogue.epoch), (moved(), moved()));
}

#[test]
fn a_read_past_its_limit_is_stopped_and_the_next_one_runs() {
    let world = World::new(11, 400);
    let World {
        db,
        tables,
        directory,
        ..
    } = world;
    let epoch = db.catalogue.epoch;
    db.close();
    // No time at all: the first look at the clock stops the read.
    let hurried = Directory(directory.0, 0);
    let db = db::Db::open(&hurried);
    // Long enough for several looks: each of some hundred rows is asked for fifty parts.
    let parts = (0..50)
        .map(|number| Value::Text(format!("part {number}")))
        .collect();
    let filters = vec![Ask::Test("contains", "name".into(), parts)];
    let asked = Asked {
        filters,
        ..Asked::everything(5)
    };
    let query = asked.query(&tables[1], None, &[]);
    for _ in 0..2 {
        let total = Some(TotalCap::None);
        let listing = Listing {
            total,
            ..db::listing(&query, epoch)
        };
        let stopped = block_on(db.store.list(listing)).map(|_| ());
        assert_eq!(stopped, Err(StoreError::Timeout { limit_ms: 0 }));
        let point = Point {
            table: &tables[1],
            id: &db::row_id("r1"),
            selection: &Selection::All,
            visibility: &Visibility::Everything,
            at: None,
            shows_span: false,
            catalogue_epoch: epoch,
        };
        assert!(block_on(db.store.get(point)).unwrap().answer.is_some());
    }
}

#[test]
fn each_thread_and_each_store_has_its_own_connection() {
    let worlds = [World::new(12, 20), World::new(13, 40)];
    let count = |world: &World| {
        let view = &views(world)[0];
        let asked = Asked::everything(1_000);
        let found = view
            .list(&asked.query(view.table, None, &[]))
            .unwrap()
            .len();
        assert_eq!(found, view.rows.len());
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for world in worlds.iter().cycle().take(6) {
                    count(world);
                }
            });
        }
    });
    worlds.iter().for_each(count);
}

#[test]
fn a_row_is_absent_before_it_was_known_and_before_it_was_valid() {
    let world = World::new(14, 40);
    let first = &world.stages[0];
    let before = Mark(first.mark.0 - 60_000_000);
    for (valid, system) in [
        (before, first.mark),
        (first.mark, before),
        (Mark(i64::MIN), first.mark),
    ] {
        let at = Coordinates {
            valid: Timestamp(valid.0),
            system,
        };
        let view = View {
            world: &world,
            table: &world.tables[0],
            rows: &[],
            at: Some(at),
        };
        let asked = Asked::everything(10);
        view.check(&mut Chance::new(1), &asked);
    }
}

/// The largest queries that are not refused run: SQLite's own bounds on parameters, on the depth
/// of expressions and on the length of a statement lie beyond ours.
#[test]
fn the_largest_queries_run() {
    let world = World::new(15, 60);
    let view = &views(&world)[0];
    let numbers = |from: i64| (from..from + 500).map(Value::Int).collect::<Vec<_>>();
    let parts = |count: usize| -> Vec<Value> {
        (0..count)
            .map(|number| Value::Text(format!("{number:x}")))
            .collect()
    };
    let mut deep = Ask::Test("isNull", "name".into(), Vec::new());
    for level in 0..query::parse::NESTING_MAX {
        let other = Ask::Test("contains", "name".into(), parts(1));
        let asks = vec![other, deep];
        deep = if level % 2 == 0 {
            Ask::Or(asks)
        } else {
            Ask::And(asks)
        };
    }
    let every_key: Vec<Key> = ATTRIBUTES
        .iter()
        .map(|attribute| ((*attribute).to_owned(), true))
        .collect();
    let asked = |filters: Vec<Ask>, order: Vec<Key>| Asked {
        filters,
        order,
        ..Asked::everything(20)
    };
    let many = (0..20)
        .map(|from| Ask::Test("equal", "stock".into(), numbers(-from)))
        .collect();
    let tests = query::resolve::TESTS_TOTAL_MAX;
    let text = (0..4)
        .map(|_| Ask::Test("contains", "name".into(), parts(tests / 4)))
        .collect();
    let wide = (0..2)
        .map(|_| {
            Ask::Or(
                (0..tests / 2)
                    .map(|_| Ask::Test("isNull", "name".into(), vec![]))
                    .collect(),
            )
        })
        .collect();
    let flat = (0..tests)
        .map(|number| {
            let key = ["stock", "price", "name"][number % 3];
            Ask::Test("equal", key.into(), vec![domain(key)[number % 5].clone()])
        })
        .collect::<Vec<_>>();
    let flat = flat
        .chunks(50)
        .map(|asks| Ask::And(asks.to_vec()))
        .collect();
    for asked in [
        asked(flat, vec![("rating".into(), false)]),
        asked(many, vec![("price".into(), true)]),
        asked(text, every_key),
        asked(wide, vec![("price".into(), true)]),
        asked(
            vec![deep],
            vec![("stock".into(), false), ("price".into(), true)],
        ),
    ] {
        view.check(&mut Chance::new(1), &asked);
    }
}
