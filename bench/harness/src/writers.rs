//! `harness writers`: what a commit costs the writer while many cached lists are alive.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use measure::connection::{Access, Connection};
use measure::costs::{BACKENDS, Spent};
use measure::live::LiveServer;
use measure::threads::together;
use serde_json::json;

use crate::catalog;
use crate::clients::WRITER;
use crate::database::LentDatabaseArgs;
use crate::expect::{self, row_route};
use crate::figure::{Figure, Goal, Round, Slice, points};
use crate::run::{Run, RunArgs};
use crate::surroundings::ServerSite;
use crate::workload::{self, ListSet};

/// Measure what a commit costs the writer while 10,000 cached lists are alive
///
/// Changes the stock of single rows, one after the other, and reads the processor time of the
/// writer's thread: with the lists of bench/workloads/writers-*.toml cached, and without any.
#[derive(clap::Args)]
#[command(after_help = "Example:
  cargo build --release -p tidemark
  cargo run --release -p harness -- writers --quick")]
pub struct Arguments {
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    database: LentDatabaseArgs,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    rounds: u32,
    /// Every so many of the lists is asked for.
    every: usize,
    /// Changes of a slice, a multiple of `between`.
    changes: u32,
    /// Changes between two times that lists are asked for: those that a change removed are there
    /// again.
    between: u32,
}

const FULL: Sizes = Sizes {
    rounds: 3,
    every: 1,
    changes: 300,
    between: 50,
};
const QUICK: Sizes = Sizes {
    rounds: 1,
    every: 20,
    changes: 40,
    between: 20,
};
/// Lists without an equality that are asked for again between changes: those that the server finds
/// one by one, 1,024 (decision 0008), and as many that share a flag, which the next change sets for
/// all. To have all of the latter there before each change would take longer than a reader waits,
/// and cost the writer the same one flag.
const RANGES_AGAIN: usize = 2_048;
/// Clients that ask for the lists, at the same time.
const ASKING: usize = 2;
/// One of so many lists is asked for once more, to see that they are alive.
const LOOK_EVERY: usize = 100;
/// The writer tidies up after its last answer for less than this.
const AFTERWARDS: Duration = Duration::from_millis(5);
/// Steps through rows and values, as in `catalog`: each row has its turn, and neighbours in time
/// lie far apart. The maximum of `stock` is 500.
const ROW_STEP: u32 = 7_919;
const STOCK_STEP: u32 = 211;
const STOCKS: u32 = 501;

/// Which lists are alive.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Equality,
    Range,
}

/// # Errors
/// When the stage cannot be set, or the report not be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let sizes = arguments.run.sizes(FULL, QUICK, |sizes| &mut sizes.rounds);
    let own = vec![
        ("rows", json!(expect::ROWS)),
        ("rounds", json!(sizes.rounds)),
        ("changes_of_a_slice", json!(sizes.changes)),
        ("changes_between_refills", json!(sizes.between)),
        ("one_of_so_many_lists", json!(sizes.every)),
    ];
    let mut run = Run::begin("writers", &arguments.run, own)?;
    let database = arguments.database.open(&mut run)?;
    // One and the same for both kinds. No index holds the column that is changed.
    let kinds = [Kind::Equality, Kind::Range];
    let mut indexes = Vec::new();
    for kind in kinds {
        indexes.extend(kind.lists()?.indexes);
    }
    let seeded = catalog::seeded(&run.binary, &run.scratch, expect::ROWS, &indexes)?;
    for kind in kinds {
        run.take(kind.title(), |run| {
            let site = |name| anyhow::Ok(ServerSite::from(run.scratch.copy(&seeded, name)?));
            beside(run, kind, [site("busy")?, site("idle")?], &sizes)
        });
    }
    for kind in kinds.into_iter().filter(|_| database.is_some()) {
        let database = database.as_ref().context("it is there")?;
        run.take(&format!("{}, on PostgreSQL", kind.title()), |run| {
            let places = ["busy", "idle"].map(|name| database.site(&run.scratch, name));
            for site in &places {
                catalog::furnish(&run.binary, site, expect::ROWS, &indexes)?;
            }
            let mut figures = beside(run, kind, places, &sizes)?;
            for figure in &mut figures {
                figure.key.push_str("_postgres");
                figure.title.push_str(", on PostgreSQL");
            }
            Ok(figures)
        });
    }
    run.finish()
}

/// A server with cached lists, and one without.
fn beside(run: &Run, kind: Kind, places: [ServerSite; 2], sizes: &Sizes) -> Result<Vec<Figure>> {
    let [busy, idle] = places.map(|site| site.serve(&run.binary, &[]));
    let (busy, idle) = (busy?, idle?);
    let figures = measure(kind, &busy, &idle, sizes)?;
    busy.stop()?;
    idle.stop()?;
    Ok(figures)
}

impl Kind {
    fn title(self) -> &'static str {
        match self {
            Kind::Equality => "lists with an equality",
            Kind::Range => "lists without an equality",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Kind::Equality => "writer_equality",
            Kind::Range => "writer_range",
        }
    }

    /// As the issue that asked for these figures states it.
    fn goal(self) -> Goal {
        match self {
            Kind::Equality => Goal::AtMost(1.2),
            Kind::Range => Goal::AtMost(3.0),
        }
    }

    /// Those of all that are asked for between changes.
    fn again(self, lists: &[String]) -> &[String] {
        match self {
            Kind::Equality => lists,
            Kind::Range => &lists[..lists.len().min(RANGES_AGAIN)],
        }
    }

    fn lists(self) -> Result<ListSet> {
        match self {
            Kind::Equality => workload::lists_with_equality(),
            Kind::Range => workload::lists_of_ranges(),
        }
    }
}

