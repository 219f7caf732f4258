//! Rows with many versions: read as they are and as they were, beside rows with one.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use measure::awake::Awake;
use measure::connection::{Access, Connection};
use measure::cores::Cores;
use measure::tasks::TaskChild;
use serde_json::{Value, json};

use super::bare;
use super::drive::{Call, Driven, drive};
use super::figure::Tally;
use super::filled::{Filled, PAGE, Shape, as_of_query, row_of};
use super::objects::{BATCH, create_database, create_table, rows_route};
use super::{Options, inside, progress};
use crate::run::Sample;
use crate::seed;
use crate::stage::Stage;

/// What the data directory, or the schema, is called.
pub const SCHEMA: &str = "deep";
/// Versions of the rows that have the most of all.
pub const VERSIONS_LONG: u32 = 100;
/// The rows that have so many are this part of the others.
const LONG_PART: u32 = 20;
/// Lists that are compared row by row with what must come.
const CHECKED: u32 = 8;

/// What is read, one request after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// One row by its id.
    PointNow,
    /// The same as it was.
    PointAsOf,
    /// 25 rows of a table whose rows have one version.
    ListPlain,
    /// The same of the table whose rows have many.
    ListNow,
    /// The same as they were.
    ListAsOf,
    /// 25 rows as they were, of a table whose rows have a hundred versions.
    ListLong,
}

/// How much is read.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Turns of all reads.
    slices: u32,
    /// Points of each in a turn.
    points: u32,
    /// Lists of each in a turn.
    lists: u32,
}

const FULL: Plan = Plan {
    slices: 10,
    points: 500,
    lists: 100,
};
const QUICK: Plan = Plan {
    slices: 4,
    points: 100,
    lists: 25,
};

/// What was measured.
#[derive(Default)]
pub struct Deep {
    /// Over HTTP, in the order of [`Read::ALL`].
    pub ours: Vec<Tally>,
    /// Now and as of the past, by the engine inside this process.
    pub inside: [Tally; 2],
    /// By hand-written statements on the same layout; those that were asked.
    pub bare: Vec<(Read, Tally)>,
    /// Rows that were changed a second while the versions were made, a hundred a request.
    pub changes_per_s: f64,
    /// The size of the database with all versions, where it is a file.
    pub bytes: Option<u64>,
    /// The size of a plain table with the same rows and indexes, by hand-written statements.
    pub plain_bytes: Option<u64>,
}

impl Read {
    /// All, in the order shown.
    pub const ALL: [Read; 6] = [
        Read::PointNow,
        Read::PointAsOf,
        Read::ListPlain,
        Read::ListNow,
        Read::ListAsOf,
        Read::ListLong,
    ];

    /// Its name for programs.
    pub fn key(self) -> &'static str {
        match self {
            Read::PointNow => "point_now",
            Read::PointAsOf => "point_as_of",
            Read::ListPlain => "list_plain",
            Read::ListNow => "list_now",
            Read::ListAsOf => "list_as_of",
            Read::ListLong => "list_long",
        }
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Read::PointNow => "one row, now",
            Read::PointAsOf => "one row, as of the past",
            Read::ListPlain => "25 rows, now, one version each",
            Read::ListNow => "25 rows, now, many versions",
            Read::ListAsOf => "25 rows, as of the past",
            Read::ListLong => "25 rows, as of the past, 100 versions",
        }
    }

    fn is_point(self) -> bool {
        matches!(self, Read::PointNow | Read::PointAsOf)
    }
}

impl Deep {
    /// Reads over HTTP.
    pub fn of(&self, read: Read) -> Option<&Tally> {
        let place = Read::ALL.iter().position(|known| *known == read)?;
        self.ours.get(place)
    }
}

/// Fills the tables and reads them; those of a data directory are read without a server, too.
///
/// # Errors
/// When the server refuses, or an answer is wrong.
pub fn measure(
    options: &Options,
    stage: &Stage,
    database: Option<&str>,
    bare: Option<&mut TaskChild>,
) -> Result<Deep> {
    let shape = |table, rows, versions| Shape {
        table,
        rows,
        versions,
    };
    let many = shape("deep", options.rows, options.versions);
    let (single, long) = (
        shape("plain", options.rows, 1),
        shape("long", (options.rows / LONG_PART).max(PAGE), VERSIONS_LONG),
    );
    eprintln!("{} rows of {} versions …", many.rows, many.versions);
    let cores = Cores::all()?;
    let mut deep = Deep::default();
    let start = || stage.start_in(database, SCHEMA, &cores, &[]);
    let server = start()?;
    let (access, project) = (server.access.clone(), server.access.project.clone());
    create_database(&access, &mut Connection::open(access.address)?)?;
    let filled = fill(&access, many, &mut deep.changes_per_s)?;
    server.stop()?;
    let directory = stage.folder().join(SCHEMA);
    if database.is_none() {
        deep.bytes = Some(bytes_of(&directory)?);
    }
    let plan = if options.is_quick { QUICK } else { FULL };
    let server = start()?;
    let access = server.access.clone();
    let filled_single = fill(&access, single, &mut 0.0)?;
    eprintln!("{} rows of {} versions …", long.rows, long.versions);
    let filled_long = fill(&access, long, &mut 0.0)?;
    let tables = [&filled, &filled_single, &filled_long];
    check(&access, &tables)?;
    deep.ours = read(&access, &tables, plan)?;
    check(&access, &tables).context("after timing")?;
    server.stop()?;
    if database.is_some() {
        return Ok(deep);
    }
    let points = plan.slices * plan.points;
    deep.inside = inside::points(&directory, &project, &filled, points, &options.clock)?;
    if let Some(bare) = bare {
        eprintln!("the same by hand-written statements …");
        beside(bare, many, plan, &mut deep)?;
    }
    Ok(deep)
}

