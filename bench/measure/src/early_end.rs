//! Ending a long run early, so that what it has started ends with it and its folders are removed.

use std::process::ExitStatus;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::ChildProgram;

/// How often a running program is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Whether a run is to end, and why; all clones of one are the same.
#[derive(Clone, Debug, Default)]
pub struct EarlyEnd(Arc<OnceLock<String>>);

impl EarlyEnd {
    /// Asks for an end.
    pub fn ask(&self, why: &str) {
        // Who asked before is named already.
        drop(self.0.set(why.to_owned()));
    }

    /// Whether to go on; to be asked before whatever takes long, and when something has failed.
    ///
    /// # Errors
    /// When an end was asked for.
    pub fn check(&self) -> Result<()> {
        match self.0.get() {
            Some(why) => bail!("stopped by {why}: nothing is reported"),
            None => Ok(()),
        }
    }

    /// Waits for a program to end; its owner kills it when this fails. What it
    /// writes into pipes must fit into them: no code reads before.
    ///
    /// # Errors
    /// When it is gone, or an end was asked for.
    pub fn wait_for(&self, program: &mut ChildProgram) -> Result<ExitStatus> {
        loop {
            self.check()?;
            if let Some(status) = program.0.try_wait().context("it is gone")? {
                return Ok(status);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn program_is_waited_for_until_an_end_is_asked_for() {
        let spawn = |words: &[&str]| {
            let mut command = Command::new(words[0]);
            ChildProgram::spawn(command.args(&words[1..]), None).unwrap()
        };
        let stop = EarlyEnd::default();
        let status = stop.wait_for(&mut spawn(&["sh", "-c", "exit 3"])).unwrap();
        assert_eq!(status.code(), Some(3));
        stop.ask("SIGTERM");
        let error = stop.wait_for(&mut spawn(&["sleep", "600"])).unwrap_err();
        assert!(error.to_string().contains("stopped by SIGTERM"), "{error}");
    }

    #[test]
    fn first_signal_is_named() {
        let stop = EarlyEnd::default();
        stop.check().unwrap();
        stop.clone().ask("SIGINT");
        stop.ask("SIGTERM");
        let error = stop.check().unwrap_err().to_string();
        assert_eq!(error, "stopped by SIGINT: nothing is reported");
    }
}
