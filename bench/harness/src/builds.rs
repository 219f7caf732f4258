//! `harness builds`: how long a writer waits while indexes of each kind are built.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use measure::awake::Awake;
use measure::connection::{Access, Connection};
use measure::live::LiveServer;
use measure::threads::joined;
use serde_json::{Value, json};

use crate::catalog::wait_until_available;
use crate::figure::{Figure, Goal};
use crate::run::{Run, RunArgs};
use crate::surroundings;

/// Measure how long a writer waits while indexes of each kind are built
///
/// Fills a table with rows of 450 bytes and one with rows of 1,500, changes every row once, so
/// that each has a version of the past, and builds an index of each kind on both. Meanwhile one
/// client inserts a row every five milliseconds; its waits count from when each insert was due.
#[derive(clap::Args)]
#[command(after_help = "Example:
  cargo build --release -p tidemark
  cargo run --release -p harness -- builds --quick --rows 20000")]
pub struct Arguments {
    #[command(flatten)]
    run: RunArgs,
    /// Rows of each table [default: 200000, with --quick 5000]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(100..))]
    rows: Option<u32>,
}

const ROWS: u32 = 200_000;
const ROWS_QUICK: u32 = 5_000;
/// Bytes of a row's values, near enough.
const WIDTHS: [usize; 2] = [450, 1_500];
/// An insert is due so often.
const EVERY: Duration = Duration::from_millis(5);
/// The writer goes on for so long before a build begins and after it has ended.
const MARGIN: Duration = Duration::from_millis(500);
/// As the issue that asked for these figures states it.
const GOAL: Goal = Goal::AtMost(1_000.0);
/// What goes on in the background after the rows were written.
const SETTLE: Duration = Duration::from_mins(5);
/// Changing every row takes seconds.
const PATIENCE: Duration = Duration::from_mins(10);
/// Characters of a text column that an index is asked for, where the column is longer than an index
/// allows.
const TEXT_INDEXED: u32 = 255;
const BATCH_ROWS: u32 = 100;
const TABLES: &str = "/tablesdb/builds/tables";
/// An index by name, with its kind and its columns.
type Kind = (&'static str, &'static str, &'static [&'static str]);
const KINDS: [Kind; 6] = [
    ("integer", "key", &["number"]),
    ("text", "key", &["label"]),
    ("three", "key", &["label", "number", "price"]),
    ("unique", "unique", &["label"]),
    ("wide", "key", &["text"]),
    ("words", "fulltext", &["words"]),
];

/// # Errors
/// When the stage cannot be set, or the report not be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let quick = arguments.run.quick;
    let rows = arguments
        .rows
        .unwrap_or(if quick { ROWS_QUICK } else { ROWS });
    let own = vec![
        ("rows", json!(rows)),
        ("row_bytes", json!(WIDTHS)),
        ("insert_every_ms", json!(EVERY.as_millis())),
    ];
    let rounds = arguments.run.rounds(1);
    let mut run = Run::begin("builds", &arguments.run, own)?;
    let awake = Awake::begin()?;
    for width in WIDTHS {
        run.take(&format!("rows of {width} bytes"), |run| {
            let server =
                surroundings::serve(&run.binary, &run.scratch.at(&format!("rows-{width}")))?;
            let stage = Stage {
                access: &server.access,
                width,
                next: AtomicU32::new(rows),
            };
            stage.fill(rows)?;
            server.process().settle(SETTLE)?;
            let figures = stage.figures(&server, rounds)?;
            server.stop()?;
            Ok(figures)
        });
    }
    awake.end()?;
    run.finish()
}

struct Stage<'a> {
    access: &'a Access,
    /// Bytes of a row.
    width: usize,
    /// The number of the next row that the writer inserts.
    next: AtomicU32,
}

