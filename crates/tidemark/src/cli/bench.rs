//! `tidemark bench`.

mod bitemporal;
mod hostile;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use clap::builder::RangedI64ValueParser;
use clap::{Args, Subcommand};
use client::{Access, Answer, Client, Endpoint};
use http_body_util::Full;
use hyper::header::{HOST, HeaderName, HeaderValue};
use hyper::{Request, Uri};
use measure::early_end::EarlyEnd;
use measure::record::WrittenReport;
use scenarios::floor::{self, FloorHead};
use scenarios::record;
use scenarios::two_servers::TwoServers;
use scenarios::{Until, compare, gallery, load, prices, ttl};
use server::serve::cores;

use super::connection::with_access;
use super::signals::StopSignals;
use super::{Outside, runtime, say};
use crate::config::{ConnectionArgs, database_url, listen_address, search_path};

/// Each figure of the load test: as the fixed form has it, and for trying it.
const FULL_DURATION_S: u64 = 20;
const FULL_WARMUP_S: u64 = 2;
const FULL_PASSES: u32 = 5;
const QUICK_DURATION: Duration = Duration::from_millis(800);
const QUICK_WARMUP: Duration = Duration::from_millis(200);
const QUICK_PASSES: u32 = 2;
/// Less than this of a figure in one pass measures its own beginning.
const SLICE_MIN: Duration = Duration::from_millis(100);

/// Most timed calls of each phase: each is kept in memory, 32 bytes.
const CALLS_MAX: i64 = 10_000_000;
/// Most slices of a phase; shorter ones measure their own beginnings.
const ROUNDS_MAX: i64 = 10_000;
/// Slices of a phase where no number is given.
const ROUNDS: u32 = 20;
/// Most rows of a catalog that the expected answer is computed over, row by row.
const ROWS_MAX: i64 = 10_000_000;
/// Longest time of a phase: a day.
const DURATION_MAX_S: i64 = 86_400;

/// Measure a server.
#[derive(Subcommand)]
pub enum BenchCommand {
    /// Time the published list query uncached, exact and with ttl, compared with a static responder
    ///
    /// Four phases alternate in slices: the list read each time (X-Tidemark-Cache: bypass), the
    /// list from the exact cache, the list with ttl=300, and the same bytes from a static responder
    /// in this process (the floor: the cost of client, network and HTTP library). Before and after,
    /// every column of the page and the total are compared with an answer computed from the
    /// catalog's definition; a difference ends the run. Writes a folder with a report in Markdown,
    /// a web page, and the samples as JSON.
    #[command(after_help = "Example:
  tidemark serve &
  tidemark seed catalog --rows 10000
  tidemark bench ttl --iterations 20000")]
    Ttl(TtlArgs),
    /// Run the published load test: rows added, read and fetched, functions executed
    ///
    /// Starts this program as server and as static responder, bound to one core and to two, on
    /// copies of one seeded data directory, and loads it with oha over few and many
    /// connections.
    /// Functions in Node and Python are executed next to one bare process of Node with the same
    /// code. Then mixes lists and changes, nine to one and one to one. Writes a folder with a
    /// report in Markdown, a web page, and the samples. Takes about seventy minutes; --quick takes
    /// under two.
    #[command(after_help = "Example:
  cargo install oha --locked
  tidemark bench load --quick")]
    Load(LoadArgs),
    /// Write and read rows on two time axes: the workload that TwiceDB publishes
    ///
    /// Starts this program as server on a new data directory. One client and eight write new
    /// objects one by one and in batches, and read them back: in one query, in batches, one by
    /// one by a unique key and by id. Then rows with many versions are read as they are and as
    /// they were. Reports for each target whether it is met, with the published figures and the
    /// time of a sync in the same minutes. Writes a folder with a report in Markdown, a web page,
    /// and the samples. Takes about ten minutes; --quick takes under two.
    #[command(after_help = "Example:
  tidemark bench bitemporal --quick
  cargo build --release -p store --example bare
  tidemark bench bitemporal --bare target/release/examples/bare")]
    Bitemporal(bitemporal::BitemporalArgs),
    /// Send the most expensive requests that guests may send, and measure the other callers
    ///
    /// Starts this program as server with its defaults on a new data directory, and attacks it
    /// kind by kind: slow expressions, deep queries, unread answers, bodies sent byte by byte,
    /// malformed requests and so on, and the most expensive lists that a search over random
    /// queries finds. Meanwhile single rows are read and written with a key at a fixed rate.
    /// Reports their percentiles compared with those without an attack, the server's memory, and
    /// as findings every answer that is neither a success nor a refusal with a type, with the
    /// request to repeat. Takes about fifteen minutes; --quick takes at most 90 s. Everything
    /// stays on this machine's loopback addresses.
    #[command(after_help = "Example:
  tidemark bench hostile --quick
  tidemark bench hostile --kind regex,nesting --seed 7 --strict")]
    Hostile(hostile::HostileArgs),
    /// Print two runs side by side, with the noise of each
    ///
    /// Prints in how many points the second is faster, slower and the same, and the worst; then
    /// what differs between their machines and parameters, and every series that both have. A
    /// difference within the noise of either run, or of the floor between them, is called the
    /// same. Runs with different parameters or machines are shown and not judged.
    #[command(after_help = "Example:
  tidemark bench compare bench/results/2026-11-21T12-00-00Z-ttl bench/results/2026-11-22T…-ttl")]
    Compare(CompareArgs),
    /// Write the web page of every run in a folder again, and an index of them
    #[command(after_help = "Example:
  tidemark bench gallery bench/results")]
    Gallery(GalleryArgs),
    /// Answer every request with the bytes of one answer: the floor for any HTTP client
    ///
    /// Fetches the URL once, prints `listening on http://ADDRESS:PORT`, and answers until it is
    /// stopped, with as many threads as a server would use.
    #[command(after_help = "Example:
  tidemark bench floor --lean --from http://127.0.0.1:8280/v1/health/version
  wrk -c 32 http://127.0.0.1:PORT/")]
    Floor(FloorArgs),
}

