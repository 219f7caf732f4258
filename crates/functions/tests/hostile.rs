//! What bad functions yield: their own run fails as documented, others lose nothing.

mod fixture;

use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use fixture::{Language, executor, hostile, judge, run, run_all_on, run_on, wait, work_in};
use functions::{FunctionOutcome, FunctionWork, RunCause, RunRefusal};

/// Work for a deployment of its own, ended after a second.
fn work(language: Language, name: &str, path: &str) -> FunctionWork {
    let mut work = work_in(hostile(language, name), path);
    work.timeout = Duration::from_secs(1);
    work
}

fn failed(language: Language, path: &str, cause: RunCause, words: &str) -> FunctionOutcome {
    let name = path.trim_start_matches('/').split('?').next().unwrap();
    let work = work(language, name, path);
    let outcome = judge(
        &format!("{language:?} {path}"),
        run(work.clone()),
        cause,
        words,
    );
    // The next one finds a process again.
    let mut next = work;
    next.path = "/send".into();
    next.timeout = Duration::from_secs(30);
    assert_eq!(
        &run(next).response.body[..],
        b"sent",
        "{language:?} after {path}"
    );
    outcome
}

#[test]
fn a_loop_without_end_times_out() {
    for language in Language::ALL {
        failed(
            language,
            "/loop",
            RunCause::TimedOut,
            "Execution timed out.",
        );
    }
}

#[test]
fn waiting_without_end_times_out() {
    for language in Language::ALL {
        failed(
            language,
            "/forever",
            RunCause::TimedOut,
            "Execution timed out.",
        );
    }
}

#[test]
fn a_process_that_exits_says_its_last_words() {
    for language in Language::ALL {
        let sentence = "last words\nThe process ended (exit code 3).";
        let outcome = failed(language, "/exit", RunCause::ProcessEnded, sentence);
        assert!(outcome.errors.ends_with(sentence), "{}", outcome.errors);
        assert_eq!(
            outcome.errors.matches("last words").count(),
            1,
            "{}",
            outcome.errors
        );
    }
}

#[test]
fn a_process_that_closes_its_socket_is_replaced() {
    for language in Language::ALL {
        failed(
            language,
            "/close",
            RunCause::ProcessEnded,
            "it closed its socket|exit code",
        );
    }
}

#[test]
fn memory_without_end_is_refused() {
    for language in Language::ALL {
        let mut work = work(language, "memory", "/memory");
        Arc::make_mut(&mut work.deployment).memory_mib = 128;
        work.timeout = Duration::from_secs(30);
        let outcome = run(work.clone());
        assert_eq!(outcome.response.status, 500, "{language:?}");
        let sentence = "The function ran out of memory (128 MiB).";
        assert!(
            outcome.errors.contains(sentence),
            "{language:?} {}",
            outcome.errors
        );
        work.path = "/send".into();
        assert_eq!(&run(work).response.body[..], b"sent");
    }
}

#[test]
fn floods_of_output_are_drained() {
    for language in Language::ALL {
        let mut work = work(language, "stdout", "/stdout");
        work.timeout = Duration::from_secs(30);
        let outcome = run(work);
        assert_eq!(&outcome.response.body[..], b"written");
        assert!(outcome.logs.len() <= 1_000_000, "{}", outcome.logs.len());
    }
}

/// The longest letters that logs may have, of more runs at once than there is memory for: 4 MB each.
#[test]
fn logs_of_all_runs_together_are_bounded() {
    const RUNS: usize = 24;
    const HELD_MAX: usize = 64 * 1024 * 1024 / 2 + RUNS * 2 * 4 * 1024;
    let executor = executor("long-logs", |_| {});
    let mut flood = work(Language::Node, "long-logs", "/long-logs?ms=1000");
    flood.timeout = Duration::from_mins(2);
    flood.wait_max = None;
    let outcomes = run_all_on(&executor, vec![flood.clone(); RUNS]);
    let bytes = |outcome: &FunctionOutcome| outcome.logs.len() + outcome.errors.len();
    let held: usize = outcomes.iter().map(bytes).sum();
    assert!(held <= HELD_MAX, "{held}");
    let mut cut = 0;
    for outcome in &outcomes {
        assert_eq!(outcome.cause, RunCause::Answered, "{outcome:?}");
        assert!(outcome.errors.ends_with("the end\n"));
        for log in [&outcome.logs, &outcome.errors] {
            if log.len() < 490_000 * 4 {
                assert!(log.starts_with("[WARNING] "), "{} bytes", log.len());
                assert!(log.contains("truncated: functions that run hold too much of logs"));
                cut += 1;
            }
        }
    }
    assert!(cut > 0);
    // Another function has room meanwhile, and what is given back can be used again.
    let mut other = work_in(hostile(Language::Node, "other-logs"), "/long-logs?ms=0");
    other.timeout = Duration::from_mins(2);
    let other = run_on(&executor, other);
    assert!(!other.logs.contains("[WARNING]") && !other.errors.contains("[WARNING]"));
    drop(outcomes);
    let again = run_on(&executor, flood);
    assert!(!again.logs.contains("[WARNING]") && !again.errors.contains("[WARNING]"));
}

