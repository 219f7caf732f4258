//! `harness memory`: resident memory of a server beside the ceiling that its limits set.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use measure::live::LiveServer;
use measure::process::ProcessNumber;
use measure::scratch::database_file;
use serde_json::json;

use crate::crowd::{self, SlowBodies};
use crate::distinct;
use crate::figure::{Figure, Goal, Round, Slice};
use crate::run::{Run, RunArgs};
use crate::{catalog, expect, surroundings};

/// Measure memory with idle connections, slow bodies, and as many distinct cached lists
///
/// Each round starts a server for each of the three, on a copy of the catalog with its index.
#[derive(clap::Args)]
#[command(after_help = "Example:
  cargo build --release -p tidemark
  cargo run --release -p harness -- memory --quick --queries 5000")]
pub struct Arguments {
    #[command(flatten)]
    run: RunArgs,
    /// Idle connections [default: 10000, with --quick 1000]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: Option<u32>,
    /// Clients that send a body slowly [default: 1000, with --quick 100]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=9_000))]
    bodies: Option<u32>,
    /// Distinct lists asked for with a ttl of a day [default: 1000000, with --quick 20000]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    queries: Option<u32>,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    connections: u32,
    bodies: u32,
    queries: u32,
    rounds: u32,
    /// How long connections and bodies are held.
    hold: Duration,
}

const FULL: Sizes = Sizes {
    connections: 10_000,
    bodies: 1_000,
    queries: 1_000_000,
    rounds: 1,
    hold: Duration::from_secs(10),
};
const QUICK: Sizes = Sizes {
    connections: 1_000,
    bodies: 100,
    queries: 20_000,
    rounds: 1,
    hold: Duration::from_secs(2),
};
/// Megabytes, as the issue that asked for these figures states them.
const MB: f64 = 1e6;
/// After a change, until memory is read; allocators give back what they hold with some delay.
const SETTLE: Duration = Duration::from_secs(3);
/// Longest wait until the server has dealt with what was sent.
const TAKEN_MAX: Duration = Duration::from_mins(1);
/// Between two readings of the same thing.
const BETWEEN: Duration = Duration::from_secs(1);
/// Files of the harness beside connections.
const FILES_BESIDE: u64 = 64;

/// The limits that set the ceilings: defaults of `tidemark serve`, and constants of the server
/// (docs/performance.md names each).
mod limit {
    /// After start, by the target of the figures.
    pub const START: f64 = 40e6;
    /// `--head-max`: what a connection may hold while a head is read.
    pub const HEAD: f64 = 65_536.0;
    /// `--bodies-memory`.
    pub const BODIES: f64 = 268_435_456.0;
    /// What is not counted of each body.
    pub const BODY_FREE: f64 = 16_384.0;
    /// `--list-cache`.
    pub const LIST_CACHE: f64 = 268_435_456.0;
    /// Page cache of each thread that reads.
    pub const READER_PAGES: f64 = 33_554_432.0;
    /// Page cache of the thread that writes.
    pub const WRITER_PAGES: f64 = 16_777_216.0;
}

/// What is read, in the order of a round.
const READ: [(&str, &str); 7] = [
    ("start", "after start"),
    ("idle", "with idle connections"),
    ("idle_over", "after the idle connections have ended"),
    ("bodies", "with slow bodies"),
    ("bodies_over", "after the slow bodies have ended"),
    ("lists", "after the distinct cached lists"),
    ("lists_over", "some seconds after the last list"),
];

/// # Errors
/// When the stage cannot be set, or the report not be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut sizes = arguments.run.sizes(FULL, QUICK, |sizes| &mut sizes.rounds);
    sizes.connections = arguments.connections.unwrap_or(sizes.connections);
    sizes.bodies = arguments.bodies.unwrap_or(sizes.bodies);
    sizes.queries = arguments.queries.unwrap_or(sizes.queries);
    crowd::make_room(u64::from(sizes.connections.max(sizes.bodies)) + FILES_BESIDE)?;
    let own = vec![
        ("rows", json!(expect::ROWS)),
        ("connections", json!(sizes.connections)),
        ("bodies", json!(sizes.bodies)),
        ("body_bytes", json!(crowd::BODY_BYTES)),
        ("body_bytes_sent", json!(crowd::PART_BYTES)),
        ("queries", json!(sizes.queries)),
        ("rounds", json!(sizes.rounds)),
    ];
    let mut run = Run::begin("memory", &arguments.run, own)?;
    let seeded = run.scratch.at("seeded");
    let server = surroundings::serve(&run.binary, &seeded)?;
    catalog::seed(&run.binary, &server, expect::ROWS, true)?;
    server.stop()?;
    run.take("memory", |run| measure(run, &seeded, &sizes));
    run.finish()
}