/// The list benchmark.
#[derive(Args)]
pub struct TtlArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Start two servers of this program in place of the one that runs: one on a new data
    /// directory, and one with its store in this PostgreSQL database, in a schema that is left
    /// there. The second has three phases of its own, and processor time is counted
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Timed calls of each phase, of all connections together; the published run has 100000
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    #[arg(allow_negative_numbers = true, value_parser = between::<2, CALLS_MAX>())]
    iterations: u32,
    /// Seconds of each phase, instead of a number of calls
    #[arg(long, value_name = "SECONDS", conflicts_with = "iterations")]
    #[arg(allow_negative_numbers = true, value_parser = between::<1, DURATION_MAX_S>())]
    duration: Option<u32>,
    /// Connections that ask at once, each one call after the other
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        allow_negative_numbers = true
    )]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1_024))]
    concurrency: u16,
    /// Untimed calls of each phase before the first timed one
    #[arg(long, value_name = "N", default_value_t = 200)]
    #[arg(allow_negative_numbers = true, value_parser = between::<0, CALLS_MAX>())]
    warmup: u32,
    /// Slices each phase is cut into, so that a machine that drifts drifts for all phases
    ///
    /// [default: 20, or as many as there are iterations]
    #[arg(long, value_name = "N")]
    #[arg(allow_negative_numbers = true, value_parser = between::<1, ROUNDS_MAX>())]
    rounds: Option<u32>,
    /// Rows the table was seeded with
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(allow_negative_numbers = true, value_parser = between::<1, ROWS_MAX>())]
    rows: u32,
    /// Servers to reckon prices with [default: those of the published load test]
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// The folder for the run's own folder; made if absent
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    out: PathBuf,
}

