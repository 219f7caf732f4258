//! The suites that also run with their stores in a PostgreSQL of their own.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZero;
use std::process::Command;
use std::thread::available_parallelism;

use anyhow::Result;
use testing_postgres::{Cluster, ClusterSettings};

use crate::checkout::Checkout;
use crate::lane::{LANE_VARIABLE, Lane};
use crate::tally::Runner;

const DATABASE: &str = "suites";
/// What the suites read (`crates/testing/src/places.rs`).
pub const URL_VARIABLE: &str = "TIDEMARK_TEST_DATABASE";
const RECORD_VARIABLE: &str = "TIDEMARK_TEST_RECORD";
/// With all packages named, so that their libraries are not built with other features once more.
const TESTS: [&str; 3] = ["test", "--workspace", "--no-fail-fast"];
/// What runs of the wire suite by day: rows by single and by bulk writes, over periods, in
/// transactions and by links.
const WIRE_BY_DAY: [&str; 5] = [
    "rows::",
    "bulk::",
    "periods::",
    "transactions::",
    "links_over_time::",
];
const ENGINE: &str = "crates/engine/tests";
/// What runs of the engine's programs by day.
const ENGINE_BY_DAY: [&str; 7] = [
    "disabled",
    "doubt",
    "past",
    "pinned",
    "schedules",
    "simulation",
    "turns",
];
/// What runs of the store's programs at night. Its conformance suite runs on both by itself.
const STORE: [&str; 7] = [
    "erase",
    "long_reads",
    "over_time",
    "retention",
    "temporal",
    "unique_keys",
    "words",
];

/// A PostgreSQL for a step, with an empty database of this name; `None` where it does not start.
pub fn start(lane: &mut Lane, database: &str) -> Option<Cluster> {
    let mut started = None;
    let is_started = lane.step(&format!("PostgreSQL for the {database}"), |_| {
        let cluster = started.insert(Cluster::start(&ClusterSettings::default())?);
        cluster.run_sql("postgres", &[&format!("CREATE DATABASE {database}")])?;
        Ok(true)
    });
    started.filter(|_| is_started)
}

/// Runs them: a part by day. At night they run whole; then this compares which tests took a data
/// directory with the lists of those that must.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn step(checkout: &Checkout, lane: &mut Lane, is_night: bool) -> Result<()> {
    let (wire, crates) = ("wire suite on PostgreSQL", "engine and store on PostgreSQL");
    let record = checkout.target()?.join("on-database");
    // Of an earlier run.
    drop(fs::remove_file(&record));
    let Some(cluster) = start(lane, DATABASE) else {
        lane.not_run(wire);
        lane.not_run(crates);
        return Ok(());
    };
    let url = cluster.url(DATABASE);
    let mut run = |name, programs: &BTreeSet<String>, filters: &[&str]| {
        let mut tests = tests_of(checkout, programs);
        // A test that runs alone does not know its name.
        let threads = available_parallelism().map_or(2, NonZero::get).max(2);
        tests.args(["--", "--test-threads", &threads.to_string()]);
        tests.args(filters).env(URL_VARIABLE, &url);
        if is_night {
            tests.env(RECORD_VARIABLE, &record);
            tests.env(LANE_VARIABLE, "night");
        }
        lane.run(name, Runner::Cargo, &mut tests);
    };
    let by_day: &[&str] = if is_night { &[] } else { &WIRE_BY_DAY };
    run(wire, &["wire".to_owned()].into(), by_day);
    run(crates, &programs(checkout, is_night)?, &[]);
    if is_night {
        let lists = ["wire", "places"].map(str::to_owned).into();
        let mut comparison = tests_of(checkout, &lists);
        comparison.arg("tests_on_a_directory");
        comparison.env(RECORD_VARIABLE, &record);
        let name = "which of them ran on PostgreSQL";
        lane.run(name, Runner::Cargo, &mut comparison);
    }
    Ok(())
}

/// The tests of these programs, of any package.
fn tests_of(checkout: &Checkout, programs: &BTreeSet<String>) -> Command {
    let mut tests = checkout.cargo();
    tests.args(TESTS);
    for program in programs {
        tests.args(["--test", program]);
    }
    tests
}

/// The programs of the engine, and at night of the store, that run.
fn programs(checkout: &Checkout, is_night: bool) -> Result<BTreeSet<String>> {
    if !is_night {
        return Ok(ENGINE_BY_DAY.map(str::to_owned).into());
    }
    let mut programs: BTreeSet<String> = STORE.map(str::to_owned).into();
    for entry in fs::read_dir(checkout.root.join(ENGINE))? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        programs.extend(name.strip_suffix(".rs").map(str::to_owned));
    }
    Ok(programs)
}
