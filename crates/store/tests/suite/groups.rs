//! Groups of batches: marks, isolation, bounds, and what no reader sees before the commit.

use std::sync::Arc;

use futures_executor::block_on;
use model::{Mark, Value};
use store::{Changes, Op, Refusal};

use super::db::{COUNT, Db, Place, TITLE, assert_holds, note, row_id};
use testing::OwnTurn;

fn count(number: i64) -> Vec<(usize, Value)> {
    vec![(COUNT, Value::Int(number))]
}

pub fn marks_rise_and_name_their_batches(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    db.ok(vec![db.insert("a", note("one"))]);
    let first = db.next;
    let batches = [
        db.batch(vec![db.update("a", count(1))]),
        db.batch(vec![db.update("a", count(1))]),
        db.batch(vec![db.insert("a", note("two"))]),
        db.batch(vec![db.insert("b", note("two"))]),
    ];
    let outcomes = db.commit(&batches);
    let marks: Vec<Option<Option<Mark>>> = outcomes
        .iter()
        .map(|outcome| outcome.as_ref().ok().map(|a| a.mark))
        .collect();
    assert_eq!(
        marks,
        [
            Some(Some(first)),
            Some(None),
            None,
            Some(Some(first.next()))
        ]
    );
    let loaded = db.load();
    assert_eq!(loaded.mark, first.next());
    assert!(loaded.horizon >= loaded.mark);
    let snapshot = db.try_list(&db.all()).unwrap();
    assert_eq!(
        snapshot.mark,
        first.next(),
        "a snapshot is stamped with the last commit's mark"
    );
    let point = db
        .try_get("a", None, &query::Visibility::Everything)
        .unwrap();
    assert_eq!(point.mark, first.next());
    let none = db.try_get("nobody", None, &query::Visibility::Everything);
    assert_eq!(none.unwrap().mark, first.next(), "as is one without a row");
}

pub fn a_refused_batch_leaves_nothing_and_takes_nothing(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let batches = [
        db.batch(vec![db.insert("a", note("one"))]),
        // Fails at its last operation, after two that went well.
        db.batch(vec![
            db.insert("lost", note("lost")),
            db.update("a", count(99)),
            db.delete("nobody"),
        ]),
        db.batch(vec![db.insert("b", note("two"))]),
    ];
    let outcomes = db.commit(&batches);
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok());
    let refusal = outcomes[1].as_ref().unwrap_err();
    assert_eq!(*refusal, Refusal::RowNotFound(row_id("nobody")));
    assert_eq!(db.ids(), ["a", "b"]);
    assert_holds(&db.get("a").unwrap(), &db.table(), &note("one"));
    // Neither did it use up a sequence or leave a version behind.
    let seqs: Vec<i64> = db.list(&db.all()).rows.iter().map(|row| row.seq).collect();
    assert_eq!(seqs[0] + 1, seqs[1]);
    assert_eq!(db.get_as_of("lost", db.load().mark), None);
}

/// Whatever came to nothing in a group or in one before it leaves nothing, not even a sequence.
pub fn each_of_many_groups_takes_back_what_came_to_nothing(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let mut ids = Vec::new();
    for nth in 0..10 {
        let (kept, last) = (format!("kept{nth:02}"), format!("last{nth:02}"));
        let ghost = db.insert("ghost", note("ghost"));
        let mut batches = vec![
            db.batch(vec![db.insert(&kept, note(&kept))]),
            db.batch(vec![ghost.clone(), db.delete("ghost")]),
            db.batch(vec![ghost, db.insert(&kept, note("again"))]),
            db.batch(vec![db.insert(&last, note(&last))]),
        ];
        if nth % 2 == 1 {
            batches.drain(1..3);
        }
        let first = db.next;
        let outcomes = db.commit(&batches);
        let marks = outcomes.iter().flatten().filter_map(|done| done.mark);
        assert_eq!(marks.collect::<Vec<_>>(), [first, first.next()]);
        let refused = outcomes.iter().filter(|one| one.is_err());
        assert_eq!(refused.count(), (batches.len() - 2) / 2);
        ids.extend([kept, last]);
    }
    assert_eq!(db.ids(), ids);
    let rows = db.list(&db.all()).rows;
    let seqs: Vec<i64> = rows.iter().map(|row| row.seq).collect();
    assert_eq!(seqs[seqs.len() - 1] - seqs[0], 19, "none was used up");
}

