//! Values that were altered, or moved to another place, behind the store.

use model::Value;
use query::{Visibility, names};
use store::{Refusal, SchemaChange, StoreError};

use super::fixture::{meddle, open, values};
use crate::suite::db::{DUE, Db, TAGS, TITLE, assert_holds};
use crate::suite::schema::change;
use testing::OwnTurn;

#[test]
fn altered_or_moved_value_is_refused_and_other_rows_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let (place, mut db) = open(&folder);
    for id in ["a", "b", "c"] {
        db.ok(vec![db.insert(id, values(id, id))]);
    }
    let table = db.table();
    let now = names::now(table.number);
    let [title, tags] = [TITLE, TAGS].map(|at| names::column(table.columns[at].number));
    db.close();
    let cut = format!("substr({title}, 1, length({title}) - 1)");
    let cases = [
        format!("UPDATE {now} SET {title} = {cut} || x'00' WHERE id = 'a'"),
        format!("UPDATE {now} SET {title} = {cut} WHERE id = 'a'"),
        format!("UPDATE {now} SET {title} = 'a' WHERE id = 'a'"),
        format!("UPDATE {now} SET {title} = x'' WHERE id = 'a'"),
        format!("UPDATE {now} SET {title} = 5 WHERE id = 'a'"),
        format!(
            "UPDATE {now} SET {title} = (SELECT {title} FROM {now} WHERE id = 'b') \
                 WHERE id = 'a'"
        ),
        format!("UPDATE {now} SET {title} = {tags} WHERE id = 'a'"),
    ];
    for sql in cases {
        let kept: Vec<u8> = {
            let sql = format!("SELECT {title} FROM {now} WHERE id = 'a'");
            let kept = place.database().query_row(&sql, (), |row| row.get(0));
            kept.unwrap()
        };
        meddle(&place, &sql);
        let mut db = Db::open(&place);
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
        let database = place.database();
        let back = format!("UPDATE {now} SET {title} = ?1 WHERE id = 'a'");
        assert_eq!(database.execute(&back, [kept]).unwrap(), 1);
    }
    let db = Db::open(&place);
    assert_holds(&db.get("a").unwrap(), &db.table(), &values("a", "a"));
}

#[test]
fn value_moved_between_rows_is_refused_in_the_past() {
    let folder = tempfile::tempdir().unwrap();
    let (place, mut db) = open(&folder);
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
    meddle(
        &place,
        &format!(
            "UPDATE {versions} SET {title} = (SELECT {title} FROM {versions} WHERE id = 'b') \
             WHERE id = 'a'"
        ),
    );
    let db = Db::open(&place);
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
}

#[test]
fn upkeep_goes_on_over_an_altered_value() {
    let folder = tempfile::tempdir().unwrap();
    let (place, mut db) = open(&folder);
    db.ok(vec![db.insert("a", values("a", "a"))]);
    let extra = crate::suite::db::column(0, "extra", model::ColumnKind::Text, false);
    change(&mut db, SchemaChange::AddColumn(extra));
    let table = db.table();
    let (now, title) = (
        names::now(table.number),
        names::column(table.columns[TITLE].number),
    );
    db.close();
    meddle(&place, &format!("UPDATE {now} SET {title} = x''"));
    let db = Db::open(&place);
    while futures_executor::block_on(db.store.run_upkeep()).unwrap() {}
    db.close();
    let left = place
        .database()
        .query_row("SELECT count(*) FROM upkeep", (), |row| {
            row.get::<_, i64>(0)
        });
    assert_eq!(left, Ok(0));
}
