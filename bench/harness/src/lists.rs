//! The uncached list inside this process, beside the bare SQL of the same list.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow};
use engine::{Caller, Clock, Engine, Family, ListRows, Place, View};
use futures_executor::block_on;
use measure::scratch::{Scratch, database_file};
use model::{Actor, DatabaseId, KeyId, Page, ProjectId, Scope, TableId, Timestamp};
use query::Query;
use scenarios::seed::table;
use serde_json::Value;
use store::{Listing, Store, TotalCap};

use crate::bare::{self, Bare};
use crate::expect;
use crate::figure::{Figure, Goal, Round, Slice};
use crate::plan::Plan;

/// As the server counts by default.
pub const TOTAL_CAP: u64 = 5_000;
/// As the issue that asked for these figures states it.
const GOAL: Goal = Goal::AtMost(3.0);
/// Lists before the first timed one, but no longer than a slice; as the bare SQL does.
const WARMUP: usize = 100;
/// Fewer samples have no median worth the name; as many as the bare SQL.
const SAMPLES_MIN: usize = 9;

/// A seeded data directory whose server has ended.
pub struct Seeded<'a> {
    /// The data directory.
    pub directory: &'a Path,
    /// Whether it has the index.
    pub indexed: bool,
    /// The project it was seeded for.
    pub project: &'a str,
}

/// The list by the engine and by the store, with and without total.
///
/// # Errors
/// When rows are wrong, or something cannot be measured.
pub fn figures(
    seeded: &Seeded<'_>,
    bare: &Bare,
    scratch: &Scratch,
    plan: &Plan,
) -> Result<Vec<Figure>> {
    let opened = Opened::new(seeded, scratch)?;
    let mut figures = Vec::new();
    for total in [true, false] {
        let contest = Contest {
            opened: &opened,
            bare,
            total,
            ms: plan.list_ms,
        };
        figures.extend(contest.figures(seeded.indexed, plan.rounds)?);
    }
    opened.close()?;
    Ok(figures)
}

/// The engine and the store, each on a copy of its own: a data directory has one owner.
struct Opened {
    engine: Arc<Engine>,
    caller: Caller,
    /// The query as a client sends it; the engine parses it again for each list.
    texts: [String; 4],
    store: Arc<dyn Store>,
    /// The query as the store takes it.
    query: Query,
    catalogue_epoch: u64,
    config: engine::Config,
    /// Another copy's database file, for the bare SQL.
    database: PathBuf,
}

impl Opened {
    fn new(seeded: &Seeded<'_>, scratch: &Scratch) -> Result<Opened> {
        let copy = |name: &str| scratch.copy(seeded.directory, name);
        // The server's own limits and encoders, with its list cache off.
        let config = engine::Config {
            total_cap: TOTAL_CAP,
            ..server::offline::offline_engine(copy("list-engine")?.into())
        };
        let clock = Arc::new(MachineClock {
            opened: Instant::now(),
        });
        let engine = Engine::open(config.clone(), clock)?;
        let store = store::open(store_options(&config, copy("list-store")?.into()))?;
        let caller = caller(seeded.project)?;
        let (query, catalogue_epoch) = resolve(&*store, &caller, &config)?;
        let database = database_file(&copy("list-bare")?)?;
        let texts = expect::query_texts();
        Ok(Opened {
            engine,
            caller,
            texts,
            store,
            query,
            catalogue_epoch,
            config,
            database,
        })
    }

    fn close(&self) -> Result<()> {
        self.engine.close()?;
        block_on(self.store.close(model::Mark::ZERO))?;
        Ok(())
    }
}

/// How the engine would open a store there.
pub fn store_options(config: &engine::Config, place: store::StorePlace) -> store::Options {
    store::Options {
        place,
        durability: config.durability,
        encode_row: config.encode_row,
        reader_cache_bytes: config.reader_cache_bytes,
        read_limit_ms: config.read_limit_ms,
        long_reads: config.long_reads,
        vfs: None,
    }
}