pub fn later_batches_see_earlier_ones(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let batches = [
        db.batch(vec![db.insert("a", note("one"))]),
        db.batch(vec![db.insert("a", note("two"))]),
        db.batch(vec![db.update("a", count(1))]),
        db.batch(vec![db.delete("a")]),
        db.batch(vec![db.insert("a", note("three"))]),
    ];
    let outcomes = db.commit(&batches);
    let accepted: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(accepted, [true, false, true, true, true]);
    let seen_at = |at: usize| db.get_as_of("a", outcomes[at].as_ref().unwrap().mark.unwrap());
    assert_holds(&seen_at(0).unwrap(), &db.table(), &note("one"));
    let mut updated = note("one");
    updated[COUNT] = Value::Int(1);
    assert_holds(&seen_at(2).unwrap(), &db.table(), &updated);
    assert_eq!(seen_at(3), None);
    assert_holds(&db.get("a").unwrap(), &db.table(), &note("three"));
}

pub fn a_dropped_group_leaves_nothing(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    db.ok(vec![db.insert("a", note("one"))]);
    let before = db.load();
    let table = super::db::notes_called("never");
    let batches = [
        db.batch(vec![db.insert("b", note("two")), db.update("a", count(5))]),
        db.batch(vec![Op::Catalogue(store::CatalogueOp::CreateTable(
            Box::new(table),
        ))]),
    ];
    let pending = block_on(db.store.apply(&batches, db.next)).unwrap();
    assert!(pending.outcomes().iter().all(Result::is_ok));
    drop(pending);
    let after = db.load();
    assert_eq!((after.mark, after.horizon), (before.mark, before.horizon));
    assert_eq!(after.catalogue.epoch, before.catalogue.epoch);
    assert_eq!(db.ids(), ["a"]);
    assert_holds(&db.get("a").unwrap(), &db.table(), &note("one"));
    // The writer has forgotten it, too: the same group gets the same marks.
    let first = db.next;
    let outcomes = db.commit(&batches);
    assert_eq!(outcomes[0].as_ref().unwrap().mark, Some(first));
    assert_eq!(db.ids(), ["a", "b"]);
    assert!(db.database().tables.contains_key("never"));
}

pub fn readers_see_a_group_after_its_commit(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    db.ok(vec![db.insert("a", note("one"))]);
    let mark = db.load().mark;
    let batches = [db.batch(vec![db.insert("b", note("two")), db.delete("a")])];
    let pending = block_on(db.store.apply(&batches, db.next)).unwrap();
    let snapshot = db.try_list(&db.all()).unwrap();
    assert_eq!(snapshot.mark, mark);
    assert_eq!(snapshot.answer.rows[0].id, row_id("a"));
    assert_eq!(snapshot.answer.total, 1);
    testing::done(block_on(pending.commit())).unwrap();
    assert_eq!(db.ids(), ["b"]);
}

fn inserts(db: &Db, count: usize) -> Vec<Op> {
    (0..count)
        .map(|n| db.insert(&format!("r{n}"), note(&format!("{n}"))))
        .collect()
}

