//! From the command line and the environment to one small checked struct per room.
//!
//! Two steps. What was typed stands in the `…Args` types, exactly as typed; `check` turns it into
//! what a room takes, with every default decided. Nothing else reads the environment.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use clap::{ArgAction, Args, FromArgMatches as _, Parser, Subcommand, ValueEnum, value_parser};
use engine::{Clock, Durability, LongReads};
use hyper::header::HeaderValue;
use model::ProjectId;

use crate::cli::{bench, key, project, seed, top};
use crate::client::{Access, Endpoint};
use crate::http::Rng;
use crate::http::counts::Counts;
use crate::http::forwarded::TrustedProxies;
use crate::http::tidemark::SetClock;
use crate::http::wire::{encode_page, encode_row};
use crate::secret::KeySecret;
use crate::serve::ServeConfig;
use crate::serve::tls::TlsFiles;

mod limits;
mod watch;

use limits::LimitArgs;
use watch::WatchArgs;
pub use watch::WatchSetup;

pub mod file;
mod port;

pub use port::{ExportArgs, ExportSetup, FormatArg, ImportArgs, ImportSetup, Source};

/// The project of a first start, when none is named.
const PROJECT_DEFAULT: &str = "default";
/// Rows of a page when a query names no limit (wire protocol 1.5).
const PAGE_ROWS_DEFAULT: u32 = 25;
/// Most page cache of each reading thread; it grows as pages are read. The benchmark's table with
/// its index takes 18 MB: with 16 MiB a scan of it found nothing in the cache and took twice as
/// long.
const READER_CACHE_BYTES: u64 = 64 << 20;
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
/// Fewest threads for long reads: with one or two, as many queries that run to their limit would
/// stop all others that take over a millisecond.
const LONG_READ_THREADS_MIN: usize = 4;
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

/// The options of `tidemark serve`, as typed.
#[derive(Args)]
#[command(after_help = "Examples:
  tidemark serve
  tidemark serve --data /srv/tidemark --listen 0.0.0.0:8280 --log-format json
  TIDEMARK_PROJECT_ID=shop TIDEMARK_API_KEY=a-secret-of-your-own tidemark serve

