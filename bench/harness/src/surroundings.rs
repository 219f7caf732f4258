//! Programs that are measured, without what the environment would change about them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;
use measure::live::{LiveServer, StoreHome};

/// Starts a server as [`LiveServer::begin`] does, on all cores.
///
/// # Errors
/// When it ends, or does not answer.
pub fn serve(binary: &Path, data: &Path) -> Result<LiveServer> {
    serve_with(binary, data, &[])
}

/// As [`serve`], with these settings beside the defaults.
///
/// # Errors
/// As [`serve`].
pub fn serve_with(binary: &Path, data: &Path, settings: &[&str]) -> Result<LiveServer> {
    LiveServer::begin(command(binary), None, data.into(), settings)
}

/// Where a server under test keeps its store.
#[derive(Clone, Debug)]
pub struct ServerSite {
    /// The data directory.
    pub data: PathBuf,
    /// The URL of the database that has the store, if one has.
    pub database: Option<String>,
}

impl ServerSite {
    /// Starts a server there, with these settings beside the defaults.
    ///
    /// # Errors
    /// As [`serve`].
    pub fn serve(&self, binary: &Path, settings: &[&str]) -> Result<LiveServer> {
        let home = StoreHome {
            data: &self.data,
            database: self.database.as_deref(),
        };
        LiveServer::begin(command(binary), None, home, settings)
    }
}

impl From<PathBuf> for ServerSite {
    fn from(data: PathBuf) -> ServerSite {
        let database = None;
        ServerSite { data, database }
    }
}

/// `program` without the variables that would set another project, key or limit.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("TIDEMARK_") || text.starts_with("APPWRITE_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}
