//! Single rows: what comes back, what is refused, what is reported.

use std::sync::Arc;

use model::{Action, Change, Image, Mark, Period, Role, RoleSet, Row, Timestamp, Value};
use query::{Filter, Test, Visibility};
use store::{Changes, Guard, Op, Refusal, RowAct, Stamps};

use super::db::{
    CODE, COUNT, DONE, DUE, Db, PRICE, Place, TAGS, TITLE, assert_holds, grants, index_of, note,
    row_id,
};

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn roles(names: &[&str]) -> Arc<RoleSet> {
    Arc::new(RoleSet::new(
        names
            .iter()
            .map(|name| Role::parse(name).unwrap())
            .collect(),
    ))
}

/// The row has to grant all of `actions` to one of the roles.
fn granted(names: &[&str], actions: &[Action]) -> Guard {
    Guard::Granted {
        roles: roles(names),
        actions: actions.into(),
    }
}

pub fn every_value_comes_back(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let mut extreme = note("extremes");
    extreme[COUNT] = Value::Int(i64::MIN);
    extreme[PRICE] = Value::Float(5e-324);
    extreme[DONE] = Value::Bool(false);
    extreme[DUE] = Value::Instant(Timestamp(-62_135_596_800_000_000));
    extreme[TAGS] = Value::List(vec![]);
    let mut plain = note("plain '\"\n\u{1f600}");
    plain[COUNT] = Value::Int(i64::MAX);
    plain[PRICE] = Value::Float(3.0);
    for (id, values) in [("a", &extreme), ("b", &plain)] {
        let written = db.row_of(db.insert_granted(id, values.clone(), &["read(\"any\")"]));
        assert_holds(&written, &db.table(), values);
        let read = db.get(id).unwrap();
        assert_holds(&read, &db.table(), values);
        assert_eq!(read.id, row_id(id));
        assert_eq!(&*read.permissions, r#"["read(\"any\")"]"#);
        assert_eq!(read.created, written.created);
        assert_eq!(read.updated, read.created);
        assert_eq!(read.created, read.created.cut_to_ms());
    }
    // A second write reads the values it keeps, in the writer's own way.
    for (id, values) in [("a", &extreme), ("b", &plain)] {
        let patch = vec![(TITLE, text(id))];
        let mut expected = values.clone();
        expected[TITLE] = text(id);
        let written = db.row_of(db.update(id, patch));
        assert_holds(&written, &db.table(), &expected);
        assert_holds(&db.get(id).unwrap(), &db.table(), &expected);
    }
    assert_eq!(db.ids(), ["a", "b"]);
    assert_eq!(db.list(&db.all()).total, 2);
}

pub fn columns_may_be_null(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let nulls = vec![Value::Null; 7];
    // Two of them: null never collides in a unique index.
    for id in ["a", "b"] {
        db.ok(vec![db.insert(id, nulls.clone())]);
        assert_holds(&db.get(id).unwrap(), &db.table(), &nulls);
    }
    db.ok(vec![db.update("a", vec![(CODE, text("x"))])]);
    db.ok(vec![db.update("a", vec![(CODE, Value::Null)])]);
    assert_holds(&db.get("a").unwrap(), &db.table(), &nulls);
}

pub fn large_rows_come_back_without_a_body(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    for (id, length) in [("below", 15_000), ("above", 17_000)] {
        let mut values = note(id);
        values[TITLE] = text(&"x".repeat(length));
        let written = db.row_of(db.insert(id, values.clone()));
        assert_holds(&written, &db.table(), &values);
        assert_holds(&db.get(id).unwrap(), &db.table(), &values);
    }
}

pub fn insert_refuses_a_row_that_is_there(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    db.ok(vec![db.insert("a", note("one"))]);
    let refusal = db.refused(vec![db.insert("a", note("two"))]);
    assert_eq!(refusal, Refusal::RowExists(row_id("a")));
    assert_holds(&db.get("a").unwrap(), &db.table(), &note("one"));
}

pub fn update_merges_and_keeps_the_rest(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let inserted = db.row_of(db.insert_granted("a", note("one"), &["read(\"any\")"]));
    let patch = vec![(COUNT, Value::Int(8)), (TAGS, Value::Null)];
    let updated = db.row_of(db.update("a", patch));
    let mut expected = note("one");
    (expected[COUNT], expected[TAGS]) = (Value::Int(8), Value::Null);
    assert_holds(&updated, &db.table(), &expected);
    let read = db.get("a").unwrap();
    assert_holds(&read, &db.table(), &expected);
    for row in [&updated, &read] {
        assert_eq!((row.seq, row.created), (inserted.seq, inserted.created));
        assert_eq!(row.permissions, inserted.permissions);
        assert!(row.updated > inserted.updated);
    }
    // The index follows: the row is found by its new value only.
    let mut query = db.all();
    for (count, found) in [(7, 0), (8, 1)] {
        query.filter = Filter::Field(
            model::Field::Column(COUNT),
            Test::In(vec![Value::Int(count)]),
        );
        assert_eq!(db.list(&query).rows.len(), found);
    }
}

pub fn update_and_delete_refuse_an_absent_row(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    for op in [db.update("a", vec![(COUNT, Value::Int(1))]), db.delete("a")] {
        assert_eq!(db.refused(vec![op]), Refusal::RowNotFound(row_id("a")));
    }
    for guard in [Guard::Closed, granted(&["any"], &[Action::Delete])] {
        let op = db.op("a", RowAct::Delete { guard });
        assert_eq!(db.refused(vec![op]), Refusal::RowNotFound(row_id("a")));
    }
}

pub fn put_merges_or_inserts_or_says_why_not(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let put = |insert: Result<Vec<Value>, Box<Refusal>>| RowAct::Put {
        patch: vec![(COUNT, Value::Int(9))].into(),
        insert,
        permissions: None,
        insert_permissions: grants(&["read(\"user:ann\")"]),
        stamps: Stamps::default(),
        guard: Guard::Open,
    };
    let missing = Refusal::Invalid(model::ModelError::MissingColumn { column: "x".into() });
    let op = db.op("a", put(Err(Box::new(missing.clone()))));
    assert_eq!(db.refused(vec![op]), missing);
    let inserted = db.row_of(db.op("a", put(Ok(note("new")))));
    assert_holds(&inserted, &db.table(), &note("new"));
    assert_eq!(&*inserted.permissions, r#"["read(\"user:ann\")"]"#);
    // The row is there now: what an insert would lack does not matter.
    let merged = db.row_of(db.op("a", put(Err(Box::new(missing)))));
    let mut expected = note("new");
    expected[COUNT] = Value::Int(9);
    assert_holds(&merged, &db.table(), &expected);
    assert_eq!(merged.permissions, inserted.permissions);
    assert_eq!(merged.created, inserted.created);
}

pub fn delete_takes_the_row_and_frees_its_unique_value(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    db.ok(vec![db.insert("a", note("one"))]);
    let applied = db.ok(vec![db.delete("a")]);
    assert_eq!(applied.rows, [None]);
    assert_eq!(db.get("a"), None);
    assert_eq!(db.list(&db.all()).total, 0);
    db.ok(vec![db.insert("b", note("one"))]);
    assert_eq!(db.ids(), ["b"]);
}

pub fn what_changes_nothing_takes_no_mark(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let inserted = db.row_of(db.insert_granted("a", note("one"), &["read(\"any\")"]));
    let before = db.load();
    let mut same_grants = db.grant("a", &["read(\"any\")"]);
    let Op::Row(op) = &mut same_grants else {
        unreachable!()
    };
    let RowAct::Update { stamps, .. } = &mut op.act else {
        unreachable!()
    };
    stamps.updated = Some(inserted.updated);
    for op in [
        db.update("a", vec![]),
        db.update("a", vec![(COUNT, Value::Int(7)), (TITLE, text("one"))]),
        same_grants,
    ] {
        let applied = db.ok(vec![op]);
        assert_eq!(applied.mark, None);
        assert_eq!(applied.changes, Changes::Images(Arc::default()));
        let row = applied.rows[0].clone().unwrap();
        assert_holds(&row, &db.table(), &note("one"));
        assert_eq!((row.updated, row.seq), (inserted.updated, inserted.seq));
    }
    assert_eq!(db.load().mark, before.mark);
    assert_eq!(db.get("a").unwrap().updated, inserted.updated);
}

pub fn stamps_replace_the_commits_own_time(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let (old, older) = (Timestamp(1_000_000_000_000), Timestamp(900_000_000_000));
    let stamped = |created, updated| Stamps { created, updated };
    let insert = RowAct::Insert {
        values: note("one"),
        permissions: vec![],
        stamps: stamped(Some(older), Some(old)),
        guard: Guard::Open,
    };
    let row = db.row_of(db.op("a", insert));
    assert_eq!((row.created, row.updated), (older, old));
    let update = |patch: Vec<(usize, Value)>, stamps| RowAct::Update {
        patch: patch.into(),
        permissions: None,
        stamps,
        guard: Guard::Open,
    };
    // Another stamp alone is a change, and leaves a version like any other.
    let first = db.load().mark;
    let row = db.row_of(db.op("a", update(vec![], stamped(Some(old), Some(old)))));
    assert_eq!((row.created, row.updated), (old, old));
    assert_eq!(db.get_as_of("a", first).unwrap().created, older);
    // Without stamps an update keeps `$createdAt` and takes its own time.
    let patch = vec![(COUNT, Value::Int(1))];
    let row = db.row_of(db.op("a", update(patch, stamped(None, None))));
    assert_eq!(row.created, old);
    assert!(row.updated > old);
    assert_eq!(db.get("a").unwrap().created, old);
}

pub fn a_unique_index_is_named(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    db.ok(vec![
        db.insert("a", note("one")),
        db.insert("b", note("two")),
    ]);
    assert_eq!(
        index_of(db.refused(vec![db.insert("c", note("one"))])),
        "by_code"
    );
    let steal = vec![(CODE, text("code one"))];
    assert_eq!(
        index_of(db.refused(vec![db.update("b", steal.clone())])),
        "by_code"
    );
    // Inside one batch the value is free as soon as its owner has given it up.
    db.ok(vec![db.delete("a"), db.update("b", steal)]);
    let batch = vec![db.insert("x", note("three")), db.insert("y", note("three"))];
    assert_eq!(index_of(db.refused(batch)), "by_code");
    assert_eq!(db.ids(), ["b"]);
}

pub fn guards_are_judged_by_the_grants_of_the_row(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let forbidden = Refusal::RowForbidden(row_id("a"));
    let guarded = [
        "read(\"any\")",
        "update(\"user:ann\")",
        "delete(\"team:red\")",
    ];
    db.ok(vec![db.insert_granted("a", note("one"), &guarded)]);
    let both = [Action::Update, Action::Read];
    let mut next = 0;
    let mut update = |db: &Db, guard| {
        next += 1;
        db.op(
            "a",
            RowAct::Update {
                patch: vec![(COUNT, Value::Int(next))].into(),
                permissions: None,
                stamps: Stamps::default(),
                guard,
            },
        )
    };
    for (guard, may) in [
        (Guard::Open, true),
        (Guard::Closed, false),
        (granted(&["any", "guests"], &[Action::Update]), false),
        (granted(&["any", "team:red"], &[Action::Update]), false),
        (granted(&["any", "user:ann"], &[Action::Update]), true),
        (granted(&["any", "user:ann"], &both), true),
        (granted(&["user:ann"], &both), false),
        (granted(&["any"], &both), false),
    ] {
        let op = update(&db, guard);
        let outcome = db.try_ops(vec![op]);
        assert_eq!(
            outcome.map(|_| ()),
            if may { Ok(()) } else { Err(forbidden.clone()) }
        );
    }
    // A grant that is taken away does not count, not even inside the same batch.
    let ann = |action| granted(&["user:ann"], &[action]);
    let revoke = db.grant("a", &["delete(\"team:red\")"]);
    let op = update(&db, ann(Action::Update));
    assert_eq!(db.refused(vec![revoke.clone(), op]), forbidden);
    db.ok(vec![revoke]);
    let op = update(&db, ann(Action::Update));
    assert_eq!(db.refused(vec![op]), forbidden);
    let delete = |db: &Db, guard| db.op("a", RowAct::Delete { guard });
    assert_eq!(
        db.refused(vec![delete(&db, ann(Action::Delete))]),
        forbidden
    );
    let red = granted(&["team:red"], &[Action::Delete]);
    db.ok(vec![delete(&db, red)]);
    assert_eq!(db.get("a"), None);
}

pub fn grants_change_without_a_version(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let ann = Visibility::Granted(roles(&["user:ann"]));
    let inserted = db.row_of(db.insert("a", note("one")));
    let visible = |db: &Db| {
        let mut query = db.all();
        query.visibility = ann.clone();
        let listed = db.list(&query);
        let point = db.try_get("a", None, &ann).unwrap().answer;
        assert_eq!(listed.rows.len() as u64, listed.total);
        assert_eq!(point.is_some(), listed.total == 1);
        point.is_some()
    };
    assert!(!visible(&db));
    let before = db.load().mark;
    let granted = db.ok(vec![db.grant("a", &["read(\"user:ann\")"])]);
    assert!(granted.mark.unwrap() > before);
    assert!(visible(&db));
    let row = granted.rows[0].clone().unwrap();
    assert_eq!(&*row.permissions, r#"["read(\"user:ann\")"]"#);
    assert!(row.updated > inserted.updated);
    assert_eq!(db.get("a").unwrap().updated, row.updated);
    // At past coordinates nothing has changed but who may look.
    let past = db.get_as_of("a", before).unwrap();
    assert_holds(&past, &db.table(), &note("one"));
    assert_eq!(past.updated, inserted.updated);
    db.ok(vec![db.grant("a", &[])]);
    assert!(!visible(&db));
}

pub fn sequence_belongs_to_the_id(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let seq_of = |db: &mut Db, id: &str| db.row_of(db.insert(id, note(id))).seq;
    let a = seq_of(&mut db, "a");
    let b = seq_of(&mut db, "b");
    assert!(a < b);
    db.ok(vec![db.delete("b")]);
    let c = seq_of(&mut db, "c");
    assert!(
        b < c,
        "the sequence of a deleted row is not given to another"
    );
    assert_eq!(seq_of(&mut db, "b"), b);
    assert_eq!(db.ids(), ["a", "b", "c"]);
    // What a former life granted does not come back with the id.
    db.ok(vec![db.grant("b", &["read(\"user:ann\")"]), db.delete("b")]);
    seq_of(&mut db, "b");
    let ann = Visibility::Granted(roles(&["user:ann"]));
    assert_eq!(db.try_get("b", None, &ann).unwrap().answer, None);
    db.close();
    let mut db = Db::open(place);
    let d = seq_of(&mut db, "d");
    assert!(c < d);
}

pub fn changes_carry_both_images(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let table = db.table().number;
    // From the commit on, and known since it; a change of grants leaves the piece as it is.
    let image = |row: &Row, mark: Option<Mark>, values: Vec<Value>| Image {
        valid: Period::new(mark.unwrap().timestamp(), None).unwrap(),
        system_from: mark.unwrap(),
        created: row.created,
        updated: row.updated,
        permissions: row.permissions.clone(),
        values,
    };
    let applied = db.ok(vec![db.insert_granted(
        "a",
        note("one"),
        &["read(\"any\")"],
    )]);
    let first = image(applied.rows[0].as_ref().unwrap(), applied.mark, note("one"));
    let seq = applied.rows[0].as_ref().unwrap().seq;
    let change = |before: Option<&Image>, after: Option<&Image>| {
        Changes::Images(Arc::new(vec![Change {
            table,
            id: row_id("a"),
            seq,
            before: before.cloned(),
            after: after.cloned(),
        }]))
    };
    assert_eq!(applied.changes, change(None, Some(&first)));
    let applied = db.ok(vec![db.update("a", vec![(COUNT, Value::Int(8))])]);
    let mut values = note("one");
    values[COUNT] = Value::Int(8);
    let second = image(
        applied.rows[0].as_ref().unwrap(),
        applied.mark,
        values.clone(),
    );
    let known_since = applied.mark;
    assert_eq!(applied.changes, change(Some(&first), Some(&second)));
    let applied = db.ok(vec![db.grant("a", &[])]);
    let third = image(applied.rows[0].as_ref().unwrap(), known_since, values);
    assert_eq!(applied.changes, change(Some(&second), Some(&third)));
    let applied = db.ok(vec![db.delete("a")]);
    assert_eq!(applied.changes, change(Some(&third), None));
}
