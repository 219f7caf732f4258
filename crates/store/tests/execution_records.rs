//! What is let go of the records of executions while their function does not run, and how much of
//! it at once.

mod suite;

use std::sync::Arc;

use futures_executor::block_on;
use model::{
    DeploymentId, FunctionChange, FunctionDefinition, FunctionId, FunctionOptionsChange, ProjectId,
    Timestamp,
};
use rusqlite::Connection;
use store::{
    CatalogueOp, ExecutionRecord, ExecutionStatus, ExecutionTrigger, FunctionName, FunctionOp, Op,
};
use suite::db::{Db, Directory, PROJECT, create_project};
use testing::OwnTurn;

const DAY_US: i64 = 24 * 3_600 * 1_000_000;

fn name(id: &str) -> FunctionName {
    FunctionName {
        project: ProjectId::new(PROJECT).unwrap(),
        id: FunctionId::new(id).unwrap(),
    }
}

/// Two functions: `f` is the first one, `g` the second.
fn open(directory: &Directory) -> Db {
    let mut db = Db::open(directory);
    db.ok(vec![Op::Catalogue(create_project(PROJECT))]);
    for id in ["f", "g"] {
        let definition = FunctionDefinition::new("F".to_owned(), "node-22".to_owned());
        let create = CatalogueOp::CreateFunction(name(id), Box::new(definition));
        db.ok(vec![Op::Catalogue(create)]);
    }
    db
}

fn record(id: String, created: Timestamp, logs: &str) -> ExecutionRecord {
    ExecutionRecord {
        seq: 0,
        id,
        trigger: ExecutionTrigger::Http,
        deployment: DeploymentId::new("d").unwrap(),
        status: ExecutionStatus::Completed,
        method: "POST".to_owned(),
        path: "/".to_owned(),
        request_headers: Vec::new(),
        response_status: 200,
        response_headers: Vec::new(),
        logs: logs.to_owned(),
        errors: String::new(),
        duration_us: 1,
        scheduled: None,
        created,
        updated: created,
    }
}

/// Keeps records of a function that are created now.
fn keep(db: &mut Db, (id, seq): (&str, i64), count: usize, logs: &str) {
    let now = Timestamp(db.next.0);
    let records = (0..count).map(|nth| {
        let record = record(format!("e{nth}at{}", now.0), now, logs);
        (name(id), seq, record)
    });
    let kept: Vec<_> = records.collect();
    db.ok(vec![Op::Function(FunctionOp::KeepExecutions(kept.into()))]);
}

fn trim(db: &mut Db) {
    let all = Arc::from([(name("f"), 1), (name("g"), 2), (name("gone"), 3)]);
    db.ok(vec![Op::Function(FunctionOp::TrimExecutions(all))]);
}

/// How many records are there of each function, by what stands in the file twice.
fn kept(directory: &Directory) -> Vec<(i64, i64)> {
    let file = directory.0.path().join("data/tidemark.db");
    let database = Connection::open(file).unwrap();
    let read = |sql: &str| -> Vec<(i64, i64, i64)> {
        let mut statement = database.prepare(sql).unwrap();
        let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    };
    let counted = read("SELECT function, count, bytes FROM execution_kept WHERE count > 0");
    let there = "SELECT function, count(*), sum(bytes) FROM execution GROUP BY function";
    assert_eq!(counted, read(there));
    counted.iter().map(|(id, count, _)| (*id, *count)).collect()
}

fn slices(db: &Db) -> usize {
    let mut slices = 0;
    while block_on(db.store.run_upkeep()).unwrap() {
        slices += 1;
    }
    slices
}

#[test]
fn records_that_are_old_go_in_slices_of_a_thousand_without_an_execution() {
    let directory = Directory::new();
    let mut db = open(&directory);
    keep(&mut db, ("f", 1), 2_500, "");
    keep(&mut db, ("g", 2), 5, "");
    db.next.0 += 13 * DAY_US;
    trim(&mut db);
    assert_eq!(slices(&db), 0, "they are kept for 14 days");
    keep(&mut db, ("g", 2), 7, "");
    db.next.0 += 2 * DAY_US;
    trim(&mut db);
    assert!(block_on(db.store.run_upkeep()).unwrap());
    assert_eq!(kept(&directory), [(1, 1_500), (2, 12)]);
    // As after a crash: nothing is said to the store, and the rest goes nevertheless.
    let next = db.next;
    drop(db);
    db = Db::open(&directory);
    db.next = next.max(db.next);
    // The rest of `f`, and, in another slice, that of `g`.
    assert_eq!(slices(&db), 2);
    assert_eq!(kept(&directory), [(2, 7)]);
    assert!(!block_on(db.store.run_upkeep()).unwrap());
}

/// Limits the records of `f`.
fn limit(records_max: Option<u32>, records_bytes_max: Option<u64>) -> Op {
    let options = FunctionOptionsChange {
        records_max,
        records_bytes_max,
        ..FunctionOptionsChange::default()
    };
    let change = FunctionChange {
        options: Some(options),
        ..FunctionChange::default()
    };
    Op::Catalogue(CatalogueOp::UpdateFunction(name("f"), Box::new(change)))
}

#[test]
fn records_beyond_a_lower_limit_go_when_it_is_set() {
    let directory = Directory::new();
    let mut db = open(&directory);
    keep(&mut db, ("f", 1), 1_200, "");
    db.ok(vec![limit(Some(30), None)]);
    slices(&db);
    assert_eq!(kept(&directory), [(1, 30)]);
    db.ok(vec![limit(Some(2_000), None)]);
    keep(&mut db, ("f", 1), 9, &"x".repeat(1_000_000));
    db.ok(vec![limit(None, Some(1 << 20))]);
    slices(&db);
    assert_eq!(kept(&directory), [(1, 1)]);
    // What a higher limit lets stay stays, also where its removal had begun.
    keep(&mut db, ("f", 1), 1_500, "");
    db.ok(vec![limit(Some(1), None)]);
    assert!(block_on(db.store.run_upkeep()).unwrap());
    db.ok(vec![limit(Some(2_000), None)]);
    slices(&db);
    assert_eq!(kept(&directory), [(1, 500)]);
}

#[test]
fn large_records_after_many_small_ones_leave_the_small_ones_to_the_upkeep() {
    let directory = Directory::new();
    let mut db = open(&directory);
    db.ok(vec![limit(None, Some(1 << 20))]);
    keep(&mut db, ("f", 1), 2_500, "");
    let large = "x".repeat(1_000_000);
    // Each makes way for itself as far as three small ones do.
    for _ in 0..8 {
        db.next.0 += 1;
        keep(&mut db, ("f", 1), 1, &large);
    }
    assert_eq!(slices(&db), 0, "less than a slice is not worth one");
    for _ in 0..4 {
        db.next.0 += 1;
        keep(&mut db, ("f", 1), 1, &large);
    }
    slices(&db);
    assert_eq!(kept(&directory), [(1, 1)]);
}

#[test]
fn records_of_a_deleted_function_go_though_some_were_too_old() {
    let directory = Directory::new();
    let mut db = open(&directory);
    keep(&mut db, ("f", 1), 1_500, "");
    db.next.0 += 15 * DAY_US;
    trim(&mut db);
    assert!(block_on(db.store.run_upkeep()).unwrap());
    db.ok(vec![Op::Catalogue(CatalogueOp::DeleteFunction(name("f")))]);
    slices(&db);
    assert_eq!(kept(&directory), []);
}
