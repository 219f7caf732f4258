//! Erased means gone: no byte of a row is left in the data directory.

mod suite;

use std::sync::Arc;

use model::history::Range;
use model::{IndexKind, Timestamp, Value};
use store::{Durability, Op, Options, RowAct, RowOp, SchemaChange, Store, WriteBatch};
use suite::db::{CODE, Db, Directory, Place, TITLE, index, note, options, row_id};
use suite::schema::change;
use testing::traces;

const SECRET: &str = "quicksilver";

struct Durable(Directory);

impl Place for Durable {
    fn open(&self) -> Arc<dyn Store> {
        self.0.open_with(Options {
            durability: Durability::Full,
            ..options(&self.0.data())
        })
    }
}

fn timed(db: &Db, id: &str, range: Range, act: RowAct) -> Op {
    Op::Row(RowOp::over(db.table(), row_id(id), range, act).literal())
}

#[test]
fn no_byte_of_an_erased_row_is_left() {
    let place = Durable(Directory::new());
    let mut db = Db::with_notes(&place);
    let words = index(
        9,
        "words",
        IndexKind::Fulltext,
        &[(TITLE, model::Direction::Asc)],
    );
    change(&mut db, SchemaChange::AddIndex(words));
    for number in 0..200 {
        db.ok(vec![db.insert(
            &format!("r{number}"),
            note(&format!("plain {number}")),
        )]);
    }
    let mut values = note("kept");
    values[TITLE] = Value::Text(format!("{SECRET} and more"));
    values[CODE] = Value::Text(format!("code {SECRET}"));
    let first = db.mark_of(db.insert("quicksilver-id", values.clone()));
    values[TITLE] = Value::Text(format!("again {SECRET}"));
    db.ok(vec![db.update(
        "quicksilver-id",
        vec![(TITLE, values[TITLE].clone())],
    )]);
    let later = Range {
        from: Some(Timestamp(first.0 + 3_600_000_000)),
        ..Range::default()
    };
    let put = RowAct::Replace {
        values,
        permissions: None,
        guard: store::Guard::Open,
    };
    db.ok(vec![timed(&db, "quicksilver-id", later, put)]);
    db.close();
    let files_with_secret = || traces(place.0.0.path(), SECRET);
    assert!(!files_with_secret().is_empty(), "the secret was stored");
    let mut db = Db::open(&place);
    let batch = WriteBatch {
        noted_in: Some(7),
        ..db.batch(vec![timed(
            &db,
            "quicksilver-id",
            Range::default(),
            RowAct::Erase,
        )])
    };
    let erased = db.commit(&[batch]).remove(0).unwrap();
    assert!(erased.timed[0].is_affected);
    let mark = erased.mark.unwrap();
    assert!(db.get("quicksilver-id").is_none());
    assert!(db.get_as_of("quicksilver-id", first).is_none());
    let recorded = futures_executor::block_on(db.store.recorded(store::RecordsOf {
        after: model::Mark(mark.0 - 1),
        upto: mark,
        limit: 1,
        database: 7,
        tables: vec![db.table().number],
        changed: None,
        filter: None,
    }));
    let recorded = recorded.unwrap().remove(0);
    assert_eq!((recorded.erased, recorded.rows), (Some(1), Vec::new()));
    // The id may be used again, and is a new row then.
    db.ok(vec![db.insert("r200", note("plain 200"))]);
    db.close();
    assert_eq!(files_with_secret(), Vec::<String>::new());
}