/// The load test.
#[derive(Args)]
pub struct LoadArgs {
    /// Measure each figure for less than a second, for trying it
    #[arg(long)]
    quick: bool,
    /// Timed seconds of each figure, all passes together [default: 20; with --quick 0.8]
    #[arg(long, value_name = "SECONDS", value_parser = at_least::<1>())]
    duration: Option<u32>,
    /// How often everything is measured: a figure of the report is all passes together, and its
    /// noise is how far they lie apart [default: 5; with --quick 2]
    #[arg(long, value_name = "N", value_parser = at_least::<1>())]
    passes: Option<u32>,
    /// Untimed seconds before each figure of a pass [default: 2; with --quick 0.2]
    #[arg(long, value_name = "SECONDS")]
    warmup: Option<u32>,
    /// Connections, each a line of the report
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "1,32,256"
    )]
    #[arg(value_parser = at_least::<1>())]
    connections: Vec<u32>,
    /// Cores that the server may use, each a line [default: 1 and 2, as far as there are]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = at_least::<1>())]
    cores: Vec<u32>,
    /// Measure servers with their store in this PostgreSQL database, too, each after the same on a
    /// data directory. The database has a core of its own where it runs on this machine and the
    /// URL names the folder of its socket, so that the node has at most all others; schemas are
    /// left there
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Another system that runs already, by an address that answers 25 rows; may be repeated.
    /// Fetching is asked of it in the same rounds, on whatever cores it has, and compared with ours
    /// that does not come from the cache
    #[arg(long, value_name = "NAME=URL", value_parser = named_url)]
    beside: Vec<(String, String)>,
    /// Leave the columns of functions empty, which saves half an hour
    #[arg(long, conflicts_with_all = ["sdk", "python_sdk"])]
    no_functions: bool,
    /// A folder `node_modules` that holds node-appwrite: functions in Node fetch rows by it
    /// [default: by `fetch`]
    #[arg(long, value_name = "FOLDER")]
    sdk: Option<PathBuf>,
    /// A folder that holds the package appwrite, as `pip install --target` fills it: functions in
    /// Python fetch rows by it [default: by urllib]
    #[arg(long, value_name = "FOLDER")]
    python_sdk: Option<PathBuf>,
    /// oha, the load generator: a name to look for, or a file
    #[arg(long, value_name = "FILE", default_value = "oha")]
    oha: PathBuf,
    /// Servers to reckon prices with [default: those of the published load test]
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Where data directories are made and removed: on the disk to be measured
    ///
    /// [default: the folder of this program]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// The folder for the run's own folder; made if absent
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    out: PathBuf,
}

/// Two runs.
#[derive(Args)]
pub struct CompareArgs {
    /// A run's folder, or its run.json
    #[arg(value_name = "A")]
    one: PathBuf,
    /// Another one
    #[arg(value_name = "B")]
    other: PathBuf,
}

/// A folder of runs.
#[derive(Args)]
pub struct GalleryArgs {
    /// Where the runs' folders are
    #[arg(value_name = "DIR", default_value = "bench/results")]
    folder: PathBuf,
}

/// The static responder.
#[derive(Args)]
pub struct FloorArgs {
    /// Where to listen. Port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    #[arg(value_parser = listen_address)]
    listen: SocketAddr,
    /// What to fetch, once
    #[arg(long, value_name = "URL")]
    from: Uri,
    /// A header of that one request, such as 'X-Appwrite-Project: default'; may be repeated
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(HeaderName, HeaderValue)>,
    /// Threads that answer [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    threads: Option<u16>,
    /// Send a short head: of the headers of that answer Content-Type alone
    #[arg(long)]
    lean: bool,
}

/// # Errors
/// When the server cannot be reached, refuses, or answers wrongly.
pub fn run(command: BenchCommand, outside: &Outside) -> Result<()> {
    match command {
        BenchCommand::Ttl(args) => measure(args, outside),
        BenchCommand::Load(args) => load(args, outside),
        BenchCommand::Bitemporal(args) => bitemporal::run(args, outside),
        BenchCommand::Hostile(args) => hostile::run(args, outside),
        BenchCommand::Compare(args) => {
            let [one, other] = [&args.one, &args.other].map(|path| record::read(path));
            say(&compare::compare(&one?, &other?)?)
        }
        BenchCommand::Gallery(args) => draw(&args.folder),
        BenchCommand::Floor(args) => runtime()?.block_on(respond(args)),
    }
}

