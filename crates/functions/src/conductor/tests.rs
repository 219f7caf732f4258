//! Which deployment gets a process where there is not memory for all, and what hostile processes
//! can bring about.

use std::time::Duration;

use bytes::Bytes;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::*;
use crate::frame::FrameKind;
use crate::memory_budget::HeldMemory;
use crate::process::ProcessLimits;
use crate::starts::Starts;
use crate::work::{FunctionOutcome, FunctionWork, RunCause};

mod crashes;

const RUNTIME: &str = "node-20.0";
const SECOND: Duration = Duration::from_secs(1);
/// Deployments that take so long keep a spare.
const SLOW_START: Duration = Duration::from_millis(400);

/// A conductor whose processes are pretended, and its clock.
struct World {
    conductor: Conductor,
    now: Instant,
}

/// The end of a run, once it has come.
type Awaited = oneshot::Receiver<FunctionOutcome>;

impl World {
    fn new(memory_max_mib: u64, processes_max: usize) -> World {
        let limits = ConductorLimits {
            memory_max_mib,
            pool: PoolLimits {
                processes: processes_max,
                idle: Duration::from_mins(1),
                spare_idle: Duration::ZERO,
            },
            process: ProcessLimits {
                body_bytes: 10 * 1024 * 1024,
                log_letters: 1_000_000,
                start_max: 30 * SECOND,
            },
        };
        let runtimes = InstalledRuntimes::default();
        let mut conductor = Conductor::new(&runtimes, true, limits, Arc::default());
        let runtime = Arc::new(InstalledRuntime::pretended(RUNTIME));
        conductor.runtimes.insert(RUNTIME.to_owned(), runtime);
        World {
            conductor,
            now: Instant::now(),
        }
    }

    /// Asks for a run; no caller waits for it.
    fn run(&mut self, deployment: &str, memory_mib: u32) -> Awaited {
        self.run_with(deployment, memory_mib, (None, Bytes::new()))
    }

    fn run_with(
        &mut self,
        id: &str,
        memory_mib: u32,
        (wait_max, body): (Option<Duration>, Bytes),
    ) -> Awaited {
        self.run_of(deployment(id, memory_mib), (wait_max, body))
    }

    fn run_of(
        &mut self,
        deployment: UnpackedDeployment,
        asked: (Option<Duration>, Bytes),
    ) -> Awaited {
        self.try_run(deployment, asked).unwrap()
    }

    fn try_run(
        &mut self,
        deployment: UnpackedDeployment,
        (wait_max, body): (Option<Duration>, Bytes),
    ) -> Result<Awaited, RunRefusal> {
        let (reply, outcome) = oneshot::channel();
        let work = FunctionWork {
            deployment: Arc::new(deployment),
            method: "POST".to_owned(),
            path: "/".to_owned(),
            headers: Vec::new(),
            body,
            timeout: 900 * SECOND,
            wait_max,
        };
        let run = PendingRun {
            work,
            accepted: self.now,
            reply,
            held: HeldMemory::default(),
            moves: 0,
            is_cold: false,
        };
        self.conductor.run(run, self.now)?;
        Ok(outcome)
    }

    /// Starts what is wanted; the deployments of what was started, in order.
    fn start_wanted(&mut self) -> Vec<String> {
        let mut started = Vec::new();
        while let Some(wanted) = self.conductor.wanted(self.now) {
            let number = wanted.number;
            started.push(wanted.deployment.id.clone());
            let launched = Ok((Launched::pretended(), b"{}".to_vec()));
            self.conductor.add(wanted, launched, self.now);
            self.send(number, FrameKind::Started, 0, &[]);
        }
        started
    }

    /// The host cannot start the process that is wanted.
    fn refuse_wanted(&mut self) {
        let wanted = self.conductor.wanted(self.now).unwrap();
        let why = Err("Too many open files".to_owned());
        self.conductor.add(wanted, why, self.now);
    }

    /// Starts the next process that is wanted, which takes long to load its code; its number, and
    /// whether it is a spare.
    fn start_slowly(&mut self) -> Option<(u64, bool)> {
        let wanted = self.conductor.wanted(self.now)?;
        let (number, is_spare) = (wanted.number, wanted.is_spare);
        let launched = Ok((Launched::pretended(), b"{}".to_vec()));
        self.conductor.add(wanted, launched, self.now);
        self.tick(SLOW_START);
        self.send(number, FrameKind::Started, 0, &[]);
        Some((number, is_spare))
    }

