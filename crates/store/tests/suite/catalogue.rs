//! Containers: projects, keys, databases, tables.

use std::collections::HashMap;
use std::sync::Arc;

use futures_executor::block_on;
use model::{
    ApiKey, Catalogue, Column, ColumnKind, Database, DatabaseId, DatabaseKind, Direction, Field,
    Grantee, IndexKind, KeyId, ProjectId, Scope, Table, TableId, Timestamp, Value,
};
use store::{CatalogueOp, Container, Listing, Op, Refusal, StoreError};

use super::db::{
    DATABASE, Db, PROJECT, Place, column, create_database, create_project, delete_table, index,
    listing, note, notes, notes_called,
};
use testing::OwnTurn;

fn project() -> ProjectId {
    ProjectId::new(PROJECT).unwrap()
}

fn database() -> DatabaseId {
    DatabaseId::new(DATABASE).unwrap()
}

fn key(id: &str, secret: u8) -> ApiKey {
    ApiKey {
        id: KeyId::new(id).unwrap(),
        project: project(),
        name: format!("Key {id}"),
        scopes: Arc::from([Scope::RowsRead, Scope::TablesWrite]),
        expires: Some(Timestamp(2_000_000_000_000_000)),
        secret_hash: [secret; 32],
        created: Timestamp(0),
    }
}

fn create_table(table: Table) -> CatalogueOp {
    CatalogueOp::CreateTable(Box::new(table))
}

fn rename_database(name: &str) -> CatalogueOp {
    CatalogueOp::UpdateDatabase {
        project: project(),
        id: database(),
        name: Some(name.to_owned()),
        enabled: None,
    }
}

/// An update of the table `notes` that keeps everything.
fn keep_table() -> CatalogueOp {
    CatalogueOp::UpdateTable {
        project: project(),
        database: database(),
        id: TableId::new("notes").unwrap(),
        name: None,
        permissions: None,
        row_security: None,
        enabled: None,
    }
}

fn update_table(change: impl FnOnce(&mut Table)) -> CatalogueOp {
    let mut wanted = notes();
    change(&mut wanted);
    CatalogueOp::UpdateTable {
        project: project(),
        database: database(),
        id: wanted.id,
        name: Some(wanted.name),
        permissions: Some(wanted.permissions),
        row_security: Some(wanted.row_security),
        enabled: Some(wanted.enabled),
    }
}

#[track_caller]
fn check_refused(db: &mut Db, op: CatalogueOp, refusal: &Refusal) {
    let before = db.load();
    assert_eq!(db.refused(vec![Op::Catalogue(op)]), *refusal);
    let after = db.load();
    assert_eq!(
        (after.mark, after.catalogue.epoch),
        (before.mark, before.catalogue.epoch)
    );
}

/// Everything a catalogue says, in an order of its own.
pub fn describe(catalogue: &Catalogue) -> String {
    let mut projects: Vec<_> = catalogue.projects().collect();
    projects.sort_by_key(|project| project.id.clone());
    let mut lines = vec![format!("epoch {}", catalogue.epoch)];
    for project in projects {
        lines.push(format!(
            "{} {} {:?}",
            project.id, project.name, project.created
        ));
        let mut databases: Vec<&Arc<Database>> = project.databases.values().collect();
        databases.sort_by_key(|database| database.seq);
        for database in databases {
            let mut tables: Vec<_> = database.tables.values().collect();
            tables.sort_by_key(|table| table.number);
            let alone = Database {
                tables: HashMap::new(),
                ..Database::clone(database)
            };
            lines.push(format!("{alone:?}\n{tables:#?}"));
        }
    }
    let mut keys: Vec<_> = catalogue.keys().collect();
    keys.sort_by_key(|key| key.secret_hash);
    lines.push(format!("{keys:?}"));
    lines.join("\n")
}

fn missing(container: Container) -> Refusal {
    let id = match container {
        Container::Project => PROJECT,
        Container::Database => DATABASE,
        Container::Table
        | Container::Key
        | Container::Function
        | Container::Variable
        | Container::Deployment => "notes",
    };
    Refusal::NotFound(container, id.to_owned())
}

