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
use crate::figure::{Figure, Goal, PROCESSOR, Round, Slice, points};
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
    /// The database file of the same catalog, whose server has ended.
    pub seeded: &'a Path,
    /// The bare loop.
    pub bare: &'a Bare,
    /// On the same disk.
    pub scratch: &'a Scratch,
}

/// Inserts by 32 and by 8 writers, and the syncs of the same minutes.
///
/// # Errors
/// When an answer is wrong, a row is not there afterwards, or something cannot be measured.
pub fn figures(ground: &Ground<'_>, plan: &Plan) -> Result<Vec<Figure>> {
    let runs = Runs::default();
    let http = |writers| ground.insert(writers, plan.insert_s, &runs);
    let bare = |writers| ground.bare_loop(writers, plan.insert_s * 1_000);
    // One slice of each that does not count: both files and both logs reach their size.
    http(MANY)?;
    bare(MANY)?;
    let (mut against_bare, mut alone, mut against_one) = (Vec::new(), Vec::new(), Vec::new());
    let mut syncs = Vec::new();
    for _ in 0..plan.rounds {
        syncs.push(Slice::of_latencies(disk::syncs(
            ground.scratch.path(),
            plan.syncs,
        )?));
        let (first, floor, second) = (http(MANY)?, bare(MANY)?, http(MANY)?);
        against_bare.push(Round::of(first, floor, second));
        let (first, floor, second) = (http(1)?, bare(1)?, http(1)?);
        alone.push(Round::of(first, floor, second));
        let (first, floor, second) = (http(SOME)?, http(1)?, http(SOME)?);
        let [first, second] = [first, second].map(each);
        against_one.push(Round::of(first, floor, second));
    }
    let mut connection = Connection::open(ground.server.access.address)?;
    for run in runs.into_inner() {
        run.check(&ground.server.access, &mut connection)?;
    }
    Ok(vec![
        Figure {
            key: "insert_32".into(),
            title: "durable inserts: 32 writers over HTTP (wrk, 1 thread)".into(),
            unit: "rows/s",
            goal: Goal::AtLeast(0.85),
            floor: "bare group commit, 32 threads",
            rounds: against_bare,
        },
        Figure {
            key: "insert_1".into(),
            title: "durable inserts: one writer over HTTP".into(),
            unit: "rows/s",
            goal: Goal::AtLeast(0.9),
            floor: "bare commits, one thread",
            rounds: alone,
        },
        Figure {
            key: "insert_8".into(),
            title: "durable inserts: each of 8 writers over HTTP (wrk, 1 thread)".into(),
            unit: "rows/s",
            goal: Goal::AtLeast(0.7),
            floor: "one writer alone over HTTP",
            rounds: against_one,
        },
        Figure {
            key: "sync".into(),
            title: "sync of 4 KiB appended to a file, in the same minutes".into(),
            unit: "p50 µs",
            goal: Goal::Reported,
            floor: "",
            rounds: syncs.into_iter().map(Round::alone).collect(),
        },
    ])
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
        let process = self.server.process();
        let before_us = process.cpu_us()?;
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
        let cpu_us = (process.cpu_us()? - before_us) / counted.requests;
        let rows = counted.requests as u32;
        runs.borrow_mut().push(Run {
            number,
            writers,
            rows,
        });
        Ok(Slice::noted(
            counted.per_s,
            [vec![(PROCESSOR, cpu_us)], counted.points].concat(),
        ))
    }

    fn bare_loop(&self, writers: u32, ms: u64) -> Result<Slice> {
        let seeded = self.seeded.display().to_string();
        let database = self.scratch.at("bare.db").display().to_string();
        let (writers, ms) = (writers.to_string(), ms.to_string());
        let mut arguments = vec!["group-commit", "--seeded", &seeded, "--database", &database];
        arguments.extend(["--writers", &writers, "--ms", &ms]);
        let printed = self.bare.run(&arguments)?;
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
}