A flag wins over its variable, a variable over the file, the file over what is built in.")]
pub struct ServeArgs {
    #[command(flatten)]
    data: DirectoryArgs,
    /// A file with any of these options as keys [default: tidemark.toml in the data directory, if
    /// it is there]
    #[arg(long, env = "TIDEMARK_CONFIG", value_name = "PATH")]
    config: Option<PathBuf>,
    /// Where to listen. Port 0 takes a free one, which is printed
    #[arg(long, env = "TIDEMARK_LISTEN", value_name = "ADDRESS:PORT")]
    #[arg(default_value = "127.0.0.1:8280", value_parser = listen_address)]
    listen: SocketAddr,
    /// What a commit waits for before it is acknowledged
    #[arg(long, env = "TIDEMARK_DURABILITY", value_enum, default_value = "full")]
    durability: DurabilityArg,
    /// Memory for cached lists: on (256MiB), off, or a size such as 64MiB
    #[arg(
        long,
        env = "TIDEMARK_LIST_CACHE",
        value_name = "on|off|SIZE",
        default_value = "on"
    )]
    #[arg(value_parser = list_cache_bytes)]
    list_cache: u64,
    /// Compare one of so many exact answers from the cache with a fresh read; 0 for none
    ///
    /// Without a number one of 64. Differences are logged as errors, counted in the last line of
    /// the log, and turn /v1/health/cache to `fail`.
    #[arg(long, env = "TIDEMARK_PARANOID", value_name = "N", default_value_t = 0)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "64")]
    paranoid: u32,
    /// How far the total of a list is counted; 0 counts all, which may take long
    #[arg(
        long,
        env = "TIDEMARK_TOTAL_CAP",
        value_name = "ROWS",
        default_value_t = 5_000
    )]
    total_cap: u64,
    /// Threads that answer requests [default: one for each core]
    #[arg(long, env = "TIDEMARK_THREADS", value_name = "N")]
    #[arg(value_parser = value_parser!(u16).range(1..=1_024))]
    threads: Option<u16>,
    /// Longest run of one read, in milliseconds; after it the request fails
    #[arg(
        long,
        env = "TIDEMARK_READ_LIMIT_MS",
        value_name = "MS",
        default_value_t = 10_000
    )]
    #[arg(value_parser = value_parser!(u64).range(1..))]
    read_limit_ms: u64,
    /// Threads for reads that take over a millisecond, each with up to 64 MiB of page cache
    /// [default: two for each core, at least 4]
    #[arg(long, env = "TIDEMARK_LONG_READ_THREADS", value_name = "N")]
    #[arg(value_parser = value_parser!(u16).range(1..=1_024))]
    long_read_threads: Option<u16>,
    /// Most such reads that wait for a thread; one more is answered 503
    #[arg(
        long,
        env = "TIDEMARK_LONG_READS_WAITING",
        value_name = "N",
        default_value_t = LONG_READS_WAITING_MAX
    )]
    long_reads_waiting: usize,
    /// Most rows of one page
    #[arg(
        long,
        env = "TIDEMARK_PAGE_ROWS_MAX",
        value_name = "ROWS",
        default_value_t = 10_000
    )]
    #[arg(value_parser = value_parser!(u32).range(1..))]
    page_rows_max: u32,
    /// A host whose pages may call from browsers, beside localhost: example.com or *.example.com
    #[arg(
        long,
        env = "TIDEMARK_CORS_ORIGIN",
        value_name = "HOST",
        value_delimiter = ','
    )]
    #[arg(action = ArgAction::Append)]
    cors_origin: Vec<String>,
    /// Proxies that are believed when they name the client in X-Forwarded-For and -Proto: their
    /// networks, such as 10.0.0.0/8, or how many stand in a row
    ///
    /// Without it whoever connects is the client. A number is safe only where nobody can connect
    /// past the proxies.
    #[arg(
        long,
        env = "TIDEMARK_TRUST_PROXY",
        value_name = "NETWORKS|N",
        default_value = ""
    )]
    #[arg(hide_default_value = true, value_parser = TrustedProxies::parse)]
    trust_proxy: TrustedProxies,
    /// Serve TLS with this certificate, then those that vouch for it, in PEM
    #[arg(long, env = "TIDEMARK_TLS_CERT", value_name = "PATH")]
    tls_cert: Option<String>,
    /// The certificate's private key, in PEM
    #[arg(long, env = "TIDEMARK_TLS_KEY", value_name = "PATH")]
    tls_key: Option<String>,
    /// The project to make if it is absent
    #[arg(long, env = "TIDEMARK_PROJECT_ID", value_name = "ID")]
    project_id: Option<String>,
    /// The API key to make if it is absent: 16 to 512 printable ASCII characters. It replaces the
    /// one an earlier start was given. The variable hides it from other users of the machine
    #[arg(
        long,
        env = "TIDEMARK_API_KEY",
        value_name = "SECRET",
        hide_env_values = true
    )]
    api_key: Option<String>,
    /// Write {endpoint, projectId, apiKey} there, for its owner only, once the server answers
    ///
    /// The key is the one of this start if it is known (the first start, or TIDEMARK_API_KEY),
    /// else the one the file holds if it still opens the project. Otherwise a new key named
    /// `bootstrap` is made, and the one made for this path before is revoked.
    #[arg(long, env = "TIDEMARK_BOOTSTRAP_FILE", value_name = "PATH")]
    bootstrap_file: Option<PathBuf>,
    /// Accept writes although the clock is far ahead of the last commit
    #[arg(long, env = "TIDEMARK_ACCEPT_CLOCK")]
    accept_clock: bool,
    /// Let each request set the clock by its header X-Tidemark-Clock; for tests alone
    ///
    /// Refuses a data directory that was ever served without it.
    #[arg(long, env = "TIDEMARK_TEST_CLOCK")]
    test_clock: bool,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// How to log.
#[derive(Args)]
struct LogArgs {
    /// The shape of log lines, which go to standard error
    #[arg(long, env = "TIDEMARK_LOG_FORMAT", value_enum, default_value = "text")]
    log_format: LogFormat,
    /// What is logged: error, warn, info, debug or trace; access=debug adds a line per request
    #[arg(
        long,
        env = "TIDEMARK_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "info"
    )]
    log_level: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DurabilityArg {
    /// The disk has synced it: it survives a power cut
    Full,
    /// It survives the end of the process; a power cut may take the last milliseconds
    Normal,
}

/// The shape of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// Everything `tidemark serve` needs, checked, by room.
pub struct ServeSetup {
    /// For the engine.
    pub engine: engine::Config,
    /// Compare one of so many hits with a fresh read; 0 for none.
    pub paranoid: u32,
    /// For those who watch.
    pub watch: WatchSetup,
    /// For HTTP.
    pub http: ServeConfig,
    /// For the first start.
    pub bootstrap: Bootstrap,
    /// For the log.
    pub log: Log,
}

