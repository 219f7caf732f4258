//! Reads: each thread has a connection of its own, opened for reading only.
//!
//! Every answer is read from one snapshot. A statement that is still open keeps its snapshot
//! open, and with it that of every other statement of the connection; so the statement that
//! reads the stamp stays open until the answer is complete, and no transaction is begun.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use model::{Coordinates, Mark, Row, Selection, Value};
use query::emit::{self, Statement};
use query::{Dialect, Query, Side, field};
use rusqlite::ffi::ErrorCode;
use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection, OpenFlags, Rows};

use super::bind::Bound;
use super::codec;
use super::connection::keep_plans;
use super::fault::corrupt;
use super::functions;
use super::read::row::Shape;
use crate::{EncodeRow, Listed, Listing, Options, Point, Snapshot, StoreError, TotalCap};

mod row;

/// Statements that a reading connection keeps prepared: the shapes of queries in use at once.
const STATEMENTS_MAX: usize = 512;
/// Steps of SQLite's machine between two looks at the clock, some tenths of a millisecond.
const STEPS_PER_LOOK: i32 = 4_000;

/// Everything that reading connections of one store have in common.
pub(super) struct Readers {
    shared: Arc<Shared>,
}

struct Shared {
    database: PathBuf,
    vfs: Option<String>,
    cache_bytes: u64,
    limit_ms: u64,
    encode_row: EncodeRow,
    /// What deadlines are counted from.
    opened: Instant,
}

/// One thread's connection.
struct Reader {
    connection: Connection,
    /// When the running read is stopped, in microseconds since [`Shared::opened`].
    deadline_us: Arc<AtomicU64>,
}

thread_local! {
    /// This thread's connections, one for each store it has read; in tests there are several.
    static OPEN: RefCell<Vec<(Weak<Shared>, Reader)>> = const { RefCell::new(Vec::new()) };
}

/// Why a read ended early.
enum Halt {
    Database(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for Halt {
    fn from(error: rusqlite::Error) -> Halt {
        Halt::Database(error)
    }
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Halt {
        Halt::Store(error)
    }
}

type Step<T> = Result<T, Halt>;

impl Readers {
    /// Opens nothing yet. The database must be there, in WAL mode, when the first read comes.
    pub(super) fn new(options: &Options, database: &Path) -> Readers {
        Readers {
            shared: Arc::new(Shared {
                database: database.to_owned(),
                vfs: options.vfs.clone(),
                cache_bytes: options.reader_cache_bytes,
                limit_ms: options.read_limit_ms,
                encode_row: options.encode_row,
                opened: Instant::now(),
            }),
        }
    }

    /// What [`crate::Store::list`] promises.
    pub(super) fn list(&self, listing: Listing<'_>) -> Result<Snapshot<Listed>, StoreError> {
        self.with_reader(|reader| reader.list(&self.shared, listing))
    }

    /// What [`crate::Store::get`] promises.
    pub(super) fn get(&self, point: Point<'_>) -> Result<Snapshot<Option<Row>>, StoreError> {
        self.with_reader(|reader| reader.get(&self.shared, point))
    }

    fn with_reader<T>(&self, read: impl FnOnce(&Reader) -> Step<T>) -> Result<T, StoreError> {
        let shared = &self.shared;
        let result = OPEN.with_borrow_mut(|open| {
            let known = |(store, _): &(Weak<Shared>, Reader)| store.as_ptr() == Arc::as_ptr(shared);
            let position = if let Some(position) = open.iter().position(known) {
                position
            } else {
                // Connections of stores that are closed go when the next one comes.
                open.retain(|(store, _)| store.strong_count() > 0);
                open.push((Arc::downgrade(shared), Reader::open(shared)?));
                open.len() - 1
            };
            let reader = &open[position].1;
            reader.start(shared);
            read(reader)
        });
        result.map_err(|halt| shared.explain(halt))
    }
}

impl Shared {
    fn explain(&self, halt: Halt) -> StoreError {
        let error = match halt {
            Halt::Store(error) => return error,
            Halt::Database(error) => error,
        };
        // Nobody but the deadline interrupts a reading connection.
        if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) {
            return StoreError::Timeout {
                limit_ms: self.limit_ms,
            };
        }
        // A statement made for one schema meets a snapshot of another.
        let text = error.to_string();
        let gone = ["no such table", "no such column", "no such index"];
        if gone.iter().any(|what| text.contains(what)) {
            return StoreError::CatalogueMoved;
        }
        error.into()
    }
}

impl Reader {
    fn open(shared: &Shared) -> Step<Reader> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = match &shared.vfs {
            Some(vfs) => {
                Connection::open_with_flags_and_vfs(&shared.database, flags, vfs.as_str())?
            }
            None => Connection::open_with_flags(&shared.database, flags)?,
        };
        connection.busy_timeout(Duration::from_millis(shared.limit_ms))?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        // Sorted rows stay in memory; a mapped file would turn a read error into a signal.
        connection.execute_batch(&format!(
            "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA mmap_size = 0;
             PRAGMA temp_store = MEMORY; PRAGMA cache_size = -{};",
            shared.cache_bytes / 1_024
        ))?;
        keep_plans(&connection)?;
        functions::provide(&connection)?;
        let deadline_us = Arc::new(AtomicU64::new(u64::MAX));
        let (deadline, opened) = (deadline_us.clone(), shared.opened);
        connection.progress_handler(
            STEPS_PER_LOOK,
            Some(move || elapsed_us(opened) >= deadline.load(Ordering::Relaxed)),
        )?;
        Ok(Reader {
            connection,
            deadline_us,
        })
    }

