//! Encrypted columns: nothing of their values rests readable, and nothing is read that was not
//! sealed where it stands.

mod suite;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use model::history::{Range, Until};
use model::{Mark, OnDelete, Selection, Table, Timestamp, Value};
use query::{Visibility, names};
use rusqlite::Connection;
use store::{
    CatalogueOp, Durability, Note, Op, Options, RecordsOf, Refusal, RowAct, RowOp, SchemaChange,
    Store, StoreError, WriteBatch, inspect,
};
use suite::db::{
    COUNT, DATABASE, DUE, Db, PROJECT, Place, TAGS, TITLE, assert_holds, create_database,
    create_project, encode_row, notes, notes_called, row_id,
};
use suite::related::{self, held, last, link, relate};
use suite::schema::change;
use testing::traces;

const SECRET: &str = "quicksilver";
const KEY: &str = "tidemark.key";

struct Embedded(PathBuf);

impl Embedded {
    fn try_open(&self) -> Result<Arc<dyn Store>, StoreError> {
        store::open(Options {
            directory: self.0.clone(),
            durability: Durability::Full,
            encode_row,
            reader_cache_bytes: 1 << 20,
            read_limit_ms: 60_000,
            long_reads: suite::db::LONG_READS,
            vfs: None,
        })
    }

    fn key(&self) -> PathBuf {
        self.0.join(KEY)
    }

    /// The database, while no store has it open.
    fn database(&self) -> Connection {
        Connection::open(self.0.join("tidemark.db")).unwrap()
    }
}

impl Place for Embedded {
    fn open(&self) -> Arc<dyn Store> {
        self.try_open().unwrap()
    }
}

/// The table `notes` whose title and tags are encrypted.
fn sealed_notes() -> Table {
    let mut table = notes();
    for position in [TITLE, TAGS] {
        table.columns[position].encrypt = true;
    }
    table
        .indexes
        .retain(|index| index.key.as_str() != "by_count");
    table
}

fn open(folder: &tempfile::TempDir) -> (Embedded, Db) {
    let place = Embedded(folder.path().join("data"));
    let mut db = Db::open(&place);
    db.ok(vec![Op::Catalogue(create_project(PROJECT))]);
    db.ok(vec![Op::Catalogue(create_database(DATABASE))]);
    assert!(!place.key().exists(), "nothing is encrypted yet");
    let table = CatalogueOp::CreateTable(Box::new(sealed_notes()));
    db.ok(vec![Op::Catalogue(table)]);
    (place, db)
}

fn values(title: &str, code: &str) -> Vec<Value> {
    let mut values = suite::db::note(code);
    values[TITLE] = Value::Text(title.to_owned());
    values[TAGS] = Value::List(vec![Value::Text(title.to_owned()), Value::Text("ü".into())]);
    values
}

fn timed(db: &Db, id: &str, from: Timestamp, act: RowAct) -> Op {
    Op::Row(
        RowOp::over(
            db.table(),
            row_id(id),
            Range {
                from: Some(from),
                ..Range::default()
            },
            act,
        )
        .literal(),
    )
}

#[test]
fn no_byte_of_an_encrypted_value_rests_readable_and_all_of_them_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let (place, mut db) = open(&folder);
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
    assert_eq!(traces(&place.0, SECRET), Vec::<String>::new());
    assert!(
        !traces(&place.0, "plain 3").is_empty(),
        "others rest as they are"
    );
    for is_open in [true, false] {
        if !is_open {
            db.close();
            assert_eq!(traces(&place.0, SECRET), Vec::<String>::new());
            db = Db::open(&place);
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
}

#[test]
fn a_column_that_is_added_encrypted_is_so_and_others_stay_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let place = Embedded(folder.path().join("data"));
    let mut db = Db::with_notes(&place);
    db.ok(vec![db.insert("r", suite::db::note("plain"))]);
    let mut column = suite::db::column(0, "secret", model::ColumnKind::Text, false);
    column.encrypt = true;
    change(&mut db, SchemaChange::AddColumn(column));
    let at = db.table().columns.len() - 1;
    let secret = Value::Text(SECRET.to_owned());
    db.ok(vec![db.update("r", vec![(at, secret.clone())])]);
    // Bodies of the older schema are written anew.
    while futures_executor::block_on(db.store.run_upkeep()).unwrap() {}
    assert_eq!(traces(&place.0, SECRET), Vec::<String>::new());
    let mut wanted = suite::db::note("plain");
    wanted.push(secret);
    assert_holds(&db.get("r").unwrap(), &db.table(), &wanted);
    db.close();
    let loaded = Db::open(&place);
    let encrypted = |table: &Table| -> Vec<bool> {
        table.columns.iter().map(|column| column.encrypt).collect()
    };
    let mut flags = vec![false; at];
    flags.push(true);
    assert_eq!(encrypted(&loaded.table()), flags);
}

#[test]
fn an_encrypted_column_takes_no_shorter_texts() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut db) = open(&folder);
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
}

