//! Operations on all rows that match, on rows that may have moved, and operators.

use futures_executor::block_on;
use model::{Direction, Edit, Field, ModelError, Operator, Patch, RowId, Timestamp, Value};
use query::{Cursor, Filter, OrderKey, Query, Side, Test};
use store::{
    Changes, Guard, MatchingAct, MatchingOp, Op, Outcome, Refusal, RowAct, Stamps, StoreError,
    WriteBatch,
};

use super::db::{
    CODE, COUNT, Db, Place, TAGS, TITLE, adding, assert_holds, index_of, note, row_id,
};
use testing::OwnTurn;

/// Rows `r0`, `r1` … with the counts 0, 1 …
fn with_counts(place: &dyn Place, rows: i64) -> Db {
    let mut db = Db::with_notes(place);
    for n in 0..rows {
        db.ok(vec![db.insert(&format!("r{n}"), counted(n))]);
    }
    db
}

fn counted(n: i64) -> Vec<Value> {
    let mut values = note(&n.to_string());
    values[COUNT] = Value::Int(n);
    values
}

fn counts(db: &Db) -> Vec<(String, i64)> {
    let rows = db.list(&db.all()).rows;
    let count = |row: &model::Row| {
        let model::Content::Body(body) = &row.content else {
            panic!("whole rows come as bodies")
        };
        let text = String::from_utf8(body.to_vec()).unwrap();
        let count = text.split("Int(").nth(1).unwrap();
        count.split(')').next().unwrap().parse().unwrap()
    };
    rows.iter()
        .map(|row| (row.id.to_string(), count(row)))
        .collect()
}

fn where_count(db: &Db, test: Test) -> Query {
    Query {
        filter: Filter::Field(Field::Column(COUNT), test),
        ..db.all()
    }
}

fn by_count(query: Query, limit: u32) -> Query {
    Query {
        order: vec![OrderKey {
            field: Field::Column(COUNT),
            direction: Direction::Desc,
        }],
        limit,
        ..query
    }
}

fn matching(query: Query, act: MatchingAct) -> MatchingOp {
    MatchingOp {
        query,
        may_leave_rows: true,
        walks: false,
        bytes_max: None,
        tells_end: false,
        act,
        rows_returned_max: 2,
    }
}

fn op(query: Query, act: MatchingAct) -> Op {
    Op::Matching(Box::new(matching(query, act)))
}

fn set(patch: impl Into<Patch>) -> MatchingAct {
    MatchingAct::Update {
        patch: patch.into(),
        permissions: None,
        stamps: Stamps::default(),
        range: None,
    }
}

fn set_count(n: i64) -> MatchingAct {
    set(vec![(COUNT, Value::Int(n))])
}

fn ids_of(rows: &[model::Row]) -> Vec<&str> {
    rows.iter().map(|row| row.id.as_str()).collect()
}

pub fn all_that_match_are_changed_at_one_mark(place: &dyn Place) {
    let mut db = with_counts(place, 6);
    let before = db.load().mark;
    let query = where_count(&db, Test::GreaterEqual(Value::Int(2)));
    let applied = db.ok(vec![op(query, set_count(100))]);
    let matched = &applied.matched[0];
    assert_eq!((matched.count, matched.last_seq), (4, Some(6)));
    assert_eq!(ids_of(&matched.rows), ["r2", "r3"]);
    let mut expected = counted(2);
    expected[COUNT] = Value::Int(100);
    assert_holds(&matched.rows[0], &db.table(), &expected);
    assert!(applied.rows.is_empty());
    let Changes::Images(changes) = &applied.changes else {
        panic!("four rows have images");
    };
    assert_eq!(changes.len(), 4);
    assert_eq!(changes[3].before.as_ref().unwrap().values, counted(5));
    let after: Vec<i64> = counts(&db).into_iter().map(|(_, count)| count).collect();
    assert_eq!(after, [0, 1, 100, 100, 100, 100]);
    // The versions of before stay.
    assert_holds(
        &db.get_as_of("r5", before).unwrap(),
        &db.table(),
        &counted(5),
    );
}

