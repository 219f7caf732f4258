//! `cargo xtask night`: the long way.

use std::process::ExitCode;

use anyhow::Result;

use crate::checkout::Checkout;
use crate::lane::{LANE_VARIABLE, Lane};
use crate::tally::Runner;
use crate::{
    bench, counts, deny, docs, drop_in, full, fuzz, interleavings, live, on_database, php_ext,
    prerequisite, python_cache, servers_on_database, wheels,
};

/// The same tests at their long sizes, the suites of functions as another user, the suites of
/// requests, of the engine and of the store on PostgreSQL, the WordPress drop-in on a real host and
/// in other versions of PHP, the extension of PHP in two Debians, with threads and where each
/// access to memory is watched, the Python cache on the interpreters of Debian's unstable suite and
/// on one without the lock, every page of the documentation in a browser, what is known against the
/// dependencies, ten minutes of fuzzing for each target, hundreds of requests of each kind that the
/// OpenAPI document describes, what requests cost by counting and how many bytes one of each takes,
/// then the benchmarks (hours; for the night).
///
/// No test is switched off by day. Those that draw seeds or count repeats read the variable
/// `TIDEMARK_LANE` to choose a size; this command sets it to `night` and builds with
/// optimisation.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {}

/// The crates with tests that have a long size.
const LONG: [&str; 13] = [
    "model",
    "query",
    "cache",
    "tiers",
    "list-cache",
    "store",
    "engine",
    "client",
    "server",
    "transfer",
    "measure",
    "scenarios",
    "tidemark",
];

/// # Errors
/// When the list of benchmarks cannot be read.
pub fn run(checkout: &Checkout, _: &Arguments) -> Result<ExitCode> {
    let benches = bench::list()?;
    let missing = [
        prerequisite::for_rust(checkout),
        prerequisite::for_fuzz(),
        full::missing_for_document(checkout)?,
        prerequisite::for_node(),
        prerequisite::for_php(),
        prerequisite::for_tiers(),
        prerequisite::for_web(),
        prerequisite::for_wordpress(),
        prerequisite::for_other_debian(),
        prerequisite::for_php_at_night(),
        prerequisite::for_python_at_night(),
        bench::missing(&benches),
    ]
    .concat();
    if !missing.is_empty() {
        return Ok(prerequisite::refuse(
            &missing,
            "install these and start again",
        ));
    }
    let mut lane = Lane::default();
    let mut rooms = checkout.cargo();
    rooms
        .env(LANE_VARIABLE, "night")
        .args(["test", "--release", "--no-fail-fast"]);
    rooms.args(LONG.iter().flat_map(|room| ["-p", room]));
    lane.run("long tests of the rooms", Runner::Cargo, &mut rooms);
    interleavings::step(checkout, &mut lane, true)?;
    full::functions_as_user(checkout, &mut lane, &["jail", "functions"]);
    on_database::step(checkout, &mut lane, true)?;
    python_cache::steps(checkout, &mut lane, true)?;
    python_cache::without_lock(checkout, &mut lane)?;
    wheels::newer_interpreters(checkout, &mut lane)?;
    drop_in::long_steps(checkout, &mut lane)?;
    php_ext::scripts(checkout, &mut lane)?;
    php_ext::steps(checkout, &mut lane, true)?;
    docs::steps(checkout, &mut lane, true)?;
    deny::advisories(checkout, &mut lane)?;
    fuzz::search(checkout, &mut lane)?;

    if lane.run("release build", Runner::None, &mut checkout.build_release()) {
        let mut tests = checkout.cargo();
        tests
            .env(LANE_VARIABLE, "night")
            .env(live::BINARY_VARIABLE, checkout.binary()?);
        tests.args(["test", "--release", "--no-fail-fast", "-p", "tests"]);
        lane.run("long black-box tests", Runner::Cargo, &mut tests);
        servers_on_database::step(checkout, &mut lane, &full::sdk_suites(), true)?;
        full::document(checkout, &mut lane, (LANE_VARIABLE, "night"))?;
        counts::step(checkout, &mut lane, true)?;
        counts::bytes_step(checkout, &mut lane, true)?;
        bench::steps(checkout, &mut lane, &benches, &[]);
    } else {
        lane.not_run("long black-box tests");
        servers_on_database::not_run(&mut lane, &full::sdk_suites());
        lane.not_run("requests from the OpenAPI document");
        counts::step(checkout, &mut lane, false)?;
        counts::bytes_step(checkout, &mut lane, false)?;
        lane.not_run("benchmarks");
    }
    Ok(lane.finish())
}
