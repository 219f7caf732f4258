//! Group commit with nothing around it: writers hand single rows to one thread, which takes what
//! waits, commits it with a sync, and answers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use rusqlite::types::Value as SqlValue;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, params, params_from_iter};
use serde_json::Value;

use crate::line;
use crate::{Outcome, Seeded, keep_plans, open_seeded};

/// As the store checkpoints, beside the commits: from so many bytes of log on, and with a
/// truncation beyond the second limit.
const PASSIVE_BYTES: u64 = 4 << 20;
const TRUNCATE_BYTES: u64 = 64 << 20;
/// The writer's page cache of the store, in KiB.
const CACHE_KIB: u32 = 32 * 1_024;
/// `id`, `created` and `updated`, which each row has before the user's columns.
const OWN_COLUMNS: usize = 3;

/// Insert single rows from many threads through one that commits what waits
///
/// The rows are those of the seeded table with ids of their own; the table has its user columns
/// and its indexes, and holds its rows already. Each writer waits for the commit of one row
/// before it hands in the next. Prints `rows`, `commits`, `elapsed_ns` and `samples_ns`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The database file of a seeded data directory, where rows and columns come from
    #[arg(long, value_name = "FILE")]
    seeded: PathBuf,
    /// The database to write to; made if absent, on the disk to be measured
    #[arg(long, value_name = "FILE")]
    database: PathBuf,
    /// Threads that hand in rows
    #[arg(long, value_name = "N", default_value_t = 32)]
    writers: usize,
    /// How long to write, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    ms: u64,
}

type Row = Vec<SqlValue>;

pub fn run(arguments: &Arguments) -> Outcome<Value> {
    let source = open_seeded(&arguments.seeded)?;
    let seeded = Seeded::find(&source)?;
    let rows = Arc::new(rows(&source, &seeded)?);
    let connection = open(&arguments.database)?;
    let known: bool = connection.query_row(
        "SELECT count(*) FROM sqlite_schema WHERE name = ?1",
        params![seeded.table],
        |row| row.get(0),
    )?;
    if !known {
        create(&connection, &source, &seeded, &rows)?;
    }
    let next: i64 = connection.query_row(
        &format!("SELECT coalesce(max(seq), 0) FROM {}", seeded.table),
        (),
        |row| row.get(0),
    )?;
    measure(
        arguments,
        connection,
        &insertion(&seeded),
        rows,
        usize::try_from(next)?,
    )
}

/// The user columns of every row of the seeded table.
fn rows(source: &Connection, seeded: &Seeded) -> Outcome<Vec<Row>> {
    let names: Vec<&str> = seeded
        .columns
        .iter()
        .map(|(_, name)| name.as_str())
        .collect();
    let sql = format!(
        "SELECT {} FROM {} ORDER BY seq",
        names.join(", "),
        seeded.table
    );
    let mut statement = source.prepare(&sql)?;
    let rows = statement.query_map((), |row| (0..names.len()).map(|at| row.get(at)).collect())?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn open(database: &Path) -> Outcome<Connection> {
    let connection = Connection::open(database)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    keep_plans(&connection)?;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;
         PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -{CACHE_KIB};"
    ))?;
    Ok(connection)
}

/// Makes the plain table: the columns and indexes of the seeded one, and its rows.
fn create(
    connection: &Connection,
    source: &Connection,
    seeded: &Seeded,
    rows: &[Row],
) -> Outcome<()> {
    let table = &seeded.table;
    let kinds: Vec<(String, String)> = source
        .prepare(&format!(
            "SELECT name, type FROM pragma_table_info('{table}')"
        ))?
        .query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut columns = String::new();
    for (_, name) in &seeded.columns {
        let kind = kinds.iter().find(|(known, _)| known == name);
        let (_, kind) = kind.ok_or_else(|| format!("{table} has no column {name}"))?;
        write!(columns, ", {name} {kind}")?;
    }
    let indexes: Vec<String> = source
        .prepare("SELECT sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?1")?
        .query_map(params![table], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    connection.execute_batch(&format!(
        "BEGIN;
         CREATE TABLE {table} (seq INTEGER PRIMARY KEY, id TEXT NOT NULL,
           created INTEGER NOT NULL, updated INTEGER NOT NULL{columns});
         {};",
        indexes.join(";")
    ))?;
    let mut statement = connection.prepare(&insertion(seeded))?;
    for at in 0..rows.len() {
        statement.execute(params_from_iter(numbered(rows, at)))?;
    }
    drop(statement);
    connection.execute_batch("COMMIT")?;
    connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE)?;
    Ok(())
}

