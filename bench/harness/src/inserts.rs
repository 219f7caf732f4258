//! Durable inserts over HTTP beside a bare group-commit loop.

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use server::seed::generator::{Product, row_id};
use server::seed::table;

use crate::bare::{self, Bare};
use crate::connection::{Access, Connection};
use crate::disk;
use crate::expect;
use crate::figure::{Figure, Goal, PROCESSOR, Round, Slice, points};
use crate::live::Live;
use crate::plan::Plan;
use crate::scratch::Scratch;

/// The issue's figures are stated at these numbers of writers, and these ratios.
const MANY: usize = 32;
const SOME: usize = 8;
const GOAL: Goal = Goal::AtLeast(0.7);

/// What inserts are measured on.
pub struct Ground<'a> {
    /// A server with the seeded and indexed catalog, which grows.
    pub server: &'a Live,
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
    let next = AtomicU32::new(expect::ROWS);
    let http = |writers| insert(ground.server, writers, plan.insert_ms, &next);
    let bare = || ground.bare_loop(plan.insert_ms);
    // One slice of each that does not count: both files and both logs reach their size.
    http(MANY)?;
    bare()?;
    let (mut against_bare, mut against_one, mut syncs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        syncs.push(Slice::of_latencies(disk::syncs(
            ground.scratch.path(),
            plan.syncs,
        )?));
        let (first, floor, second) = (http(MANY)?, bare()?, http(MANY)?);
        against_bare.push(Round {
            first,
            floor: Some(floor),
            second: Some(second),
        });
        let (first, floor, second) = (http(SOME)?, http(1)?, http(SOME)?);
        let [first, second] = [first, second].map(each);
        against_one.push(Round {
            first,
            floor: Some(floor),
            second: Some(second),
        });
    }
    check(ground.server, next.into_inner())?;
    Ok(vec![
        Figure {
            key: "insert_32".into(),
            title: "durable inserts: 32 writers over HTTP".into(),
            unit: "rows/s",
            goal: GOAL,
            floor: "bare group commit, 32 threads",
            rounds: against_bare,
        },
        Figure {
            key: "insert_8".into(),
            title: "durable inserts: each of 8 writers over HTTP".into(),
            unit: "rows/s",
            goal: GOAL,
            floor: "one writer alone over HTTP",
            rounds: against_one,
        },
        Figure {
            key: "sync".into(),
            title: "sync of 4 KiB appended to a file, in the same minutes".into(),
            unit: "p50 µs",
            goal: Goal::Told,
            floor: "",
            rounds: syncs
                .into_iter()
                .map(|first| Round {
                    first,
                    floor: None,
                    second: None,
                })
                .collect(),
        },
    ])
}

/// The rate of one writer among several.
fn each(mut slice: Slice) -> Slice {
    slice.notes.insert(0, ("all rows/s", slice.value));
    slice.value /= SOME as f64;
    slice
}

/// Rows a second by `writers` connections, each of which waits for its answer. Row numbers come
/// from `next`, so that none is given twice.
fn insert(server: &Live, writers: usize, ms: u64, next: &AtomicU32) -> Result<Slice> {
    let connections: Vec<Connection> = (0..writers)
        .map(|_| Connection::open(server.access.address))
        .collect::<std::io::Result<_>>()?;
    let begin = Barrier::new(writers + 1);
    let cpu_before_us = server.process().cpu_us()?;
    let (samples_ns, elapsed) = thread::scope(|scope| {
        let write = |connection| {
            let (access, begin) = (&server.access, &begin);
            scope.spawn(move || {
                begin.wait();
                write(
                    connection,
                    access,
                    next,
                    Instant::now() + Duration::from_millis(ms),
                )
            })
        };
        let threads: Vec<_> = connections.into_iter().map(write).collect();
        begin.wait();
        let start = Instant::now();
        let mut samples_ns = Vec::new();
        for thread in threads {
            let written = thread.join().map_err(|_| anyhow!("a writer panicked"))?;
            samples_ns.extend(written.context("a writer over HTTP")?);
        }
        anyhow::Ok((samples_ns, start.elapsed()))
    })?;
    let cpu_us = (server.process().cpu_us()? - cpu_before_us) / samples_ns.len() as f64;
    let notes = [vec![(PROCESSOR, cpu_us)], points(&samples_ns)].concat();
    let value = samples_ns.len() as f64 / elapsed.as_secs_f64();
    Ok(Slice {
        value,
        notes,
        samples_ns,
    })
}

fn write(
    mut connection: Connection,
    access: &Access,
    next: &AtomicU32,
    until: Instant,
) -> Result<Vec<u64>> {
    let mut samples_ns = Vec::new();
    while Instant::now() < until {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let request = access.request("POST", &table::rows_route(), &body(number));
        let start = Instant::now();
        let answer = connection.accepted(&request)?;
        samples_ns.push(start.elapsed().as_nanos() as u64);
        ensure!(
            answer.status == 201,
            "status {} where 201 is due",
            answer.status
        );
        let id = format!(r#""$id":"{}""#, row_id(number));
        let named = String::from_utf8_lossy(answer.body).contains(&id);
        ensure!(named, "the answer does not name {id}");
    }
    Ok(samples_ns)
}

/// The body that creates row `number`: the generator's row, its id beside its columns.
fn body(number: u32) -> String {
    let (json, id) = (Product::new(number).json(), row_id(number));
    let own = format!(r#"{{"$id":"{id}","#);
    let columns = json
        .strip_prefix(&own)
        .expect("the generator writes the id first");
    format!(r#"{{"rowId":"{id}","data":{{{columns}}}"#)
}

/// Some of the rows that were acknowledged are there, the first and the last among them.
fn check(server: &Live, end: u32) -> Result<()> {
    let mut connection = Connection::open(server.access.address)?;
    let step = (end - expect::ROWS).div_ceil(100).max(1) as usize;
    for number in (expect::ROWS..end).step_by(step).chain([end - 1]) {
        expect::check_row(&mut connection, &server.access, number)?;
    }
    Ok(())
}

impl Ground<'_> {
    fn bare_loop(&self, ms: u64) -> Result<Slice> {
        let seeded = self.seeded.display().to_string();
        let database = self.scratch.at("bare.db").display().to_string();
        let (writers, ms) = (MANY.to_string(), ms.to_string());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_sent_with_its_id_beside_its_columns() {
        let sent: serde_json::Value = serde_json::from_str(&body(10_007)).unwrap();
        let mut row: serde_json::Value =
            serde_json::from_str(&Product::new(10_007).json()).unwrap();
        assert_eq!(
            sent["rowId"],
            row.as_object_mut().unwrap().remove("$id").unwrap()
        );
        assert_eq!(sent["data"], row);
        assert_eq!(sent.as_object().unwrap().len(), 2);
    }
}