    fn send(&mut self, process: u64, kind: FrameKind, request: u32, payload: &[u8]) {
        let payload = payload.to_vec();
        let frame = PipeFrame {
            kind,
            request,
            payload,
        };
        self.conductor.take_frames(process, vec![frame], self.now);
    }

    /// Lets a process answer a request.
    fn answer(&mut self, process: u64, request: u32) {
        let head = b"\x01{\"status\":200,\"headers\":{}}";
        self.send(process, FrameKind::Response, request, head);
        self.send(process, FrameKind::Body, request, b"\x01");
    }

    /// Lets the processes that were killed be seen as ended.
    fn bury(&mut self) {
        let ending = |process: &&WarmProcess| matches!(process.stage, ProcessStage::Ending(..));
        let pools = self.conductor.pools.values();
        let ended: Vec<u64> = pools
            .flat_map(|pool| pool.processes.iter().filter(ending))
            .map(|process| process.number)
            .collect();
        for process in ended {
            for what in [
                Happening::Closed,
                Happening::Exited(crate::launch::ProcessExit::Code(0)),
            ] {
                let event = ProcessEvent { process, what };
                self.conductor.take_event(event, self.now);
            }
        }
    }

    fn tick(&mut self, after: Duration) {
        self.now += after;
        self.conductor.tick(false, self.now);
    }
}

fn deployment(id: &str, memory_mib: u32) -> UnpackedDeployment {
    UnpackedDeployment {
        id: id.to_owned(),
        revision: 1,
        runtime: RUNTIME.to_owned(),
        folder: "/".into(),
        entrypoint: "main.js".to_owned(),
        variables: Vec::new(),
        memory_mib,
        cpu_weight: 100,
        concurrency: 2,
        reaches_outside: false,
    }
}

/// What is on its way to a process.
fn waiting_bytes(conductor: &Conductor) -> usize {
    let pools = conductor.pools.values();
    let processes = pools.flat_map(|pool| &pool.processes);
    processes
        .map(|process| process.launched.outgoing.waiting_bytes())
        .sum()
}

#[test]
fn deployment_without_a_process_gets_memory_that_others_hold_busily() {
    let mut world = World::new(1_024, 8);
    let mut outcomes = Vec::new();
    for _ in 0..8 {
        outcomes.push(world.run("busy", 512));
    }
    assert_eq!(world.start_wanted(), ["busy", "busy"]);
    let mut late = world.run("late", 512);
    assert!(world.start_wanted().is_empty(), "all have just begun");
    world.tick(11 * SECOND);
    assert!(world.start_wanted().is_empty(), "one makes way");
    // It has two runs, and gets no others.
    for request in [1, 2] {
        world.answer(1, request);
    }
    world.tick(SECOND);
    world.bury();
    assert_eq!(world.start_wanted(), ["late"], "before `busy` has it again");
    world.answer(3, 1);
    assert_eq!(late.try_recv().unwrap().cause, RunCause::Answered);
    let ended = outcomes.iter_mut().map(|one| one.try_recv().is_ok());
    assert_eq!(ended.filter(|ended| *ended).count(), 2, "no run was lost");
    assert!(world.conductor.pools["busy"].waiting() > 0);
}

#[test]
fn deployment_that_wants_more_than_others_have_does_not_hold_them_up() {
    let mut world = World::new(1_024, 8);
    let _small = [world.run("a", 128), world.run("b", 128)];
    world.start_wanted();
    let _huge = world.run("huge", 1_024);
    let _more = [1, 2].map(|_| world.run("a", 128));
    world.tick(20 * SECOND);
    assert_eq!(world.start_wanted(), ["a"]);
    let retiring = |process: &WarmProcess| process.stage == ProcessStage::Retiring;
    let pools = world.conductor.pools.values();
    assert!(!pools.flat_map(|pool| &pool.processes).any(retiring));
}

