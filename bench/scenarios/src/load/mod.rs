//! `tidemark bench load`: the published load test in a fixed form. Rows are added, read one by
//! one and fetched in bunches of 25, over few and many connections, on one core and on two; then
//! lists and changes at once. All of that several times over, so that each figure is taken again
//! minutes later. Everything that is measured runs as a child of this program, on a fresh copy of
//! one seeded data directory.

mod figure;
mod measured;
mod mix;
mod oha;
mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use measure::connection::{Access, Connection};
use measure::cores::Cores;
use measure::early_end::EarlyEnd;
use measure::live::LiveServer;
use measure::process::{Meter, ProcessNumber};
use measure::record::{WrittenReport, prepare};
use measure::responder::Responder;
use measure::wrk::{READS, Wrk, WrkLoad};
use model::Timestamp;
use serde_json::{Value, json};

use self::figure::Share;
use self::measured::{Blend, Cell, CellPass, Measured};
use self::mix::Mix;
use self::oha::{Aim, Load, Oha};
use super::record::write;
use super::run::Prices;
use super::stage::Stage;
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
/// The paced load asks for no more than this share of what the server has answered in the first
/// pass: a bad minute is to leave no queue behind.
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
    /// How often everything is measured.
    pub passes: u32,
    /// Untimed load before each figure of a pass.
    pub warmup: Duration,
    /// Timed load of each figure, all passes together. The floor has half of it.
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
    /// Whether it is to end early.
    pub stop: EarlyEnd,
}

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// One row is added.
    Add,
    /// One row of 10,000 is read, drawn by chance.
    Read,
    /// 25 rows are fetched as any client would.
    Fetch,
    /// The same, read again each time.
    FetchUncached,
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
            Act::Add => 1_000.0,
            Act::FetchUncached => 500.0,
            Act::Read | Act::Fetch => 5_000.0,
        }
    }

    /// The rate to pace at where the server has answered `per_s`: the usual one, halved until the
    /// server bears it.
    fn pace(self, per_s: f64) -> f64 {
        let mut pace = self.usual_pace();
        while pace > (per_s * PACE_MAX).max(1.0) {
            pace /= 2.0;
        }
        pace
    }
}

/// Measures, and writes report, page and samples.
///
/// # Errors
/// When a generator or a server fails, an answer is wrong, or it is stopped: nothing is reported
/// then.
pub fn run(options: &Options) -> Result<WrittenReport> {
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
    let connections = &options.connections;
    let mut measured = Measured::none(&options.cores, connections, &MIXES);
    for pass in 1..=options.passes {
        let says = |what: &str| eprintln!("pass {pass} of {}: {what} …", options.passes);
        for column in measured.cells.chunks_mut(connections.len()) {
            let (act, cores) = (column[0].act, column[0].cores);
            says(&format!("{}, cores of the server: {cores}", act.title()));
            work.column(act, cores, column)?;
        }
        for blend in &mut measured.blends {
            let reads = blend.reads_percent;
            says(&format!("{reads} lists to {} changes", 100 - reads));
            work.blend(blend)?;
        }
    }
    options.stop.check()?;
    let report = report::Report {
        options,
        oha: &oha.version,
        measured: &measured,
    };
    let (run, text) = (report.run()?, report.render());
    write(&options.out, options.started, &run, text, report.summary())
}

