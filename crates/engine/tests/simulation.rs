//! The oracle of the list cache: seeded runs of the real engine over the real store, in which
//! everything that can come between two steps of a request does.
//!
//! One thread asks, and lets the writer's thread go on from gate to gate (`simulation/gated.rs`),
//! so of the two only one ever moves, and a seed repeats its run. Each answer is checked as
//! an observer would who looked at the store when the request came (`simulation/judge.rs`).
//!
//! A failing seed says how to replay it: a run of fewer steps is the beginning of a longer one, so
//! that the step that failed is also the shortest run of the seed that fails.
//!
//! `TIDEMARK_SIMULATION` chooses something else than the runs of every day: `seed` replays one run
//! and writes down what happened, `seed:steps` one with so many steps, `seed:steps:Rule` one
//! without a rule of invalidation; a number of seeds is `seeds=1000`, of so many steps each
//! `seeds=1000:2000`; `table` looks for the seeds of [`MISSED`] again, `table:Rule` for that of one
//! rule. At night 5,000 seeds are run, and 1,000 in a database. `travel:` before a seed is for the
//! runs that ask about other times as well.
//!
//! Rows are scheduled to start and end later, and the clock passes such boundaries while no caller
//! commits: each passage is a state of its own.

#[path = "simulation/chance.rs"]
mod chance;
#[path = "simulation/domain.rs"]
mod domain;
mod fixture;
#[path = "simulation/gate.rs"]
mod gate;
#[path = "simulation/gated.rs"]
mod gated;
#[path = "simulation/judge.rs"]
mod judge;
#[path = "simulation/plan.rs"]
mod plan;
#[path = "simulation/question.rs"]
mod question;
#[path = "simulation/tally.rs"]
mod tally;
#[path = "simulation/temporal_transaction.rs"]
mod temporal_transaction;
#[path = "simulation/timed.rs"]
mod timed;
#[path = "simulation/times.rs"]
mod times;
#[path = "simulation/world.rs"]
mod world;
#[path = "simulation/write.rs"]
mod write;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::ErasureFault;
use list_cache::Rule;
use query::ast::Method;
use tally::Tally;
use testing::places::{on_database, spawn_as_test};
use world::{Failure, World};

const STEPS: usize = 500;
/// The lines of the trace that lead to a failure, and are shown.
const TRACE_LINES: usize = 60;
/// Seeds among which `table` looks for one that misses a rule.
const TABLE_SEEDS: u64 = 2_000;

/// What was asked for by `TIDEMARK_SIMULATION`.
fn asked() -> Option<String> {
    std::env::var("TIDEMARK_SIMULATION").ok()
}

/// How many seeds are run, and the steps of each. A database takes longer for each read.
fn seeds() -> (u64, usize) {
    if let Some(asked) = asked()
        && let Some(asked) = asked.strip_prefix("seeds=")
    {
        let (seeds, steps) = match asked.split_once(':') {
            Some((seeds, steps)) => (seeds, steps.parse().expect("a number of steps")),
            None => (asked, STEPS),
        };
        return (seeds.parse().expect("a number of seeds"), steps);
    }
    let is_night = std::env::var("TIDEMARK_LANE").is_ok_and(|lane| lane == "night");
    let seeds = match (is_night, on_database()) {
        (true, false) => 5_000,
        (true, true) => 1_000,
        (false, false) => 200,
        (false, true) => 40,
    };
    (seeds, STEPS)
}

/// Whether few seeds are run, as by day in a database: they do not show all that happens.
fn is_brief() -> bool {
    on_database() && seeds().0 < 200
}

/// How many of so many seeds are run.
fn of_seeds(seeds: u64) -> u64 {
    if is_brief() { 1 } else { seeds }
}

/// What happens in every run.
const HAPPENS_ALWAYS: [&str; 2] = ["exact hits", "invalidations"];

fn assert_happened<'a>(tally: &Tally, happens: impl IntoIterator<Item = &'a str>) {
    for what in happens {
        let must = !is_brief() || HAPPENS_ALWAYS.contains(&what);
        assert!(
            !must || tally.of(what) > 0,
            "never happened: {what}\n{tally}"
        );
    }
}

fn run_in(world: &mut World, steps: usize) -> Result<(), Failure> {
    // A panic of the code under test is a failure like another.
    let ran = catch_unwind(AssertUnwindSafe(|| world.run(steps)));
    ran.unwrap_or_else(|_| {
        Err(Failure {
            step: world.steps_done + 1,
            what: "a panic".to_owned(),
        })
    })
}

