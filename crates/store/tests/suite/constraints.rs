//! What must hold over valid time: declared, kept from then on, and taken back.

use std::sync::Arc;

use model::history::Range;
use model::{Table, Value};
use store::{CatalogueOp, ConstraintChange, Guard, Op, Refusal, RowAct, RowOp, TableConstraints};

use super::db::{CODE, Db, Place, TITLE, note, notes_called, row_id};

fn constrain(table: Arc<Table>, change: ConstraintChange) -> Op {
    Op::Catalogue(CatalogueOp::Constrain { table, change })
}

fn by_title(table: &Table) -> TableConstraints {
    TableConstraints {
        unique: vec![vec![table.columns[TITLE].number]],
        refs: Vec::new(),
    }
}

/// A row with a code of its own.
fn titled(title: &str, code: &str) -> Vec<Value> {
    let mut values = note(title);
    values[CODE] = Value::Text(code.to_owned());
    values
}

pub fn a_key_over_valid_time_is_declared_and_kept(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    // An index holds the beginnings of texts, and these have the same.
    let long = |last: &str| "x".repeat(300) + last;
    db.ok(vec![
        db.insert("a", titled("one", "a")),
        db.insert("b", titled(&long("1"), "b")),
        db.insert("c", titled(&long("2"), "c")),
    ]);
    let table = db.table();
    db.ok(vec![constrain(
        db.table(),
        ConstraintChange::Add(by_title(&table)),
    )]);
    let columns = vec!["title".to_owned()];
    for (title, other) in [("one", "a"), (&*long("2"), "c")] {
        let refusal = db.refused(vec![db.insert("d", titled(title, "d"))]);
        let Refusal::UniqueOverTime {
            columns: of,
            other: with,
            ..
        } = refusal
        else {
            panic!("{refusal:?}");
        };
        assert_eq!((of, with), (columns.clone(), row_id(other)));
    }
    db.ok(vec![db.insert("d", titled(&long("3"), "d"))]);
    db.ok(vec![db.delete("a")]);
    db.ok(vec![db.insert("e", titled("one", "e"))]);
    let again = || ConstraintChange::Add(by_title(&table));
    let refusal = db.refused(vec![constrain(db.table(), again())]);
    assert_eq!(refusal, Refusal::ConstraintExists);
    db.ok(vec![constrain(
        db.table(),
        ConstraintChange::Remove(by_title(&table)),
    )]);
    db.ok(vec![db.insert("f", titled("one", "f"))]);
    let refusal = db.refused(vec![constrain(db.table(), again())]);
    let Refusal::NotKept { first, violations } = refusal else {
        panic!("{refusal:?}");
    };
    assert!(
        matches!(*first, Refusal::UniqueOverTime { .. }),
        "{first:?}"
    );
    assert!(!violations.more, "{violations:?}");
    let [found] = &violations.found[..] else {
        panic!("{violations:?}");
    };
    assert_eq!((&found.row, &*found.against), (&row_id("f"), "e"));
    // Nothing of it stays.
    db.ok(vec![db.insert("g", titled("one", "g"))]);
}

pub fn a_reference_over_valid_time_is_declared_and_kept(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let parts = CatalogueOp::CreateTable(Box::new(notes_called("parts")));
    db.ok(vec![Op::Catalogue(parts)]);
    let (table, parts) = (db.table(), db.table_called("parts"));
    let part = |id: &str, act| Op::Row(RowOp::now(Arc::clone(&parts), row_id(id), act));
    let refers = || TableConstraints {
        unique: Vec::new(),
        refs: vec![(table.columns[TITLE].number, parts.number)],
    };
    db.ok(vec![db.insert("a", titled("p1", "a"))]);
    let declare = constrain(db.table(), ConstraintChange::Replace(refers()));
    let refusal = db.refused(vec![declare.clone()]);
    let Refusal::NotKept { violations, .. } = refusal else {
        panic!("{refusal:?}");
    };
    let [found] = &violations.found[..] else {
        panic!("{violations:?}");
    };
    assert_eq!((&found.row, &*found.against), (&row_id("a"), "p1"));
    // What was valid before a deletion would refer to it, too.
    let all = Range::default();
    let erased = RowOp::over(db.table(), row_id("a"), all, RowAct::Erase);
    db.ok(vec![Op::Row(erased)]);
    db.ok(vec![declare]);
    let absent = db.insert("b", titled("p1", "b"));
    let refusal = db.refused(vec![absent.clone()]);
    assert!(
        matches!(&refusal, Refusal::ReferenceOverTime { target, .. } if *target == row_id("p1")),
        "{refusal:?}"
    );
    let made = RowAct::Insert {
        values: note("p1"),
        permissions: Vec::new(),
        stamps: store::Stamps::default(),
        guard: Guard::Open,
    };
    db.ok(vec![part("p1", made)]);
    db.ok(vec![absent]);
    let gone = part("p1", RowAct::Delete { guard: Guard::Open });
    let refusal = db.refused(vec![gone.clone()]);
    assert!(
        matches!(refusal, Refusal::ReferenceOverTime { .. }),
        "{refusal:?}"
    );
    db.ok(vec![db.delete("b"), gone]);
    // As a store that is opened again does.
    db.close();
    let mut db = Db::open(place);
    let refusal = db.refused(vec![db.insert("b", titled("p1", "b"))]);
    assert!(
        matches!(refusal, Refusal::ReferenceOverTime { .. }),
        "{refusal:?}"
    );
}
