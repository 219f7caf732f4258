//! What requests cost by counting, held within bounds that stand in a file.

use anyhow::Result;

use crate::checkout::Checkout;
use crate::install;
use crate::lane::Lane;
use crate::tally::Runner;

const NAME: &str = "counts of requests";
const PROFILE: &str = "bench/instructions/profile.py";
const BOUNDS: &str = "bench/instructions/bounds.json";

/// Counts instructions, allocations and system calls of so many requests of each kind in the
/// release binary, if it is built. Where `valgrind` is not installed it says so.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn step(checkout: &Checkout, lane: &mut Lane, requests: &str, is_built: bool) -> Result<()> {
    if !is_built {
        lane.not_run(NAME);
        return Ok(());
    }
    let mut command = checkout.command(install::python(checkout)?);
    command.arg(PROFILE).arg(checkout.binary()?);
    command.args(["--bounds", BOUNDS, "--requests", requests]);
    lane.run(NAME, Runner::None, &mut command);
    Ok(())
}
