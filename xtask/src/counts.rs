//! What requests cost by counting, and what one of each takes of memory, held within bounds.

use anyhow::Result;

use crate::checkout::Checkout;
use crate::install;
use crate::lane::Lane;
use crate::tally::Runner;

const NAME: &str = "counts of requests";
const PROFILE: &str = "bench/instructions/profile.py";
const BOUNDS: &str = "bench/instructions/bounds.json";
const BYTES_NAME: &str = "bytes of one of each";
const BYTES: &str = "bench/instructions/bytes.py";

/// Counts instructions, allocations and system calls of 400 requests of each kind in the
/// release binary, if it is built. Where `valgrind` is not installed it says so.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn step(checkout: &Checkout, lane: &mut Lane, is_built: bool) -> Result<()> {
    if !is_built {
        lane.not_run(NAME);
        return Ok(());
    }
    let mut command = checkout.command(install::python(checkout)?);
    command.arg(PROFILE).arg(checkout.binary()?);
    command.args(["--bounds", BOUNDS, "--requests", "400"]);
    lane.run(NAME, Runner::None, &mut command);
    Ok(())
}

/// Weighs a cached list, an idle connection and a row in each index of the release binary, if it is
/// built. The bounds stand in the program.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn bytes_step(checkout: &Checkout, lane: &mut Lane, is_built: bool) -> Result<()> {
    if !is_built {
        lane.not_run(BYTES_NAME);
        return Ok(());
    }
    let mut command = checkout.command(install::python(checkout)?);
    command.arg(BYTES).arg(checkout.binary()?);
    lane.run(BYTES_NAME, Runner::None, &mut command);
    Ok(())
}
