//! `tidemark bench load`: the published load test in a fixed form. Rows are added, read one by
//! one and fetched in bunches of 25, over few and many connections, on one core and on two; then
//! lists and changes at once. Everything that is measured runs as a child of this program, on a
//! fresh copy of one seeded data directory.

mod generator;
mod mix;
mod report;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use hyper::header::HeaderValue;
use model::Timestamp;
use serde_json::{Value, json};

use self::generator::{Aim, Load, Oha, Slice, second_opinion};
use self::mix::{Mix, Mixed};
use super::cores::Cores;
use super::record::{Written, prepare, write};
use super::run::Prices;
use super::stage::{Process, Responder, Server, Stage};
use crate::client::{Access, Client, Endpoint};
use crate::seed::generator::Product;
use crate::seed::{self, table};

/// Rows before the first request, as in the published test.
const ROWS: u32 = 10_000;
/// Bodies that are added, drawn by chance; rows of the catalog behind those that are there.
const BODIES: u32 = 5_000;
/// Rows of a bunch.
const BUNCH: u32 = 25;
/// The connections at which the mixed load and the paced one run, and which the table shows.
pub const CONNECTIONS: u32 = 32;
/// Lists of a hundred requests, in each mix.
const MIXES: [u64; 2] = [90, 50];
/// The paced load asks for no more than this share of what the server has just answered in the
/// slower of two slices: a bad second is to leave no queue behind.
const PACE_MAX: f64 = 0.5;

/// What to measure, and where the report goes.
pub struct Options {
    /// This program.
    pub binary: PathBuf,
    /// The load generator.
    pub oha: PathBuf,
    /// Connections, each a line of its own.
    pub connections: Vec<u32>,
    /// Cores of the server, each a line of its own.
    pub cores: Vec<usize>,
    /// Untimed load before each figure.
    pub warmup: Duration,
    /// Timed load of each figure, in two halves with the floor between them.
    pub duration: Duration,
    /// Whether it is only tried.
    pub is_quick: bool,
    /// Servers to reckon prices with.
    pub prices: Prices,
    /// Other systems that run already: their names, and addresses that answer 25 rows.
    pub beside: Vec<(String, String)>,
    /// Where data directories are made and removed.
    pub scratch: PathBuf,
    /// The folder of reports; created if absent.
    pub out: PathBuf,
    /// When the run began; names the report.
    pub started: Timestamp,
}

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// One row is added.
    Add,
    /// One row of 10,000 is read, drawn by chance.
    Read,
    /// 25 rows are fetched as anybody would.
    Fetch,
    /// The same, read anew each time.
    FetchUncached,
}

/// A figure: two slices of the server with one of the floor between them.
pub struct Cell {
    /// What was asked.
    pub act: Act,
    /// Cores of the server.
    pub cores: usize,
    /// Connections.
    pub connections: u32,
    /// Both slices of the server.
    pub both: Slice,
    /// The rate of the second to that of the first.
    pub again: f64,
    /// The floor between them.
    pub floor: Slice,
    /// The other systems of the run, in its order; of fetching alone.
    pub beside: Vec<Slice>,
    /// At a fixed rate below that.
    pub paced: Option<Paced>,
    /// What wrk says: requests a second.
    pub opinion: Option<f64>,
    /// Most memory of the server so far, in MiB.
    pub memory_mib: f64,
    /// Most memory of the floor so far, in MiB.
    pub floor_mib: f64,
}

/// Requests at a fixed rate, each latency counted from when its request was due: two slices of the
/// server with one of the floor between them.
pub struct Paced {
    /// Requests a second that were due.
    pub per_s: f64,
    /// Both slices of the server.
    pub both: Slice,
    /// The floor between them.
    pub floor: Slice,
}

/// Lists and changes at once, with the list cache and without.
pub struct Blend {
    /// Lists of a hundred requests.
    pub reads_percent: u64,
    /// As anybody starts it, twice.
    pub on: [Turn; 2],
    /// With `--list-cache=off`, twice, in turn with that.
    pub off: [Turn; 2],
    /// The static responder between them, which answers everything with one list.
    pub floor: Turn,
}

/// One server's slice of a blend.
pub struct Turn {
    /// What came of it.
    pub seen: Mixed,
    /// Processor time of the server in microseconds.
    pub cpu_us: f64,
    /// Its most memory in MiB.
    pub memory_mib: f64,
}

/// Everything that was measured.
#[derive(Default)]
pub struct Measured {
    /// Figures.
    pub cells: Vec<Cell>,
    /// Mixes.
    pub blends: Vec<Blend>,
}