/// Which project and key to make, and whom to tell.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    /// The project to make if absent.
    pub project: ProjectId,
    /// Whether somebody named it; otherwise it is made only where no project is.
    pub named: bool,
    /// The key to make if absent.
    pub key: Option<KeySecret>,
    /// Where to write how to connect.
    pub file: Option<PathBuf>,
}

/// How to log.
#[derive(Clone, Debug)]
pub struct Log {
    /// The shape of lines.
    pub format: LogFormat,
    /// What is logged.
    pub filter: String,
}

impl ServeArgs {
    /// # Errors
    /// When a part contradicts a rule; the text names it.
    pub fn check(self, clock: Arc<dyn Clock>, rng: Rng) -> Result<ServeSetup> {
        let named = given(self.project_id.as_ref());
        let key = given(self.api_key.as_ref()).map(KeySecret::new).transpose();
        let bootstrap = Bootstrap {
            project: checked_project(named.unwrap_or(PROJECT_DEFAULT))?,
            named: named.is_some(),
            key: key.map_err(|why| anyhow!("TIDEMARK_API_KEY cannot be used: {why}"))?,
            file: self.bootstrap_file,
        };
        let threads = self.threads.map_or_else(cores, usize::from);
        let tls = tls_files(self.tls_cert.as_ref(), self.tls_key.as_ref())?;
        let origins = self.cors_origin.into_iter().filter(|host| !host.is_empty());
        let engine = engine::Config {
            durability: match self.durability {
                DurabilityArg::Full => Durability::Full,
                DurabilityArg::Normal => Durability::Normal,
            },
            list_cache_bytes: self.list_cache,
            total_cap: self.total_cap,
            read_limit_ms: self.read_limit_ms,
            long_reads: LongReads {
                after_us: LONG_READ_US,
                threads: self
                    .long_read_threads
                    .map_or_else(|| LONG_READ_THREADS_MIN.max(2 * cores()), usize::from),
                waiting_max: self.long_reads_waiting,
            },
            page_rows_max: self.page_rows_max,
            page_rows_default: PAGE_ROWS_DEFAULT.min(self.page_rows_max),
            accept_clock: self.accept_clock || self.test_clock,
            ..offline_engine(self.data.data)
        };
        let http = ServeConfig {
            listen: self.listen,
            threads,
            limits: self.limits.limits(),
            origins: origins.collect(),
            proxies: self.trust_proxy,
            tls,
            access_log: false,
            counts: Counts::new(threads),
            traces: None,
            test_clock: self.test_clock.then(|| SetClock::over(clock.clone())),
            clock,
            rng,
        };
        let log = Log {
            format: self.log.log_format,
            filter: self.log.log_level,
        };
        Ok(ServeSetup {
            engine,
            paranoid: self.paranoid,
            watch: self.watch.check()?,
            http,
            bootstrap,
            log,
        })
    }
}

/// Both files or neither; an empty variable counts as one that is not set.
fn tls_files(certificate: Option<&String>, key: Option<&String>) -> Result<Option<TlsFiles>> {
    match (given(certificate), given(key)) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles {
            certificate: certificate.into(),
            key: key.into(),
        })),
        (Some(_), None) => Err(anyhow!("--tls-cert needs --tls-key")),
        (None, Some(_)) => Err(anyhow!("--tls-key needs --tls-cert")),
    }
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
        total_cap: 0,
        list_cache_bytes: 0,
        writes_waiting_max: WRITES_WAITING_MAX,
        accept_clock: false,
        encode_row,
        encode_page,
    }
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

/// Capacity of the list cache when it is simply on.
const LIST_CACHE_BYTES: u64 = 256 << 20;

fn list_cache_bytes(text: &str) -> Result<u64, String> {
    match text {
        "on" => Ok(LIST_CACHE_BYTES),
        "off" => Ok(0),
        size => size_bytes(size).ok_or_else(|| "needed: on, off, or a size such as 64MiB".into()),
    }
}

