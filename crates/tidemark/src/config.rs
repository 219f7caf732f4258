//! From the command line and the environment to one small checked struct per room.
//!
//! Two steps. What was typed stands in the `…Args` types, exactly as typed; `check` turns it into
//! what a room takes, with every default decided. Nothing else reads the environment.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::{Args, FromArgMatches as _, Parser, Subcommand};
use client::{Access, Endpoint};
use hyper::header::HeaderValue;
use model::ProjectId;

use crate::cli::{bench, key, past, project, seed, top};

pub mod file;
mod limits;
mod port;
mod quotas;
mod serve;
mod size;
mod watch;

pub use port::{ExportArgs, ExportSetup, FormatArg, ImportArgs, ImportSetup, Source};
pub use serve::{Bootstrap, Log, LogFormat, ServeArgs, ServeSetup};
pub use watch::WatchSetup;

/// The project of a first start, when none is named.
const PROJECT_DEFAULT: &str = "default";
/// A backend database that remembers: rows kept in time, served over the wire protocol of the
/// official Appwrite SDKs.
#[derive(Parser)]
#[command(
    name = "tidemark",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
#[command(after_help = "A first session:
  tidemark serve                       serves ./tidemark-data at http://127.0.0.1:8280/v1
                                       and prints a project id and an API key, once
  tidemark key create --name ci        one more key, while the server runs or not
  tidemark seed catalog --rows 10000   a table to try queries on
  tidemark <command> --help            what a command does, with an example")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Serve a data directory until told to stop
    ///
    /// The first start makes project `default` and an API key with every scope, and prints
    /// endpoint, project id and key, once: only a hash of the key is kept. Later starts print
    /// endpoint and projects. Where the environment gives TIDEMARK_PROJECT_ID and
    /// TIDEMARK_API_KEY, that project and key are made instead if they are absent, the same on
    /// every start.
    ///
    /// SIGINT or SIGTERM ends it in order: what was acknowledged is kept, what runs is finished. A
    /// second signal ends it at once; what was acknowledged is kept even then.
    Serve(Box<ServeArgs>),
    /// Create, list and delete projects
    ///
    /// Speaks to the server that runs on the data directory, or opens the directory itself when
    /// none does.
    #[command(subcommand)]
    Project(project::ProjectCommand),
    /// Create, list and revoke API keys
    ///
    /// Speaks to the server that runs on the data directory, or opens the directory itself when
    /// none does.
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Write a database to a file: schema, rows, permissions
    ///
    /// Every row is read at one mark, whatever is written meanwhile. Speaks to the server that
    /// runs on the data directory, or opens the directory itself when none does.
    Export(Box<ExportArgs>),
    /// Read a database from a file, or copy databases from another server
    ///
    /// Speaks to the server that runs on the data directory, or opens the directory itself when
    /// none does. Ids, times and permissions of rows are kept. An imported database is closed to
    /// callers without a key until it is complete.
    Import(Box<ImportArgs>),
    /// Show every version of a row: when it was valid, and from when until when that was known
    ///
    /// Speaks to the server that runs on the data directory, or opens the directory itself when
    /// none does. Changes nothing.
    History(past::HistoryArgs),
    /// Erase a row with its past: every version, at every time
    ///
    /// What is erased is in no answer any more, and its bytes leave the data directory as soon as
    /// no read that began before is left; exports and copies made before keep theirs. Rows that
    /// belong to it by a relationship are deleted as the relationship says. Says how many versions
    /// there are and asks first; without a terminal nothing is erased unless --yes is given. The
    /// exit code is 1 where nothing was erased. Speaks to the server that runs on the data
    /// directory, or opens the directory itself when none does.
    Erase(past::EraseArgs),
    /// Show what a running server does: rates, times, hits, the hottest and slowest queries
    ///
    /// Asks the server that runs on the data directory, twice a look apart, and shows what came
    /// between. Changes nothing.
    Top(top::TopArgs),
    /// Look at data directory, settings and machine, and say what to do
    ///
    /// Changes nothing, and works beside a running server. The exit code is 1 where something is
    /// bad.
    Doctor(DoctorArgs),
    /// Fill a table with data to try things on
    #[command(subcommand)]
    Seed(seed::SeedCommand),
    /// Measure a server
    #[command(subcommand)]
    Bench(bench::BenchCommand),
}

/// Reads the command line, the environment and the configuration file. Ends the process with 2
/// where the command line cannot be understood, and with 0 after --help and --version.
///
/// # Errors
/// When the configuration file cannot be understood.
pub fn read() -> Result<Cli> {
    let cli = Cli::parse();
    let Command::Serve(args) = &cli.command else {
        return Ok(cli);
    };
    let words = std::env::args_os().collect();
    let (matches, _) = file::with_file(words, args.config.as_deref(), &args.data.data)?;
    Ok(Cli::from_arg_matches(&matches)?)
}