fn measure(kind: Kind, busy: &LiveServer, idle: &LiveServer, sizes: &Sizes) -> Result<Vec<Figure>> {
    let lists = kind.lists()?.lists.into_iter();
    let lists: Vec<String> = lists.step_by(sizes.every).collect();
    let mut rounds = Vec::new();
    for round in 0..sizes.rounds {
        let slices = [2 * round, 2 * round + 1];
        // Those that no change has removed yet are no part of what is kept.
        ask(&busy.access, &lists)?;
        let first = slice(busy, kind.again(&lists), slices[0], sizes)?;
        // Both servers write the same rows.
        let alone = slices.map(|number| slice(idle, &[], number, sizes));
        let [alone, alone_again] = alone;
        ask(&busy.access, &lists)?;
        let second = slice(busy, kind.again(&lists), slices[1], sizes)?;
        rounds.push(Round::of(first, mean(alone?, &alone_again?), second));
    }
    let title = format!(
        "CPU of the writer per commit, {} {}",
        lists.len(),
        kind.title()
    );
    Ok(vec![Figure {
        key: kind.key().into(),
        title,
        unit: "µs",
        goal: kind.goal(),
        floor: "no cached list",
        rounds,
    }])
}

/// The value in the middle of two; the notes are the first one's.
fn mean(first: Slice, second: &Slice) -> Slice {
    Slice {
        value: f64::midpoint(first.value, second.value),
        ..first
    }
}

/// Changes rows, with these lists there before every few of them.
fn slice(server: &LiveServer, lists: &[String], number: u32, sizes: &Sizes) -> Result<Slice> {
    let (process, costs) = (server.process(), server.costs());
    let mut spent = Spent::default();
    let (mut writer_us, mut samples_ns) = (0.0, Vec::new());
    let (mut kept, mut alive) = (Shares::default(), Shares::default());
    let first = number * sizes.changes;
    for from in (first..first + sizes.changes).step_by(sizes.between as usize) {
        if !lists.is_empty() {
            kept.add(ask(&server.access, lists)?, lists.len());
            let looked: Vec<String> = lists.iter().step_by(LOOK_EVERY).cloned().collect();
            alive.add(ask(&server.access, &looked)?, looked.len());
        }
        // Opened now: a connection that sends nothing for ten seconds is closed.
        let mut connection = Connection::open(server.access.address)?;
        let (before_us, meter) = (process.thread_us(WRITER)?, costs.begin()?);
        for change in from..from + sizes.between {
            let request = change_of(&server.access, change);
            let start = Instant::now();
            connection.accepted(&request)?;
            samples_ns.push(start.elapsed().as_nanos() as u64);
        }
        thread::sleep(AFTERWARDS);
        writer_us += process.thread_us(WRITER)? - before_us;
        spent = spent.and(meter.spent()?);
    }
    let mut notes = vec![("kept %", kept.percent()), ("alive %", alive.percent())];
    let answered = points(&samples_ns);
    notes.extend(answered.into_iter().map(|(name, us)| match name {
        "p50 µs" => ("answered p50 µs", us),
        "p99 µs" => ("answered p99 µs", us),
        other => (other, us),
    }));
    notes.retain(|(name, _)| !["p90 µs", "max µs"].contains(name));
    let changes = f64::from(sizes.changes);
    let backends = spent.backends_us.map(|us| (BACKENDS, us / changes));
    notes.extend(backends);
    Ok(Slice::noted(writer_us / changes, notes))
}

/// How many of so many.
#[derive(Default)]
struct Shares {
    part: usize,
    all: usize,
}

impl Shares {
    fn add(&mut self, part: usize, all: usize) {
        self.part += part;
        self.all += all;
    }

    fn percent(&self) -> f64 {
        100.0 * self.part as f64 / self.all.max(1) as f64
    }
}

/// A change of one row's stock to a value that it does not have, unless by chance.
fn change_of(access: &Access, number: u32) -> Vec<u8> {
    let row = u64::from(number) * u64::from(ROW_STEP) % u64::from(expect::ROWS);
    let stock = u64::from(number) * u64::from(STOCK_STEP) % u64::from(STOCKS);
    let body = json!({ "data": { "stock": stock } }).to_string();
    access.request("PATCH", &row_route(row as u32), &body)
}

/// Asks for all of them; how many came from the cache.
fn ask(access: &Access, lists: &[String]) -> Result<usize> {
    let client = |first: usize| {
        move || {
            let mut connection = Connection::open(access.address)?;
            let mut hits = 0;
            for list in lists.iter().skip(first).step_by(ASKING) {
                let answer = connection.call(access, "GET", list, "")?;
                let cached = answer.header("x-tidemark-cache").unwrap_or_default();
                hits += usize::from(cached.starts_with("hit"));
            }
            Ok(hits)
        }
    };
    Ok(together((0..ASKING).map(client))?.into_iter().sum())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn changes_go_over_all_rows_and_values() {
        let access = Access::new(([127, 0, 0, 1], 80), "p", "k");
        let requests: HashSet<Vec<u8>> = (0..6_000).map(|n| change_of(&access, n)).collect();
        assert_eq!(requests.len(), 6_000);
        let text = String::from_utf8(change_of(&access, 1)).unwrap();
        assert!(text.contains("/rows/product-07919 ") && text.ends_with("{\"stock\":211}}"));
    }

    #[test]
    fn two_slices_are_told_by_their_mean() {
        let slice = |value| Slice::noted(value, vec![("kept %", value)]);
        let both = mean(slice(10.0), &slice(20.0));
        assert_eq!((both.value, both.notes[0].1), (15.0, 10.0));
        let mut shares = Shares::default();
        assert_eq!(shares.percent() as u32, 0);
        shares.add(30, 40);
        assert_eq!(shares.percent() as u32, 75);
    }
}
