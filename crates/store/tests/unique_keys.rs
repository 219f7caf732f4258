//! Lists by a key of a unique index, which are read as points are: what they hold is what the same
//! lists hold that are read as any other.

#[path = "suite/db.rs"]
#[allow(dead_code, reason = "written for the conformance suite, too")]
mod db;

use std::sync::Arc;

use db::{COUNT, Db, Directory, TITLE};
use futures_executor::block_on;
use model::permission::Role;
use model::{
    Coordinates, Direction, Field, Index, IndexKind, IndexStatus, Mark, RoleSet, Row, RowId,
    Selection, Table, Value,
};
use query::{Filter, Frame, Query, Test, Visibility, unique_key};
use store::{
    CatalogueOp, Listed, Listing, Op, Point, PointKeys, Points, Snapshot, StoreError, TotalCap,
};

const CODE: usize = db::CODE;
const DONE: usize = 3;

/// Its unique indexes: `code`, and `count` with `done`; and one over the beginnings of `code`.
fn table() -> Table {
    let mut table = db::notes();
    let pair = [(COUNT, Direction::Asc), (DONE, Direction::Desc)];
    table
        .indexes
        .push(db::index(3, "pair", IndexKind::Unique, &pair));
    let mut beginnings = db::index(4, "begin", IndexKind::Key, &[(CODE, Direction::Asc)]);
    beginnings.columns[0].held = Some(3);
    table.indexes.push(beginnings);
    table
}

fn note(title: &str, count: i64, done: bool) -> Vec<Value> {
    let mut values = db::note(title);
    (values[COUNT], values[DONE]) = (Value::Int(count), Value::Bool(done));
    values
}

/// Twelve rows with two of each count; one is open to all, one is gone, two have swapped their
/// codes, one has none, and the bodies of two are of an older schema.
fn filled(directory: &Directory) -> Db {
    let mut db = Db::open(directory);
    db.ok(vec![Op::Catalogue(db::create_project(db::PROJECT))]);
    db.ok(vec![Op::Catalogue(db::create_database(db::DATABASE))]);
    let table = Box::new(table());
    db.ok(vec![Op::Catalogue(CatalogueOp::CreateTable(table))]);
    for nth in 0..12 {
        let values = note(&format!("t{nth}"), nth / 2, nth % 2 == 0);
        let id = format!("r{nth}");
        let insert = match nth {
            3 => db.insert_granted(&id, values, &["read(\"any\")"]),
            _ => db.insert(&id, values),
        };
        db.ok(vec![insert]);
    }
    let gone = db.delete("r5");
    db.ok(vec![gone]);
    let code = |text: &str| vec![(CODE, Value::Text(text.to_owned()))];
    let swap = vec![
        db.update("r1", code("code t2")),
        db.update("r2", code("code t1")),
    ];
    db.ok(swap);
    let none = db.update("r4", vec![(CODE, Value::Null), (COUNT, Value::Null)]);
    db.ok(vec![none]);
    let now = query::names::now(db.table().number);
    let stale = "SET body = 'old', body_epoch = body_epoch - 1 WHERE id IN ('r1', 'r8')";
    let ids = directory.run_sql(&[&format!("UPDATE {now} {stale} RETURNING id")]);
    assert_eq!(ids.len(), 2);
    db
}

fn is(position: usize, value: Value) -> Filter {
    Filter::Field(Field::Column(position), Test::In(vec![value]))
}

fn keys() -> Vec<Filter> {
    let texts = (0..13).map(|nth| Value::Text(format!("code t{nth}")));
    let others = ["", "code", "CODE T1", "code t1\u{1}"].map(|text| Value::Text(text.to_owned()));
    let codes = texts.chain(others);
    let mut keys: Vec<Filter> = codes.map(|code| is(CODE, code)).collect();
    for count in -1..7 {
        for done in [true, false] {
            let (count, done) = (is(COUNT, Value::Int(count)), is(DONE, Value::Bool(done)));
            // In the order of the index, and in the other one.
            keys.push(Filter::All(vec![count.clone(), done.clone()]));
            keys.push(Filter::All(vec![done, count]));
        }
    }
    keys
}

