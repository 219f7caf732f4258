//! Executions that wait: under a lease, until their function goes, deleted, without their key. What
//! becomes of them where the server dies is the subject of `delivery.rs`.

mod fixture;

use std::sync::Arc;

use engine::{
    Engine, EngineError, ExecutionRecord, ExecutionStatus, ExecutionTrigger, FunctionError,
    ListContainers, QueuedRequest, STARTS_MAX, StoreError,
};
use fixture::functions::make_function;
use fixture::{NEW_YEAR_US, TickingClock, furnish, key, open};
use futures_executor::block_on;
use model::{Function, Timestamp};
use tempfile::TempDir;

const SECOND_US: i64 = 1_000_000;

struct World {
    directory: TempDir,
    clock: Arc<TickingClock>,
    engine: Arc<Engine>,
}

fn request(id: &str, due: Option<Timestamp>) -> QueuedRequest {
    QueuedRequest {
        id: id.to_owned(),
        trigger: ExecutionTrigger::Http,
        due,
        method: "POST".to_owned(),
        path: "/".to_owned(),
        headers: vec![("x-id".to_owned(), id.to_owned())],
        body: Arc::from(id.as_bytes()),
        depth: 0,
    }
}

fn function(engine: &Engine) -> Arc<Function> {
    engine.may_execute(&key(), "f").unwrap()
}

fn records(engine: &Engine) -> Vec<ExecutionRecord> {
    let all = ListContainers {
        texts: &[r#"{"method":"limit","values":[5000]}"#.to_owned()],
        search: "",
        total: true,
    };
    block_on(engine.list_executions(&key(), "f", all))
        .unwrap()
        .items
}

impl World {
    fn new() -> World {
        let directory = tempfile::tempdir().unwrap();
        let clock = TickingClock::at(NEW_YEAR_US);
        let engine = open(directory.path(), clock.clone());
        furnish(&engine);
        make_function(&engine, "f");
        World {
            directory,
            clock,
            engine,
        }
    }

    fn queue(&self, id: &str) {
        let queued = request(id, None);
        let function = function(&self.engine);
        block_on(self.engine.queue_execution(&key(), &function, queued)).unwrap();
    }
}

#[test]
fn lease_that_has_ended_lets_another_start_begin() {
    let world = World::new();
    world.queue("a");
    for attempt in 1..=STARTS_MAX {
        let started = block_on(world.engine.start_executions(&[], 9)).unwrap();
        assert_eq!(started.len(), 1);
        assert_eq!(started[0].queued.attempt, attempt);
        let again = block_on(world.engine.start_executions(&[], 9)).unwrap();
        assert!(again.is_empty(), "it is leased");
        world.clock.step_us(31 * SECOND_US);
    }
    let none = block_on(world.engine.start_executions(&[], 9)).unwrap();
    assert!(none.is_empty());
    let record = &records(&world.engine)[0];
    assert_eq!(record.status, ExecutionStatus::Failed);
    assert!(record.errors.contains("three times"), "{}", record.errors);
}

#[test]
fn queue_of_a_function_goes_with_it() {
    let world = World::new();
    for id in ["a", "b", "c"] {
        world.queue(id);
    }
    block_on(world.engine.delete_function(&key(), "f")).unwrap();
    let none = block_on(world.engine.start_executions(&[], 9)).unwrap();
    assert!(none.is_empty());
    make_function(&world.engine, "f");
    assert!(records(&world.engine).is_empty());
    let fresh = request("fresh", None);
    let function = function(&world.engine);
    block_on(world.engine.queue_execution(&key(), &function, fresh)).unwrap();
    let started = block_on(world.engine.start_executions(&[], 9)).unwrap();
    assert_eq!(started.len(), 1);
    // One that was started by a function that goes meanwhile leaves nothing.
    block_on(world.engine.delete_function(&key(), "f")).unwrap();
    let record = started[0].queued.record(world.clock.look());
    let seq = started[0].queued.seq;
    block_on(world.engine.end_execution(&function, seq, record)).unwrap();
}

#[test]
fn execution_that_waits_is_deleted_and_one_that_runs_is_not() {
    let world = World::new();
    let function = function(&world.engine);
    for id in ["a", "b"] {
        let queued = request(id, None);
        let record = block_on(world.engine.queue_execution(&key(), &function, queued)).unwrap();
        assert_eq!(record.status, ExecutionStatus::Waiting);
    }
    let soon = Timestamp(world.clock.look().0 + 90 * SECOND_US);
    let later = request("later", Some(soon));
    let record = block_on(world.engine.queue_execution(&key(), &function, later)).unwrap();
    assert_eq!(record.status, ExecutionStatus::Scheduled);
    assert_eq!(record.scheduled, Some(soon));
    let started = block_on(world.engine.start_executions(&[], 1)).unwrap();
    assert_eq!(started[0].queued.id, "a");
    let refused = block_on(world.engine.delete_execution(&key(), "f", "a")).unwrap_err();
    assert_eq!(refused, FunctionError::InProgress.into());
    for id in ["b", "later"] {
        block_on(world.engine.delete_execution(&key(), "f", id)).unwrap();
    }
    let ids: Vec<(String, ExecutionStatus)> = records(&world.engine)
        .into_iter()
        .map(|one| (one.id, one.status))
        .collect();
    assert_eq!(ids, [("a".to_owned(), ExecutionStatus::Processing)]);
    world.clock.step_us(91 * SECOND_US);
    let gone = block_on(world.engine.get_execution(&key(), "f", "later")).unwrap_err();
    assert_eq!(
        gone,
        FunctionError::ExecutionNotFound("later".to_owned()).into()
    );
}

#[test]
fn execution_waits_for_the_key_that_has_sealed_it() {
    let mut world = World::new();
    let file = world.directory.path().join("secret.key");
    let queue = |engine: &Engine, id: &str| {
        let function = function(engine);
        block_on(engine.queue_execution(&key(), &function, request(id, None)))
    };
    for id in ["a", "b"] {
        queue(&world.engine, id).unwrap();
    }
    let right = std::fs::read(&file).unwrap();
    let wrong = "0123456789abcdef".repeat(4).into_bytes();
    for content in [None, Some(&wrong), None, Some(&wrong)] {
        world.engine.close().unwrap();
        std::fs::remove_file(&file).unwrap();
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        world.engine = open(world.directory.path(), world.clock.clone());
        let refused = block_on(world.engine.start_executions(&[], 9)).unwrap_err();
        let is_expected = match content {
            None => matches!(refused, EngineError::Store(StoreError::KeyMissing { .. })),
            Some(_) => matches!(refused, EngineError::Store(StoreError::KeyWrong { .. })),
        };
        assert!(is_expected, "{refused:?}");
        // Nothing is sealed by another key beside what it cannot open.
        assert!(queue(&world.engine, "c").is_err());
        std::fs::write(&file, &right).unwrap();
    }
    world.engine.close().unwrap();
    world.engine = open(world.directory.path(), world.clock.clone());
    let started = block_on(world.engine.start_executions(&[], 9)).unwrap();
    let seen: Vec<(&str, u32)> = started
        .iter()
        .map(|one| (one.queued.id.as_str(), one.queued.attempt))
        .collect();
    assert_eq!(seen, [("a", 1), ("b", 1)], "no start has counted");
}
