//! The oracle of the list cache: seeded runs of the real engine over the real store, in which
//! everything that can come between two steps of a request does.
//!
//! One thread asks, and lets the writer's thread go on from gate to gate (`simulation/gated.rs`),
//! so of the two only one ever moves, and a seed repeats its run. Each answer is checked as
//! somebody would who looked at the store when the request came (`simulation/judge.rs`).
//!
//! A failing seed says how to replay it. `TIDEMARK_SIMULATION=seed` runs that seed alone and
//! writes down what happened, `TIDEMARK_SIMULATION=seed:steps` with so many steps: a run of fewer
//! steps is the beginning of a longer one, so that the step that failed is also the shortest run
//! that fails.
//!
//! Left out, because the store has neither yet: rows that are scheduled to start or end later,
//! and with them valid-time boundaries that pass while nobody commits.

#[path = "simulation/chance.rs"]
mod chance;
#[path = "simulation/domain.rs"]
mod domain;
#[path = "simulation/gate.rs"]
mod gate;
#[path = "simulation/gated.rs"]
mod gated;
#[path = "simulation/judge.rs"]
mod judge;
#[path = "simulation/question.rs"]
mod question;
mod stage;
#[path = "simulation/tally.rs"]
mod tally;
#[path = "simulation/world.rs"]
mod world;
#[path = "simulation/write.rs"]
mod write;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use list_cache::Rule;
use query::ast::Method;
use tally::Tally;
use world::{Failure, World};

const STEPS: usize = 500;
/// The lines of the trace that lead to a failure, and are shown.
const TRACE_LINES: usize = 60;

/// How many seeds are run: 200 by day.
fn seeds() -> u64 {
    match std::env::var("TIDEMARK_LANE").as_deref() {
        Ok("night") => 5_000,
        Ok(other) => other.parse().unwrap_or(200),
        _ => 200,
    }
}

/// One run. A panic of the code under test is a failure like another.
fn run(seed: u64, steps: usize, without: Option<Rule>) -> Result<Tally, Failure> {
    let mut world = World::new(seed, without, false);
    let ran = catch_unwind(AssertUnwindSafe(|| world.run(steps)));
    match ran {
        Ok(Ok(())) => Ok(std::mem::take(&mut world.tally)),
        Ok(Err(failure)) => Err(failure),
        Err(_) => Err(Failure {
            step: world.steps_done + 1,
            what: "a panic".to_owned(),
        }),
    }
}

/// Runs a seed again with its trace written down, and shows the end of it.
fn replay(seed: u64, steps: usize, without: Option<Rule>) -> Result<(), Failure> {
    let mut world = World::new(seed, without, true);
    let ran = catch_unwind(AssertUnwindSafe(|| world.run(steps)));
    let lines: Vec<&str> = world.trace().lines().collect();
    let from = lines.len().saturating_sub(TRACE_LINES);
    println!("{}", lines[from..].join("\n"));
    ran.unwrap_or_else(|_| {
        Err(Failure {
            step: world.steps_done + 1,
            what: "a panic".to_owned(),
        })
    })
}

/// Seeds that failed, and what happened in all others together.
fn run_all(seeds: u64) -> (Vec<(u64, Failure)>, Tally) {
    let next = AtomicU64::new(0);
    let found = Mutex::new((Vec::new(), Tally::default()));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    let ran = run(seed, STEPS, None);
                    let mut found = found.lock().unwrap();
                    match ran {
                        Ok(tally) => found.1.take_in(&tally),
                        Err(failure) => found.0.push((seed, failure)),
                    }
                }
            });
        }
    });
    let (mut failed, tally) = found.into_inner().unwrap();
    failed.sort_by_key(|(seed, _)| *seed);
    (failed, tally)
}

/// What must have happened in the runs of a day.
const HAPPENS: &[&str] = &[
    "answers",
    "refusals",
    "answers in random order",
    "states",
    "gates passed between steps",
    "requests that went away",
    "exact hits",
    "hits of whole tables that outlived a commit",
    "degradations",
    "invalidations",
    "refused fills",
    "patched totals",
    "evictions",
    "exact misses",
    "joins",
    "hits that may be stale",
    "hits within a ttl that are not stale",
    "answers with several reads",
    "answers of a state that has passed",
    "asked while hidden",
    "misses within a ttl",
    "clock steps back",
    "commits that failed",
    "groups of several commits",
    "groups that report tables",
    "writes refused",
    "Create",
    "Update",
    "Upsert",
    "Delete",
    "Increment",
    "CreateMany",
    "UpsertMany",
    "UpdateMatching",
    "DeleteMatching",
    "CreateColumn",
    "RenameColumn",
    "DeleteColumn",
    "CreateIndex",
    "DeleteIndex",
    "UpdateTable",
    "Purge",
    "CreateTable",
    "DeleteTable",
    "CreateDatabase",
    "UpdateDatabase",
    "DeleteDatabase",
    "CreateProject",
    "DeleteProject",
];

#[test]
fn no_answer_is_older_than_what_could_be_read_when_it_was_asked_for() {
    if let Ok(asked) = std::env::var("TIDEMARK_SIMULATION") {
        let (seed, steps) = asked.split_once(':').unwrap_or((&asked, ""));
        let seed = seed.parse().expect("a seed is a number");
        replay(seed, steps.parse().unwrap_or(STEPS), None).unwrap();
        return;
    }
    let (failed, tally) = run_all(seeds());
    println!("{tally}");
    if let Some((seed, failure)) = failed.first() {
        let again = replay(*seed, failure.step, None);
        let others: Vec<u64> = failed.iter().map(|(seed, _)| *seed).collect();
        panic!(
            "seed {seed} fails in step {}: {}\n\nreplay it with TIDEMARK_SIMULATION={seed}:{}\n\
             (the replay failed, too: {}; all seeds that failed: {others:?})",
            failure.step,
            failure.what,
            failure.step,
            again.is_err()
        );
    }
    let methods = Method::ALL.iter().map(|method| method.as_str());
    for what in HAPPENS.iter().copied().chain(methods) {
        assert!(tally.of(what) > 0, "never happened: {what}\n{tally}");
    }
}

/// Seeds among which a rule that is switched off must be missed.
const LOOKED_THROUGH: u64 = 200;

#[test]
fn find() {
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(rule) = Rule::ALL.get(next.fetch_add(1, Ordering::Relaxed) as usize)
                {
                    let found = (0..LOOKED_THROUGH).find_map(|seed| {
                        let failure = run(seed, STEPS, Some(*rule)).err()?;
                        Some((seed, failure))
                    });
                    match found {
                        Some((seed, failure)) => {
                            println!("FOUND {rule:?} {seed} step {}", failure.step)
                        }
                        None => println!("NOT FOUND {rule:?}"),
                    }
                }
            });
        }
    });
}

#[test]
fn evicted() {
    for seed in (1..10_000).step_by(5) {
        if let Err(failure) = run(seed, STEPS, Some(Rule::EvictedCountsAsAltered)) {
            println!("FOUND {seed} {}", failure.step);
            break;
        }
    }
}

#[test]
fn one() {
    let asked = std::env::var("ONE").unwrap_or_default();
    for rule in Rule::ALL {
        if let Some((seed, name)) = asked.split_once(':')
            && format!("{rule:?}") == name
        {
            println!("{:?}", replay(seed.parse().unwrap(), STEPS, Some(*rule)));
        }
    }
}
