//! Ending a long run early, so that what it has started ends with it and its folders are removed.

use std::sync::{Arc, OnceLock};

use anyhow::{Result, bail};

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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_first_is_named() {
        let stop = Stop::default();
        stop.check().unwrap();
        stop.clone().ask("SIGINT");
        stop.ask("SIGTERM");
        let error = stop.check().unwrap_err().to_string();
        assert_eq!(error, "stopped by SIGINT: nothing is reported");
    }
}