/// Changes the database behind the store's back.
fn meddle(place: &Embedded, sql: &str) {
    assert!(place.database().execute(sql, ()).unwrap() > 0, "{sql}");
}

#[test]
fn a_value_that_was_altered_holds_up_no_upkeep() {
    let folder = tempfile::tempdir().unwrap();
    let (place, mut db) = open(&folder);
    db.ok(vec![db.insert("a", values("a", "a"))]);
    let extra = suite::db::column(0, "extra", model::ColumnKind::Text, false);
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

/// Overwrites the encrypted titles of these rows in the table.
fn damage(place: &Embedded, (physical, title): (&str, &str), ids: &str) {
    let sql = format!("UPDATE {physical} SET {title} = x'00' WHERE id IN ({ids})");
    meddle(place, &sql);
}

fn is_refused(db: &Db, id: &str) -> bool {
    let read = db.try_get(id, None, &Visibility::Everything);
    matches!(read, Err(StoreError::SealBroken { .. }))
}

#[test]
fn a_row_that_is_due_with_a_damaged_value_holds_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (place, mut db) = open(&folder);
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
    damage(&place, (&versions, &title), "'damaged', 'ends'");
    damage(&place, (&now, &title), "'ends'");
    let mut db = Db::open(&place);
    assert!(is_refused(&db, "ends"));
    let due = Timestamp(later.0 + 1);
    let pending = futures_executor::block_on(db.store.activate_due(due)).unwrap();
    futures_executor::block_on(pending.commit()).unwrap();
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
    let shown: i64 = place
        .database()
        .query_row(&sql, (), |row| row.get(0))
        .unwrap();
    assert_eq!(shown, 1, "another table's row came in");
}

#[test]
fn a_row_with_a_damaged_value_can_be_deleted_and_erased() {
    let folder = tempfile::tempdir().unwrap();
    let (place, mut db) = open(&folder);
    for id in ["deleted", "erased"] {
        db.ok(vec![db.insert(id, values(id, id))]);
    }
    let table = db.table();
    let title = names::column(table.columns[TITLE].number);
    let (now, versions) = (names::now(table.number), names::versions(table.number));
    db.close();
    for physical in [&now, &versions] {
        damage(&place, (physical, &title), "'deleted', 'erased'");
    }
    let mut db = Db::open(&place);
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
    let count = |physical: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM {physical} WHERE id = 'erased'");
        place
            .database()
            .query_row(&sql, (), |row| row.get(0))
            .unwrap()
    };
    assert_eq!((count(&now), count(&versions)), (0, 0));
}

fn over(mut op: Op, from: Timestamp, until: Until) -> Op {
    if let Op::Row(op) = &mut op {
        op.range = Some(Range {
            from: Some(from),
            until,
        });
    }
    op
}

/// A row that ends, one that begins later, one with two pieces, and one without an end: their
/// titles are damaged wherever they are stored.
fn damaged_over_periods(place: &Embedded, mut db: Db) -> (Db, Timestamp) {
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
    damage(
        place,
        (&versions, &title),
        "'ends', 'comes', 'pieces', 'parted'",
    );
    damage(place, (&now, &title), "'ends', 'pieces', 'parted'");
    (Db::open(place), began.timestamp())
}

#[test]
fn a_damaged_row_that_was_written_over_periods_can_be_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let (place, db) = open(&folder);
    let (mut db, began) = damaged_over_periods(&place, db);
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
    let left = format!(
        "SELECT count(*), sum({title} = x'00') FROM {versions} \
         WHERE id = 'parted' AND vf = {}",
        began.0 + 2 * hour
    );
    let left = place.database().query_row(&left, (), |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
    });
    assert_eq!(left, Ok((1, 1)), "the remnant holds what was sealed");
}

#[test]
fn a_row_is_deleted_though_damaged_ones_hold_links_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let (place, mut db) = open(&folder);
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
        damage(&place, (physical, &title), ids);
    }
    let mut db = Db::open(&place);
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
    for sql in [
        format!("SELECT count(*) FROM {now} WHERE {title} = x'00'"),
        format!(
            "SELECT count(DISTINCT id) FROM {versions} WHERE {title} = x'00' AND {link} IS NULL"
        ),
    ] {
        let kept = place.database().query_row(&sql, (), |row| row.get(0));
        assert_eq!(kept, Ok(3), "{sql}");
    }
}

#[test]
fn a_damaged_row_is_mended_by_values_in_the_place_of_what_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let (place, mut db) = open(&folder);
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
        damage(&place, (physical, &title), all);
        damage(&place, (physical, &tags), "'both'");
    }
    let mut db = Db::open(&place);
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
    let db = Db::open(&place);
    assert_holds(&db.get("put").unwrap(), &table, &whole);
}

