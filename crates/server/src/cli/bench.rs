//! `tidemark bench`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use clap::builder::RangedI64ValueParser;
use clap::{Args, Subcommand};
use http_body_util::Full;
use hyper::header::{HOST, HeaderName, HeaderValue};
use hyper::{Request, Uri};

use super::signals::StopSignals;
use super::{Outside, runtime, say};
use crate::bench::{floor, ttl};
use crate::client::{Answer, Client, Endpoint};
use crate::config::{ConnectionArgs, cores, listen_address};

/// Measure a server.
#[derive(Subcommand)]
pub enum BenchCommand {
    /// Time the published list query with and without ttl, beside a static responder
    ///
    /// Three phases take turns in slices: the list without ttl, with ttl=300, and the same bytes
    /// from a static responder in this process (the floor: what client, network and HTTP library
    /// cost by themselves). Before and after, every column of the page and the total are compared
    /// with an answer computed from the catalog's definition; a difference ends the run. Writes
    /// a report in Markdown and every sample as JSON.
    #[command(after_help = "Example:
  export APPWRITE_ENDPOINT=http://127.0.0.1:8280/v1 APPWRITE_PROJECT_ID=… APPWRITE_API_KEY=…
  tidemark seed catalog --rows 10000
  tidemark bench ttl --iterations 20000")]
    Ttl(TtlArgs),
    /// Answer every request with the bytes of one answer: the floor for any HTTP client
    ///
    /// Fetches the URL once, prints `listening on http://ADDRESS:PORT`, and answers until it is
    /// stopped, with as many threads as a server would use.
    #[command(after_help = "Example:
  tidemark bench floor --from http://127.0.0.1:8280/v1/health/version
  wrk -c 32 http://127.0.0.1:PORT/")]
    Floor(FloorArgs),
}

/// The list benchmark.
#[derive(Args)]
pub struct TtlArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Timed calls of each phase; the published run has 100000
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = at_least::<2>())]
    iterations: u32,
    /// Untimed calls of each phase before the first timed one
    #[arg(long, value_name = "N", default_value_t = 200)]
    warmup: u32,
    /// Slices each phase is cut into, so that a machine that drifts drifts for all phases
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = at_least::<1>())]
    rounds: u32,
    /// Rows the table was seeded with
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = at_least::<1>())]
    rows: u32,
    /// The folder for the report; made if absent
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    out: PathBuf,
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
}

/// # Errors
/// When the server cannot be reached, refuses, or answers wrongly.
pub fn run(command: BenchCommand, outside: &Outside) -> Result<()> {
    match command {
        BenchCommand::Ttl(args) => measure(args, outside),
        BenchCommand::Floor(args) => runtime()?.block_on(respond(args)),
    }
}

fn measure(args: TtlArgs, outside: &Outside) -> Result<()> {
    if args.rounds > args.iterations {
        bail!(
            "--rounds {} exceeds --iterations {}",
            args.rounds,
            args.iterations
        );
    }
    let options = ttl::Options {
        access: args.connection.check()?,
        iterations: args.iterations as usize,
        warmup: args.warmup as usize,
        rounds: args.rounds as usize,
        rows: args.rows,
        out: args.out,
        started: outside.clock.now(),
    };
    let written = runtime()?.block_on(ttl::run(&options))?;
    say(&format!(
        "{}\nReport: {}\n",
        written.summary,
        written.path.display()
    ))
}

async fn respond(args: FloorArgs) -> Result<()> {
    let mut signals = StopSignals::take()?;
    let answer = fetch(&args.from, args.header).await?;
    let threads = args.threads.map_or_else(cores, usize::from);
    let address = floor::start(args.listen, &answer, threads)
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

/// A whole number of at least `MIN`.
fn at_least<const MIN: i64>() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(MIN..)
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let parts = text.split_once(':').and_then(|(name, value)| {
        let name = name.trim().parse::<HeaderName>().ok()?;
        Some((name, value.trim().parse::<HeaderValue>().ok()?))
    });
    parts.ok_or_else(|| "a header is needed, such as 'X-Appwrite-Project: default'".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

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
