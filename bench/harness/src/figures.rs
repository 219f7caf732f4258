//! `harness figures`: sets the stage, takes every figure, writes the report.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::ValueEnum;
use measure::live::LiveServer;
use measure::scratch::{Scratch, database_file};
use measure::wrk::{self, Wrk};
use serde_json::{Value, json};

use crate::aim::{WRK_CONNECTIONS, WRK_THREADS};
use crate::bare::Bare;
use crate::database::{LentDatabase, LentDatabaseArgs};
use crate::figure::Figure;
use crate::inserts::Ground;
use crate::lists::Seeded;
use crate::on_database::{CatalogInDatabase, FigureMeans};
use crate::plan::Plan;
use crate::run::{Run, RunArgs};
use crate::{catalog, cold, expect, inserts, lists, reads, run, starts, surroundings};

/// Take the figures of docs/performance.md: throughput, lists, inserts, start
///
/// Starts the binary on new data directories, seeds the catalog of bench/ttl/CATALOG.md with and
/// without its index, checks the answers against the generator, and measures each figure in
/// turns with its floor. Writes report.md, samples.json and machine.json into a new folder named
/// by the time. A missed goal is reported and fails nothing; the exit status is 1 when an answer
/// was wrong or something could not be measured.
#[derive(clap::Args)]
#[command(after_help = "Example:
  cargo build --release -p tidemark
  cargo run --release -p harness -- figures --bin target/release/tidemark --quick")]
pub struct Arguments {
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    database: LentDatabaseArgs,
    /// Take only these
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    only: Vec<Part>,
    /// The example `bare` of the store, built already [default: cargo builds it]
    #[arg(long, value_name = "FILE")]
    bare: Option<PathBuf>,
}

/// A group of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Time to the first answer, memory, size of the binary
    Starts,
    /// Lists inside this process, beside bare SQL
    Lists,
    /// TTL hit, 304 and point read over HTTP, beside a static responder
    Reads,
    /// The list past the cache over HTTP, beside bare SQL and a static responder
    Cold,
    /// Durable inserts over HTTP, beside a bare group-commit loop
    Inserts,
    /// Reads and writes of a store in the database of --database, beside the bare driver
    Database,
}

/// # Errors
/// When the stage cannot be set, or the report not be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let plan = arguments
        .run
        .sizes(Plan::FULL, Plan::QUICK, |plan| &mut plan.rounds);
    let mut run = Run::begin("figures", &arguments.run, parameters(plan)?)?;
    let database = arguments.database.open(&mut run)?;
    let stage = Stage::set(&run, arguments.bare.as_deref(), plan)?;
    for part in Part::value_variants() {
        let is_meant = *part != Part::Database || database.is_some();
        if arguments.only.is_empty() && is_meant || arguments.only.contains(part) {
            let name = format!("{part:?}");
            run.take(&name, |run| stage.take(run, *part, database.as_ref()));
        }
    }
    run.finish()
}

/// Everything the figures are taken on.
struct Stage {
    wrk: Wrk,
    bare: Bare,
    plan: Plan,
    /// Data directories whose servers have ended, with the index and without.
    indexed: PathBuf,
    unindexed: PathBuf,
    project: String,
}

impl Stage {
    fn set(run: &Run, bare: Option<&Path>, plan: Plan) -> Result<Stage> {
        let wrk = Wrk::find(run.scratch.path())?;
        let bare = Bare::find(bare)?;
        eprintln!("seeding {} rows, with and without index …", expect::ROWS);
        let (indexed, project) = seed(run, "indexed")?;
        let (unindexed, _) = seed(run, "unindexed")?;
        Ok(Stage {
            wrk,
            bare,
            plan,
            indexed,
            unindexed,
            project,
        })
    }

    fn take(&self, run: &Run, part: Part, database: Option<&LentDatabase>) -> Result<Vec<Figure>> {
        let Run {
            binary, scratch, ..
        } = run;
        let plan = &self.plan;
        match part {
            Part::Starts => starts::figures(binary, &self.indexed, scratch, plan),
            Part::Lists => self.lists(scratch),
            Part::Reads => self.beside(run, |server| {
                reads::figures(binary, server, &self.wrk, plan)
            }),
            Part::Cold => self.beside(run, |server| {
                let seeded = database_file(&self.indexed)?;
                cold::figure(binary, server, (&self.bare, &seeded), plan).map(|figure| vec![figure])
            }),
            Part::Inserts => self.beside(run, |server| {
                let seeded = database_file(&self.indexed)?;
                let ground = Ground {
                    server,
                    wrk: &self.wrk,
                    scratch,
                    terms: &inserts::IN_DIRECTORY,
                    bare: &|writers, ms| {
                        inserts::bare_file(&self.bare, (&seeded, scratch), (writers, ms))
                    },
                };
                inserts::figures(&ground, plan)
            }),
            Part::Database => {
                let database = database.context("no --database is named")?;
                self.in_database(run, database)
            }
        }
    }

    fn in_database(&self, run: &Run, database: &LentDatabase) -> Result<Vec<Figure>> {
        let means = FigureMeans {
            binary: &run.binary,
            scratch: &run.scratch,
            wrk: &self.wrk,
            plan: &self.plan,
        };
        CatalogInDatabase::set(database, &self.bare, means)?.figures(means)
    }

    fn lists(&self, scratch: &Scratch) -> Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for (directory, indexed) in [(&self.indexed, true), (&self.unindexed, false)] {
            let seeded = Seeded {
                directory,
                indexed,
                project: &self.project,
            };
            figures.extend(lists::figures(&seeded, &self.bare, scratch, &self.plan)?);
        }
        Ok(figures)
    }

    /// What `measure` finds on a server that holds a copy of the indexed catalog.
    fn beside(
        &self,
        run: &Run,
        measure: impl FnOnce(&LiveServer) -> Result<Vec<Figure>>,
    ) -> Result<Vec<Figure>> {
        let server = surroundings::serve(&run.binary, &run.scratch.copy(&self.indexed, "served")?)?;
        let figures = measure(&server)?;
        server.stop()?;
        Ok(figures)
    }
}

/// A data directory with the catalog, whose server has ended, and the project it is in.
fn seed(run: &Run, name: &str) -> Result<(PathBuf, String)> {
    let directory = run.scratch.at(name);
    let server = surroundings::serve(&run.binary, &directory)?;
    catalog::seed(&run.binary, &server, expect::ROWS, name == "indexed")?;
    let project = server.access.project.clone();
    server.stop()?;
    Ok((directory, project))
}

fn parameters(plan: Plan) -> Result<Vec<(&'static str, Value)>> {
    Ok(vec![
        ("load_generator", json!(wrk::version()?)),
        ("wrk_connections", json!(WRK_CONNECTIONS)),
        ("wrk_threads", json!(WRK_THREADS)),
        ("wrk_threads_inserts", json!(inserts::WRK_THREADS)),
        ("rows", json!(expect::ROWS)),
        ("rounds", json!(plan.rounds)),
        ("wrk_slice_s", json!(plan.wrk_s)),
        ("sequential_slice_ms", json!(plan.sequential_ms)),
        ("list_slice_ms", json!(plan.list_ms)),
        (run::DURABILITY.0, json!(run::DURABILITY.1)),
        ("insert_slice_s", json!(plan.insert_s)),
        ("starts", json!(plan.starts)),
    ])
}
