//! Rows with many versions, read as they are and as they were; and a plain table of the same rows.

use std::path::Path;
use std::time::Instant;

use rusqlite::{Connection, ToSql, params};
use serde_json::{Value, json};

use super::batches;
use super::layout::{Object, Writer, bytes, open};
use crate::Outcome;

/// Rows of a list.
const PAGE: usize = 25;
/// Prices lie below; lists begin at one of the lower half.
const PRICES: u32 = 1_000_000;
/// Numbers go up by these, all prime, so that what follows each other lies far apart.
const ROW_STEP: u64 = 7_919;
const PRICE_STEP: u64 = 611_953;
const VERSION_STEP: u64 = 350_377;
/// Reads before the first timed one.
const WARMUP: u32 = 100;

/// The task's numbers.
struct Task {
    rows: u32,
    versions: u32,
    statuses: u32,
    points: u32,
    lists: u32,
}

pub fn run(folder: &Path, answer: &Value) -> Outcome<Value> {
    let number = |name: &str| -> Outcome<u32> {
        let number = answer[name].as_u64();
        Ok(number
            .ok_or_else(|| format!("`deep` has a number `{name}`"))?
            .try_into()?)
    };
    let task = Task {
        rows: number("rows")?,
        versions: number("versions")?,
        statuses: number("statuses")?,
        points: number("points")?,
        lists: number("lists")?,
    };
    let path = folder.join("bare-deep.db");
    let mut writer = Writer::create(&path, &[("status, price", false)])?;
    let instants = task.fill(&mut writer)?;
    let deep_bytes = bytes(writer.connection())?;
    let plain = Task::plain(&folder.join("bare-plain.db"), &path)?;
    let reader = open(&path)?;
    let answer = json!({
        "point_now": task.points(&reader, NOW_POINT, None)?,
        "point_as_of": task.points(&reader, &past_point(), Some(&instants))?,
        "list_now": task.lists(&reader, NOW_LIST, None)?,
        "list_plain": task.lists(&plain, PLAIN_LIST, None)?,
        "list_as_of": task.lists(&reader, &past_list(), Some(&instants))?,
        "bytes": deep_bytes,
        "plain_bytes": bytes(&plain)?,
    });
    Ok(answer)
}

const NOW_POINT: &str = "SELECT vf, code, name, status, price FROM x WHERE id = ?1";
const NOW_LIST: &str = "SELECT seq, id, vf, code, name, status, price FROM x
    WHERE status = ?1 AND price >= ?2 ORDER BY price, seq LIMIT 25";
const PLAIN_LIST: &str = "SELECT seq, id, created, code, name, status, price FROM p
    WHERE status = ?1 AND price >= ?2 ORDER BY price, seq LIMIT 25";

/// Known at the instant in the parameter `at`, and valid then.
fn known_and_valid(at: &str) -> String {
    format!(
        "sf <= {at} AND st > {at} AND vf <= {at}
         AND CASE WHEN cut_tt <= {at} THEN cut_vt ELSE vt END > {at}"
    )
}

fn past_point() -> String {
    format!(
        "SELECT vf, code, name, status, price FROM x_v WHERE id = ?1 AND {}
         ORDER BY sf DESC LIMIT 1",
        known_and_valid("?2")
    )
}

fn past_list() -> String {
    format!(
        "SELECT rid, id, vf, code, name, status, price FROM x_v
         WHERE status = ?1 AND price >= ?2 AND {} ORDER BY price LIMIT 25",
        known_and_valid("?3")
    )
}

impl Task {
    fn id(nth: u32) -> String {
        format!("r{nth:06}")
    }

    fn price(nth: u32, version: u32) -> i64 {
        let mixed = u64::from(nth) * PRICE_STEP + u64::from(version) * VERSION_STEP;
        (mixed % u64::from(PRICES)) as i64
    }