/// A key of the project, with every scope.
///
/// # Errors
/// When it is no project's id.
pub fn caller(project: &str) -> Result<Caller> {
    let scopes: Arc<[Scope]> = Scope::ALL.into();
    let actor = Actor::Key {
        id: KeyId::new("figures")?,
        scopes,
    };
    Ok(Caller {
        project: ProjectId::new(project)?,
        actor,
        request: None,
        meta: None,
        function: None,
    })
}

/// The published query against the seeded table, as the engine would hand it to the store.
///
/// # Errors
/// When the table is not there.
pub fn resolve(
    store: &dyn Store,
    caller: &Caller,
    config: &engine::Config,
) -> Result<(Query, u64)> {
    let catalogue = block_on(store.load())?.catalogue;
    let (database, name) = (
        DatabaseId::new(table::DATABASE)?,
        TableId::new(table::TABLE)?,
    );
    let project = catalogue
        .project(caller.project.as_str())
        .context("no project")?;
    let database = project.databases.get(&database).context("no database")?;
    let table = database.tables.get(&name).context("no table")?;
    let visibility = query::visibility(table, &caller.actor).context("nothing is visible")?;
    let limits = query::Limits {
        page_rows_default: config.page_rows_default,
        page_rows_max: config.page_rows_max,
    };
    let ast = query::parse(&expect::query_texts()).map_err(|error| anyhow!("{error}"))?;
    let query = query::resolve(&ast, table, visibility, None, &limits);
    Ok((query.map_err(|error| anyhow!("{error}"))?, catalogue.epoch))
}

/// The machine's clocks, which the server gives its engine too.
struct MachineClock {
    opened: Instant,
}

impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Timestamp(since.map_or(0, |since| since.as_micros() as i64))
    }

    fn elapsed_ms(&self) -> u64 {
        self.opened.elapsed().as_millis() as u64
    }
}

/// Who reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Reader {
    Engine,
    Store,
    /// The row's body, as the store reads it.
    Body,
    /// The row's typed columns.
    Columns,
}

/// Each round goes through these and back again, so that both bare readings stand in the
/// middle, and every reader drifts with the machine alike.
const ORDER: [Reader; 4] = [Reader::Engine, Reader::Store, Reader::Columns, Reader::Body];

/// One list, with or without its total, by every reader.
struct Contest<'a> {
    opened: &'a Opened,
    bare: &'a Bare,
    total: bool,
    ms: u64,
}