fn measure(args: TtlArgs, outside: &Outside) -> Result<()> {
    let until = match args.duration {
        Some(seconds) => Until::Elapsed(Duration::from_secs(seconds.into())),
        None => Until::Calls(args.iterations as usize),
    };
    let rounds = match (until, args.rounds) {
        (Until::Calls(_), Some(rounds)) if rounds > args.iterations => {
            bail!("--rounds {rounds} exceeds --iterations {}", args.iterations)
        }
        (_, Some(rounds)) => rounds,
        (Until::Calls(_), None) => ROUNDS.min(args.iterations),
        (Until::Elapsed(_), None) => ROUNDS,
    };
    let prices = prices::read(args.prices.as_deref())?;
    let options = |access: &Access, beside: Option<ttl::SecondServer>| ttl::Options {
        access: access.clone(),
        beside,
        until,
        warmup: args.warmup as usize,
        rounds: rounds as usize,
        connections: args.concurrency.into(),
        rows: args.rows,
        prices: prices.clone(),
        out: args.out.clone(),
        started: outside.clock.now(),
        silent_max: ttl::SILENT_MAX,
    };
    if let Some(url) = bench_database(args.database.clone())? {
        let binary = std::env::current_exe().context("where is this program?")?;
        let folder = binary.parent().context("a file is in a folder")?;
        let servers = TwoServers::start(&binary, folder, &url, args.rows)?;
        let options = options(&servers.access()?, Some(servers.beside()?));
        let written = runtime()?.block_on(ttl::run(&options))?;
        return show_written(&written);
    }
    let lender = ("tidemark bench", &*outside.clock);
    let written = with_access(&args.connection, lender, |access| {
        runtime()?.block_on(ttl::run(&options(access, None)))
    })?;
    show_written(&written)
}

fn load(args: LoadArgs, outside: &Outside) -> Result<()> {
    each_once("--connections", &args.connections)?;
    each_once("--cores", &args.cores)?;
    let binary = std::env::current_exe().context("where is this program?")?;
    let beside = binary.parent().context("a file is in a folder")?.to_owned();
    let seconds = |wanted: Option<u32>, quick: Duration, full: u64| match wanted {
        Some(seconds) => Duration::from_secs(seconds.into()),
        None if args.quick => quick,
        None => Duration::from_secs(full),
    };
    let cores: Vec<usize> = match args.cores.as_slice() {
        [] => (1..=cores().min(2)).collect(),
        wanted => wanted.iter().map(|count| *count as usize).collect(),
    };
    let usual = if args.quick {
        QUICK_PASSES
    } else {
        FULL_PASSES
    };
    let passes = args.passes.unwrap_or(usual);
    let duration = seconds(args.duration, QUICK_DURATION, FULL_DURATION_S);
    if duration / passes < SLICE_MIN {
        bail!(
            "{passes} passes (--passes) leave each of them less than {} ms of the {} s of a \
             figure (--duration)",
            SLICE_MIN.as_millis(),
            duration.as_secs_f64()
        );
    }
    let stop = EarlyEnd::default();
    let options = load::Options {
        stop: stop.clone(),
        passes,
        duration,
        warmup: seconds(args.warmup, QUICK_WARMUP, FULL_WARMUP_S),
        binary,
        oha: args.oha,
        connections: args.connections,
        cores,
        is_quick: args.quick,
        prices: prices::read(args.prices.as_deref())?,
        functions_path: (!args.no_functions).then(search_path),
        sdks: load::SdkFolders {
            node: args.sdk,
            python: args.python_sdk,
        },
        database: bench_database(args.database)?,
        beside: args.beside,
        scratch: args.scratch.unwrap_or(beside),
        out: args.out,
        started: outside.clock.now(),
    };
    show_written(&until_stopped(&stop, || load::run(&options))?)
}

