//! Executions of the queue under a fake executor and clock: whatever happens between two steps,
//! each accepted one ends once, and is started three times at most.

mod fixture;

use std::collections::HashMap;
use std::sync::Arc;

use engine::{
    Engine, EngineError, ExecutionRecord, ExecutionStatus, ExecutionTrigger, FunctionError,
    ListContainers, QueuedRequest, STARTS_MAX, StartedExecution, StoreError,
};
use fixture::functions::make_function;
use fixture::{NEW_YEAR_US, TickingClock, furnish, key, open};
use futures_executor::block_on;
use model::{Function, Timestamp};
use tempfile::TempDir;

const SECOND_US: i64 = 1_000_000;

/// What the sender of an execution knows of it.
#[derive(Default)]
struct Known {
    starts: u32,
    /// Whether the start that no one has seen the end of is still running.
    is_running: bool,
    has_ended: bool,
    not_before: i64,
}

struct World {
    directory: TempDir,
    clock: Arc<TickingClock>,
    engine: Arc<Engine>,
    chance: u64,
    known: HashMap<String, Known>,
    running: Vec<StartedExecution>,
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
    fn new(seed: u64) -> World {
        let directory = tempfile::tempdir().unwrap();
        let clock = TickingClock::at(NEW_YEAR_US);
        let engine = open(directory.path(), clock.clone());
        furnish(&engine);
        make_function(&engine, "f");
        World {
            directory,
            clock,
            engine,
            chance: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            known: HashMap::new(),
            running: Vec::new(),
        }
    }

    /// A number below `below` (xorshift64).
    fn draw(&mut self, below: usize) -> usize {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        (self.chance >> 11) as usize % below
    }

    fn queue(&mut self) {
        let id = format!("e{}", self.known.len());
        let is_scheduled = self.draw(4) == 0;
        let later = self.clock.look().0 + 60 * SECOND_US;
        let due = is_scheduled.then_some(Timestamp(later));
        let queued = request(&id, due);
        block_on(
            self.engine
                .queue_execution(&key(), &function(&self.engine), queued),
        )
        .unwrap();
        let known = Known {
            not_before: if is_scheduled { later } else { 0 },
            ..Known::default()
        };
        self.known.insert(id, known);
    }

    fn start(&mut self) {
        let limit = 1 + self.draw(3);
        for started in block_on(self.engine.start_executions(&[], limit)).unwrap() {
            let known = self.known.get_mut(&started.queued.id).unwrap();
            assert_eq!(&*started.call.body, started.queued.id.as_bytes());
            assert!(!known.is_running, "{} runs twice", started.queued.id);
            assert!(!known.has_ended, "{} has ended", started.queued.id);
            assert!(known.not_before <= self.clock.look().0, "too early");
            known.starts += 1;
            known.is_running = true;
            assert!(known.starts <= STARTS_MAX, "{}", started.queued.id);
            assert_eq!(started.queued.attempt, known.starts);
            self.running.push(started);
        }
    }

    fn take_running(&mut self) -> Option<StartedExecution> {
        if self.running.is_empty() {
            return None;
        }
        let nth = self.draw(self.running.len());
        let one = self.running.swap_remove(nth);
        self.known.get_mut(&one.queued.id).unwrap().is_running = false;
        Some(one)
    }

    fn end(&mut self) {
        let Some(one) = self.take_running() else {
            return;
        };
        let record = ExecutionRecord {
            status: ExecutionStatus::Completed,
            ..one.queued.record(self.clock.look())
        };
        block_on(
            self.engine
                .end_execution(&one.function, one.queued.seq, record),
        )
        .unwrap();
        self.known.get_mut(&one.queued.id).unwrap().has_ended = true;
    }

    fn give_back(&mut self) {
        let Some(one) = self.take_running() else {
            return;
        };
        let counts = self.draw(2) == 0;
        block_on(self.engine.return_execution(one.queued.seq, counts)).unwrap();
        if !counts {
            self.known.get_mut(&one.queued.id).unwrap().starts -= 1;
        }
    }

    /// As `kill -9` leaves it: no one sees the ends of what ran.
    fn crash(&mut self) {
        self.running.clear();
        for known in self.known.values_mut() {
            known.is_running = false;
        }
        // The store ends in order; what waits and what is leased stays as it was.
        self.engine.close().unwrap();
        self.engine = open(self.directory.path(), self.clock.clone());
        block_on(self.engine.release_leases()).unwrap();
    }

    fn renew(&mut self) {
        let seqs = self.running.iter().map(|one| one.queued.seq).collect();
        block_on(self.engine.renew_leases(seqs)).unwrap();
    }

    fn step(&mut self) {
        match self.draw(10) {
            0..=2 => self.queue(),
            3..=5 => self.start(),
            6..=7 => self.end(),
            8 => match self.draw(3) {
                0 => self.crash(),
                _ => self.give_back(),
            },
            _ => {
                // A lease outlives this, if it is renewed.
                self.renew();
                self.clock.step_us(20 * SECOND_US);
            }
        }
    }

    /// Lets everything end.
    fn settle(&mut self) {
        for _ in 0..1_000 {
            self.clock.step_us(61 * SECOND_US);
            self.renew();
            self.start();
            while !self.running.is_empty() {
                self.end();
            }
            let is_over = |record: &ExecutionRecord| {
                use ExecutionStatus::{Completed, Failed};
                matches!(record.status, Completed | Failed)
            };
            if records(&self.engine).iter().all(is_over) {
                return;
            }
        }
        panic!("it does not end");
    }
}

#[test]
fn queue_loses_no_execution_and_starts_none_too_often() {
    for seed in 1..=20 {
        let mut world = World::new(seed);
        for _ in 0..80 {
            world.step();
        }
        world.settle();
        let mut ended: Vec<String> = records(&world.engine)
            .into_iter()
            .map(|one| one.id)
            .collect();
        ended.sort_unstable();
        let mut sent: Vec<String> = world.known.keys().cloned().collect();
        sent.sort_unstable();
        assert_eq!(ended, sent, "seed {seed}");
        for record in records(&world.engine) {
            let known = &world.known[&record.id];
            let was_seen = record.status == ExecutionStatus::Completed;
            assert_eq!(known.has_ended, was_seen, "seed {seed}: {}", record.id);
            let is_spent = known.starts == STARTS_MAX;
            assert!(was_seen || is_spent, "seed {seed}: {}", record.id);
        }
    }
}

#[test]
fn lease_that_has_ended_lets_another_start_begin() {
    let mut world = World::new(1);
    world.queue();
    world.known.get_mut("e0").unwrap().not_before = 0;
    world.clock.step_us(61 * SECOND_US);
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
    let mut world = World::new(1);
    for _ in 0..3 {
        world.queue();
    }
    world.clock.step_us(61 * SECOND_US);
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
    let world = World::new(1);
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
    let mut world = World::new(1);
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