pub fn containers_are_made_once_and_found(place: &dyn Place) {
    let mut db = Db::open(place);
    let exists = Refusal::Exists;
    check_refused(
        &mut db,
        create_database(DATABASE),
        &missing(Container::Project),
    );
    check_refused(
        &mut db,
        CatalogueOp::CreateKey(key("k", 1)),
        &missing(Container::Project),
    );
    db.ok(vec![Op::Catalogue(create_project(PROJECT))]);
    check_refused(
        &mut db,
        create_project(PROJECT),
        &exists(Container::Project),
    );
    check_refused(
        &mut db,
        create_table(notes()),
        &missing(Container::Database),
    );
    check_refused(&mut db, rename_database("x"), &missing(Container::Database));
    db.ok(vec![Op::Catalogue(create_database(DATABASE))]);
    check_refused(
        &mut db,
        create_database(DATABASE),
        &exists(Container::Database),
    );
    check_refused(&mut db, keep_table(), &missing(Container::Table));
    check_refused(&mut db, delete_table("notes"), &missing(Container::Table));
    let applied = db.ok(vec![Op::Catalogue(create_table(notes()))]);
    check_refused(&mut db, create_table(notes()), &exists(Container::Table));
    let table = db.table();
    let now = applied.mark.unwrap().timestamp().cut_to_ms();
    assert_eq!((table.created, table.updated), (now, now));
    assert!(
        table
            .columns
            .iter()
            .all(|column| column.created == now && column.updated == now)
    );
    assert!(
        table
            .indexes
            .iter()
            .all(|index| index.created == now && index.updated == now)
    );
    assert!(table.number.0 > 0);
    // Everything at once, in one batch.
    let other = DatabaseId::new("other").unwrap();
    let inside = Table {
        database: other.clone(),
        ..notes()
    };
    db.ok(vec![
        Op::Catalogue(create_database("other")),
        Op::Catalogue(create_table(inside)),
    ]);
    let other = &db.catalogue.project(PROJECT).unwrap().databases[&other];
    assert!(other.tables.contains_key("notes"));
    assert!(other.seq > db.database().seq);
}

pub fn an_update_changes_what_it_names(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let before = db.table();
    let op = update_table(|table| {
        table.name = "Renamed".into();
        table.permissions = Grantee::Table.parse(["read(\"any\")"]).unwrap();
        table.row_security = false;
        table.enabled = false;
    });
    db.ok(vec![Op::Catalogue(op)]);
    let after = db.table();
    assert_eq!(
        (after.name.as_str(), after.row_security, after.enabled),
        ("Renamed", false, false)
    );
    assert_eq!(
        after.permissions,
        Grantee::Table.parse(["read(\"any\")"]).unwrap()
    );
    assert_eq!(
        (after.number, after.created),
        (before.number, before.created)
    );
    assert_eq!(
        (&after.columns, &after.indexes),
        (&before.columns, &before.indexes)
    );
    assert!(after.updated > before.updated);
    db.ok(vec![Op::Catalogue(rename_database("Other"))]);
    assert_eq!(db.database().name, "Other");
    assert!(db.database().enabled);
    assert!(db.database().updated > db.database().created);
    assert_eq!(db.table(), after, "what a container holds is kept");
    assert_eq!(describe(&db.load().catalogue), describe(&db.catalogue));
}

pub fn epochs_rise_with_real_changes_only(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let table = db.table();
    for op in [
        keep_table(),
        update_table(|_| {}),
        rename_database("Database d1"),
    ] {
        let epoch = db.catalogue.epoch;
        let applied = db.ok(vec![Op::Catalogue(op)]);
        assert_eq!(applied.mark, None);
        assert!(applied.catalogue.is_empty());
        assert_eq!(applied.catalogue_epoch, epoch);
    }
    assert_eq!(db.table(), table);
    let mut step = |change: &dyn Fn(&mut Table)| {
        let before = (db.catalogue.epoch, db.table());
        db.ok(vec![Op::Catalogue(update_table(change))]);
        assert!(db.catalogue.epoch > before.0);
        assert_eq!(db.table().schema_epoch, before.1.schema_epoch);
        db.table().permission_epoch > before.1.permission_epoch
    };
    assert!(!step(&|table| table.name = "Renamed".into()));
    assert!(step(&|table| {
        table.name = "Renamed".into();
        table.row_security = false;
    }));
    assert!(step(&|table| {
        table.name = "Renamed".into();
        table.permissions.clear();
    }));
    let row = db.insert("a", note("one"));
    let epoch = db.catalogue.epoch;
    assert_eq!(
        db.ok(vec![row]).catalogue_epoch,
        epoch,
        "rows are no part of the catalogue"
    );
    // A table that is created again shares no epoch with the one before.
    let before = db.table();
    db.ok(vec![Op::Catalogue(delete_table("notes"))]);
    db.ok(vec![Op::Catalogue(create_table(notes()))]);
    assert!(db.table().schema_epoch > before.schema_epoch);
    assert!(db.table().permission_epoch > before.permission_epoch);
}

