//! A deployment whose code takes long to load keeps a process that has run nothing.

mod fixture;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fixture::{Language, executor, hostile, judge, run_on, work_in};
use functions::{Executor, FunctionWork, ProcessReport, RunCause};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The machine may be busy.
const PATIENCE: Duration = Duration::from_mins(1);

fn with_spares(name: &str, language: Language) -> Executor {
    executor(&format!("{name}-{language:?}"), |settings| {
        settings.processes_max = 1;
        settings.spare_idle_max = PATIENCE;
    })
}

/// Work for code that takes long to load.
fn work(language: Language, path: &str) -> FunctionWork {
    let mut deployment = hostile(language, "slow");
    deployment.entrypoint = format!("slow.{}", language.ending());
    work_in(deployment, path)
}

fn processes(executor: &Executor) -> Vec<ProcessReport> {
    let reports = executor.report().into_iter();
    reports.flat_map(|report| report.processes).collect()
}

#[track_caller]
fn until<T>(executor: &Executor, look: impl Fn(&[ProcessReport]) -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        let now = processes(executor);
        if let Some(seen) = look(&now) {
            return seen;
        }
        assert!(begun.elapsed() < PATIENCE, "{now:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The process id of the spare, once its code is loaded.
#[track_caller]
fn spare(executor: &Executor) -> u32 {
    until(executor, |now| {
        let spare = now.iter().find(|process| process.is_spare)?;
        spare.is_ready.then_some(spare.pid)
    })
}

fn told(executor: &Executor, language: Language) -> Value {
    let outcome = run_on(executor, work(language, "/"));
    let body = &outcome.response.body;
    serde_json::from_slice(body).unwrap_or_else(|_| panic!("{language:?} {}", outcome.errors))
}

fn ends_its_process(executor: &Executor, language: Language) {
    let outcome = run_on(executor, work(language, "/exit"));
    let about = format!("{language:?}");
    // On a busy machine its socket is seen closed first.
    let words = "exit code 3|it closed its socket";
    judge(&about, outcome, RunCause::ProcessEnded, words);
}

#[test]
fn spare_takes_over_and_knows_nothing_of_earlier_runs() {
    for language in Language::ALL {
        let executor = with_spares("taking", language);
        let mut tokens = HashSet::new();
        for start in 0..4 {
            let kept = (start > 0).then(|| spare(&executor));
            let outcome = run_on(&executor, work(language, "/"));
            assert_eq!(outcome.is_cold, start == 0, "{language:?} {start}");
            let found: Value = serde_json::from_slice(&outcome.response.body).unwrap();
            assert_eq!(
                (&found["runs"], &found["mark"]),
                (&1.into(), &Value::Null),
                "{language:?}"
            );
            assert!(tokens.insert(found["token"].to_string()), "{found}");
            let working = until(&executor, |now| {
                let working = now.iter().find(|process| !process.is_spare)?;
                Some(working.pid)
            });
            assert_eq!(kept.unwrap_or(working), working, "{language:?} {start}");
            assert_eq!(told(&executor, language)["runs"], 2);
            ends_its_process(&executor, language);
        }
    }
}

#[test]
fn spare_that_is_killed_is_replaced_and_costs_no_run() {
    for language in Language::ALL {
        let executor = with_spares("killed", language);
        told(&executor, language);
        let killed = spare(&executor);
        kill_process(Pid::from_raw(killed as i32).unwrap(), Signal::KILL).unwrap();
        assert_eq!(told(&executor, language)["runs"], 2, "{language:?}");
        until(&executor, |now| {
            let mut spares = now.iter().filter(|process| process.is_spare);
            spares
                .any(|process| process.is_ready && process.pid != killed)
                .then_some(())
        });
        // One that is gone just when it is needed, as well.
        let killed = spare(&executor);
        ends_its_process(&executor, language);
        let _ = kill_process(Pid::from_raw(killed as i32).unwrap(), Signal::KILL);
        assert_eq!(told(&executor, language)["runs"], 1, "{language:?}");
    }
}

#[test]
fn spare_ends_with_its_deployment_and_has_its_variables() {
    for language in Language::ALL {
        let executor = with_spares("changed", language);
        told(&executor, language);
        let old = spare(&executor);
        let mut changed = work(language, "/");
        let deployment = Arc::make_mut(&mut changed.deployment);
        deployment.revision += 1;
        deployment.variables.push(("MARK".into(), "new".into()));
        let outcome = run_on(&executor, changed.clone());
        let found: Value = serde_json::from_slice(&outcome.response.body).unwrap();
        assert_eq!(found["mark"], "new", "{language:?}");
        assert_ne!(spare(&executor), old, "{language:?}");
        executor.retire(&changed.deployment.id);
        until(&executor, |now| now.is_empty().then_some(()));
    }
}

#[test]
fn spare_ends_when_nothing_has_come_for_long() {
    for language in Language::ALL {
        let executor = executor(&format!("unused-{language:?}"), |settings| {
            // Longer than until a spare is started.
            settings.idle_max = Duration::from_secs(2);
            settings.spare_idle_max = Duration::from_secs(5);
        });
        // On a machine that stands still, so long may pass before one has begun.
        loop {
            told(&executor, language);
            let has_spare = until(&executor, |now| match now {
                [] => Some(false),
                [one] => one.is_spare.then_some(true),
                _ => None,
            });
            if has_spare {
                break;
            }
        }
        until(&executor, |now| now.is_empty().then_some(()));
        assert_eq!(told(&executor, language)["runs"], 1, "{language:?}");
    }
}

#[test]
fn spare_fails_as_any_process_whose_code_is_not_loaded() {
    for language in Language::ALL {
        let executor = with_spares("failing", language);
        let mut failing = work(language, "/");
        let deployment = Arc::make_mut(&mut failing.deployment);
        deployment.variables.push(("FAIL".into(), "1".into()));
        let about = format!("{language:?}");
        let words = "the code cannot be loaded";
        let fails = || {
            let outcome = run_on(&executor, failing.clone());
            judge(&about, outcome, RunCause::Answered, words).errors
        };
        let first = fails();
        spare(&executor);
        // Its process answers again and again, so it is killed for the spare's sake.
        let working = processes(&executor);
        let working = working.iter().find(|process| !process.is_spare).unwrap();
        kill_process(Pid::from_raw(working.pid as i32).unwrap(), Signal::KILL).unwrap();
        until(&executor, |now| {
            let is_gone = now.iter().all(|process| process.pid != working.pid);
            is_gone.then_some(())
        });
        assert_eq!(fails(), first, "{language:?}");
    }
}
