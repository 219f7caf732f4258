//! Versions, coordinates, the horizon, and upkeep.

use futures_executor::block_on;
use model::{Coordinates, Mark, Role, RoleSet, Value};
use query::Visibility;
use store::Op;

use super::db::{COUNT, Db, Place, TITLE, assert_holds, content, delete_table, note, notes_called};
use testing::OwnTurn;

fn titled(title: &str, count: i64) -> Vec<Value> {
    let mut values = note(title);
    values[COUNT] = Value::Int(count);
    values
}

pub fn every_version_is_kept(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let mut marks = vec![db.mark_of(db.insert("a", titled("a", 0)))];
    for count in 1..5 {
        let patch = vec![(COUNT, Value::Int(count))];
        marks.push(db.mark_of(db.update("a", patch)));
    }
    let check = |db: &Db| {
        for (count, mark) in marks.iter().enumerate() {
            let values = titled("a", count as i64);
            let at_commit = db.get_as_of("a", *mark).unwrap();
            assert_holds(&at_commit, &db.table(), &values);
            // As today knows it, the same was valid then; one tick earlier, it was not yet.
            let known_today = Coordinates {
                valid: mark.timestamp(),
                system: marks[4],
            };
            assert_holds(
                &db.get_at("a", Some(known_today)).unwrap(),
                &db.table(),
                &values,
            );
            let before = db.get_as_of("a", Mark(mark.0 - 1));
            assert_eq!(before.is_some(), count > 0);
        }
    };
    check(&db);
    db.close();
    check(&Db::open(place));
}

/// The rows as text, by `$sequence`; `$updatedAt` left out.
fn listed(db: &Db, at: Option<Coordinates>) -> Vec<String> {
    let mut query = db.all();
    query.at = at;
    let listed = db.list(&query);
    assert_eq!(listed.total, listed.rows.len() as u64);
    let table = db.table();
    let show = |row: &model::Row| {
        let content = content(row, &table);
        format!(
            "{} {} {:?} {:?} {content}",
            row.seq, row.id, row.created, row.permissions
        )
    };
    listed.rows.iter().map(show).collect()
}

