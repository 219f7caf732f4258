//! How much may wait, and what deletion leaves of it.

mod suite;

use std::sync::Arc;

use futures_executor::block_on;
use model::{DeploymentId, FunctionDefinition, FunctionId, Mark, ProjectId, Timestamp};
use rusqlite::Connection;
use store::{
    CatalogueOp, ExecutionRefusal, ExecutionTrigger, FunctionName, FunctionOp, NewExecution, Op,
    QUEUED_BYTES_MAX, QUEUED_MAX, QueueBounds, QueueOp, QueuedCall, QueuedExecution, Refusal,
};
use suite::db::{Db, Directory, PROJECT, create_project, note};
use testing::OwnTurn;

const BOUNDS: QueueBounds = QueueBounds {
    count_max: QUEUED_MAX,
    bytes_max: QUEUED_BYTES_MAX,
};

fn function() -> FunctionName {
    FunctionName {
        project: ProjectId::new(PROJECT).unwrap(),
        id: FunctionId::new("f").unwrap(),
    }
}

fn new(id: usize, body: &Arc<[u8]>) -> NewExecution {
    NewExecution {
        function: function(),
        function_seq: 1,
        queued: QueuedExecution {
            seq: 0,
            id: format!("e{id}"),
            trigger: ExecutionTrigger::Http,
            deployment: DeploymentId::new("d").unwrap(),
            due: Timestamp(1),
            is_scheduled: false,
            attempt: 0,
            lease: None,
            method: "POST".to_owned(),
            path: "/".to_owned(),
            depth: 0,
            created: Timestamp(1),
            updated: Timestamp(1),
        },
        call: QueuedCall {
            headers: Vec::new(),
            body: body.clone(),
        },
    }
}

fn put(ids: std::ops::Range<usize>, body: &Arc<[u8]>, bounds: QueueBounds) -> Op {
    let all: Vec<NewExecution> = ids.map(|id| new(id, body)).collect();
    Op::Function(FunctionOp::Queue(QueueOp::Put(all.into(), bounds)))
}

fn delete(id: usize) -> Op {
    let (function, id) = (function(), format!("e{id}"));
    Op::Function(FunctionOp::DeleteExecution { function, id })
}

fn open(directory: &Directory) -> Db {
    let mut db = Db::open(directory);
    db.ok(vec![Op::Catalogue(create_project(PROJECT))]);
    let definition = FunctionDefinition::new("F".to_owned(), "node-22".to_owned());
    let create = CatalogueOp::CreateFunction(function(), Box::new(definition));
    db.ok(vec![Op::Catalogue(create)]);
    db
}

fn count(directory: &Directory, table: &str) -> i64 {
    let counted = directory.run_sql(&[&format!("SELECT count(*) FROM {table}")]);
    counted[0].parse().unwrap()
}

fn is_full(refused: &Refusal) -> bool {
    matches!(
        refused,
        Refusal::OfExecution(ExecutionRefusal::QueueFull(_))
    )
}

#[test]
fn queue_holds_as_many_as_it_may_and_what_goes_makes_room() {
    let directory = Directory::new();
    let mut db = open(&directory);
    let most = QUEUED_MAX as usize;
    let empty: Arc<[u8]> = Arc::default();
    db.ok(vec![put(0..most, &empty, BOUNDS)]);
    assert!(is_full(&db.refused(vec![put(
        most..most + 1,
        &empty,
        BOUNDS
    )])));
    db.ok(vec![delete(7)]);
    // All or none of a batch.
    assert!(is_full(&db.refused(vec![put(
        most..most + 2,
        &empty,
        BOUNDS
    )])));
    db.ok(vec![put(most..most + 1, &empty, BOUNDS)]);
    assert_eq!(count(&directory, "queued"), QUEUED_MAX as i64);
}

#[test]
fn queue_holds_as_many_bytes_as_it_may() {
    let directory = Directory::new();
    let mut db = open(&directory);
    let bounds = QueueBounds {
        bytes_max: 1_000,
        ..BOUNDS
    };
    let body: Arc<[u8]> = vec![1; 400].into();
    db.ok(vec![put(0..2, &body, bounds)]);
    assert!(is_full(&db.refused(vec![put(2..3, &body, bounds)])));
    db.ok(vec![delete(0)]);
    db.ok(vec![put(2..3, &body, bounds)]);
}

#[test]
fn bodies_of_a_deleted_function_go_in_slices_of_eight_mebibytes() {
    let directory = Directory::new();
    let mut db = open(&directory);
    let body: Arc<[u8]> = vec![1; 4 << 20].into();
    for id in 0..5 {
        db.ok(vec![put(id..id + 1, &body, BOUNDS)]);
    }
    // Nothing of a body can be read in the file.
    let call = "SELECT count(*) FROM queued_call WHERE instr(call, x'0101010101010101') > 0";
    let file = directory.0.path().join("data/tidemark.db");
    let plain: i64 = Connection::open(file)
        .unwrap()
        .query_row(call, (), |row| row.get(0))
        .unwrap();
    assert_eq!(plain, 0);
    db.ok(vec![Op::Catalogue(CatalogueOp::DeleteFunction(function()))]);
    assert_eq!(count(&directory, "queued"), 0);
    assert_eq!(
        count(&directory, "queued_call"),
        5,
        "readers wait for no body"
    );
    let mut slices = 0;
    while block_on(db.store.run_upkeep()).unwrap() {
        slices += 1;
    }
    assert_eq!(slices, 2);
    assert_eq!(count(&directory, "queued_call"), 0);
}

#[test]
fn cursor_of_a_file_of_format_20_goes_on() {
    let directory = Directory::new();
    let mut db = Db::with_notes(&directory);
    let mut marks: Vec<Mark> = Vec::new();
    for id in ["seen", "next", "last"] {
        marks.push(db.next);
        db.ok(vec![db.insert(id, note(id))]);
    }
    let table = db.table().number;
    db.close();
    let file = directory.0.path().join("data/tidemark.db");
    let older = format!(
        "DROP TABLE event_apart; DROP TABLE executions_old;
         INSERT INTO listening VALUES (1, 1);
         INSERT INTO event_cursor VALUES (1, {}, {}, 'seen'); PRAGMA user_version = 20;",
        marks[0].0, table.0
    );
    Connection::open(file)
        .unwrap()
        .execute_batch(&older)
        .unwrap();
    let db = Db::open(&directory);
    let changed = block_on(db.store.changed_rows(None, 9)).unwrap().unwrap();
    let ids: Vec<&str> = changed.rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids, ["next", "last"]);
    assert_eq!(changed.end.mark, marks[2]);
    assert!(changed.apart.is_empty());
    let of = ProjectId::new(PROJECT).unwrap();
    let apart = block_on(db.store.changed_rows(Some(&of), 9)).unwrap();
    assert_eq!(apart, None, "it goes with the rest");
}
