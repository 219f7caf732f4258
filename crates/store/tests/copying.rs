//! Copying a store from a data directory into a schema of a PostgreSQL database.

#[path = "reads/oracle.rs"]
#[allow(dead_code, reason = "written for the lists of the embedded store")]
mod oracle;
mod suite;
mod target_database;
#[path = "reads/world.rs"]
#[allow(dead_code, reason = "written for the lists of the embedded store")]
mod world;

use std::path::Path;

use futures_executor::block_on;
use model::{Catalogue, Value};
use oracle::Known;
use store::{DatabaseStore, Loaded, StoreCopy, StoreError};
use suite::db::{self, Db, Directory};
use target_database::{Target, data_of};
use testing::OwnTurn;
use world::World;

impl Target {
    fn copy(&self, directory: &Path, schema: &str) -> Result<StoreCopy, StoreError> {
        StoreCopy::make(directory, (&self.url(schema), None), &mut |_| {})
    }

    #[track_caller]
    fn refused(&self, directory: &Path, schema: &str) -> StoreError {
        self.copy(directory, schema).err().expect("it is refused")
    }
}

/// What the directory says when it is opened.
fn loaded(place: &Directory) -> Loaded {
    let db = Db::open(place);
    let loaded = db.load();
    db.close();
    loaded
}

/// All of a catalogue, whatever the order of its maps.
fn lines(catalogue: &Catalogue) -> Vec<String> {
    let mut lines: Vec<String> = catalogue.keys().map(|key| format!("{key:?}")).collect();
    for project in catalogue.projects() {
        let named = (&project.id, &project.name, project.created);
        lines.push(format!("project {named:?}"));
        let functions = project.functions.values();
        lines.extend(functions.map(|function| format!("{function:?}")));
        for database in project.databases.values() {
            let named = (&database.id, &database.name, database.seq, database.kind);
            let state = (database.enabled, database.created, database.updated);
            lines.push(format!("database {named:?} {state:?}"));
            let tables = database.tables.values();
            lines.extend(tables.map(|table| format!("{table:?}")));
        }
    }
    lines.sort();
    lines
}

#[track_caller]
fn assert_alike(copy: &Loaded, original: &Loaded) {
    assert_eq!(lines(&copy.catalogue), lines(&original.catalogue));
    assert_eq!(copy.catalogue.epoch, original.catalogue.epoch);
    assert_eq!(copy.mark, original.mark);
    assert_eq!(copy.horizon, original.horizon);
    assert_eq!(copy.lineage, original.lineage);
    assert_eq!(copy.boundaries, original.boundaries);
}

/// Of the subjects that leave the most different things, by the names of their cases.
const COPIED: [&str; 5] = [
    "catalogue::a_reopened",
    "related::",
    "time::",
    "search::an_index",
    "schema::a_dropped",
];

#[test]
fn stores_that_the_suite_leaves_can_be_copied() {
    let target = Target::new("cases");
    let is_copied =
        |(_, (name, _)): &(usize, &suite::Case)| COPIED.iter().any(|start| name.starts_with(start));
    let cases = suite::CASES.iter().enumerate().filter(is_copied);
    for (position, (name, case)) in cases {
        let place = Directory::new();
        case(&place);
        if !data_of(&place).exists() {
            continue;
        }
        let original = loaded(&place);
        let schema = format!("s{position}");
        let copy = target.copy(&data_of(&place), &schema);
        let copy = copy.unwrap_or_else(|error| panic!("{name}: {error}"));
        let store = copy.release().unwrap();
        assert_eq!(store.lineage(), original.lineage, "{name}");
        assert_alike(&store.load().unwrap(), &original);
        target.sql(&format!(
            "SET client_min_messages = error; DROP SCHEMA {schema} CASCADE"
        ));
    }
}

