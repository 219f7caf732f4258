//! Both stores keep one contract, but for what PostgreSQL does not do yet.

mod suite;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_executor::block_on;
use model::{
    ColumnKind, Direction, Field, IndexKind, IndexStatus, Mark, OnDelete, RelationKind, Table,
    TableNumber, Value,
};
use query::{Filter, OrderKey, Query, Test};
use store::{DatabaseStore, DatabaseUrl, SchemaChange, Store, StoreError};
use suite::db::{COUNT, Db, PRICE, Place, column, index, index_of, note, options};
use suite::related::{delete, held, holders, insert, last, link, relate};
use suite::schema::change;
use testing::OwnTurn;
use testing_postgres::Cluster;

/// A data directory of the embedded store.
struct Embedded {
    root: tempfile::TempDir,
}

impl Embedded {
    fn new() -> Embedded {
        Embedded {
            root: tempfile::tempdir().unwrap(),
        }
    }

    fn directory(&self) -> std::path::PathBuf {
        self.root.path().join("data")
    }
}

impl Place for Embedded {
    fn open(&self) -> Arc<dyn Store> {
        store::open(options(&self.directory())).unwrap()
    }
}

/// A store in a schema of a database.
struct Served {
    url: DatabaseUrl,
    keys: tempfile::TempDir,
}

impl Served {
    /// In the schema of this number, of a database that the cases share.
    fn new(cluster: &Cluster, number: usize) -> Served {
        let url = format!("{}&schema=case{number}", cluster.url(SHARED));
        Served {
            url: DatabaseUrl::parse(&url).unwrap(),
            keys: tempfile::tempdir().unwrap(),
        }
    }
}

impl Place for Served {
    fn open(&self) -> Arc<dyn Store> {
        let options = store::Options {
            place: store::StorePlace::from(self.url.clone()),
            ..options(self.keys.path())
        };
        let store = DatabaseStore::open(&self.url, None).unwrap();
        store.serve(&options, None, self.keys.path()).unwrap()
    }
}

/// The database in which the cases have a schema each.
const SHARED: &str = "conformance";

/// What PostgreSQL does not do yet, and which cases need it.
const NOT_YET: &[(&str, &[&str])] = &[(
    "slices of upkeep: a deleted table goes at once",
    &["time::run_upkeep_removes_deleted_tables_in_slices"],
)];

/// What takes PostgreSQL minutes on a busy machine: it is asked for each of 10,000 rows, or finds
/// as many within the time of a search.
const TOO_LONG: &[&str] = &[
    "matching::the_searches_of_a_batch_find_so_many_rows_together",
    "related::deletions_go_no_further_than_a_commit_may",
];

/// Runs the cases but some, each in a new place; the names of those that fail.
fn suite(left_out: &[&str], new_place: impl Fn() -> Box<dyn Place>) -> BTreeSet<&'static str> {
    let mut cases = suite::CASES.to_vec();
    cases.retain(|(name, _)| !left_out.contains(name));
    assert_eq!(cases.len() + left_out.len(), suite::CASES.len());
    let failed = cases.iter().filter(|(_, case)| {
        let place = new_place();
        catch_unwind(AssertUnwindSafe(|| case(&*place))).is_err()
    });
    failed.map(|(name, _)| *name).collect()
}

#[test]
fn the_embedded_store_keeps_the_contract() {
    let failed = suite(&[], || Box::new(Embedded::new()));
    assert!(failed.is_empty(), "failed: {failed:#?}");
}

#[test]
fn a_store_in_postgresql_keeps_as_much_of_the_contract_as_it_says() {
    let cluster = Cluster::shared().unwrap();
    let made = format!("CREATE DATABASE {SHARED}");
    cluster.run_sql("postgres", &[&made]).unwrap();
    let schemas = AtomicUsize::new(0);
    let failed = suite(TOO_LONG, || {
        let number = schemas.fetch_add(1, Ordering::Relaxed);
        Box::new(Served::new(&cluster, number))
    });
    let not_yet = NOT_YET.iter().flat_map(|(_, cases)| cases.iter().copied());
    // One that is done is to leave the list.
    assert_eq!(failed, not_yet.collect::<BTreeSet<_>>());
}