pub fn now_and_versions_agree(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let mut past: Vec<(Mark, Vec<String>)> = Vec::new();
    // A short life of six rows, by a fixed rule: every act at every age of a row.
    for step in 0_i64..60 {
        let id = format!("r{}", step * 7 % 6);
        let is_there = db.get(&id).is_some();
        let op = match (is_there, step % 5) {
            (false, _) => db.insert_granted(&id, titled(&id, step), &["read(\"any\")"]),
            (true, 3) => db.delete(&id),
            (true, _) => db.update(&id, vec![(COUNT, Value::Int(step))]),
        };
        let mark = db.mark_of(op);
        let now = listed(&db, None);
        let here = Coordinates {
            valid: mark.timestamp(),
            system: mark,
        };
        assert_eq!(listed(&db, Some(here)), now, "step {step}");
        past.push((mark, now));
    }
    // Everything that was read is still read at its coordinates, permissions of today apart.
    let without_permissions = |rows: &[String]| -> Vec<String> {
        rows.iter()
            .map(|row| row.replace(r#"["read(\"any\")"]"#, "[]"))
            .collect()
    };
    for (mark, rows) in &past {
        let at = Coordinates {
            valid: mark.timestamp(),
            system: *mark,
        };
        let again = listed(&db, Some(at));
        assert_eq!(
            without_permissions(&again),
            without_permissions(rows),
            "{mark:?}"
        );
    }
}

pub fn a_deleted_row_stays_readable_at_its_time(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let inserted = db.mark_of(db.insert("a", note("one")));
    let deleted = db.mark_of(db.delete("a"));
    assert_eq!(db.get("a"), None);
    assert_eq!(db.get_as_of("a", deleted), None);
    for mark in [inserted, Mark(deleted.0 - 1)] {
        assert_holds(&db.get_as_of("a", mark).unwrap(), &db.table(), &note("one"));
    }
    // What was known before the deletion still says that the row goes on.
    let then = Coordinates {
        valid: deleted.timestamp(),
        system: inserted,
    };
    assert!(db.get_at("a", Some(then)).is_some());
    let reborn = db.mark_of(db.insert("a", note("two")));
    assert_eq!(db.get_as_of("a", deleted), None);
    assert_holds(
        &db.get_as_of("a", reborn).unwrap(),
        &db.table(),
        &note("two"),
    );
    assert_holds(
        &db.get_as_of("a", inserted).unwrap(),
        &db.table(),
        &note("one"),
    );
}

pub fn permissions_of_today_judge_the_past(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let role = |name: &str| Role::parse(name).unwrap();
    let ann = Visibility::Granted(RoleSet::new(vec![role("user:ann")]).into());
    let open = db.insert_granted("a", note("one"), &["read(\"user:ann\")"]);
    let mark = db.mark_of(open);
    let at = Coordinates {
        valid: mark.timestamp(),
        system: mark,
    };
    let seen = |db: &Db| db.try_get("a", Some(at), &ann).unwrap().answer.is_some();
    assert!(seen(&db));
    db.ok(vec![db.grant("a", &[])]);
    assert!(
        !seen(&db),
        "what was revoked today is not shown at yesterday's coordinates"
    );
    db.ok(vec![db.grant("a", &["read(\"user:ann\")"])]);
    // Of a deleted row the last grants count.
    db.ok(vec![db.delete("a")]);
    assert!(seen(&db));
}

pub fn the_horizon_survives(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let mark = db.mark_of(db.insert("a", note("one")));
    assert!(db.load().horizon >= mark);
    let ahead = Mark(mark.0 + 5_000_000);
    block_on(db.store.reserve(ahead)).unwrap();
    assert_eq!(db.load().horizon, ahead);
    // Lower than what is reserved: nothing is taken back, by a commit as little.
    block_on(db.store.reserve(mark)).unwrap();
    db.ok(vec![db.insert("b", note("two"))]);
    assert_eq!(db.load().horizon, ahead);
    assert_eq!(db.load().mark, Mark(db.next.0 - 1_007));
    let exact = Mark(db.next.0 + 3);
    block_on(db.store.close(exact)).unwrap();
    let db = Db::open(place);
    assert_eq!(
        db.load().horizon,
        exact,
        "a clean end replaces the reservation"
    );
}

pub fn run_upkeep_removes_deleted_tables_in_slices(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let run_upkeep = |db: &Db| block_on(db.store.run_upkeep()).unwrap();
    assert!(!run_upkeep(&db), "nothing to do");
    let second = Op::Catalogue(store::CatalogueOp::CreateTable(Box::new(notes_called(
        "second",
    ))));
    db.ok(vec![second]);
    db.ok((0..1_500)
        .map(|n| db.insert(&format!("r{n}"), note(&n.to_string())))
        .collect());
    db.ok(vec![Op::Catalogue(delete_table("notes"))]);
    db.ok(vec![Op::Catalogue(delete_table("second"))]);
    let mark = db.load().mark;
    let mut slices = 1;
    while run_upkeep(&db) {
        slices += 1;
    }
    // 1,500 rows and 1,500 versions, and an empty table: at least three full slices.
    assert!(slices >= 4, "{slices}");
    assert!(!run_upkeep(&db));
    assert_eq!(db.load().mark, mark, "upkeep takes no mark");
    let again = Op::Catalogue(store::CatalogueOp::CreateTable(Box::new(notes_called(
        "notes",
    ))));
    db.ok(vec![again]);
    assert_eq!(db.ids(), [""; 0]);
    let patch = vec![(TITLE, Value::Text("new".into()))];
    db.ok(vec![db.insert("r0", note("r0")), db.update("r0", patch)]);
    assert_eq!(db.ids(), ["r0"]);
}