#[test]
fn every_value_arrives_as_it_was() {
    let target = Target::new("values");
    let world = World::new(7, 200);
    let (table, stored) = (world.tables[0].clone(), world.now().rows[0].clone());
    let directory = world.directory.0.path().join("data");
    world.db.close();
    let copy = target.copy(&directory, "one").unwrap();
    assert!(copy.rows() > 1_000, "{}", copy.rows());
    copy.release().unwrap().close();
    for (key, value, sql) in [
        ("weights", Value::Float(5e-324), "5e-324"),
        ("weights", Value::Float(1e300), "1e300"),
        ("scores", Value::Int(i64::MAX), "9223372036854775807"),
        ("tags", Value::Text("a\"b".into()), "'a\"b'"),
    ] {
        let position = table.position(key).unwrap();
        let (number, column) = (table.number.0, table.columns[position].number.0);
        let among = format!("SELECT count(*) FROM one.t{number} WHERE {sql} = ANY (c{column})");
        let holds = |row: &&Known| match &row.values[position] {
            Value::List(values) => values.contains(&value),
            _ => false,
        };
        let expected = stored.iter().filter(holds).count();
        assert!(expected > 0, "{key} {sql}");
        assert_eq!(target.sql(&among), format!("{expected}\n"), "{key} {sql}");
    }
    // An index of the rows of now ends in `seq`, and orders nulls as lists do.
    let indexes = format!(
        "SELECT indexdef FROM pg_indexes WHERE tablename = 't{}'",
        table.number.0
    );
    let indexes = target.sql(&indexes);
    assert!(indexes.contains("NULLS FIRST, seq)"), "{indexes}");
}

/// A directory with a table and a row, which is closed.
fn notes() -> Directory {
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    db.ok(vec![db.insert("n1", db::note("first"))]);
    db.close();
    place
}

#[test]
fn a_copy_that_does_not_end_leaves_the_original_and_no_store() {
    let target = Target::new("ends");
    let place = notes();
    let original = loaded(&place);
    let directory = data_of(&place);
    let file = rusqlite::Connection::open(directory.join("tidemark.db")).unwrap();
    let set = |name: &str| {
        let sql = "UPDATE project SET name = ?1";
        file.execute(sql, [name]).unwrap();
    };
    set("a\0b");
    let refused = target.refused(&directory, "one");
    let text = refused.to_string();
    assert!(
        text.contains("`name` of `project` holds Text that is no text"),
        "{text}"
    );
    let rows = target.sql("SELECT count(*) FROM one.tx");
    assert_eq!(rows, "0\n", "one transaction");
    let open = || DatabaseStore::open(&target.url("one"), None);
    let unfinished = open().err().unwrap().to_string();
    assert!(
        unfinished.contains("moved into `one`, and that has not ended"),
        "{unfinished}"
    );
    // The same schema takes it once it can be copied; and until it is released it is no store.
    set("shop");
    drop(file);
    let copy = target.copy(&directory, "one").unwrap();
    assert!(matches!(open().err().unwrap(), StoreError::Locked { .. }));
    let held = store::open(db::options(&directory)).err().unwrap();
    assert!(matches!(held, StoreError::Locked { .. }), "{held:?}");
    drop(copy);
    let unfinished = open().err().unwrap().to_string();
    assert!(unfinished.contains("has not ended"), "{unfinished}");
    // Of another store it keeps no copy, nor does an earlier state of this one take its place.
    let other = target.refused(&data_of(&notes()), "one").to_string();
    assert!(other.contains("DROP SCHEMA \"one\" CASCADE"), "{other}");
    target.sql("UPDATE one.meta SET mark = mark + 1");
    let later = target.refused(&directory, "one").to_string();
    assert!(later.contains("a later state of this one"), "{later}");
    target.sql("UPDATE one.meta SET mark = mark - 1");
    let again = target.copy(&directory, "one").unwrap();
    assert!(again.rows() > 0);
    drop(again);
    let unfinished = open().err().unwrap().to_string();
    assert!(unfinished.contains("has not ended"), "{unfinished}");
    assert_eq!(
        lines(&loaded(&place).catalogue).len(),
        lines(&original.catalogue).len()
    );
}