impl Act {
    /// All, in the order of the published table.
    pub const ALL: [Act; 4] = [Act::Add, Act::Read, Act::Fetch, Act::FetchUncached];

    /// Its name for programs.
    pub fn key(self) -> &'static str {
        match self {
            Act::Add => "add",
            Act::Read => "read",
            Act::Fetch => "fetch",
            Act::FetchUncached => "fetch_uncached",
        }
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Act::Add => "add one row",
            Act::Read => "read one row",
            Act::Fetch => "fetch 25 rows",
            Act::FetchUncached => "fetch 25 rows, not from the cache",
        }
    }

    /// Requests a second at a fixed rate: the same in every run, so that runs can be compared.
    fn usual_pace(self) -> f64 {
        match self {
            Act::Add | Act::FetchUncached => 1_000.0,
            Act::Read | Act::Fetch => 10_000.0,
        }
    }

    /// The rate to pace at where the server has answered `per_s`: less than usual only where that
    /// is too much, and then 1, 2 or 5 times a power of ten.
    fn pace(self, per_s: f64) -> f64 {
        let most = per_s * PACE_MAX;
        let mut pace = self.usual_pace();
        for divisor in [2.0, 2.5, 2.0].into_iter().cycle() {
            if pace <= most || pace <= 1.0 {
                break;
            }
            pace /= divisor;
        }
        pace
    }
}

/// Measures, and writes report, page and samples.
///
/// # Errors
/// When a generator or a server fails, or an answer is wrong: nothing is reported then.
pub fn run(options: &Options) -> Result<Written> {
    let all = Cores::all()?;
    for count in &options.cores {
        all.first(*count)?;
    }
    prepare(&options.out)?;
    let oha = Oha::find(&options.oha, all.clone())?;
    eprintln!("seeding {ROWS} rows …");
    let stage = Stage::set(&options.binary, &options.scratch, ROWS, &all)?;
    let bodies = stage.folder().join("bodies");
    fs::write(&bodies, bodies_text()).with_context(|| bodies.display().to_string())?;
    let work = Work {
        options,
        stage: &stage,
        oha: oha.on(all.clone()).below(stage.folder()),
        all,
        bodies,
    };
    let mut measured = Measured::default();
    for count in &options.cores {
        for act in Act::ALL {
            eprintln!("{}, cores of the server: {count} …", act.title());
            measured.cells.extend(work.cells(act, *count)?);
        }
    }
    for reads_percent in MIXES {
        eprintln!("{reads_percent} lists to {} changes …", 100 - reads_percent);
        measured.blends.push(work.blend(reads_percent)?);
    }
    let told = report::Report {
        options,
        oha: &oha.version,
        measured: &measured,
    };
    let mut written = write(&options.out, options.started, &told.run()?, &told.render())?;
    written.summary = told.summary();
    Ok(written)
}

/// Bodies of rows to be added, one a line; each asks for an id of its own.
fn bodies_text() -> String {
    let line = |index: u32| {
        let mut row: Value =
            serde_json::from_str(&Product::new(index).json()).expect("a product writes JSON");
        if let Some(columns) = row.as_object_mut() {
            columns.remove("$id");
        }
        format!("{}\n", json!({ "rowId": "unique()", "data": row }))
    };
    let lines: Vec<String> = (ROWS..ROWS + BODIES).map(line).collect();
    lines.concat()
}

struct Work<'a> {
    options: &'a Options,
    stage: &'a Stage,
    oha: Oha,
    all: Cores,
    bodies: PathBuf,
}

