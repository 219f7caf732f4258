//! `tidemark bench bitemporal`, as typed.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use measure::early_end::EarlyEnd;
use scenarios::bitemporal::{self, CLIENTS_MAX, Options};

use super::{Outside, at_least, bench_database, each_once, show_written, until_stopped};

/// What is measured by default, and for trying it.
const FULL: Sizes = Sizes {
    objects: 1_000,
    runs: 10,
    warmups: 3,
    rows: 100_000,
};
const QUICK: Sizes = Sizes {
    objects: 200,
    runs: 4,
    warmups: 1,
    rows: 5_000,
};

struct Sizes {
    objects: u32,
    runs: u32,
    warmups: u32,
    rows: u32,
}

/// The workload over two time axes.
#[derive(Args)]
pub struct BitemporalArgs {
    /// Measure small sizes, for trying it: under two minutes
    #[arg(long)]
    quick: bool,
    /// New objects of each client in each run [default: 1000, as published; with --quick 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    objects: Option<u32>,
    /// Timed runs [default: 10, as published; with --quick 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: Option<u32>,
    /// Untimed runs before them [default: 3, as published; with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1_000))]
    warmup: Option<u32>,
    /// Clients at once, each a table of the report; targets are stated for 1 and 8
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,8")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(CLIENTS_MAX)))]
    clients: Vec<u32>,
    /// Rows that have many versions [default: 100000; with --quick 5000]
    #[arg(long, value_name = "N", value_parser = at_least::<25>())]
    rows: Option<u32>,
    /// Versions of each of these rows; targets are stated for 5
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=100))]
    versions: u32,
    /// The same by hand-written statements: the example `bare` of the store, built [default: not
    /// measured]
    #[arg(long, value_name = "FILE")]
    bare: Option<PathBuf>,
    /// Measure a server with its store in this PostgreSQL database, too, in turns with the one on a
    /// data directory. Its schemas are new, named `bench_…`, and left there
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Where data directories are made and removed: on the disk to be measured
    ///
    /// [default: the folder of this program]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// The folder for the run's own folder; made if absent
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    out: PathBuf,
}

/// # Errors
/// When the server fails, an answer is wrong, or the report cannot be written.
pub fn run(args: BitemporalArgs, outside: &Outside) -> Result<()> {
    let binary = std::env::current_exe().context("where is this program?")?;
    let folder = binary.parent().context("a file is in a folder")?.to_owned();
    let sizes = if args.quick { QUICK } else { FULL };
    each_once("--clients", &args.clients)?;
    if let Some(bare) = args.bare.as_ref().filter(|bare| !bare.is_file()) {
        bail!(
            "--bare {}: there is no such file; cargo build --release -p store --example bare \
             makes it at target/release/examples/bare",
            bare.display()
        );
    }
    let stop = EarlyEnd::default();
    let options = Options {
        stop: stop.clone(),
        binary,
        objects: args.objects.unwrap_or(sizes.objects),
        runs: args.runs.unwrap_or(sizes.runs),
        warmups: args.warmup.unwrap_or(sizes.warmups),
        clients: args.clients,
        rows: args.rows.unwrap_or(sizes.rows),
        versions: args.versions,
        is_quick: args.quick,
        bare: args.bare,
        database: bench_database(args.database)?,
        scratch: args.scratch.unwrap_or(folder),
        out: args.out,
        started: outside.clock.now(),
        clock: outside.clock.clone(),
    };
    show_written(&until_stopped(&stop, || bitemporal::run(&options))?)
}
