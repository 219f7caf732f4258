//! Batches whose rows need each other: unique values change hands inside one, and it is judged at
//! its end.

use model::operator::{Arithmetic, Beyond, Calculation};
use model::{Direction, Edit, IndexKind, Operator, Patch, Row, Value};
use query::{Filter, Query, Test};
use store::{Guard, MatchingAct, MatchingOp, Op, Refusal, RowAct, RowOp, SchemaChange, Stamps};

use super::db::{
    CODE, COUNT, Db, Place, TITLE, assert_holds, content, index, index_of, note, row_id,
};
use super::schema::change;

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn code(db: &Db, id: &str, code: &str) -> Op {
    db.update(id, vec![(CODE, text(code))])
}

/// The rows with this code, as a list finds them by the unique index.
fn holders(db: &Db, code: &str) -> Vec<String> {
    let query = Query {
        filter: Filter::Field(model::Field::Column(CODE), Test::In(vec![text(code)])),
        ..db.all()
    };
    let rows = db.list(&query).rows;
    rows.iter().map(|row| row.id.to_string()).collect()
}

/// Rows named by their codes.
fn with(place: &dyn Place, ids: &[&str]) -> Db {
    let mut db = Db::with_notes(place);
    for id in ids {
        let mut values = note(id);
        values[CODE] = text(id);
        db.ok(vec![db.insert(id, values)]);
    }
    db
}

fn code_of(db: &Db, row: &Row) -> String {
    let shown = content(row, &db.table());
    let (_, code) = shown.trim_end_matches('"').rsplit_once('"').unwrap();
    code.to_owned()
}

#[track_caller]
fn check(db: &Db, held: &[(&str, &str)]) {
    for (code, id) in held {
        assert_eq!(holders(db, code), [*id], "code {code}");
        assert_eq!(code_of(db, &db.get(id).unwrap()), *code);
    }
}

pub fn unique_values_change_places_within_a_batch(place: &dyn Place) {
    let mut db = with(place, &["a", "b", "c"]);
    let before = db.ok(vec![code(&db, "a", "b"), code(&db, "b", "a")]);
    check(&db, &[("a", "b"), ("b", "a")]);
    // A cycle of three, whose rows hold b, a, c.
    db.ok(vec![
        code(&db, "a", "c"),
        code(&db, "b", "b"),
        code(&db, "c", "a"),
    ]);
    check(&db, &[("a", "c"), ("b", "b"), ("c", "a")]);
    // What was known before stays as it was, and the values guard as ever.
    let mark = before.mark.unwrap();
    assert_eq!(code_of(&db, &db.get_as_of("a", mark).unwrap()), "b");
    for (id, taken) in [("a", "b"), ("b", "a"), ("c", "c")] {
        assert_eq!(index_of(db.refused(vec![code(&db, id, taken)])), "by_code");
    }
    db.close();
    let db = Db::open(place);
    check(&db, &[("a", "c"), ("b", "b"), ("c", "a")]);
}

pub fn a_unique_value_is_handed_over_within_a_batch(place: &dyn Place) {
    let mut db = with(place, &["a", "b"]);
    let named = |title: &str, code: &str| {
        let mut values = note(title);
        values[CODE] = text(code);
        values
    };
    db.ok(vec![db.insert("c", named("c", "a")), db.delete("a")]);
    db.ok(vec![db.delete("b"), db.insert("d", named("d", "b"))]);
    check(&db, &[("a", "c"), ("b", "d")]);
    // The row that waits is changed, deleted, and created again before it gets its value.
    db.ok(vec![
        code(&db, "c", "b"),
        db.update("c", vec![(TITLE, text("between"))]),
        code(&db, "d", "a"),
    ]);
    check(&db, &[("a", "d"), ("b", "c")]);
    let mut between = named("between", "b");
    between[TITLE] = text("between");
    assert_holds(&db.get("c").unwrap(), &db.table(), &between);
    db.ok(vec![
        code(&db, "c", "a"),
        db.delete("c"),
        db.insert("c", named("c", "free")),
    ]);
    check(&db, &[("a", "d"), ("free", "c")]);
    let erase = |db: &Db, id| Op::Row(RowOp::now(db.table(), row_id(id), RowAct::Erase));
    let ops = vec![code(&db, "c", "a"), erase(&db, "c")];
    db.ok(ops);
    check(&db, &[("a", "d")]);
    assert_eq!(db.get("c"), None);
}

