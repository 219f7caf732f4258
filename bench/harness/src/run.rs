//! What every run needs: the binary, a place for data directories, the report.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use measure::disk;
use measure::machine;
use measure::record::WrittenReport;
use measure::scratch::Scratch;
use model::Timestamp;
use serde_json::{Value, json};

use crate::contrast::Contrast;
use crate::figure::{Figure, points};
use crate::report::Report;
use crate::surroundings;

/// Syncs timed before a run, so that a reader can judge the disk.
const SYNCS: usize = 100;

/// How a server is durable unless a workload says otherwise.
pub const DURABILITY: (&str, &str) = ("durability", "full");

/// Options of every run.
#[derive(clap::Args)]
pub struct RunArgs {
    /// The binary to measure, a release build
    #[arg(long, value_name = "FILE", default_value = "target/release/tidemark")]
    bin: PathBuf,
    /// Take small sizes and few rounds; for trying it. A debug build is good enough then
    #[arg(long)]
    pub quick: bool,
    /// Rounds of everything, whose median is reported [default: 1 to 5; the report says]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..))]
    rounds: Option<u8>,
    /// The folder for the run's own folder; made if absent
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    out: PathBuf,
    /// Where data directories are made and removed: on the disk to be measured
    ///
    /// [default: the folder of the binary]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

impl RunArgs {
    /// The rounds that were asked for, or else as many as this.
    pub fn rounds(&self, otherwise: u32) -> u32 {
        self.rounds.map_or(otherwise, u32::from)
    }

    /// How much is measured: in full or to try it, with the rounds that were asked for.
    pub fn sizes<S>(&self, full: S, quick: S, rounds: impl Fn(&mut S) -> &mut u32) -> S {
        let mut sizes = if self.quick { quick } else { full };
        let rounds = rounds(&mut sizes);
        *rounds = self.rounds(*rounds);
        sizes
    }
}

/// What one part of a run has measured.
#[derive(Debug, Default)]
pub struct Taken {
    /// Figures, in the order shown.
    pub figures: Vec<Figure>,
    /// Contrasts, in the order shown.
    pub contrasts: Vec<Contrast>,
}

impl From<Vec<Figure>> for Taken {
    fn from(figures: Vec<Figure>) -> Taken {
        Taken {
            figures,
            contrasts: Vec::new(),
        }
    }
}

impl From<Vec<Contrast>> for Taken {
    fn from(contrasts: Vec<Contrast>) -> Taken {
        Taken {
            figures: Vec::new(),
            contrasts,
        }
    }
}

/// A run, from its first preparation to its report.
pub struct Run {
    /// The binary to measure.
    pub binary: PathBuf,
    /// For data directories; removed at the end.
    pub scratch: Scratch,
    report: Report,
    out: PathBuf,
}

impl Run {
    /// Begins the run `name`. `own` are the parameters that only this kind of run has.
    ///
    /// # Errors
    /// When the binary is not there, no folder can be made, or a debug build is to measure at
    /// full size.
    pub fn begin(
        name: &'static str,
        arguments: &RunArgs,
        own: Vec<(&'static str, Value)>,
    ) -> Result<Run> {
        ensure!(
            !cfg!(debug_assertions) || arguments.quick,
            "a debug build measures the compiler: cargo run --release -p harness -- {name}, or add \
             --quick to try it"
        );
        let started = timestamp(SystemTime::now());
        let (binary, scratch) = place(&arguments.bin, arguments.scratch.as_deref())?;
        let mut parameters = programs(&binary, arguments.quick)?;
        if !own.iter().any(|(key, _)| *key == DURABILITY.0) {
            parameters.push((DURABILITY.0, json!(DURABILITY.1)));
        }
        parameters.extend(own);
        parameters.extend(place_told(&scratch)?);
        Ok(Run {
            binary,
            scratch,
            report: Report::new(name, started, parameters),
            out: arguments.out.clone(),
        })
    }

    /// Adds parameters that are known only once it has begun.
    pub fn note(&mut self, parameters: Vec<(&'static str, Value)>) {
        self.report.parameters.extend(parameters);
    }

    /// Takes one part. What cannot be measured is noted, and the run goes on.
    pub fn take<T: Into<Taken>>(&mut self, part: &str, measure: impl FnOnce(&Run) -> Result<T>) {
        let begun = Instant::now();
        eprintln!("measuring {part} …");
        let taken = measure(self);
        eprintln!("  {:.0} s", begun.elapsed().as_secs_f64());
        match taken.map(T::into) {
            Ok(Taken { figures, contrasts }) => {
                self.report.figures.extend(figures);
                self.report.contrasts.extend(contrasts);
            }
            Err(error) => {
                eprintln!("  not measured: {error:#}");
                self.report.failures.push(format!("{part}: {error:#}"));
            }
        }
    }

    /// Writes the report and prints its tables.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self) -> Result<ExitCode> {
        let WrittenReport { summary, folder } = self.report.write(&self.out)?;
        println!("{summary}\nReport: {}", folder.join("report.md").display());
        Ok(if self.report.failures.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// The binary's own path, and a folder on the disk to be measured: beside it unless one is named.
///
/// # Errors
/// When there is no such binary, or no folder can be made.
fn place(binary: &Path, scratch: Option<&Path>) -> Result<(PathBuf, Scratch)> {
    let cannot = || format!("{} is no binary to measure", binary.display());
    let binary = binary.canonicalize().with_context(cannot)?;
    let beside = binary.parent().expect("a file is in a folder");
    let scratch = Scratch::new(scratch.unwrap_or(beside))?;
    Ok((binary, scratch))
}

/// What is measured, by what, and how long.
///
/// # Errors
/// When the binary does not say its version.
fn programs(binary: &Path, quick: bool) -> Result<Vec<(&'static str, Value)>> {
    let version = surroundings::command(binary).arg("--version").output()?;
    let mut pairs = vec![
        ("mode", json!(if quick { "quick" } else { "full" })),
        (
            "binary",
            json!(String::from_utf8_lossy(&version.stdout).trim()),
        ),
    ];
    pairs.extend(machine::identity(binary));
    pairs.push(("harness", json!(machine::binary())));
    Ok(pairs)
}

/// The machine and its disk.
///
/// # Errors
/// When the disk cannot be written.
fn place_told(scratch: &Scratch) -> Result<Vec<(&'static str, Value)>> {
    let points = points(&disk::syncs(scratch.path(), SYNCS)?);
    let disk = vec![
        ("file_system", json!(disk::file_system(scratch.path()))),
        ("sync_p50_us", json!(points[0].1)),
        ("sync_p99_us", json!(points[2].1)),
    ];
    Ok([machine::facts(), disk].concat())
}

/// The wall clock's time as the model counts it.
fn timestamp(time: SystemTime) -> Timestamp {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(since.as_micros() as i64)
}
