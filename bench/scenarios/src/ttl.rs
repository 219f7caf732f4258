//! `tidemark bench ttl`: the published workload through the built-in client.
//!
//! Five phases take turns in slices: the list read again each time, the list as it is (which a
//! server may keep as long as it is exact), the list with `ttl`, the same bytes from a static
//! responder in this process, and the same body from a lean one. Turns, so that a machine that
//! drifts drifts for all.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use client::{Access, Answer, Client, Endpoint};
use hyper::header::HeaderValue;
use hyper::{Method, Request};
use indicatif::{ProgressBar, ProgressStyle};
use measure::costs::Costs;
use measure::machine;
use measure::record::{WrittenReport, prepare};
use model::Timestamp;
use model::calendar::iso_ms;
use serde_json::{Value, json};

use super::answer::{self, Expected};
use super::floor::{self, FloorHead};
use super::phase::{self, Phase, Until};
use super::record::write;
use super::report::{OWN_PHASES, Report, render};
use super::run::{Prices, Role};
use crate::seed::table;

/// The `ttl` of the third phase, in seconds, as published.
pub const TTL_S: u32 = 300;
/// Pools of connections, by position: to the server, and to both responders.
const SERVER: usize = 0;
const FLOOR: usize = 1;
const LEAN: usize = 2;
/// To the second server, where there is one.
const DATABASE: usize = 3;
/// How the wait of a phase that ends by time is drawn: in steps of a tenth of a second.
const DRAWN_PER_S: f64 = 10.0;
/// A server that answers nothing for so long is taken for one that never will; the published list
/// takes milliseconds.
pub const SILENT_MAX: Duration = Duration::from_secs(30);

/// What to measure, and where the report goes.
#[derive(Clone)]
pub struct Options {
    /// The server.
    pub access: Access,
    /// A second one, whose store is in PostgreSQL.
    pub beside: Option<SecondServer>,
    /// How much of each phase is timed.
    pub until: Until,
    /// Untimed calls of each phase before the first timed one.
    pub warmup: usize,
    /// How many slices each phase is cut into.
    pub rounds: usize,
    /// Connections that ask at once, each one call after the other.
    pub connections: usize,
    /// Rows of the catalog the table was seeded with.
    pub rows: u32,
    /// Servers to reckon prices with.
    pub prices: Prices,
    /// The folder of reports; created if absent.
    pub out: PathBuf,
    /// When the run began; names the report.
    pub started: Timestamp,
    /// How long no answer may come before the run is given up.
    pub silent_max: Duration,
}

/// A second server of the same catalog.
#[derive(Clone)]
pub struct SecondServer {
    /// Where it answers.
    pub access: Access,
    /// What the first server costs, and this one.
    pub costs: [Costs; 2],
}

