use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::{
    Catalogue, CatalogueChange, ColumnKind, Database, DatabaseKind, Direction, Field, Index,
    IndexColumn, IndexKey, IndexKind, IndexStatus, Mark, Project, RowId, Timestamp,
};
use rusqlite::wal::CheckpointMode;
use testing::{plain_column, plain_table};

use super::*;
use crate::Durability;
use crate::batch::{Op, WriteBatch};
use crate::laws::growth::Growth;
use crate::laws::state::State;
use crate::row_op::{RowAct, RowOp, Stamps};
use crate::sqlite::disk::checkpoint;
use crate::sqlite::disk::connection::{self, Location};
use crate::sqlite::disk::kept::Keeping;
use crate::sqlite::disk::keys::vault_of;
use crate::sqlite::schema::migrate;
use crate::sqlite::schema::tables::create_table;
use crate::vault::Vault;

pub(crate) fn encode(table: &Table, values: &[Value], out: &mut Vec<u8>) {
    out.extend(format!("{} {values:?}", table.schema_epoch).bytes());
}

fn table(schema_epoch: u64) -> Table {
    let column = plain_column(1, "title", ColumnKind::Text);
    Table {
        schema_epoch,
        ..plain_table("t", vec![column])
    }
}

pub(crate) fn catalogue(table: &Table) -> Arc<Catalogue> {
    let mut catalogue = Catalogue::default();
    let project = Project {
        id: table.project.clone(),
        name: String::new(),
        created: Timestamp(0),
        databases: std::collections::HashMap::new(),
        functions: std::collections::HashMap::new(),
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

pub(crate) fn writer(directory: &std::path::Path, table: &Table) -> Writer {
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
        is_sealing: false,
        growth: Growth::default(),
    };
    let keeping = Keeping::begin(directory, (Mark::ZERO, "l"), None, false);
    let coding = Coding {
        encode_row: encode,
        vault: Arc::new(vault_of(directory, &connection).unwrap()),
        variables: Arc::new(Vault::of_variables(directory)),
    };
    Writer::new(connection, coding, state, backlog, keeping).unwrap()
}

fn insert(table: &Table, number: i64) -> Op {
    insert_of(table, number, Value::Text(number.to_string()))
}

fn insert_of(table: &Table, number: i64, value: Value) -> Op {
    Op::Row(RowOp::now(
        Arc::new(table.clone()),
        RowId::new(&format!("r{number}")).unwrap(),
        RowAct::Insert {
            values: vec![value],
            permissions: vec![],
            stamps: Stamps::default(),
            guard: crate::Guard::Open,
        },
    ))
}

fn batch(ops: Vec<Op>) -> WriteBatch {
    WriteBatch {
        catalogue_epoch: 0,
        ops,
        author: None,
        unchanged_since: None,
        meta: None,
        noted_in: None,
        space: crate::batch::SpaceLimit::Any,
    }
}

fn commit(writer: &mut Writer, mark: i64, ops: Vec<Op>) {
    let outcomes = writer.apply(&[batch(ops)], Mark(mark)).unwrap();
    assert!(outcomes[0].is_ok(), "{:?}", outcomes[0]);
    writer.commit().unwrap();
}

fn count(writer: &Writer, sql: &str) -> usize {
    let read = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
    writer.connection.query_row(sql, (), read).unwrap() as usize
}

/// A row of a mebibyte, of which a slice takes eight.
fn large() -> Value {
    Value::Text("x".repeat(1 << 20))
}

/// How many of `sql` there are left after each slice of `task`.
fn run_to_end(writer: &mut Writer, task: Task, sql: &str) -> Vec<usize> {
    let ask = "INSERT INTO upkeep (tab, task, seq) VALUES (1, ?1, 0)";
    writer.connection.execute(ask, [task.as_str()]).unwrap();
    let mut left = Vec::new();
    while writer.run_upkeep().unwrap() {
        left.push(count(writer, sql));
    }
    left.push(count(writer, sql));
    left
}

#[test]
fn a_group_of_requests_stamps_snapshots_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(directory.path(), &table(1));
    let stamped = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&stamped);
    let note = move |_, _: &str, table: &str, _| {
        counter.fetch_add(usize::from(table == "meta"), Ordering::Relaxed);
    };
    writer.connection.update_hook(Some(note)).unwrap();
    let requests = [1, 2, 2, 3].map(|number| batch(vec![insert(&table(1), number)]));
    let outcomes = writer.apply(&requests, Mark(10)).unwrap();
    let are_done: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(are_done, [true, true, false, true]);
    writer.commit().unwrap();
    assert_eq!(stamped.load(Ordering::Relaxed), 1);
    assert_eq!(count(&writer, "SELECT mark FROM meta"), 12);
    assert_eq!(count(&writer, "SELECT max(tt) FROM tx"), 12);

    let refused = batch(vec![insert(&table(1), 1)]);
    assert!(writer.apply(&[refused], Mark(20)).unwrap()[0].is_err());
    writer.commit().unwrap();
    assert_eq!(stamped.load(Ordering::Relaxed), 1, "nothing has changed");
}