fn list(db: &Db, listing: Listing<'_>) -> Result<Snapshot<Listed>, StoreError> {
    block_on(db.store.list(listing))
}

/// The same query with a test that every row passes.
fn read_as_others(query: &Query) -> Query {
    let all = Filter::Field(Field::Id, Test::IsNotNull);
    Query {
        filter: Filter::All(vec![query.filter.clone(), all]),
        ..query.clone()
    }
}

#[test]
fn lists_by_a_key_hold_what_the_same_lists_hold_without_it() {
    let directory = Directory::new();
    let db = filled(&directory);
    let any = Visibility::Granted(Arc::new(RoleSet::new(vec![Role::parse("any").unwrap()])));
    let some = Selection::Some {
        columns: vec![TITLE, CODE],
        fields: Vec::new(),
        permissions: false,
    };
    let mut found = 0;
    for filter in keys() {
        for visibility in [Visibility::Everything, any.clone()] {
            for selection in [Selection::All, some.clone()] {
                for limit in [1, 2, 25] {
                    let query = Query {
                        filter: filter.clone(),
                        visibility: visibility.clone(),
                        selection: selection.clone(),
                        limit,
                        ..db.all()
                    };
                    assert!(unique_key(&query).is_some(), "{filter:?}");
                    found += compare(&db, &query);
                }
            }
        }
    }
    // Of codes and pairs, which come twice: nine and ten rows, one of them for all.
    assert_eq!(found, (10 + 1 + 2 * (10 + 1)) * 6);
}

/// Rows by many keys are those by each of them, whatever their number, and all in their order.
#[test]
fn rows_by_many_keys_are_those_by_each_key() {
    let directory = Directory::new();
    let db = filled(&directory);
    let any = Visibility::Granted(Arc::new(RoleSet::new(vec![Role::parse("any").unwrap()])));
    let some = Selection::Some {
        columns: vec![TITLE, CODE],
        fields: Vec::new(),
        permissions: false,
    };
    let text = |nth| Value::Text(format!("code t{}", (nth * 7) % 14));
    let codes: Vec<Vec<Value>> = (0..300).map(|nth| vec![text(nth)]).collect();
    let pair = |nth: i64| vec![Value::Int(nth % 8 - 1), Value::Bool(nth % 3 == 0)];
    let pairs: Vec<Vec<Value>> = (0..300).map(pair).collect();
    let ids: Vec<RowId> = (0..300)
        .map(|nth| RowId::new(&format!("r{}", (nth * 5) % 14)).unwrap())
        .collect();
    let ids: Vec<&RowId> = ids.iter().collect();
    let table = db.table().clone();
    let named = |key: &str| {
        let mut indexes = table.indexes.iter();
        indexes.find(|index| index.key.as_str() == key).unwrap()
    };
    for visibility in [Visibility::Everything, any] {
        for selection in [Selection::All, some.clone()] {
            for count in [1, 2, 3, 14, 127, 128, 300] {
                let seen = (&visibility, &selection);
                let of_codes = PointKeys::Of(unique_on(&table, CODE), &codes[..count]);
                let of_pairs = PointKeys::Of(named("pair"), &pairs[..count]);
                for keys in [PointKeys::Ids(&ids[..count]), of_codes, of_pairs] {
                    assert_eq!(together(&db, seen, keys), one_by_one(&db, seen, keys));
                }
            }
        }
    }
}

/// The unique index on this column alone.
fn unique_on(table: &Table, position: usize) -> &Index {
    let is_it = |index: &&Index| {
        let fields: Vec<Field> = index.columns.iter().map(|part| part.field).collect();
        index.kind == IndexKind::Unique && fields == [Field::Column(position)]
    };
    table.indexes.iter().find(is_it).unwrap()
}

type Seen<'a> = (&'a Visibility, &'a Selection);

