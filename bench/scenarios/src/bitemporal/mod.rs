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
use measure::connection::{Access, Connection};
use measure::cores::Cores;
use measure::disk;
use measure::early_end::EarlyEnd;
use measure::percentile::median;
use measure::record::{WrittenReport, prepare};
use model::Timestamp;

use self::bare::Bare;
use self::change::Change;
use self::deep::Deep;
use self::drive::{Driven, drive};
use self::figure::Tally;
use self::objects::{Op, Set};
use super::record::write;
use super::stage::Stage;

/// Syncs that are timed beside each run.
const SYNCS: usize = 20;
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
    /// What the hand-written statements run on, where there are any.
    pub bare: Option<String>,
    /// The file system of the scratch folder.
    pub file_system: String,
    /// Whether loops kept the cores awake while one client asked.
    pub is_kept_awake: bool,
    /// The published workload, for each number of clients.
    pub crowds: Vec<Crowd>,
    /// Rows with many versions.
    pub deep: Deep,
    /// What keeping history costs a change.
    pub change: Change,
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

/// Measures, and writes report, page and samples.
///
/// # Errors
/// When a server fails, an answer is wrong, or it is stopped: nothing is reported then.
pub fn run(options: &Options) -> Result<WrittenReport> {
    prepare(&options.out)?;
    let stage = Stage::empty(&options.binary, &options.scratch)?;
    let mut bare = match &options.bare {
        Some(program) => Some(Bare::start(program, stage.folder())?),
        None => None,
    };
    let mut measured = Measured {
        bare: bare.as_ref().map(|bare| bare.name.clone()),
        file_system: disk::file_system(stage.folder()),
        is_kept_awake: Awake::begin().is_ok(),
        ..Measured::default()
    };
    eprintln!(
        "{} new objects a client, {} runs after {} untimed ones …",
        options.objects, options.runs, options.warmups
    );
    measured.crowds = crowds(options, &stage, bare.as_mut())?;
    options.stop.check()?;
    measured.deep = deep::measure(options, &stage, bare.as_mut())?;
    drop(bare);
    options.stop.check()?;
    measured.change = change::measure(options, &stage)?;
    options.stop.check()?;
    let report = report::Report {
        options,
        measured: &measured,
    };
    let (run, text) = (report.run()?, report.render());
    write(&options.out, options.started, &run, text, report.summary())
}

/// The published workload, all numbers of clients in turns.
fn crowds(options: &Options, stage: &Stage, mut bare: Option<&mut Bare>) -> Result<Vec<Crowd>> {
    let server = stage.start("objects", &Cores::all()?, &[])?;
    let access = server.access.clone();
    objects::create(&access)?;
    let mut crowds: Vec<Crowd> = options.clients.iter().copied().map(Crowd::new).collect();
    let all = options.warmups + options.runs;
    let bar = progress(u64::from(all) * crowds.len() as u64);
    for run in 0..all {
        for (turn, crowd) in crowds.iter_mut().enumerate() {
            options.stop.check()?;
            // Each set of objects is written once.
            let number = (u64::from(run) * options.clients.len() as u64 + turn as u64)
                * u64::from(CLIENTS_MAX)
                * 2;
            let syncs = disk::syncs(stage.folder(), SYNCS)?;
            let ours = ours(&access, crowd.clients, number, options.objects);
            let ours = ours.with_context(|| format!("{} clients", crowd.clients))?;
            let theirs = match &mut bare {
                Some(bare) => bare.run(number, crowd.clients, options.objects)?,
                None => Vec::new(),
            };
            bar.inc(1);
            if run < options.warmups {
                continue;
            }
            crowd
                .syncs
                .extend(syncs.into_iter().map(Duration::from_nanos));
            for (tally, driven) in crowd.ours.iter_mut().zip(ours) {
                tally.add(driven);
            }
            for (op, driven) in theirs {
                let place = Op::ALL.iter().position(|known| *known == op);
                crowd.bare[place.expect("every operation stands in the list")].add(driven);
            }
        }
    }
    bar.finish_and_clear();
    server.stop()?;
    Ok(crowds)
}

/// One run of `clients`: every operation after the other, each begun by all at once.
fn ours(access: &Access, clients: u32, number: u64, objects: u32) -> Result<Vec<Driven>> {
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
        let driven = drive(&mut connections, &calls).with_context(|| op.title())?;
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