/// Two columns, with so many indexes over the first one.
fn indexed(indexes: u32) -> Table {
    let column = |number, key| plain_column(number, key, ColumnKind::Text);
    let index = |number: u32| Index {
        number,
        key: IndexKey::new(&format!("i{number}")).unwrap(),
        kind: IndexKind::Key,
        columns: vec![IndexColumn {
            field: Field::Column(0),
            direction: Direction::Asc,
            length: None,
            held: None,
        }],
        status: IndexStatus::Available,
        created: Timestamp(0),
        updated: Timestamp(0),
    };
    Table {
        indexes: (1..=indexes).map(index).collect(),
        ..plain_table("t", vec![column(1, "a"), column(2, "b")])
    }
}

/// Pages that the change of the column without an index writes to the log.
fn pages_of_a_change(table: &Table) -> u32 {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(directory.path(), table);
    let text = |text: &str| Value::Text(text.to_owned());
    let act = |act| {
        let (table, id) = (Arc::new(table.clone()), RowId::new("r").unwrap());
        vec![Op::Row(RowOp::now(table, id, act))]
    };
    let (permissions, stamps, guard) = (vec![], Stamps::default(), crate::Guard::Open);
    let insert = RowAct::Insert {
        values: vec![text("x"), text("y")],
        permissions,
        stamps,
        guard: guard.clone(),
    };
    commit(&mut writer, 1, act(insert));
    let carry_over = |writer: &Writer| {
        let (pages, carried) = writer
            .connection
            .wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE)
            .unwrap();
        assert_eq!(pages, carried, "the next commit begins the log anew");
        pages.unsigned_abs()
    };
    carry_over(&writer);
    let update = RowAct::Update {
        patch: vec![(1, text("z"))].into(),
        permissions: None,
        stamps,
        guard,
    };
    commit(&mut writer, 2, act(update));
    let found = "SELECT count(*) FROM t1 WHERE c1 = 'x' AND c2 = 'z'";
    assert_eq!(count(&writer, found), 1);
    carry_over(&writer)
}

#[test]
fn a_change_writes_the_indexes_of_versions_and_not_those_of_rows_whose_values_stay() {
    let [one, three] = [1, 3].map(|indexes| pages_of_a_change(&indexed(indexes)));
    assert_eq!(three - one, 2);
}

fn encode_early(_: &Table, _: &[Value], out: &mut Vec<u8>) {
    out.extend_from_slice(b"early");
}

