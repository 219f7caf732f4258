//! `tidemark serve`: its options as typed, and what each room takes of them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use clap::{ArgAction, Args, ValueEnum, value_parser};
use engine::{Clock, Durability, LongReads, StorePlace};
use model::options::HISTORY_DAYS_MAX;
use model::{Past, ProjectId, Retention, TableOptions};
use server::defaults::{
    DOWNTIME_MAX_H, LONG_READ_US, LONG_READS_WAITING_MAX, PAGE_ROWS_DEFAULT, hours_us,
};
use server::http::head::forwarded::TrustedProxies;
use server::http::state::counts::Counts;
use server::http::state::test_clock::SetClock;
use server::offline::offline_engine;
use server::rng::Rng;
use server::secret::KeySecret;
use server::serve::tls::TlsFiles;
use server::serve::{ServeConfig, cores};

use super::functions::FunctionArgs;
use super::limits::LimitArgs;
use super::quotas::QuotaArgs;
use super::size::list_cache_bytes;
use super::watch::{WatchArgs, WatchSetup};
use super::{
    DirectoryArgs, PROJECT_DEFAULT, checked_project, database_url, file_given, given,
    listen_address,
};

/// Fewest threads for long reads: with one or two, as many queries that run to their limit would
/// stop all others that take over a millisecond.
const LONG_READ_THREADS_MIN: usize = 4;

/// The options of `tidemark serve`, as typed.
#[derive(Args)]
#[command(after_help = "Examples:
  tidemark serve
  tidemark serve --port 9000
  tidemark serve --data /srv/tidemark --listen 0.0.0.0:8280 --log-format json
  TIDEMARK_PROJECT_ID=shop TIDEMARK_API_KEY=a-secret-of-your-own tidemark serve

