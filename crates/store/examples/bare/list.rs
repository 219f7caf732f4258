//! The benchmark's list, prepared once and repeated.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Rows, Statement, params};
use serde_json::{Value, json};

use crate::{Outcome, Seeded, open_seeded};

/// The filter and the page of the published query.
pub const CATEGORY: &str = "electronics";
pub const RATING_ABOVE: f64 = 3.5;
pub const PAGE_ROWS: u32 = 25;
/// Totals are counted up to here, the server's default.
pub const TOTAL_CAP: u32 = 5_000;
/// Repeats before the first timed one, so that pages are cached and clock speeds settle: so many,
/// but no longer than a slice.
const WARMUP: usize = 100;
/// Fewer samples have no median worth the name.
const SAMPLES_MIN: usize = 9;

/// Repeat the benchmark's list of 25 rows
///
/// The statement names the index if the table has it, is prepared once, and each repeat copies
/// the bytes of all its columns into one buffer. Prints `rows` (the ids), `total`, `bytes` and
/// `samples_ns`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The database file of a seeded data directory
    #[arg(long, value_name = "FILE")]
    seeded: PathBuf,
    /// How long to repeat, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 200)]
    ms: u64,
    /// Count the matches too, up to 5,000
    #[arg(long)]
    total: bool,
    /// Read the typed columns in place of the body
    #[arg(long)]
    columns: bool,
    /// Page cache, in KiB; by default it holds the whole table and its index
    #[arg(long, value_name = "KIB", default_value_t = 65_536)]
    cache_kib: u32,
}

pub fn run(arguments: &Arguments) -> Outcome<Value> {
    let connection = open_seeded(&arguments.seeded)?;
    connection.execute_batch(&format!(
        "PRAGMA query_only = ON; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -{};",
        arguments.cache_kib
    ))?;
    let mut list = List::prepare(&connection, arguments)?;
    let slice = Duration::from_millis(arguments.ms);
    let begun = Instant::now();
    for _ in 0..WARMUP {
        list.read()?;
        if begun.elapsed() > slice {
            break;
        }
    }
    let mut samples_ns = Vec::new();
    let begun = Instant::now();
    while samples_ns.len() < SAMPLES_MIN || begun.elapsed() < slice {
        let start = Instant::now();
        list.read()?;
        samples_ns.push(start.elapsed().as_nanos() as u64);
    }
    Ok(json!({
        "rows": list.ids()?,
        "total": list.total,
        "bytes": list.out.len(),
        "samples_ns": samples_ns,
    }))
}

struct List<'c> {
    page: Statement<'c>,
    count: Option<Statement<'c>>,
    /// What the last page held, column after column.
    out: Vec<u8>,
    total: Option<i64>,
}

impl<'c> List<'c> {
    fn prepare(connection: &'c Connection, arguments: &Arguments) -> Outcome<List<'c>> {
        let seeded = Seeded::find(connection)?;
        let named = seeded
            .index
            .as_ref()
            .map(|index| format!(" INDEXED BY {index}"));
        let from = format!(
            "FROM {} AS t{} WHERE t.{} = ?1 AND t.{} > ?2",
            seeded.table,
            named.unwrap_or_default(),
            seeded.column("category")?,
            seeded.column("rating")?,
        );
        let content = if arguments.columns {
            let columns = seeded.columns.iter().map(|(_, name)| format!("t.{name}"));
            columns.collect::<Vec<_>>().join(", ")
        } else {
            "t.body".to_owned()
        };
        let page = format!(
            "SELECT t.seq, t.id, t.created, t.updated, t.perms, {content} {from}
             ORDER BY t.{} DESC, t.seq LIMIT {PAGE_ROWS}",
            seeded.column("reviewCount")?
        );
        let count = format!("SELECT count(*) FROM (SELECT 1 {from} LIMIT {TOTAL_CAP})");
        Ok(List {
            page: connection.prepare(&page)?,
            count: arguments
                .total
                .then(|| connection.prepare(&count))
                .transpose()?,
            out: Vec::new(),
            total: None,
        })
    }

    fn read(&mut self) -> Outcome<()> {
        self.out.clear();
        let columns = self.page.column_count();
        let mut rows = self.page.query(params![CATEGORY, RATING_ABOVE])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                copy(row.get_ref(column)?, &mut self.out);
            }
        }
        if let Some(count) = &mut self.count {
            let counted = count.query_row(params![CATEGORY, RATING_ABOVE], |row| row.get(0))?;
            self.total = Some(counted);
        }
        Ok(())
    }

    /// The ids of the page, so that the comparison can check that both read the same rows.
    fn ids(&mut self) -> Outcome<Vec<String>> {
        let mut rows: Rows<'_> = self.page.query(params![CATEGORY, RATING_ABOVE])?;
        let mut ids = Vec::new();
        while let Some(row) = rows.next()? {
            ids.push(row.get(1)?);
        }
        Ok(ids)
    }
}

fn copy(value: ValueRef<'_>, out: &mut Vec<u8>) {
    match value {
        ValueRef::Null => {}
        ValueRef::Integer(number) => out.extend_from_slice(&number.to_ne_bytes()),
        ValueRef::Real(number) => out.extend_from_slice(&number.to_ne_bytes()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => out.extend_from_slice(bytes),
    }
}