/// Checks the servers' answers, measures, checks again, writes report, page and raw samples.
///
/// # Errors
/// When the server cannot be reached or refuses, when an answer is not the one the generator
/// demands, when none comes for [`Options::silent_max`], or when the report cannot be written.
pub async fn run(options: &Options) -> Result<WrittenReport> {
    prepare(&options.out)?;
    let expected = Expected::over(options.rows);
    let silent_max = options.silent_max;
    let (endpoint, access) = (&options.access.endpoint, &options.access);
    let mut server = soon(silent_max, Client::connect(endpoint)).await?;
    let subject = soon(silent_max, Subject::ask(&mut server, access)).await?;
    expected.check(&subject.plain.body, "the server")?;
    // One thread serves one connection as fast as many would; more may need all cores.
    let threads = options.connections.min(server::serve::cores());
    let responder = |head| {
        let at = floor::start(([127, 0, 0, 1], 0).into(), &subject.plain, head, threads);
        at.map(|at| endpoint.at(at))
            .context("a static responder cannot start")
    };
    let floors = [responder(FloorHead::Whole)?, responder(FloorHead::Short)?];
    let mut pools = vec![
        soon(silent_max, pool(endpoint, options.connections)).await?,
        soon(silent_max, pool(&floors[0], options.connections)).await?,
        soon(silent_max, pool(&floors[1], options.connections)).await?,
    ];
    let mut phases: Vec<Phase> = phases(access, &floors)?.into();
    if let Some(beside) = &options.beside {
        let endpoint = &beside.access.endpoint;
        pools.push(soon(silent_max, pool(endpoint, options.connections)).await?);
        phases.extend(database_phases(&beside.access)?);
    }
    for phase in &mut phases {
        let client = first(&mut pools[phase.pool_idx]);
        let answer = soon(silent_max, phase.ask(client)).await?;
        expected.check(&answer.body, "the server")?;
    }
    // The check has filled the cache; the phase with ttl begins with an empty one, as published.
    soon(silent_max, purge(first(&mut pools[SERVER]), access)).await?;
    if let Some(beside) = &options.beside {
        let client = first(&mut pools[DATABASE]);
        soon(silent_max, purge(client, &beside.access)).await?;
    }
    measure(&mut phases, &mut pools, options).await?;
    for phase in &phases {
        expected.check(
            phase.last_body(),
            &format!("{} (after timing)", phase.title),
        )?;
    }
    let (own, further) = phases.split_at(OWN_PHASES);
    let own: &[Phase; OWN_PHASES] = own.try_into().context("phases are missing")?;
    let report = Report {
        parameters: parameters(options, &subject, own),
        machine: machine::facts(),
        prices: options.prices.clone(),
        connections: options.connections as u32,
        phases: own,
        further,
    };
    let text = render(&report)?;
    let (run, summary) = (report.run()?, report.summary()?);
    write(&options.out, options.started, &run, text, summary)
}

/// Waits for what a server is asked, and no longer than so.
async fn soon<T>(limit: Duration, request: impl Future<Output = Result<T>>) -> Result<T> {
    let answered = tokio::time::timeout(limit, request).await;
    answered.map_err(|_| phase::silent("the server", limit))?
}

async fn pool(endpoint: &Endpoint, connections: usize) -> Result<Vec<Client>> {
    let mut clients = Vec::with_capacity(connections);
    for _ in 0..connections {
        clients.push(Client::connect(endpoint).await?);
    }
    Ok(clients)
}

fn first(pool: &mut [Client]) -> &mut Client {
    pool.first_mut()
        .expect("the command line demands a connection")
}

fn phases(access: &Access, floors: &[Endpoint; 2]) -> Result<[Phase; OWN_PHASES]> {
    let [floor, lean] = floors.each_ref().map(|floor| Access {
        endpoint: floor.clone(),
        ..access.clone()
    });
    let list = |access: &Access, ttl_s| access.request(Method::GET, &answer::route(ttl_s), None);
    let ttl = format!("ttl {TTL_S}");
    Ok([
        Phase::new(
            ("uncached", "no cache", Role::Reference),
            SERVER,
            bypassing(list(access, None)?),
        ),
        Phase::new(
            ("exact", "exact", Role::Subject),
            SERVER,
            list(access, None)?,
        ),
        Phase::new(
            ("ttl", &ttl, Role::Other),
            SERVER,
            list(access, Some(TTL_S))?,
        ),
        Phase::new(("floor", "floor", Role::Floor), FLOOR, list(&floor, None)?),
        Phase::new(
            ("lean", "lean floor", Role::Floor),
            LEAN,
            list(&lean, None)?,
        ),
    ])
}

/// The first three phases once more, by the second server.
fn database_phases(access: &Access) -> Result<[Phase; 3]> {
    let list = |ttl_s| access.request(Method::GET, &answer::route(ttl_s), None);
    let phase = |name, title: &str, request| {
        let title = format!("{title}, on PostgreSQL");
        Phase::new((name, &title, Role::Other), DATABASE, request)
    };
    Ok([
        phase("uncached_postgres", "no cache", bypassing(list(None)?)),
        phase("exact_postgres", "exact", list(None)?),
        phase("ttl_postgres", &format!("ttl {TTL_S}"), list(Some(TTL_S))?),
    ])
}

