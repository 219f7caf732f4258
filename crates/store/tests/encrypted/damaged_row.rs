//! What can still be done with a row of which a value cannot be read.

use model::history::Range;
use model::{Mark, Timestamp, Value};
use query::{Visibility, names};
use store::{Op, RecordsOf, Refusal, RowAct, StoreError, WriteBatch};

use super::fixture::{is_refused, on_both, timed, values};
use crate::suite::db::{COUNT, Db, TAGS, TITLE, assert_holds};

#[test]
fn damaged_row_can_be_deleted_and_erased() {
    on_both("sealed_damaged_row_0", |place| {
        let mut db = place.begin();
        for id in ["deleted", "erased"] {
            db.ok(vec![db.insert(id, values(id, id))]);
        }
        let table = db.table();
        let title = names::column(table.columns[TITLE].number);
        let (now, versions) = (names::now(table.number), names::versions(table.number));
        db.close();
        for physical in [&now, &versions] {
            place.damage((physical, &title), "'deleted', 'erased'");
        }
        let mut db = Db::open(place);
        assert!(is_refused(&db, "deleted") && is_refused(&db, "erased"));
        let deleted = db.ok(vec![db.delete("deleted")]);
        // Their images would lack what cannot be read: all lists of the table are made again.
        assert_eq!(deleted.changes, store::Changes::Tables(vec![table.number]));
        let mut erase = timed(&db, "erased", Timestamp::BOT, RowAct::Erase);
        if let Op::Row(op) = &mut erase {
            op.range = Some(Range::default());
        }
        db.ok(vec![erase]);
        assert!(db.ids().is_empty());
        db.close();
        for physical in [&now, &versions] {
            let left = format!("SELECT count(*) FROM {physical} WHERE id = 'erased'");
            assert_eq!(place.text(&left), "0");
        }
    });
}

#[test]
fn damaged_row_is_mended_by_new_values_of_its_damaged_columns() {
    on_both("sealed_damaged_row_1", |place| {
        let mut db = place.begin();
        let ids = ["updated", "nulled", "put", "ends", "both"];
        let mut began = Mark(0);
        for id in ids {
            began = db.mark_of(db.insert(id, values(id, id)));
        }
        let guard = store::Guard::Open;
        let end = Timestamp(began.0 + 3_600_000_000);
        db.ok(vec![timed(&db, "ends", end, RowAct::Delete { guard })]);
        let table = db.table();
        let [title, tags] = [TITLE, TAGS].map(|at| names::column(table.columns[at].number));
        let (now, versions) = (names::now(table.number), names::versions(table.number));
        db.close();
        for physical in [&now, &versions] {
            let all = "'updated', 'nulled', 'put', 'ends', 'both'";
            place.damage((physical, &title), all);
            place.damage((physical, &tags), "'both'");
        }
        let mut db = Db::open(place);
        let is_broken =
            |refused: &Refusal| matches!(refused, Refusal::Failed(StoreError::SealBroken { .. }));
        let set = |value: &str| vec![(TITLE, Value::Text(value.to_owned()))];
        // What stays damaged cannot be shown by the answer.
        for patch in [vec![(COUNT, Value::Int(1))], vec![]] {
            let refused = db.refused(vec![db.update("updated", patch)]);
            assert!(is_broken(&refused), "{refused:?}");
        }
        let refused = db.refused(vec![db.update("both", set("both"))]);
        assert!(is_broken(&refused), "{refused:?}");

        let mended = db.ok(vec![db.update("updated", set("again"))]);
        assert_eq!(mended.changes, store::Changes::Tables(vec![table.number]));
        let mut wanted = values("updated", "updated");
        wanted[TITLE] = Value::Text("again".to_owned());
        assert_holds(&db.get("updated").unwrap(), &table, &wanted);
        db.ok(vec![db.update("nulled", vec![(TITLE, Value::Null)])]);
        wanted = values("nulled", "nulled");
        wanted[TITLE] = Value::Null;
        assert_holds(&db.get("nulled").unwrap(), &table, &wanted);
        db.ok(vec![db.update("ends", set("ends"))]);
        assert_holds(&db.get("ends").unwrap(), &table, &values("ends", "ends"));
        let whole = values("put", "put");
        let put = RowAct::Put {
            patch: whole.iter().cloned().enumerate().collect::<Vec<_>>().into(),
            insert: Ok(whole.clone()),
            permissions: None,
            insert_permissions: vec![],
            stamps: store::Stamps::default(),
            guard: store::Guard::Open,
        };
        db.ok(vec![db.op("put", put)]);
        assert_holds(&db.get("put").unwrap(), &table, &whole);
        let at = model::Coordinates {
            valid: began.timestamp(),
            system: began,
        };
        let then = db.try_get("updated", Some(at), &Visibility::Everything);
        assert!(
            matches!(then, Err(StoreError::SealBroken { .. })),
            "the past is as it was"
        );
        db.close();
        let db = Db::open(place);
        assert_holds(&db.get("put").unwrap(), &table, &whole);
    });
}

