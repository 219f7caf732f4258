//! Durable inserts over HTTP beside a bare group-commit loop.

use std::cell::RefCell;
use std::path::Path;

use anyhow::{Context, Result};
use measure::connection::Connection;
use measure::disk;
use measure::early_end::EarlyEnd;
use measure::live::LiveServer;
use measure::scratch::Scratch;
use measure::wrk::{Wrk, WrkLoad};
use scenarios::seed::table;

use crate::bare::{self, Bare};
use crate::figure::{Figure, Goal, Round, Slice, points};
use crate::new_rows::{self, Run};
use crate::plan::Plan;

/// The figures are stated at these numbers of writers.
const MANY: u32 = 32;
const SOME: u32 = 8;
/// Threads of wrk: a second one would take the server's second core of two.
pub const WRK_THREADS: u32 = 1;

/// What inserts are measured on.
pub struct Ground<'a> {
    /// A server with the seeded and indexed catalog, which grows.
    pub server: &'a LiveServer,
    /// The writers.
    pub wrk: &'a Wrk,
    /// On the same disk.
    pub scratch: &'a Scratch,
    /// What the figures are held against.
    pub terms: &'a InsertTerms,
    /// Rows a second of the bare loop by so many writers for so many milliseconds.
    pub bare: &'a dyn Fn(u32, u64) -> Result<Slice>,
}

/// What inserts are held against in one place.
pub struct InsertTerms {
    /// What the keys of the figures end in.
    pub suffix: &'static str,
    /// The same for their titles.
    pub place: &'static str,
    /// The goal of many writers, and what their floor is.
    pub many: (f64, &'static str),
    /// The same of one writer.
    pub one: (f64, &'static str),
    /// The goal of each of some, to one alone.
    pub each: f64,
}

/// In a data directory.
pub const IN_DIRECTORY: InsertTerms = InsertTerms {
    suffix: "",
    place: "",
    many: (0.85, "bare group commit, 32 threads"),
    one: (0.9, "bare commits, one thread"),
    each: 0.7,
};

/// The rounds of each figure.
#[derive(Default)]
struct InsertRounds {
    many: Vec<Round>,
    one: Vec<Round>,
    each: Vec<Round>,
    syncs: Vec<Round>,
}

/// Inserts by 32 and by 8 writers, and the syncs of the same minutes.
///
/// # Errors
/// When an answer is wrong, a row is not there afterwards, or something cannot be measured.
pub fn figures(ground: &Ground<'_>, plan: &Plan) -> Result<Vec<Figure>> {
    let runs = Runs::default();
    let http = |writers| ground.insert(writers, plan.insert_s, &runs);
    let bare = |writers| (ground.bare)(writers, plan.insert_s * 1_000);
    // One slice of each that does not count: both files and both logs reach their size.
    http(MANY)?;
    bare(MANY)?;
    let mut rounds = InsertRounds::default();
    for _ in 0..plan.rounds {
        let syncs = disk::syncs(ground.scratch.path(), plan.syncs)?;
        let syncs = Round::alone(Slice::of_latencies(syncs));
        rounds.syncs.push(syncs);
        let (first, floor, second) = (http(MANY)?, bare(MANY)?, http(MANY)?);
        rounds.many.push(Round::of(first, floor, second));
        let (first, floor, second) = (http(1)?, bare(1)?, http(1)?);
        rounds.one.push(Round::of(first, floor, second));
        let (first, floor, second) = (http(SOME)?, http(1)?, http(SOME)?);
        let [first, second] = [first, second].map(each);
        rounds.each.push(Round::of(first, floor, second));
    }
    let mut connection = Connection::open(ground.server.access.address)?;
    for run in runs.into_inner() {
        run.check(&ground.server.access, &mut connection)?;
    }
    Ok(rounds.figures(ground.terms))
}

impl InsertRounds {
    fn figures(self, terms: &InsertTerms) -> Vec<Figure> {
        let InsertTerms { suffix, place, .. } = terms;
        let figure = |key: &str, who: &str, (goal, floor), rounds| Figure {
            key: format!("{key}{suffix}"),
            title: format!("durable inserts{place}: {who}"),
            unit: "rows/s",
            goal: Goal::AtLeast(goal),
            floor,
            rounds,
        };
        let each = (terms.each, "one writer alone over HTTP");
        vec![
            figure(
                "insert_32",
                "32 writers over HTTP (wrk, 1 thread)",
                terms.many,
                self.many,
            ),
            figure("insert_1", "one writer over HTTP", terms.one, self.one),
            figure(
                "insert_8",
                "each of 8 writers over HTTP (wrk, 1 thread)",
                each,
                self.each,
            ),
            Figure {
                key: format!("sync{suffix}"),
                title: format!(
                    "sync of 4 KiB appended to a file, in the minutes of inserts{place}"
                ),
                unit: "p50 µs",
                goal: Goal::Reported,
                floor: "",
                rounds: self.syncs,
            },
        ]
    }
}

/// The rate of one writer among several.
fn each(mut slice: Slice) -> Slice {
    slice.notes.insert(0, ("all rows/s", slice.value));
    slice.value /= f64::from(SOME);
    slice
}

/// The run of every slice of inserts so far.
type Runs = RefCell<Vec<Run>>;

impl Ground<'_> {
    /// Rows a second by `writers` connections, each of which waits for its answer.
    fn insert(&self, writers: u32, seconds: u64, runs: &Runs) -> Result<Slice> {
        let number = runs.borrow().len() as u32;
        let costs = self.server.costs();
        let meter = costs.begin()?;
        let access = &self.server.access;
        let load = WrkLoad {
            script: &new_rows::script(access, number),
            threads: WRK_THREADS,
            connections: writers,
            seconds,
            cores: None,
        };
        let rows_url = access.url(&table::rows_route());
        let counted = self
            .wrk
            .run(&rows_url, &access.headers(), &load, &EarlyEnd::default())?;
        let costs = meter.each(counted.requests)?;
        let rows = counted.requests as u32;
        runs.borrow_mut().push(Run {
            number,
            writers,
            rows,
        });
        Ok(Slice::noted(
            counted.per_s,
            [costs, counted.points].concat(),
        ))
    }
}

/// Rows a second of the bare loop into a file, with the rows of the seeded one.
///
/// # Errors
/// When it fails.
pub fn bare_file(
    bare: &Bare,
    (seeded, scratch): (&Path, &Scratch),
    (writers, ms): (u32, u64),
) -> Result<Slice> {
    let seeded = seeded.display().to_string();
    let database = scratch.at("bare.db").display().to_string();
    let (writers, ms) = (writers.to_string(), ms.to_string());
    let mut arguments = vec!["group-commit", "--seeded", &seeded, "--database", &database];
    arguments.extend(["--writers", &writers, "--ms", &ms]);
    let printed = bare.run(&arguments)?;
    let number = |name: &str| {
        printed[name]
            .as_f64()
            .with_context(|| format!("bare printed no `{name}`"))
    };
    let (rows, elapsed_ns) = (number("rows")?, number("elapsed_ns")?);
    let samples_ns = bare::samples(&printed, "samples_ns")?;
    let group = vec![("rows/commit", rows / number("commits")?)];
    let notes = [group, points(&samples_ns)].concat();
    Ok(Slice {
        value: rows * 1e9 / elapsed_ns,
        notes,
        samples_ns,
    })
}