pub fn what_matches_nothing_or_changes_nothing_takes_no_mark(place: &dyn Place) {
    let mut db = with_counts(place, 3);
    let nobody = where_count(&db, Test::Greater(Value::Int(9)));
    let applied = db.ok(vec![op(nobody, set_count(1))]);
    assert_eq!((applied.mark, applied.matched[0].count), (None, 0));
    assert_eq!(applied.matched[0].last_seq, None);
    let second = where_count(&db, Test::In(vec![Value::Int(1)]));
    let applied = db.ok(vec![op(second, set_count(1))]);
    assert_eq!((applied.mark, applied.matched[0].count), (None, 1));
    assert_eq!(ids_of(&applied.matched[0].rows), ["r1"]);
}

pub fn matches_are_found_when_the_batch_runs(place: &dyn Place) {
    let mut db = with_counts(place, 4);
    // Found by a reader, then changed by a neighbour of the same group.
    let query = where_count(&db, Test::GreaterEqual(Value::Int(2)));
    let batches = [
        db.batch(vec![
            db.update("r3", vec![(COUNT, Value::Int(0))]),
            db.update("r0", vec![(COUNT, Value::Int(7))]),
            db.delete("r2"),
        ]),
        db.batch(vec![op(query, MatchingAct::Delete { range: None })]),
    ];
    let outcomes = db.commit(&batches);
    let matched = &outcomes[1].as_ref().unwrap().matched[0];
    assert_eq!(ids_of(&matched.rows), ["r0"]);
    assert_eq!(db.ids(), ["r1", "r3"]);
}

pub fn order_limit_offset_and_cursor_choose_the_rows(place: &dyn Place) {
    let mut db = with_counts(place, 6);
    let mut query = by_count(db.all(), 2);
    query.offset = 1;
    let applied = db.ok(vec![op(query.clone(), MatchingAct::Delete { range: None })]);
    assert_eq!(ids_of(&applied.matched[0].rows), ["r4", "r3"]);
    (query.offset, query.limit) = (0, 1);
    for (side, expected) in [(Side::After, "r1"), (Side::Before, "r5")] {
        query.cursor = Some(Cursor {
            row: row_id("r2"),
            version: None,
            side,
        });
        let applied = db.ok(vec![op(query.clone(), MatchingAct::Delete { range: None })]);
        assert_eq!(ids_of(&applied.matched[0].rows), [expected]);
    }
    query.cursor = Some(Cursor {
        row: row_id("r5"),
        version: None,
        side: Side::After,
    });
    let gone = Refusal::CursorNotFound(row_id("r5"));
    assert_eq!(
        db.refused(vec![op(query, MatchingAct::Delete { range: None })]),
        gone
    );
    db.ok(vec![db.update("r0", vec![(COUNT, Value::Null)])]);
    let mut query = by_count(db.all(), 1);
    query.cursor = Some(Cursor {
        row: row_id("r0"),
        version: None,
        side: Side::After,
    });
    let null = Refusal::CursorNull(row_id("r0"));
    assert_eq!(
        db.refused(vec![op(query, MatchingAct::Delete { range: None })]),
        null
    );
    assert_eq!(db.ids(), ["r0", "r2"]);
}

pub fn more_matches_than_may_be_left_are_refused(place: &dyn Place) {
    let mut db = with_counts(place, 3);
    let whole = |query| {
        Op::Matching(Box::new(MatchingOp {
            may_leave_rows: false,
            walks: false,
            ..matching(query, MatchingAct::Delete { range: None })
        }))
    };
    let two = by_count(db.all(), 2);
    let refusal = db.refused(vec![whole(two)]);
    assert_eq!(refusal, Refusal::TooManyRows { rows_max: 2 });
    assert_eq!(db.ids().len(), 3);
    let three = by_count(db.all(), 3);
    assert_eq!(db.ok(vec![whole(three)]).matched[0].count, 3);
}

