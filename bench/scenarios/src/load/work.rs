//! What is done in each pass of the load test.

use std::cell::Cell as Count;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use measure::connection::{Access, Connection};
use measure::cores::Cores;
use measure::live::LiveServer;
use measure::process::{Meter, ProcessNumber};
use measure::responder::{Responder, ResponderKind};
use measure::wrk::{READS, Wrk, WrkLoad};
use serde_json::Value;

use super::deployed::{self, DeployedFunctions, FUNCTIONS, check_records, first_execution};
use super::figure::Share;
use super::measured::{Blend, Cell, CellPass, ColumnKey, MeasuredStore};
use super::mix::{self, Mix};
use super::oha::{Aim, Load, Oha};
use super::request_kind::RequestKind;
use super::rows::{ROWS, bunch, check_bunch, check_row};
use super::separated::SeparatedDatabase;
use super::{CONNECTIONS, Options};
use crate::seed::generator::row_id;
use crate::seed::table;
use crate::stage::{SEEDED, Stage};

/// Stores in the database that are not begun again: for reads, and for executions.
const READING: &str = "reading";
const EXECUTING: &str = "executing";

/// The row that the responder repeats.
const COPIED: u32 = 7;

/// What a pass needs.
pub struct Work<'a> {
    pub options: &'a Options,
    pub stage: &'a Stage,
    pub functions: &'a DeployedFunctions<'a>,
    pub database: Option<&'a SeparatedDatabase<'a>>,
    pub oha: Oha,
    pub all: Cores,
    /// The file of rows that are added.
    pub bodies: PathBuf,
}

/// Whom a column asks, and by what.
struct Column<'a> {
    key: ColumnKey,
    aim: &'a Aim,
    /// The same requests to what the server is compared with.
    still: Aim,
    /// The same requests to the lean responder; of reads alone.
    lean: Option<Aim>,
    oha: Oha,
    /// Answers of the server so far that were a success.
    answered: Count<u64>,
}

