//! How often deployments start processes that crash, and whom that holds up.

use super::*;

fn numbers(world: &World, id: &str) -> Vec<u64> {
    let processes = world.conductor.pools[id].processes.iter();
    processes.map(|process| process.number).collect()
}

/// Callers ask all the time, as many runs as three processes take.
#[test]
fn handler_that_exits_at_once_is_started_ever_less() {
    let mut world = World::new(16_384, 3);
    let (mut starts, mut failed, mut ended) = (Vec::new(), 0, 0);
    for _ in 0..1_200 {
        let runs: Vec<_> = (0..6).map(|_| world.run("f", 128)).collect();
        starts.push(world.start_wanted().len());
        for number in numbers(&world, "f") {
            for request in [1, 2] {
                world.send(number, FrameKind::Started, request, b"");
            }
            exit(&mut world, number);
        }
        world.tick(Duration::from_millis(100));
        for mut run in runs {
            let outcome = run.try_recv().expect("no caller waits");
            match outcome.cause {
                RunCause::NeverStarted => failed += 1,
                RunCause::ProcessEnded => ended += 1,
                cause => panic!("{cause:?}"),
            }
            assert_eq!(outcome.errors, "The process ended (exit code 3).");
        }
    }
    // In two minutes: three free ones, and those after 1, 2, 4, 8, 16, 32 seconds.
    let started: usize = starts.iter().sum();
    assert!((9..=12).contains(&started), "{started}");
    assert_eq!((ended, failed + ended), (2 * started, 7_200));
    let counts = world.conductor.counts.read();
    assert!(counts[RUNTIME].start_pauses >= 6, "{counts:?}");
}

#[test]
fn handler_that_exits_after_an_answer_is_started_once_a_second_and_its_runs_wait() {
    let mut world = World::new(1_024, 1);
    let (mut starts, mut waiting) = (0, Vec::new());
    for _ in 0..100 {
        waiting.push(world.run("f", 128));
        starts += world.start_wanted().len();
        for number in numbers(&world, "f") {
            world.answer(number, 1);
            exit(&mut world, number);
        }
        world.tick(Duration::from_millis(100));
    }
    assert!((10..=14).contains(&starts), "{starts} in ten seconds");
    let answered = waiting.iter_mut().filter_map(|run| run.try_recv().ok());
    let answered: Vec<_> = answered.collect();
    assert!(
        answered
            .iter()
            .all(|outcome| outcome.cause != RunCause::NeverStarted)
    );
    assert!(answered.len() >= starts);
}

#[test]
fn process_that_lasts_does_not_lift_the_pause_of_others() {
    let mut world = World::new(1_024, 2);
    let _first = world.run("f", 128);
    world.start_wanted();
    world.answer(1, 1);
    world.tick(11 * SECOND);
    let _lasting = [world.run("f", 128), world.run("f", 128)];
    let (mut starts, mut waiting) = (0, Vec::new());
    for _ in 0..100 {
        waiting.push(world.run("f", 128));
        starts += world.start_wanted().len();
        for number in numbers(&world, "f").into_iter().filter(|n| *n != 1) {
            world.answer(number, 1);
            exit(&mut world, number);
        }
        world.tick(Duration::from_millis(100));
    }
    assert!((10..=14).contains(&starts), "{starts} in ten seconds");
}

#[test]
fn pause_outlives_an_idle_time_that_is_shorter() {
    let mut world = World::new(1_024, 1);
    world.conductor.limits.pool.idle = SECOND;
    for _ in 0..6 {
        loop {
            let _run = world.run("f", 128);
            if world.start_wanted() == ["f"] {
                break;
            }
            world.tick(SECOND);
        }
        crash(&mut world, "f");
    }
    for _ in 0..7 {
        world.tick(SECOND);
        let mut run = world.run("f", 128);
        let cause = run.try_recv().expect("eight seconds have to pass").cause;
        assert_eq!(cause, RunCause::NeverStarted);
    }
    world.tick(SECOND);
    let _run = world.run("f", 128);
    assert_eq!(world.start_wanted(), ["f"]);
}

/// Deployments whose starts are slow keep a spare, and `f` has lost so many processes, none of
/// which had answered.
fn world_with_spares(lost: u32) -> World {
    let mut world = World::new(16_384, 2);
    world.conductor.limits.pool.spare_idle = 600 * SECOND;
    for _ in 0..lost {
        let _run = world.run("f", 128);
        assert!(matches!(world.start_slowly(), Some((_, false))));
        crash(&mut world, "f");
    }
    world
}