pub fn the_searches_of_a_batch_find_so_many_rows_together(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let rows = (0..5_000).map(|n| db.insert(&format!("r{n}"), counted(n)));
    db.ok(rows.collect());
    let all = |n| op(by_count(db.all(), 10_000), set_count(n));
    let twice = vec![all(1), all(2)];
    let none = vec![op(
        where_count(&db, Test::Less(Value::Int(0))),
        set_count(4),
    )];
    let applied = db.ok([twice.clone(), none].concat());
    assert_eq!(
        applied.matched.iter().map(|of| of.count).sum::<usize>(),
        10_000
    );
    // The rows are the same ones, and have the values already.
    let once_more = op(by_count(db.all(), 1), set_count(2));
    let refusal = db.refused([twice, vec![once_more]].concat());
    assert_eq!(refusal, Refusal::TooManyRows { rows_max: 10_000 });
}

pub fn a_change_that_moves_rows_meets_each_once(place: &dyn Place) {
    let mut db = with_counts(place, 20);
    // Each row climbs past the next ones in the very order in which rows are found.
    let mut query = by_count(where_count(&db, Test::Less(Value::Int(50))), 100);
    query.order[0].direction = Direction::Asc;
    let applied = db.ok(vec![op(query, set(adding(7)))]);
    assert_eq!(applied.matched[0].count, 20);
    let expected: Vec<i64> = (7..27).collect();
    let found: Vec<i64> = counts(&db).into_iter().map(|(_, count)| count).collect();
    assert_eq!(found, expected);
}

pub fn one_row_that_cannot_be_changed_stops_all(place: &dyn Place) {
    let mut db = with_counts(place, 3);
    let same_code = set(vec![(CODE, Value::Text("one".into()))]);
    assert_eq!(
        index_of(db.refused(vec![op(db.all(), same_code)])),
        "by_code"
    );
    let too_far = set(adding(i64::MAX));
    let refusal = db.refused(vec![op(db.all(), too_far)]);
    assert!(matches!(
        refusal,
        Refusal::Invalid(ModelError::InvalidValue { .. })
    ));
    let found: Vec<i64> = counts(&db).into_iter().map(|(_, count)| count).collect();
    assert_eq!(found, [0, 1, 2]);
}

pub fn deleted_matches_are_reported_as_they_were(place: &dyn Place) {
    let mut db = with_counts(place, 3);
    let before = db.load().mark;
    let applied = db.ok(vec![op(db.all(), MatchingAct::Delete { range: None })]);
    let matched = &applied.matched[0];
    assert_eq!((matched.count, matched.rows.len()), (3, 2));
    assert_holds(&matched.rows[1], &db.table(), &counted(1));
    assert!(db.ids().is_empty());
    assert_holds(
        &db.get_as_of("r1", before).unwrap(),
        &db.table(),
        &counted(1),
    );
    // Their unique values are free again.
    db.ok(vec![db.insert("new", counted(1))]);
}

pub fn many_matches_report_tables(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let inserts = |db: &Db, from: i64| {
        (from..from + 600)
            .map(|n| db.insert(&format!("r{n}"), counted(n)))
            .collect::<Vec<_>>()
    };
    for from in [0, 600] {
        db.ok(inserts(&db, from));
    }
    let applied = db.ok(vec![op(db.all(), set(adding(1)))]);
    assert_eq!(applied.matched[0].count, 1_200);
    assert_eq!(applied.changes, Changes::Tables(vec![db.table().number]));
}

pub fn matches_under_another_catalogue_are_refused(place: &dyn Place) {
    let mut db = with_counts(place, 1);
    let late = WriteBatch {
        catalogue_epoch: db.catalogue.epoch - 1,
        ..db.batch(vec![op(db.all(), MatchingAct::Delete { range: None })])
    };
    let refused = Outcome::Err(Refusal::CatalogueMoved);
    assert_eq!(db.commit(&[late]).remove(0).map(drop), refused.map(drop));
}

