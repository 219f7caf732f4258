//! From the command line and the environment to one small checked struct per room.
//!
//! Two steps. What was typed stands in the `…Args` types, exactly as typed; `check` turns it into
//! what a room takes, with every default decided. Nothing else reads the environment.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::{Args, FromArgMatches as _, Parser, Subcommand};
use engine::{Durability, LongReads};
use hyper::header::HeaderValue;
use model::{ProjectId, TableOptions};

use crate::cli::{bench, key, past, project, seed, top};
use crate::http::wire::{encode_page, encode_row};
use client::{Access, Endpoint};

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
/// Rows of a page when a query names no limit (wire protocol 1.5).
const PAGE_ROWS_DEFAULT: u32 = 25;
/// Most page cache of each reading thread; it grows as pages are read. The benchmark's table with
/// its index takes 18 MB: with 16 MiB a scan of it found nothing in the cache and took twice as
/// long.
const READER_CACHE_BYTES: u64 = 32 << 20;
/// How reads of the command line are run: it asks one thing at a time.
const LONG_READS: LongReads = LongReads {
    after_us: LONG_READ_US,
    threads: 1,
    waiting_max: LONG_READS_WAITING_MAX,
};
/// After how many microseconds a read is long (design page, HTTP): some 250 point reads, or 30
/// lists by an index, could have been answered meanwhile.
const LONG_READ_US: u64 = 1_000;
/// Long reads that may wait for a thread. Each holds a request; at 10 ms each, which a capped
/// total takes, four threads work this off in under a second.
const LONG_READS_WAITING_MAX: usize = 256;
/// How long a server may have been down, in hours: ninety days. A wrong clock is most often years
/// ahead, and a server that rested over a holiday shall start.
const DOWNTIME_MAX_H: u32 = 90 * 24;
/// Writes that may wait for a commit; each holds a row or a batch of at most 100.
const WRITES_WAITING_MAX: usize = 4_096;
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

/// How the command line opens a store that no server holds: for administration only.
pub fn offline_engine(directory: PathBuf) -> engine::Config {
    engine::Config {
        directory,
        durability: Durability::Full,
        reader_cache_bytes: READER_CACHE_BYTES,
        read_limit_ms: 10_000,
        long_reads: LONG_READS,
        page_rows_default: PAGE_ROWS_DEFAULT,
        page_rows_max: PAGE_ROWS_DEFAULT,
        answer_bytes_max: usize::MAX,
        total_cap: 0,
        list_cache_bytes: 0,
        writes_waiting_max: WRITES_WAITING_MAX,
        accept_clock: false,
        downtime_max_us: hours_us(DOWNTIME_MAX_H),
        quotas: engine::Quotas::NONE,
        new_tables: TableOptions::default(),
        encode_row,
        encode_page,
    }
}

fn hours_us(hours: u32) -> i64 {
    i64::from(hours) * 3_600 * 1_000_000
}

/// Threads the system lets this process run at once.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
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