impl Contest<'_> {
    fn figures(&self, indexed: bool, rounds: u32) -> Result<Vec<Figure>> {
        let rows = self.checked_rows()?;
        let rounds = (0..rounds)
            .map(|_| self.round(&rows))
            .collect::<Result<Vec<_>>>()?;
        let figure = |subject, floor, goal| {
            let turn = |seen: &Seen| seen.turn(subject, floor);
            let who = match subject {
                Reader::Engine => "engine",
                _ => "store",
            };
            let against = if floor == Reader::Body {
                "body"
            } else {
                "columns"
            };
            let total = if self.total { "with total" } else { "no total" };
            let index = if indexed { "index" } else { "no index" };
            Figure {
                key: format!("list_{who}_{against}_{total}_{index}").replace(' ', "_"),
                title: format!("list of 25, uncached, {total}, {index}: {who}"),
                unit: "p50 µs",
                goal,
                floor: match floor {
                    Reader::Columns => "bare SQL of the 15 columns",
                    _ => "bare SQL of the bodies",
                },
                rounds: rounds.iter().map(turn).collect(),
            }
        };
        Ok(vec![
            figure(Reader::Engine, Reader::Body, GOAL),
            figure(Reader::Store, Reader::Body, GOAL),
            figure(Reader::Engine, Reader::Columns, Goal::Reported),
        ])
    }

    fn round(&self, rows: &[u8]) -> Result<Seen> {
        let mut seen = Seen::default();
        for reader in ORDER.iter().chain(ORDER.iter().rev().skip(1)) {
            let slice = match reader {
                Reader::Engine => repeat(self.ms, || self.by_engine().map(|_| ())),
                Reader::Store => repeat(self.ms, || self.by_store().map(|_| ())),
                bare => self.by_bare(*bare, rows),
            };
            seen.slices.entry(*reader).or_default().push(slice?);
        }
        Ok(seen)
    }

    /// The rows of the list, from both readers of ours, equal to what the generator demands.
    fn checked_rows(&self) -> Result<Vec<u8>> {
        let (rows, total) = self.by_engine()?;
        expect::check_rows(&rows, total, "the engine")?;
        let (listed, total) = self.by_store()?;
        let page = Page {
            table: self.opened.query.table.clone(),
            selection: self.opened.query.selection.clone(),
            rows: listed,
            related: Vec::new(),
        };
        let encoded = (self.opened.config.encode_page)(&page, Family::Tables);
        expect::check_rows(&encoded, total, "the store")?;
        Ok(rows.to_vec())
    }

    fn by_engine(&self) -> Result<(Arc<[u8]>, Option<u64>)> {
        let list = ListRows {
            place: Place {
                database: table::DATABASE,
                table: table::TABLE,
            },
            texts: &self.opened.texts,
            total: self.total,
            ttl_s: 0,
            bypass: false,
            family: Family::Tables,
        };
        let answer = block_on(self.opened.engine.list_rows(
            &self.opened.caller,
            &list,
            View::CURRENT,
        ))?;
        Ok((answer.rows, self.total.then_some(answer.total)))
    }

    fn by_store(&self) -> Result<(Vec<model::Row>, Option<u64>)> {
        let listing = Listing {
            query: &self.opened.query,
            rows: true,
            total: self.total.then_some(TotalCap::UpTo(TOTAL_CAP)),
            place: false,
            bytes_max: usize::MAX,
            catalogue_epoch: self.opened.catalogue_epoch,
            of_guest: false,
            shows_damaged: false,
        };
        let listed = block_on(self.opened.store.list(listing))?.answer;
        Ok((listed.rows, self.total.then_some(listed.total)))
    }

    fn by_bare(&self, reader: Reader, rows: &[u8]) -> Result<Slice> {
        let database = self.opened.database.display().to_string();
        let ms = self.ms.to_string();
        let mut arguments = vec!["list", "--seeded", &database, "--ms", &ms];
        if self.total {
            arguments.push("--total");
        }
        if reader == Reader::Columns {
            arguments.push("--columns");
        }
        let printed: Value = self.bare.run(&arguments)?;
        expect::check_bare(&printed, rows)?;
        Ok(Slice::of_latencies(bare::samples(&printed, "samples_ns")?))
    }
}

/// The latencies of a read that is repeated for so long.
///
/// # Errors
/// Those of `read`.
pub fn repeat(ms: u64, read: impl Fn() -> Result<()>) -> Result<Slice> {
    let slice = Duration::from_millis(ms);
    let begun = Instant::now();
    for _ in 0..WARMUP {
        read()?;
        if begun.elapsed() > slice {
            break;
        }
    }
    let mut samples_ns = Vec::new();
    let begun = Instant::now();
    while samples_ns.len() < SAMPLES_MIN || begun.elapsed() < slice {
        let start = Instant::now();
        read()?;
        samples_ns.push(start.elapsed().as_nanos() as u64);
    }
    Ok(Slice::of_latencies(samples_ns))
}

/// What every reader took in one round.
#[derive(Default)]
struct Seen {
    slices: HashMap<Reader, Vec<Slice>>,
}

impl Seen {
    fn turn(&self, subject: Reader, floor: Reader) -> Round {
        let of = |reader| self.slices[&reader].as_slice();
        Round {
            first: of(subject)[0].clone(),
            floor: of(floor).first().cloned(),
            second: of(subject).get(1).cloned(),
        }
    }
}