#[test]
fn a_database_holds_no_store_and_says_so_without_its_password() {
    let url = store::DatabaseUrl::parse("postgres://shop:secret@db.example/shop").unwrap();
    let place = store::StorePlace::from(url);
    let unfit = StoreError::PlaceUnfit {
        place: place.clone(),
    };
    let folder = Embedded::new();
    let options = || store::Options {
        place: place.clone(),
        ..options(&folder.directory())
    };
    assert_eq!(store::open(options()).err().as_ref(), Some(&unfit));
    assert_eq!(store::inspect(&place).err().as_ref(), Some(&unfit));
    assert_eq!(store::accept_loss(&place).err().as_ref(), Some(&unfit));
    let import = store::HistoryImport::begin(options()).err();
    let text = import.unwrap().to_string();
    assert_eq!(text, unfit.to_string());
    assert!(text.contains("database shop at db.example:5432"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn a_directory_is_opened_once_at_a_time() {
    let place = Embedded::new();
    let db = Db::open(&place);
    let second = store::open(options(&place.directory())).map(|_| ());
    assert_eq!(
        second,
        Err(StoreError::Locked {
            place: place.directory().into(),
            holder: None,
        })
    );
    db.close();
    Db::open(&place).close();
    // A store that was only dropped gives the directory up, too.
    drop(Db::open(&place));
    Db::open(&place).close();
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let place = Embedded::new();
    let mut db = Db::with_notes(&place);
    db.ok(vec![db.insert("a", note("one"))]);
    db.close();
    let file = place.directory().join("tidemark.db");
    let set_format = |format: i64| {
        let connection = rusqlite::Connection::open(&file).unwrap();
        connection
            .execute_batch(&format!("PRAGMA user_version = {format}"))
            .unwrap();
    };
    set_format(1_000);
    let refused = store::open(options(&place.directory()))
        .map(|_| ())
        .unwrap_err();
    let StoreError::Format { found, newest } = refused else {
        panic!("{refused}");
    };
    assert_eq!(found, 1_000);
    set_format(newest);
    assert_eq!(Db::open(&place).ids(), ["a"]);
}

#[test]
fn a_new_column_leaves_stale_bodies_to_the_upkeep() {
    let place = Embedded::new();
    let count = |sql: &str| -> i64 {
        let connection = rusqlite::Connection::open(place.directory().join("tidemark.db")).unwrap();
        connection.query_row(sql, (), |row| row.get(0)).unwrap()
    };
    let mut db = Db::with_notes(&place);
    db.ok(vec![
        db.insert("a", note("one")),
        db.insert("b", note("two")),
    ]);
    let extra = column(0, "extra", ColumnKind::Text, false);
    let epoch = change(&mut db, SchemaChange::AddColumn(extra)).schema_epoch;
    let stale = format!("SELECT count(*) FROM t1 WHERE body_epoch <> {epoch}");
    let left = "SELECT count(*) FROM upkeep";
    assert_eq!((count(&stale), count(left)), (2, 1));
    while block_on(db.store.run_upkeep()).unwrap() {}
    assert_eq!((count(&stale), count(left)), (0, 0));
}

/// The versions are numbered as if there were many of them.
fn pretend_many_versions(place: &Embedded) {
    let connection = rusqlite::Connection::open(place.directory().join("tidemark.db")).unwrap();
    connection
        .execute_batch("UPDATE t1_v SET rid = rid + 200000; UPDATE t1 SET rid = rid + 200000;")
        .unwrap();
}

/// Whether a table of links stands beside the rows of `notes`.
fn has_links_table(place: &Embedded) -> bool {
    let connection = rusqlite::Connection::open(place.directory().join("tidemark.db")).unwrap();
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name GLOB ?1)";
    let name = query::names::links_prefix(TableNumber(1)) + "*";
    connection.query_row(sql, [name], |row| row.get(0)).unwrap()
}

/// No read waits for the index of a relationship: a table of links does its work until it is there.
#[test]
fn a_relationship_of_many_versions_is_guarded_before_it_is_indexed() {
    for kind in [RelationKind::OneToOne, RelationKind::ManyToOne] {
        let place = Embedded::new();
        let mut db = Db::with_notes(&place);
        db.ok(vec![db.insert("old", note("old"))]);
        db.close();
        pretend_many_versions(&place);
        let mut db = Db::open(&place);
        relate(&mut db, kind, OnDelete::SetNull);
        let (notes, others) = (db.table(), db.table_called("others"));
        let index = notes.indexes.last().unwrap();
        assert_eq!(index.status, IndexStatus::Processing);
        assert!(has_links_table(&place) && notes.has_links_table(last(&notes)));
        for id in ["o1", "o2"] {
            db.ok(vec![insert(&others, id, Value::Null)]);
        }
        db.ok(vec![insert(&notes, "n1", link("o1"))]);
        let second = insert(&notes, "n2", link("o1"));
        let lead_to = |db: &Db, id: &str| holders(db, Test::In(vec![link(id)]), None);
        if kind == RelationKind::OneToOne {
            assert_eq!(index_of(db.refused(vec![second])), "k");
            assert_eq!(lead_to(&db, "o1"), ["n1"]);
        } else {
            db.ok(vec![second]);
            assert_eq!(lead_to(&db, "o1"), ["n1", "n2"]);
            db.ok(vec![delete(&notes, "n2")]);
        }
        db.ok(vec![delete(&others, "o1")]);
        assert_eq!(lead_to(&db, "o1"), <[&str; 0]>::default());
        assert_eq!(held(&db, "n1", None), Value::Null);
        let at = db.mark_of(insert(&notes, "n3", link("o2")));
        db.ok(vec![delete(&notes, "n3")]);
        db.ok(vec![insert(&notes, "n4", link("o2"))]);
        assert_eq!(lead_to(&db, "o2"), ["n4"]);
        let then = model::Coordinates {
            valid: at.timestamp(),
            system: at,
        };
        assert_eq!(holders(&db, Test::In(vec![link("o2")]), Some(then)), ["n3"]);

        let table = built(&mut db, index.number);
        assert_eq!(table.indexes.last().unwrap().status, IndexStatus::Available);
        assert!(!has_links_table(&place) && !table.has_links_table(last(&table)));
        assert_eq!(lead_to(&db, "o2"), ["n4"]);
        let third = insert(&table, "n5", link("o2"));
        if kind == RelationKind::OneToOne {
            assert_eq!(index_of(db.refused(vec![third])), "k");
        } else {
            db.ok(vec![third]);
        }
        db.ok(vec![delete(&others, "o2")]);
        assert_eq!(held(&db, "n4", None), Value::Null);
    }
}

/// Builds an index in its two halves; the table after it.
fn built(db: &mut Db, number: u32) -> Arc<Table> {
    let before = db.table();
    assert_eq!(change(db, SchemaChange::BuildIndex(number)), before);
    change(db, SchemaChange::BuildIndex(number))
}

#[test]
fn an_index_over_many_versions_waits_to_be_built() {
    let place = Embedded::new();
    let mut db = Db::with_notes(&place);
    for (id, count) in [("a", 2), ("b", 1), ("c", 3)] {
        let mut values = note(id);
        values[COUNT] = Value::Int(count);
        db.ok(vec![db.insert(id, values)]);
    }
    db.close();
    pretend_many_versions(&place);
    let mut db = Db::open(&place);
    let by_price = |key, kind| {
        let parts = [(PRICE, Direction::Asc), (COUNT, Direction::Desc)];
        SchemaChange::AddIndex(index(0, key, kind, &parts))
    };
    let table = change(&mut db, by_price("waits", IndexKind::Key));
    let number = table.indexes[2].number;
    assert_eq!(table.indexes[2].status, IndexStatus::Processing);
    // Meanwhile reads go on without it, and so do writes.
    let query = |db: &Db| Query {
        filter: Filter::Field(Field::Column(PRICE), Test::In(vec![Value::Float(0.1)])),
        order: vec![OrderKey {
            field: Field::Column(COUNT),
            direction: Direction::Desc,
        }],
        ..db.all()
    };
    let ids = |db: &Db| -> Vec<String> {
        let rows = db.list(&query(db)).rows;
        rows.iter().map(|row| row.id.to_string()).collect()
    };
    assert_eq!(ids(&db), ["c", "a", "b"]);
    db.ok(vec![db.update("b", vec![(COUNT, Value::Int(9))])]);
    db.close();
    let mut db = Db::open(&place);
    assert_eq!(db.table().indexes[2].status, IndexStatus::Processing);
    let table = built(&mut db, number);
    assert_eq!(table.indexes[2].status, IndexStatus::Available);
    assert!(table.indexes[2].updated > table.indexes[2].created);
    assert_eq!(ids(&db), ["b", "c", "a"]);
    // A unique one fails when it is built, and can be removed before and after.
    let unique = index(0, "fails", IndexKind::Unique, &[(PRICE, Direction::Asc)]);
    let table = change(&mut db, SchemaChange::AddIndex(unique.clone()));
    let waiting = table.indexes[3].number;
    change(&mut db, SchemaChange::DropIndex(waiting));
    let table = change(&mut db, SchemaChange::AddIndex(unique));
    let number = table.indexes[3].number;
    let table = built(&mut db, number);
    assert!(
        matches!(table.indexes[3].status, IndexStatus::Failed(_)),
        "{:?}",
        table.indexes[3]
    );
    change(&mut db, SchemaChange::DropIndex(number));
}

#[test]
fn another_programs_file_is_refused() {
    let place = Embedded::new();
    std::fs::create_dir(place.directory()).unwrap();
    let file = place.directory().join("tidemark.db");
    std::fs::write(
        &file,
        "this is no database, but long enough to be looked at".repeat(20),
    )
    .unwrap();
    let refused = store::open(options(&place.directory()))
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused}");
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let place = Embedded::new();
    std::fs::write(place.directory(), "").unwrap();
    let refused = store::open(options(&place.directory()))
        .map(|_| ())
        .unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains(&place.directory().display().to_string()),
        "{text}"
    );
}

#[test]
#[should_panic(expected = "marks rise strictly")]
fn a_mark_that_does_not_rise_is_our_own_mistake() {
    let place = Embedded::new();
    let mut db = Db::with_notes(&place);
    db.next = db.load().mark;
    db.ok(vec![db.insert("a", note("one"))]);
}

#[test]
fn a_closed_store_says_so() {
    let place = Embedded::new();
    let db = Db::with_notes(&place);
    let store = db.store.clone();
    let batches = [db.batch(vec![db.insert("a", note("one"))])];
    let next = db.next;
    db.close();
    let refused = block_on(store.apply(&batches, next))
        .map(|_| ())
        .unwrap_err();
    assert!(refused.to_string().contains("closed"), "{refused}");
    assert!(block_on(store.close(Mark(next.0))).is_err());
}
