use std::sync::Arc;

use model::{
    Catalogue, CatalogueChange, Column, ColumnKey, ColumnKind, ColumnNumber, Database, DatabaseId,
    DatabaseKind, Mark, Project, ProjectId, RowId, TableId, Timestamp,
};

use super::*;
use crate::Durability;
use crate::batch::{Op, RowAct, RowOp, Stamps, WriteBatch};
use crate::sqlite::checkpoint;
use crate::sqlite::commit::State;
use crate::sqlite::connection::{self, Location};
use crate::sqlite::kept::Keeping;
use crate::sqlite::migrate;
use crate::sqlite::schema::create_table;

fn encode(table: &Table, values: &[Value], out: &mut Vec<u8>) {
    out.extend(format!("{} {values:?}", table.schema_epoch).bytes());
}

fn table(schema_epoch: u64) -> Table {
    let column = Column {
        number: ColumnNumber(1),
        key: ColumnKey::new("title").unwrap(),
        kind: ColumnKind::Text,
        required: false,
        array: false,
        default: None,
        created: Timestamp(0),
        updated: Timestamp(0),
    };
    Table {
        number: TableNumber(1),
        project: ProjectId::new("p").unwrap(),
        database: DatabaseId::new("d").unwrap(),
        id: TableId::new("t").unwrap(),
        name: String::new(),
        enabled: true,
        row_security: false,
        permissions: vec![],
        columns: vec![column],
        indexes: vec![],
        created: Timestamp(0),
        updated: Timestamp(0),
        schema_epoch,
        permission_epoch: 1,
        options: model::TableOptions::default(),
    }
}

fn catalogue(table: &Table) -> Arc<Catalogue> {
    let mut catalogue = Catalogue::default();
    let project = Project {
        id: table.project.clone(),
        name: String::new(),
        created: Timestamp(0),
        databases: std::collections::HashMap::new(),
    };
    let database = Database {
        project: table.project.clone(),
        id: table.database.clone(),
        seq: 1,
        name: String::new(),
        kind: DatabaseKind::Tablesdb,
        enabled: true,
        created: Timestamp(0),
        updated: Timestamp(0),
        tables: std::collections::HashMap::new(),
    };
    catalogue.apply(CatalogueChange::ProjectPut(project));
    catalogue.apply(CatalogueChange::DatabasePut(database));
    catalogue.apply(CatalogueChange::TablePut(Arc::new(table.clone())));
    Arc::new(catalogue)
}

fn writer(directory: &std::path::Path, table: &Table) -> Writer {
    let file = directory.join("db");
    let location = Location {
        database: &file,
        vfs: None,
    };
    let mut connection = connection::open_writer(location, Durability::Normal).unwrap();
    migrate::migrate(&mut connection).unwrap();
    connection.execute_batch(&create_table(table)).unwrap();
    let (backlog, _checkpointer) = checkpoint::start(&mut connection, location, false).unwrap();
    let state = State {
        catalogue: catalogue(table),
        mark: Mark::ZERO,
        horizon: Mark::ZERO,
        number: 0,
        next_table: 2,
        next_database: 2,
        erased: 0,
        boundaries: Arc::default(),
        constraints: Arc::default(),
    };
    let keeping = Keeping::begin(directory, (Mark::ZERO, "l"), None, false);
    Writer::new(connection, encode, state, backlog, keeping).unwrap()
}

fn insert(table: &Table, number: i64) -> Op {
    Op::Row(RowOp {
        table: Arc::new(table.clone()),
        id: RowId::new(&format!("r{number}")).unwrap(),
        act: RowAct::Insert {
            values: vec![Value::Text(number.to_string())],
            permissions: vec![],
            stamps: Stamps::default(),
            guard: crate::Guard::Open,
        },
    })
}

#[test]
fn bodies_of_an_older_schema_are_encoded_again_in_slices() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(directory.path(), &table(1));
    let rows = (0..2_500).map(|number| insert(&table(1), number)).collect();
    let batch = WriteBatch {
        catalogue_epoch: 0,
        ops: rows,
        author: None,
        unchanged_since: None,
        note: None,
    };
    assert!(writer.apply(&[batch], Mark(1)).unwrap()[0].is_ok());
    writer.commit().unwrap();
    let bodies = |writer: &Writer, start: &str| -> i64 {
        let sql = "SELECT count(*) FROM t1 \
                   WHERE CAST(body AS TEXT) = ?1 || ' [Text(\"' || c1 || '\")]'";
        writer
            .connection
            .query_row(sql, [start], |row| row.get(0))
            .unwrap()
    };
    assert_eq!(bodies(&writer, "1"), 2_500);
    // The schema moves on, as a new column would make it.
    writer.committed.catalogue = catalogue(&table(2));
    let ask = "INSERT INTO upkeep (tab, task, seq) VALUES (1, ?1, 0)";
    writer
        .connection
        .execute(ask, [Task::Bodies.as_str()])
        .unwrap();
    let mut done = Vec::new();
    while writer.tend().unwrap() {
        done.push(bodies(&writer, "2"));
    }
    assert_eq!(done, [1_000, 2_000]);
    assert_eq!(bodies(&writer, "2"), 2_500);
    assert_eq!(writer.committed.mark, Mark(1), "upkeep takes no mark");
    assert!(!writer.tend().unwrap());
}