A flag wins over its variable, a variable over the file, the file over what is built in.")]
pub struct ServeArgs {
    #[command(flatten)]
    pub(crate) data: DirectoryArgs,
    /// A file with any of these options as keys [default: tidemark.toml in the data directory, if
    /// it is there]
    #[arg(long, env = "TIDEMARK_CONFIG", value_name = "PATH")]
    pub(crate) config: Option<PathBuf>,
    /// Keep the store in this PostgreSQL database, such as postgres://user@host/name; the data
    /// directory is for keys and sockets then. Use the variable, or a password file, to hide a
    /// password from other users of the machine
    #[arg(
        long,
        env = "TIDEMARK_DATABASE",
        value_name = "URL",
        hide_env_values = true
    )]
    database: Option<String>,
    /// A file with the password of the database, in the form of libpq's password files [default:
    /// the one that PGPASSFILE names]
    #[arg(long, env = "TIDEMARK_PASSWORD_FILE", value_name = "PATH")]
    password_file: Option<PathBuf>,
    /// Address and port to listen on. Port 0 chooses a free port and prints it
    #[arg(long, env = "TIDEMARK_LISTEN", value_name = "ADDRESS:PORT")]
    #[arg(default_value = "127.0.0.1:8280", value_parser = listen_address)]
    listen: SocketAddr,
    /// Port to listen on, instead of the one in --listen
    #[arg(long, env = "TIDEMARK_PORT", value_name = "PORT")]
    port: Option<u16>,
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
    /// Compare one of N exact answers from the cache with a fresh read; 0 for none
    ///
    /// Without a number N is 64. Differences are logged as errors, counted in the last line of the
    /// log, and set /v1/health/cache to `fail`.
    #[arg(
        long,
        env = "TIDEMARK_AUDIT_HITS",
        value_name = "N",
        default_value_t = 0
    )]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "64")]
    audit_hits: u32,
    /// The former name of --audit-hits; of both, the larger N counts
    #[arg(
        long = "paranoid",
        env = "TIDEMARK_PARANOID",
        value_name = "N",
        default_value_t = 0,
        hide = true
    )]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "64")]
    former_audit_hits: u32,
    /// Most rows counted for the total of a list; 0 counts all, which may take long
    #[arg(
        long,
        env = "TIDEMARK_TOTAL_CAP",
        value_name = "ROWS",
        default_value_t = 5_000
    )]
    total_cap: u64,
    /// How much of its past a new table keeps: keep (all), days(n) or none
    #[arg(long, env = "TIDEMARK_TABLE_HISTORY", value_name = "HISTORY")]
    #[arg(default_value = "keep", value_parser = table_history)]
    table_history: Retention,
    /// Who may read the past of a new table: keys, both or now
    ///
    /// `keys`: API keys only. `both`: also callers who may read a row now and could at that time.
    /// `now`: also all callers who may read a row now. Existing tables keep their option.
    #[arg(long, env = "TIDEMARK_TABLE_PAST", value_name = "PAST")]
    #[arg(default_value = "keys", value_parser = table_past)]
    table_past: Past,
    /// Threads that answer requests [default: one for each core]
    #[arg(long, env = "TIDEMARK_THREADS", value_name = "N")]
    #[arg(value_parser = value_parser!(u16).range(1..=1_024))]
    threads: Option<u16>,
    /// Time limit of one read, in milliseconds
    #[arg(
        long,
        env = "TIDEMARK_READ_LIMIT_MS",
        value_name = "MS",
        default_value_t = 10_000
    )]
    #[arg(value_parser = value_parser!(u64).range(1..))]
    read_limit_ms: u64,
    /// Threads for reads that take over a millisecond, each with up to 32 MiB of page cache
    /// [default: two for each core, at least 4]
    #[arg(long, env = "TIDEMARK_LONG_READ_THREADS", value_name = "N")]
    #[arg(value_parser = value_parser!(u16).range(1..=1_024))]
    long_read_threads: Option<u16>,
    /// Most such reads that may wait for a thread, for callers with a key; half as many for others;
    /// 503 beyond
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
    /// A host whose web pages may call, in addition to localhost: example.com or *.example.com
    #[arg(
        long,
        env = "TIDEMARK_CORS_ORIGIN",
        value_name = "HOST",
        value_delimiter = ','
    )]
    #[arg(action = ArgAction::Append)]
    cors_origin: Vec<String>,
    /// Trusted proxies, whose X-Forwarded-For and X-Forwarded-Proto name the client: their
    /// networks, such as 10.0.0.0/8, or their number
    ///
    /// Without it the client is the address that connects. A number is safe only if no client can
    /// connect past the proxies.
    #[arg(
        long,
        env = "TIDEMARK_TRUST_PROXY",
        value_name = "NETWORKS|N",
        default_value = ""
    )]
    #[arg(hide_default_value = true, value_parser = TrustedProxies::parse)]
    trust_proxy: TrustedProxies,
    /// Serve TLS with this certificate, followed by its chain, in PEM
    #[arg(long, env = "TIDEMARK_TLS_CERT", value_name = "PATH")]
    tls_cert: Option<String>,
    /// The certificate's private key, in PEM
    #[arg(long, env = "TIDEMARK_TLS_KEY", value_name = "PATH")]
    tls_key: Option<String>,
    /// The project to create if it does not exist
    #[arg(long, env = "TIDEMARK_PROJECT_ID", value_name = "ID")]
    project_id: Option<String>,
    /// The API key to create if it does not exist: 16 to 512 printable ASCII characters. It
    /// replaces the key of an earlier start. Use the variable to hide it from other users of the
    /// machine
    #[arg(
        long,
        env = "TIDEMARK_API_KEY",
        value_name = "SECRET",
        hide_env_values = true
    )]
    api_key: Option<String>,
    /// Write {endpoint, projectId, apiKey} to this file, readable by its owner only, once the
    /// server answers
    ///
    /// The key is the one of this start if it is known (the first start, or TIDEMARK_API_KEY),
    /// else the one the file holds if it still opens the project. Otherwise a new key named
    /// `bootstrap` is made, and the one made for this path before is revoked.
    #[arg(long, env = "TIDEMARK_BOOTSTRAP_FILE", value_name = "PATH")]
    bootstrap_file: Option<PathBuf>,
    /// Accept writes although the clock is far ahead of the last commit
    #[arg(long, env = "TIDEMARK_ACCEPT_CLOCK")]
    accept_clock: bool,
    /// Hours that a server may have been down before a start takes its clock for wrong, if the
    /// machine was restarted since; otherwise that time is known
    #[arg(
        long,
        env = "TIDEMARK_DOWNTIME_MAX_H",
        value_name = "HOURS",
        default_value_t = DOWNTIME_MAX_H
    )]
    #[arg(value_parser = value_parser!(u32).range(1..))]
    downtime_max_h: u32,
    /// Start although acknowledged commits, or the whole database, are missing; later starts do not
    /// report them again
    #[arg(long, env = "TIDEMARK_ACCEPT_LOSS")]
    accept_loss: bool,
    /// Let each request set the clock by its header X-Tidemark-Clock; for tests only
    ///
    /// Refuses a data directory that was ever served without it.
    #[arg(long, env = "TIDEMARK_TEST_CLOCK")]
    test_clock: bool,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    quotas: QuotaArgs,
    #[command(flatten)]
    functions: FunctionArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// How to log.