fn after(keys: PointKeys<'_>, count: usize) -> PointKeys<'_> {
    match keys {
        PointKeys::Ids(ids) => PointKeys::Ids(&ids[count..]),
        PointKeys::Of(index, keys) => PointKeys::Of(index, &keys[count..]),
    }
}

fn points(db: &Db, seen: Seen<'_>, keys: PointKeys<'_>, bytes_enough: usize) -> Vec<Option<Row>> {
    let (visibility, selection) = seen;
    let read = db.store.at_once().unwrap().points_at_once(Points {
        table: &db.table(),
        keys,
        selection,
        visibility,
        bytes_enough,
        catalogue_epoch: db.catalogue.epoch,
    });
    read.unwrap().answer
}

fn together(db: &Db, seen: Seen<'_>, keys: PointKeys<'_>) -> Vec<Option<Row>> {
    let mut rows = Vec::new();
    while rows.len() < keys.len() {
        let read = points(db, seen, after(keys, rows.len()), usize::MAX);
        assert!(read.len() == (keys.len() - rows.len()).min(128));
        rows.extend(read);
    }
    rows
}

fn one_by_one(db: &Db, seen: Seen<'_>, keys: PointKeys<'_>) -> Vec<Option<Row>> {
    let (visibility, selection) = seen;
    let by_id = |id: &RowId| {
        let point = Point {
            table: &db.table(),
            id,
            selection,
            visibility,
            at: None,
            shows_span: false,
            catalogue_epoch: db.catalogue.epoch,
        };
        block_on(db.store.get(point)).unwrap().answer
    };
    let by_key = |index: &Index, key: &Vec<Value>| {
        let tests = index.columns.iter().zip(key);
        let tests = tests
            .map(|(part, value)| Filter::Field(part.field, Test::In(vec![value.clone()])))
            .collect();
        let query = Query {
            filter: Filter::All(tests),
            visibility: visibility.clone(),
            selection: selection.clone(),
            limit: 1,
            ..db.all()
        };
        let listed = list(db, db::listing(&query, db.catalogue.epoch)).unwrap();
        listed.answer.rows.into_iter().next()
    };
    match keys {
        PointKeys::Ids(ids) => ids.iter().map(|id| by_id(id)).collect(),
        PointKeys::Of(index, keys) => keys.iter().map(|key| by_key(index, key)).collect(),
    }
}

/// A caller that has enough reads on with the next key.
#[test]
fn rows_by_many_keys_end_where_their_bytes_are_enough() {
    let directory = Directory::new();
    let db = filled(&directory);
    let ids: Vec<RowId> = (0..12)
        .map(|nth| RowId::new(&format!("r{nth}")).unwrap())
        .collect();
    let ids: Vec<&RowId> = ids.iter().collect();
    let seen = (&Visibility::Everything, &Selection::All);
    let all = points(&db, seen, PointKeys::Ids(&ids), usize::MAX);
    let bytes = |rows: &[Option<Row>]| rows.iter().flatten().map(Row::size_bytes).sum::<usize>();
    for enough in [0, 1, bytes(&all[..3]), bytes(&all[..3]) + 1, bytes(&all)] {
        let some = points(&db, seen, PointKeys::Ids(&ids), enough);
        assert_eq!(some, all[..some.len()]);
        let is_least = bytes(&some[..some.len() - 1]) < enough || some.len() == 1;
        assert!(is_least && bytes(&some) >= enough, "{enough}");
    }
}

/// Each row is sought by the index, whichever keys come first.
#[test]
fn rows_by_many_keys_are_found_by_their_index() {
    let directory = Directory::new();
    let db = filled(&directory);
    let table = db.table().clone();
    let file = directory.0.path().join("data/tidemark.db");
    let connection = rusqlite::Connection::open(file).unwrap();
    for index in [None, Some(unique_on(&table, CODE))] {
        let keys = (0..100).map(|nth| vec![Value::Text(format!("k{nth}"))]);
        let seen = (&Selection::All, &Visibility::Everything);
        let statement = query::emit::points((&table, index), keys, seen.0, seen.1);
        let sql = format!("EXPLAIN QUERY PLAN {}", statement.sql);
        let mut prepared = connection.prepare(&sql).unwrap();
        let steps = prepared.raw_query().mapped(|row| row.get::<_, String>(3));
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        let sought: Vec<&String> = steps
            .iter()
            .filter(|step| step.starts_with("SEARCH t"))
            .collect();
        assert!(
            sought.len() == 1 && sought[0].contains("INDEX"),
            "{steps:?}"
        );
    }
}

/// How many rows it has.
fn compare(db: &Db, query: &Query) -> usize {
    let other = read_as_others(query);
    assert_eq!(unique_key(&other), None);
    let epoch = db.catalogue.epoch;
    let mut found = 0;
    for (total, place) in [
        (None, false),
        (Some(TotalCap::None), true),
        (Some(TotalCap::UpTo(1)), false),
    ] {
        for bytes_max in [usize::MAX, 3] {
            for catalogue_epoch in [epoch, epoch + 1] {
                let listing = |query| Listing {
                    total,
                    place,
                    bytes_max,
                    catalogue_epoch,
                    ..db::listing(query, epoch)
                };
                let by_key = list(db, listing(query));
                let as_others = list(db, listing(&other));
                let parts = |snapshot: Snapshot<Listed>| {
                    let Listed {
                        rows,
                        total,
                        last_place,
                        scanned,
                    } = snapshot.answer;
                    (rows, total, last_place, scanned, snapshot.mark)
                };
                let by_key = by_key.map(parts);
                found = by_key.as_ref().map_or(found, |(rows, ..)| rows.len());
                assert_eq!(by_key, as_others.map(parts), "{query:?}");
            }
        }
    }
    found
}

#[test]
fn no_other_query_is_read_by_a_key() {
    let directory = Directory::new();
    let mut db = Db::open(&directory);
    db.ok(vec![Op::Catalogue(db::create_project(db::PROJECT))]);
    db.ok(vec![Op::Catalogue(db::create_database(db::DATABASE))]);
    let table = Box::new(table());
    db.ok(vec![Op::Catalogue(CatalogueOp::CreateTable(table))]);
    let text = |text: &str| Value::Text(text.to_owned());
    let by_code = Query {
        filter: is(CODE, text("a")),
        ..db.all()
    };
    assert!(unique_key(&by_code).is_some());
    let with = |change: &dyn Fn(&mut Query)| {
        let mut query = by_code.clone();
        change(&mut query);
        query
    };
    let (mark, now) = (Mark(1), Mark(1).timestamp());
    let at = Coordinates {
        valid: now,
        system: mark,
    };
    for query in [
        with(&|query| query.filter = is(TITLE, text("a"))),
        with(&|query| query.filter = is(COUNT, Value::Int(1))),
        with(&|query| query.filter = is(CODE, Value::Null)),
        with(&|query| query.filter = Filter::All(Vec::new())),
        with(&|query| query.filter = Filter::All(vec![is(CODE, text("a")); 2])),
        with(&|query| query.filter = Filter::Any(vec![is(CODE, text("a"))])),
        with(&|query| {
            let values = vec![text("a"), text("b")];
            query.filter = Filter::Field(Field::Column(CODE), Test::In(values));
        }),
        with(&|query| {
            query.filter = Filter::Field(Field::Column(CODE), Test::LessEqual(text("a")));
        }),
        with(&|query| query.offset = 1),
        with(&|query| query.at = Some(at)),
        with(&|query| query.frame = Frame::Due(now)),
        with(&|query| query.shows_span = true),
        with(&|query| {
            let table = Arc::make_mut(&mut query.table);
            table.indexes[1].status = IndexStatus::Processing;
        }),
        with(&|query| {
            let table = Arc::make_mut(&mut query.table);
            table.indexes[1].kind = IndexKind::Key;
        }),
    ] {
        assert_eq!(unique_key(&query), None, "{query:?}");
    }
}
