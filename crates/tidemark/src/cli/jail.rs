//! `tidemark jail`: what the server starts for each process of a function.

use std::process::ExitCode;

use functions::jail::{self, JailSetup};

/// Runs the program in its jail. The exit code is the program's; without a jail nothing is run.
pub fn run(setup: &str) -> ExitCode {
    match JailSetup::from_argument(setup).and_then(|setup| jail::enter(&setup)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("The jail could not be made: {error}.");
            ExitCode::from(jail::NO_JAIL)
        }
    }
}