#[derive(Args)]
struct LogArgs {
    /// Format of log lines, which are written to standard error
    #[arg(long, env = "TIDEMARK_LOG_FORMAT", value_enum, default_value = "text")]
    log_format: LogFormat,
    /// Log level: error, warn, info, debug or trace; access=debug adds a line per request
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

/// Everything `tidemark serve` needs, checked, for each part of it.
pub struct ServeSetup {
    /// What is kept on this machine.
    pub data: PathBuf,
    /// Where the password of the database is looked for.
    pub password_file: Option<PathBuf>,
    /// For the engine.
    pub engine: engine::Config,
    /// Where the key of variables of functions is; `None` for beside the data.
    pub variables_key: Option<PathBuf>,
    /// Compare one of so many hits with a fresh read; 0 for none.
    pub audit_hits: u32,
    /// For those who watch.
    pub watch: WatchSetup,
    /// For HTTP.
    pub http: ServeConfig,
    /// For the first start.
    pub bootstrap: Bootstrap,
    /// Start although commits were lost.
    pub accept_loss: bool,
    /// For the log.
    pub log: Log,
}

/// Which project and key to make, and whom to tell.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    /// The project to make if absent.
    pub project: ProjectId,
    /// Whether it was named; otherwise it is made only where no project is.
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

fn table_history(text: &str) -> Result<Retention, String> {
    let why = || format!("keep, none or days(n) with n from 1 to {HISTORY_DAYS_MAX} is needed");
    Retention::parse(text).ok_or_else(why)
}

fn new_tables(history: Retention, past: Past) -> TableOptions {
    TableOptions {
        history,
        past,
        ..TableOptions::default()
    }
}

fn table_past(text: &str) -> Result<Past, String> {
    Past::parse(text).ok_or_else(|| "keys, both or now is needed".to_owned())
}

impl ServeArgs {
    /// # Errors
    /// When a part contradicts a rule; the text names it.
    pub fn check(self, clock: Arc<dyn Clock>, rng: Rng) -> Result<ServeSetup> {
        let long_reads = self.long_reads();
        let place = self.place()?;
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
        let limits = self.limits.limits();
        let origins = self.cors_origin.into_iter().filter(|host| !host.is_empty());
        let variables_key = self.functions.secret_key_file.clone();
        let source_bytes = self.functions.functions_source_max as u64;
        let functions = self.functions.check(&self.data.data, self.test_clock);
        let engine = engine::Config {
            durability: match self.durability {
                DurabilityArg::Full => Durability::Full,
                DurabilityArg::Normal => Durability::Normal,
            },
            list_cache_bytes: self.list_cache,
            total_cap: self.total_cap,
            read_limit_ms: self.read_limit_ms,
            long_reads,
            page_rows_max: self.page_rows_max,
            page_rows_default: PAGE_ROWS_DEFAULT.min(self.page_rows_max),
            answer_bytes_max: limits.answer_bytes_max,
            accept_clock: self.accept_clock || self.test_clock,
            downtime_max_us: hours_us(self.downtime_max_h),
            quotas: self.quotas.quotas(source_bytes),
            new_tables: new_tables(self.table_history, self.table_past),
            ..offline_engine(place)
        };
        let http = ServeConfig {
            listen: SocketAddr::new(self.listen.ip(), self.port.unwrap_or(self.listen.port())),
            threads,
            limits: self.quotas.of_guests(limits),
            origins: origins.collect(),
            proxies: self.trust_proxy,
            tls,
            access_log: false,
            test_clock: self.test_clock.then(|| SetClock::over(clock.clone())),
            counts: Counts::new(threads),
            traces: None,
            functions,
            clock,
            rng,
            collect: |_| {},
        };
        let log = Log {
            format: self.log.log_format,
            filter: self.log.log_level,
        };
        Ok(ServeSetup {
            data: self.data.data,
            password_file: file_given(self.password_file.as_deref()).map(Path::to_owned),
            engine,
            variables_key,
            audit_hits: self.audit_hits.max(self.former_audit_hits),
            watch: self.watch.check()?,
            http,
            bootstrap,
            accept_loss: self.accept_loss,
            log,
        })
    }

