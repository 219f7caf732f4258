//! `cargo xtask fast`: what one runs while working.

use std::process::ExitCode;

use anyhow::Result;

use crate::checkout::Checkout;
use crate::lane::Lane;
use crate::tally::Runner;
use crate::{prerequisite, prose, tidy};

/// Format, lint, tidy and the tests that need no running server (while working).
///
/// Runs in this order, and goes on after a failure so that everything wrong is seen at once:
/// `cargo fmt --check`, clippy with warnings as errors, `cargo xtask tidy`, the linter of the
/// documentation (installed by npm the first time), then the unit, golden, property, conformance
/// and simulation tests of the crates. Prints the seconds of each step and closes with `N passed,
/// N failed`. Under 3 minutes when warm.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {}

/// The rooms whose tests need nothing but themselves and the programs of PostgreSQL.
const ROOMS: [&str; 15] = [
    "model",
    "query",
    "cache",
    "list-cache",
    "store",
    "engine",
    "client",
    "functions",
    "server",
    "transfer",
    "measure",
    "scenarios",
    "tidemark",
    "testing-postgres",
    "php-codec",
];

/// The lane, or status 2 when the toolchain is not whole.
///
/// # Errors
/// When the files of the project cannot be listed.
pub fn run(checkout: &Checkout, _: &Arguments) -> Result<ExitCode> {
    let missing = [
        prerequisite::for_rust(checkout),
        prerequisite::for_node(),
        prerequisite::for_postgres(),
    ]
    .concat();
    if !missing.is_empty() {
        return Ok(prerequisite::refuse(
            &missing,
            "install these and start again",
        ));
    }
    let mut lane = Lane::default();
    checks(checkout, &mut lane)?;

    let mut rooms = checkout.cargo();
    rooms.args(["test", "--no-fail-fast"]);
    rooms.args(ROOMS.iter().flat_map(|room| ["-p", room]));
    lane.run("tests of the rooms", Runner::Cargo, &mut rooms);

    // Apart from the rooms: built together with them, its libraries would get other features
    // and be compiled a second time.
    let mut own = checkout.cargo();
    own.args(["test", "--no-fail-fast", "-p", "xtask"]);
    lane.run("tests of xtask", Runner::Cargo, &mut own);
    Ok(lane.finish())
}

/// What is checked without running a test, also the first part of `full`.
///
/// # Errors
/// When the files of the project cannot be listed.
pub fn checks(checkout: &Checkout, lane: &mut Lane) -> Result<()> {
    let mut format = checkout.cargo();
    format.args(["fmt", "--all", "--check"]);
    lane.run("format", Runner::None, &mut format);

    let mut clippy = checkout.cargo();
    clippy.args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]);
    lane.run("clippy", Runner::None, &mut clippy);

    lane.step("tidy", |_| tidy::report(checkout));
    prose::pages(checkout, lane)
}
