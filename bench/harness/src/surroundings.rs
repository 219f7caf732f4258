//! Programs that are measured, without what the environment would change about them.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;
use measure::live::LiveServer;

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
    LiveServer::begin(command(binary), None, data, settings)
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
