//! `harness watched`: what it costs to be watched.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use measure::connection::Connection;
use measure::live::{LiveServer, free_address};
use measure::threads::joined;
use measure::wrk::Wrk;
use scenarios::answer;
use serde_json::json;

use crate::aim::Aim;
use crate::figure::{Figure, Goal, Round, Slice};
use crate::run::{Run, RunArgs};
use crate::ways::{Sizes, Way};
use crate::{catalog, expect, surroundings};

/// Measure a cached list on a server whose metrics are read every second beside one that no scraper
/// watches
///
/// Three servers of the same binary with the same rows, one of them with --metrics-listen. Each
/// round is a server without a scraper (the twin), the watched one, another without one, the
/// watched one again, the twin again. The twin beside the other one says how far apart two equal
/// servers lie.
#[derive(clap::Args)]
#[command(after_help = "Example:
  apt-get install -y wrk
  cargo build --release -p tidemark
  cargo run --release -p harness -- watched --quick")]
pub struct Arguments {
    #[command(flatten)]
    run: RunArgs,
}

// Many short rounds: a machine drifts by more than 1 % within a minute, and the median of their
// ratios is what is judged. Five slices a round, under four minutes in all.
const FULL: Sizes = Sizes {
    rounds: 18,
    wrk_s: 2,
    sequential_ms: 2_000,
};
const QUICK: Sizes = Sizes {
    rounds: 3,
    wrk_s: 1,
    sequential_ms: 100,
};
/// As often as the issue that asked for this figure states it; Prometheus's default is a minute.
const SCRAPE_EVERY: Duration = Duration::from_secs(1);
/// How long the scraper looks whether the slice is over.
const STEP: Duration = Duration::from_millis(5);
/// As that issue states it: less than 1 % of throughput.
const GOAL: Goal = Goal::AtLeast(0.99);
/// What both are held against.
const FLOOR: &str = "a server nobody watches";

/// # Errors
/// When the stage cannot be set, or the report not be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let sizes = arguments.run.sizes(FULL, QUICK, |sizes| &mut sizes.rounds);
    let own = vec![
        ("rows", json!(expect::ROWS)),
        ("scrape_every_s", json!(SCRAPE_EVERY.as_secs())),
    ];
    let own = [own, sizes.parameters()].concat();
    let mut run = Run::begin("watched", &arguments.run, own)?;
    let wrk = Wrk::find(run.scratch.path())?;
    let metrics = free_address()?;
    let start = |name: &str, settings: &[&str]| -> Result<LiveServer> {
        let live = surroundings::serve_with(&run.binary, &run.scratch.at(name), settings)?;
        catalog::seed(&run.binary, &live, expect::ROWS, true)?;
        Ok(live)
    };
    let watched = start("watched", &["--metrics-listen", &metrics.to_string()])?;
    let plain = start("plain", &[])?;
    let twin = start("twin", &[])?;
    run.take("list of 25, exact hit, watched", |_| {
        let stage = Stage {
            wrk: &wrk,
            servers: [&watched, &plain, &twin],
            metrics,
            sizes,
        };
        stage.measure()
    });
    for server in [watched, plain, twin] {
        server.stop()?;
    }
    run.finish()
}

struct Stage<'a> {
    wrk: &'a Wrk,
    /// The one that is watched, the one it is held against, and that one's twin.
    servers: [&'a LiveServer; 3],
    metrics: SocketAddr,
    sizes: Sizes,
}

/// One round.
struct Beside {
    twin: [Slice; 2],
    watched: [Slice; 2],
    plain: Slice,
    /// How long single scrapes took, in nanoseconds.
    scrapes_ns: Vec<u64>,
}

