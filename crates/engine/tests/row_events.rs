//! Executions by changes of rows: one for each change and function, none lost, none twice, whatever
//! happens between a commit and the queue.

mod fixture;

use std::sync::Arc;

use engine::{
    Caller, CallingFunction, EVENT_DEPTH_MAX, Engine, EventSlice, ExecutionRecord, ExecutionStatus,
    ExecutionTrigger, FunctionInput, ListContainers, QueuedRequest,
};
use fixture::functions::{definition, deploy_for, make_function};
use fixture::queue_store::QueueStore;
use fixture::{
    NEW_YEAR_US, PLACE, TickingClock, config, furnish, furnish_for, key, key_of, open_store, row,
};
use futures_executor::block_on;
use model::{FunctionId, RowId};
use tempfile::TempDir;
use testing::Hooked;

struct World {
    directory: TempDir,
    clock: Arc<TickingClock>,
    store: Arc<Hooked<QueueStore>>,
    engine: Arc<Engine>,
    count: usize,
    rows: usize,
    chance: u64,
    /// Names of what was written, as events call it.
    done: Vec<String>,
    there: Vec<String>,
}

fn listening(events: &[&str]) -> FunctionInput {
    FunctionInput {
        events: Some(events.iter().map(ToString::to_string).collect()),
        ..FunctionInput::default()
    }
}

fn open(directory: &TempDir, clock: Arc<TickingClock>) -> (Arc<Hooked<QueueStore>>, Arc<Engine>) {
    let config = config(directory.path());
    let store = Arc::new(Hooked(QueueStore::new(open_store(&config))));
    let engine = Engine::over(store.clone(), &config, clock).unwrap();
    (store, engine)
}

impl World {
    fn new(seed: u64) -> World {
        let directory = tempfile::tempdir().unwrap();
        let clock = TickingClock::at(NEW_YEAR_US);
        let (store, engine) = open(&directory, clock.clone());
        furnish(&engine);
        World {
            directory,
            clock,
            store,
            engine,
            count: 0,
            rows: 0,
            chance: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            done: Vec::new(),
            there: Vec::new(),
        }
    }

    /// A function that listens.
    fn listen(&self, id: &str, events: &[&str]) {
        self.listen_for(&key(), id, events);
    }

    fn listen_for(&self, key: &Caller, id: &str, events: &[&str]) {
        let named = FunctionId::new(id).unwrap();
        let input = FunctionInput {
            events: listening(events).events,
            ..definition()
        };
        block_on(self.engine.create_function(key, named, input)).unwrap();
        deploy_for(&self.engine, key, id);
    }

    /// A number below `below` (xorshift64).
    fn draw(&mut self, below: usize) -> usize {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        (self.chance >> 11) as usize % below
    }

    fn note(&mut self, id: &str, action: &str) {
        self.done
            .push(format!("databases.d.tables.t.rows.{id}.{action}"));
    }

    fn create(&mut self, caller: &Caller) {
        let id = format!("r{}", self.rows);
        let new = row(&id, &[("n", self.rows as i64)]);
        self.rows += 1;
        block_on(self.engine.create_row(caller, PLACE, new)).unwrap();
        self.note(&id, "create");
        self.there.push(id);
    }

    fn update(&mut self) {
        if self.there.is_empty() {
            return;
        }
        let nth = self.draw(self.there.len());
        let id = self.there[nth].clone();
        let new = row(&id, &[("n", 1_000 + self.done.len() as i64)]);
        block_on(self.engine.update_row(&key(), PLACE, new, None)).unwrap();
        self.note(&id, "update");
    }

    fn delete(&mut self) {
        if self.there.is_empty() {
            return;
        }
        let nth = self.draw(self.there.len());
        let id = self.there.swap_remove(nth);
        let row = RowId::new(&id).unwrap();
        block_on(self.engine.delete_row(&key(), PLACE, row, None)).unwrap();
        self.note(&id, "delete");
    }

    /// Queues the next events of all projects; false where there are none, or all of them wait.
    /// `is_lost` is a server that ends before.
    fn deliver(&mut self, is_lost: bool) -> bool {
        let Some(slice) = block_on(self.engine.next_events(None)).unwrap() else {
            return false;
        };
        let apart = slice.apart.clone();
        let mut is_any = self.take_in(slice, is_lost);
        for project in apart {
            let slice = block_on(self.engine.next_events(Some(&project))).unwrap();
            is_any |= slice.is_some_and(|slice| self.take_in(slice, is_lost));
        }
        is_any
    }