/// What a round has seen.
#[derive(Default)]
struct Seen {
    /// In the order of [`READ`].
    memory: Vec<Round>,
    /// Bodies answered 503 before they were whole.
    refused: f64,
    /// Bodies whose connection ended without that.
    broken: f64,
    /// Distinct lists a second.
    lists_per_s: f64,
    /// Of the last lists, how many came from the cache when asked for again, of 100.
    kept: f64,
}

fn measure(run: &Run, seeded: &Path, sizes: &Sizes) -> Result<Vec<Figure>> {
    let database = std::fs::metadata(database_file(seeded)?)?.len() as f64;
    let round = |_| {
        let mut seen = Seen::default();
        for act in [idle, bodies, lists] {
            let server = surroundings::serve(&run.binary, &run.scratch.copy(seeded, "served")?)?;
            std::thread::sleep(SETTLE);
            act(&server, sizes, &mut seen)?;
            server.stop()?;
        }
        Ok(seen)
    };
    let rounds: Vec<Seen> = (0..sizes.rounds).map(round).collect::<Result<_>>()?;
    let ceilings = ceilings(sizes, database);
    Ok(figures(sizes, ceilings, rounds))
}

fn idle(server: &LiveServer, sizes: &Sizes, seen: &mut Seen) -> Result<()> {
    let process = server.process();
    seen.memory.push(reading(process, BETWEEN, || Ok(()))?);
    let idle = crowd::idle(&server.access, sizes.connections).context("idle connections")?;
    let all_open = || crowd::all_open(&idle);
    seen.memory.push(reading(process, sizes.hold, all_open)?);
    drop(idle);
    std::thread::sleep(SETTLE);
    seen.memory.push(reading(process, BETWEEN, || Ok(()))?);
    Ok(())
}

fn bodies(server: &LiveServer, sizes: &Sizes, seen: &mut Seen) -> Result<()> {
    let process = server.process();
    let mut bodies = SlowBodies::begin(&server.access, sizes.bodies).context("slow bodies")?;
    // Until the server has read what was sent.
    process.settle(TAKEN_MAX)?;
    let drip = || bodies.drip(sizes.hold);
    seen.memory.push(reading(process, Duration::ZERO, drip)?);
    seen.refused = bodies.refused() as f64;
    seen.broken = bodies.broken() as f64;
    drop(bodies);
    std::thread::sleep(SETTLE);
    seen.memory.push(reading(process, BETWEEN, || Ok(()))?);
    Ok(())
}

fn lists(server: &LiveServer, sizes: &Sizes, seen: &mut Seen) -> Result<()> {
    let process = server.process();
    let reads = distinct::ask(&server.access, sizes.queries).context("distinct lists")?;
    seen.lists_per_s = f64::from(sizes.queries) / reads.took.as_secs_f64();
    seen.kept = reads.kept as f64;
    seen.memory.push(reading(process, BETWEEN, || Ok(()))?);
    process.settle(TAKEN_MAX)?;
    std::thread::sleep(SETTLE);
    seen.memory.push(reading(process, BETWEEN, || Ok(()))?);
    Ok(())
}

/// Memory now, and once more `after` that, when `meanwhile` is over.
fn reading(
    process: ProcessNumber,
    after: Duration,
    meanwhile: impl FnOnce() -> Result<()>,
) -> Result<Round> {
    let first = resident(process)?;
    let start = std::time::Instant::now();
    meanwhile()?;
    std::thread::sleep(after.saturating_sub(start.elapsed()));
    Ok(Round {
        first,
        floor: None,
        second: Some(resident(process)?),
    })
}

fn resident(process: ProcessNumber) -> Result<Slice> {
    Ok(Slice::noted(
        process.resident_bytes()? / MB,
        vec![("most so far, MB", process.peak_bytes()? / MB)],
    ))
}

/// What the limits allow, in bytes, in the order of [`READ`]; `database` is the file's size,
/// beyond which no page cache of it grows.
fn ceilings(sizes: &Sizes, database: f64) -> [f64; READ.len()] {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // One for each core answers, two for each core and at least four take long reads.
    let readers = cores + (2 * cores).max(4);
    let pages = readers as f64 * limit::READER_PAGES.min(database);
    let pages = pages + limit::WRITER_PAGES.min(database);
    let quiet = limit::START + pages;
    let idle = quiet + f64::from(sizes.connections) * limit::HEAD;
    let bodies = quiet + limit::BODIES + f64::from(sizes.bodies) * (limit::BODY_FREE + limit::HEAD);
    let lists = quiet + limit::LIST_CACHE;
    // What was given back to the allocator is not given back to the system at once.
    [limit::START, idle, idle, bodies, bodies, lists, lists]
}