#[test]
fn processes_that_retire_keep_no_others_from_starting() {
    let mut world = World::new(16_384, 2);
    let mut outcomes: Vec<_> = (0..4).map(|_| world.run("f", 128)).collect();
    assert_eq!(world.start_wanted().len(), 2);
    world.conductor.retire("f", world.now);
    outcomes.extend((0..4).map(|_| world.run("f", 128)));
    assert_eq!(world.start_wanted().len(), 2, "their runs may take long");
    world.conductor.retire("f", world.now);
    outcomes.extend((0..4).map(|_| world.run("f", 128)));
    assert!(
        world.start_wanted().is_empty(),
        "no more than twice as many"
    );
    for request in [1, 2] {
        world.answer(1, request);
    }
    world.tick(SECOND);
    world.bury();
    assert_eq!(world.start_wanted().len(), 1);
    for outcome in &mut outcomes[..2] {
        assert_eq!(outcome.try_recv().unwrap().cause, RunCause::Answered);
    }
}

#[test]
fn process_that_reads_nothing_is_not_owed_more_than_it_has_sent() {
    let mut world = World::new(1_024, 1);
    let _outcome = world.run("f", 128);
    world.start_wanted();
    let before = waiting_bytes(&world.conductor);
    let head = b"\x01{\"status\":200,\"headers\":{}}";
    world.send(1, FrameKind::Response, 1, head);
    for _ in 0..300_000 {
        world.send(1, FrameKind::Body, 1, b"\0x");
    }
    let owed = waiting_bytes(&world.conductor) - before;
    assert!(owed < 1_000, "{owed} bytes of credit for bytes one by one");
}

#[test]
fn process_that_gives_credit_byte_by_byte_is_not_owed_frames_for_it() {
    let mut world = World::new(1_024, 1);
    let body = Bytes::from(vec![b'b'; 10 * 1024 * 1024]);
    let _outcome = world.run_with("f", 128, (None, body));
    world.start_wanted();
    let before = waiting_bytes(&world.conductor);
    for _ in 0..200_000 {
        world.send(1, FrameKind::Credit, 1, &1_u32.to_le_bytes());
    }
    let owed = waiting_bytes(&world.conductor) - before;
    assert!((180_000..201_000).contains(&owed), "{owed} bytes");
}

#[test]
fn parts_of_nothing_end_the_process() {
    let parts: [(FrameKind, &[u8]); 4] = [
        (FrameKind::Body, b"\0"),
        (FrameKind::Response, b"\0"),
        (FrameKind::Log, b"\0"),
        (FrameKind::Credit, b"\0\0\0\0"),
    ];
    for (kind, payload) in parts {
        let mut world = World::new(1_024, 1);
        let mut outcome = world.run("f", 128);
        world.start_wanted();
        world.send(1, FrameKind::Started, 1, b"");
        if kind == FrameKind::Body {
            let head = b"\x01{\"status\":200,\"headers\":{}}";
            world.send(1, FrameKind::Response, 1, head);
        }
        world.send(1, kind, 1, payload);
        world.bury();
        let outcome = outcome.try_recv().expect("it has ended");
        assert_eq!(outcome.cause, RunCause::ProcessEnded, "{kind:?}");
    }
}

#[test]
fn heads_of_responses_that_do_not_end_are_bounded() {
    let mut world = World::new(1_024, 1);
    let of_ten = UnpackedDeployment {
        concurrency: 10,
        ..deployment("f", 128)
    };
    let run = |_| world.run_of(of_ten.clone(), (None, Bytes::new()));
    let mut outcomes: Vec<Awaited> = (0..10).map(run).collect();
    world.start_wanted();
    let mut piece = vec![b' '; 65_536];
    piece[0] = 0;
    for request in 1..=10 {
        world.send(1, FrameKind::Started, request, b"");
        if request == 9 {
            world.bury();
            assert!(outcomes[0].try_recv().is_err(), "8 MiB are held");
        }
        // Just less than one may have.
        for _ in 0..15 {
            world.send(1, FrameKind::Response, request, &piece);
        }
    }
    world.bury();
    let outcome = outcomes[0].try_recv().expect("it has ended");
    assert_eq!(outcome.cause, RunCause::ProcessEnded);
    assert!(
        outcome.errors.contains("heads that do not end"),
        "{outcome:?}"
    );
}