impl Stage<'_> {
    /// Makes the table and its rows, and changes each once.
    fn fill(&self, rows: u32) -> Result<()> {
        let mut connection = Connection::open(self.access.address)?;
        connection.wait_at_most(PATIENCE)?;
        let mut call = |method, route: &str, body: &Value| -> Result<()> {
            let request = self.access.request(method, route, &body.to_string());
            connection.accepted(&request).map(drop)
        };
        call(
            "POST",
            "/tablesdb",
            &json!({ "databaseId": "builds", "name": "b" }),
        )?;
        call("POST", TABLES, &definition())?;
        for start in (0..rows).step_by(BATCH_ROWS as usize) {
            let batch = start..rows.min(start + BATCH_ROWS);
            let batch: Vec<Value> = batch.map(|number| self.row(number)).collect();
            call("POST", &rows_route(), &json!({ "rows": batch }))?;
        }
        call(
            "PATCH",
            &rows_route(),
            &json!({ "data": { "changed": true } }),
        )
    }

    /// Row `number`: its text is as long as makes it as wide as its stage's rows.
    fn row(&self, number: u32) -> Value {
        // Spread over all numbers, so that no index is filled in the order of the rows.
        let spread = number.wrapping_mul(2_654_435_761);
        let label = format!("{spread:010}-label");
        let word = |at: u32| format!("w{} ", spread.wrapping_add(at * 7_919) % 5_000);
        let words: String = (0..20).map(word).collect();
        let rest = self.width.saturating_sub(words.len() + label.len() + 3 * 8);
        json!({
            "$id": format!("row-{number:08}"),
            "text": "x".repeat(rest),
            "words": words,
            "label": label,
            "number": spread % 100_000,
            "price": f64::from(spread % 9_973) / 100.0,
            "changed": false,
        })
    }

    fn figures(&self, server: &LiveServer, rounds: u32) -> Result<Vec<Figure>> {
        let (width, mut figures) = (self.width, Vec::new());
        let quiet = (0..rounds).map(|_| Ok(self.beside(|| thread::sleep(MARGIN))?.0));
        let title = format!("longest wait of a writer, quiet, {width} bytes");
        let quiet: Vec<f64> = quiet.collect::<Result<_>>()?;
        figures.push(figure(
            format!("quiet_{width}"),
            title,
            "ms",
            Goal::Reported,
            quiet,
        ));
        for (name, kind, columns) in KINDS {
            let (mut waits, mut times) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                let (wait, took) = self.beside(|| self.build(name, kind, columns))?;
                waits.push(wait);
                times.push(took?.as_secs_f64());
                self.drop_index(name)?;
                server.process().settle(SETTLE)?;
            }
            let title = format!("longest wait of a writer, {name} index, {width} bytes");
            figures.push(figure(format!("{name}_{width}"), title, "ms", GOAL, waits));
            let title = format!("available after, {name} index, {width} bytes");
            figures.push(figure(
                format!("{name}_{width}_s"),
                title,
                "s",
                Goal::Reported,
                times,
            ));
        }
        Ok(figures)
    }

    /// Lets the writer go on while `act` runs; its longest wait in milliseconds.
    fn beside<T>(&self, act: impl FnOnce() -> T) -> Result<(f64, T)> {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let writer = scope.spawn(|| self.write(&stop));
            thread::sleep(MARGIN);
            let acted = act();
            thread::sleep(MARGIN);
            stop.store(true, Ordering::Relaxed);
            Ok((joined(writer)??.as_secs_f64() * 1e3, acted))
        })
    }

    /// Inserts a row whenever one is due, until it is stopped; the longest time from then to the
    /// answer.
    fn write(&self, stop: &AtomicBool) -> Result<Duration> {
        let mut connection = Connection::open(self.access.address)?;
        let (mut due, mut longest) = (Instant::now(), Duration::ZERO);
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let mut row = self.row(self.next.fetch_add(1, Ordering::Relaxed));
            let id = row["$id"].take();
            row.as_object_mut().expect("it is one").remove("$id");
            let body = json!({ "rowId": id, "data": row }).to_string();
            connection.call(self.access, "POST", &rows_route(), &body)?;
            longest = longest.max(due.elapsed());
            due += EVERY;
        }
        Ok(longest)
    }

    /// Builds an index; how long until it is in use.
    fn build(&self, name: &str, kind: &str, columns: &[&str]) -> Result<Duration> {
        let route = format!("{TABLES}/rows/indexes");
        let length = |column: &&str| {
            if *column == "text" {
                json!(TEXT_INDEXED)
            } else {
                json!(null)
            }
        };
        let lengths: Vec<Value> = columns.iter().map(length).collect();
        let body = json!({ "key": name, "type": kind, "columns": columns, "lengths": lengths });
        let mut connection = Connection::open(self.access.address)?;
        connection.wait_at_most(PATIENCE)?;
        let start = Instant::now();
        connection.call(self.access, "POST", &route, &body)?;
        wait_until_available(&mut connection, self.access, &format!("{route}/{name}"))?;
        Ok(start.elapsed())
    }

    /// So that the next one finds the table as it was.
    fn drop_index(&self, name: &str) -> Result<()> {
        let route = format!("{TABLES}/rows/indexes/{name}");
        let mut connection = Connection::open(self.access.address)?;
        connection.wait_at_most(PATIENCE)?;
        connection.call(self.access, "DELETE", &route, "{}")?;
        Ok(())
    }
}

fn rows_route() -> String {
    format!("{TABLES}/rows/rows")
}

fn definition() -> Value {
    let text = |key, size: u32| json!({ "key": key, "type": "string", "size": size });
    json!({
        "tableId": "rows",
        "name": "Rows",
        "permissions": [],
        "columns": [
            text("text", 4_000),
            text("words", 400),
            text("label", 32),
            { "key": "number", "type": "integer" },
            { "key": "price", "type": "float" },
            { "key": "changed", "type": "boolean" },
        ],
    })
}

fn figure(key: String, title: String, unit: &'static str, goal: Goal, values: Vec<f64>) -> Figure {
    Figure::plain(key, title, unit, goal, values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_its_width_and_a_label_of_its_own() {
        let access = Access::new(([127, 0, 0, 1], 80), "", "");
        for width in WIDTHS {
            let stage = Stage {
                access: &access,
                width,
                next: AtomicU32::new(0),
            };
            let rows: Vec<Value> = (0..1_000).map(|number| stage.row(number)).collect();
            let texts = ["text", "words", "label"];
            let bytes = |row: &Value| {
                texts
                    .iter()
                    .map(|key| row[key].as_str().unwrap().len())
                    .sum()
            };
            let bytes: Vec<usize> = rows.iter().map(bytes).collect();
            assert!(
                bytes.iter().all(|bytes| *bytes == width - 3 * 8),
                "{bytes:?}"
            );
            let labels: std::collections::HashSet<_> =
                rows.iter().map(|row| &row["label"]).collect();
            assert_eq!(labels.len(), rows.len());
        }
    }
}
