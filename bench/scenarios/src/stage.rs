//! What is measured, as children of this program: servers on copies of one seeded data directory,
//! static responders, and commands that speak to these servers.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use engine::{DatabaseUrl, move_to_database};
use measure::cores::Cores;
use measure::live::{LiveServer, StoreHome};
use measure::process::cleared;
use measure::responder::{Responder, ResponderKind};
use measure::scratch::Scratch;

/// The data directory that holds the catalog.
pub const SEEDED: &str = "seeded";

/// The binary, a folder for data directories, and the one all others are copied from.
pub struct Stage {
    binary: PathBuf,
    scratch: Scratch,
    search_path: Option<OsString>,
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
            search_path: None,
        })
    }

    /// Makes a data directory with the indexed catalog of `rows` rows below `scratch`.
    ///
    /// # Errors
    /// When a folder cannot be made, or seeding fails.
    pub fn set(binary: &Path, scratch: &Path, rows: u32, all: &Cores) -> Result<Stage> {
        let stage = Stage::empty(binary, scratch)?;
        let server = stage.start(SEEDED, all, &[])?;
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
        self.copy_of(SEEDED, "fresh", cores, settings)
    }

    /// A server on a copy of the data directory `from`, whose server has ended, as `name`.
    ///
    /// # Errors
    /// When the copy fails, or the server does not answer.
    pub fn copy_of(
        &self,
        from: &str,
        name: &str,
        cores: &Cores,
        settings: &[&str],
    ) -> Result<LiveServer> {
        self.scratch.copy(&self.scratch.at(from), name)?;
        self.start(name, cores, settings)
    }

    /// The catalog on a server as `name`, for what is to be copied in turn.
    ///
    /// # Errors
    /// As [`Stage::copy_of`].
    pub fn seeded(&self, name: &str, cores: &Cores) -> Result<LiveServer> {
        self.copy_of(SEEDED, name, cores, &[])
    }

    /// A command of the binary, without a word yet.
    pub fn command(&self) -> Command {
        self.program(&self.binary)
    }

    /// A program without any variable but the search path, where the stage has one.
    pub fn program(&self, program: &Path) -> Command {
        let mut command = cleared(program);
        command.envs(self.search_path.iter().map(|path| ("PATH", path)));
        command
    }

    /// The same, whose servers look for interpreters of functions on this path.
    #[must_use]
    pub fn with_search_path(mut self, search_path: OsString) -> Stage {
        self.search_path = Some(search_path);
        self
    }

    /// A server on the data directory `name`, which is made if absent.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn start(&self, name: &str, cores: &Cores, settings: &[&str]) -> Result<LiveServer> {
        self.start_in(None, name, cores, settings)
    }

    /// The same with its store in a schema of this database, which is made if absent and left
    /// there: [`Stage::schema`].
    ///
    /// # Errors
    /// As [`Stage::start`].
    pub fn start_in(
        &self,
        database: Option<&str>,
        name: &str,
        cores: &Cores,
        settings: &[&str],
    ) -> Result<LiveServer> {
        let store = database.map(|url| Stage::store(url, name));
        let data = match store {
            Some(_) => self.scratch.at(&format!("{name}-beside")),
            None => self.scratch.at(name),
        };
        let home = StoreHome {
            data: &data,
            database: store.as_deref(),
        };
        LiveServer::begin(self.command(), Some(cores), home, settings)
    }

    /// Moves a copy of the data directory `from`, whose server has ended, into a new schema of this
    /// database, which is left there.
    ///
    /// # Errors
    /// When it cannot be copied or moved.
    pub fn move_copy(&self, from: &str, name: &str, database: &str) -> Result<()> {
        let data = self.scratch.copy(&self.scratch.at(from), &moved(name))?;
        let url = DatabaseUrl::parse(&Stage::store(database, name))?;
        move_to_database(&data, (&url, None), &mut |_| ())?;
        Ok(())
    }

    /// A server on what [`Stage::move_copy`] has moved.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn start_moved(
        &self,
        database: &str,
        name: &str,
        cores: &Cores,
        settings: &[&str],
    ) -> Result<LiveServer> {
        let home = StoreHome {
            data: &self.scratch.at(&moved(name)),
            database: Some(&Stage::store(database, name)),
        };
        LiveServer::begin(self.command(), Some(cores), home, settings)
    }

    /// The URL of a store in this database.
    fn store(database: &str, name: &str) -> String {
        let sign = if database.contains('?') { '&' } else { '?' };
        format!("{database}{sign}schema={}", Stage::schema(name))
    }

    /// What the schema of a store is called: no other process has it.
    pub fn schema(name: &str) -> String {
        format!("bench_{}_{name}", std::process::id())
    }

    /// A responder that repeats what `url` answers with these headers.
    ///
    /// # Errors
    /// When it does not start.
    pub fn responder(
        &self,
        cores: &Cores,
        kind: ResponderKind,
        answer: (&str, &[String]),
    ) -> Result<Responder> {
        Responder::start(self.command(), Some(cores), kind, answer)
    }
}

/// What is left of a data directory whose store is in the schema of this name: its keys.
fn moved(name: &str) -> String {
    format!("{name}-moved")
}