#[test]
fn process_that_says_to_have_started_more_than_it_has_got_is_ended() {
    let (read, write) = pipe_with(PipeFlags::NONBLOCK).unwrap();
    let mut world = World::new(1_024, 1);
    let mut outcomes = [world.run("f", 128), world.run("f", 128)];
    world.start_wanted();
    let pool = world.conductor.pools.get_mut("f").unwrap();
    pool.processes[0].launched.starts = Arc::new(Starts::of(read));
    let say = |request: u32| rustix::io::write(&write, &request.to_le_bytes()).unwrap();
    say(1);
    say(2);
    world.tick(SECOND);
    world.bury();
    assert_eq!(outcomes[0].try_recv().unwrap_err(), TryRecvError::Empty);
    say(2);
    world.tick(SECOND);
    world.bury();
    for outcome in &mut outcomes {
        let outcome = outcome.try_recv().expect("it has ended");
        assert_eq!(outcome.cause, RunCause::ProcessEnded);
        assert!(
            outcome.errors.contains("more requests"),
            "{}",
            outcome.errors
        );
    }
}

#[test]
fn run_that_answers_without_a_start_has_no_more_than_its_time() {
    let mut world = World::new(1_024, 1);
    let mut hostile = world.run("f", 128);
    let mut beside = world.run("f", 128);
    world.start_wanted();
    world.send(1, FrameKind::Started, 2, b"");
    let head = b"\x01{\"status\":200,\"headers\":{}}";
    world.send(1, FrameKind::Response, 1, head);
    world.tick(900 * SECOND);
    assert_eq!(hostile.try_recv().unwrap_err(), TryRecvError::Empty);
    world.answer(1, 2);
    // What is cancelled ends with the time that a blocked loop has.
    world.tick(SECOND);
    world.bury();
    assert_eq!(hostile.try_recv().unwrap().cause, RunCause::TimedOut);
    assert!(beside.try_recv().is_ok());
}

/// A loop that was held up begins what its caller has given up, and learns of that next.
#[test]
fn run_that_begins_after_its_cancellation_has_its_time_to_answer() {
    let mut world = World::new(1_024, 1);
    let mut blocking = world.run("f", 128);
    let mut late = world.run_with("f", 128, (Some(30 * SECOND), Bytes::new()));
    world.start_wanted();
    world.send(1, FrameKind::Started, 1, b"");
    world.tick(31 * SECOND);
    assert_eq!(late.try_recv().unwrap().cause, RunCause::WaitedTooLong);
    world.tick(SECOND);
    world.send(1, FrameKind::Started, 2, b"");
    world.tick(Duration::from_millis(10));
    world.answer(1, 2);
    world.answer(1, 1);
    let outcome = blocking.try_recv().expect("it was not killed before");
    assert_eq!(outcome.cause, RunCause::Answered);
}

#[test]
fn run_whose_process_cannot_be_started_says_after_a_second_that_the_host_could_not() {
    let mut world = World::new(1_024, 1);
    let mut outcome = world.run("f", 128);
    for _ in 0..4 {
        world.refuse_wanted();
        assert!(matches!(outcome.try_recv(), Err(TryRecvError::Empty)));
        assert!(world.conductor.wanted(world.now).is_none(), "not at once");
        world.tick(SECOND / 4);
    }
    world.refuse_wanted();
    let outcome = outcome.try_recv().unwrap();
    assert_eq!(outcome.cause, RunCause::NotStarted);
    assert!(outcome.errors.contains("Too many open files"));
    // One that the host can start in time runs as any other.
    let mut outcome = world.run("f", 128);
    world.tick(SECOND / 4);
    world.refuse_wanted();
    world.tick(SECOND / 4);
    assert_eq!(world.start_wanted(), ["f"]);
    let process = world.conductor.pools["f"].processes[0].number;
    world.answer(process, 1);
    assert_eq!(outcome.try_recv().unwrap().cause, RunCause::Answered);
}

#[test]
fn run_waits_for_a_process_that_takes_work_where_another_cannot_be_started() {
    let mut world = World::new(1_024, 2);
    let mut first = [world.run("f", 128), world.run("f", 128)];
    world.start_wanted();
    let mut late = world.run("f", 128);
    world.refuse_wanted();
    assert!(world.conductor.wanted(world.now).is_none(), "not at once");
    let mut later = world.run("f", 128);
    for outcome in [&mut late, &mut later] {
        assert!(matches!(outcome.try_recv(), Err(TryRecvError::Empty)));
    }
    world.answer(1, 1);
    assert_eq!(first[0].try_recv().unwrap().cause, RunCause::Answered);
    world.answer(1, 3);
    assert_eq!(late.try_recv().unwrap().cause, RunCause::Answered);
    world.tick(2 * SECOND);
    assert!(world.conductor.pools["f"].waiting() == 0);
}