impl Work<'_> {
    /// One kind of request on a fresh copy, over each number of connections.
    fn cells(&self, act: Act, count: usize) -> Result<Vec<Cell>> {
        let cores = self.all.first(count)?;
        let server = self.stage.fresh(&cores, &[])?;
        let aim = aim(act, &server, &self.bodies);
        // A responder answers a POST as it answers a GET: what a client and HTTP cost.
        let copied = match act {
            Act::Add | Act::Read => format!("{}/{}", rows_url(&server), row(7)),
            Act::Fetch | Act::FetchUncached => aim.url.clone(),
        };
        check(&server, act, &copied)?;
        let floor = self.stage.responder(&cores, &copied, &aim.headers)?;
        let oha = self.oha.on(self.all.beside(&cores));
        let mut cells = Vec::new();
        for connections in &self.options.connections {
            let subject = (act, &aim, &server);
            let ask = || self.cell(subject, &floor, &oha, *connections);
            // A slice that failed once may be a moment of the machine; the run is forty minutes.
            let cell = ask().or_else(|error| {
                eprintln!(
                    "{}, {connections} connections: {error:#}; again …",
                    act.title()
                );
                ask()
            });
            let cell = cell.with_context(|| format!("{}, {connections} connections", act.title()));
            cells.push(Cell {
                cores: count,
                ..cell?
            });
        }
        drop(floor);
        server.stop()?;
        Ok(cells)
    }

    fn cell(
        &self,
        (act, aim, server): (Act, &Aim, &Server),
        floor: &Responder,
        oha: &Oha,
        connections: u32,
    ) -> Result<Cell> {
        let load = |lasting, per_s| Load {
            connections,
            lasting,
            per_s,
        };
        let half = self.options.duration / 2;
        let ask = |aim: &Aim| oha.ask(aim, &load(half, None));
        let still = floor_aim(aim, floor);
        if !self.options.warmup.is_zero() {
            oha.ask(aim, &load(self.options.warmup, None))?;
        }
        let (first, between) = (ask(aim)?, ask(&still)?);
        let mut beside = Vec::new();
        if act == Act::Fetch {
            for (name, url) in &self.options.beside {
                let slice = ask(&other(url));
                beside.push(slice.with_context(|| format!("beside, {name}"))?);
            }
        }
        let second = ask(aim)?;
        let again = second.per_s() / first.per_s();
        let slower = first.per_s().min(second.per_s());
        let both = first.and(second);
        let is_shown = connections == CONNECTIONS;
        let pace = |per_s| {
            let ask = |aim: &Aim| oha.ask(aim, &load(half, Some(per_s)));
            let (first, floor, second) = (ask(aim)?, ask(&still)?, ask(aim)?);
            let both = first.and(second);
            anyhow::Ok(Paced { per_s, both, floor })
        };
        let paced = is_shown.then(|| pace(act.pace(slower))).transpose()?;
        let opinion = if is_shown {
            // On the same cores as oha. It is beside the point: without it there is a report, too.
            let opinion = second_opinion(aim, &load(half, None), oha.cores());
            opinion.unwrap_or_else(|error| {
                eprintln!("{}: no second opinion: {error:#}", act.title());
                None
            })
        } else {
            None
        };
        Ok(Cell {
            act,
            cores: 0,
            connections,
            both,
            again,
            floor: between,
            beside,
            paced,
            opinion,
            memory_mib: server.process().peak_mib()?,
            floor_mib: floor.process().peak_mib()?,
        })
    }

    /// With the cache, without, the responder, and both again; each server on a fresh copy and on
    /// all cores.
    fn blend(&self, reads_percent: u64) -> Result<Blend> {
        let most = self.options.cores.iter().copied().max().unwrap_or(1);
        let cores = self.all.first(most)?;
        let server = self.stage.fresh(&cores, &[])?;
        let still = access(&server)?;
        let url = format!("http://{}/v1{}", server.address, mix::first_list());
        let floor = self.stage.responder(&cores, &url, &server.headers())?;
        server.stop()?;
        let still = Access {
            endpoint: endpoint(floor.address)?,
            ..still
        };
        let turn = |settings: &[&str]| {
            let server = self.stage.fresh(&cores, settings)?;
            let turn = self.turn(reads_percent, &access(&server)?, server.process())?;
            server.stop()?;
            anyhow::Ok(turn)
        };
        let cache_off = ["--list-cache=off"];
        let first = [turn(&[])?, turn(&cache_off)?];
        let floor = self.turn(reads_percent, &still, floor.process())?;
        let second = [turn(&[])?, turn(&cache_off)?];
        let ([on, off], [on_again, off_again]) = (first, second);
        Ok(Blend {
            reads_percent,
            on: [on, on_again],
            off: [off, off_again],
            floor,
        })
    }

    fn turn(&self, reads_percent: u64, access: &Access, process: Process) -> Result<Turn> {
        let mix = |lasting| Mix {
            reads_percent,
            connections: CONNECTIONS,
            lasting,
            rows: ROWS,
        };
        let runtime = runtime()?;
        if !self.options.warmup.is_zero() {
            runtime.block_on(mix::run(access, mix(self.options.warmup), 0))?;
        }
        let before = process.cpu_us()?;
        // Alike in each turn, so that all ask and change the same rows.
        let seen = runtime.block_on(mix::run(access, mix(self.options.duration / 2), 1))?;
        Ok(Turn {
            seen,
            cpu_us: process.cpu_us()? - before,
            memory_mib: process.peak_mib()?,
        })
    }
}