#[test]
fn matching_rows_are_changed_and_deleted_though_one_is_damaged() {
    on_both("sealed_damaged_row_2", |place| {
        let mut db = place.begin();
        for id in ["a", "b", "c"] {
            db.ok(vec![db.insert(id, values(id, id))]);
        }
        let table = db.table();
        let title = names::column(table.columns[TITLE].number);
        db.close();
        place.damage((&names::now(table.number), &title), "'b'");
        let mut db = Db::open(place);
        let matching = |db: &Db, act| {
            Op::Matching(Box::new(store::MatchingOp {
                query: db.all(),
                may_leave_rows: false,
                walks: false,
                bytes_max: None,
                tells_end: false,
                act,
                rows_returned_max: 10,
            }))
        };
        let update = store::MatchingAct::Update {
            patch: model::Patch::default(),
            permissions: None,
            stamps: store::Stamps::default(),
            range: None,
        };
        let refused = db.refused(vec![matching(&db, update)]);
        let is_broken = matches!(refused, Refusal::Failed(StoreError::SealBroken { .. }));
        assert!(is_broken, "{refused:?}");
        let mend = store::MatchingAct::Update {
            patch: vec![(TITLE, Value::Text("all".to_owned()))].into(),
            permissions: None,
            stamps: store::Stamps::default(),
            range: None,
        };
        assert_eq!(db.ok(vec![matching(&db, mend)]).matched[0].rows.len(), 3);
        let mut wanted = values("b", "b");
        wanted[TITLE] = Value::Text("all".to_owned());
        assert_holds(&db.get("b").unwrap(), &table, &wanted);
        db.close();
        place.damage((&names::now(table.number), &title), "'b'");
        let mut db = Db::open(place);
        let deleted = db.ok(vec![matching(
            &db,
            store::MatchingAct::Delete { range: None },
        )]);
        let matched = &deleted.matched[0];
        let shown: Vec<&str> = matched.rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!((matched.count, shown), (3, vec!["a", "c"]));
        assert_eq!(deleted.changes, store::Changes::Tables(vec![table.number]));
        assert!(db.ids().is_empty());
    });
}

#[test]
fn damaged_note_ends_no_page_of_records() {
    on_both("sealed_damaged_row_3", |place| {
        let mut db = place.begin();
        let noted = |db: &mut Db, id: &str| {
            let insert = db.insert(id, values(id, id));
            let batch = WriteBatch {
                meta: Some(id.into()),
                noted_in: Some(db.database().seq),
                ..db.batch(vec![insert])
            };
            db.commit(&[batch]).remove(0).unwrap().mark.unwrap()
        };
        let (first, second) = (noted(&mut db, "first"), noted(&mut db, "second"));
        db.close();
        let zero = place.sealed_text("00");
        let damage = format!("UPDATE tx SET meta = {zero} WHERE tt = {}", first.0);
        place.meddle(&damage);
        let db = Db::open(place);
        let recorded = futures_executor::block_on(db.store.recorded(RecordsOf {
            after: Mark(first.0 - 1),
            upto: second,
            limit: 10,
            database: db.database().seq,
            tables: vec![db.table().number],
            changed: None,
            filter: None,
        }));
        let recorded = recorded.unwrap();
        let shown = recorded
            .iter()
            .map(|one| (one.meta.as_deref(), one.is_damaged));
        let shown: Vec<_> = shown.collect();
        assert_eq!(shown, [(None, true), (Some("second"), false)]);
        assert_eq!(db.store.counts().damaged, 1);
    });
}