#[test]
fn idle_processes_stay_where_their_memory_would_not_do() {
    let mut world = World::new(1_024, 8);
    let mut outcomes = [world.run("busy", 512), world.run("idle", 128)];
    world.start_wanted();
    let idle = world.conductor.pools["idle"].processes[0].number;
    world.answer(idle, 1);
    assert_eq!(outcomes[1].try_recv().unwrap().cause, RunCause::Answered);
    let _huge = world.run("huge", 1_024);
    for _ in 0..3 {
        world.tick(SECOND);
        assert!(world.start_wanted().is_empty());
        let process = &world.conductor.pools["idle"].processes[0];
        assert_eq!(process.stage, ProcessStage::Ready);
    }
}

#[test]
fn idle_processes_end_one_by_one_and_no_more_than_are_needed() {
    let mut world = World::new(1_024, 8);
    let names = ["a", "b", "c", "d"];
    let mut outcomes = names.map(|name| world.run(name, 256));
    world.start_wanted();
    for (name, outcome) in names.iter().zip(&mut outcomes) {
        let process = world.conductor.pools[*name].processes[0].number;
        world.answer(process, 1);
        assert_eq!(outcome.try_recv().unwrap().cause, RunCause::Answered);
    }
    let _wanting = world.run("wanting", 256);
    for _ in 0..3 {
        assert!(world.start_wanted().is_empty(), "none has ended yet");
    }
    let pools = world.conductor.pools.values();
    let ending = pools.flat_map(|pool| &pool.processes);
    let ending = ending.filter(|process| matches!(process.stage, ProcessStage::Ending(..)));
    assert_eq!(ending.count(), 1);
    world.bury();
    assert_eq!(world.start_wanted(), ["wanting"]);
}

fn exit(world: &mut World, process: u64) {
    for what in [
        Happening::Exited(crate::launch::ProcessExit::Code(3)),
        Happening::Closed,
    ] {
        let event = ProcessEvent { process, what };
        world.conductor.take_event(event, world.now);
    }
}

/// Lets the only process of a deployment begin its run and exit.
fn crash(world: &mut World, id: &str) {
    let process = world.conductor.pools[id].processes[0].number;
    world.send(process, FrameKind::Started, 1, b"");
    exit(world, process);
}

/// `bad` has just lost its process by its own fault, wants another one, and all memory is that of
/// `beside`, which is busy, and of `good`, which has answered.
fn lost_beside_good() -> World {
    let mut world = World::new(1_024, 8);
    let _first = ["good", "bad"].map(|name| world.run(name, 512));
    world.start_wanted();
    answer_good(&mut world, 1);
    crash(&mut world, "bad");
    let _beside = world.run("beside", 512);
    assert_eq!(world.start_wanted(), ["beside"]);
    let _again = world.run("bad", 512);
    assert!(world.start_wanted().is_empty());
    world
}

fn answer_good(world: &mut World, request: u32) {
    let process = &world.conductor.pools["good"].processes[0];
    assert_eq!(process.stage, ProcessStage::Ready, "it is warm each time");
    let process = process.number;
    world.answer(process, request);
}

#[test]
fn process_in_use_does_not_end_for_a_deployment_that_has_just_lost_its_own() {
    let mut world = lost_beside_good();
    for request in 2..6 {
        world.tick(2 * SECOND);
        assert!(world.start_wanted().is_empty());
        let _used = world.run("good", 512);
        answer_good(&mut world, request);
    }
    // Its turn comes all the same.
    world.tick(2 * SECOND);
    assert!(world.start_wanted().is_empty(), "one ends first");
    world.bury();
    assert_eq!(world.start_wanted(), ["bad"]);
}

#[test]
fn process_that_is_no_longer_in_use_ends_for_any_deployment() {
    let mut world = lost_beside_good();
    world.tick(IN_USE.checked_sub(SECOND).unwrap());
    assert!(world.start_wanted().is_empty());
    world.bury();
    assert!(world.start_wanted().is_empty(), "none has ended");
    world.tick(SECOND);
    assert!(world.start_wanted().is_empty(), "one ends first");
    world.bury();
    assert_eq!(world.start_wanted(), ["bad"]);
}

