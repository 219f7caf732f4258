//! Tests of threads in every order their steps can take, by `loom`.

use anyhow::Result;

use crate::checkout::Checkout;
use crate::lane::Lane;
use crate::tally::Runner;

/// Runs them: those of at most two preemptions, or all if `is_night`.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn step(checkout: &Checkout, lane: &mut Lane, is_night: bool) -> Result<()> {
    let mut tests = checkout.cargo();
    // Another folder: with other flags everything would be built again, now and later.
    tests.env("CARGO_TARGET_DIR", checkout.target()?.join("loom"));
    tests.env("RUSTFLAGS", "--cfg loom");
    tests.args(["test", "-p", "cache", "-p", "tiers", "--lib"]);
    if is_night {
        tests.arg("--release");
    }
    tests.arg("interleavings");
    lane.run("interleavings of threads", Runner::Cargo, &mut tests);
    Ok(())
}
