//! `tidemark jail`: what the server starts for each process of a function.

use std::ffi::OsString;
use std::process::ExitCode;

use functions::jail::attempt::{CONNECT, connect_inside};
use functions::jail::{self, JailSetup};

/// What is to be run, if these words say `jail SETUP`.
///
/// Not a command of the parser: that of all commands takes 10 MiB, which each process of a function
/// would hold twice for as long as it lives, and time at each of its starts.
pub fn setup(mut words: impl Iterator<Item = OsString>) -> Option<String> {
    let command = words.next()?;
    let setup = words.next()?.into_string().ok()?;
    (command == "jail" && words.next().is_none()).then_some(setup)
}

/// Runs the program in its jail. The exit code is the program's; without a jail nothing is run.
pub fn run(setup: &str) -> ExitCode {
    if setup == CONNECT {
        return ExitCode::from(connect_inside());
    }
    let environment = crate::config::environment();
    match JailSetup::from_argument(setup).and_then(|setup| jail::enter(&setup, environment)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("The jail could not be made: {error}.");
            ExitCode::from(jail::NO_JAIL)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jail_is_started_by_two_words_alone() {
        let found = |words: &[&str]| setup(words.iter().map(OsString::from));
        assert_eq!(found(&["jail", "{}"]).as_deref(), Some("{}"));
        for words in [&[][..], &["jail"], &["serve", "{}"], &["jail", "{}", "x"]] {
            assert_eq!(found(words), None, "{words:?}");
        }
    }
}