    /// Every version; the marks after each of them.
    fn fill(&self, writer: &mut Writer) -> Outcome<Vec<i64>> {
        // The time of this is not measured.
        writer
            .connection()
            .execute_batch("PRAGMA synchronous = OFF")?;
        let mut instants = Vec::new();
        for version in 1..=self.versions {
            for batch in batches(self.rows) {
                if version == 1 {
                    let objects: Vec<Object> = batch.map(|nth| self.object(nth)).collect();
                    writer.insert(&objects)?;
                } else {
                    let price = |nth| (Task::id(nth), Task::price(nth, version));
                    let prices: Vec<(String, i64)> = batch.map(price).collect();
                    writer.change(&prices)?;
                }
            }
            instants.push(writer.mark);
        }
        writer.connection().execute_batch("ANALYZE")?;
        Ok(instants)
    }

    fn object(&self, nth: u32) -> Object {
        Object {
            id: Task::id(nth),
            code: format!("code-{nth:06}"),
            name: format!("A row of the table deep, number {nth}"),
            status: i64::from(nth % self.statuses),
            price: Task::price(nth, 1),
            run: 0,
        }
    }

    /// The rows of now in a table without history, with the same indexes.
    fn plain(path: &Path, deep: &Path) -> Outcome<Connection> {
        let plain = open(path)?;
        let from = deep.display().to_string();
        plain.execute("ATTACH ?1 AS deep", params![from])?;
        plain.execute_batch(
            "CREATE TABLE p (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
               created INTEGER NOT NULL, updated INTEGER NOT NULL,
               code TEXT, name TEXT, status INTEGER, price INTEGER);
             CREATE INDEX p_by ON p (status, price);
             INSERT INTO p SELECT seq, id, vf, vf, code, name, status, price FROM deep.x
               ORDER BY seq;
             DETACH deep;
             ANALYZE;",
        )?;
        Ok(plain)
    }

    fn points(
        &self,
        reader: &Connection,
        sql: &str,
        instants: Option<&[i64]>,
    ) -> Outcome<Vec<u64>> {
        let read = |nth: u32| {
            let row = u64::from(nth) * ROW_STEP % u64::from(self.rows);
            let id = Task::id(row as u32);
            let at = instants.map(|instants| past(instants, nth));
            let values: [&dyn ToSql; 2] = [&id, &at];
            let wanted = 1 + usize::from(at.is_some());
            rows(reader, sql, &values[..wanted])
        };
        timed(self.points, read, |count| count == 1)
    }

    fn lists(&self, reader: &Connection, sql: &str, instants: Option<&[i64]>) -> Outcome<Vec<u64>> {
        let read = |nth: u32| {
            let (status, from) = (nth % self.statuses, Task::price(nth, 0) / 2);
            let at = instants.map(|instants| past(instants, nth));
            let values: [&dyn ToSql; 3] = [&status, &from, &at];
            let wanted = 2 + usize::from(at.is_some());
            rows(reader, sql, &values[..wanted])
        };
        timed(self.lists, read, |count| count <= PAGE)
    }
}

/// All versions but the last, in turns.
fn past(instants: &[i64], nth: u32) -> i64 {
    instants[nth as usize % (instants.len() - 1)]
}

/// How many rows came.
fn rows(reader: &Connection, sql: &str, values: &[&dyn ToSql]) -> Outcome<usize> {
    let mut statement = reader.prepare_cached(sql)?;
    let last = statement.column_count() - 1;
    let mut rows = statement.query(values)?;
    let (mut count, mut sum) = (0, 0_i64);
    while let Some(row) = rows.next()? {
        sum = sum.wrapping_add(row.get::<_, i64>(last)?);
        count += 1;
    }
    std::hint::black_box(sum);
    Ok(count)
}

fn timed(
    count: u32,
    read: impl Fn(u32) -> Outcome<usize>,
    is_right: impl Fn(usize) -> bool,
) -> Outcome<Vec<u64>> {
    for nth in 0..WARMUP.min(count) {
        read(nth)?;
    }
    let mut samples = Vec::new();
    for nth in 0..count {
        let before = Instant::now();
        let rows = read(nth)?;
        samples.push(before.elapsed().as_nanos() as u64);
        if !is_right(rows) {
            return Err(format!("read {nth} gave {rows} rows").into());
        }
    }
    Ok(samples)
}