#[test]
fn spare_is_what_is_tried_after_a_pause() {
    let mut world = world_with_spares(3);
    assert!(world.start_slowly().is_none(), "no spare in a pause");
    world.tick(SECOND);
    let (spare, is_spare) = world.start_slowly().unwrap();
    assert!(is_spare);
    let mut runs: Vec<_> = (0..3).map(|_| world.run("f", 128)).collect();
    assert!(world.start_slowly().is_none(), "one is tried, no other");
    for request in [1, 2] {
        world.answer(spare, request);
    }
    world.answer(spare, 3);
    for run in &mut runs {
        assert_eq!(run.try_recv().unwrap().cause, RunCause::Answered);
    }
}

#[test]
fn spare_that_is_lost_prolongs_no_pause() {
    let mut world = world_with_spares(3);
    world.tick(SECOND);
    let (spare, is_spare) = world.start_slowly().unwrap();
    assert!(is_spare);
    exit(&mut world, spare);
    let mut run = world.run("f", 128);
    assert_eq!(run.try_recv().unwrap_err(), TryRecvError::Empty);
    assert_eq!(world.start_wanted(), ["f"]);
}

#[test]
fn spare_takes_runs_in_a_pause() {
    for comes_before in [true, false] {
        let mut world = world_with_spares(2);
        world.tick(SECOND);
        let (used, is_spare) = world.start_slowly().unwrap();
        assert!(is_spare);
        let _crashing = world.run("f", 128);
        world.send(used, FrameKind::Started, 1, b"");
        world.tick(SECOND);
        let (spare, is_spare) = world.start_slowly().unwrap();
        assert!(is_spare, "the one before is in use");
        let before = comes_before.then(|| world.run("f", 128));
        exit(&mut world, used);
        let mut run = before.unwrap_or_else(|| world.run("f", 128));
        world.answer(spare, 1);
        let cause = run.try_recv().unwrap().cause;
        assert_eq!(cause, RunCause::Answered, "{comes_before}");
    }
}

#[test]
fn deployments_that_have_just_crashed_start_in_turns_and_behind_others() {
    let mut world = World::new(16_384, 1);
    let bad: Vec<String> = (0..20).map(|nth| format!("bad{nth}")).collect();
    let mut runs: Vec<_> = bad.iter().map(|id| world.run(id, 128)).collect();
    assert_eq!(world.start_wanted().len(), 20, "none has crashed before");
    for id in &bad {
        crash(&mut world, id);
    }
    runs.extend(bad.iter().map(|id| world.run(id, 128)));
    runs.push(world.run("good", 128));
    let mut started = world.start_wanted();
    assert_eq!(started.len(), 2, "{started:?}");
    assert_eq!(started[0], "good");
    for _ in 0..19 {
        assert!(world.start_wanted().is_empty());
        world.tick(FAULTY_STARTS);
        started.extend(world.start_wanted());
    }
    started.sort();
    started.dedup();
    assert_eq!(started.len(), 21, "each has its turn");
}

#[test]
fn deployments_that_have_crashed_and_wait_for_long_still_start_in_turns() {
    let mut world = World::new(16_384, 1);
    let bad: Vec<String> = (0..20).map(|nth| format!("bad{nth}")).collect();
    let mut runs: Vec<_> = bad.iter().map(|id| world.run(id, 128)).collect();
    world.start_wanted();
    for id in &bad {
        crash(&mut world, id);
    }
    runs.extend(bad.iter().map(|id| world.run(id, 128)));
    world.tick(11 * SECOND);
    for nth in 0..20 {
        assert_eq!(world.start_wanted().len(), 1, "{nth}");
        world.tick(FAULTY_STARTS);
    }
}

#[test]
fn spare_is_not_started_while_runs_wait_for_their_turn() {
    let mut world = world_with_spares(0);
    let bad = ["bad0", "bad1"];
    let mut runs: Vec<_> = bad.iter().map(|id| world.run(id, 128)).collect();
    world.start_wanted();
    for id in bad {
        crash(&mut world, id);
    }
    runs.push(world.run("slow", 128));
    let (slow, _) = world.start_slowly().unwrap();
    world.answer(slow, 1);
    world.tick(SECOND);
    runs.extend(bad.iter().map(|id| world.run(id, 128)));
    let mut started = world.start_wanted();
    assert_eq!(started.len(), 1, "{started:?}");
    world.tick(FAULTY_STARTS);
    started.extend(world.start_wanted());
    assert_eq!(started.pop().unwrap(), "slow", "its spare comes last");
    started.sort();
    assert_eq!(started, bad);
}