pub fn a_batch_that_ends_in_a_duplicate_names_index_row_and_period(place: &dyn Place) {
    let mut db = with(place, &["a", "b", "c"]);
    let refusal = db.refused(vec![
        code(&db, "a", "b"),
        code(&db, "b", "c"),
        db.update("c", vec![(COUNT, Value::Int(1))]),
    ]);
    let Refusal::Unique {
        index: Some(index),
        clash: Some((other, shared)),
    } = refusal
    else {
        panic!("{refusal:?}");
    };
    assert_eq!((&*index, other.as_str()), ("by_code", "c"));
    assert_eq!(shared.from(), db.next.timestamp());
    assert_eq!(shared.to(), None);
    check(&db, &[("a", "a"), ("b", "b"), ("c", "c")]);
    // Two rows wait for one value that is given up.
    let both = vec![
        code(&db, "a", "c"),
        code(&db, "b", "c"),
        code(&db, "c", "free"),
    ];
    assert_eq!(index_of(db.refused(both)), "by_code");
    let unknown = vec![code(&db, "a", "b"), code(&db, "x", "a")];
    assert_eq!(db.refused(unknown), Refusal::RowNotFound(row_id("x")));
}

pub fn rows_that_match_shift_their_unique_values(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let one_count = index(
        0,
        "one_count",
        IndexKind::Unique,
        &[(COUNT, Direction::Asc)],
    );
    change(&mut db, SchemaChange::AddIndex(one_count));
    for n in 0..4_i64 {
        let mut values = note(&n.to_string());
        values[COUNT] = Value::Int(n);
        db.ok(vec![db.insert(&format!("r{n}"), values)]);
    }
    let add = |by| {
        let mut patch = Patch::default();
        patch.put(
            COUNT,
            Edit::Operate(Operator::Arithmetic(Arithmetic {
                calculation: Calculation::Add,
                operand: Value::Int(by),
                bound: None,
                beyond: Beyond::Saturate,
            })),
        );
        MatchingAct::Update {
            patch,
            permissions: None,
            stamps: Stamps::default(),
            range: None,
        }
    };
    let matching = |query: Query, act| {
        Op::Matching(Box::new(MatchingOp {
            query: Query {
                limit: 100,
                ..query
            },
            may_leave_rows: false,
            walks: false,
            bytes_max: None,
            tells_end: false,
            act,
            rows_returned_max: 100,
        }))
    };
    let all = matching(db.all(), add(1));
    assert_eq!(db.ok(vec![all]).matched[0].count, 4);
    // A search inside the batch sees the values of rows that wait for theirs.
    let with_four = Query {
        filter: Filter::Field(model::Field::Column(COUNT), Test::In(vec![Value::Int(4)])),
        ..db.all()
    };
    let done = db.ok(vec![
        db.update("r0", vec![(COUNT, Value::Int(4))]),
        matching(with_four, MatchingAct::Delete { range: None }),
    ]);
    let found: Vec<_> = done.matched[0]
        .rows
        .iter()
        .map(|row| row.id.to_string())
        .collect();
    assert_eq!(found, ["r0", "r3"], "both have 4 meanwhile");
    assert_eq!(db.ids(), ["r1", "r2"]);
}

pub fn writes_over_a_period_and_from_now_on_change_places(place: &dyn Place) {
    let mut db = with(place, &["a", "b"]);
    let over = |db: &Db, id, code: &str| {
        let act = RowAct::Update {
            patch: vec![(CODE, text(code))].into(),
            permissions: None,
            stamps: Stamps::default(),
            guard: Guard::Open,
        };
        Op::Row(RowOp::over(
            db.table(),
            row_id(id),
            model::history::Range::default(),
            act,
        ))
    };
    db.ok(vec![over(&db, "a", "b"), code(&db, "b", "a")]);
    check(&db, &[("a", "b"), ("b", "a")]);
    db.ok(vec![code(&db, "a", "a"), over(&db, "b", "b")]);
    check(&db, &[("a", "a"), ("b", "b")]);
    let ends_twice = vec![over(&db, "a", "b"), code(&db, "b", "b")];
    assert_eq!(index_of(db.refused(ends_twice)), "by_code");
}