/// What `tidemark serve` would be given now, on this directory and with this file: each setting,
/// and all of them checked.
///
/// # Errors
/// When the file or the environment cannot be understood.
pub fn serve_settings(
    directory: &DirectoryArgs,
    config: Option<&Path>,
) -> Result<(file::Settings, Vec<file::InForce>, Box<ServeArgs>)> {
    let mut words: Vec<OsString> = vec!["tidemark".into(), "serve".into(), "--data".into()];
    words.push(directory.data.clone().into());
    let (matches, settings) = file::with_file(words, config, &directory.data)?;
    let serve = matches.subcommand_matches("serve");
    let in_force = settings.in_force(serve.expect("the words say serve"));
    match Cli::from_arg_matches(&matches)?.command {
        Command::Serve(args) => Ok((settings, in_force, args)),
        _ => unreachable!("the words say serve"),
    }
}

/// Where the data directory is.
#[derive(Args, Clone, Debug)]
pub struct DirectoryArgs {
    /// The data directory; made if absent
    #[arg(
        long,
        env = "TIDEMARK_DATA",
        value_name = "DIR",
        default_value = "tidemark-data"
    )]
    pub data: PathBuf,
}

/// Which project a command is about.
#[derive(Args, Clone, Debug)]
pub struct ProjectArgs {
    /// The project
    #[arg(long, env = "TIDEMARK_PROJECT_ID", value_name = "ID")]
    #[arg(default_value = PROJECT_DEFAULT)]
    project: String,
}

impl ProjectArgs {
    /// # Errors
    /// When it is no project id.
    pub fn check(&self) -> Result<ProjectId> {
        checked_project(given(Some(&self.project)).unwrap_or(PROJECT_DEFAULT))
    }
}

/// How to reach a server over the wire.
#[derive(Args, Clone)]
pub struct ConnectionArgs {
    /// Where the server answers
    #[arg(long, env = "APPWRITE_ENDPOINT", value_name = "URL")]
    #[arg(default_value = "http://127.0.0.1:8280/v1")]
    endpoint: String,
    /// The project
    #[arg(long, env = "APPWRITE_PROJECT_ID", value_name = "ID", default_value = PROJECT_DEFAULT)]
    project: String,
    /// The secret of an API key; the variable hides it from other users of the machine
    #[arg(
        long,
        env = "APPWRITE_API_KEY",
        value_name = "SECRET",
        hide_env_values = true
    )]
    key: Option<String>,
}

impl ConnectionArgs {
    /// # Errors
    /// When a part is missing, or cannot stand where it must.
    pub fn check(&self) -> Result<Access> {
        let endpoint: Endpoint = self
            .endpoint
            .parse()
            .map_err(|why| anyhow!("--endpoint: {why}"))?;
        access(endpoint, &self.project, self.key.as_ref())
    }
}

/// # Errors
/// When a part is missing, or cannot stand where it must.
fn access(endpoint: Endpoint, project: &str, key: Option<&String>) -> Result<Access> {
    let key = given(key).ok_or_else(|| {
        anyhow!(
            "no API key is given. Set APPWRITE_API_KEY, or use --key; `tidemark key create` \
             makes one"
        )
    })?;
    let header = |name: &str, text: &str| {
        HeaderValue::from_str(text).map_err(|_| anyhow!("{name} holds what no header can"))
    };
    let mut key = header("the API key", key)?;
    key.set_sensitive(true);
    let project = match project {
        "" => PROJECT_DEFAULT,
        project => project,
    };
    Ok(Access {
        endpoint,
        project: header("--project", checked_project(project)?.as_str())?,
        key,
    })
}

/// An empty variable counts as one that is not set: that is how composed environments say it.
fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

fn checked_project(id: &str) -> Result<ProjectId> {
    ProjectId::new(id).map_err(|error| anyhow!("the project id `{id}` cannot be used: {error}"))
}

/// The options of `tidemark doctor`, as typed.
#[derive(Args)]
#[command(after_help = "Example:
  tidemark doctor --data /srv/tidemark
  tidemark doctor --no-check --json")]
pub struct DoctorArgs {
    /// Where it is.
    #[command(flatten)]
    pub data: DirectoryArgs,
    /// The configuration file that the server is given
    #[arg(long, env = "TIDEMARK_CONFIG", value_name = "PATH")]
    pub config: Option<PathBuf>,
    /// Do not read the whole database to see whether it is whole
    #[arg(long)]
    pub no_check: bool,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

/// `127.0.0.1:8280`, `[::1]:8280` or `localhost:8280`.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let numeric = text.replacen("localhost:", "127.0.0.1:", 1);
    numeric.parse().map_err(|_| {
        "an address and a port are needed, such as 127.0.0.1:8280 or [::1]:8280".to_owned()
    })
}

/// The address to tell clients for one that was bound: an address that means "all" is none a
/// client could use.
pub fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => [127, 0, 0, 1].into(),
        IpAddr::V6(ip) if ip.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn clients_are_told_an_address_they_can_use() {
        let told = ["0.0.0.0:80", "[::]:80", "10.1.2.3:80"]
            .map(|text| reachable(text.parse().unwrap()).to_string());
        assert_eq!(told, ["127.0.0.1:80", "[::1]:80", "10.1.2.3:80"]);
    }
}