fn run(seed: u64, steps: usize) -> Result<Tally, Failure> {
    let mut world = World::new(seed, None, false);
    run_in(&mut world, steps)?;
    Ok(std::mem::take(&mut world.tally))
}

/// A run that may show what a rule is for, with the rule or without it.
fn run_for(rule: Rule, is_off: bool, seed: u64, steps: usize) -> Result<(), Failure> {
    let mut world = World::new(seed, is_off.then_some(rule), false);
    if OF_THE_PAST.contains(&rule) {
        world.travel_in_time();
    }
    run_in(&mut world, steps)
}

/// Runs with the trace written down, and shows the end of it.
fn replay(world: &mut World, steps: usize) -> Result<(), Failure> {
    let ran = run_in(world, steps);
    println!("{}", last_lines(world));
    ran
}

fn last_lines(world: &World) -> String {
    let lines: Vec<&str> = world.trace().lines().collect();
    let from = lines.len().saturating_sub(TRACE_LINES);
    lines[from..].join("\n")
}

/// Runs of so many seeds, each of which begins as `begin` lets it.
fn tally_of(seeds: u64, begin: fn(&mut World)) -> Tally {
    let runs = in_parallel(seeds, |seed| {
        let mut world = World::new(seed, None, true);
        begin(&mut world);
        let ran = run_in(&mut world, STEPS);
        ran.map(|()| std::mem::take(&mut world.tally))
            .map_err(|failure| format!("seed {seed}: {failure:?}\n{}", last_lines(&world)))
    });
    let mut tally = Tally::default();
    for run in runs {
        tally.take_in(&run.unwrap_or_else(|failed| panic!("{failed}")));
    }
    println!("{tally}");
    tally
}

/// Does the work for each number below `count`, on as many threads as there are cores.
fn in_parallel<T: Send>(count: u64, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            spawn_as_test(scope, || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed) as u64;
                    if number >= count {
                        return;
                    }
                    let found = work(number);
                    done.lock().unwrap().push((number, found));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, found)| found).collect()
}

