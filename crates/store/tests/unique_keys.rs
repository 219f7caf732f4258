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
    Coordinates, Direction, Field, IndexKind, IndexStatus, Mark, RoleSet, Selection, Table, Value,
};
use query::{Filter, Frame, Query, Test, Visibility, unique_key};
use store::{CatalogueOp, Listed, Listing, Op, Snapshot, StoreError, TotalCap};

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
    let file = directory.0.path().join("data/tidemark.db");
    let connection = rusqlite::Connection::open(file).unwrap();
    let sql = format!("UPDATE {now} SET body = 'old', body_epoch = body_epoch - 1 WHERE id = ?1");
    for id in ["r1", "r8"] {
        assert_eq!(connection.execute(&sql, [id]).unwrap(), 1);
    }
    db
}

fn is(position: usize, value: Value) -> Filter {
    Filter::Field(Field::Column(position), Test::In(vec![value]))
}

fn keys() -> Vec<Filter> {
    let texts = (0..13).map(|nth| Value::Text(format!("code t{nth}")));
    let others = ["", "code", "CODE T1", "code t1\0"].map(|text| Value::Text(text.to_owned()));
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