fn insertion(seeded: &Seeded) -> String {
    let names: Vec<&str> = seeded
        .columns
        .iter()
        .map(|(_, name)| name.as_str())
        .collect();
    let places: Vec<String> = (1..=names.len() + OWN_COLUMNS)
        .map(|place| format!("?{place}"))
        .collect();
    format!(
        "INSERT INTO {} (id, created, updated, {}) VALUES ({})",
        seeded.table,
        names.join(", "),
        places.join(", ")
    )
}

/// The row with this number: the content of a seeded row, and an id that no other has.
fn numbered(rows: &[Row], number: usize) -> Row {
    let own = [
        SqlValue::Text(format!("product-{number:05}")),
        SqlValue::Integer(number as i64),
        SqlValue::Integer(number as i64),
    ];
    own.into_iter()
        .chain(rows[number % rows.len()].iter().cloned())
        .collect()
}

/// Inserts until the writers are done.
fn measure(
    arguments: &Arguments,
    mut connection: Connection,
    insertion: &str,
    rows: Arc<Vec<Row>>,
    first: usize,
) -> Outcome<Value> {
    let checkpoints = Checkpoints::start(&mut connection, &arguments.database)?;
    let number = AtomicUsize::new(first);
    let next = move || numbered(&rows, number.fetch_add(1, Ordering::Relaxed));
    let measured = line::drive(arguments.writers, arguments.ms, next, |group: &[Row]| {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut statement = connection.prepare_cached(insertion)?;
        for row in group {
            statement.execute(params_from_iter(row))?;
        }
        drop(statement);
        Ok(connection.execute_batch("COMMIT")?)
    })?;
    drop(connection);
    checkpoints.end();
    Ok(measured)
}

/// Carries the log over on a thread of its own, as the store does.
struct Checkpoints {
    thread: thread::JoinHandle<()>,
}

impl Checkpoints {
    fn start(writer: &mut Connection, database: &Path) -> Outcome<Checkpoints> {
        let page_bytes: u64 = writer
            .pragma_query_value(None, "page_size", |row| row.get::<_, i64>(0))?
            .unsigned_abs();
        let own = open(database)?;
        let (sender, receiver) = sync_channel(1);
        let carried = Arc::new(AtomicU64::new(0));
        let (seen, last) = (carried.clone(), AtomicU64::new(0));
        writer.wal_hook(Some(move |_: &mut _, pages: i32| {
            let pages = u64::from(pages.unsigned_abs());
            if pages < last.swap(pages, Ordering::Relaxed) {
                // The log has started from its beginning.
                seen.store(0, Ordering::Relaxed);
            }
            let left = pages.saturating_sub(seen.load(Ordering::Relaxed));
            if left * page_bytes >= PASSIVE_BYTES {
                // When it is full, the thread is about to look anyway.
                let _ = sender.try_send(());
            }
            Ok(())
        }))?;
        let thread = thread::spawn(move || carry_over(&own, page_bytes, &carried, &receiver));
        Ok(Checkpoints { thread })
    }

    /// Waits for the thread; the writer must be gone.
    fn end(self) {
        let _ = self.thread.join();
    }
}

fn carry_over(own: &Connection, page_bytes: u64, carried: &AtomicU64, due: &Receiver<()>) {
    while due.recv().is_ok() {
        // A checkpoint that could not be made is made by the next one.
        let pages = checkpoint(own, CheckpointMode::PASSIVE, carried).unwrap_or(0);
        if pages * page_bytes > TRUNCATE_BYTES {
            let _ = checkpoint(own, CheckpointMode::TRUNCATE, carried);
        }
    }
}

/// The pages that stood in the log.
fn checkpoint(
    own: &Connection,
    mode: CheckpointMode,
    carried: &AtomicU64,
) -> rusqlite::Result<u64> {
    let (pages, over) = own.wal_checkpoint_v2(None::<&str>, mode)?;
    carried.store(u64::from(over.max(0).unsigned_abs()), Ordering::Relaxed);
    Ok(u64::from(pages.max(0).unsigned_abs()))
}
