//! The tests of the WordPress drop-in, as users get it: joined into one file.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::checkout::Checkout;
use crate::dist;
use crate::install::{self, Packages};
use crate::lane::{LANE_VARIABLE, Lane};
use crate::tally::Runner;

const SUITE: &str = "php/tests";
/// A real host: nginx, PHP-FPM, MariaDB and WordPress.
const SESSION: &str = "php/tests/session";
/// Versions of PHP that Debian does not package.
const VERSIONS: &str = "php/tests/wasm";
pub const PACKAGES: Packages = Packages::Npm(VERSIONS);

/// What needs no service and no network.
///
/// # Errors
/// When the parts cannot be joined.
pub fn steps(checkout: &Checkout, lane: &mut Lane) -> Result<()> {
    run(checkout, lane, SUITE, None)
}

/// The same at its long size, the session of a user on a real host with each fault, and the
/// contract in other versions of PHP.
///
/// # Errors
/// When the parts cannot be joined, or cargo cannot say where its target folder is.
pub fn long_steps(checkout: &Checkout, lane: &mut Lane) -> Result<()> {
    run(checkout, lane, SUITE, Some("night"))?;
    run(checkout, lane, SESSION, Some("night"))?;
    if install::provide(checkout, lane, PACKAGES)? {
        run(checkout, lane, VERSIONS, Some("night"))
    } else {
        lane.not_run(&name(VERSIONS));
        Ok(())
    }
}

/// The same suite over the extension of PHP in `library`: the native form.
///
/// # Errors
/// When the parts cannot be joined.
pub fn native_steps(
    checkout: &Checkout,
    lane: &mut Lane,
    library: &Path,
    is_night: bool,
) -> Result<()> {
    let mut extension = OsString::from("--extension=");
    extension.push(library);
    let mut command = command(checkout, SUITE, is_night.then_some("night"))?;
    command.arg(extension);
    lane.run(
        &format!("{} with the extension", name(SUITE)),
        Runner::Pytest,
        &mut command,
    );
    if is_night {
        let mut session = checkout.command("php");
        session.arg("native.php").arg(dist::drop_in(checkout)?);
        session.arg(library).env(LANE_VARIABLE, "night");
        session.current_dir(checkout.root.join(SESSION));
        let name = format!("{} with the extension", name(SESSION));
        lane.run(&name, Runner::Pytest, &mut session);
    }
    Ok(())
}

fn run(checkout: &Checkout, lane: &mut Lane, folder: &str, size: Option<&str>) -> Result<()> {
    let mut command = command(checkout, folder, size)?;
    lane.run(&name(folder), Runner::Pytest, &mut command);
    Ok(())
}

fn command(checkout: &Checkout, folder: &str, size: Option<&str>) -> Result<Command> {
    let mut command = checkout.command("php");
    command.arg("run.php").arg(dist::drop_in(checkout)?);
    command.current_dir(checkout.root.join(folder));
    command.envs(size.map(|size| (LANE_VARIABLE, size)));
    Ok(command)
}

fn name(folder: &str) -> String {
    format!("tests of {folder}")
}