/// The same, to be read and not taken from a cache. A server that keeps no list without `ttl`
/// does not know the header and needs none.
fn bypassing<B>(mut request: Request<B>) -> Request<B> {
    let headers = request.headers_mut();
    headers.insert("x-tidemark-cache", HeaderValue::from_static("bypass"));
    request
}

async fn purge(client: &mut Client, access: &Access) -> Result<()> {
    let body = Some(json!({ "purge": true }).to_string());
    let answer = client
        .call(access, Method::PUT, &table::table_route(), body)
        .await?;
    answer
        .accepted("emptying the table's cached lists")
        .map(|_| ())
}

async fn measure(phases: &mut [Phase], pools: &mut [Vec<Client>], options: &Options) -> Result<()> {
    for phase in &mut *phases {
        let pool = &mut pools[phase.pool_idx];
        for call in 0..options.warmup {
            let connection = call % pool.len();
            soon(options.silent_max, phase.ask(&mut pool[connection])).await?;
        }
    }
    let bar = progress(options, phases.len());
    let origin = Instant::now();
    for round in 0..options.rounds {
        let (until, drawn) = slice(options, round);
        let count = phases.len();
        for turn in 0..count {
            // Another one begins in each round, so that none always follows the same one.
            let phase = &mut phases[(round + turn) % count];
            let costs = options.beside.as_ref().and_then(|beside| {
                let [own, other] = &beside.costs;
                match phase.pool_idx {
                    SERVER => Some(own),
                    DATABASE => Some(other),
                    _ => None,
                }
            });
            let meter = costs.map(Costs::begin).transpose()?;
            let pool = &mut pools[phase.pool_idx];
            let silent_max = options.silent_max;
            phase.measure(pool, until, origin, silent_max).await?;
            if let Some(meter) = meter {
                let before = phase.spent.unwrap_or_default();
                phase.spent = Some(before.and(meter.spent()?));
            }
            bar.inc(drawn);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// The part of a phase that falls into a round, and how far the bar moves for it.
fn slice(options: &Options, round: usize) -> (Until, u64) {
    match options.until {
        Until::Calls(calls) => {
            let before = |round: usize| round * calls / options.rounds;
            let count = before(round + 1) - before(round);
            (Until::Calls(count), count as u64)
        }
        Until::Elapsed(whole) => {
            let part = whole / options.rounds as u32;
            (Until::Elapsed(part), drawn(part))
        }
    }
}

fn drawn(time: Duration) -> u64 {
    (time.as_secs_f64() * DRAWN_PER_S).round() as u64
}

fn progress(options: &Options, phases: usize) -> ProgressBar {
    let steps = match options.until {
        Until::Calls(calls) => calls as u64,
        Until::Elapsed(whole) => drawn(whole),
    };
    let style = ProgressStyle::with_template("{bar:30} {percent} %, {eta} left")
        .expect("the template is constant");
    ProgressBar::new(steps * phases as u64).with_style(style)
}

/// What the report says of the server under measurement.
struct Subject {
    /// The plain list, as the static responder will repeat it.
    plain: Answer,
    version: String,
    indexed: bool,
}

impl Subject {
    async fn ask(client: &mut Client, access: &Access) -> Result<Subject> {
        let version = client
            .call(access, Method::GET, "/health/version", None)
            .await?;
        let version = version.accepted("asking for the server's version");
        let version = version
            .ok()
            .and_then(|body| body["version"].as_str().map(str::to_owned));
        let plain = client
            .call(access, Method::GET, &answer::route(None), None)
            .await?;
        plain.accepted("reading the list; `tidemark seed catalog` makes its table")?;
        let table = client
            .call(access, Method::GET, &table::table_route(), None)
            .await?;
        let table = table.accepted("reading the table's definition")?;
        let mut indexes = table["indexes"].as_array().into_iter().flatten();
        let has_index = indexes.any(|index| index["key"] == table::INDEX);
        Ok(Subject {
            plain,
            version: version.unwrap_or_else(|| "unknown".into()),
            indexed: has_index,
        })
    }
}

fn parameters(
    options: &Options,
    subject: &Subject,
    phases: &[Phase; OWN_PHASES],
) -> Vec<(&'static str, Value)> {
    let header = subject
        .plain
        .headers
        .get("server")
        .and_then(|name| name.to_str().ok());
    let length = match options.until {
        Until::Calls(calls) => ("iterations", json!(calls)),
        Until::Elapsed(whole) => ("duration_s", json!(whole.as_secs_f64())),
    };
    let [_, exact, ttl, _, _] = phases;
    let own = std::env::current_exe().unwrap_or_default();
    let mut pairs = vec![
        ("started", json!(iso_ms(options.started))),
        (
            "client",
            json!("built in, connections kept alive, answers read but not parsed"),
        ),
        ("binary", json!(machine::binary())),
        ("endpoint", json!(options.access.endpoint.to_string())),
        ("server", json!(header.unwrap_or("not sent"))),
        ("server_version", json!(subject.version)),
        length,
        ("connections", json!(options.connections)),
        ("rounds", json!(options.rounds)),
        ("warmup", json!(options.warmup)),
        ("rows", json!(options.rows)),
        ("index", json!(subject.indexed)),
        ("ttl_s", json!(TTL_S)),
        ("body_bytes", json!(subject.plain.body.len())),
        ("exact_hits", json!(exact.hits)),
        ("exact_misses", json!(exact.misses)),
        ("ttl_hits", json!(ttl.hits)),
        ("ttl_misses", json!(ttl.misses)),
        (
            "floor",
            json!("hyper, in the client's process, the same bytes and headers"),
        ),
        (
            "lean_floor",
            json!("hyper, in the client's process, the same body and a short head"),
        ),
    ];
    pairs.extend(machine::identity(&own));
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(until: Until, rounds: usize) -> Options {
        let endpoint = "http://127.0.0.1:1/v1".parse().unwrap();
        Options {
            access: Access {
                endpoint,
                project: HeaderValue::from_static("p"),
                key: HeaderValue::from_static("k"),
            },
            beside: None,
            until,
            warmup: 0,
            rounds,
            connections: 1,
            rows: 1,
            prices: super::super::prices::read(None).unwrap(),
            out: PathBuf::new(),
            started: Timestamp(0),
            silent_max: Duration::from_millis(50),
        }
    }

    /// A server that accepts and says nothing.
    fn silent_server() -> (std::net::TcpListener, Endpoint) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let endpoint = format!("http://{address}/v1").parse().unwrap();
        (listener, endpoint)
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    }

    #[test]
    fn a_server_that_says_nothing_ends_the_run() {
        let (_listener, endpoint) = silent_server();
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(Until::Calls(1), 1);
        options.access.endpoint = endpoint;
        options.out = folder.path().to_owned();
        let error = runtime().block_on(run(&options)).unwrap_err().to_string();
        assert!(error.contains("no answer came for 50 ms"), "{error}");
    }

    #[test]
    fn a_server_that_falls_silent_while_it_is_measured_ends_the_run() {
        let (_listener, endpoint) = silent_server();
        let options = options(Until::Calls(1), 1);
        let error = runtime().block_on(async {
            let mut clients = pool(&endpoint, 2).await.unwrap();
            let [mut phase, ..] = phases(&options.access, &[endpoint.clone(), endpoint]).unwrap();
            let limit = options.silent_max;
            let measured = phase.measure(&mut clients, Until::Calls(9), Instant::now(), limit);
            measured.await.unwrap_err().to_string()
        });
        assert_eq!(error, "no cache: no answer came for 50 ms");
    }

    #[test]
    fn slices_add_up_to_the_whole() {
        let calls = options(Until::Calls(10), 3);
        let slices: Vec<Until> = (0..3).map(|round| slice(&calls, round).0).collect();
        assert_eq!(slices, [3, 3, 4].map(Until::Calls));
        let timed = options(Until::Elapsed(Duration::from_secs(6)), 4);
        let wanted = (Until::Elapsed(Duration::from_millis(1_500)), 15);
        assert_eq!(slice(&timed, 3), wanted);
    }
}
