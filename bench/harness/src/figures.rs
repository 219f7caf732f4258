//! `harness figures`: sets the stage, takes every figure, writes the report.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use measure::live::LiveServer;
use measure::scratch::{Scratch, database_file};
use serde_json::json;

use crate::bare::Bare;
use crate::figure::Figure;
use crate::inserts::Ground;
use crate::lists::Seeded;
use crate::plan::Plan;
use crate::report::Report;
use crate::wrk::Wrk;
use crate::{catalog, expect, inserts, lists, reads, run, starts, surroundings};

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
    /// The binary to measure, a release build
    #[arg(long, value_name = "FILE", default_value = "target/release/tidemark")]
    bin: PathBuf,
    /// Take under 90 seconds in place of about ten minutes; for trying it
    #[arg(long)]
    quick: bool,
    /// The folder for the run's own folder; made if absent
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    out: PathBuf,
    /// Where data directories are made and removed: on the disk to be measured
    ///
    /// [default: the folder of the binary]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
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
    /// TTL hit and point read over HTTP, beside a static responder
    Reads,
    /// Durable inserts over HTTP, beside a bare group-commit loop
    Inserts,
}

/// # Errors
/// When the stage cannot be set, or the report not be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    ensure!(
        !cfg!(debug_assertions),
        "a debug build measures the compiler: cargo run --release -p harness -- figures"
    );
    let started = run::timestamp(SystemTime::now());
    let stage = Stage::set(arguments)?;
    let mut report = Report::new("figures", started, parameters(arguments, &stage)?);
    for part in [Part::Starts, Part::Lists, Part::Reads, Part::Inserts] {
        if !arguments.only.is_empty() && !arguments.only.contains(&part) {
            continue;
        }
        let begun = Instant::now();
        eprintln!("measuring {part:?} …");
        let taken = stage.take(part);
        eprintln!("  {:.0} s", begun.elapsed().as_secs_f64());
        match taken {
            Ok(figures) => report.figures.extend(figures),
            Err(error) => {
                eprintln!("  not measured: {error:#}");
                report.failures.push(format!("{part:?}: {error:#}"));
            }
        }
    }
    run::finish(&report, &arguments.out)
}

/// Everything the figures are taken on.
struct Stage {
    binary: PathBuf,
    wrk: Wrk,
    bare: Bare,
    plan: Plan,
    scratch: Scratch,
    /// Data directories whose servers have ended, with the index and without.
    indexed: PathBuf,
    unindexed: PathBuf,
    project: String,
}

impl Stage {
    fn set(arguments: &Arguments) -> Result<Stage> {
        let (binary, scratch) = run::place(&arguments.bin, arguments.scratch.as_deref())?;
        let wrk = Wrk::find(scratch.path())?;
        let bare = Bare::find(arguments.bare.as_deref())?;
        eprintln!("seeding {} rows, with and without index …", expect::ROWS);
        let (indexed, project) = seed(&binary, &scratch, "indexed")?;
        let (unindexed, _) = seed(&binary, &scratch, "unindexed")?;
        let plan = if arguments.quick {
            Plan::QUICK
        } else {
            Plan::FULL
        };
        Ok(Stage {
            binary,
            wrk,
            bare,
            plan,
            scratch,
            indexed,
            unindexed,
            project,
        })
    }

    fn take(&self, part: Part) -> Result<Vec<Figure>> {
        let Stage {
            binary,
            scratch,
            plan,
            ..
        } = self;
        match part {
            Part::Starts => starts::figures(binary, &self.indexed, scratch, plan),
            Part::Lists => self.lists(),
            Part::Reads => self.beside(|server| reads::figures(binary, server, &self.wrk, plan)),
            Part::Inserts => self.beside(|server| {
                let seeded = database_file(&self.indexed)?;
                let ground = Ground {
                    server,
                    wrk: &self.wrk,
                    seeded: &seeded,
                    bare: &self.bare,
                    scratch,
                };
                inserts::figures(&ground, plan)
            }),
        }
    }

    fn lists(&self) -> Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for (directory, indexed) in [(&self.indexed, true), (&self.unindexed, false)] {
            let seeded = Seeded {
                directory,
                indexed,
                project: &self.project,
            };
            figures.extend(lists::figures(
                &seeded,
                &self.bare,
                &self.scratch,
                &self.plan,
            )?);
        }
        Ok(figures)
    }

    /// What `measure` finds on a server that holds a copy of the indexed catalog.
    fn beside(
        &self,
        measure: impl FnOnce(&LiveServer) -> Result<Vec<Figure>>,
    ) -> Result<Vec<Figure>> {
        let server =
            surroundings::serve(&self.binary, &self.scratch.copy(&self.indexed, "served")?)?;
        let figures = measure(&server)?;
        server.stop()?;
        Ok(figures)
    }
}

/// A data directory with the catalog, whose server has ended, and the project it is in.
fn seed(binary: &Path, scratch: &Scratch, name: &str) -> Result<(PathBuf, String)> {
    let directory = scratch.at(name);
    let server = surroundings::serve(binary, &directory)?;
    catalog::seed(binary, &server, expect::ROWS, name == "indexed")?;
    let project = server.access.project.clone();
    server.stop()?;
    Ok((directory, project))
}

fn parameters(
    arguments: &Arguments,
    stage: &Stage,
) -> Result<Vec<(&'static str, serde_json::Value)>> {
    let plan = stage.plan;
    let mut parameters = run::programs(&stage.binary, arguments.quick)?;
    parameters.extend([
        ("load_generator", json!(stage.wrk.version)),
        ("wrk_connections", json!(crate::wrk::CONNECTIONS)),
        ("wrk_threads", json!(crate::wrk::THREADS)),
        ("wrk_threads_inserts", json!(crate::wrk::INSERT_THREADS)),
        ("rows", json!(expect::ROWS)),
        ("rounds", json!(plan.rounds)),
        ("wrk_slice_s", json!(plan.wrk_s)),
        ("sequential_slice_ms", json!(plan.sequential_ms)),
        ("list_slice_ms", json!(plan.list_ms)),
        (run::DURABILITY.0, json!(run::DURABILITY.1)),
        ("insert_slice_s", json!(plan.insert_s)),
        ("starts", json!(plan.starts)),
    ]);
    parameters.extend(run::place_told(&stage.scratch, plan.syncs)?);
    Ok(parameters)
}