fn rows_url(server: &Server) -> String {
    format!("http://{}/v1{}", server.address, table::rows_route())
}

fn row(index: u32) -> String {
    seed::generator::row_id(index)
}

fn bunch() -> String {
    seed::list_route(&[json!({ "method": "limit", "values": [BUNCH] })])
}

fn aim(act: Act, server: &Server, bodies: &Path) -> Aim {
    let mut headers = server.headers().to_vec();
    if act == Act::FetchUncached {
        headers.push("X-Tidemark-Cache: bypass".to_owned());
    }
    let url = match act {
        Act::Add => rows_url(server),
        // Exactly the ids of the first 10,000 rows.
        Act::Read => format!("{}/product-0[0-9]{{4}}", rows_url(server)),
        Act::Fetch | Act::FetchUncached => format!("http://{}/v1{}", server.address, bunch()),
    };
    Aim {
        url,
        is_pattern: act == Act::Read,
        headers,
        bodies: (act == Act::Add).then(|| bodies.to_owned()),
        process: Some(server.process()),
    }
}

/// Another system's list, asked as it stands. Which processes it has is not known.
fn other(url: &str) -> Aim {
    Aim {
        url: url.to_owned(),
        is_pattern: false,
        headers: Vec::new(),
        bodies: None,
        process: None,
    }
}

/// The same requests to the responder.
fn floor_aim(aim: &Aim, floor: &Responder) -> Aim {
    let (_, path) = aim
        .url
        .split_at(aim.url.find("/v1").unwrap_or(aim.url.len()));
    Aim {
        url: format!("http://{}{path}", floor.address),
        process: Some(floor.process()),
        ..aim.clone()
    }
}

fn endpoint(address: SocketAddr) -> Result<Endpoint> {
    let endpoint = format!("http://{address}/v1").parse();
    endpoint.map_err(|why: String| anyhow::anyhow!(why))
}

fn access(server: &Server) -> Result<Access> {
    Ok(Access {
        endpoint: endpoint(server.address)?,
        project: HeaderValue::from_str(&server.project)?,
        key: HeaderValue::from_str(&server.key)?,
    })
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().context("no runtime")
}

/// What is about to be timed must be the catalog: its first 25 rows, or a row of it.
fn check(server: &Server, act: Act, url: &str) -> Result<()> {
    let access = access(server)?;
    let (_, route) = url.split_once("/v1").context("an address of ours")?;
    let body = runtime()?.block_on(async {
        let mut client = Client::connect(&access.endpoint).await?;
        let answer = client.call(&access, Method::GET, route, None).await?;
        answer.accepted(act.title())
    })?;
    let rows = match act {
        Act::Add | Act::Read => vec![(body, 7)],
        Act::Fetch | Act::FetchUncached => {
            ensure!(
                body["total"].as_u64() == Some(TOTAL),
                "total: {}",
                body["total"]
            );
            let rows = body["rows"].as_array().cloned().unwrap_or_default();
            ensure!(rows.len() == BUNCH as usize, "{} rows came", rows.len());
            rows.into_iter().zip(0..).collect()
        }
    };
    for (row, index) in rows {
        let difference = seed::difference(&row, &Product::new(index));
        ensure!(difference.is_none(), "row {index}: {difference:?}");
    }
    Ok(())
}

/// The server counts matches up to here by default.
const TOTAL: u64 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_rows_behind_the_seeded_ones_and_no_two_are_alike() {
        let text = bodies_text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), BODIES as usize);
        let first: Value = serde_json::from_str(lines[0]).unwrap();
        assert_eq!(first["rowId"], "unique()");
        let mut row = first["data"].clone();
        assert_eq!(row.as_object().unwrap().len(), table::COLUMNS.len());
        row["$id"] = json!(row_of(ROWS));
        assert_eq!(seed::difference(&row, &Product::new(ROWS)), None);
        let mut distinct = lines.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), lines.len());
    }

    fn row_of(index: u32) -> String {
        row(index)
    }

    #[test]
    fn a_pace_is_the_usual_one_or_a_round_one_that_the_server_bears() {
        for (act, per_s, pace) in [
            (Act::Read, 90_000.0, 10_000),
            (Act::Read, 20_000.0, 10_000),
            (Act::Read, 19_999.0, 5_000),
            (Act::Add, 1_999.0, 500),
            (Act::Add, 999.0, 200),
            (Act::Add, 399.0, 100),
            (Act::Add, 0.3, 1),
        ] {
            assert_eq!(act.pace(per_s) as u32, pace, "{act:?} {per_s}");
        }
    }
}