/// Makes a table and every version of its rows, a hundred rows a request.
fn fill(access: &Access, shape: Shape, changes_per_s: &mut f64) -> Result<Filled> {
    let mut connection = Connection::open(access.address)?;
    let number = |key: &str| json!({ "key": key, "type": "integer" });
    let columns = [
        json!({ "key": "code", "type": "varchar", "size": 32 }),
        json!({ "key": "name", "type": "varchar", "size": 64 }),
        number("status"),
        number("price"),
    ];
    let index = json!({ "key": "by_status", "type": "key", "attributes": ["status", "price"] });
    create_table(access, &mut connection, shape.table, &columns, &[index])?;
    let route = rows_route(shape.table);
    let bar = progress(u64::from(shape.versions) * u64::from(shape.rows.div_ceil(BATCH)));
    let mut instants = Vec::new();
    let mut begun = std::time::Instant::now();
    for version in 1..=shape.versions {
        if version == 2 {
            begun = std::time::Instant::now();
        }
        for start in (0..shape.rows).step_by(BATCH as usize) {
            let batch = start..shape.rows.min(start + BATCH);
            let rows: Vec<Value> = batch.map(|nth| content(shape, nth, version)).collect();
            let method = if version == 1 { "POST" } else { "PUT" };
            let body = json!({ "rows": rows }).to_string();
            connection.accepted(&access.request(method, &route, &body))?;
            bar.inc(1);
        }
        instants.push(mark(access, &mut connection)?);
    }
    let changes = u64::from(shape.versions - 1) * u64::from(shape.rows);
    *changes_per_s = changes as f64 / begun.elapsed().as_secs_f64();
    bar.finish_and_clear();
    Ok(Filled { shape, instants })
}

fn content(shape: Shape, nth: u32, version: u32) -> Value {
    let mut row = json!({ "$id": Shape::id(nth), "price": Shape::price(nth, version) });
    if version == 1 {
        row["code"] = json!(format!("code-{nth:06}"));
        row["name"] = json!(format!("A row of the table {}, number {nth}", shape.table));
        row["status"] = json!(nth % shape.statuses());
    }
    row
}

fn mark(access: &Access, connection: &mut Connection) -> Result<i64> {
    let status: Value =
        serde_json::from_slice(connection.call(access, "GET", "/tidemark/status", "")?.body)?;
    status["mark"].as_i64().context("the status tells no mark")
}

/// Lists as they are and as they were must be those of the definition, row by row, and a row as
/// it was must have the price of then.
fn check(access: &Access, tables: &[&Filled]) -> Result<()> {
    let mut connection = Connection::open(access.address)?;
    let mut ask = |route: &str| -> Result<Value> {
        let answer = connection.accepted(&access.uncached(route))?;
        Ok(serde_json::from_slice(answer.body)?)
    };
    for filled in tables {
        let shape = filled.shape;
        for nth in 0..CHECKED {
            let (status, from) = shape.drawn(nth);
            let mut times = vec![(shape.versions, None)];
            if shape.versions > 1 {
                let (version, instant) = filled.past(nth);
                times.push((version, Some(instant)));
                let row = ask(&point(shape, nth, Some(instant)))?;
                let price = Shape::price(row_of(shape, nth), version);
                ensure!(row["price"] == json!(price), "a row as it was: {row}");
            }
            for (version, instant) in times {
                let list = ask(&shape.list((status, from), instant))?;
                let rows = list["rows"].as_array().context("no rows")?.iter();
                let ids: Vec<&str> = rows.filter_map(|row| row["$id"].as_str()).collect();
                let wanted = shape.expected(status, from, version);
                ensure!(
                    ids == wanted,
                    "the list of {} at version {version} is {ids:?}, not {wanted:?}",
                    shape.table
                );
            }
        }
    }
    Ok(())
}

fn point(shape: Shape, nth: u32, as_of: Option<i64>) -> String {
    let row = format!(
        "{}/{}",
        rows_route(shape.table),
        Shape::id(row_of(shape, nth))
    );
    match as_of {
        Some(instant) => seed::list_route_of(&row, &[as_of_query(instant)]),
        None => row,
    }
}

