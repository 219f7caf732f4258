//! `harness lend`: a PostgreSQL server runs while a benchmark of the binary measures.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use measure::scratch::Scratch;

use crate::database::LentDatabase;

/// Run a benchmark of the binary with a PostgreSQL server of its own
///
/// Makes a cluster on the disk of the binary, with its syncs, and runs the command with
/// `--database URL` behind it. The cluster is removed afterwards.
#[derive(clap::Args)]
#[command(after_help = "Example:
  cargo run --release -p harness -- lend target/release/tidemark bench bitemporal --quick")]
pub struct LendArguments {
    /// The binary, and what follows it
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// # Errors
/// When no server can be started, or the command does not start.
pub fn run(arguments: &LendArguments) -> Result<ExitCode> {
    let (binary, words) = arguments.command.split_first().context("a command")?;
    let folder = Path::new(binary).parent().context("a file's folder")?;
    let database = LentDatabase::temporary(&Scratch::new(folder)?)?;
    let mut command = Command::new(binary);
    command.args(words).args(["--database", database.url()]);
    let status = command.status().context("the command does not start")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
