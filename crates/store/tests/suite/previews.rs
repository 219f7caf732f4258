//! What would be if batches were committed, for those who look before they do.

use futures_executor::block_on;
use model::{Field, Row, Selection, Value};
use query::{Cursor, Filter, Pattern, Query, Side, Test, Visibility};
use store::{Listing, Point, Preview, Refusal, TotalCap, Trial, WriteBatch};
use testing::OwnTurn;

use super::db::{CODE, COUNT, Db, Place, TITLE, assert_holds, index_of, listing, note, row_id};

/// Longer than any of these takes.
const LIMIT_MS: u64 = 60_000;

fn trial(batches: Vec<WriteBatch>) -> Trial {
    Trial {
        batches,
        judges_end: true,
    }
}

fn preview<'a>(db: &'a Db, trials: &'a [Trial]) -> Box<dyn Preview + 'a> {
    block_on(db.store.preview(trials, db.next, LIMIT_MS)).unwrap()
}

fn listed(db: &Db, preview: &dyn Preview, query: &Query, total: TotalCap) -> (Vec<String>, u64) {
    let listed = block_on(preview.list(Listing {
        total: Some(total),
        ..listing(query, db.catalogue.epoch)
    }));
    let listed = listed.unwrap();
    let ids = listed.rows.iter().map(|row| row.id.to_string());
    (ids.collect(), listed.total)
}

fn got(db: &Db, preview: &dyn Preview, id: &str) -> Option<Row> {
    let found = block_on(preview.get(Point {
        table: &db.table(),
        id: &row_id(id),
        selection: &Selection::All,
        visibility: &Visibility::Everything,
        at: None,
        shows_span: false,
        catalogue_epoch: db.catalogue.epoch,
    }));
    found.unwrap()
}

fn last_before(db: &Db, id: &str) -> Query {
    Query {
        cursor: Some(Cursor {
            row: row_id(id),
            side: Side::Before,
            version: None,
        }),
        limit: 1,
        ..db.all()
    }
}

pub fn a_preview_shows_what_would_be_and_leaves_nothing(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    for id in ["a", "b", "c", "d"] {
        db.ok(vec![db.insert(id, note(id))]);
    }
    let (mark, table) = (db.load().mark, db.table());
    let mut changed = note("b");
    changed[COUNT] = Value::Int(70);
    // The last one meets a row that is new; a large row has no body.
    let large = "y".repeat(16_000);
    let trials = [
        trial(vec![
            db.batch(vec![db.insert("e", note("e"))]),
            db.batch(vec![db.update("b", vec![(COUNT, Value::Int(70))])]),
        ]),
        trial(vec![db.batch(vec![db.delete("c")])]),
        trial(vec![db.batch(vec![
            db.update("e", vec![(TITLE, Value::Text(large.clone()))]),
        ])]),
    ];
    {
        let preview = preview(&db, &trials);
        assert_eq!(preview.mark(), mark);
        assert_eq!(preview.outcomes().len(), 4);
        assert!(preview.outcomes().iter().all(Result::is_ok));
        let all = listed(&db, &*preview, &db.all(), TotalCap::None);
        let ids = |all: &[&str]| all.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        assert_eq!(all, (ids(&["a", "b", "d", "e"]), 4));
        let some = |filter: Filter| Query { filter, ..db.all() };
        let is_70 = some(Filter::Field(
            Field::Column(COUNT),
            Test::In(vec![Value::Int(70)]),
        ));
        assert_eq!(
            listed(&db, &*preview, &is_70, TotalCap::None),
            (ids(&["b"]), 1)
        );
        // What a database leaves to the Rust predicate.
        let pattern = Pattern::parse("^(?:code [a-e])$").unwrap();
        let matches = some(Filter::Field(Field::Column(CODE), Test::Matches(pattern)));
        let page = Query {
            offset: 1,
            limit: 2,
            ..matches.clone()
        };
        assert_eq!(
            listed(&db, &*preview, &page, TotalCap::None),
            (ids(&["b", "d"]), 4)
        );
        assert_eq!(listed(&db, &*preview, &page, TotalCap::UpTo(3)).1, 3);
        let before = listed(&db, &*preview, &last_before(&db, "d"), TotalCap::None);
        assert_eq!(before.0, ids(&["b"]));
        assert_holds(&got(&db, &*preview, "b").unwrap(), &table, &changed);
        let mut last = note("e");
        last[TITLE] = Value::Text(large);
        assert_holds(&got(&db, &*preview, "e").unwrap(), &table, &last);
        assert_eq!(got(&db, &*preview, "c"), None);
    }
    assert_eq!(db.ids(), ["a", "b", "c", "d"]);
    assert_eq!(db.load().mark, mark);
    db.ok(vec![db.insert("e", note("other"))]);
}

pub fn a_preview_leaves_out_what_a_commit_would_refuse(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    db.ok(vec![db.insert("a", note("one"))]);
    let trials = [
        trial(vec![
            db.batch(vec![db.insert("b", note("two"))]),
            db.batch(vec![db.insert("a", note("three"))]),
            db.batch(vec![db.insert("c", note("one"))]),
        ]),
        trial(vec![db.batch(vec![db.insert("d", note("two"))])]),
    ];
    let preview = preview(&db, &trials);
    let outcomes = preview.outcomes();
    assert!(outcomes[0].is_ok(), "{outcomes:?}");
    assert_eq!(
        outcomes[1].clone().unwrap_err(),
        Refusal::RowExists(row_id("a"))
    );
    for clash in [2, 3] {
        let refusal = outcomes[clash].clone().unwrap_err();
        assert_eq!(index_of(refusal), "by_code");
    }
    let (ids, total) = listed(&db, &*preview, &db.all(), TotalCap::None);
    assert_eq!((ids, total), (vec!["a".to_owned(), "b".to_owned()], 2));
}