/// Works until it is done or a signal asks for an end: a run of many minutes is to remove its
/// folders then, and its servers are to end with it.
fn until_stopped<T>(stop: &EarlyEnd, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let runtime = runtime()?;
    let mut signals = runtime.block_on(async { StopSignals::take() })?;
    let stopping = stop.clone();
    let listen = move || {
        stopping.ask(runtime.block_on(signals.next()));
        eprintln!("stopping …");
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    thread.spawn(listen).context("cannot start a thread")?;
    // A child that the same signal has reached is no failure of its own.
    work().or_else(|error| stop.check().and(Err(error)))
}

fn show_written(written: &WrittenReport) -> Result<()> {
    let (summary, folder) = (&written.summary, &written.folder);
    let [text, page] = [record::TEXT, record::PAGE].map(|name| folder.join(name));
    say(&format!(
        "{summary}\nReport: {}\nPage: {}\n",
        text.display(),
        page.display()
    ))
}

fn draw(folder: &Path) -> Result<()> {
    let drawn = gallery::draw(folder)?;
    say(&format!(
        "{}: {} pages drawn, {} reports in Markdown\n",
        drawn.path.display(),
        drawn.pages,
        drawn.texts
    ))?;
    for skipped in &drawn.skipped {
        say(&format!("left out: {skipped}\n"))?;
    }
    Ok(())
}

async fn respond(args: FloorArgs) -> Result<()> {
    let mut signals = StopSignals::take()?;
    let answer = fetch(&args.from, args.header).await?;
    let threads = args.threads.map_or_else(cores, usize::from);
    let head = if args.lean {
        FloorHead::Short
    } else {
        FloorHead::Whole
    };
    let address = floor::start(args.listen, &answer, head, threads)
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    say(&format!("listening on http://{address}\n"))?;
    signals.next().await;
    Ok(())
}

async fn fetch(from: &Uri, headers: Vec<(HeaderName, HeaderValue)>) -> Result<Answer> {
    let authority = from.authority().context("--from names no host")?;
    let scheme = from.scheme_str().unwrap_or("http");
    let endpoint: Endpoint = format!("{scheme}://{authority}")
        .parse()
        .map_err(|why| anyhow::anyhow!("--from: {why}"))?;
    let path = from.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::get(path).header(HOST, endpoint.authority());
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let mut client = Client::connect(&endpoint).await?;
    let answer = client.send(request.body(Full::<Bytes>::default())?).await?;
    if !answer.status.is_success() {
        bail!(
            "{from} answers {}; a floor repeats a success",
            answer.status
        );
    }
    Ok(answer)
}

/// # Errors
/// When a number stands twice among those of an option: each is a line of the report.
fn each_once(option: &str, numbers: &[u32]) -> Result<()> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => bail!("{option} names {} twice", twice[0]),
        None => Ok(()),
    }
}

/// A whole number from `MIN` to `MAX`.
fn between<const MIN: i64, const MAX: i64>() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(MIN..=MAX)
}

/// A whole number of at least `MIN`.
fn at_least<const MIN: i64>() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(MIN..)
}

/// A database in which a benchmark makes schemas of its own, where one is named.
///
/// # Errors
/// When it is no URL of a database, or names a schema.
fn bench_database(url: Option<String>) -> Result<Option<String>> {
    if let Some(text) = &url {
        database_url(text)?;
        if text.contains("schema=") {
            bail!("--database names a schema; a benchmark makes its own");
        }
    }
    Ok(url)
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let parts = text.split_once(':').and_then(|(name, value)| {
        let name = name.trim().parse::<HeaderName>().ok()?;
        Some((name, value.trim().parse::<HeaderValue>().ok()?))
    });
    parts.ok_or_else(|| "a header is needed, such as 'X-Appwrite-Project: default'".to_owned())
}

/// `PocketBase=http://127.0.0.1:8090/api/…`
fn named_url(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=');
    let parts = parts.filter(|(name, url)| !name.is_empty() && url.starts_with("http://"));
    let (name, url) = parts.ok_or_else(|| {
        "a name and an address are needed, such as \
        'Other=http://127.0.0.1:8090/list?perPage=25'"
            .to_owned()
    })?;
    Ok((name.to_owned(), url.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_beside_has_a_name_and_an_address_that_may_hold_more_signs() {
        let wanted = ("A".to_owned(), "http://h/?a=b".to_owned());
        assert_eq!(named_url("A=http://h/?a=b"), Ok(wanted));
        for text in ["A", "=http://h", "A=ftp://h", ""] {
            assert!(named_url(text).unwrap_err().contains("perPage"), "{text}");
        }
    }

    #[test]
    fn headers_are_read_at_their_first_colon() {
        let (name, value) = header("X-Time: 12:30").unwrap();
        assert_eq!(
            (name.as_str(), value.to_str().unwrap()),
            ("x-time", "12:30")
        );
        assert!(header("no colon").is_err());
        assert!(header("bad name: x").is_err());
    }
}