pub fn large_batches_report_tables(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let applied = db.ok(inserts(&db, 1_000));
    assert!(matches!(&applied.changes, Changes::Images(images) if images.len() == 1_000));
    let deletes = (0..1_000).map(|n| db.delete(&format!("r{n}"))).collect();
    db.ok(deletes);
    let applied = db.ok(inserts(&db, 1_001));
    assert_eq!(applied.rows.len(), 1_001);
    assert_eq!(applied.changes, Changes::Tables(vec![db.table().number]));
    // Few rows, but too many bytes of them.
    let wide = (0..1_000).map(|n| {
        let value = Value::Text(format!("{n}{}", "x".repeat(9_000)));
        db.update(&format!("r{n}"), vec![(TITLE, value)])
    });
    let applied = db.ok(wide.collect());
    assert!(
        matches!(applied.changes, Changes::Images(_)),
        "9 MB of images"
    );
    let wide = (0..1_000).map(|n| {
        let value = Value::Text(format!("{n}{}", "y".repeat(9_000)));
        db.update(&format!("r{n}"), vec![(TITLE, value)])
    });
    let applied = db.ok(wide.collect());
    assert_eq!(
        applied.changes,
        Changes::Tables(vec![db.table().number]),
        "18 MB of images"
    );
}

pub fn ten_thousand_rows_are_the_limit(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let refusal = db.refused(inserts(&db, 10_001));
    assert_eq!(refusal, Refusal::TooManyRows { rows_max: 10_000 });
    assert_eq!(db.list(&db.all()).total, 0);
    db.ok(inserts(&db, 10_000));
    assert_eq!(db.list(&db.all()).total, 10_000);
}

pub fn steps_inside_a_batch_leave_one_version(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let before = db.mark_of(db.insert("old", note("old")));
    let applied = db.ok(vec![
        db.insert("new", note("new")),
        db.update("new", count(1)),
        db.update("new", count(2)),
        db.update("old", count(3)),
        db.delete("old"),
        db.insert("old", note("reborn")),
        db.update("old", count(4)),
    ]);
    let mark = applied.mark.unwrap();
    let (mut new, mut old) = (note("new"), note("reborn"));
    (new[COUNT], old[COUNT]) = (Value::Int(2), Value::Int(4));
    for (id, values) in [("new", &new), ("old", &old)] {
        assert_holds(&db.get(id).unwrap(), &db.table(), values);
        assert_holds(&db.get_as_of(id, mark).unwrap(), &db.table(), values);
    }
    assert_holds(
        &db.get_as_of("old", before).unwrap(),
        &db.table(),
        &note("old"),
    );
    assert_eq!(db.get_as_of("new", before), None);
    let Changes::Images(images) = applied.changes else {
        panic!("seven steps fit")
    };
    let sides: Vec<(&str, bool, bool)> = images
        .iter()
        .map(|change| {
            (
                change.id.as_str(),
                change.before.is_some(),
                change.after.is_some(),
            )
        })
        .collect();
    assert_eq!(sides, [("new", false, true), ("old", true, true)]);
    assert_eq!(images[1].before.as_ref().unwrap().values, note("old"));
    assert_eq!(images[1].after.as_ref().unwrap().values, old);
}

pub fn what_came_and_went_inside_a_batch_never_was(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let before = db.load().mark;
    let ghost = db.insert_granted("ghost", note("ghost"), &["read(\"user:ann\")"]);
    let applied = db.ok(vec![ghost.clone(), db.delete("ghost")]);
    assert_eq!(applied.mark, None);
    assert_eq!(applied.changes, Changes::Images(Arc::default()));
    assert_eq!(db.load().mark, before);
    let applied = db.ok(vec![ghost, db.delete("ghost"), db.insert("a", note("one"))]);
    assert_eq!(db.get_as_of("ghost", applied.mark.unwrap()), None);
    // The row that got its sequence did not get its grants.
    let roles = model::RoleSet::new(vec![model::Role::parse("user:ann").unwrap()]);
    let ann = query::Visibility::Granted(roles.into());
    assert_eq!(db.try_get("a", None, &ann).unwrap().answer, None);
}
