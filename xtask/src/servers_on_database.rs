//! Servers whose stores are in a PostgreSQL of their own: random histories, and the suites of the
//! official SDKs.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::checkout::Checkout;
use crate::install::{self, Packages};
use crate::lane::{LANE_VARIABLE, Lane};
use crate::live;
use crate::on_database::{self, URL_VARIABLE};
use crate::tally::Runner;

const DATABASE: &str = "servers";
const HISTORIES: &str = "histories on PostgreSQL";
/// What runs of them by day: lists that must be exact.
const HISTORY_BY_DAY: &str = "no_answer_is_older_than_what_anybody_had_seen_before_it_was_asked";
/// What runs of the SDKs by day.
const FILES_BY_DAY: [&str; 4] = [
    "bulk.test.js",
    "restart.test.js",
    "rows.test.js",
    "transactions.test.js",
];

/// Runs one history and a part of these suites by day, against the program as tests build it. At
/// night all runs, against the released one.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn step(
    checkout: &Checkout,
    lane: &mut Lane,
    suites: &[Packages],
    is_night: bool,
) -> Result<()> {
    let Some(cluster) = on_database::start(lane, DATABASE) else {
        not_run(lane, suites);
        return Ok(());
    };
    let binary = if is_night {
        checkout.binary()?
    } else {
        checkout.debug_binary()?
    };
    let place = (&*binary, &*cluster.url(DATABASE));
    let mut histories = checkout.cargo();
    if is_night {
        histories.args(["test", "--release", "--no-fail-fast", "-p", "tests"]);
        histories.args(["--test", "history"]);
        histories.env(LANE_VARIABLE, "night");
    } else {
        // With all packages named, so that their libraries are not built with other features.
        histories.args(["test", "--workspace", "--test", "history", HISTORY_BY_DAY]);
    }
    run(lane, place, (HISTORIES, Runner::Cargo, histories));
    for packages in suites {
        let name = name_of(packages.folder());
        if !install::provide(checkout, lane, *packages)? {
            lane.not_run(&name);
            continue;
        }
        let (runner, mut tests) = packages.tests(checkout)?;
        if !is_night {
            tests.args(FILES_BY_DAY);
        }
        run(lane, place, (&name, runner, tests));
    }
    Ok(())
}

/// Says that none of it ran.
pub fn not_run(lane: &mut Lane, suites: &[Packages]) {
    lane.not_run(HISTORIES);
    for packages in suites {
        lane.not_run(&name_of(packages.folder()));
    }
}

fn name_of(folder: &str) -> String {
    format!("tests of {folder} on PostgreSQL")
}

fn run(
    lane: &mut Lane,
    (binary, url): (&Path, &str),
    (name, runner, mut tests): (&str, Runner, Command),
) {
    tests.env(live::BINARY_VARIABLE, binary);
    tests.env(URL_VARIABLE, url);
    lane.run(name, runner, &mut tests);
}