pub fn rows_that_moved_are_left_alone(place: &dyn Place) {
    let mut db = with_counts(place, 1);
    let read = db.get("r0").unwrap().updated;
    let ops = |db: &Db| {
        let put = RowAct::Put {
            patch: vec![(COUNT, Value::Int(5))].into(),
            insert: Ok(counted(5)),
            permissions: None,
            insert_permissions: vec![],
            stamps: Stamps::default(),
            guard: Guard::Open,
        };
        [
            db.update("r0", vec![(COUNT, Value::Int(4))]),
            db.op("r0", put),
            op(db.all(), set_count(6)),
            op(db.all(), MatchingAct::Delete { range: None }),
            db.delete("r0"),
        ]
    };
    for step in ops(&db) {
        let stale = WriteBatch {
            unchanged_since: Some(Timestamp(read.0 - 1_000)),
            meta: None,
            noted_in: None,
            ..db.batch(vec![step])
        };
        let refused = db.commit(&[stale]).remove(0).map(drop);
        assert_eq!(refused, Err(Refusal::RowMoved(row_id("r0"))));
    }
    // The instant itself is not later; what is finer than a millisecond does not count.
    for step in ops(&db) {
        let Some(row) = db.get("r0") else {
            break;
        };
        let fresh = WriteBatch {
            unchanged_since: Some(Timestamp(row.updated.0 + 500)),
            meta: None,
            noted_in: None,
            ..db.batch(vec![step])
        };
        assert!(db.commit(&[fresh]).remove(0).is_ok());
    }
    // A row that is not there was not changed by any writer.
    let put = RowAct::Put {
        patch: Patch::default(),
        insert: Ok(counted(1)),
        permissions: None,
        insert_permissions: vec![],
        stamps: Stamps::default(),
        guard: Guard::Open,
    };
    let new = WriteBatch {
        unchanged_since: Some(Timestamp(0)),
        meta: None,
        noted_in: None,
        ..db.batch(vec![db.op("new", put)])
    };
    assert!(db.commit(&[new]).remove(0).is_ok());
}

pub fn operators_compute_from_the_row_that_is_there(place: &dyn Place) {
    let mut db = with_counts(place, 1);
    let add = |db: &Db, id: &str, n| {
        let act = RowAct::Put {
            patch: adding(n),
            insert: Ok(counted(100)),
            permissions: None,
            insert_permissions: vec![],
            stamps: Stamps::default(),
            guard: Guard::Open,
        };
        db.op(id, act)
    };
    // Inside one batch, one group, and one after another.
    db.ok(vec![add(&db, "r0", 1), add(&db, "r0", 2)]);
    let batches = [
        db.batch(vec![add(&db, "r0", 4)]),
        db.batch(vec![add(&db, "r0", 8)]),
    ];
    db.commit(&batches);
    assert_eq!(counts(&db)[0].1, 15);
    // A new row goes on from what it begins with.
    let new = db.row_of(add(&db, "other", 5));
    let mut expected = counted(100);
    expected[COUNT] = Value::Int(105);
    assert_holds(&new, &db.table(), &expected);
    let over = db.refused(vec![add(&db, "r0", i64::MAX)]);
    assert!(matches!(over, Refusal::Invalid(_)), "{over:?}");
    let mut patch = Patch::default();
    let word = Value::Text("new".into());
    let append = model::operator::ListChange::Append(vec![word]);
    patch.put(TAGS, Edit::Operate(Operator::List(append)));
    patch.put(TITLE, Edit::Operate(Operator::Concat("!".into())));
    let table = db.table();
    let values = patch.apply(&table, &expected, Timestamp(0)).unwrap();
    let id = RowId::new("other").unwrap();
    let other = where_id(&db, &id);
    let written = db.ok(vec![op(other, set(patch))]);
    assert_holds(&written.matched[0].rows[0], &table, &values);
}

fn where_id(db: &Db, id: &RowId) -> Query {
    Query {
        filter: Filter::Field(Field::Id, Test::In(vec![Value::Text(id.to_string())])),
        ..db.all()
    }
}

/// Rows whose titles have 15,000 bytes each.
fn with_wide_rows(place: &dyn Place, rows: usize) -> Db {
    let mut db = Db::with_notes(place);
    for n in 0..rows {
        let mut values = counted(n as i64);
        values[TITLE] = Value::Text("x".repeat(15_000));
        db.ok(vec![db.insert(&format!("r{n}"), values)]);
    }
    db
}