fn figures(sizes: &Sizes, ceilings: [f64; READ.len()], rounds: Vec<Seen>) -> Vec<Figure> {
    type Of = fn(&Seen) -> f64;
    let sizes_of_parts: [(_, _, _, Of); 4] = [
        ("refused", "slow bodies answered 503", "bodies", |seen| {
            seen.refused
        }),
        ("broken", "slow bodies cut off", "bodies", |seen| {
            seen.broken
        }),
        (
            "lists_per_s",
            "distinct lists with ttl",
            "lists/s",
            |seen| seen.lists_per_s,
        ),
        (
            "kept",
            "of the last 100 lists, still cached",
            "lists",
            |seen| seen.kept,
        ),
    ];
    let sizes_of_parts = sizes_of_parts.map(|(key, title, unit, of)| {
        Figure::plain(
            key,
            title,
            unit,
            Goal::Reported,
            rounds.iter().map(of).collect(),
        )
    });
    let others = [
        Vec::from(sizes_of_parts),
        vec![each_connection(sizes, &rounds)],
    ]
    .concat();
    let mut memory: Vec<Vec<Round>> = vec![Vec::new(); READ.len()];
    for seen in rounds {
        for (rounds, round) in memory.iter_mut().zip(seen.memory) {
            rounds.push(round);
        }
    }
    let named = READ.into_iter().zip(ceilings).zip(memory);
    let memory = named.map(|(((key, when), ceiling), rounds)| Figure {
        key: key.into(),
        title: format!("resident memory {when}"),
        unit: "MB",
        goal: Goal::AtMost((ceiling / MB).round()),
        floor: "",
        rounds,
    });
    memory.chain(others).collect()
}

/// What an idle connection takes: with all of them less after start, divided.
fn each_connection(sizes: &Sizes, rounds: &[Seen]) -> Figure {
    let of = |seen: &Seen| {
        let more = seen.memory[1].first.value - seen.memory[0].first.value;
        more * MB / 1_024.0 / f64::from(sizes.connections)
    };
    let values = rounds.iter().map(of).collect();
    let title = "an idle connection that has asked once";
    Figure::plain("connection", title, "KiB", Goal::Reported, values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(megabytes: f64) -> Round {
        let slice = Slice::of(megabytes);
        Round {
            first: slice.clone(),
            floor: None,
            second: Some(slice),
        }
    }

    #[test]
    fn ceilings_grow_with_what_clients_do_and_not_with_the_number_of_lists() {
        let small = ceilings(&QUICK, 20e6);
        let more = Sizes {
            queries: 1_000_000,
            bodies: QUICK.bodies + 10,
            connections: QUICK.connections + 100,
            ..QUICK
        };
        let large = ceilings(&more, 20e6);
        let grown: Vec<f64> = small
            .iter()
            .zip(large)
            .map(|(small, large)| large - small)
            .collect();
        assert_eq!(
            grown,
            [
                0.0,
                6_553_600.0,
                6_553_600.0,
                819_200.0,
                819_200.0,
                0.0,
                0.0
            ]
        );
        assert!(
            ceilings(&QUICK, 1e12)[1] > small[1],
            "page caches grow with the database"
        );
        let vast = [1e12, 2e12].map(|database| ceilings(&QUICK, database).map(f64::to_bits));
        assert_eq!(vast[0], vast[1], "but not for ever");
    }

    #[test]
    fn memory_is_judged_by_its_ceiling_and_shared_among_connections() {
        let memory = [30.0, 40.24, 30.0, 1e6, 30.0, 30.0, 30.0]
            .map(round)
            .to_vec();
        let seen = Seen {
            memory,
            refused: 2.0,
            broken: 0.0,
            lists_per_s: 9.0,
            kept: 99.0,
        };
        let figures = figures(&QUICK, ceilings(&QUICK, 0.0), vec![seen]);
        let met: Vec<Option<bool>> = figures.iter().map(Figure::is_met).collect();
        let wanted = [true, true, true, false, true, true, true].map(Some);
        assert_eq!((&met[..7], &met[7..]), (&wanted[..], &[None; 5][..]));
        let connection = figures.last().unwrap().measured().median;
        assert!((connection - 10.0).abs() < 0.01, "{connection} KiB");
    }
}