#[test]
fn a_copy_goes_on_counting_the_bytes_of_its_tables() {
    let target = Target::new("counting");
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    let row = |n: usize| {
        let mut values = db::note(&format!("title {n}"));
        // A list counts as each database keeps it.
        values[5] = Value::Null;
        db.insert(&format!("n{n}"), values)
    };
    let rows = (0..2_500).map(row).collect();
    db.ok(rows);
    db.close();
    let directory = data_of(&place);
    let file = rusqlite::Connection::open(directory.join("tidemark.db")).unwrap();
    // As a directory has it that is older than the counters: in the middle of its second slice.
    file.execute_batch(
        "INSERT INTO upkeep (tab, task, seq) VALUES (1, 'count', 700); UPDATE table_bytes SET \
         bytes = (SELECT sum(100 + 4 * 8 + octet_length(c1) + octet_length(c7)) FROM t1_v \
         WHERE rid <= 700)",
    )
    .unwrap();
    drop(file);
    let url = target.url("one");
    let store = target.copy(&directory, "one").unwrap().release().unwrap();
    let options = store::Options {
        place: store::StorePlace::from(url),
        ..db::options(&directory)
    };
    let store = store.serve(&options, None, &directory).unwrap();
    let (left, counted) = (
        "SELECT count(*) FROM one.upkeep",
        "SELECT bytes FROM one.table_bytes",
    );
    assert_eq!(target.sql(left), "1\n");
    let mut slices = 0;
    while block_on(store.run_upkeep()).unwrap() {
        slices += 1;
    }
    assert_eq!((target.sql(left).as_str(), slices), ("0\n", 2));
    let all = "SELECT sum(100 + 4 * 8 + octet_length(c1) + octet_length(c7)) FROM one.t1_v";
    assert_eq!(target.sql(counted), target.sql(all));
    block_on(store.close(model::Mark::ZERO)).unwrap();
}

#[test]
fn rows_that_arrive_as_others_are_found() {
    let target = Target::new("altered");
    DatabaseStore::open(&target.url("one"), None)
        .unwrap()
        .close();
    target.sql(
        "CREATE FUNCTION one.alter_it() RETURNS trigger LANGUAGE plpgsql AS \
         $$BEGIN NEW.bytes = NEW.bytes + 1; RETURN NEW; END$$; \
         CREATE TRIGGER alter_it BEFORE INSERT ON one.table_bytes \
         FOR EACH ROW EXECUTE FUNCTION one.alter_it()",
    );
    let refused = target.refused(&data_of(&notes()), "one").to_string();
    assert!(refused.contains("of the table `table_bytes`"), "{refused}");
    target.sql("DROP TRIGGER alter_it ON one.table_bytes");
    target.copy(&data_of(&notes()), "one").unwrap();
}

#[test]
fn a_directory_that_is_open_and_one_without_a_store_are_refused() {
    let target = Target::new("sources");
    let place = Directory::new();
    let db = Db::with_notes(&place);
    let refused = target.refused(&data_of(&place), "one");
    assert!(matches!(refused, StoreError::Locked { .. }), "{refused:?}");
    db.close();
    let absent = place.0.path().join("absent");
    let refused = target.refused(&absent, "one");
    assert!(
        matches!(refused, StoreError::DatabaseMissing { .. }),
        "{refused:?}"
    );
    assert!(!absent.exists(), "looking makes nothing");
    let file = rusqlite::Connection::open(data_of(&place).join("tidemark.db")).unwrap();
    file.pragma_update(None, "user_version", 20).unwrap();
    drop(file);
    let refused = target.refused(&data_of(&place), "one");
    assert!(
        matches!(refused, StoreError::OlderFormat { .. }),
        "{refused:?}"
    );
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'one'";
    assert_eq!(target.sql(schemas), "0\n", "the database was not touched");
}
