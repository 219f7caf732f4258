//! Ending a long run early, so that what it has started ends with it and its folders are removed.

use std::process::{Child, Output};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// How often a running program is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Whether a run is to end, and why; all clones of one are the same.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<OnceLock<String>>);

impl Stop {
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

    /// Waits for a program to end; when an end is asked for it is killed. What it writes into
    /// pipes must fit into them: no code reads before.
    ///
    /// # Errors
    /// When it is gone, or an end was asked for.
    pub fn wait(&self, mut child: Child) -> Result<Output> {
        while child.try_wait().context("it is gone")?.is_none() {
            if self.check().is_err() {
                // It may have ended just now.
                drop(child.kill());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let output = child.wait_with_output().context("it is gone")?;
        self.check()?;
        Ok(output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_signal_is_named() {
        let stop = Stop::default();
        stop.check().unwrap();
        stop.clone().ask("SIGINT");
        stop.ask("SIGTERM");
        let error = stop.check().unwrap_err().to_string();
        assert_eq!(error, "stopped by SIGINT: nothing is reported");
    }
}