pub fn deletion_takes_all_that_was_inside(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    db.ok(vec![Op::Catalogue(CatalogueOp::CreateKey(key("k", 1)))]);
    db.ok(vec![db.insert("a", note("one"))]);
    db.ok(vec![Op::Catalogue(create_database("second"))]);
    db.ok(vec![Op::Catalogue(CatalogueOp::DeleteDatabase(
        project(),
        database(),
    ))]);
    assert!(
        !db.catalogue
            .project(PROJECT)
            .unwrap()
            .databases
            .contains_key(DATABASE)
    );
    assert_eq!(describe(&db.load().catalogue), describe(&db.catalogue));
    // Under the old names everything starts again, empty.
    db.ok(vec![Op::Catalogue(create_database(DATABASE))]);
    db.ok(vec![Op::Catalogue(create_table(notes()))]);
    assert_eq!(db.get("a"), None);
    db.ok(vec![db.insert("a", note("two"))]);
    db.ok(vec![Op::Catalogue(CatalogueOp::DeleteProject(project()))]);
    assert!(db.catalogue.project(PROJECT).is_none());
    assert_eq!(db.catalogue.keys().count(), 0);
    assert_eq!(describe(&db.load().catalogue), describe(&db.catalogue));
    let gone = Refusal::NotFound(Container::Project, PROJECT.to_owned());
    check_refused(&mut db, CatalogueOp::DeleteProject(project()), &gone);
    db.ok(vec![Op::Catalogue(create_project(PROJECT))]);
    assert!(db.catalogue.project(PROJECT).unwrap().databases.is_empty());
    while block_on_tend(&db) {}
    db.close();
    let db = Db::open(place);
    assert_eq!(db.catalogue.projects().count(), 1);
}

fn block_on_tend(db: &Db) -> bool {
    futures_executor::block_on(db.store.run_upkeep()).unwrap()
}

pub fn numbers_are_never_given_twice(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let mut numbers = vec![db.table().number];
    let mut seqs = vec![db.database().seq];
    for round in 0..3 {
        db.ok(vec![Op::Catalogue(CatalogueOp::DeleteDatabase(
            project(),
            database(),
        ))]);
        if round == 1 {
            while block_on_tend(&db) {}
            db.close();
            db = Db::open(place);
        }
        db.ok(vec![Op::Catalogue(create_database(DATABASE))]);
        db.ok(vec![Op::Catalogue(create_table(notes()))]);
        numbers.push(db.table().number);
        seqs.push(db.database().seq);
    }
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    assert!(seqs.is_sorted_by(|a, b| a < b), "{seqs:?}");
}

pub fn operations_checked_under_another_catalogue_are_refused(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let stale = db.batch(vec![db.insert("a", note("one"))]);
    let rename = db.batch(vec![Op::Catalogue(rename_database("Other"))]);
    let query = db.all();
    // In one group, the change comes between.
    let outcomes = db.commit(&[stale.clone(), rename, stale.clone()]);
    assert!(outcomes[0].is_ok() && outcomes[1].is_ok());
    assert_eq!(*outcomes[2].as_ref().unwrap_err(), Refusal::CatalogueMoved);
    let outcome = db.commit(&[stale]).remove(0);
    assert_eq!(outcome.unwrap_err(), Refusal::CatalogueMoved);
    // In one batch, too.
    let ops = vec![
        Op::Catalogue(rename_database("Third")),
        db.insert("b", note("two")),
    ];
    assert_eq!(db.refused(ops), Refusal::CatalogueMoved);
    // Operations on containers are judged by what is there; they may come late.
    let late = store::WriteBatch {
        catalogue_epoch: 0,
        ..db.batch(vec![])
    };
    let late = store::WriteBatch {
        ops: vec![Op::Catalogue(create_database("late"))],
        ..late
    };
    assert!(db.commit(&[late]).remove(0).is_ok());
    // A reader with the old catalogue gets an error.
    assert_eq!(db.ids(), ["a"]);
    let epoch = db.catalogue.epoch;
    db.catalogue.epoch = epoch - 1;
    assert_eq!(db.try_list(&query).unwrap_err(), StoreError::CatalogueMoved);
    let point = db.try_get("a", None, &query::Visibility::Everything);
    assert_eq!(point.unwrap_err(), StoreError::CatalogueMoved);
    // Also where its rows would be too large: under the new one they may not be.
    let small = Listing {
        bytes_max: 0,
        ..listing(&query, db.catalogue.epoch)
    };
    let refused = block_on(db.store.list(small)).unwrap_err();
    assert_eq!(refused, StoreError::CatalogueMoved);
}