    /// Sets the deadline of the read that begins now.
    fn start(&self, shared: &Shared) {
        let deadline_us = elapsed_us(shared.opened).saturating_add(shared.limit_ms * 1_000);
        self.deadline_us.store(deadline_us, Ordering::Relaxed);
    }

    fn list(&self, shared: &Shared, listing: Listing<'_>) -> Step<Snapshot<Listed>> {
        let query = listing.query;
        let mut statement = self.connection.prepare_cached(emit::stamp())?;
        // Open until the answer is complete: it holds the snapshot.
        let mut stamp = statement.query(())?;
        let mark = read_stamp(&mut stamp, listing.catalogue_epoch)?;
        let mut listed = Listed::default();
        if listing.rows {
            listed.rows = self.rows(shared, query)?;
        }
        if let Some(cap) = listing.total {
            listed.total = self.total(query, cap)?;
        }
        Ok(Snapshot {
            answer: listed,
            mark,
        })
    }

    fn rows(&self, shared: &Shared, query: &Query) -> Step<Vec<Row>> {
        let cursor = self.cursor(query)?;
        let statement = emit::rows(query, cursor.as_deref(), Dialect::Sqlite);
        let mut prepared = self.connection.prepare_cached(&statement.sql)?;
        let mut found = bind(&mut prepared, &statement.parameters)?;
        let shape = self.shape(shared, &query.table, &query.selection, query.at);
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            rows.push(shape.read(row, 0)?);
        }
        if query
            .cursor
            .as_ref()
            .is_some_and(|place| place.side == Side::Before)
        {
            rows.reverse();
        }
        Ok(rows)
    }

    /// The cursor row's place in the order.
    fn cursor(&self, query: &Query) -> Step<Option<Vec<Value>>> {
        let (Some(cursor), Some(statement)) =
            (&query.cursor, emit::cursor_row(query, Dialect::Sqlite))
        else {
            return Ok(None);
        };
        let id = || cursor.row.clone();
        let mut prepared = self.connection.prepare_cached(&statement.sql)?;
        let mut found = bind(&mut prepared, &statement.parameters)?;
        let row = found
            .next()?
            .ok_or_else(|| StoreError::CursorNotFound { id: id() })?;
        let mut values = Vec::with_capacity(query.order.len() + 1);
        for (position, key) in query.order.iter().enumerate() {
            let storage = field::storage(&query.table, key.field);
            match codec::single(row.get_ref(position)?, storage) {
                Some(Value::Null) => return Err(StoreError::CursorNull { id: id() }.into()),
                Some(value) => values.push(value),
                None => return Err(corrupt("an order column holds another type").into()),
            }
        }
        values.push(Value::Int(row.get(query.order.len())?));
        Ok(Some(values))
    }

    fn total(&self, query: &Query, cap: TotalCap) -> Step<u64> {
        let cap = match cap {
            TotalCap::None => None,
            TotalCap::UpTo(cap) => Some(cap),
        };
        let statement = emit::total(query, cap, Dialect::Sqlite);
        let mut prepared = self.connection.prepare_cached(&statement.sql)?;
        let mut found = bind(&mut prepared, &statement.parameters)?;
        let row = found
            .next()?
            .ok_or_else(|| corrupt("a count gave no row"))?;
        let count: i64 = row.get(0)?;
        Ok(count.unsigned_abs())
    }

    fn get(&self, shared: &Shared, point: Point<'_>) -> Step<Snapshot<Option<Row>>> {
        let Point {
            table,
            selection,
            visibility,
            ..
        } = point;
        let id = point.id.as_str();
        let shape = self.shape(shared, table, selection, point.at);
        if let Some(at) = point.at {
            let statement = emit::point_at(table, id, selection, visibility, at, Dialect::Sqlite);
            return self.get_at(&statement, &shape, point.catalogue_epoch);
        }
        let statement = emit::point(table, id, selection, visibility, Dialect::Sqlite);
        let mut prepared = self.connection.prepare_cached(&statement.sql)?;
        let mut found = bind(&mut prepared, &statement.parameters)?;
        let row = found.next()?.ok_or_else(no_stamp)?;
        let mark = stamp_of(row, point.catalogue_epoch)?;
        let mut answer = None;
        if row.get_ref(STAMP_COLUMNS)? != ValueRef::Null {
            answer = Some(shape.read(row, STAMP_COLUMNS)?);
        }
        Ok(Snapshot { answer, mark })
    }

    fn get_at(
        &self,
        statement: &Statement,
        shape: &Shape<'_>,
        catalogue_epoch: u64,
    ) -> Step<Snapshot<Option<Row>>> {
        let mut stamp_statement = self.connection.prepare_cached(emit::stamp())?;
        // Open until the answer is complete: it holds the snapshot.
        let mut stamp = stamp_statement.query(())?;
        let mark = read_stamp(&mut stamp, catalogue_epoch)?;
        let mut prepared = self.connection.prepare_cached(&statement.sql)?;
        let mut found = bind(&mut prepared, &statement.parameters)?;
        let mut answer = None;
        if let Some(row) = found.next()? {
            answer = Some(shape.read(row, 0)?);
        }
        Ok(Snapshot { answer, mark })
    }

    fn shape<'a>(
        &'a self,
        shared: &Shared,
        table: &'a model::Table,
        selection: &'a Selection,
        at: Option<Coordinates>,
    ) -> Shape<'a> {
        Shape {
            connection: &self.connection,
            encode_row: shared.encode_row,
            table,
            selection,
            is_now: at.is_none(),
        }
    }
}

/// Columns of a stamp, before those of the row in a point read.
const STAMP_COLUMNS: usize = 2;

fn read_stamp(stamp: &mut Rows<'_>, catalogue_epoch: u64) -> Step<Mark> {
    stamp_of(stamp.next()?.ok_or_else(no_stamp)?, catalogue_epoch)
}

fn stamp_of(row: &rusqlite::Row<'_>, catalogue_epoch: u64) -> Step<Mark> {
    let (mark, epoch): (i64, i64) = (row.get(0)?, row.get(1)?);
    if u64::try_from(epoch) != Ok(catalogue_epoch) {
        return Err(StoreError::CatalogueMoved.into());
    }
    Ok(Mark(mark))
}

fn no_stamp() -> StoreError {
    corrupt("the table `meta` has no row")
}

fn bind<'a>(
    prepared: &'a mut CachedStatement<'_>,
    parameters: &[Value],
) -> rusqlite::Result<Rows<'a>> {
    prepared.query(rusqlite::params_from_iter(parameters.iter().map(Bound)))
}

fn elapsed_us(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}
