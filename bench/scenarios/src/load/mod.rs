//! `tidemark bench load`: the published load test in a fixed form. Rows are added, read one by
//! one and fetched in bunches of 25, and functions are executed, over few and many connections, on
//! one core and on two; then lists and changes at once. All of that several times over, so that
//! each figure is taken again minutes later. Everything that is measured runs as a child of this
//! program, on a fresh copy of one seeded data directory.

mod bad_functions;
mod cold;
mod columns;
mod deployed;
mod executions;
mod figure;
mod load_function;
mod measured;
mod mix;
mod oha;
mod report;
mod request_kind;
mod rows;
mod separated;
mod work;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use measure::cores::Cores;
use measure::early_end::EarlyEnd;
use measure::record::{WrittenReport, prepare};
use model::Timestamp;

use self::cold::ColdStart;
use self::deployed::DeployedFunctions;
pub use self::deployed::SdkFolders;
use self::measured::{Measured, MeasuredStore};
use self::oha::Oha;
use self::rows::{ROWS, bodies_text};
use self::separated::SeparatedDatabase;
use self::work::Work;
use super::record::write;
use super::run::Prices;
use super::stage::Stage;

/// The connections at which the mixed load and the paced one run, and which the table shows.
pub const CONNECTIONS: u32 = 32;
/// Lists of a hundred requests, in each mix.
const MIXES: [u64; 2] = [90, 50];
/// Cold starts of each function, all passes together; with `--quick` in each pass.
const COLD_STARTS: u32 = 30;
const QUICK_COLD_STARTS: u32 = 2;

/// How long others go on in each pass, without bad functions and beside them.
const BESIDE: Duration = Duration::from_secs(10);
const BESIDE_QUICK: Duration = Duration::from_secs(3);

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
    /// Where interpreters of functions are looked for; without, functions are not measured.
    pub functions_path: Option<OsString>,
    /// Folders with the official clients, for functions.
    pub sdks: SdkFolders,
    /// A database for further servers, by its URL without a schema.
    pub database: Option<String>,
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
    options.sdks.check()?;
    prepare(&options.out)?;
    let oha = Oha::find(&options.oha, all.clone())?;
    eprintln!("seeding {ROWS} rows …");
    let database = options.database.as_deref();
    let bind = |url| SeparatedDatabase::bind(url, &all, &options.cores);
    let database = database.map(bind).transpose()?;
    let mut stage = Stage::set(&options.binary, &options.scratch, ROWS, &all)?;
    if let Some(path) = &options.functions_path {
        stage = stage.with_search_path(path.clone());
    }
    let bodies = stage.folder().join("bodies");
    fs::write(&bodies, bodies_text()).with_context(|| bodies.display().to_string())?;
    let functions = if options.functions_path.is_some() {
        eprintln!("deploying functions …");
        DeployedFunctions::deploy(&stage, &all, &options.sdks)?
    } else {
        DeployedFunctions::none(&stage)
    };
    let work = Work {
        options,
        stage: &stage,
        functions: &functions,
        database: database.as_ref(),
        oha: oha.on(all.clone()).below(stage.folder()),
        all,
        bodies,
    };
    let mut measured = planned(&work);
    for pass in 1..=options.passes {
        take_pass(&work, pass, &mut measured)?;
    }
    options.stop.check()?;
    if let Some(database) = &database {
        let schemas = database.schemas().join(", ");
        eprintln!("The schemas {schemas} are left in the database.");
    }
    let report = report::Report {
        options,
        oha: &oha.version,
        database_cores: database.as_ref().map(SeparatedDatabase::cores_note),
        missing: &functions.missing,
        measured: &measured,
    };
    let (run, text) = (report.run()?, report.render());
    write(&options.out, options.started, &run, text, report.summary())
}

/// What is to be measured, and nothing of it yet.
fn planned(work: &Work<'_>) -> Measured {
    let (options, handlers) = (work.options, &work.functions.handlers);
    let (cores, connections) = (&options.cores, &options.connections);
    let leaving = |database: &SeparatedDatabase<'_>| database.leaving(cores, &work.all);
    let separated = work.database.map_or(Vec::new(), leaving);
    let mut measured = Measured::none((cores, &separated), connections, handlers, &MIXES);
    measured.is_separated = work.database.is_some_and(SeparatedDatabase::is_bound);
    // Code that loads quickly has no spare.
    let slow = handlers
        .iter()
        .filter(|handler| options.sdks.of(**handler).is_some());
    let spares = slow.map(|handler| ColdStart::from_spare(*handler));
    measured.cold.extend(spares);
    if options.is_quick {
        // Functions once each, as starting servers with them takes most of the time.
        let most = |numbers: &[u32]| numbers.iter().copied().max();
        let over = connections.contains(&CONNECTIONS).then_some(CONNECTIONS);
        let over = over.or_else(|| most(connections));
        measured.cells.retain(|cell| {
            let on = match cell.store {
                MeasuredStore::Directory => cores.iter().max(),
                MeasuredStore::Database => separated.iter().max(),
            };
            let is_one = Some(cell.connections) == over && Some(&cell.cores) == on;
            cell.kind.function().is_none() || is_one
        });
    }
    measured
}

fn take_pass(work: &Work<'_>, pass: u32, measured: &mut Measured) -> Result<()> {
    let options = work.options;
    let says = |what: &str| eprintln!("pass {pass} of {}: {what} …", options.passes);
    let columns = measured
        .cells
        .chunk_by_mut(|one, next| one.key() == next.key());
    for column in columns {
        let key = column[0].key();
        says(&format!(
            "{}, cores of the server: {}",
            key.title(),
            key.cores
        ));
        work.column(pass, key, column)?;
    }
    for cold in &mut measured.cold {
        options.stop.check()?;
        says(&format!("{}, cold", cold.title()));
        let count = if options.is_quick {
            QUICK_COLD_STARTS
        } else {
            COLD_STARTS.div_ceil(options.passes)
        };
        cold.add(work.functions, &work.all, count)
            .with_context(|| cold.title())?;
    }
    says("beside bad functions");
    let lasting = if options.is_quick {
        BESIDE_QUICK
    } else {
        BESIDE
    };
    let beside = &mut measured.beside_bad;
    beside.add(work.functions, &work.all, lasting)?;
    for blend in &mut measured.blends {
        let reads = blend.reads_percent;
        says(&format!("{reads} lists to {} changes", 100 - reads));
        work.blend(blend)?;
    }
    Ok(())
}