/// `64MiB`, `64MB`, `1GiB`, `512KiB` or plain bytes; the short forms mean powers of 1,024, too.
fn size_bytes(text: &str) -> Option<u64> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use model::Timestamp;

    struct Stopped;

    impl Clock for Stopped {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }

        fn elapsed_ms(&self) -> u64 {
            0
        }
    }

    fn serve(args: &[&str]) -> Result<ServeSetup> {
        let args = ["tidemark", "serve"].iter().chain(args);
        match Cli::try_parse_from(args)?.command {
            Command::Serve(args) => args.check(Arc::new(Stopped), |_| {}),
            _ => unreachable!("the words say serve"),
        }
    }

    #[track_caller]
    fn refuse(args: &[&str], part: &str) {
        let error = serve(args).err().expect("must be refused").to_string();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_was_typed_reaches_its_room() {
        let setup = serve(&[
            "--data=d",
            "--listen=[::1]:0",
            "--durability=normal",
            "--list-cache=64MiB",
            "--total-cap=0",
            "--threads=3",
            "--read-limit-ms=7",
            "--page-rows-max=10",
            "--long-read-threads=5",
            "--long-reads-waiting=0",
            "--cors-origin=a.example,*.b.example",
            "--trust-proxy=10.0.0.0/8",
            "--tls-cert=c.pem",
            "--tls-key=k.pem",
            "--connections-max=9",
            "--head-max=8KiB",
            "--rate-min=1MiB",
            "--project-id=shop",
            "--api-key=0123456789abcdef",
            "--accept-clock",
            "--log-format=json",
        ])
        .unwrap();
        let engine = &setup.engine;
        assert_eq!(engine.directory, PathBuf::from("d"));
        assert_eq!(engine.durability, Durability::Normal);
        assert_eq!((engine.list_cache_bytes, engine.total_cap), (64 << 20, 0));
        assert_eq!((engine.read_limit_ms, engine.page_rows_max), (7, 10));
        assert_eq!((engine.page_rows_default, engine.accept_clock), (10, true));
        let long = engine.long_reads;
        assert_eq!(
            (long.after_us, long.threads, long.waiting_max),
            (1_000, 5, 0)
        );
        assert_eq!(setup.http.listen, "[::1]:0".parse().unwrap());
        assert_ne!(setup.http.proxies, TrustedProxies::None);
        assert!(setup.http.tls.is_some());
        let limits = setup.http.limits;
        assert_eq!((limits.connections_max, limits.head_bytes_max), (9, 8_192));
        assert_eq!((limits.rate_bytes_min, limits.body_ms), (1 << 20, 30_000));
        assert_eq!((setup.http.threads, setup.http.origins.len()), (3, 2));
        assert_eq!(setup.bootstrap.project.as_str(), "shop");
        assert!(setup.bootstrap.named && setup.bootstrap.key.is_some());
        assert_eq!(setup.log.format, LogFormat::Json);
    }

    #[test]
    fn empty_variables_count_as_not_set() {
        let setup = serve(&[
            "--project-id=",
            "--api-key=",
            "--cors-origin=",
            "--tls-cert=",
            "--trust-proxy=",
        ])
        .unwrap();
        assert_eq!(setup.bootstrap.project.as_str(), "default");
        assert!(!setup.bootstrap.named && setup.bootstrap.key.is_none());
        assert!(setup.http.origins.is_empty());
    }

    #[test]
    fn refusals_name_the_part_and_what_is_needed() {
        refuse(&["--listen=8280"], "such as 127.0.0.1:8280");
        refuse(&["--list-cache=lots"], "on, off, or a size such as 64MiB");
        refuse(&["--threads=0"], "--threads");
        refuse(&["--head-max=4KiB"], "from 8192 to 1048576 bytes");
        refuse(&["--connections-max=0"], "--connections-max");
        refuse(&["--trust-proxy=proxy.local"], "such as 10.0.0.0/8");
        refuse(&["--tls-cert=c.pem"], "--tls-cert needs --tls-key");
        refuse(&["--tls-key=k.pem"], "--tls-key needs --tls-cert");
        refuse(&["--page-rows-max=0"], "--page-rows-max");
        refuse(&["--project-id=_x"], "the project id `_x` cannot be used");
        refuse(
            &["--api-key=short"],
            "TIDEMARK_API_KEY cannot be used: an API key has 16 to 512",
        );
    }

    #[test]
    fn sizes_are_read_with_their_unit() {
        let read = ["off", "on", "4096", "64MiB", "64MB", "2g", "1 KiB"].map(list_cache_bytes);
        let wanted = [0, 256 << 20, 4_096, 64 << 20, 64 << 20, 2 << 30, 1_024].map(Ok);
        assert_eq!(read, wanted);
        for bad in ["", "MiB", "-1", "1TiB", "99999999999GiB"] {
            assert_eq!(size_bytes(bad), None, "{bad}");
        }
    }

    #[test]
    fn clients_are_told_an_address_they_can_use() {
        let told = ["0.0.0.0:80", "[::]:80", "10.1.2.3:80"]
            .map(|text| reachable(text.parse().unwrap()).to_string());
        assert_eq!(told, ["127.0.0.1:80", "[::1]:80", "10.1.2.3:80"]);
    }
}
