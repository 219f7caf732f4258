//! What is measured, as children of this program: servers on copies of one seeded data directory,
//! and static responders.

use std::path::{Path, PathBuf};

use anyhow::Result;
use measure::cores::Cores;
use measure::live::LiveServer;
use measure::process::cleared;
use measure::responder::Responder;
use measure::scratch::Scratch;

/// The binary, a folder for data directories, and the one all others are copied from.
pub struct Stage {
    binary: PathBuf,
    scratch: Scratch,
}

impl Stage {
    /// A folder below `scratch` without a data directory; removed with the stage.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn empty(binary: &Path, scratch: &Path) -> Result<Stage> {
        Ok(Stage {
            binary: binary.to_owned(),
            scratch: Scratch::new(scratch)?,
        })
    }

    /// Makes a data directory with the indexed catalog of `rows` rows below `scratch`.
    ///
    /// # Errors
    /// When a folder cannot be made, or seeding fails.
    pub fn set(binary: &Path, scratch: &Path, rows: u32, all: &Cores) -> Result<Stage> {
        let stage = Stage::empty(binary, scratch)?;
        let server = stage.start("seeded", all, &[])?;
        server.seed(cleared(binary), rows, true)?;
        server.stop()?;
        Ok(stage)
    }

    /// The folder for whatever else a run writes.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// A server on a copy of the seeded data directory: what an earlier one has written is gone.
    ///
    /// # Errors
    /// When the copy fails, or the server does not answer.
    pub fn fresh(&self, cores: &Cores, settings: &[&str]) -> Result<LiveServer> {
        let seeded = self.scratch.at("seeded");
        self.scratch.copy(&seeded, "fresh")?;
        self.start("fresh", cores, settings)
    }

    /// A server on the data directory `name`, which is made if absent.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn start(&self, name: &str, cores: &Cores, settings: &[&str]) -> Result<LiveServer> {
        let data = self.scratch.at(name);
        LiveServer::begin(cleared(&self.binary), Some(cores), &data, settings)
    }

    /// A static responder that repeats what `url` answers with these headers.
    ///
    /// # Errors
    /// When it does not start.
    pub fn responder(&self, cores: &Cores, url: &str, headers: &[String]) -> Result<Responder> {
        Responder::start(cleared(&self.binary), Some(cores), url, headers)
    }
}
