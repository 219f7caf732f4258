//! Simulation of everything that is executed without a caller: the queue, its leases, schedules and
//! the cursors of events, under a fake executor and a fake clock. The server may die before and
//! after each commit of any step.
//!
//! What is accepted ends once, none runs twice at a time or is started more than three times; each
//! change of a row gives one execution to each function that listens; each minute of a schedule
//! gives one at most, and after each look the last one that has passed has had its own.
//!
//! Each rule that this rests on is switched off in turn, and some seed must notice: the lease
//! (`Lease`), the bound of three starts, the cursor in the commit that queues (`WithCursor`,
//! `CursorWith`), the minute in it (`MinuteOnce`), and which minute is kept (`MinuteMissed`).

mod fixture;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use engine::{
    Caller, Engine, EngineError, EventSlice, ExecutionRecord, ExecutionStatus, ExecutionTrigger,
    FunctionError, FunctionInput, ListContainers, QueuedRequest, STARTS_MAX, Schedules,
    StartedExecution,
};
use fixture::functions::{definition, deploy_for};
use fixture::queue_store::{QueueRule, QueueStore};
use fixture::{
    NEW_YEAR_US, PLACE, TickingClock, config, furnish_for, key, key_of, open_store, row,
};
use futures_executor::block_on;
use model::calendar::iso_ms;
use model::{FunctionId, Timestamp};
use tempfile::TempDir;
use testing::Hooked;
use testing::places::on_database;

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;
/// Seeds by day and at night.
const SEEDS: (u64, u64) = (20, 200);
const STEPS: usize = 80;
/// Executions of one project that wait at most.
const ROOM: u64 = 12;

/// What a run has found wrong, or nothing.
type Found = Result<(), String>;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Found {
    if holds { Ok(()) } else { Err(what()) }
}

/// A rule that is switched off.
#[derive(Clone, Copy, Debug)]
enum Off {
    OfStore(QueueRule),
    Starts,
}

/// What is known of an execution, by its id.
#[derive(Default)]
struct Known {
    /// That were given to the executor.
    starts: u32,
    is_running: bool,
    has_ended: bool,
    not_before: i64,
}

struct World {
    directory: TempDir,
    clock: Arc<TickingClock>,
    store: Arc<Hooked<QueueStore>>,
    engine: Arc<Engine>,
    off: Option<Off>,
    chance: u64,
    count: usize,
    known: HashMap<String, Known>,
    /// Those that were accepted of callers.
    accepted: Vec<String>,
    /// Rows that were created, by project.
    created: BTreeMap<&'static str, Vec<String>>,
    running: Vec<StartedExecution>,
    schedules: Schedules,
    /// When the clock was last looked at with success.
    looked: i64,
    deaths: usize,
    /// How often the events of a project waited apart from those of the other.
    apart: usize,
}