impl Stage<'_> {
    fn measure(&self) -> Result<Vec<Figure>> {
        self.check()?;
        let rounds: Vec<Beside> = (0..self.sizes.rounds)
            .map(|_| self.round())
            .collect::<Result<_>>()?;
        self.check().context("after measuring")?;
        figures(&rounds)
    }

    fn check(&self) -> Result<()> {
        for server in self.servers {
            let mut connection = Connection::open(server.access.address)?;
            expect::check_list(&mut connection, &server.access, &answer::route(None))?;
        }
        Ok(())
    }

    fn round(&self) -> Result<Beside> {
        let [watched, plain, twin] = self.servers;
        let ask = |server: &LiveServer| {
            let aim = Aim::at(&server.access, &answer::route(None), server.costs());
            self.sizes.ask(Way::Many, &aim, self.wrk)
        };
        let mut scrapes_ns = Vec::new();
        let mut ask_watched = || -> Result<Slice> {
            let over = AtomicBool::new(false);
            thread::scope(|scope| {
                let scraper = scope.spawn(|| scrape_until(self.metrics, &over));
                let slice = ask(watched);
                over.store(true, Ordering::Relaxed);
                scrapes_ns.extend(joined(scraper)??);
                slice
            })
        };
        let first = ask(twin)?;
        let first_watched = ask_watched()?;
        let floor = ask(plain)?;
        let second_watched = ask_watched()?;
        let second = ask(twin)?;
        Ok(Beside {
            twin: [first, second],
            watched: [first_watched, second_watched],
            plain: floor,
            scrapes_ns,
        })
    }
}

/// Reads all metrics once a second, from now on; says how long each time took.
fn scrape_until(metrics: SocketAddr, over: &AtomicBool) -> Result<Vec<u64>> {
    // The format that ends with a mark, so that a reading cut short is seen; Prometheus asks for
    // it, too.
    let accepted = "application/openmetrics-text; version=1.0.0";
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {metrics}\r\nAccept: {accepted}\r\n\r\n");
    let request = request.into_bytes();
    let mut connection = Connection::open(metrics)?;
    let mut took_ns = Vec::new();
    let mut next = Instant::now();
    while !over.load(Ordering::Relaxed) {
        if Instant::now() < next {
            thread::sleep(STEP);
            continue;
        }
        next += SCRAPE_EVERY;
        let began = Instant::now();
        let answer = connection.accepted(&request)?;
        ensure!(answer.body.ends_with(b"# EOF\n"), "metrics that end early");
        took_ns.push(began.elapsed().as_nanos() as u64);
    }
    Ok(took_ns)
}

fn figures(rounds: &[Beside]) -> Result<Vec<Figure>> {
    let figure = |key: &str, title: &str, goal, pick: fn(&Beside) -> &[Slice; 2]| {
        let round = |round: &Beside| {
            let [first, second] = pick(round).clone();
            Round::of(first, round.plain.clone(), second)
        };
        Way::Many.figure(key, title, FLOOR, goal, rounds.iter().map(round).collect())
    };
    let watched = "list of 25, exact hit, metrics read every second";
    let watched = figure("watched", watched, GOAL, |round| &round.watched);
    let twin = "the same, nobody watches (A/A)";
    let twin = figure("unwatched", twin, Goal::Reported, |round| &round.twin);
    let cpu = watched.by_processor(Goal::Reported);
    let cpu = cpu.context("no processor time")?;
    let scrape = |round: &Beside| Round::alone(Slice::of_latencies(round.scrapes_ns.clone()));
    let scrapes = Figure {
        key: "scrape".into(),
        title: "one reading of all metrics, under that load".into(),
        unit: "p50 µs",
        goal: Goal::Reported,
        floor: "",
        rounds: rounds.iter().map(scrape).collect(),
    };
    Ok(vec![watched, twin, cpu, scrapes])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::PROCESSOR;

    fn slice(value: f64) -> Slice {
        Slice::noted(value, vec![(PROCESSOR, 10.0)])
    }

    #[test]
    fn the_watched_one_is_judged_and_the_twin_is_told() {
        let round = Beside {
            twin: [slice(99.0), slice(101.0)],
            watched: [slice(98.0), slice(99.0)],
            plain: slice(100.0),
            scrapes_ns: vec![500_000, 700_000, 600_000],
        };
        let figures = figures(&[round]).unwrap();
        let ratio = |figure: &Figure| figure.ratio().map(|ratio| ratio.median);
        assert_eq!(ratio(&figures[0]), Some(0.985));
        assert_eq!(figures[0].is_met(), Some(false));
        assert_eq!((ratio(&figures[1]), figures[1].is_met()), (Some(1.0), None));
        assert_eq!(figures[3].rounds[0].first.samples_ns.len(), 3);
        assert!(figures[3].measured().median > 500.0);
    }
}
