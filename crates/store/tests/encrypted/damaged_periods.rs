//! Damaged rows that were written over periods: those to come, and those in pieces.

use model::history::Until;
use model::{Mark, Timestamp, Value};
use query::names;
use store::{CatalogueOp, Op, Refusal, RowAct, StoreError};

use super::fixture::{SealedPlace, is_refused, on_both, over, timed, values};
use crate::suite::db::{COUNT, Db, TITLE, assert_holds, notes_called};
use testing::OwnTurn;

#[test]
fn due_row_with_a_damaged_value_holds_up_no_other() {
    on_both("sealed_damaged_periods_0", |place| {
        let mut db = place.begin();
        let plain = CatalogueOp::CreateTable(Box::new(notes_called("plain")));
        db.ok(vec![Op::Catalogue(plain)]);
        let began = db.mark_of(db.insert("ends", values("ends", "ends")));
        db.ok(vec![db.insert("stays", values("stays", "stays"))]);
        let later = Timestamp(began.0 + 3_600_000_000);
        let put = |id: &str| RowAct::Replace {
            values: values(id, id),
            permissions: None,
            guard: store::Guard::Open,
        };
        for id in ["damaged", "whole"] {
            db.ok(vec![timed(&db, id, later, put(id))]);
        }
        let guard = store::Guard::Open;
        db.ok(vec![timed(&db, "ends", later, RowAct::Delete { guard })]);
        let mut elsewhere = timed(&db, "other", later, put("other"));
        if let Op::Row(op) = &mut elsewhere {
            op.table = db.table_called("plain");
        }
        db.ok(vec![elsewhere]);
        let table = db.table();
        let title = names::column(table.columns[TITLE].number);
        let (now, versions) = (names::now(table.number), names::versions(table.number));
        db.close();
        place.damage((&versions, &title), "'damaged', 'ends'");
        place.damage((&now, &title), "'ends'");
        let mut db = Db::open(place);
        assert!(is_refused(&db, "ends"));
        let due = Timestamp(later.0 + 1);
        let pending = futures_executor::block_on(db.store.activate_due(due)).unwrap();
        testing::done(futures_executor::block_on(pending.commit())).unwrap();
        assert!(db.load().boundaries.is_empty(), "nothing is left to do");
        assert_holds(&db.get("whole").unwrap(), &table, &values("whole", "whole"));
        assert_holds(&db.get("stays").unwrap(), &table, &values("stays", "stays"));
        assert_eq!(db.get("ends"), None);
        assert!(
            is_refused(&db, "damaged"),
            "it is there, and cannot be read"
        );
        let plain = names::now(db.table_called("plain").number);
        // It can be deleted, and what is written afterwards is read.
        db.next = Mark(due.0 + 1);
        db.ok(vec![db.delete("damaged")]);
        assert_eq!(db.get("damaged"), None);
        db.ok(vec![db.insert("damaged", values("again", "damaged"))]);
        assert_holds(
            &db.get("damaged").unwrap(),
            &table,
            &values("again", "damaged"),
        );
        db.close();
        let sql = format!("SELECT count(*) FROM {plain} WHERE id = 'other'");
        assert_eq!(place.text(&sql), "1", "another table's row came in");
    });
}

/// A row that ends, one that begins later, one with two pieces, and one without an end: their
/// titles are damaged wherever they are stored.
fn damaged_over_periods(place: &SealedPlace, mut db: Db) -> (Db, Timestamp) {
    let began = db.mark_of(db.insert("ends", values("ends", "ends")));
    db.ok(vec![db.insert("parted", values("parted", "parted"))]);
    let at = |hours: i64| Timestamp(began.0 + hours * 3_600_000_000);
    let put = |id: &str| RowAct::Replace {
        values: values(id, id),
        permissions: None,
        guard: store::Guard::Open,
    };
    let guard = store::Guard::Open;
    db.ok(vec![timed(&db, "ends", at(1), RowAct::Delete { guard })]);
    db.ok(vec![timed(&db, "comes", at(2), put("comes"))]);
    db.ok(vec![timed(&db, "pieces", at(-2), put("pieces"))]);
    db.ok(vec![timed(&db, "pieces", at(-1), put("pieces"))]);
    let table = db.table();
    let title = names::column(table.columns[TITLE].number);
    let (now, versions) = (names::now(table.number), names::versions(table.number));
    db.close();
    place.damage((&versions, &title), "'ends', 'comes', 'pieces', 'parted'");
    place.damage((&now, &title), "'ends', 'pieces', 'parted'");
    (Db::open(place), began.timestamp())
}

#[test]
fn damaged_row_written_over_periods_can_be_deleted() {
    on_both("sealed_damaged_periods_1", |place| {
        let db = place.begin();
        let (mut db, began) = damaged_over_periods(place, db);
        let hour = 3_600_000_000;
        db.next = Mark(began.0 + 60_000_000);
        for id in ["ends", "pieces", "comes"] {
            let deleted = db.ok(vec![db.delete(id)]);
            assert_eq!(deleted.rows, [None], "{id}");
            assert_eq!(db.get(id), None, "{id}");
        }
        assert!(db.load().boundaries.is_empty(), "nothing comes any more");
        // What is left of a row on both sides of what is deleted is as damaged as it was.
        let (from, until) = (
            Timestamp(began.0 + hour),
            Until::At(Timestamp(began.0 + 2 * hour)),
        );
        let guard = store::Guard::Open;
        let delete = timed(&db, "parted", from, RowAct::Delete { guard });
        db.ok(vec![over(delete, from, until)]);
        assert!(is_refused(&db, "parted"));
        // A change of a part needs the rest; what is put over a period as a whole does not.
        let mut patch = model::Patch::default();
        patch.put(COUNT, model::Edit::Set(Value::Int(1)));
        let update = RowAct::Update {
            patch,
            permissions: None,
            stamps: store::Stamps::default(),
            guard: store::Guard::Open,
        };
        let refused = db.refused(vec![timed(&db, "parted", began, update)]);
        let is_broken = matches!(refused, Refusal::Failed(StoreError::SealBroken { .. }));
        assert!(is_broken, "{refused:?}");
        let put = RowAct::Replace {
            values: values("again", "parted"),
            permissions: None,
            guard: store::Guard::Open,
        };
        let put = timed(&db, "parted", began, put);
        db.ok(vec![over(put, began, Until::At(from))]);
        let table = db.table();
        assert_holds(
            &db.get("parted").unwrap(),
            &table,
            &values("again", "parted"),
        );
        db.close();
        let title = names::column(table.columns[TITLE].number);
        let versions = names::versions(table.number);
        let hex = place.hex(&title);
        let left = format!(
            "SELECT {hex} FROM {versions} WHERE id = 'parted' AND vf = {}",
            began.0 + 2 * hour
        );
        assert_eq!(place.text(&left), "00", "the remnant holds what was sealed");
    });
}