/// Bodies of rows to be added, one a line; each asks for an id of its own.
fn bodies_text() -> String {
    let line = |index: u32| {
        let row = Product::new(index).columns();
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

/// Whom a column asks, and by what.
struct Column<'a> {
    act: Act,
    aim: &'a Aim,
    /// The same requests to the responder.
    still: Aim,
    oha: Oha,
}

impl Work<'_> {
    /// Timed load of the server in one pass.
    fn slice(&self) -> Duration {
        self.options.duration / self.options.passes
    }

    /// One kind of request on a fresh copy, over each number of connections.
    fn column(&self, act: Act, count: usize, cells: &mut [Cell]) -> Result<()> {
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
        let column = Column {
            act,
            still: floor_aim(&aim, &floor),
            aim: &aim,
            oha: self.oha.on(self.all.beside(&cores)),
        };
        for cell in cells {
            let connections = cell.connections;
            let pace = cell.paced.as_ref().map(|paced| paced.per_s);
            let ask = || self.pass(&column, connections, pace);
            // A slice that failed once may be a moment of the machine; the run is forty minutes.
            let pass = ask().or_else(|error| {
                self.options.stop.check()?;
                let title = act.title();
                eprintln!("{title}, {connections} connections: {error:#}; again …");
                ask()
            });
            let failed = || format!("{}, {connections} connections", act.title());
            cell.add(pass.with_context(failed)?);
        }
        drop(floor);
        server.stop()
    }

    /// `pace` is the rate of earlier passes.
    fn pass(&self, column: &Column<'_>, connections: u32, pace: Option<f64>) -> Result<CellPass> {
        let Column {
            act,
            aim,
            still,
            oha,
        } = column;
        let ask = |aim: &Aim, lasting, per_s| {
            let load = Load {
                connections,
                lasting,
                per_s,
            };
            oha.ask(aim, &load, &self.options.stop)
        };
        let (slice, half) = (self.slice(), self.slice() / 2);
        if !self.options.warmup.is_zero() {
            ask(aim, self.options.warmup, None)?;
        }
        let (ours, floor) = (ask(aim, slice, None)?, ask(still, half, None)?);
        let mut beside = Vec::new();
        if *act == Act::Fetch {
            for (name, url) in &self.options.beside {
                let share = ask(&other(url), half, None);
                beside.push(share.with_context(|| format!("beside, {name}"))?);
            }
        }
        let mut seen = CellPass {
            ours,
            floor,
            beside,
            paced: None,
            opinion: None,
        };
        if connections == CONNECTIONS {
            let per_s = pace.unwrap_or_else(|| act.pace(seen.ours.per_s()));
            let ours = ask(aim, slice, Some(per_s))?;
            seen.paced = Some((per_s, ours, ask(still, half, Some(per_s))?));
            // On the same cores as oha. It is beside the point: without it there is a report, too.
            let opinion = self.second_opinion(aim, connections, half, oha.cores());
            seen.opinion = opinion.unwrap_or_else(|error| {
                eprintln!("{}: no second opinion: {error:#}", act.title());
                None
            });
        }
        Ok(seen)
    }

    /// Requests a second as wrk counts them in whole seconds, at least one. `None` when it is not
    /// installed, or cannot ask for what is drawn for each request.
    fn second_opinion(
        &self,
        aim: &Aim,
        connections: u32,
        lasting: Duration,
        cores: &Cores,
    ) -> Result<Option<f64>> {
        if aim.is_pattern || aim.bodies.is_some() {
            return Ok(None);
        }
        let Ok(wrk) = Wrk::find(self.stage.folder()) else {
            return Ok(None);
        };
        let load = WrkLoad {
            script: READS,
            threads: connections.min(cores.count() as u32),
            connections,
            seconds: lasting.as_secs().max(1),
            cores: Some(cores),
        };
        let counted = wrk.run(&aim.url, &aim.headers, &load, &self.options.stop)?;
        Ok(Some(counted.per_s))
    }

    /// With the cache, without, and the responder; each server on a fresh copy and on all cores.
    fn blend(&self, blend: &mut Blend) -> Result<()> {
        let most = self.options.cores.iter().copied().max().unwrap_or(1);
        let cores = self.all.first(most)?;
        let reads_percent = blend.reads_percent;
        let server = self.stage.fresh(&cores, &[])?;
        let ours = &server.access;
        let url = ours.url(&mix::first_list());
        let floor = self.stage.responder(&cores, &url, &ours.headers())?;
        let still = Access {
            address: floor.address,
            ..ours.clone()
        };
        let slice = self.slice();
        let mix =
            |access: &Access, process, lasting| self.mix(reads_percent, access, process, lasting);
        blend.on.add(mix(ours, server.process(), slice)?);
        server.stop()?;
        let server = self.stage.fresh(&cores, &["--list-cache=off"])?;
        blend.off.add(mix(&server.access, server.process(), slice)?);
        server.stop()?;
        blend.floor.add(mix(&still, floor.process(), slice / 2)?);
        Ok(())
    }

    fn mix(
        &self,
        reads_percent: u64,
        access: &Access,
        process: ProcessNumber,
        lasting: Duration,
    ) -> Result<Share> {
        let mix = |lasting| Mix {
            reads_percent,
            connections: CONNECTIONS,
            lasting,
            rows: ROWS,
        };
        self.options.stop.check()?;
        if !self.options.warmup.is_zero() {
            mix::run(access, mix(self.options.warmup), 0)?;
        }
        let meter = Meter::begin(process)?;
        // Alike for each server and in each pass, so that all ask and change the same rows.
        let share = mix::run(access, mix(lasting), 1)?;
        let cost = meter.cost()?;
        Ok(Share {
            cpu_us: Some(cost.cpu_us),
            memory_mib: Some(cost.memory_mib),
            ..share
        })
    }
}

fn rows_url(server: &LiveServer) -> String {
    server.access.url(&table::rows_route())
}

fn row(index: u32) -> String {
    seed::generator::row_id(index)
}

fn bunch() -> String {
    seed::list_route(&[json!({ "method": "limit", "values": [BUNCH] })])
}

fn aim(act: Act, server: &LiveServer, bodies: &Path) -> Aim {
    let mut headers = server.access.headers().to_vec();
    if act == Act::FetchUncached {
        headers.push("X-Tidemark-Cache: bypass".to_owned());
    }
    let url = match act {
        Act::Add => rows_url(server),
        // Exactly the ids of the first 10,000 rows.
        Act::Read => format!("{}/product-0[0-9]{{4}}", rows_url(server)),
        Act::Fetch | Act::FetchUncached => server.access.url(&bunch()),
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

/// What is about to be timed must be the catalog: its first 25 rows, or a row of it.
fn check(server: &LiveServer, act: Act, url: &str) -> Result<()> {
    let access = &server.access;
    let (_, route) = url.split_once("/v1").context("an address of ours")?;
    let mut connection = Connection::open(access.address)?;
    let answer = connection.call(access, "GET", route, "");
    let body: Value = serde_json::from_slice(answer.with_context(|| act.title())?.body)?;
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
        let first: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
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
    fn a_pace_is_the_usual_one_or_halved_until_the_server_bears_it() {
        for (act, per_s, pace) in [
            (Act::Read, 90_000.0, 5_000.0),
            (Act::Read, 10_000.0, 5_000.0),
            (Act::Read, 9_999.0, 2_500.0),
            (Act::Add, 1_999.0, 500.0),
            (Act::Add, 999.0, 250.0),
            (Act::FetchUncached, 3.0, 0.976_562_5),
        ] {
            assert_eq!(Some(act.pace(per_s)), Some(pace), "{act:?} {per_s}");
        }
    }
}