/// A frame as a handler would forge it.
fn forged(kind: u8, request: u32, payload: &[u8]) -> String {
    let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
    bytes.push(kind);
    bytes.extend(request.to_le_bytes());
    bytes.extend(payload);
    bytes
        .iter()
        .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

#[test]
fn forged_frames_end_the_process_that_sends_them() {
    let head = b"\x01{\"status\":200,\"headers\":{}}";
    let cases = [
        (
            "00000000630000000000".to_owned(),
            "a frame of the unknown kind 99",
        ),
        (
            "ffffffff060000000000".to_owned(),
            "a frame of 4294967295 bytes",
        ),
        (forged(1, 1, b"x"), "a frame that only the server sends"),
        (forged(4, 0, b""), "twice that it is ready"),
        (forged(4, 1, b""), "it started a request twice"),
        (forged(5, 77, head), "request 77, which it has not got"),
        (forged(3, 1, b"\x01x"), "a body before its response"),
        (
            forged(5, 1, head) + &forged(5, 1, head),
            "a second response",
        ),
        (
            forged(5, 1, b"\x01nonsense"),
            "a response whose head is no JSON",
        ),
        (forged(5, 1, b""), "an empty frame of a response"),
        (forged(6, 1, b"\x07text"), "a log of the unknown kind 7"),
        (
            forged(8, 1, b"\xff\xff\xff\x7f"),
            "more credit than it had taken",
        ),
        (forged(8, 1, b"\x01"), "a credit that is no number"),
    ];
    // The server judges them, so that one language for each will do; and each has processes of its
    // own, because three early ends put off the next start.
    for ((hex, words), language) in cases.iter().zip(Language::ALL.iter().cycle()) {
        let path = format!("/forge?hex={hex}");
        let outcome = run(work(*language, &format!("forged-{hex}"), &path));
        judge(words, outcome, RunCause::ProcessEnded, words);
    }
}

#[test]
fn a_caller_waits_no_longer_than_it_may() {
    for language in Language::ALL {
        let mut late = work(language, "wait", "/await?ms=60000");
        late.timeout = Duration::from_mins(1);
        late.wait_max = Some(Duration::from_millis(300));
        let outcome = run(late);
        judge(
            "a late caller",
            outcome,
            RunCause::WaitedTooLong,
            "waited as long as",
        );
    }
}

/// Two requests in one process, the second of which is never answered.
fn beside(language: Language, path: &str) -> Vec<FunctionOutcome> {
    let executor = executor(&format!("beside-{language:?}"), |settings| {
        settings.processes_max = 1;
    });
    let name = "beside";
    let mut warm = work(language, name, "/send");
    warm.timeout = Duration::from_secs(30);
    run_on(&executor, warm.clone());
    let mut bad = work(language, name, path);
    bad.timeout = Duration::from_millis(700);
    let mut first = work(language, name, "/await?ms=400");
    first.timeout = Duration::from_secs(30);
    let mut works = vec![first, bad];
    works.extend(std::iter::repeat_n(warm, 4));
    run_all_on(&executor, works)
}

#[test]
fn neighbours_of_a_waiting_handler_end_in_peace() {
    for language in Language::ALL {
        let outcomes = beside(language, "/forever");
        assert_eq!(outcomes[1].cause, RunCause::TimedOut);
        for outcome in outcomes[..1].iter().chain(&outcomes[2..]) {
            assert_eq!(outcome.cause, RunCause::Answered, "{}", outcome.errors);
        }
    }
}

#[test]
fn requests_that_were_not_started_move_to_another_process() {
    // The loop blocks whatever comes behind it in Node; Python starts them in threads.
    let outcomes = beside(Language::Node, "/loop");
    assert_eq!(outcomes[1].cause, RunCause::TimedOut);
    for outcome in outcomes
        .iter()
        .filter(|outcome| outcome.cause != RunCause::TimedOut)
    {
        let is_neighbour = outcome.cause == RunCause::NeighbourStopped;
        assert!(
            is_neighbour || outcome.cause == RunCause::Answered,
            "{outcome:?}"
        );
        assert!(
            !is_neighbour || outcome.errors == "worker stopped",
            "{outcome:?}"
        );
    }
}

#[test]
fn a_process_that_never_answers_is_started_later() {
    for language in Language::ALL {
        let executor = executor(&format!("backoff-{language:?}"), |settings| {
            settings.processes_max = 1;
        });
        let exit = work(language, "backoff", "/exit");
        for _ in 0..3 {
            let outcome = run_on(&executor, exit.clone());
            assert_eq!(outcome.cause, RunCause::ProcessEnded);
        }
        let outcome = run_on(&executor, exit.clone());
        judge(
            "after three ends",
            outcome,
            RunCause::NeverStarted,
            "last words\nThe process ended (exit code 3).",
        );
        // A new revision has done nothing wrong yet.
        let mut next = work(language, "backoff", "/send");
        Arc::make_mut(&mut next.deployment).revision = 2;
        assert_eq!(&run_on(&executor, next).response.body[..], b"sent");
    }
}

#[test]
fn code_that_never_loads_is_ended() {
    let executor = executor("silent", |settings| {
        settings.start_max = Duration::from_millis(400);
    });
    for language in Language::ALL {
        let folder = tempfile::tempdir().unwrap();
        let entrypoint = format!("main.{}", language.ending());
        let code = match language {
            Language::Node => "for (;;);",
            Language::Python => "while True:\n    pass\n",
        };
        std::fs::write(folder.path().join(&entrypoint), code).unwrap();
        let mut deployment = hostile(language, "never-loads");
        deployment.folder = folder.path().to_owned();
        deployment.entrypoint = entrypoint;
        let outcome = run_on(&executor, work_in(deployment, "/"));
        judge(
            "no start",
            outcome,
            RunCause::NeverStarted,
            "it did not start in time",
        );
    }
}

#[test]
fn idle_processes_end() {
    let executor = executor("idle", |settings| {
        settings.idle_max = Duration::from_millis(200);
    });
    for language in Language::ALL {
        run_on(&executor, work(language, "idle", "/send"));
    }
    while executor
        .report()
        .iter()
        .any(|pool| !pool.processes.is_empty())
    {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a request is in flight, or its run has ended before that was seen.
fn until_in_flight<T>(executor: &functions::Executor, running: &ScopedJoinHandle<'_, T>) {
    let has_one = |pool: &functions::DeploymentReport| {
        pool.processes.iter().any(|process| process.flights == 1)
    };
    while !running.is_finished() && !executor.report().iter().any(has_one) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_retired_process_is_replaced_without_loss() {
    for language in Language::ALL {
        let executor = executor(&format!("retire-{language:?}"), |_| {});
        let mut slow = work(language, "retire", "/await?ms=300");
        slow.timeout = Duration::from_secs(30);
        let running = std::thread::scope(|scope| {
            let running = scope.spawn(|| run_on(&executor, slow.clone()));
            until_in_flight(&executor, &running);
            executor.retire(&slow.deployment.id);
            let next = run_on(&executor, work(language, "retire", "/send"));
            assert_eq!(&next.response.body[..], b"sent");
            assert!(next.is_cold);
            running.join().unwrap()
        });
        assert_eq!(&running.response.body[..], b"waited", "{}", running.errors);
        let report = executor.report();
        assert_eq!(report[0].starts, 2, "{report:?}");
    }
}

#[test]
fn a_shut_down_executor_leaves_no_process() {
    let executor = executor("closing", |_| {});
    let slow = work(Language::Node, "closing", "/forever");
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| run_on(&executor, slow.clone()));
        until_in_flight(&executor, &running);
        executor.shut_down(Duration::ZERO);
        running.join().unwrap()
    });
    judge(
        "shut down",
        outcome,
        RunCause::ShutDown,
        "The server is stopping.",
    );
    assert_eq!(wait(executor.run(slow)).unwrap_err(), RunRefusal::Closing);
}

#[test]
fn a_runtime_that_is_missing_is_refused() {
    let mut work = work(Language::Node, "missing", "/send");
    Arc::make_mut(&mut work.deployment).runtime = "node-14.5".into();
    let runtime = "node-14.5".to_owned();
    let executor = executor("missing", |_| {});
    assert_eq!(
        wait(executor.run(work)).unwrap_err(),
        RunRefusal::RuntimeMissing { runtime }
    );
}

#[test]
fn a_full_queue_refuses() {
    let executor = executor("full", |settings| settings.processes_max = 1);
    let mut work = work(Language::Node, "full", "/await?ms=1");
    Arc::make_mut(&mut work.deployment).concurrency = 1;
    work.body = vec![0; 10 * 1024 * 1024].into();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let spawn = |_| scope.spawn(|| wait(executor.run(work.clone())));
        let threads: Vec<_> = (0..12).map(spawn).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let refused = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    // Six bodies of 10 MiB wait in 64 MiB, one or two were on their way.
    assert!((1..=6).contains(&refused), "{refused}");
    let refusal = outcomes.into_iter().find_map(Result::err).unwrap();
    assert!(refusal.to_string().contains("67108864 bytes"), "{refusal}");
}
