//! `cargo deny`: where dependencies come from, which are there twice, under which licences, and
//! what is known against them. `deny.toml` says what is allowed.

use std::process::Command;

use anyhow::Result;

use crate::checkout::Checkout;
use crate::install::{self, Packages};
use crate::lane::Lane;
use crate::tally::Runner;

/// The folder that pins the program.
pub const PACKAGES: Packages = Packages::PyPi("xtask");

/// All that needs no list from elsewhere.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn check(checkout: &Checkout, lane: &mut Lane) -> Result<()> {
    let name = "cargo deny: bans, licences, sources";
    if !install::provide(checkout, lane, PACKAGES)? {
        lane.not_run(name);
        return Ok(());
    }
    let mut command = program(checkout)?;
    command.args(["check", "bans", "licenses", "sources"]);
    lane.run(name, Runner::None, &mut command);
    Ok(())
}

/// What is known against the versions in use. The list is fetched from where the project of that
/// name keeps it; the line of this step says so where that cannot be reached.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn advisories(checkout: &Checkout, lane: &mut Lane) -> Result<()> {
    let name = "cargo deny: advisories";
    if !install::provide(checkout, lane, PACKAGES)? {
        lane.not_run(name);
        return Ok(());
    }
    let fetched = program(checkout)?.args(["fetch", "db"]).status();
    if !fetched.is_ok_and(|status| status.success()) {
        let name = format!("{name}, NOT CHECKED: the list of them cannot be fetched from here");
        lane.step(&name, |_| Ok(true));
        return Ok(());
    }
    let mut command = program(checkout)?;
    command.args(["check", "--disable-fetch", "advisories"]);
    lane.run(name, Runner::None, &mut command);
    Ok(())
}

fn program(checkout: &Checkout) -> Result<Command> {
    let mut command = checkout.command(install::program(checkout, "cargo-deny")?);
    command.arg("--workspace");
    Ok(command)
}