#[test]
fn process_that_holds_much_while_it_loads_is_left_to_load() {
    let mut world = World::new(1_024, 1);
    let mut outcome = world.run("f", 128);
    let wanted = world.conductor.wanted(world.now).unwrap();
    let number = wanted.number;
    let launched = Ok((Launched::pretended(), b"{}".to_vec()));
    world.conductor.add(wanted, launched, world.now);
    let pool = world.conductor.pools.get_mut("f").unwrap();
    pool.processes[0].memory_bytes = 120 << 20;
    world.tick(SECOND);
    world.send(number, FrameKind::Started, 0, &[]);
    world.answer(number, 1);
    assert_eq!(outcome.try_recv().unwrap().cause, RunCause::Answered);
}

#[test]
fn process_keeps_the_memory_that_it_was_started_with() {
    let mut world = World::new(640, 2);
    let mut before = world.run("f", 512);
    world.start_wanted();
    let lowered = UnpackedDeployment {
        revision: 2,
        ..deployment("f", 128)
    };
    let _after = world.run_of(lowered, (None, Bytes::new()));
    assert_eq!(world.start_wanted(), ["f"], "512 and 128 MiB fit");
    let _other = world.run("other", 128);
    assert!(world.start_wanted().is_empty(), "nothing is left");
    let limits = world.conductor.observed().into_iter();
    let limits: Vec<u64> = limits.map(|process| process.limit_bytes >> 20).collect();
    assert_eq!(limits, [512, 128]);
    world.conductor.take_memory(1, 500 << 20);
    world.tick(SECOND);
    world.answer(1, 1);
    assert_eq!(before.try_recv().unwrap().cause, RunCause::Answered);
    world.tick(SECOND);
    world.bury();
    assert_eq!(world.start_wanted(), ["other"]);
}

#[test]
fn bodies_of_all_runs_are_bounded_and_no_deployment_takes_what_others_need() {
    let mut world = World::new(16_384, 1);
    let body = |bytes: usize| (Some(60 * SECOND), Bytes::from(vec![b'b'; bytes]));
    let large = body(10 << 20);
    let ask = |world: &mut World, id: &str| world.try_run(deployment(id, 128), large.clone());
    let mut outcomes = Vec::new();
    for id in ["a", "b", "c"] {
        for _ in 0..6 {
            outcomes.push(ask(&mut world, id).unwrap());
        }
    }
    for _ in 0..3 {
        outcomes.push(ask(&mut world, "d").unwrap());
    }
    let bytes_max = 256 << 20;
    let full = RunRefusal::BodiesFull { bytes_max };
    assert_eq!(ask(&mut world, "d").unwrap_err(), full);
    outcomes.push(ask(&mut world, "e").unwrap());
    outcomes.push(world.run_of(deployment("d", 128), body(16 << 10)));
    // Of such runs the queue bounds the bodies.
    outcomes.push(world.run_of(deployment("d", 128), (None, large.1.clone())));
    world.start_wanted();
    let process = world.conductor.pools["a"].processes[0].number;
    for request in [1, 2] {
        world.answer(process, request);
    }
    outcomes.push(ask(&mut world, "d").unwrap());
}

/// A run that is answered, and what its process then writes.
fn run_and_write(world: &mut World, id: &str, text: &str) {
    let _outcome = world.run(id, 128);
    world.start_wanted();
    let process = world.conductor.pools[id].processes[0].number;
    world.answer(process, 1);
    let what = Happening::Output(true, text.as_bytes().to_vec());
    let event = ProcessEvent { process, what };
    world.conductor.take_event(event, world.now);
    world.tick(61 * SECOND);
    world.bury();
    world.tick(61 * SECOND);
    assert!(world.conductor.pools.is_empty());
}

#[test]
fn output_of_a_deployment_outlives_its_processes() {
    let mut world = World::new(1_024, 1);
    run_and_write(&mut world, "f", "first\n");
    assert_eq!(world.conductor.output("f"), "first");
    run_and_write(&mut world, "f", "second\n");
    assert_eq!(world.conductor.output("f"), "first\nsecond");
    run_and_write(&mut world, "silent", "");
    assert_eq!(world.conductor.output("silent"), "");
    for nth in 0..OUTPUTS_KEPT {
        assert_eq!(world.conductor.output("f"), "first\nsecond", "{nth}");
        run_and_write(&mut world, &format!("g{nth}"), "text");
    }
    assert_eq!(world.conductor.output("f"), "");
    assert_eq!(world.conductor.output("g0"), "text");
}