/// All reads in turns, by one client.
fn read(access: &Access, [many, single, long]: &[&Filled; 3], plan: Plan) -> Result<Vec<Tally>> {
    let mut tallies: Vec<Tally> = Read::ALL.map(|_| Tally::default()).to_vec();
    let mut connections = [Connection::open(access.address)?];
    let awake = Awake::begin().ok();
    let bar = progress(u64::from(plan.slices + 1));
    for slice in 0..=plan.slices {
        for (read, tally) in Read::ALL.into_iter().zip(&mut tallies) {
            let filled = match read {
                Read::ListPlain => single,
                Read::ListLong => long,
                _ => many,
            };
            let calls = calls(access, filled, read, slice, plan);
            let driven = drive(&mut connections, &[calls]).context(read.title())?;
            // The first turn fills the page caches.
            if slice > 0 {
                tally.add(driven);
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    drop(awake);
    Ok(tallies)
}

fn calls(access: &Access, filled: &Filled, read: Read, slice: u32, plan: Plan) -> Vec<Call> {
    let count = if read.is_point() {
        plan.points
    } else {
        plan.lists
    };
    let call = |nth: u32| {
        let nth = slice * count + nth;
        let shape = filled.shape;
        let past = || filled.past(nth);
        let (route, objects) = match read {
            Read::PointNow => (point(shape, nth, None), 1),
            Read::PointAsOf => (point(shape, nth, Some(past().1)), 1),
            _ => {
                let is_past = matches!(read, Read::ListAsOf | Read::ListLong);
                let (version, instant) = if is_past {
                    let (version, instant) = past();
                    (version, Some(instant))
                } else {
                    (shape.versions, None)
                };
                let (status, from) = shape.drawn(nth);
                let rows = shape.expected(status, from, version).len();
                (shape.list((status, from), instant), rows as u32)
            }
        };
        let request = if read.is_point() {
            access.request("GET", &route, "")
        } else {
            access.uncached(&route)
        };
        Call { request, objects }
    };
    (0..count).map(call).collect()
}

fn beside(bare: &mut TaskChild, shape: Shape, plan: Plan, deep: &mut Deep) -> Result<()> {
    let answer = bare.ask(&json!({ "deep": {
        "rows": shape.rows,
        "versions": shape.versions,
        "statuses": shape.statuses(),
        "points": plan.points * plan.slices,
        "lists": plan.lists * plan.slices,
    } }))?;
    for read in Read::ALL {
        if answer[read.key()].is_null() {
            continue;
        }
        let samples: Vec<Sample> = bare::samples(&answer[read.key()]).context(read.key())?;
        let mut tally = Tally::default();
        let (count, last) = (samples.len() as u32, samples.last());
        let wall = last.map_or_else(Default::default, |last| last.ended);
        tally.add(Driven::of_one(samples, count, wall));
        deep.bare.push((read, tally));
    }
    deep.plain_bytes = answer["plain_bytes"].as_u64();
    Ok(())
}

/// The files of the database in a data directory whose server has ended.
fn bytes_of(directory: &Path) -> Result<u64> {
    let cannot = || directory.display().to_string();
    let mut bytes = 0;
    for entry in fs::read_dir(directory).with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.contains(".db") {
            bytes += entry.metadata().with_context(cannot)?.len();
        }
    }
    ensure!(bytes > 0, "{} holds no database", directory.display());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::filled::PRICES;
    use super::*;

    #[test]
    fn a_list_holds_the_cheapest_rows_of_its_status_from_a_price_on() {
        let shape = Shape {
            table: "t",
            rows: 5_000,
            versions: 3,
        };
        assert_eq!(shape.statuses(), 5);
        let ids = shape.expected(2, 100_000, 3);
        assert_eq!(ids.len(), PAGE as usize);
        let prices = ids.iter().map(|id| {
            let nth: u32 = id[1..].parse().unwrap();
            assert_eq!(nth % 5, 2);
            Shape::price(nth, 3)
        });
        let prices: Vec<u64> = prices.collect();
        assert!(prices.is_sorted() && prices[0] >= 100_000, "{prices:?}");
        assert_ne!(ids, shape.expected(2, 100_000, 2), "another version");
        for nth in 0..100 {
            let (status, from) = shape.drawn(nth);
            assert!(status < 5 && from < PRICES / 2);
        }
    }

    #[test]
    fn reads_of_the_past_take_turns_among_all_versions_but_the_last() {
        let shape = Shape {
            table: "t",
            rows: 10,
            versions: 3,
        };
        let filled = Filled {
            shape,
            instants: vec![10, 20, 30],
        };
        let past = [0, 1, 2].map(|nth| filled.past(nth));
        assert_eq!(past, [(1, 10), (2, 20), (1, 10)]);
    }
}