impl Work<'_> {
    /// Timed load of the server in one pass.
    fn slice(&self) -> Duration {
        self.options.duration / self.options.passes
    }

    /// One kind of request on a fresh copy, over each number of connections. In the database only
    /// rows that are added begin on a fresh one in each pass.
    ///
    /// # Errors
    /// When a server or a generator fails, or an answer is wrong.
    pub fn column(&self, pass: u32, key: ColumnKey, cells: &mut [Cell]) -> Result<()> {
        let kind = key.kind;
        let cores = self.all.first(key.cores)?;
        let (server, taken) = match (key.store, self.database) {
            (MeasuredStore::Database, Some(database)) => (
                self.serve_in(database, pass, key, &cores)?,
                database.cores_with(&cores),
            ),
            _ => (self.serve(kind, &cores)?, cores.clone()),
        };
        let mut aim = self.aim(kind, &server);
        if key.store == MeasuredStore::Database {
            aim.backends = self.database.and_then(|database| database.backends);
        }
        let records = |handler| deployed::records(&server.access, handler);
        let before = kind.function().map(records).transpose()?;
        let (beside, lean) = self.beside(kind, &server, &cores, &aim)?;
        let column = Column {
            key,
            still: aim.of(&beside),
            lean: lean.as_ref().map(|lean| aim.of(lean)),
            aim: &aim,
            oha: self.oha.on(self.all.beside(&taken)),
            answered: Count::new(0),
        };
        for cell in cells {
            let connections = cell.connections;
            let pace = cell.paced.as_ref().map(|paced| paced.per_s);
            let ask = || self.pass(&column, connections, pace);
            // A slice that failed once may be a moment of the machine; the run is forty minutes.
            let pass = ask().or_else(|error| {
                self.options.stop.check()?;
                let title = kind.title();
                eprintln!("{title}, {connections} connections: {error:#}; again …");
                ask()
            });
            let failed = || format!("{}, {connections} connections", kind.title());
            cell.add(pass.with_context(failed)?);
        }
        drop((beside, lean));
        if let Some((handler, before)) = kind.function().zip(before) {
            let answered = column.answered.get();
            let records = check_records(&server.access, handler, answered, before);
            records.with_context(|| kind.title())?;
        }
        server.stop()
    }

    fn serve(&self, kind: RequestKind, cores: &Cores) -> Result<LiveServer> {
        match kind.function() {
            Some(handler) => self.functions.serve(handler, cores, kind.settings()),
            None => self.stage.fresh(cores, kind.settings()),
        }
    }

    fn serve_in(
        &self,
        database: &SeparatedDatabase<'_>,
        pass: u32,
        key: ColumnKey,
        cores: &Cores,
    ) -> Result<LiveServer> {
        let ColumnKey {
            kind, cores: count, ..
        } = key;
        let adding = format!("adding_{pass}_{count}");
        let store = match kind {
            RequestKind::Add => (SEEDED, adding.as_str()),
            _ if kind.function().is_some() => (FUNCTIONS, EXECUTING),
            _ => (SEEDED, READING),
        };
        let server = database.serve(self.stage, store, cores, kind.settings())?;
        if let Some(handler) = kind.function() {
            let mut connection = Connection::open(server.access.address)?;
            first_execution(&server.access, &mut connection, handler)?;
        }
        Ok(server)
    }

    /// What the server is compared with on the same cores: of functions the same handler behind
    /// bare Node, else a responder that repeats an answer. It answers a POST as it answers a GET:
    /// what a client and HTTP cost. Reads are also compared with the lean responder.
    fn beside(
        &self,
        kind: RequestKind,
        server: &LiveServer,
        cores: &Cores,
        aim: &Aim,
    ) -> Result<(Responder, Option<Responder>)> {
        if let Some(handler) = kind.function() {
            let node = self.functions.bare_node(handler, cores, &server.access)?;
            return Ok((node, None));
        }
        let rows = table::rows_route();
        let (route, check): (String, fn(&Value) -> Result<()>) = match kind {
            RequestKind::Add | RequestKind::Read => {
                let row = format!("{rows}/{}", row_id(COPIED));
                (row, |answer| check_row(answer, COPIED))
            }
            _ => (bunch(), check_bunch),
        };
        // What is about to be timed must be the catalog: its first 25 rows, or a row of it.
        let mut connection = Connection::open(server.access.address)?;
        let answer = connection.call(&server.access, "GET", &route, "");
        check(&serde_json::from_slice(
            answer.with_context(|| kind.title())?.body,
        )?)?;
        let url = server.access.url(&route);
        let responder = |kind| self.stage.responder(cores, kind, (&url, &aim.headers));
        let lean = (kind != RequestKind::Add).then(|| responder(ResponderKind::Lean));
        Ok((responder(ResponderKind::Static)?, lean.transpose()?))
    }

    /// `pace` is the rate of earlier passes.
    fn pass(&self, column: &Column<'_>, connections: u32, pace: Option<f64>) -> Result<CellPass> {
        let ColumnKey { kind, store, .. } = column.key;
        let Column {
            aim,
            still,
            lean,
            oha,
            ..
        } = column;
        let ask = |aim: &Aim, lasting, per_s| {
            let load = Load {
                connections,
                lasting,
                per_s,
            };
            oha.ask(aim, &load, &self.options.stop)
        };
        let ask_ours = |lasting, per_s| {
            let share = ask(column.aim, lasting, per_s)?;
            let answered = &column.answered;
            answered.set(answered.get() + share.samples.len() as u64);
            anyhow::Ok(share)
        };
        let (slice, half) = (self.slice(), self.slice() / 2);
        if !self.options.warmup.is_zero() {
            ask_ours(self.options.warmup, None)?;
            // Node compiles what is asked for often, and a responder has nothing to warm up.
            if kind.function().is_some() {
                ask(still, self.options.warmup, None)?;
            }
        }
        let (ours, floor) = (ask_ours(slice, None)?, ask(still, half, None)?);
        let lean = lean
            .as_ref()
            .map(|lean| ask(lean, half, None))
            .transpose()?;
        let mut beside = Vec::new();
        if (kind, store) == (RequestKind::Fetch, MeasuredStore::Directory) {
            for (name, url) in &self.options.beside {
                let share = ask(&other(url), half, None);
                beside.push(share.with_context(|| format!("beside, {name}"))?);
            }
        }
        let mut seen = CellPass {
            ours,
            floor,
            lean,
            beside,
            paced: None,
            opinion: None,
        };
        if connections == CONNECTIONS {
            let per_s = pace.unwrap_or_else(|| kind.pace(seen.ours.per_s()));
            let ours = ask_ours(slice, Some(per_s))?;
            seen.paced = Some((per_s, ours, ask(still, half, Some(per_s))?));
            // On the same cores as oha. It is beside the point: without it there is a report, too.
            let opinion = self.second_opinion(aim, connections, half, oha.cores());
            seen.opinion = opinion.unwrap_or_else(|error| {
                eprintln!(
                    "{}: no second opinion: {}",
                    kind.title(),
                    error.root_cause()
                );
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
    ///
    /// # Errors
    /// When a server or a client fails.
    pub fn blend(&self, blend: &mut Blend) -> Result<()> {
        let most = self.options.cores.iter().copied().max().unwrap_or(1);
        let cores = self.all.first(most)?;
        let reads_percent = blend.reads_percent;
        let server = self.stage.fresh(&cores, &[])?;
        let ours = &server.access;
        let url = ours.url(&mix::first_list());
        let headers = ours.headers();
        let answer = (url.as_str(), headers.as_slice());
        let floor = self
            .stage
            .responder(&cores, ResponderKind::Static, answer)?;
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

    fn aim(&self, kind: RequestKind, server: &LiveServer) -> Aim {
        let mut headers = server.access.headers().to_vec();
        if kind == RequestKind::FetchUncached {
            headers.push("X-Tidemark-Cache: bypass".to_owned());
        }
        let rows = server.access.url(&table::rows_route());
        let (url, bodies) = match kind {
            RequestKind::Add => (rows, Some(self.bodies.clone())),
            // Exactly the ids of the first 10,000 rows.
            RequestKind::Read => (format!("{rows}/product-0[0-9]{{4}}"), None),
            RequestKind::Fetch | RequestKind::FetchUncached => (server.access.url(&bunch()), None),
            RequestKind::Execute(handler) | RequestKind::ExecuteDurably(handler) => {
                let url = server.access.url(&deployed::route(handler));
                (url, Some(self.functions.calls()))
            }
        };
        Aim {
            url,
            is_pattern: kind == RequestKind::Read,
            headers,
            bodies,
            process: Some(server.process()),
            backends: None,
        }
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
        backends: None,
    }
}
