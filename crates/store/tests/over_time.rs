//! What another writer did to a row, or to another row, while a write over time was on its way.

mod suite;

use std::sync::Arc;

use futures_executor::block_on;
use model::history::{Range, Until};
use model::{
    Action, Coordinates, Direction, Field, Index, IndexKind, Mark, Patch, Permission, Role,
    RoleSet, Timestamp, Value,
};
use query::Visibility;
use store::{
    CatalogueOp, ConstraintChange, DUE_ROWS_MAX, Guard, Op, Refusal, RowAct, RowOp, SchemaChange,
    Since, Stamps, TableConstraints, TransactionRefusal,
};
use suite::db::{
    CODE, COUNT, Db, Directory, TAGS, TITLE, grants, index, index_of, note, notes_called, row_id,
};
use suite::schema::change;
use testing::OwnTurn;
use testing::places::on_database;

const DAY_US: i64 = 86_400_000_000;

fn timed_in(table: &Arc<model::Table>, id: &str, range: Range, act: RowAct) -> Op {
    Op::Row(RowOp::over(Arc::clone(table), row_id(id), range, act))
}

fn timed(db: &Db, id: &str, range: Range, act: RowAct) -> Op {
    timed_in(&db.table(), id, range, act)
}

fn from(instant: i64) -> Range {
    Range {
        from: Some(Timestamp(instant)),
        until: Until::Open,
    }
}

fn within(instant: i64, end: i64) -> Range {
    Range {
        from: Some(Timestamp(instant)),
        until: Until::At(Timestamp(end)),
    }
}

fn granted(role: &str) -> Guard {
    Guard::Granted {
        roles: Arc::new(RoleSet::new(vec![Role::parse(role).unwrap()])),
        actions: [Action::Update].into(),
    }
}

fn seen_by(role: &str) -> Visibility {
    let roles = RoleSet::new(vec![Role::parse(role).unwrap()]);
    Visibility::Granted(Arc::new(roles))
}

fn insert(title: &str, permissions: &[&str], guard: Guard) -> RowAct {
    RowAct::Insert {
        values: note(title),
        permissions: grants(permissions),
        stamps: Stamps::default(),
        guard,
    }
}

fn update(patch: Vec<(usize, Value)>, permissions: Option<Vec<Permission>>) -> RowAct {
    RowAct::Update {
        patch: patch.into(),
        permissions,
        stamps: Stamps::default(),
        guard: Guard::Open,
    }
}

fn at(mark: Mark) -> Coordinates {
    Coordinates {
        valid: mark.timestamp(),
        system: mark,
    }
}

fn permissions_of(db: &Db, id: &str) -> String {
    db.get(id).unwrap().permissions.to_string()
}

