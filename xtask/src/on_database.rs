//! The suite of requests once more, with the stores in a PostgreSQL of its own.

use std::fs;
use std::num::NonZero;
use std::thread::available_parallelism;

use anyhow::Result;
use testing_postgres::{Cluster, ClusterSettings};

use crate::checkout::Checkout;
use crate::lane::Lane;
use crate::tally::Runner;

const NAME: &str = "wire suite on PostgreSQL";
const DATABASE: &str = "wire";
/// What the suite reads (`crates/server/tests/wire/place.rs`).
const URL_VARIABLE: &str = "TIDEMARK_TEST_DATABASE";
const RECORD_VARIABLE: &str = "TIDEMARK_TEST_RECORD";
/// With all packages named, so that their libraries are not built with other features once more.
const SUITE: [&str; 5] = ["test", "--workspace", "--no-fail-fast", "--test", "wire"];
/// What runs by day: rows by single and by bulk writes, over periods, in transactions and by links.
const BY_DAY: [&str; 5] = [
    "rows::",
    "bulk::",
    "periods::",
    "transactions::",
    "links_over_time::",
];

/// Runs it: a part of it by day. At night it runs whole; then this compares which tests took a data
/// directory with the list of those that must.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn step(checkout: &Checkout, lane: &mut Lane, is_night: bool) -> Result<()> {
    let record = checkout.target()?.join("wire-on-database");
    // Of an earlier run.
    drop(fs::remove_file(&record));
    let mut started = None;
    let is_started = lane.step("PostgreSQL for the wire suite", |_| {
        let cluster = started.insert(Cluster::start(&ClusterSettings::default())?);
        cluster.run_sql("postgres", &[&format!("CREATE DATABASE {DATABASE}")])?;
        Ok(true)
    });
    let Some(cluster) = started.filter(|_| is_started) else {
        lane.not_run(NAME);
        return Ok(());
    };
    // A test that runs alone is not told its name.
    let threads = available_parallelism().map_or(2, NonZero::get).max(2);
    let mut tests = checkout.cargo();
    tests.args(SUITE);
    tests.args(["--", "--test-threads", &threads.to_string()]);
    tests.env(URL_VARIABLE, cluster.url(DATABASE));
    if !is_night {
        tests.args(BY_DAY);
        lane.run(NAME, Runner::Cargo, &mut tests);
        return Ok(());
    }
    tests.env(RECORD_VARIABLE, &record);
    lane.run(NAME, Runner::Cargo, &mut tests);
    let mut comparison = checkout.cargo();
    comparison.args(SUITE).arg("place::");
    comparison.env(RECORD_VARIABLE, &record);
    lane.run(
        "which of it ran on PostgreSQL",
        Runner::Cargo,
        &mut comparison,
    );
    Ok(())
}