    /// # Errors
    /// When it is no URL of a database, or an option is given that is of data directories alone.
    fn place(&self) -> Result<StorePlace> {
        let Some(text) = given(self.database.as_ref()) else {
            return Ok(self.data.data.as_path().into());
        };
        let url = database_url(text)?;
        let of_directories = [
            (
                self.accept_loss,
                "--accept-loss",
                "after a restore of a database, run `tidemark doctor --accept-restore`",
            ),
            (
                self.durability == DurabilityArg::Normal,
                "--durability=normal",
                "what a commit waits for is the database's synchronous_commit",
            ),
            (
                self.test_clock,
                "--test-clock",
                "what the database holds would be written at times of requests' own",
            ),
        ];
        match of_directories.iter().find(|(is_given, ..)| *is_given) {
            Some((_, option, why)) => Err(anyhow!("{option} cannot stand with --database: {why}")),
            None => Ok(url.into()),
        }
    }

    fn long_reads(&self) -> LongReads {
        LongReads {
            after_us: LONG_READ_US,
            threads: self
                .long_read_threads
                .map_or_else(|| LONG_READ_THREADS_MIN.max(2 * cores()), usize::from),
            waiting_max: self.long_reads_waiting,
        }
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

#[cfg(test)]
mod tests {
    use clap::Parser;
    use testing::TickingClock;

    use super::*;
    use crate::cli::command::{Cli, Command};

    fn serve(args: &[&str]) -> Result<ServeSetup> {
        let args = ["tidemark", "serve"].iter().chain(args);
        match Cli::try_parse_from(args)?.command {
            Command::Serve(args) => args.check(TickingClock::still_at(0), |_| {}),
            _ => unreachable!("the words say serve"),
        }
    }

    #[track_caller]
    fn refuse(args: &[&str], part: &str) {
        let error = serve(args).err().expect("must be refused").to_string();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn arguments_reach_the_crate_that_uses_them() {
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
            "--accept-loss",
            "--downtime-max-h=12",
            "--log-format=json",
        ])
        .unwrap();
        let engine = &setup.engine;
        assert_eq!(setup.data, PathBuf::from("d"));
        assert_eq!(engine.place, PathBuf::from("d").into());
        assert_eq!(engine.durability, Durability::Normal);
        assert_eq!((engine.list_cache_bytes, engine.total_cap), (64 << 20, 0));
        assert_eq!((engine.read_limit_ms, engine.page_rows_max), (7, 10));
        assert_eq!((engine.page_rows_default, engine.accept_clock), (10, true));
        assert_eq!(engine.downtime_max_us, 12 * 3_600 * 1_000_000);
        assert!(setup.accept_loss);
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
    fn a_database_takes_the_place_of_the_directory() {
        let url = format!(
            "--database={}u:secret@db.example/app",
            engine::DatabaseUrl::SCHEME
        );
        let url = url.as_str();
        let setup = serve(&["--data=d", url, "--password-file=f"]).unwrap();
        let place = setup.engine.place;
        assert!(matches!(place, StorePlace::Database(_)), "{place:?}");
        assert_eq!(setup.data, PathBuf::from("d"));
        assert_eq!(setup.password_file, Some(PathBuf::from("f")));
        let setup = serve(&["--database="]).unwrap();
        assert_eq!(setup.engine.place, PathBuf::from("tidemark-data").into());
        assert_eq!(setup.password_file, None);
        refuse(&[url, "--accept-loss"], "doctor --accept-restore");
        refuse(&[url, "--durability=normal"], "synchronous_commit");
        refuse(&[url, "--test-clock"], "--test-clock cannot stand");
        let refused = serve(&["--database=mysql://u:secret@db/app"])
            .err()
            .unwrap();
        let text = refused.to_string();
        assert!(
            text.starts_with("the URL of the database cannot be used: "),
            "{text}"
        );
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn port_replaces_the_one_of_the_address() {
        let listen = |args: &[&str]| serve(args).unwrap().http.listen.to_string();
        assert_eq!(listen(&[]), "127.0.0.1:8280");
        assert_eq!(listen(&["--port=9000"]), "127.0.0.1:9000");
        let both = ["--listen=0.0.0.0:8280", "--port=0"];
        assert_eq!(listen(&both), "0.0.0.0:0");
        refuse(&["--port=70000"], "--port");
    }

    #[test]
    fn former_name_of_audit_hits_still_works() {
        let audit_hits = |args: &[&str]| serve(args).unwrap().audit_hits;
        assert_eq!(audit_hits(&[]), 0);
        for (args, expected) in [
            (["--audit-hits"], 64),
            (["--audit-hits=8"], 8),
            (["--paranoid"], 64),
            (["--paranoid=8"], 8),
        ] {
            assert_eq!(audit_hits(&args), expected, "{args:?}");
        }
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
}