#[test]
fn rows_are_not_taken_over_by_creating_them_at_another_time() {
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    db.ok(vec![db.insert("a", note("secret"))]);
    let past = within(0, DAY_US);
    let mine = ["read(\"any\")", "update(\"any\")", "delete(\"any\")"];
    for guard in [granted("any"), Guard::Closed] {
        let taken = timed(&db, "a", past, insert("mine", &mine, guard));
        assert_eq!(db.refused(vec![taken]), Refusal::RowExists(row_id("a")));
    }
    assert_eq!(permissions_of(&db, "a"), "[]");
    // A row that will be there is there, too.
    let later = from(db.next.0 + DAY_US);
    db.ok(vec![timed(
        &db,
        "b",
        later,
        insert("secret b", &[], Guard::Open),
    )]);
    let now = within(db.next.0, db.next.0 + 1_000_000);
    let taken = timed(&db, "b", now, insert("mine", &mine, granted("any")));
    assert_eq!(db.refused(vec![taken]), Refusal::RowExists(row_id("b")));
    // A caller that may update the row may.
    db.ok(vec![db.grant("a", &["update(\"user:ann\")"])]);
    let act = insert("more", &["update(\"user:ann\")"], granted("user:ann"));
    db.ok(vec![timed(&db, "a", past, act)]);
    assert_eq!(permissions_of(&db, "a"), r#"["update(\"user:ann\")"]"#);
}

#[test]
fn rows_of_before_a_deletion_are_judged_by_their_grants_then() {
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    let open = &["read(\"any\")", "update(\"any\")"];
    for (id, is_over_period, is_in_one_batch) in
        [("a", false, false), ("b", true, false), ("c", false, true)]
    {
        let ann = &["read(\"user:ann\")"];
        let first = db.mark_of(db.insert_granted(id, note(&format!("old {id}")), ann));
        let again = note(&format!("new {id}"));
        if is_in_one_batch {
            db.ok(vec![db.delete(id), db.insert_granted(id, again, open)]);
        } else {
            db.ok(vec![db.delete(id)]);
            let op = if is_over_period {
                let until = within(db.next.0, db.next.0 + DAY_US);
                timed(
                    &db,
                    id,
                    until,
                    insert(&format!("new {id}"), open, granted("any")),
                )
            } else {
                db.insert_granted(id, again, open)
            };
            db.ok(vec![op]);
        }
        let sees = |db: &Db, role: &str, at| db.try_get(id, at, &seen_by(role)).unwrap().answer;
        assert!(sees(&db, "any", None).is_some());
        assert_eq!(
            sees(&db, "any", Some(at(first))),
            None,
            "{id}: the old secret is shown"
        );
        assert!(sees(&db, "user:ann", Some(at(first))).is_some(), "{id}");
        let present = Some(at(db.load().mark));
        assert!(sees(&db, "any", present).is_some(), "{id}");
        assert_eq!(sees(&db, "user:ann", present), None, "{id}");
        // Neither does a write over the past show it, or make it the new row's.
        let all = RowAct::Update {
            patch: vec![(COUNT, Value::Int(8))].into(),
            permissions: None,
            stamps: Stamps::default(),
            guard: granted("any"),
        };
        let refusal = db.refused(vec![timed(&db, id, from(i64::MIN), all)]);
        assert_eq!(refusal, Refusal::RowForbidden(row_id(id)));
        // Nor do other grants that the new row gets later.
        db.ok(vec![db.grant(id, &["read(\"any\")"])]);
        assert_eq!(sees(&db, "any", Some(at(first))), None, "{id}");
    }
}

fn by_updated() -> Index {
    let mut made = index(
        7,
        "by_updated",
        IndexKind::Unique,
        &[(COUNT, Direction::Asc)],
    );
    made.columns[0].field = Field::Updated;
    made
}

#[test]
fn a_change_of_permissions_counts_where_the_time_of_change_is_unique() {
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    change(&mut db, SchemaChange::AddIndex(by_updated()));
    db.ok(vec![db.insert("a", note("a"))]);
    db.ok(vec![db.grant("a", &["read(\"any\")"])]);
    let scheduled = |db: &Db, updated: Timestamp| {
        let act = RowAct::Insert {
            values: note("b"),
            permissions: vec![],
            stamps: Stamps {
                created: None,
                updated: Some(updated),
            },
            guard: Guard::Open,
        };
        timed(db, "b", from(db.next.0 + DAY_US), act)
    };
    let shown = db.get("a").unwrap().updated;
    let op = scheduled(&db, shown);
    assert_eq!(index_of(db.refused(vec![op])), "by_updated");
    // The other way round: first what is scheduled, then the change of permissions.
    let next = Timestamp(db.next.0 + 5_000_000).cut_to_ms();
    let op = scheduled(&db, next);
    db.ok(vec![op]);
    db.next = Mark(next.0 + 200);
    let op = db.grant("a", &[]);
    assert_eq!(index_of(db.refused(vec![op])), "by_updated");
}

#[test]
fn a_row_that_cannot_be_shown_stops_nobody() {
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    let due = db.next.0 + DAY_US;
    db.ok(vec![db.insert("a", note("a")), db.insert("d", note("d"))]);
    for id in ["b", "c"] {
        db.ok(vec![timed(
            &db,
            id,
            from(due),
            insert(id, &[], Guard::Open),
        )]);
    }
    let table = db.table();
    db.close();
    // No write leads here: what is stored of `a` has the code of `b`.
    let (now, code) = (
        query::names::now(table.number),
        query::names::column(table.columns[CODE].number),
    );
    place.run_sql(&[&format!(
        "UPDATE {now} SET {code} = 'code b' WHERE id = 'a'"
    )]);
    let mut db = Db::open(&place);
    db.next = Mark(due + 1);
    db.ok(vec![db.insert("e", note("e"))]);
    let pending = block_on(db.store.activate_due(Timestamp(due + 2))).unwrap();
    testing::done(block_on(pending.commit())).unwrap();
    assert_eq!(db.ids(), ["a", "d", "c", "e"]);
    // It is as it was written, and is shown as soon as it fits.
    db.next = Mark(due + 1_000_000);
    let free = vec![(CODE, Value::Text("free".into()))];
    db.ok(vec![db.update("a", free)]);
    let act = update(vec![(COUNT, Value::Int(1))], None);
    db.ok(vec![timed(&db, "b", Range::default(), act)]);
    assert_eq!(db.ids(), ["a", "d", "b", "c", "e"]);
}

#[test]
fn a_row_with_an_end_gets_values_and_permissions_at_once() {
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    let until = within(db.next.0, db.next.0 + DAY_US);
    db.ok(vec![timed(&db, "a", until, insert("a", &[], Guard::Open))]);
    let act = RowAct::Update {
        patch: vec![(COUNT, Value::Int(9))].into(),
        permissions: Some(grants(&["read(\"any\")"])),
        stamps: Stamps::default(),
        guard: Guard::Open,
    };
    let applied = db.ok(vec![db.op("a", act)]);
    assert_eq!(applied.rows.len(), 1);
    assert_eq!(permissions_of(&db, "a"), r#"["read(\"any\")"]"#);
}

#[test]
fn an_operation_that_changes_nothing_gives_back_what_it_met() {
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    db.ok(vec![db.insert("a", note("a"))]);
    let later = from(db.next.0 + DAY_US);
    let same = update(vec![(TITLE, Value::Text("a".into()))], None);
    let applied = db.ok(vec![timed(&db, "a", later, same)]);
    assert_eq!(applied.mark, None);
    assert!(applied.timed[0].row.is_some());
    let granted = update(vec![], Some(grants(&["read(\"any\")"])));
    let applied = db.ok(vec![timed(&db, "a", later, granted)]);
    let row = applied.timed[0].row.as_ref().unwrap();
    assert_eq!(&*row.permissions, r#"["read(\"any\")"]"#);
}

/// Writes for a database in several batches what is much for one: each of its operations on one row
/// looks through what the batch holds of that row.
fn write_in_parts(db: &mut Db, ops: Vec<Op>) {
    let most = if on_database() { 500 } else { ops.len() };
    for part in ops.chunks(most) {
        db.ok(part.to_vec());
    }
}

/// Makes `notes` refer by its titles to rows of a table `parts`, which has the same columns.
fn with_parts(db: &mut Db) -> Arc<model::Table> {
    db.ok(vec![Op::Catalogue(CatalogueOp::CreateTable(Box::new(
        notes_called("parts"),
    )))]);
    let (table, parts) = (db.table(), db.table_called("parts"));
    let constraints = TableConstraints {
        unique: Vec::new(),
        refs: vec![(table.columns[TITLE].number, parts.number)],
    };
    db.ok(vec![Op::Catalogue(CatalogueOp::Constrain {
        table,
        change: ConstraintChange::Replace(constraints),
    })]);
    parts
}

#[test]
fn a_row_that_others_refer_to_cannot_be_erased() {
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    let parts = with_parts(&mut db);
    let year = db.next.0 + 365 * DAY_US;
    // One that is there, and one that will be.
    for (id, range) in [("x", from(db.next.0)), ("y", from(year))] {
        let op = timed_in(&parts, id, range, insert(id, &[], Guard::Open));
        db.ok(vec![op]);
        let range = from(range.from.unwrap().0 + DAY_US);
        db.ok(vec![timed(&db, id, range, insert(id, &[], Guard::Open))]);
        let erase = timed_in(&parts, id, Range::default(), RowAct::Erase);
        let refusal = db.refused(vec![erase.clone()]);
        assert!(
            matches!(refusal, Refusal::ReferenceOverTime { .. }),
            "{refusal:?}"
        );
        // Together with what refers to it, it can.
        let both = vec![timed(&db, id, Range::default(), RowAct::Erase), erase];
        db.ok(both);
    }
}

#[test]
fn a_row_of_many_pieces_can_be_changed() {
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    let parts = with_parts(&mut db);
    let put = |nth: i64| {
        let mut values = note("p");
        (values[COUNT], values[CODE]) = (Value::Int(nth), Value::Null);
        let act = RowAct::Replace {
            values,
            permissions: None,
            guard: Guard::Open,
        };
        timed_in(&parts, "p", within(nth * 10, nth * 10 + 10), act)
    };
    let pieces = (0..10_200).map(put).collect();
    write_in_parts(&mut db, pieces);
    // Something is scheduled in its table, and something refers to nearly all of it.
    let later = from(db.next.0 + DAY_US);
    let op = timed_in(&parts, "later", later, insert("later", &[], Guard::Open));
    db.ok(vec![op]);
    let whole = within(5, 102_000);
    db.ok(vec![timed(
        &db,
        "holder",
        whole,
        insert("p", &[], Guard::Open),
    )]);
    let patch = update(vec![(COUNT, Value::Int(-1))], None);
    let op = timed_in(&parts, "p", within(50, 60), patch);
    assert!(db.ok(vec![op]).mark.is_some());
    let gap = timed_in(
        &parts,
        "p",
        within(70, 80),
        RowAct::Delete { guard: Guard::Open },
    );
    let refusal = db.refused(vec![gap]);
    let Refusal::ReferenceOverTime { missing, .. } = refusal else {
        panic!("{refusal:?}");
    };
    assert_eq!((missing.from().0, missing.end().0), (70, 80));
}

#[test]
fn a_transaction_meets_what_others_did_to_rows_that_are_not_there() {
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    let since = |mark| {
        Op::Since(Since {
            mark: Some(mark),
            instant: None,
        })
    };
    let conflict = |id: &str| Refusal::Transaction(TransactionRefusal::Conflict(row_id(id)));
    let put = |db: &Db, id: &str| {
        let act = RowAct::Put {
            patch: Patch::default(),
            insert: Ok(note("put")),
            permissions: None,
            insert_permissions: vec![],
            stamps: Stamps::default(),
            guard: Guard::Open,
        };
        db.op(id, act)
    };
    // A row is deleted before it is put.
    let seen = db.mark_of(db.insert("a", note("a")));
    let deleted = db.mark_of(db.delete("a"));
    let ops = vec![since(seen), put(&db, "a")];
    assert_eq!(db.refused(ops), conflict("a"));
    db.ok(vec![since(deleted), put(&db, "a")]);
    // One that the transaction itself deleted is its own.
    let seen = db.load().mark;
    db.ok(vec![since(seen), db.delete("a"), put(&db, "a")]);
    // What is scheduled of a row changes before the row is updated, put, or deleted.
    let later = from(db.next.0 + DAY_US);
    let count = |nth| update(vec![(COUNT, Value::Int(nth))], None);
    db.ok(vec![db.insert("b", note("b"))]);
    db.ok(vec![timed(&db, "b", later, count(2))]);
    db.ok(vec![timed(&db, "c", later, insert("c", &[], Guard::Open))]);
    let seen = db.load().mark;
    db.ok(vec![
        timed(&db, "b", later, count(3)),
        timed(&db, "c", later, count(3)),
    ]);
    let patch = vec![(COUNT, Value::Int(4))];
    for (id, op) in [
        ("b", db.update("b", patch.clone())),
        ("c", db.delete("c")),
        ("c", put(&db, "c")),
    ] {
        assert_eq!(db.refused(vec![since(seen), op]), conflict(id));
    }
    let seen = db.load().mark;
    db.ok(vec![since(seen), db.update("b", patch), db.delete("c")]);
}

#[test]
fn many_rows_hand_their_values_over_at_one_instant() {
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    let due = db.next.0 + DAY_US;
    let each = DUE_ROWS_MAX / 2 + 1_000;
    // Those that take over come first in the schedule, and are more than half of what one call
    // brings in.
    for (kind, range) in [("new", from(due)), ("old", within(db.next.0, due))] {
        let op = |nth| {
            let act = insert(&nth_code(nth), &[], Guard::Open);
            timed(&db, &format!("{kind}{nth}"), range, act)
        };
        let ops = (0..each).map(op).collect();
        db.ok(ops);
    }
    assert_eq!(db.ids().len(), each);
    for _ in 0..2 {
        let pending = block_on(db.store.activate_due(Timestamp(due))).unwrap();
        testing::done(block_on(pending.commit())).unwrap();
    }
    let ids = db.ids();
    assert_eq!(ids.len(), each);
    assert!(ids.iter().all(|id| id.starts_with("new")));
}

fn nth_code(nth: usize) -> String {
    format!("row {nth}")
}

#[test]
fn a_key_is_declared_over_rows_of_many_versions() {
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    let due = db.next.0 + DAY_US;
    let (mut one, mut other) = (note("a"), note("a"));
    (one[CODE], other[CODE]) = (Value::Null, Value::Null);
    let piece = |nth: i64| {
        let act = RowAct::Replace {
            values: one.clone(),
            permissions: None,
            guard: Guard::Open,
        };
        timed(&db, "a", within(nth * 10, nth * 10 + 10), act)
    };
    let pieces = (0..9_000).map(piece).collect();
    write_in_parts(&mut db, pieces);
    let act = RowAct::Replace {
        values: other,
        permissions: None,
        guard: Guard::Open,
    };
    let declare = |db: &Db| {
        let table = db.table();
        let constraints = TableConstraints {
            unique: vec![vec![table.columns[TITLE].number]],
            refs: Vec::new(),
        };
        Op::Catalogue(CatalogueOp::Constrain {
            table,
            change: ConstraintChange::Replace(constraints),
        })
    };
    // It ends where the first piece begins, then it shares one instant with the last one.
    db.ok(vec![timed(&db, "b", within(-5, 0), act.clone())]);
    db.ok(vec![declare(&db)]);
    let shared = timed(&db, "b", within(89_999, due), act.clone());
    assert!(matches!(
        db.refused(vec![shared.clone()]),
        Refusal::UniqueOverTime { .. }
    ));
    let none = Op::Catalogue(CatalogueOp::Constrain {
        table: db.table(),
        change: ConstraintChange::Replace(TableConstraints::default()),
    });
    db.ok(vec![none]);
    db.ok(vec![shared]);
    let refusal = db.refused(vec![declare(&db)]);
    let Refusal::NotKept { first, .. } = refusal else {
        panic!("{refusal:?}");
    };
    let Refusal::UniqueOverTime { shared, .. } = *first else {
        panic!("{first:?}");
    };
    assert_eq!((shared.from().0, shared.end().0), (89_999, 90_000));
}

#[test]
fn pieces_are_changed_only_as_far_as_they_fit_into_memory() {
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    let mut values = note("a");
    values[TAGS] = Value::List(vec![Value::Text("x".repeat(1 << 20)); 4]);
    let put = |nth: i64| {
        let act = RowAct::Replace {
            values: values.clone(),
            permissions: None,
            guard: Guard::Open,
        };
        timed(&db, "a", within(nth * 10, nth * 10 + 10), act)
    };
    db.ok((0..20).map(put).collect());
    let count = || update(vec![(COUNT, Value::Int(1))], None);
    let refusal = db.refused(vec![timed(&db, "a", from(0), count())]);
    let bytes_max = 64 << 20;
    assert_eq!(refusal, Refusal::PiecesTooLarge { bytes_max });
    db.ok(vec![timed(&db, "a", within(0, 100), count())]);
}
