//! `tidemark bench hostile`, as typed.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use measure::early_end::EarlyEnd;
use scenarios::hostile::{self, Kind, Options};

use super::{Outside, show_written, until_stopped};

/// Strangers at once.
const STRANGERS: u32 = 32;
const STRANGERS_MAX: i64 = 512;

/// The attack.
#[derive(Args)]
pub struct HostileArgs {
    /// Take few rows and short slices, for trying it: at most 90 s
    #[arg(long)]
    quick: bool,
    /// Only these kinds of attack, in the order of the list [default: all]
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', value_parser = kinds())]
    kind: Vec<Kind>,
    /// Strangers at once, each with a connection and an address of its own
    #[arg(long, value_name = "N", default_value_t = STRANGERS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=STRANGERS_MAX))]
    strangers: u32,
    /// Decides all that is drawn by chance: the same seed sends the same requests
    #[arg(long, value_name = "N", default_value_t = 22)]
    seed: u64,
    /// The most resident memory the server may take, in MiB; more is a missed target
    #[arg(long, value_name = "MIB", default_value_t = hostile::CEILING_MIB)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    ceiling: u32,
    /// The most it may take in the end, when it has had nothing to do for some seconds, in MiB
    #[arg(long, value_name = "MIB", default_value_t = hostile::REST_CEILING_MIB)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    rest_ceiling: u32,
    /// End with status 1 when there are findings
    #[arg(long)]
    strict: bool,
    /// Where the data directory is made and removed [default: the folder of this program]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// The folder for the run's own folder; made if absent
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    out: PathBuf,
}

/// Reads a kind by its name.
fn kinds() -> impl TypedValueParser<Value = Kind> {
    let names = Kind::ALL.map(|kind| {
        let (name, what) = kind.description();
        PossibleValue::new(name).help(what)
    });
    PossibleValuesParser::new(names).map(|name| {
        let found = Kind::ALL
            .into_iter()
            .find(|kind| kind.description().0 == name);
        found.expect("only names of kinds are possible")
    })
}

/// # Errors
/// When the server does not start, the report cannot be written, or there are findings and
/// `--strict` was given.
pub fn run(args: HostileArgs, outside: &Outside) -> Result<()> {
    let binary = std::env::current_exe().context("where is this program?")?;
    let folder = binary.parent().context("a file is in a folder")?.to_owned();
    let is_wanted = |kind: &Kind| args.kind.is_empty() || args.kind.contains(kind);
    let stop = EarlyEnd::default();
    let options = Options {
        stop: stop.clone(),
        binary,
        kinds: Kind::ALL.into_iter().filter(is_wanted).collect(),
        strangers: args.strangers,
        seed: args.seed,
        ceiling_mib: args.ceiling,
        rest_ceiling_mib: args.rest_ceiling,
        is_quick: args.quick,
        scratch: args.scratch.unwrap_or(folder),
        out: args.out,
        started: outside.clock.now(),
    };
    let (written, findings) = until_stopped(&stop, || hostile::run(&options))?;
    show_written(&written)?;
    if args.strict && findings > 0 {
        bail!("{findings} findings; their requests are in the folder of the report");
    }
    Ok(())
}