    /// Queues what a slice asks for; false where that is nothing, or has no room.
    fn take_in(&mut self, slice: EventSlice, is_lost: bool) -> bool {
        if slice.is_empty() {
            return false;
        }
        let mut requests = Vec::new();
        for event in &slice.requests {
            self.count += 1;
            let request = QueuedRequest {
                id: format!("e{}", self.count),
                trigger: ExecutionTrigger::Event,
                due: None,
                method: "POST".to_owned(),
                path: event.event.clone(),
                headers: Vec::new(),
                body: event.row.clone(),
                depth: event.depth,
            };
            requests.push((event.function.clone(), request));
        }
        if !is_lost {
            let again = (slice.clone(), requests.clone());
            let queued = block_on(self.engine.queue_events(slice, requests));
            // Who does the same at the same time queues nothing.
            let again = block_on(self.engine.queue_events(again.0, again.1));
            return queued.is_ok() && again.is_ok();
        }
        true
    }

    /// Starts and ends what waits, but for the function with this number: their events.
    fn drain(&self, except: &[i64]) -> Vec<String> {
        let mut ran = Vec::new();
        loop {
            let started = block_on(self.engine.start_executions(except, 100)).unwrap();
            if started.is_empty() {
                return ran;
            }
            for one in started {
                let record = ExecutionRecord {
                    status: ExecutionStatus::Completed,
                    ..one.queued.record(self.clock.look())
                };
                let (function, seq) = (&one.function, one.queued.seq);
                block_on(self.engine.end_execution(function, seq, record)).unwrap();
                let project = one.function.project.as_str();
                ran.push(format!("{project}: {}", one.queued.path));
            }
        }
    }

    fn restart(&mut self) {
        self.engine.close().unwrap();
        (self.store, self.engine) = open(&self.directory, self.clock.clone());
    }

    /// How many of a function's records say that it was not started.
    fn too_deep(&self, function: &str) -> usize {
        let all = ListContainers {
            texts: &[],
            search: "",
            total: true,
        };
        let listed = block_on(self.engine.list_executions(&key(), function, all)).unwrap();
        let failed = listed.items.iter();
        let failed = failed.filter(|one| one.status == ExecutionStatus::Failed);
        failed
            .filter(|one| one.errors.contains("five times"))
            .count()
    }