/// A column of every kind, with and without a default.
fn rich_columns() -> Vec<Column> {
    let float = |min, max| ColumnKind::Float { min, max };
    let elements: Arc<[String]> = ["a".to_owned(), "b\"\n".to_owned()].into();
    let list = Value::List(vec![Value::Text("a".into())]);
    let kinds = [
        (
            ColumnKind::String { chars_max: 9 },
            false,
            Some(Value::Text("d'\"".into())),
        ),
        (ColumnKind::Varchar { chars_max: 16_381 }, true, Some(list)),
        (ColumnKind::Text, false, None),
        (ColumnKind::Mediumtext, false, None),
        (ColumnKind::Longtext, false, None),
        (
            ColumnKind::Integer { min: -5, max: 5 },
            false,
            Some(Value::Int(-5)),
        ),
        (
            ColumnKind::Bigint {
                min: i64::MIN,
                max: i64::MAX,
            },
            false,
            Some(Value::Int(i64::MIN)),
        ),
        (float(-0.1, 1e300), false, Some(Value::Float(0.1))),
        (float(f64::MIN, f64::MAX), true, None),
        (float(0.0, 10.0), false, Some(Value::Float(10.0))),
        (ColumnKind::Boolean, false, Some(Value::Bool(true))),
        (ColumnKind::Email, false, None),
        (ColumnKind::Url, false, None),
        (ColumnKind::Ip, true, None),
        (
            ColumnKind::Enum { elements },
            false,
            Some(Value::Text("b\"\n".into())),
        ),
        (
            ColumnKind::Datetime,
            false,
            Some(Value::Instant(Timestamp(-1_000))),
        ),
        (ColumnKind::Datetime, true, None),
    ];
    kinds
        .into_iter()
        .enumerate()
        .map(|(position, (kind, array, default))| {
            let number = position as u32 + 1;
            let mut column = column(number, &format!("col{number}"), kind, array);
            column.default = default;
            column.required = position % 3 == 2;
            column
        })
        .collect()
}

/// A table with everything a definition can say.
fn rich_table() -> Table {
    let mut everything = index(7, "all-fields", IndexKind::Unique, &[(5, Direction::Desc)]);
    for field in [Field::Id, Field::Sequence, Field::Created, Field::Updated] {
        everything.columns.push(model::IndexColumn {
            field,
            direction: Direction::Asc,
            length: Some(12),
            held: (field == Field::Created).then_some(7),
        });
    }
    let mut table = notes_called("rich");
    table.columns = rich_columns();
    table.indexes = vec![
        index(3, "plain", IndexKind::Key, &[(0, Direction::Asc)]),
        everything,
    ];
    table.permissions = Grantee::Table
        .parse(["read(\"any\")", "write(\"team:red/owner\")"])
        .unwrap();
    table
}

pub fn a_reopened_store_knows_everything(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let lineage = db.load().lineage;
    assert_eq!(lineage.len(), 32, "{lineage}");
    let legacy = CatalogueOp::CreateDatabase {
        project: project(),
        id: DatabaseId::new("legacy").unwrap(),
        name: "über \"quoted\"".into(),
        enabled: false,
        kind: DatabaseKind::Legacy,
    };
    for op in [
        create_table(rich_table()),
        legacy,
        CatalogueOp::CreateKey(key("k1", 1)),
        CatalogueOp::CreateKey(ApiKey {
            expires: None,
            scopes: Arc::new([]),
            ..key("k2", 2)
        }),
        update_table(|table| table.enabled = false),
        create_project("p2"),
    ] {
        db.ok(vec![Op::Catalogue(op)]);
    }
    db.ok(vec![db.insert("a", note("one"))]);
    let (mark, known) = (db.load().mark, describe(&db.catalogue));
    assert_eq!(describe(&db.load().catalogue), known);
    db.close();
    let mut db = Db::open(place);
    let loaded = db.load();
    assert_eq!(describe(&loaded.catalogue), known);
    assert_eq!((loaded.mark, loaded.lineage), (mark, lineage));
    assert_eq!(db.ids(), ["a"]);
    assert!(db.mark_of(db.insert("b", note("two"))) > mark);
}

pub fn keys_are_unique_by_id_and_by_secret(place: &dyn Place) {
    let mut db = Db::open(place);
    db.ok(vec![Op::Catalogue(create_project(PROJECT))]);
    let applied = db.ok(vec![Op::Catalogue(CatalogueOp::CreateKey(key("k", 1)))]);
    let found = db.catalogue.key(&[1; 32]).unwrap();
    assert_eq!(found.created, applied.mark.unwrap().timestamp().cut_to_ms());
    let exists = Refusal::Exists(Container::Key);
    check_refused(&mut db, CatalogueOp::CreateKey(key("k", 2)), &exists);
    check_refused(&mut db, CatalogueOp::CreateKey(key("other", 1)), &exists);
    let revoke = CatalogueOp::RevokeKey(project(), KeyId::new("k").unwrap());
    db.ok(vec![Op::Catalogue(revoke.clone())]);
    assert!(db.catalogue.key(&[1; 32]).is_none());
    assert_eq!(db.load().catalogue.keys().count(), 0);
    let gone = Refusal::NotFound(Container::Key, "k".to_owned());
    check_refused(&mut db, revoke, &gone);
    db.ok(vec![Op::Catalogue(CatalogueOp::CreateKey(key("k", 1)))]);
}
