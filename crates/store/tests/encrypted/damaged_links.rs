//! Damaged rows that link to others.

use model::{Mark, OnDelete, Timestamp, Value};
use query::names;
use store::RowAct;

use super::fixture::{is_refused, on_both, timed, values};
use crate::suite::db::{Db, TITLE};
use crate::suite::related::{self, held, last, link, relate};

#[test]
fn row_is_deleted_though_damaged_rows_link_to_it() {
    on_both("sealed_damaged_links_0", |place| {
        let mut db = place.begin();
        relate(&mut db, model::RelationKind::ManyToOne, OnDelete::SetNull);
        let (notes, others) = (db.table(), db.table_called("others"));
        db.ok(vec![related::insert(&others, "target", Value::Null)]);
        let linked = |id: &str| {
            let mut values = values(id, id);
            values.push(link("target"));
            values
        };
        let began = db.mark_of(db.insert("stays", linked("stays")));
        db.ok(vec![db.insert("ends", linked("ends"))]);
        let at = |hours: i64| Timestamp(began.0 + hours * 3_600_000_000);
        let guard = store::Guard::Open;
        db.ok(vec![timed(&db, "ends", at(1), RowAct::Delete { guard })]);
        db.ok(vec![db.insert("parted", linked("parted"))]);
        let put = RowAct::Replace {
            values: linked("parted"),
            permissions: None,
            guard: store::Guard::Open,
        };
        db.ok(vec![timed(&db, "parted", at(2), put)]);
        let title = names::column(notes.columns[TITLE].number);
        let (now, versions) = (names::now(notes.number), names::versions(notes.number));
        db.close();
        let ids = "'stays', 'ends', 'parted'";
        for physical in [&now, &versions] {
            place.damage((physical, &title), ids);
        }
        let mut db = Db::open(place);
        db.next = Mark(began.0 + 60_000_000);
        let deleted = db.ok(vec![related::delete(&others, "target")]);
        // Images of the holders would lack what cannot be read.
        let store::Changes::Tables(changed) = deleted.changes else {
            panic!("rows were kept: {:?}", deleted.changes);
        };
        assert!(changed.contains(&notes.number), "{changed:?}");
        for id in ["stays", "ends", "parted"] {
            assert_eq!(held(&db, id, None), Value::Null, "{id}");
            assert!(
                is_refused(&db, id),
                "{id}: its title is as damaged as it was"
            );
        }
        db.close();
        let link = names::column(notes.columns[last(&notes)].number);
        let zero = place.bytes("00");
        for sql in [
            format!("SELECT count(*) FROM {now} WHERE {title} = {zero}"),
            format!(
                "SELECT count(DISTINCT id) FROM {versions} WHERE {title} = {zero} AND {link} IS NULL"
            ),
        ] {
            assert_eq!(place.text(&sql), "3", "{sql}");
        }
    });
}
