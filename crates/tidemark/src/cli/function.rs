//! `tidemark function`: users' code, from its first file to the logs of its runs.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Subcommand;
use client::Access;

use super::connection::with_access;
use super::project::confirm;
use super::{Outside, runtime, say, say_json, table};
use crate::config::ConnectionArgs;

mod build_watch;
mod definition;
mod deploy;
mod dev;
mod dev_api;
mod dev_folder;
mod dev_site;
mod execute;
mod function_file;
mod functions_list;
mod init;
mod log_text;
mod records;
mod routes;
mod upload;
mod variables;
mod variables_file;

/// Write, deploy, run and watch functions: code that runs on the server that has the data.
#[derive(Subcommand)]
pub enum FunctionCommand {
    /// Write a first function into a new folder
    ///
    /// The folder gets a handler, `function.toml` with the settings of the function, and
    /// `.gitignore`. No file is overwritten, and no server is needed.
    #[command(after_help = "Examples:
  tidemark function init hello                          in the first runtime of this machine
  tidemark function init prices --runtime python-3.11")]
    Init(init::InitArgs),
    /// Serve the folder of a function on a port of this machine, and take up each save
    ///
    /// Runs the handler as a server does: the same adapter, the same jail, one process for many
    /// requests. Each request to the port is one run; its logs and errors are printed, and a run
    /// that fails answers with its errors as text. `.env` holds the variables. Where function.toml
    /// names `scopes`, the function reaches the data of the server that the options name, by the
    /// given API key, or by one made for the time of the command with these scopes; without scopes
    /// no server is needed. `commands` are not run.
    #[command(after_help = "Examples:
  tidemark function dev                       the folder in which you are
  tidemark function dev hello --port 9000
  curl http://127.0.0.1:8290/prices -d '{\"n\":1}'    one run, from another terminal")]
    Dev(dev::FunctionDevArgs),
    /// Send the folder of a function to the server, and wait until it is built and active
    ///
    /// Creates the function if the server does not have it, and sets what function.toml says
    /// otherwise: each difference is printed. Files that .gitignore names are left out;
    /// .tidemarkignore, in the same form, has the last word (`!node_modules` sends them). `.env`,
    /// `.env.*`, `.git` and data directories of Tidemark are never sent. The exit code is 1 if the
    /// build failed; its log is printed.
    #[command(after_help = "Examples:
  tidemark function deploy                    the folder in which you are
  tidemark function deploy hello --no-activate
  TIDEMARK_API_KEY=… tidemark function deploy --endpoint http://db.example/v1 --project shop")]
    Deploy(deploy::DeployArgs),
    /// Run a function once and print what it answers
    ///
    /// The body of its response goes to standard output, everything else to standard error:
    /// status, headers with --verbose, logs, errors. The exit code is 1 if the run failed.
    #[command(after_help = "Examples:
  tidemark function run hello --body '{\"n\":1}'
  tidemark function run hello --method GET --path '/prices?day=1' -v
  tidemark function run hello --body @order.json --header 'x-source: shop'
  tidemark function run hello --async           prints the id of the execution")]
    Run(execute::FunctionRunArgs),
    /// Show the last runs of a function, with what they logged
    #[command(after_help = "Examples:
  tidemark function logs hello
  tidemark function logs hello --follow
  tidemark function logs hello --execution 6a1f0c…")]
    Logs(records::FunctionLogsArgs),
    /// List the functions of the project
    #[command(after_help = "Example:\n  tidemark function list --json")]
    List(functions_list::FunctionListArgs),
    /// Delete a function, with its deployments, variables and records
    ///
    /// Asks first; without a terminal nothing is deleted unless --yes is given.
    #[command(after_help = "Example:\n  tidemark function delete hello --yes")]
    Delete(functions_list::FunctionDeleteArgs),
    /// Set, list and delete the variables of a function
    #[command(subcommand)]
    Variable(variables::VariableCommand),
}

/// # Errors
/// When the folder cannot be used, the server cannot be reached, or it refuses.
pub fn run(command: FunctionCommand, outside: &Outside) -> Result<ExitCode> {
    match command {
        FunctionCommand::Init(args) => init::run(&args)?,
        FunctionCommand::Dev(args) => dev::run(&args, outside)?,
        FunctionCommand::Deploy(args) => deploy::run(&args, outside)?,
        FunctionCommand::Run(args) => return execute::run(&args, outside),
        FunctionCommand::Logs(args) => records::run(&args, outside)?,
        FunctionCommand::List(args) => functions_list::list(&args, outside)?,
        FunctionCommand::Delete(args) => functions_list::delete(&args, outside)?,
        FunctionCommand::Variable(command) => variables::run(command, outside)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Does `work` with the right to use a server.
fn with_server<T>(
    connection: &ConnectionArgs,
    outside: &Outside,
    work: impl FnOnce(&Access) -> Result<T>,
) -> Result<T> {
    let lender = ("tidemark function", &*outside.clock);
    with_access(connection, lender, work)
}

/// Asks the person at the terminal, unless consent was given by an option.
///
/// # Errors
/// When there is no consent: nothing was deleted.
fn need_consent(is_given: bool, question: &str, what: &str) -> Result<()> {
    if is_given {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        bail!("nothing was deleted; --yes deletes {what} without asking");
    }
    confirm(question, "deleted")
}
