//! `tidemark bench hostile`: strangers send the worst that any route allows, kind by kind, while
//! single rows are read and written by key at a fixed rate. The server runs as a user would start
//! it, on a data directory of its own. Whatever comes back that is neither a success nor a refusal
//! of a type is a finding, with the bytes that brought it.

mod attack;
mod judge;
mod keys;
mod query;
mod report;
mod scene;
mod search;
mod shot;
mod wire;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use measure::connection::Connection;
use measure::cores::Cores;
use measure::early_end::EarlyEnd;
use measure::process::MIB;
use measure::record::{WrittenReport, prepare};
use model::Timestamp;
use server::serve::files::make_room;

use self::attack::{Arena, Attacked, Plan};
use self::judge::{Finding, Tally};
use self::keys::{Load, Served};
use self::report::Report;
use self::search::{Found, search};
use self::shot::large;
use super::record::write;
use super::stage::Stage;

pub use self::shot::Kind;

/// A server whose work is bounded answers a read within its limits: 10 s for a thread, 10 s for
/// the read.
const ANSWER_MAX: Duration = Duration::from_secs(25);
/// The most memory that a server with its defaults may take, in MiB. Its parts: the list cache
/// (256), bodies (256), page caches of the threads for long reads (32 each, at least four), and as
/// much again for answers under way, statements, and what the allocator keeps.
pub const CEILING_MIB: u32 = 1_024;
/// What it may take at the end, when strangers have gone and it has had nothing to do for some
/// seconds: cached lists, pages of the database, and what the allocator keeps.
pub const REST_CEILING_MIB: u32 = 512;
/// The project of every run, so that the requests of one can be sent again in another.
const PROJECT: &str = "--project-id=hostile";

const FULL: Plan = Plan {
    quiet: Duration::from_secs(5),
    attack: Duration::from_secs(15),
    grace: ANSWER_MAX,
    rest: Duration::from_secs(30),
    returns: Duration::from_secs(30),
    patience: Duration::from_mins(1),
    answer: ANSWER_MAX,
};
const QUICK: Plan = Plan {
    quiet: Duration::from_millis(400),
    attack: Duration::from_millis(1_200),
    grace: Duration::from_millis(600),
    rest: Duration::from_millis(1_200),
    returns: Duration::from_secs(10),
    patience: Duration::from_secs(5),
    answer: ANSWER_MAX,
};
/// Rows of each large table, steps of the search and its longest time, idle connections.
const FULL_SIZES: (u32, u64, Duration, usize) = (100_000, 3_000, Duration::from_mins(3), 9_500);
const QUICK_SIZES: (u32, u64, Duration, usize) = (2_000, 200, Duration::from_secs(8), 500);

/// What to try, and where the report goes.
pub struct Options {
    /// This program.
    pub binary: PathBuf,
    /// The kinds of attack.
    pub kinds: Vec<Kind>,
    /// Strangers at once.
    pub strangers: u32,
    /// Decides all that is drawn.
    pub seed: u64,
    /// The most memory the server may take, in MiB.
    pub ceiling_mib: u32,
    /// The most it may take at rest in the end, in MiB.
    pub rest_ceiling_mib: u32,
    /// Whether it is only tried.
    pub is_quick: bool,
    /// Where the data directory is made and removed.
    pub scratch: PathBuf,
    /// The folder of reports; created if absent.
    pub out: PathBuf,
    /// When the run began; names the report.
    pub started: Timestamp,
    /// Whether it is to end early.
    pub stop: EarlyEnd,
}

/// Everything that was seen.
pub struct Measured {
    /// Rows of each large table.
    pub rows: u32,
    /// How long each part took.
    pub plan: Plan,
    /// Memory of the server before the first attack, in MiB.
    pub begin_mib: f64,
    /// The same in the end, when the server was at rest and had time to give it back.
    pub end_mib: f64,
    /// Slices without an attack.
    pub quiet: Vec<Load>,
    /// The attacks.
    pub attacked: Vec<Attacked>,
    /// What the search has found, where it was one of the kinds.
    pub found: Found,
    /// What was seen of the server as a whole.
    pub whole: Tally,
}

impl Measured {
    /// Whatever must not have come back.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        let attacks = self.attacked.iter().flat_map(|one| &one.tally.findings);
        let search = &self.found.tally.findings;
        attacks.chain(search).chain(&self.whole.findings)
    }
}