    /// What waits of a function, in order.
    fn queued(&self, function: &str) -> Vec<String> {
        let all = ListContainers {
            texts: &[r#"{"method":"limit","values":[5000]}"#.to_owned()],
            search: "",
            total: true,
        };
        let listed = block_on(self.engine.list_executions(&key(), function, all)).unwrap();
        let waits = listed.items.into_iter();
        let waits = waits.filter(|one| one.status == ExecutionStatus::Waiting);
        waits.map(|one| one.path).collect()
    }
}

#[test]
fn event_of_each_commit_is_queued_once() {
    for seed in 1..=12 {
        let mut world = World::new(seed);
        world.create(&key());
        world.done.clear();
        world.listen("all", &["databases.*.tables.*.rows.*"]);
        for _ in 0..60 {
            match world.draw(10) {
                0..=3 => world.create(&key()),
                4..=5 => world.update(),
                6 => world.delete(),
                7..=8 => {
                    let is_lost = world.draw(3) == 0;
                    world.deliver(is_lost);
                }
                _ => world.restart(),
            }
        }
        while world.deliver(false) {}
        assert_eq!(world.queued("all"), world.done, "seed {seed}");
        world.restart();
        assert!(!world.deliver(false), "seed {seed}");
    }
}

#[test]
fn event_is_for_those_whose_pattern_names_it() {
    let mut world = World::new(1);
    let cases: [(&str, &[&str], &[&str]); 8] = [
        (
            "any",
            &["databases.*.tables.*.rows.*"],
            &["create", "update", "delete"],
        ),
        ("made", &["tablesdb.d.tables.t.rows.*.create"], &["create"]),
        ("one", &["databases.d.tables.t.rows.r0.update"], &["update"]),
        ("other", &["databases.d.tables.t.rows.r1"], &[]),
        ("table", &["databases.d.tables.other"], &[]),
        (
            "legacy",
            &["databases.d.collections.t.documents.*.delete"],
            &["delete"],
        ),
        (
            "database",
            &["databases.d"],
            &["create", "update", "delete"],
        ),
        (
            "twice",
            &[
                "databases.*.tables.*.rows.*.create",
                "tablesdb.*.tables.*.rows.*.create",
            ],
            &["create"],
        ),
    ];
    for (id, events, _) in &cases {
        world.listen(id, events);
    }
    make_function(&world.engine, "deaf");
    world.create(&key());
    world.update();
    world.delete();
    while world.deliver(false) {}
    for (id, _, wanted) in &cases {
        let queued = world.queued(id);
        let actions: Vec<&str> = queued
            .iter()
            .map(|event| event.rsplit('.').next().unwrap())
            .collect();
        assert_eq!(actions, *wanted, "{id}");
    }
    assert_eq!(world.queued("made"), ["tablesdb.d.tables.t.rows.r0.create"]);
    assert_eq!(
        world.queued("legacy"),
        ["databases.d.collections.t.documents.r0.delete"]
    );
    assert!(world.queued("deaf").is_empty());
}

#[test]
fn event_is_none_of_a_function_that_listened_later() {
    let mut world = World::new(1);
    world.listen("first", &["databases.*.tables.*.rows.*"]);
    world.create(&key());
    world.listen("second", &["databases.*.tables.*.rows.*"]);
    world.create(&key());
    while world.deliver(false) {}
    assert_eq!(world.queued("first").len(), 2);
    assert_eq!(world.queued("second").len(), 1);
    // No function listens for a while, and what happens then is lost to all.
    for id in ["first", "second"] {
        let none = listening(&[]);
        block_on(world.engine.update_function(&key(), id, none)).unwrap();
    }
    world.create(&key());
    assert!(!world.deliver(false));
    let again = listening(&["databases.*.tables.*.rows.*"]);
    block_on(world.engine.update_function(&key(), "first", again)).unwrap();
    world.create(&key());
    while world.deliver(false) {}
    assert_eq!(world.queued("first").len(), 3);
    assert_eq!(world.queued("second").len(), 1);
}

#[test]
fn event_of_what_functions_write_ends_at_a_depth() {
    let mut world = World::new(1);
    world.listen("f", &["databases.*.tables.*.rows.*.create"]);
    for depth in 1..=EVENT_DEPTH_MAX + 2 {
        world.create(&at(depth));
    }
    while world.deliver(false) {}
    let started = block_on(world.engine.start_executions(&[], 100)).unwrap();
    let depths: Vec<u8> = started.iter().map(|one| one.queued.depth).collect();
    assert_eq!(depths, [1, 2, 3, 4, 5]);
    // The function's records say why the others were not.
    assert_eq!(world.too_deep("f"), 2);
}

#[test]
fn event_that_is_too_deep_has_its_record_after_a_crash() {
    for commits in 0..3 {
        let mut world = World::new(1);
        world.listen("f", &["databases.*.tables.*.rows.*.create"]);
        for depth in [EVENT_DEPTH_MAX + 1, 1, EVENT_DEPTH_MAX + 2] {
            world.create(&at(depth));
        }
        world.store.die_after(commits);
        world.deliver(false);
        world.restart();
        while world.deliver(false) {}
        assert_eq!(world.too_deep("f"), 2, "died after {commits} commits");
        assert_eq!(world.queued("f").len(), 1, "died after {commits} commits");
    }
}

#[test]
fn events_of_a_project_go_on_while_the_queue_of_another_is_full() {
    const ROWS: usize = 4;
    let mut world = World::new(1);
    let other = key_of("q");
    furnish_for(&world.engine, &other);
    let all = ["databases.*.tables.*.rows.*"];
    world.listen("f", &all);
    world.listen_for(&other, "g", &all);
    let full = world.engine.may_execute(&key(), "f").unwrap().seq;
    world.store.bound(ROWS as u64);
    let (mut wanted, mut ran) = (Vec::new(), Vec::new());
    for round in 0..5 {
        // That of `p` has no room for those of one round.
        for _ in 0..=ROWS {
            world.create(&key());
            wanted.push(format!("p: {}", world.done.last().unwrap()));
        }
        for _ in 0..ROWS {
            world.create(&other);
            wanted.push(format!("q: {}", world.done.last().unwrap()));
        }
        while world.deliver(false) {}
        let of_other = world.drain(&[full]);
        assert_eq!(of_other.len(), ROWS, "round {round}");
        ran.extend(of_other);
        if round % 2 == 1 {
            world.restart();
            world.store.bound(ROWS as u64);
        }
    }
    // Not one of them: they are more than have room at once, and come when there is some.
    assert!(world.drain(&[]).is_empty());
    world.store.bound(3 * ROWS as u64);
    while world.deliver(false) {
        ran.extend(world.drain(&[]));
    }
    ran.extend(world.drain(&[]));
    let in_order = |of: &str, all: &[String]| -> Vec<String> {
        let all = all.iter().filter(|one| one.starts_with(of));
        all.cloned().collect()
    };
    for of in ["p: ", "q: "] {
        assert_eq!(in_order(of, &ran), in_order(of, &wanted), "{of}");
    }
    let slice = block_on(world.engine.next_events(None)).unwrap().unwrap();
    assert!(slice.apart.is_empty(), "they go together again");
    assert!(slice.is_empty());
}

/// An execution that writes at a depth.
fn at(depth: u8) -> Caller {
    Caller {
        function: Some(Arc::new(CallingFunction {
            id: FunctionId::new("f").unwrap(),
            depth,
        })),
        ..key()
    }
}
