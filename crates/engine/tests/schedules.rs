//! Executions by the clock: each minute once, the last of those that were missed, none before the
//! schedule began.

mod fixture;

use std::sync::Arc;

use engine::{Engine, ExecutionTrigger, FunctionInput, QueuedRequest, Schedules};
use fixture::functions::{definition, deploy, make_function};
use fixture::{NEW_YEAR_US, TickingClock, furnish, key, open};
use futures_executor::block_on;
use model::calendar::iso_ms;
use model::{Function, FunctionId, Timestamp};
use tempfile::TempDir;

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;

/// A server, as far as its clock is concerned.
struct Clockwork {
    directory: TempDir,
    clock: Arc<TickingClock>,
    engine: Arc<Engine>,
    schedules: Schedules,
    count: usize,
}

fn change(schedule: &str) -> FunctionInput {
    FunctionInput {
        schedule: Some(schedule.to_owned()),
        ..FunctionInput::default()
    }
}

impl Clockwork {
    /// It is midnight and ten seconds.
    fn new() -> Clockwork {
        let directory = tempfile::tempdir().unwrap();
        let clock = TickingClock::at(NEW_YEAR_US + 10 * SECOND_US);
        let engine = open(directory.path(), clock.clone());
        furnish(&engine);
        make_function(&engine, "f");
        Clockwork {
            directory,
            clock,
            engine,
            schedules: Schedules::default(),
            count: 0,
        }
    }

    fn set(&self, schedule: &str) {
        block_on(self.engine.update_function(&key(), "f", change(schedule))).unwrap();
    }

    fn due(&mut self) -> Vec<(Arc<Function>, Timestamp)> {
        block_on(self.engine.due_minutes(&mut self.schedules)).unwrap()
    }

    fn queue(&mut self, function: &Function, minute: Timestamp) {
        self.count += 1;
        let request = QueuedRequest {
            id: format!("e{}", self.count),
            trigger: ExecutionTrigger::Schedule,
            due: None,
            method: "POST".to_owned(),
            path: "/".to_owned(),
            headers: Vec::new(),
            body: Arc::default(),
            depth: 0,
        };
        block_on(self.engine.queue_minute(function, minute, request)).unwrap();
    }

    /// Lets time pass and looks at the clock: the minutes that were queued, and how many were.
    fn pass(&mut self, us: i64) -> Vec<String> {
        self.clock.step_us(us);
        let due = self.due();
        for (function, minute) in &due {
            self.queue(function, *minute);
            // Who does the same at the same time queues nothing.
            self.queue(function, *minute);
        }
        let minutes = due
            .iter()
            .map(|(_, minute)| iso_ms(*minute)[11..16].to_owned());
        minutes.collect()
    }

    fn queued(&self) -> usize {
        let started = block_on(self.engine.start_executions(&[], 100)).unwrap();
        assert!(
            started
                .iter()
                .all(|one| one.queued.trigger == ExecutionTrigger::Schedule)
        );
        started.len()
    }

    fn restart(&mut self) {
        self.engine.close().unwrap();
        self.engine = open(self.directory.path(), self.clock.clone());
        self.schedules = Schedules::default();
    }
}

#[test]
fn minute_of_a_schedule_is_queued_once() {
    let mut host = Clockwork::new();
    host.set("*/5 * * * *");
    assert!(host.pass(0).is_empty(), "midnight has passed");
    assert!(host.pass(4 * MINUTE_US).is_empty());
    assert_eq!(host.pass(MINUTE_US), ["00:05"]);
    assert!(host.pass(SECOND_US).is_empty());
    host.restart();
    assert!(host.pass(SECOND_US).is_empty(), "it is done");
    assert_eq!(host.pass(5 * MINUTE_US), ["00:10"]);
    assert_eq!(host.queued(), 2);
}

#[test]
fn minutes_that_were_missed_are_queued_as_the_last_one() {
    let mut host = Clockwork::new();
    host.set("*/5 * * * *");
    assert!(host.pass(0).is_empty());
    host.clock.step_us(23 * MINUTE_US);
    host.restart();
    assert_eq!(host.pass(0), ["00:20"]);
    assert!(host.pass(SECOND_US).is_empty());
    assert_eq!(host.pass(2 * MINUTE_US), ["00:25"]);
    assert_eq!(host.queued(), 2);
}

#[test]
fn minutes_before_a_schedule_began_are_none_of_it() {
    let mut host = Clockwork::new();
    let named = FunctionId::new("new").unwrap();
    let input = FunctionInput {
        schedule: Some("*/10 * * * *".to_owned()),
        ..definition()
    };
    block_on(host.engine.create_function(&key(), named, input)).unwrap();
    assert!(host.pass(12 * MINUTE_US).is_empty(), "it has no deployment");
    deploy(&host.engine, "new");
    assert!(host.pass(SECOND_US).is_empty(), "00:10 was before");
    assert_eq!(host.pass(8 * MINUTE_US), ["00:20"]);
    // Another schedule begins when it is set, and what else is set changes nothing.
    host.set("21 * * * *");
    let name = FunctionInput {
        name: Some("G".to_owned()),
        ..FunctionInput::default()
    };
    block_on(host.engine.update_function(&key(), "f", name)).unwrap();
    assert_eq!(host.pass(MINUTE_US), ["00:21"]);
    host.set("20 * * * *");
    assert!(
        host.pass(SECOND_US).is_empty(),
        "00:20 was before it was set"
    );
    host.set("");
    assert_eq!(
        host.pass(9 * MINUTE_US),
        ["00:30"],
        "that of the other function"
    );
    block_on(host.engine.delete_function(&key(), "new")).unwrap();
    assert!(host.pass(60 * MINUTE_US).is_empty());
}