/// Attacks, and writes report, page, samples and the requests of findings; how many of those there
/// are.
///
/// # Errors
/// When a server does not start, or it is stopped: nothing is reported then.
pub fn run(options: &Options) -> Result<(WrittenReport, usize)> {
    prepare(&options.out)?;
    let stage = Stage::empty(&options.binary, &options.scratch)?;
    let server = stage.start("hostile", &Cores::all()?, &[PROJECT])?;
    let access = server.access.clone();
    let sizes = if options.is_quick {
        QUICK_SIZES
    } else {
        FULL_SIZES
    };
    let (rows, steps, searching, idle) = sizes;
    eprintln!("filling two tables with {rows} rows each …");
    scene::set(&access, &options.stop, (rows, options.seed))?;
    make_room(idle);
    let mut arena = Arena {
        access: &access,
        process: server.process(),
        rows,
        strangers: options.strangers,
        idle,
        seed: options.seed,
        plan: if options.is_quick { QUICK } else { FULL },
        large: large(&access),
        worst: Vec::new(),
        stop: options.stop.clone(),
    };
    arena.rest()?;
    let mut measured = Measured {
        rows,
        plan: arena.plan,
        begin_mib: arena.process.resident_bytes()? / MIB,
        end_mib: 0.0,
        quiet: Vec::new(),
        attacked: Vec::new(),
        found: Found::default(),
        whole: Tally::default(),
    };
    for kind in &options.kinds {
        options.stop.check()?;
        let (name, what) = kind.description();
        eprintln!("{name}: {what} …");
        if *kind == Kind::Worst {
            measured.found = search(&arena, steps, searching)?;
            let worst = measured.found.worst.iter();
            arena.worst = worst.map(|cost| cost.candidate.clone()).collect();
        }
        measured.quiet.push(arena.serve(arena.plan.quiet));
        measured.attacked.push(arena.attack(*kind)?);
        options.stop.check()?;
        if let Err(error) = answers(&arena) {
            let what = format!("no answer to a key afterwards: {error:#}");
            measured.whole.find(name, &what, &arena.sample(*kind));
            break;
        }
    }
    measured.end_mib = arena.memory_at_rest(f64::from(options.rest_ceiling_mib))?;
    measured.notes(&arena, &server.log(), options);
    if let Err(error) = server.stop() {
        measured.whole.find("end", &format!("{error:#}"), b"");
    }
    tell(options, &measured)
}

/// Whether a row is read by key as ever.
fn answers(arena: &Arena<'_>) -> Result<()> {
    let mut connection = Connection::open(arena.access.address)?;
    let row = format!("{}/{}", scene::rows_route(scene::OPEN), scene::row_id(1));
    connection.call(arena.access, "GET", &row, "")?;
    Ok(())
}

impl Measured {
    /// What no answer tells: memory, requests by key that failed, panics in the server's log.
    fn notes(&mut self, arena: &Arena<'_>, log: &str, options: &Options) {
        if self.end_mib > f64::from(options.rest_ceiling_mib) {
            let what = format!("{:.0} MiB of memory at rest", self.end_mib);
            self.whole.find("end", &what, b"");
        }
        for one in &self.attacked {
            if one.peak_mib > f64::from(options.ceiling_mib) {
                let what = format!("{:.0} MiB of memory", one.peak_mib);
                let request = arena.sample(one.kind);
                self.whole.find(one.kind.name(), &what, &request);
            }
        }
        for line in log.lines().filter(|line| line.contains("panicked at")) {
            self.whole.find("log", line, b"");
        }
        let refused = |served: &Served| served.refused.clone();
        for one in &self.attacked {
            for word in one.load.served.iter().flat_map(refused) {
                let what = format!("a key was not served: {word}");
                let request = arena.sample(one.kind);
                self.whole.find(one.kind.name(), &what, &request);
            }
        }
        let quiet = self.quiet.iter().flat_map(|load| &load.served);
        for word in quiet.flat_map(refused) {
            self.whole
                .find("quiet", &format!("a key was not served: {word}"), b"");
        }
    }
}

fn tell(options: &Options, measured: &Measured) -> Result<(WrittenReport, usize)> {
    let report = Report { options, measured };
    let (run, text) = (report.run(), report.render());
    let written = write(&options.out, options.started, &run, text, report.summary())?;
    for (number, finding) in measured.findings().enumerate() {
        save(&written.folder, number, finding)?;
    }
    Ok((written, measured.findings().count()))
}

/// Keeps a finding's request, to be sent again as it stands.
fn save(folder: &Path, number: usize, finding: &Finding) -> Result<()> {
    if finding.request.is_empty() {
        return Ok(());
    }
    let file = folder.join(finding.file(number));
    fs::write(&file, &finding.request).with_context(|| file.display().to_string())
}
