//! `tidemark bench bitemporal`: the workload that TwiceDB publishes, over HTTP.
//!
//! New objects are written one by one and in batches, and read back in one query, in batches, one
//! by one by a unique key and by their ids, by one client and by several. Then rows with many
//! versions are read as they are and as they were. Beside it, in turns, the same by hand-written
//! statements without a server (`crates/store/examples/bare`), and the time of a sync.

mod bare;
mod change;
mod deep;
mod drive;
mod figure;
mod filled;
mod inside;
mod objects;
mod published;
mod report;
mod target;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use engine::Clock;
use indicatif::{ProgressBar, ProgressStyle};
use measure::awake::Awake;
use measure::connection::Connection;
use measure::cores::Cores;
use measure::disk;
use measure::early_end::EarlyEnd;
use measure::live::LiveServer;
use measure::percentile::median;
use measure::record::{WrittenReport, prepare};
use measure::tasks::TaskChild;
use model::Timestamp;

use self::change::Change;
use self::deep::Deep;
use self::drive::{Driven, drive};
use self::figure::Tally;
use self::objects::{Op, Set};
use super::record::write;
use super::stage::Stage;

/// Syncs that are timed beside each run.
const SYNCS: usize = 20;
/// What the data directory of the published workload, or its schema, is called.
const OBJECTS: &str = "objects";
/// Clients of a run have numbers below this.
pub const CLIENTS_MAX: u32 = 64;

/// What to measure, and where the report goes.
pub struct Options {
    /// This program.
    pub binary: PathBuf,
    /// New objects of each client in each run.
    pub objects: u32,
    /// Timed runs.
    pub runs: u32,
    /// Untimed runs before them.
    pub warmups: u32,
    /// Clients at once, each a table of its own.
    pub clients: Vec<u32>,
    /// Rows that have many versions.
    pub rows: u32,
    /// Versions of each of them.
    pub versions: u32,
    /// Whether it is only tried.
    pub is_quick: bool,
    /// The same by hand-written statements, where it is built.
    pub bare: Option<PathBuf>,
    /// A database for a second store, by its URL without a schema; measured in turns with the one
    /// in a data directory.
    pub database: Option<String>,
    /// Where data directories are made and removed.
    pub scratch: PathBuf,
    /// The folder of reports; created if absent.
    pub out: PathBuf,
    /// When the run began; names the report.
    pub started: Timestamp,
    /// For the engine that is opened in this process.
    pub clock: Arc<dyn Clock>,
    /// Whether it is to end early.
    pub stop: EarlyEnd,
}

/// Everything that was measured.
#[derive(Default)]
pub struct Measured {
    /// With the store in a data directory.
    pub directory: StoreSide,
    /// With the store in a database of a server, where one was named.
    pub database: Option<StoreSide>,
    /// The file system of the scratch folder.
    pub file_system: String,
    /// Whether loops kept the cores awake while one client asked.
    pub is_kept_awake: bool,
    /// What keeping history costs a change.
    pub change: Change,
}

/// What was measured with the store in one place.
#[derive(Default)]
pub struct StoreSide {
    /// What the hand-written statements run on, where there are any.
    pub bare: Option<String>,
    /// The published workload, for each number of clients.
    pub crowds: Vec<Crowd>,
    /// Rows with many versions.
    pub deep: Deep,
}

/// So many clients at once.
pub struct Crowd {
    /// How many.
    pub clients: u32,
    /// Over HTTP, in the order of [`Op::ALL`].
    pub ours: Vec<Tally>,
    /// By hand-written statements, in the same order; nothing where they were not asked.
    pub bare: Vec<Tally>,
    /// Times of syncs beside these runs.
    pub syncs: Vec<Duration>,
}

impl Crowd {
    fn new(clients: u32) -> Crowd {
        let tallies = || Op::ALL.map(|_| Tally::default()).to_vec();
        Crowd {
            clients,
            ours: tallies(),
            bare: tallies(),
            syncs: Vec::new(),
        }
    }

    /// The operation's place in both lists.
    pub fn of(&self, op: Op) -> (&Tally, &Tally) {
        let place = Op::ALL.iter().position(|known| *known == op);
        let place = place.expect("every operation stands in the list");
        (&self.ours[place], &self.bare[place])
    }

    /// The median time of a sync.
    pub fn sync(&self) -> Option<Duration> {
        median(self.syncs.iter().copied())
    }
}

/// What works on one side.
struct RunningSide<'a> {
    database: Option<&'a str>,
    bare: Option<TaskChild>,
    side: StoreSide,
}

impl<'a> RunningSide<'a> {
    fn begin(
        options: &Options,
        stage: &Stage,
        database: Option<&'a str>,
    ) -> Result<RunningSide<'a>> {
        let bare = options.bare.as_ref();
        let bare = bare.map(|program| bare::start(program, stage.folder(), database));
        let bare = bare.transpose()?;
        let side = StoreSide {
            bare: bare.as_ref().map(|bare| bare.name.clone()),
            crowds: options.clients.iter().copied().map(Crowd::new).collect(),
            deep: Deep::default(),
        };
        Ok(RunningSide {
            database,
            bare,
            side,
        })
    }
}