pub fn a_matching_operation_stops_behind_so_many_bytes(place: &dyn Place) {
    let mut db = with_wide_rows(place, 6);
    let slice = |db: &Db| {
        Op::Matching(Box::new(MatchingOp {
            bytes_max: Some(50_000),
            tells_end: true,
            ..matching(db.all(), set(vec![(COUNT, Value::Int(9))]))
        }))
    };
    // Each row has 15,000 bytes before and 15,000 after.
    let op = slice(&db);
    let matched = db.ok(vec![op]).matched.remove(0);
    assert_eq!((matched.count, matched.is_cut), (2, true));
    let last = db.get("r1").unwrap().seq;
    assert_eq!(matched.last_seq, Some(last));
    assert_eq!(matched.end, db.get("r5").map(|row| row.seq));
}

pub fn changes_of_one_row_are_bounded_in_bytes(place: &dyn Place) {
    let mut db = with_wide_rows(place, 1);
    let bytes = store::batch::BATCH_BYTES_MAX;
    let change = |n: usize| db.update("r0", vec![(COUNT, Value::Int(10 + n as i64))]);
    let ops: Vec<Op> = (0..bytes / 30_000 + 2).map(change).collect();
    let refusal = db.refused(ops);
    assert_eq!(refusal, Refusal::TooManyBytes { bytes_max: bytes });
    // Nothing of it stays.
    let before = db.next;
    let last = db.update("r0", vec![(COUNT, Value::Int(7))]);
    assert_eq!(db.mark_of(last), before);
}

/// Batches that change one wide row so often that each writes a third of what a group may.
pub fn large_changes_wait_for_the_next_group(place: &dyn Place) {
    let mut db = with_wide_rows(place, 2);
    let times = store::batch::GROUP_IMAGE_BYTES_MAX / 30_000 / 3 + 1;
    let batch = |row: &str, author: Option<&str>| {
        let change = |n: usize| db.update(row, vec![(COUNT, Value::Int(10 + n as i64 % 2))]);
        let mut batch = db.batch((0..times).map(change).collect());
        batch.author = author.map(str::to_owned);
        batch
    };
    let key = Some("key:a");
    let batches = [
        batch("r0", None),
        batch("r0", None),
        batch("r0", None),
        batch("r0", None),
        batch("r1", key),
        batch("r0", None),
    ];
    let outcomes = db.commit(&batches);
    let is_deferred = |outcome: &Outcome| matches!(outcome, Err(Refusal::Deferred));
    let deferred: Vec<bool> = outcomes.iter().map(is_deferred).collect();
    // Those of an author have room of their own.
    assert_eq!(deferred, [false, false, false, true, false, true]);
    assert!(
        outcomes
            .iter()
            .all(|outcome| outcome.is_ok() || is_deferred(outcome))
    );
    let again = db.commit(&batches[3..4]);
    assert!(again[0].is_ok());
}

pub fn previews_look_at_the_clock_between_batches(place: &dyn Place) {
    let db = with_wide_rows(place, 1);
    let trials = [store::Trial {
        batches: vec![db.batch(vec![db.update("r0", vec![(COUNT, Value::Int(1))])])],
        judges_end: true,
    }];
    let preview = |limit_ms| block_on(db.store.preview(&trials, db.next, limit_ms)).map(drop);
    assert_eq!(preview(0), Err(StoreError::Timeout { limit_ms: 0 }));
    assert_eq!(preview(60_000), Ok(()));
}

pub fn a_batch_is_bounded_in_bytes(place: &dyn Place) {
    let mut db = with_wide_rows(place, 3);
    let bytes = store::batch::BATCH_BYTES_MAX;
    // Rows are changed to and fro until they have passed the bound: no step alone is large.
    let steps = bytes / 30_000 + 2;
    let to_and_fro =
        |n: usize| db.update(&format!("r{}", n % 3), vec![(COUNT, Value::Int(n as i64))]);
    let ops: Vec<Op> = (10..10 + steps).map(to_and_fro).collect();
    let refusal = db.refused(ops);
    assert_eq!(refusal, Refusal::TooManyBytes { bytes_max: bytes });
    let few: Vec<Op> = (10..20)
        .map(|n| db.update(&format!("r{}", n % 3), vec![(COUNT, Value::Int(n))]))
        .collect();
    db.ok(few);
}
