//! What is in the files, and which columns are encrypted.

use model::{Selection, Table, Timestamp, Value};
use store::{CatalogueOp, Op, Refusal, RowAct, SchemaChange};
use testing::OwnTurn;

use super::fixture::{SECRET, on_both, timed, values};
use crate::suite::db::{COUNT, Db, TITLE, assert_holds};
use crate::suite::schema::change;

#[test]
fn encrypted_values_leave_no_readable_byte_in_any_file_and_come_back() {
    on_both("sealed_at_rest_0", |place| {
        let mut db = place.begin();
        let long = format!("{SECRET} ").repeat(3_000);
        let title = |nth: usize| match nth {
            0 => String::new(),
            1 => long.clone(),
            nth => format!("{SECRET} {nth} \u{1f600} \"\\"),
        };
        let marks: Vec<_> = (0..20)
            .map(|nth| {
                let row = values(&title(nth), &format!("plain {nth}"));
                db.mark_of(db.insert(&format!("r{nth}"), row))
            })
            .collect();
        db.ok(vec![db.update("r3", vec![(COUNT, Value::Int(9))])]);
        let again = Value::Text(format!("another {SECRET}"));
        db.ok(vec![db.update("r4", vec![(TITLE, again.clone())])]);
        db.ok(vec![db.update("r5", vec![(TITLE, Value::Null)])]);
        let later = Timestamp(marks[0].0 + 3_600_000_000);
        let put = RowAct::Replace {
            values: values(&format!("later {SECRET}"), "plain later"),
            permissions: None,
            guard: store::Guard::Open,
        };
        db.ok(vec![timed(&db, "r6", later, put)]);
        db.ok(vec![db.delete("r7")]);
        assert_eq!(place.traces(SECRET), Vec::<String>::new());
        assert!(
            !place.traces("plain 3").is_empty(),
            "others rest as they are"
        );
        for is_open in [true, false] {
            if !is_open {
                db.close();
                assert_eq!(place.traces(SECRET), Vec::<String>::new());
                db = Db::open(place);
            }
            let table = db.table();
            for (nth, mark) in marks.iter().enumerate() {
                let row = db.get_as_of(&format!("r{nth}"), *mark).unwrap();
                assert_holds(&row, &table, &values(&title(nth), &format!("plain {nth}")));
            }
            let mut changed = values(&title(4), "plain 4");
            changed[TITLE] = again.clone();
            assert_holds(&db.get("r4").unwrap(), &table, &changed);
            let mut emptied = values(&title(5), "plain 5");
            emptied[TITLE] = Value::Null;
            assert_holds(&db.get("r5").unwrap(), &table, &emptied);
            let mut query = db.all();
            assert_eq!(db.list(&query).rows.len(), 19);
            query.selection = Selection::Some {
                columns: vec![TITLE],
                fields: Vec::new(),
                permissions: false,
            };
            let rows = db.list(&query).rows;
            let wanted = model::Content::Values(vec![Value::Text(title(1))]);
            assert_eq!(rows[1].content, wanted);
        }
    });
}

#[test]
fn added_column_is_encrypted_and_others_stay_plain() {
    on_both("sealed_at_rest_1", |place| {
        let mut db = Db::with_notes(place);
        db.ok(vec![db.insert("r", crate::suite::db::note("plain"))]);
        let mut column = crate::suite::db::column(0, "secret", model::ColumnKind::Text, false);
        column.encrypt = true;
        change(&mut db, SchemaChange::AddColumn(column));
        let at = db.table().columns.len() - 1;
        let secret = Value::Text(SECRET.to_owned());
        db.ok(vec![db.update("r", vec![(at, secret.clone())])]);
        // Bodies of the older schema are written again.
        while futures_executor::block_on(db.store.run_upkeep()).unwrap() {}
        assert_eq!(place.traces(SECRET), Vec::<String>::new());
        let mut wanted = crate::suite::db::note("plain");
        wanted.push(secret);
        assert_holds(&db.get("r").unwrap(), &db.table(), &wanted);
        db.close();
        let loaded = Db::open(place);
        let encrypted = |table: &Table| -> Vec<bool> {
            table.columns.iter().map(|column| column.encrypt).collect()
        };
        let mut flags = vec![false; at];
        flags.push(true);
        assert_eq!(encrypted(&loaded.table()), flags);
    });
}

#[test]
fn encrypted_column_cannot_be_shortened() {
    on_both("sealed_at_rest_2", |place| {
        let mut db = place.begin();
        let table = db.table();
        let column = model::Column {
            kind: model::ColumnKind::Varchar { chars_max: 10 },
            ..table.columns[TITLE].clone()
        };
        let shortened = CatalogueOp::ChangeSchema {
            table,
            change: SchemaChange::UpdateColumn(column),
        };
        let refused = db.refused(vec![Op::Catalogue(shortened)]);
        assert!(
            matches!(refused, Refusal::ValuesTooLong { .. }),
            "{refused:?}"
        );
    });
}