#[test]
fn bodies_of_few_inserted_rows_are_those_that_the_batch_brings_along() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(directory.path(), &table(1));
    let inserts = |numbers: std::ops::Range<i64>| {
        let mut batch = batch(numbers.map(|number| insert(&table(1), number)).collect());
        let rows = batch.ops.len();
        let before = batch.bytes();
        batch.encode_bodies(encode_early);
        ((batch.bytes() - before) / rows, batch)
    };
    let ((of_few, few), (of_many, many)) = (inserts(0..3), inserts(100..300));
    assert_eq!((of_few, of_many), ("early".len(), 0));
    let outcomes = writer.apply(&[few, many], Mark(1)).unwrap();
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    writer.commit().unwrap();
    let early = "SELECT count(*) FROM t1 WHERE CAST(body AS TEXT) = 'early'";
    assert_eq!(count(&writer, early), 3);
    assert_eq!(count(&writer, "SELECT count(*) FROM t1"), 203);
}

#[test]
fn a_slice_of_upkeep_ends_with_the_row_that_fills_its_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(directory.path(), &table(1));
    let id = |n: i64| RowId::new(&format!("r{n}")).unwrap();
    let insert = |n| insert_of(&table(1), n, large());
    commit(&mut writer, 1, (0..20).map(insert).collect());
    writer.committed.catalogue = catalogue(&table(2));
    let stale = "SELECT count(*) FROM t1 WHERE body_epoch = 1";
    assert_eq!(run_to_end(&mut writer, Task::Bodies, stale), [12, 4, 0]);

    let empty = |n| {
        Op::Row(RowOp::now(
            Arc::new(table(2)),
            id(n),
            RowAct::Update {
                patch: vec![(0, Value::Null)].into(),
                permissions: None,
                stamps: Stamps::default(),
                guard: crate::Guard::Open,
            },
        ))
    };
    commit(&mut writer, 2, (0..20).map(empty).collect());
    let mut forgetful = table(2);
    forgetful.options.kept_from = Timestamp(2);
    writer.committed.catalogue = catalogue(&forgetful);
    let old = "SELECT count(*) FROM t1_v WHERE octet_length(c1) > 0";
    assert_eq!(count(&writer, old), 20);
    assert_eq!(run_to_end(&mut writer, Task::Forget, old), [12, 4, 0]);
}

#[test]
fn scheduled_rows_come_in_by_steps_until_their_bytes_are_full() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(directory.path(), &table(1));
    let later = Timestamp(100);
    let begins = |n: i64| {
        Op::Row(
            crate::RowOp::over(
                Arc::new(table(1)),
                RowId::new(&format!("r{n}")).unwrap(),
                model::history::Range {
                    from: Some(later),
                    until: model::history::Until::Open,
                },
                crate::RowAct::Replace {
                    values: vec![large()],
                    permissions: None,
                    guard: crate::Guard::Open,
                },
            )
            .literal(),
        )
    };
    let rows = 3 * STEP_ROWS as i64;
    commit(&mut writer, 1, (0..rows).map(begins).collect());
    let shown = "SELECT count(*) FROM t1";
    assert_eq!(count(&writer, shown), 0);
    let mut seen = Vec::new();
    while count(&writer, shown) < rows as usize {
        writer.begin_due(later).unwrap();
        writer.commit().unwrap();
        seen.push(count(&writer, shown));
    }
    assert_eq!(seen, [STEP_ROWS, 2 * STEP_ROWS, 3 * STEP_ROWS]);
}

#[test]
fn bodies_of_an_older_schema_are_encoded_again_in_slices() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(directory.path(), &table(1));
    let rows = (0..2_500).map(|number| insert(&table(1), number)).collect();
    commit(&mut writer, 1, rows);
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
    while writer.run_upkeep().unwrap() {
        done.push(bodies(&writer, "2"));
    }
    assert_eq!(done, [1_000, 2_000]);
    assert_eq!(bodies(&writer, "2"), 2_500);
    assert_eq!(writer.committed.mark, Mark(1), "upkeep takes no mark");
    assert!(!writer.run_upkeep().unwrap());
}