#[test]
fn all_rows_that_match_are_deleted_though_one_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let (place, mut db) = open(&folder);
    for id in ["a", "b", "c"] {
        db.ok(vec![db.insert(id, values(id, id))]);
    }
    let table = db.table();
    let title = names::column(table.columns[TITLE].number);
    db.close();
    damage(&place, (&names::now(table.number), &title), "'b'");
    let mut db = Db::open(&place);
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
    damage(&place, (&names::now(table.number), &title), "'b'");
    let mut db = Db::open(&place);
    let deleted = db.ok(vec![matching(&db, store::MatchingAct::Delete)]);
    let matched = &deleted.matched[0];
    let shown: Vec<&str> = matched.rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!((matched.count, shown), (3, vec!["a", "c"]));
    assert_eq!(deleted.changes, store::Changes::Tables(vec![table.number]));
    assert!(db.ids().is_empty());
}

#[test]
fn a_damaged_note_ends_no_page_of_records() {
    let folder = tempfile::tempdir().unwrap();
    let (place, mut db) = open(&folder);
    let noted = |db: &mut Db, id: &str| {
        let note = Note {
            meta: Some(id.to_owned()),
            database: db.database().seq,
        };
        let insert = db.insert(id, values(id, id));
        let batch = WriteBatch {
            note: Some(note),
            ..db.batch(vec![insert])
        };
        db.commit(&[batch]).remove(0).unwrap().mark.unwrap()
    };
    let (first, second) = (noted(&mut db, "first"), noted(&mut db, "second"));
    db.close();
    let sql = format!("UPDATE tx SET meta = x'00' WHERE tt = {}", first.0);
    meddle(&place, &sql);
    let db = Db::open(&place);
    let recorded = futures_executor::block_on(db.store.recorded(RecordsOf {
        after: Mark(first.0 - 1),
        upto: second,
        limit: 10,
        database: db.database().seq,
        tables: vec![db.table().number],
    }));
    let recorded = recorded.unwrap();
    let shown = recorded
        .iter()
        .map(|one| (one.meta.as_deref(), one.is_damaged));
    let shown: Vec<_> = shown.collect();
    assert_eq!(shown, [(None, true), (Some("second"), false)]);
    assert_eq!(db.store.counts().damaged, 1);
}

#[test]
fn a_value_that_was_altered_or_moved_is_refused_and_stops_nothing_else() {
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
fn a_value_in_another_rows_place_is_refused_in_the_past_too() {
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
fn a_key_that_is_missing_or_another_is_told_and_nothing_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (place, mut db) = open(&folder);
    db.ok(vec![db.insert("a", values("a", "a"))]);
    db.close();
    let file = place.key();
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let key = fs::read(&file).unwrap();
    let looked = |place: &Embedded| inspect(&place.0).unwrap().unwrap().key();
    assert_eq!(looked(&place), Ok(Some(())));

    fs::remove_file(&file).unwrap();
    let missing = StoreError::KeyMissing { file: file.clone() };
    assert_eq!(place.try_open().err(), Some(missing.clone()));
    assert_eq!(looked(&place), Err(missing.clone()));
    assert!(missing.to_string().contains(KEY), "{missing}");
    assert!(!file.exists(), "no other key is made");

    let wrong = StoreError::KeyWrong { file: file.clone() };
    for other in [b"".to_vec(), [b'0'; 64].to_vec(), vec![0xff; 64]] {
        fs::write(&file, other).unwrap();
        assert_eq!(place.try_open().err(), Some(wrong.clone()));
        assert_eq!(looked(&place), Err(wrong.clone()));
    }

    // Others could read it meanwhile; the next start closes it.
    fs::write(&file, key).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let db = Db::open(&place);
    assert_holds(&db.get("a").unwrap(), &db.table(), &values("a", "a"));
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_key_that_no_commit_came_to_use_is_used_later() {
    let folder = tempfile::tempdir().unwrap();
    let place = Embedded(folder.path().join("data"));
    let mut db = Db::open(&place);
    db.ok(vec![Op::Catalogue(create_project(PROJECT))]);
    db.ok(vec![Op::Catalogue(create_database(DATABASE))]);
    let create = || Op::Catalogue(CatalogueOp::CreateTable(Box::new(sealed_notes())));
    // The batch is refused as a whole, after the key was made for its first operation.
    db.refused(vec![create(), create()]);
    let key = fs::read(place.key()).unwrap();
    // Nothing is sealed by a key that the database does not name.
    let batch = WriteBatch {
        note: Some(Note {
            meta: Some(SECRET.to_owned()),
            database: db.database().seq,
        }),
        ..db.batch(vec![Op::Catalogue(create_project("p2"))])
    };
    let mark = db.commit(&[batch]).remove(0).unwrap().mark.unwrap();
    db.close();
    let mut db = Db::open(&place);
    let recorded = futures_executor::block_on(db.store.recorded(RecordsOf {
        after: Mark(mark.0 - 1),
        upto: mark,
        limit: 1,
        database: db.database().seq,
        tables: Vec::new(),
    }));
    assert_eq!(recorded.unwrap()[0].meta.as_deref(), Some(SECRET));
    db.ok(vec![create()]);
    db.ok(vec![db.insert("a", values("a", "a"))]);
    assert_eq!(fs::read(place.key()).unwrap(), key);
    db.close();
    let db = Db::open(&place);
    assert!(db.get("a").is_some());
}