/// Measures, and writes report, page and samples.
///
/// # Errors
/// When a server fails, an answer is wrong, or it is stopped: nothing is reported then.
pub fn run(options: &Options) -> Result<WrittenReport> {
    prepare(&options.out)?;
    let stage = Stage::empty(&options.binary, &options.scratch)?;
    let mut sides = vec![RunningSide::begin(options, &stage, None)?];
    if let Some(url) = &options.database {
        sides.push(RunningSide::begin(options, &stage, Some(url))?);
    }
    let file_system = disk::file_system(stage.folder());
    let is_kept_awake = Awake::begin().is_ok();
    eprintln!(
        "{} new objects a client, {} runs after {} untimed ones …",
        options.objects, options.runs, options.warmups
    );
    crowds(options, &stage, &mut sides)?;
    for running in &mut sides {
        options.stop.check()?;
        let bare = running.bare.as_mut();
        running.side.deep = deep::measure(options, &stage, running.database, bare)?;
    }
    options.stop.check()?;
    let mut sides = sides.into_iter().map(|running| running.side);
    let measured = Measured {
        directory: sides.next().unwrap_or_default(),
        database: sides.next(),
        file_system,
        is_kept_awake,
        change: change::measure(options, &stage)?,
    };
    options.stop.check()?;
    if measured.database.is_some() {
        let schemas = [OBJECTS, deep::SCHEMA].map(Stage::schema).join(" and ");
        eprintln!("The schemas {schemas} are left in the database.");
    }
    let report = report::Report {
        options,
        measured: &measured,
    };
    let (run, text) = (report.run()?, report.render());
    write(&options.out, options.started, &run, text, report.summary())
}

/// The published workload, all sides and numbers of clients in turns.
fn crowds(options: &Options, stage: &Stage, sides: &mut [RunningSide<'_>]) -> Result<()> {
    let mut servers = Vec::new();
    for running in sides.iter() {
        let server = stage.start_in(running.database, OBJECTS, &Cores::all()?, &[])?;
        objects::create(&server.access)?;
        servers.push(server);
    }
    let count = options.clients.len();
    let all = options.warmups + options.runs;
    let bar = progress(u64::from(all) * (count * sides.len()) as u64);
    for run in 0..all {
        for turn in 0..count {
            // Each set of objects is written once.
            let number = (u64::from(run) * count as u64 + turn as u64) * u64::from(CLIENTS_MAX) * 2;
            for (running, server) in sides.iter_mut().zip(&servers) {
                options.stop.check()?;
                let is_timed = run >= options.warmups;
                one_turn(options, stage, (running, server), (turn, number), is_timed)?;
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    servers.into_iter().try_for_each(LiveServer::stop)
}

/// One run of one number of clients on one side.
fn one_turn(
    options: &Options,
    stage: &Stage,
    (running, server): (&mut RunningSide<'_>, &LiveServer),
    (turn, number): (usize, u64),
    is_timed: bool,
) -> Result<()> {
    let crowd = &mut running.side.crowds[turn];
    let syncs = disk::syncs(stage.folder(), SYNCS)?;
    let ours = ours(server, crowd.clients, number, options.objects);
    let ours = ours.with_context(|| format!("{} clients", crowd.clients))?;
    let theirs = match &mut running.bare {
        Some(bare) => bare::run(bare, number, crowd.clients, options.objects)?,
        None => Vec::new(),
    };
    if !is_timed {
        return Ok(());
    }
    let syncs = syncs.into_iter().map(Duration::from_nanos);
    crowd.syncs.extend(syncs);
    for (tally, driven) in crowd.ours.iter_mut().zip(ours) {
        tally.add(driven);
    }
    for (op, driven) in theirs {
        let place = Op::ALL.iter().position(|known| *known == op);
        crowd.bare[place.expect("every operation stands in the list")].add(driven);
    }
    Ok(())
}

/// One run of `clients`: every operation after the other, each begun by all at once.
fn ours(server: &LiveServer, clients: u32, number: u64, objects: u32) -> Result<Vec<Driven>> {
    let (access, costs) = (&server.access, server.costs());
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(Connection::open(access.address)?);
    }
    let mut all = Vec::new();
    for op in Op::ALL {
        // Those written one by one and those written in batches are sets of their own.
        let set = |client: u32| Set {
            number: number + u64::from(client) * 2 + u64::from(op == Op::WriteOne),
            count: objects,
        };
        let calls = (0..clients).map(|client| op.calls(access, set(client)));
        let calls: Vec<_> = calls.collect();
        let awake = if clients == 1 {
            Awake::begin().ok()
        } else {
            None
        };
        let meter = costs.begin()?;
        let mut driven = drive(&mut connections, &calls).with_context(|| op.title())?;
        driven.spent = Some(meter.spent()?);
        drop(awake);
        all.push(driven);
    }
    Ok(all)
}

/// A bar on a terminal; silent elsewhere.
fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {percent} %, {eta} left")
        .expect("the template is constant");
    ProgressBar::new(steps).with_style(style)
}