fn listing() -> [String; 1] {
    [r#"{"method":"limit","values":[5000]}"#.to_owned()]
}

impl World {
    fn new(seed: u64, off: Option<Off>) -> World {
        let directory = tempfile::tempdir().unwrap();
        let clock = TickingClock::at(NEW_YEAR_US + 10 * SECOND_US);
        let (store, engine) = open(&directory, (&clock, off));
        for project in ["p", "q"] {
            let key = key_of(project);
            furnish_for(&engine, &key);
            let make = |id: &str, input: FunctionInput| {
                let named = FunctionId::new(id).unwrap();
                block_on(engine.create_function(&key, named, input)).unwrap();
                deploy_for(&engine, &key, id);
            };
            make("asked", definition());
            let events = Some(vec!["databases.*.tables.*.rows.*.create".to_owned()]);
            make(
                "listens",
                FunctionInput {
                    events,
                    ..definition()
                },
            );
        }
        let schedule = Some("* * * * *".to_owned());
        let input = FunctionInput {
            schedule,
            ..definition()
        };
        block_on(engine.create_function(&key(), FunctionId::new("timed").unwrap(), input)).unwrap();
        deploy_for(&engine, &key(), "timed");
        World {
            directory,
            clock,
            store,
            engine,
            off,
            chance: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            count: 0,
            known: HashMap::new(),
            accepted: Vec::new(),
            created: BTreeMap::new(),
            running: Vec::new(),
            schedules: Schedules::default(),
            looked: 0,
            deaths: 0,
            apart: 0,
        }
    }

    /// A number below `below` (xorshift64).
    fn draw(&mut self, below: usize) -> usize {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        (self.chance >> 11) as usize % below
    }

    fn project(&mut self) -> &'static str {
        ["p", "q"][self.draw(2)]
    }

    fn request(&mut self, trigger: ExecutionTrigger, path: &str) -> QueuedRequest {
        self.count += 1;
        let id = format!("e{}", self.count);
        QueuedRequest {
            body: Arc::from(id.as_bytes()),
            id,
            trigger,
            due: None,
            method: "POST".to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            depth: 0,
        }
    }

    /// A caller asks for an execution, now or in a minute.
    fn ask(&mut self) -> Found {
        let caller = key_of(self.project());
        let later = self.clock.look().0 + MINUTE_US;
        let is_later = self.draw(4) == 0;
        let mut request = self.request(ExecutionTrigger::Http, "/");
        request.due = is_later.then_some(Timestamp(later));
        let id = request.id.clone();
        let function = self.engine.may_execute(&caller, "asked").unwrap();
        let queued = block_on(self.engine.queue_execution(&caller, &function, request));
        match queued {
            Ok(_) => {
                let known = Known {
                    not_before: if is_later { later } else { 0 },
                    ..Known::default()
                };
                self.known.insert(id.clone(), known);
                self.accepted.push(id);
                Ok(())
            }
            Err(EngineError::Function(FunctionError::QueueFull(_))) => Ok(()),
            Err(error) => self.excused(error),
        }
    }

    /// Only a server that has died may fail.
    fn excused(&self, error: EngineError) -> Found {
        ensure(self.store.is_dead(), || format!("it fails: {error:?}"))
    }

    fn write(&mut self) -> Found {
        let project = self.project();
        self.count += 1;
        let id = format!("r{}", self.count);
        let new = row(&id, &[("n", 1)]);
        match block_on(self.engine.create_row(&key_of(project), PLACE, new)) {
            Ok(_) => {
                let event = format!("databases.d.tables.t.rows.{id}.create");
                self.created.entry(project).or_default().push(event);
                Ok(())
            }
            Err(error) => self.excused(error),
        }
    }

    /// Queues what rows ask for, one slice of each cursor; whether any has moved.
    fn deliver(&mut self) -> Result<bool, String> {
        let slice = block_on(self.engine.next_events(None)).unwrap();
        let Some(slice) = slice else {
            return Ok(false);
        };
        let apart = slice.apart.clone();
        self.apart += apart.len();
        let mut has_moved = self.queue_slice(slice)?;
        for project in apart {
            let slice = block_on(self.engine.next_events(Some(&project))).unwrap();
            if let Some(slice) = slice {
                has_moved |= self.queue_slice(slice)?;
            }
        }
        Ok(has_moved)
    }

    fn queue_slice(&mut self, slice: EventSlice) -> Result<bool, String> {
        if slice.is_empty() {
            return Ok(false);
        }
        let mut requests = Vec::new();
        for event in &slice.requests {
            let request = self.request(ExecutionTrigger::Event, &event.event);
            requests.push((event.function.clone(), request));
        }
        match block_on(self.engine.queue_events(slice, requests)) {
            Ok(()) => Ok(true),
            Err(EngineError::Function(FunctionError::QueueFull(_))) => Ok(false),
            Err(error) => self.excused(error).map(|()| false),
        }
    }

    /// Looks at the clock.
    fn look(&mut self) -> Found {
        let begun = self.clock.look().0;
        let due = block_on(self.engine.due_minutes(&mut self.schedules)).unwrap();
        ensure(due.len() <= 1, || format!("several minutes: {due:?}"))?;
        for (function, minute) in due {
            let request = self.request(ExecutionTrigger::Schedule, &iso_ms(minute));
            match block_on(self.engine.queue_minute(&function, minute, request)) {
                Ok(()) => {}
                Err(EngineError::Function(FunctionError::QueueFull(_))) => return Ok(()),
                Err(error) => return self.excused(error),
            }
        }
        self.looked = begun;
        Ok(())
    }

    fn start(&mut self) -> Found {
        let limit = 1 + self.draw(3);
        let started = match block_on(self.engine.start_executions(&[], limit)) {
            Ok(started) => started,
            Err(error) => return self.excused(error),
        };
        for one in started {
            let (id, now) = (one.queued.id.clone(), self.clock.look().0);
            let known = self.known.entry(id.clone()).or_default();
            ensure(&*one.call.body == id.as_bytes(), || {
                format!("{id} is given another body")
            })?;
            ensure(!known.is_running, || format!("{id} runs twice at a time"))?;
            ensure(!known.has_ended, || format!("{id} has ended"))?;
            ensure(known.not_before <= now, || format!("{id} is early"))?;
            known.starts += 1;
            known.is_running = true;
            let starts = known.starts;
            ensure(starts <= STARTS_MAX, || format!("{id}: {starts} starts"))?;
            ensure(one.queued.attempt == starts, || {
                format!("{id}: start {starts} is number {}", one.queued.attempt)
            })?;
            self.running.push(one);
        }
        Ok(())
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

    fn end(&mut self) -> Found {
        let Some(one) = self.take_running() else {
            return Ok(());
        };
        let record = ExecutionRecord {
            status: ExecutionStatus::Completed,
            ..one.queued.record(self.clock.look())
        };
        let (function, seq) = (&one.function, one.queued.seq);
        match block_on(self.engine.end_execution(function, seq, record)) {
            Ok(()) => {
                self.known.get_mut(&one.queued.id).unwrap().has_ended = true;
                Ok(())
            }
            Err(error) => self.excused(error),
        }
    }

    fn give_back(&mut self) -> Found {
        let Some(one) = self.take_running() else {
            return Ok(());
        };
        let counts = self.draw(2) == 0;
        match block_on(self.engine.return_execution(one.queued.seq, counts)) {
            Ok(()) => {
                let uncounted = u32::from(!counts);
                self.known.get_mut(&one.queued.id).unwrap().starts -= uncounted;
                Ok(())
            }
            Err(error) => self.excused(error),
        }
    }

    fn renew(&mut self) -> Found {
        let seqs = self.running.iter().map(|one| one.queued.seq).collect();
        let renewed = block_on(self.engine.renew_leases(seqs));
        renewed.or_else(|error| self.excused(error))
    }

    /// No one sees the ends of what ran, and some time passes until the next start of the server.
    fn die(&mut self) {
        self.deaths += 1;
        self.running.clear();
        for known in self.known.values_mut() {
            known.is_running = false;
        }
        let _ = self.engine.close();
        let minutes = [0, 0, 1, 7][self.draw(4)];
        self.clock.step_us(minutes * MINUTE_US);
        (self.store, self.engine) = open(&self.directory, (&self.clock, self.off));
        self.schedules = Schedules::default();
        block_on(self.engine.release_leases()).unwrap();
    }

    fn step(&mut self) -> Found {
        let mortal = self.draw(4) == 0;
        if mortal {
            let commits = self.draw(3) as u64;
            self.store.die_after(commits);
        }
        let done = match self.draw(13) {
            0..=1 => self.ask(),
            2..=3 => self.write(),
            4..=5 => self.start(),
            6..=7 => self.end(),
            8 => self.give_back(),
            9 => self.deliver().map(drop),
            10..=11 => self.look(),
            _ => {
                // A lease outlives this, if it is renewed.
                self.clock.step_us(20 * SECOND_US);
                self.renew()
            }
        };
        done?;
        if mortal && (self.store.is_dead() || self.draw(4) == 0) {
            self.die();
        } else {
            self.store.die_after(u64::MAX);
        }
        Ok(())
    }

    /// Lets everything end.
    fn settle(&mut self) -> Found {
        self.store.die_after(u64::MAX);
        let mut has_looked = false;
        for _ in 0..400 {
            // Once, when there is room: each look would find another minute.
            if !has_looked {
                self.clock.step_us(MINUTE_US);
                let before = self.looked;
                self.look()?;
                has_looked = self.looked > before;
            }
            let has_moved = self.deliver()?;
            self.renew()?;
            self.start()?;
            while !self.running.is_empty() {
                self.end()?;
            }
            let is_over = |one: &ExecutionRecord| {
                use ExecutionStatus::{Completed, Failed};
                matches!(one.status, Completed | Failed)
            };
            if has_looked && !has_moved && self.records().iter().all(|(_, one)| is_over(one)) {
                return Ok(());
            }
            self.clock.step_us(10 * SECOND_US);
        }
        Err("it does not end".to_owned())
    }

    /// All executions, each with its project.
    fn records(&self) -> Vec<(&'static str, ExecutionRecord)> {
        let mut all = Vec::new();
        for (project, function) in [
            ("p", "asked"),
            ("p", "listens"),
            ("p", "timed"),
            ("q", "asked"),
            ("q", "listens"),
        ] {
            let texts = &listing();
            let of_all = ListContainers {
                texts,
                search: "",
                total: true,
            };
            let caller: Caller = key_of(project);
            let listed = self.engine.list_executions(&caller, function, of_all);
            let listed = block_on(listed).unwrap().items;
            all.extend(listed.into_iter().map(|one| (project, one)));
        }
        all
    }

    fn judge(&self) -> Found {
        let records = self.records();
        let of = |trigger: ExecutionTrigger, project: &str| -> Vec<&ExecutionRecord> {
            let all = records.iter();
            let all = all.filter(|(of, one)| *of == project && one.trigger == trigger);
            all.map(|(_, one)| one).collect()
        };
        let mut asked = Vec::new();
        for project in ["p", "q"] {
            asked.extend(of(ExecutionTrigger::Http, project));
            let mut seen: Vec<&String> = Vec::new();
            seen.extend(
                of(ExecutionTrigger::Event, project)
                    .iter()
                    .map(|one| &one.path),
            );
            seen.sort_unstable();
            let mut wanted: Vec<&String> =
                self.created.get(project).into_iter().flatten().collect();
            wanted.sort_unstable();
            ensure(seen == wanted, || {
                format!("events of {project}: {seen:?}\nand rows: {wanted:?}")
            })?;
        }
        let mut asked: Vec<&str> = asked.iter().map(|one| one.id.as_str()).collect();
        let mut accepted: Vec<&str> = self.accepted.iter().map(String::as_str).collect();
        asked.sort_unstable();
        accepted.sort_unstable();
        ensure(asked == accepted, || {
            format!("asked for: {asked:?}\nand accepted: {accepted:?}")
        })?;
        let timed = of(ExecutionTrigger::Schedule, "p");
        let mut minutes: Vec<&str> = timed.iter().map(|one| one.path.as_str()).collect();
        minutes.sort_unstable();
        let is_once = minutes.windows(2).all(|pair| pair[0] < pair[1]);
        ensure(is_once, || format!("a minute twice: {minutes:?}"))?;
        let last = iso_ms(Timestamp(self.looked / MINUTE_US * MINUTE_US));
        ensure(minutes.last().is_some_and(|found| **found == *last), || {
            format!("{last} is not the last of {minutes:?}")
        })?;
        for (_, one) in &records {
            let known = self.known.get(&one.id);
            let (starts, has_ended) = known.map_or((0, false), |it| (it.starts, it.has_ended));
            let was_seen = one.status == ExecutionStatus::Completed;
            let holds = was_seen == has_ended && (was_seen || starts == STARTS_MAX);
            ensure(holds, || format!("{one:?}: {starts} starts, {has_ended}"))?;
        }
        Ok(())
    }
}

fn open(
    directory: &TempDir,
    (clock, off): (&Arc<TickingClock>, Option<Off>),
) -> (Arc<Hooked<QueueStore>>, Arc<Engine>) {
    let config = config(directory.path());
    let store = Arc::new(Hooked(QueueStore::new(open_store(&config))));
    let engine = Engine::over(store.clone(), &config, clock.clone()).unwrap();
    store.bound(ROOM);
    match off {
        Some(Off::OfStore(rule)) => store.switch_off(Some(rule)),
        Some(Off::Starts) => engine.ignore_starts_max(),
        None => {}
    }
    (store, engine)
}

/// One run: how often the server died in it, and events waited apart.
fn run(seed: u64, off: Option<Off>) -> Result<(usize, usize), String> {
    let mut world = World::new(seed, off);
    let ran = (0..STEPS).try_for_each(|_| world.step());
    let ran = ran
        .and_then(|()| world.settle())
        .and_then(|()| world.judge());
    ran.map(|()| (world.deaths, world.apart))
        .map_err(|found| format!("seed {seed}: {found}"))
}

/// As many as by day where the store is in a database: there it takes long to start again.
fn seeds() -> u64 {
    match std::env::var("TIDEMARK_LANE").as_deref() {
        Ok("night") if !on_database() => SEEDS.1,
        _ => SEEDS.0,
    }
}

#[test]
fn delivery_keeps_its_promises_wherever_the_server_dies() {
    let (mut deaths, mut apart) = (0, 0);
    for seed in 0..seeds() {
        let of_run = run(seed, None).unwrap_or_else(|found| panic!("{found}"));
        (deaths, apart) = (deaths + of_run.0, apart + of_run.1);
    }
    println!("{deaths} deaths, {apart} times apart");
    assert!(deaths > SEEDS.0 as usize, "{deaths}");
    assert!(apart > SEEDS.0 as usize / 2, "{apart}");
}

#[test]
fn delivery_without_one_of_its_rules_is_noticed() {
    use QueueRule::{CursorWith, Lease, MinuteMissed, MinuteOnce, WithCursor};
    let of_store = [Lease, WithCursor, CursorWith, MinuteOnce, MinuteMissed];
    let of_store = of_store.into_iter().map(Off::OfStore);
    for off in of_store.chain([Off::Starts]) {
        let mut found = (0..SEEDS.0).filter_map(|seed| run(seed, Some(off)).err());
        let found = found.next();
        println!("{off:?}: {found:?}");
        assert!(found.is_some(), "no seed notices that {off:?} is off");
    }
}