/// What must have happened in the runs of a day.
const HAPPENS: &[&str] = &[
    "answers",
    "refusals",
    "answers in random order",
    "states",
    "gates passed between steps",
    "requests that went away",
    "reads that failed",
    "exact hits",
    "hits of whole tables that outlived a commit",
    "degradations",
    "invalidations",
    "refused fills",
    "patched totals",
    "evictions",
    "exact misses",
    "joins",
    "hits by name",
    "rows at once",
    "hits that may be stale",
    "older answers whose rows were judged",
    "hits within a ttl that are not stale",
    "answers with several reads",
    "answers of a state that has passed",
    "asked while hidden",
    "misses within a ttl",
    "clock steps back",
    "boundaries that passed",
    "what was due activated",
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
    "CreateRelationship",
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

/// Whether something else was asked for than the tests of every day, which is then done.
fn does_what_was_asked(asked: &str) -> bool {
    if asked.starts_with("seeds=") {
        return false;
    }
    let (mut travels, asked) = match asked.strip_prefix("travel:") {
        Some(asked) => (true, asked),
        None => (false, asked),
    };
    let mut parts = asked.split(':');
    let seed = parts.next().and_then(|seed| seed.parse().ok());
    let seed = seed.expect("a seed is a number");
    let steps = parts.next().and_then(|steps| steps.parse().ok());
    let without = parts.next().map(|name| {
        let named = Rule::ALL.iter().find(|rule| format!("{rule:?}") == name);
        *named.expect("a rule by its name")
    });
    travels |= without.is_some_and(|rule| OF_THE_PAST.contains(&rule));
    let mut world = World::new(seed, without, true);
    if travels {
        world.travel_in_time();
    }
    replay(&mut world, steps.unwrap_or(STEPS)).unwrap();
    true
}

#[test]
fn no_answer_is_older_than_what_could_be_read_when_it_was_asked_for() {
    if asked().is_some_and(|asked| asked.starts_with("table") || does_what_was_asked(&asked)) {
        return;
    }
    let mut tally = Tally::default();
    let mut failed: Vec<(u64, Failure)> = Vec::new();
    let (seeds, steps) = seeds();
    let runs = in_parallel(seeds, |seed| run(seed, steps));
    for (seed, run) in (0..).zip(runs) {
        match run {
            Ok(of_run) => tally.take_in(&of_run),
            Err(failure) => failed.push((seed, failure)),
        }
    }
    if let Some((seed, failure)) = failed.first() {
        let step = failure.step;
        let mut world = World::new(*seed, None, true);
        let again = replay(&mut world, step).map_err(|failure| failure.step);
        let all: Vec<u64> = failed.iter().map(|(seed, _)| *seed).collect();
        panic!(
            "seed {seed} fails in step {step}: {}\n\nTIDEMARK_SIMULATION={seed}:{step} replays \
             it, which gave {again:?}; seeds that failed: {all:?}",
            failure.what
        );
    }
    println!("{tally}");
    // Other times than now are read by the runs that travel.
    let of_now = |method: &&Method| {
        !matches!(
            method,
            Method::AsOf
                | Method::ValidAt
                | Method::ValidBetween
                | Method::SystemBetween
                | Method::Versions
        )
    };
    let methods = Method::ALL.iter().filter(of_now);
    let methods = methods.map(|method| method.as_str());
    // A database reads no row at once.
    let happens = HAPPENS.iter().copied();
    let happens = happens.filter(|what| !on_database() || *what != "rows at once");
    assert_happened(&tally, happens.chain(methods));
}

/// Runs in which writes are staged in transactions. Apart from the others, whose seeds would
/// otherwise draw other runs.
const STAGED_SEEDS: u64 = 50;

#[test]
fn no_answer_is_older_beside_transactions_either() {
    if asked().is_some() {
        return;
    }
    let tally = tally_of(of_seeds(STAGED_SEEDS), World::stage_writes);
    let staged = ["Commit", "RollBack", "groups that only stage"];
    assert_happened(&tally, staged);
    assert_happened(
        &tally,
        ["exact hits", "invalidations", "commits that failed"],
    );
}

/// Runs in which other times than now are read, and written. At night thirty times as many.
const TRAVEL_SEEDS: u64 = 50;

/// What must have happened in them.
const HAPPENS_IN_TIME: &[&str] = &[
    "answers at other times",
    "rows at other times",
    "rows of now",
    "hits at other times",
    "SetOptions",
    "times that were settled",
    "times that have not come",
    "answers of an erased past",
    "answers of a past that is whole",
    "answers that came again",
    "answers whose grounds were moved",
    "looks inside that were judged",
    "transactions that expired",
    "commits just in time",
    "boundaries that passed",
    "Timed",
    "Erase",
    "Commit",
    "RollBack",
    "Abandon",
    "exact hits",
    "invalidations",
];

#[test]
fn an_answer_about_a_settled_time_is_the_same_for_ever() {
    if asked().is_some_and(|asked| !asked.starts_with("seeds=")) {
        return;
    }
    let times = if seeds().0 > 1_000 { 30 } else { 1 };
    let tally = tally_of(of_seeds(times * TRAVEL_SEEDS), World::travel_in_time);
    let of_time = ["asOf", "validAt", "validBetween", "versions"];
    assert_happened(&tally, HAPPENS_IN_TIME.iter().copied().chain(of_time));
}

/// Runs in which lists look at where rows stand in time.
const ENDS_SEEDS: u64 = 60;

#[test]
fn no_answer_is_older_where_lists_look_at_ends() {
    if asked().is_some_and(|asked| !asked.starts_with("seeds=")) {
        return;
    }
    let tally = tally_of(of_seeds(ENDS_SEEDS), |world| {
        world.travel_in_time();
        world.look_at_ends();
    });
    let happens = [
        "boundaries that passed",
        "Timed",
        "exact hits",
        "invalidations",
        "hits at other times",
        "systemBetween",
    ];
    assert_happened(&tally, happens);
}

/// What answers may say wrongly of erasures, and a seed whose run finds it.
const MISTOLD: &[(ErasureFault, u64)] = &[(ErasureFault::Untold, 0), (ErasureFault::OfAnyTime, 0)];

#[test]
fn erasures_that_are_mistold_are_noticed() {
    if asked().is_some() || is_brief() {
        return;
    }
    for (fault, seed) in MISTOLD.iter().copied() {
        let ran = |is_wrong: bool| {
            let mut world = World::new(seed, None, false);
            world.travel_in_time();
            if is_wrong {
                world.mistell_erasures(fault);
            }
            run_in(&mut world, STEPS)
        };
        let found = ran(true).expect_err("what is wrong is found");
        let what = found.what;
        assert!(what.contains("tells of an erasure"), "{fault:?}: {what}");
        assert!(ran(false).is_ok(), "seed {seed} fails with nothing wrong");
    }
}

/// Runs in which no answer comes of some commits, half of which read other times as well.
const DOUBT_SEEDS: u64 = 40;

fn lose_answers_in_time(world: &mut World) {
    world.travel_in_time();
    world.lose_answers();
}

#[test]
fn no_answer_is_older_where_the_outcome_of_commits_is_unknown_for_a_while() {
    if asked().is_some_and(|asked| !asked.starts_with("seeds=")) {
        return;
    }
    let seeds = of_seeds(DOUBT_SEEDS / 2) * if seeds().0 > 1_000 { 25 } else { 1 };
    let mut tally = tally_of(seeds, World::lose_answers);
    tally.take_in(&tally_of(seeds, lose_answers_in_time));
    let happens = [
        "commits in doubt that were done",
        "commits in doubt that were not done",
        "reads that left a commit in doubt",
        "writes that left a commit in doubt",
        "exact hits",
        "joins",
        "invalidations",
        "patched totals",
    ];
    assert_happened(&tally, happens);
}

/// Whether the run of a seed fails when commits in doubt are taken for such that came to nothing,
/// and not otherwise.
fn misses_doubt(seed: u64) -> bool {
    let holds = |is_ignored: bool| {
        let mut world = World::new(seed, None, false);
        world.lose_answers();
        if is_ignored {
            world.ignore_doubt();
        }
        let ran = run_in(&mut world, STEPS);
        println!("seed {seed} {is_ignored}: {ran:?}");
        ran.is_ok()
    };
    !holds(true) && holds(false)
}

#[test]
fn doubt_that_is_ignored_is_missed() {
    if asked().is_none() && !is_brief() {
        let missed = (0..DOUBT_SEEDS).find(|seed| misses_doubt(*seed));
        assert!(missed.is_some(), "by none of {DOUBT_SEEDS} seeds");
    }
}

/// A seed whose run fails when a read may settle at a mark that a commit has taken and not
/// published.
const PENDING: u64 = 2_288;

/// Whether the run of a seed fails without the rule, and not with it.
fn misses_pending(seed: u64) -> bool {
    let holds = |is_ignored: bool| {
        let mut world = World::new(seed, None, false);
        world.travel_in_time();
        if is_ignored {
            world.ignore_pending_marks();
        }
        run_in(&mut world, STEPS).is_ok()
    };
    !holds(true) && holds(false)
}

/// The first such seed.
fn missing_pending() -> Option<u64> {
    const AT_ONCE: u64 = 100;
    // One in some thousand runs shows it.
    let seeds = 0..5 * TABLE_SEEDS;
    seeds.step_by(AT_ONCE as usize).find_map(|from| {
        let miss = in_parallel(AT_ONCE, |n| misses_pending(from + n));
        (from..)
            .zip(miss)
            .find_map(|(seed, does)| does.then_some(seed))
    })
}

#[test]
fn marks_that_are_pending_are_missed_when_they_are_ignored() {
    if asked().is_none() && !is_brief() {
        let is_missed = misses_pending(PENDING);
        assert!(is_missed, "seed {:?} does", missing_pending());
    }
}

/// Each rule of invalidation, and a seed and steps whose run fails when it is switched off.
const MISSED: &[(Rule, u64, usize)] = &[
    (Rule::BucketsSeeBefore, 8, 150),
    (Rule::BucketsSeeAfter, 2, 300),
    (Rule::EachAlternativeHasAnEquality, 3, 250),
    (Rule::ResidualsAreAsked, 0, 100),
    (Rule::GuardsSeeBefore, 3, 200),
    (Rule::EndlessPagesAreAsked, 9, 200),
    (Rule::EqualRanksAreAsked, 0, 100),
    (Rule::UndecidableAreDropped, 2, 250),
    (Rule::VisibilityOfBefore, 3, 200),
    (Rule::WindowOfFullPagesOnly, 0, 100),
    (Rule::WindowSeesBefore, 12, 250),
    (Rule::WindowSeesAfter, 3, 150),
    (Rule::WindowBreaksTies, 0, 100),
    (Rule::CursorRow, 30, 200),
    (Rule::WholeTables, 3, 500),
    (Rule::LateFillsAreRefused, 0, 150),
    (Rule::InFlightIsAsked, 4, 250),
    (Rule::SpoiledRunsAreNotJoined, 3, 400),
    (Rule::TotalsAreWithheld, 2, 300),
    (Rule::TotalsWaitForPublish, 4, 500),
    (Rule::FailedCommitsPatchNothing, 9, 100),
    (Rule::TotalsAtCapAreDropped, 4, 250),
    (Rule::DegradedAreDropped, 2, 150),
    (Rule::OneInstant, 34, 200),
    (Rule::UnregisterByNumber, 3, 500),
    (Rule::PurgeIsAFence, 117, 500),
    (Rule::PurgeTakesExactLists, 0, 500),
    (Rule::KeepsWhatIsWatched, 0, 50),
    (Rule::StaleIsTold, 0, 100),
    (Rule::LossesEndAges, 2, 100),
    (Rule::ListsEndAtBoundaries, 5, 500),
    (Rule::DueRowsAreChanges, 7, 500),
    (Rule::BoundariesAreMovedBefore, 42, 100),
    (Rule::RecastsAreFences, 5, 500),
    (Rule::PinnedNamesHoldTheLine, 22, 100),
];

/// Rules of answers at fixed coordinates, for which only runs ask that ask about other times.
const OF_THE_PAST: &[Rule] = &[Rule::RecastsAreFences, Rule::PinnedNamesHoldTheLine];

/// Rules that one order of events alone misses, which few runs come by: they have sequences of
/// their own (`pinned_rules.rs`; of eviction `invalidation_rules.rs` in the tests of `list-cache`).
const TOLD: &[Rule] = &[
    Rule::FencesStandInFlight,
    Rule::NothingIsPinnedThatGoes,
    Rule::EvictedCountsAsAltered,
];

#[test]
fn each_rule_is_missed_when_it_is_switched_off() {
    match asked() {
        Some(asked) if asked.starts_with("table") => {
            return print_table(asked.strip_prefix("table:"));
        }
        Some(_) => return,
        None => {}
    }
    for rule in Rule::ALL {
        let is_known = MISSED.iter().any(|(known, ..)| known == rule) || TOLD.contains(rule);
        assert!(
            is_known,
            "{rule:?} has no seed; TIDEMARK_SIMULATION=table looks for one"
        );
    }
    let rules = if is_brief() { 2 } else { MISSED.len() as u64 };
    let outcomes = in_parallel(rules, |place| {
        let (rule, seed, steps) = MISSED[place as usize];
        let with = run_for(rule, false, seed, steps);
        (rule, seed, with, run_for(rule, true, seed, steps).is_err())
    });
    let mut not_missed = Vec::new();
    for (rule, seed, with, is_missed) in outcomes {
        assert!(with.is_ok(), "seed {seed} fails with every rule: {with:?}");
        if !is_missed {
            not_missed.push((rule, seed));
        }
    }
    assert_eq!(
        not_missed,
        [],
        "these rules are not missed by these seeds; TIDEMARK_SIMULATION=table:Rule finds another"
    );
}

fn print_table(only: Option<&str>) {
    let is_meant = |rule: &Rule| only.is_none_or(|only| format!("{rule:?}") == only);
    let rules: Vec<Rule> = Rule::ALL.iter().copied().filter(is_meant).collect();
    in_parallel(rules.len() as u64, |place| {
        let rule = rules[place as usize];
        let looks = [(200, STEPS), (TABLE_SEEDS, 4 * STEPS)];
        let misses = |(seeds, steps)| {
            // Which lists are evicted may change with the version of a library, so those runs are
            // for what only they can show.
            let is_for = |seed| plan::evicts(seed) == (rule == Rule::EvictedCountsAsAltered);
            // Up to the step in which it fails without the rule, it must not with it.
            let misses = |seed: u64| {
                let failure = run_for(rule, true, seed, steps).err()?;
                let holds = run_for(rule, false, seed, failure.step).is_ok();
                holds.then_some((seed, failure.step.next_multiple_of(50)))
            };
            let found = |(seed, enough)| {
                let holds = run_for(rule, false, seed, enough).is_ok();
                holds.then_some((seed, enough))
            };
            (0..seeds)
                .filter(|seed| is_for(*seed))
                .filter_map(misses)
                .find_map(found)
        };
        match looks.into_iter().find_map(misses) {
            Some((seed, steps)) => println!("    (Rule::{rule:?}, {seed}, {steps}),"),
            None => println!("    // {rule:?} is missed by none of {TABLE_SEEDS} seeds"),
        }
    });
}
