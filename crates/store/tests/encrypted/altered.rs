//! Values that were altered, or moved to another place, behind the store.

use model::Value;
use query::{Visibility, names};
use store::{Refusal, SchemaChange, StoreError};

use super::fixture::{SealedPlace, on_both, values};
use crate::suite::db::{DUE, Db, TAGS, TITLE, assert_holds};
use crate::suite::schema::change;
use testing::OwnTurn;

#[test]
fn altered_or_moved_value_is_refused_and_other_rows_are_not() {
    on_both("sealed_altered_0", |place| {
        let mut db = place.begin();
        for id in ["a", "b", "c"] {
            db.ok(vec![db.insert(id, values(id, id))]);
        }
        let table = db.table();
        let now = names::now(table.number);
        let [title, tags] = [TITLE, TAGS].map(|at| names::column(table.columns[at].number));
        db.close();
        let cut = format!("substr({title}, 1, length({title}) - 1)");
        let [zero, empty] = ["00", ""].map(|hex| place.bytes(hex));
        let mut cases = vec![
            format!("UPDATE {now} SET {title} = {cut} || {zero} WHERE id = 'a'"),
            format!("UPDATE {now} SET {title} = {cut} WHERE id = 'a'"),
            format!("UPDATE {now} SET {title} = 'a' WHERE id = 'a'"),
            format!("UPDATE {now} SET {title} = {empty} WHERE id = 'a'"),
            format!(
                "UPDATE {now} SET {title} = (SELECT {title} FROM {now} WHERE id = 'b') \
                 WHERE id = 'a'"
            ),
            format!("UPDATE {now} SET {title} = {tags} WHERE id = 'a'"),
        ];
        if let SealedPlace::Directory(_) = place {
            // A column of PostgreSQL takes bytes alone.
            cases.push(format!("UPDATE {now} SET {title} = 5 WHERE id = 'a'"));
        }
        for sql in cases {
            let hex = place.hex(&title);
            let kept = place.text(&format!("SELECT {hex} FROM {now} WHERE id = 'a'"));
            place.meddle(&sql);
            let mut db = Db::open(place);
            let read = db.try_get("a", None, &Visibility::Everything);
            assert!(
                matches!(read, Err(StoreError::SealBroken { .. })),
                "{sql}: {read:?}"
            );
            let listed = db.try_list(&db.all());
            assert!(
                matches!(listed, Err(StoreError::SealBroken { .. })),
                "{sql}"
            );
            let refused = db.refused(vec![db.update("a", vec![(DUE, Value::Null)])]);
            let failed = Refusal::Failed(read.unwrap_err());
            assert_eq!(refused, failed, "{sql}");
            // Others are read and written as before.
            assert_holds(&db.get("b").unwrap(), &db.table(), &values("b", "b"));
            db.ok(vec![db.grant("b", &["read(\"any\")"])]);
            db.ok(vec![db.grant("b", &[])]);
            db.close();
            let kept = place.bytes(&kept);
            place.meddle(&format!("UPDATE {now} SET {title} = {kept} WHERE id = 'a'"));
        }
        let db = Db::open(place);
        assert_holds(&db.get("a").unwrap(), &db.table(), &values("a", "a"));
    });
}

#[test]
fn value_moved_between_rows_is_refused_in_the_past() {
    on_both("sealed_altered_1", |place| {
        let mut db = place.begin();
        let first = db.mark_of(db.insert("a", values("first", "a")));
        db.ok(vec![db.insert("b", values("other", "b"))]);
        db.ok(vec![
            db.update("a", vec![(TITLE, Value::Text("second".into()))]),
        ]);
        let table = db.table();
        let (versions, title) = (
            names::versions(table.number),
            names::column(table.columns[TITLE].number),
        );
        db.close();
        place.meddle(&format!(
            "UPDATE {versions} SET {title} = (SELECT {title} FROM {versions} WHERE id = 'b') \
             WHERE id = 'a'"
        ));
        let db = Db::open(place);
        let at = model::Coordinates {
            valid: first.timestamp(),
            system: first,
        };
        let read = db.try_get("a", Some(at), &Visibility::Everything);
        assert!(
            matches!(read, Err(StoreError::SealBroken { .. })),
            "{read:?}"
        );
        assert!(db.get("a").is_some(), "what is shown now was not moved");
    });
}

#[test]
fn upkeep_goes_on_over_an_altered_value() {
    on_both("sealed_altered_2", |place| {
        let mut db = place.begin();
        db.ok(vec![db.insert("a", values("a", "a"))]);
        let extra = crate::suite::db::column(0, "extra", model::ColumnKind::Text, false);
        change(&mut db, SchemaChange::AddColumn(extra));
        let table = db.table();
        let (now, title) = (
            names::now(table.number),
            names::column(table.columns[TITLE].number),
        );
        db.close();
        let empty = place.bytes("");
        place.meddle(&format!("UPDATE {now} SET {title} = {empty}"));
        let db = Db::open(place);
        while futures_executor::block_on(db.store.run_upkeep()).unwrap() {}
        db.close();
        assert_eq!(place.text("SELECT count(*) FROM upkeep"), "0");
    });
}
