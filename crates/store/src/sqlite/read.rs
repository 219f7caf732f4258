//! Reads: each thread has a connection of its own, opened for reading only.
//!
//! A read begins on the caller's thread, which costs less than handing it over. One that
//! turns out long is given up there and begun again on a thread for long reads, so that it holds
//! up no other request; and its shape begins there for a while.
//!
//! Every answer is read from one snapshot. A statement that is still open keeps its snapshot
//! open, and with it that of every other statement of the connection; so the statement that
//! reads the stamp stays open until the answer is complete, and no transaction is begun.

use std::cell::{Cell, RefCell};
use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use model::{Coordinates, Mark, Row, RowRef, Selection, Timestamp, Value};
use query::emit::{self, Statement};
use query::{Dialect, Frame, Query, Side, UniqueKey, Visibility, field};
use rusqlite::ffi::ErrorCode;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Rows, StatementStatus};

use super::disk::connection::keep_plans;
use super::disk::functions;
use super::disk::sorts;
use super::read::cursor::cursor_values;
use super::read::point::PointTexts;
use super::read::row::Shape;
use super::read::row_statement::{RowStatements, Stamp};
use super::read::statements::{Prepared, Statements};
use super::read::watch::Limit;
use super::schema::bind::Bound;
use super::schema::codec;
use super::schema::coding::Coding;
use crate::error::corrupt;
use crate::history_line;
use crate::list_read::{self, ListingBudget, OwnedListing};
use crate::read_threads::{self, Pool, WAIT_MAX};
use crate::slow_shapes::SlowShapes;
use crate::{
    Listed, Listing, LongReadCounts, OffloadKind, Options, Point, Points, Snapshot, StoreError,
    StoreFuture, TotalCap, Work,
};

mod boundary;
mod constraints;
pub(super) mod cursor;
mod erasures;
mod explain;
mod functions_of;
mod past;
mod point;
mod points;
pub(super) mod preview;
mod records;
mod row;
mod row_statement;
pub(super) mod staged;
mod statements;
mod watch;

/// Statements that a reading connection keeps prepared: the shapes of queries in use at once.
const STATEMENTS_MAX: usize = 512;
/// Longest text of a statement that is planned on the caller's thread: some fifty tests,
/// which took 1.5 ms at worst.
const PLANNED_HERE_MAX: usize = 8 << 10;
/// Longest text of any statement for a query.
const SQL_BYTES_MAX: usize = 128 << 10;
/// Whose long reads are that only callers with a key may ask for, and the server's own.
const OF_KEYS: bool = false;

/// Everything that reading connections of one store have in common.
pub(super) struct Readers {
    shared: Arc<Shared>,
    pool: Pool,
}

struct Shared {
    this: Weak<Shared>,
    database: PathBuf,
    vfs: Option<String>,
    cache_bytes: u64,
    limit_ms: u64,
    /// How long a read may take on the caller's thread.
    short: Duration,
    coding: Coding,
    slow: SlowShapes,
    long_threads: usize,
}

/// One thread's connection.
struct Reader {
    /// Before the connection, so that they end before it.
    row_statements: RefCell<RowStatements>,
    connection: Connection,
    statements: Statements,
    points: PointTexts,
    /// Rows that whole tables were read through for, since the read that runs now began.
    scanned: Cell<u64>,
}

thread_local! {
    /// This thread's connections, one for each store it has read; in tests there are several.
    static OPEN: RefCell<Vec<(Weak<Shared>, Reader)>> = const { RefCell::new(Vec::new()) };
}

/// Why a read ended early.
enum Halt {
    Database(rusqlite::Error),
    Store(StoreError),
    /// It is too long for this thread.
    Long,
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
    pub(super) fn new(options: &Options, database: &Path, coding: Coding) -> Readers {
        Readers {
            shared: Arc::new_cyclic(|this| Shared {
                this: this.clone(),
                database: database.to_owned(),
                vfs: options.vfs.clone(),
                cache_bytes: options.reader_cache_bytes,
                limit_ms: options.read_limit_ms,
                short: Duration::from_micros(options.long_reads.after_us),
                coding,
                slow: SlowShapes::new(),
                long_threads: options.long_reads.threads,
            }),
            pool: Pool::new(options.long_reads),
        }
    }

    /// What [`crate::StoreReads::list`] promises.
    pub(super) fn list<'a>(&self, listing: Listing<'a>) -> StoreFuture<'a, Snapshot<Listed>> {
        let shared = &self.shared;
        if let Some(key) = list_read::unique_key(&listing) {
            let answer = self.short_point(|reader| reader.list_by_key(shared, listing, &key));
            return Box::pin(ready(answer));
        }
        // One text may take a pattern long, and all words of one beginning are one step of the
        // index of words: neither has a step at which a short read is given up.
        let may_be_short = !listing.query.has_patterns()
            && !listing.query.has_searches()
            && read_threads::stop_of_this().is_none();
        if may_be_short && let Some(answer) = shared.short(|reader| reader.list(shared, listing)) {
            return Box::pin(ready(answer));
        }
        let owned = OwnedListing::new(listing);
        self.long(listing.of_guest, move |shared, reader| {
            reader.list(shared, owned.listing())
        })
    }

    /// What [`crate::StoreReads::get`] promises. A point read goes through indexes to one row, so
    /// it is short whatever it reads; so is a list by a unique key.
    pub(super) fn get(&self, point: Point<'_>) -> Result<Snapshot<Option<Row>>, StoreError> {
        self.short_point(|reader| reader.get(&self.shared, point))
    }

    /// What [`crate::ReadsAtOnce::show_at_once`] promises.
    pub(super) fn show(
        &self,
        point: Point<'_>,
        show: &mut dyn FnMut(RowRef<'_>),
    ) -> Result<Mark, StoreError> {
        self.short_point(|reader| reader.show(&self.shared, point, show))
    }

    /// What [`crate::ReadsAtOnce::points_at_once`] promises.
    pub(super) fn points(
        &self,
        points: Points<'_>,
    ) -> Result<Snapshot<Vec<Option<Row>>>, StoreError> {
        self.short_point(|reader| reader.points(&self.shared, points))
    }

    fn short_point<T>(&self, read: impl FnOnce(&Reader) -> Step<T>) -> Result<T, StoreError> {
        let shared = &self.shared;
        let limit = Limit::Short(Duration::MAX, shared.stop_after());
        let answer = shared.with_reader(limit, read);
        answer.map_err(|halt| shared.explain(halt))
    }

    /// Reads on a thread for long reads.
    fn long<'a, T: Send + 'static>(
        &self,
        of_guest: bool,
        read: impl FnOnce(&Shared, &Reader) -> Step<T> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        let (shared, start) = (self.shared.clone(), Instant::now());
        let waiting_max = self.pool.waiting_max(of_guest);
        let read = move |stop: Arc<AtomicBool>| {
            if start.elapsed() >= WAIT_MAX {
                return Err(StoreError::ReadersBusy { waiting_max });
            }
            let limit = Limit::Long(shared.stop_after(), stop.clone());
            let answer = shared.with_reader(limit, |reader| read(&shared, reader));
            answer.map_err(|halt| match shared.explain(halt) {
                // Its time was not over, but the store's.
                StoreError::Timeout { .. } if stop.load(Ordering::Relaxed) => {
                    StoreError::Interrupted
                }
                error => error,
            })
        };
        // A thread for long reads that waited for another one could wait for ever.
        if let Some(stop) = read_threads::stop_of_this() {
            return Box::pin(ready(read(stop)));
        }
        match self.pool.run(OffloadKind::Read, of_guest, read) {
            Ok(waiting) => Box::pin(waiting),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    /// What [`crate::StoreReads::offload`] promises.
    pub(super) fn offload(
        &self,
        kind: OffloadKind,
        of_guest: bool,
        work: Work,
    ) -> StoreFuture<'static, ()> {
        match self.pool.offload(kind, of_guest, work) {
            Ok(waiting) => waiting,
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    /// What is at work on threads for long reads.
    /// See [`crate::Counts::damaged`].
    pub(super) fn damaged(&self) -> u64 {
        self.shared.coding.vault.broken_count()
    }

    pub(super) fn long_reads(&self) -> LongReadCounts {
        self.pool.counts()
    }

    /// Ends the threads for long reads, and what they read.
    pub(super) fn close(&self) {
        self.pool.close();
    }
}

impl Shared {
    /// Reads on this thread; `None` when that would take, or took, too long.
    fn short<T>(&self, read: impl FnOnce(&Reader) -> Step<T>) -> Option<Result<T, StoreError>> {
        let limit = Limit::Short(self.short, self.stop_after());
        match self.with_reader(limit, read) {
            Ok(answer) => Some(Ok(answer)),
            Err(Halt::Long) => None,
            Err(halt) => Some(Err(self.explain(halt))),
        }
    }

    fn with_reader<T>(
        self: &Shared,
        limit: Limit,
        read: impl FnOnce(&Reader) -> Step<T>,
    ) -> Step<T> {
        OPEN.with_borrow_mut(|open| {
            let known = |(store, _): &(Weak<Shared>, Reader)| std::ptr::eq(store.as_ptr(), self);
            let position = if let Some(position) = open.iter().position(known) {
                position
            } else {
                // Connections of stores that are closed go when the next one comes.
                open.retain(|(store, _)| store.strong_count() > 0);
                open.push((self.this.clone(), Reader::open(self)?));
                open.len() - 1
            };
            watch::begin(limit);
            read(&open[position].1)
        })
    }

    /// Longest run of any read.
    fn stop_after(&self) -> Duration {
        Duration::from_millis(self.limit_ms)
    }

    fn explain(&self, halt: Halt) -> StoreError {
        let error = match halt {
            Halt::Store(error) => return error,
            Halt::Database(error) => error,
            Halt::Long => unreachable!("only short reads end so, and those begin again"),
        };
        // Only its limit, or that no caller waits, interrupts a reading connection.
        if is_interrupted(&error) {
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
        let layer = sorts::over(shared.vfs.as_deref()).ok_or_else(|| StoreError::Io {
            detail: "no file system layer for sorts".to_owned(),
        })?;
        let mut connection =
            Connection::open_with_flags_and_vfs(&shared.database, flags, layer.as_str())?;
        connection.busy_timeout(Duration::from_millis(shared.limit_ms))?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        // The files of sorts are in memory; a mapped one would turn a read error into a signal.
        connection.execute_batch(&format!(
            "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA mmap_size = 0;
             PRAGMA temp_store = FILE; PRAGMA cache_size = -{};",
            shared.cache_bytes / 1_024
        ))?;
        keep_plans(&connection)?;
        functions::provide(&connection)?;
        watch::over(&mut connection)?;
        Ok(Reader {
            row_statements: RefCell::default(),
            connection,
            statements: Statements::new(shared.long_threads),
            points: PointTexts::default(),
            scanned: Cell::new(0),
        })
    }

    fn list(&self, shared: &Shared, listing: Listing<'_>) -> Step<Snapshot<Listed>> {
        let query = listing.query;
        self.scanned.set(0);
        let mut statement = self.connection.prepare_cached(emit::stamp())?;
        // Open until the answer is complete: it holds the snapshot.
        let mut stamp = statement.query(())?;
        let mark = read_stamp(&mut stamp, listing.catalogue_epoch)?;
        let settled = self.settled(query)?;
        let query = settled.as_ref().unwrap_or(query);
        history_line::check_query(query, mark)?;
        let mut listed = Listed::default();
        if listing.rows {
            let listing = Listing { query, ..listing };
            (listed.rows, listed.last_place) = self.rows(shared, listing)?;
        }
        if let Some(cap) = listing.total {
            listed.total = self.total(shared, query, cap)?;
        }
        listed.scanned = self.scanned.get();
        Ok(Snapshot {
            answer: listed,
            mark,
        })
    }

    /// A list that one key decides: a point read, whose text is the same for every key.
    fn list_by_key(
        &self,
        shared: &Shared,
        listing: Listing<'_>,
        key: &UniqueKey<'_>,
    ) -> Step<Snapshot<Listed>> {
        let (query, epoch) = (listing.query, listing.catalogue_epoch);
        let (table, selection, visibility) = (&query.table, &query.selection, &query.visibility);
        let shape = self.shape(shared, table, selection, true);
        let values = || rusqlite::params_from_iter(key.values.iter().map(|value| Bound(value)));
        let is_common = (selection, visibility) == (&Selection::All, &Visibility::Everything);
        let Snapshot { answer, mark } = if is_common {
            let text = self.points.now_by_key(table, key);
            let mut prepared = self.connection.prepare_cached(&text.sql)?;
            point_of(prepared.query(values())?, &shape, epoch)?
        } else {
            let statement = emit::point_by_key(table, key, selection, visibility, Dialect::Sqlite);
            let mut prepared = self.prepare(&statement.sql)?;
            point_of(bind(&mut prepared, &statement.parameters)?, &shape, epoch)?
        };
        if let Some(row) = &answer {
            ListingBudget::of(listing).take(row)?;
        }
        let total = u64::from(answer.is_some());
        let listed = Listed {
            total: listing.total.map_or(0, |_| total),
            rows: answer.into_iter().collect(),
            ..Listed::default()
        };
        Ok(Snapshot {
            answer: listed,
            mark,
        })
    }

    /// A query for what is due by an instant, if this snapshot shows what came in after that
    /// already: it is then for what is due by the last of it.
    fn settled(&self, query: &Query) -> Step<Option<Query>> {
        let Frame::Due(now) = query.frame else {
            return Ok(None);
        };
        let activated = activated(&self.connection)?;
        Ok((activated > now).then(|| Query {
            frame: Frame::Due(activated),
            ..query.clone()
        }))
    }

    /// The rows, and, if it is wanted and the page is full, where the one read last stands.
    fn rows(&self, shared: &Shared, listing: Listing<'_>) -> Step<(Vec<Row>, Option<Vec<Value>>)> {
        let Listing {
            query,
            place,
            shows_damaged,
            ..
        } = listing;
        let cursor = cursor_values::<Halt>(&self.connection, query)?;
        let statement = if place {
            emit::rows_in_place(query, cursor.as_deref(), Dialect::Sqlite)
        } else {
            emit::rows(query, cursor.as_deref(), Dialect::Sqlite)
        };
        let is_now = query.reads_bodies();
        let shape = Shape {
            shows_span: query.shows_span,
            shows_end: query.frame.shows_end(),
            shows_damaged,
            ..self.shape(shared, &query.table, &query.selection, is_now)
        };
        let (mut rows, last_place) = self.by_shape(shared, &statement, |found| {
            let (mut rows, mut last_place) = (Vec::new(), None);
            let mut budget = ListingBudget::of(listing);
            while let Some(row) = found.next()? {
                let one = shape.read(row, 0)?;
                watch::moved(budget.take(&one)?)?;
                rows.push(one);
                if place && rows.len() == query.limit as usize {
                    last_place = Some(place_of(row, query)?);
                }
            }
            Ok((rows, last_place))
        })?;
        if query
            .cursor
            .as_ref()
            .is_some_and(|place| place.side == Side::Before)
        {
            rows.reverse();
        }
        Ok((rows, last_place))
    }

    /// Reads by one statement. A short read that meets a shape known to be long ends at once, and
    /// one that is given up makes its shape known. A long one that turns out short unmakes it: the
    /// disk, or a busy machine, had held the other one up.
    fn by_shape<T>(
        &self,
        shared: &Shared,
        statement: &Statement,
        read: impl FnOnce(&mut Rows<'_>) -> Step<T>,
    ) -> Step<T> {
        let is_short = watch::is_short();
        // Nothing interrupts the planning of a long statement, and it may take milliseconds.
        let is_long_text = statement.sql.len() > PLANNED_HERE_MAX;
        if is_short && (is_long_text || shared.slow.contains(&statement.sql)) {
            return Err(Halt::Long);
        }
        let mut prepared = self.prepare(&statement.sql)?;
        let mut found = bind(&mut prepared, &statement.parameters)?;
        let before = (!is_short).then(watch::used);
        let answer = if is_short {
            watch::count(|| read(&mut found))
        } else {
            read(&mut found)
        };
        drop(found);
        let steps = prepared.reset_status(StatementStatus::FullscanStep);
        self.scanned
            .set(self.scanned.get() + u64::from(steps.unsigned_abs()));
        match (answer, before) {
            (Err(Halt::Database(error)), None) if is_interrupted(&error) => {
                shared.slow.remember(&statement.sql);
                Err(Halt::Long)
            }
            (Ok(answer), Some(before)) => {
                // Half, so that shapes on the border do not go to and fro.
                if watch::used().saturating_sub(before) < shared.short / 2 {
                    shared.slow.forget(&statement.sql);
                }
                Ok(answer)
            }
            (answer, _) => answer,
        }
    }

    /// Prepares a statement whose text depends on what a client asked.
    fn prepare(&self, sql: &str) -> Step<Prepared<'_>> {
        if sql.len() > SQL_BYTES_MAX {
            let bytes_max = SQL_BYTES_MAX;
            return Err(StoreError::QueryTooLong { bytes_max }.into());
        }
        Ok(self.statements.prepare(&self.connection, sql)?)
    }

    fn total(&self, shared: &Shared, query: &Query, cap: TotalCap) -> Step<u64> {
        let cap = match cap {
            TotalCap::None => None,
            TotalCap::UpTo(cap) => Some(cap),
        };
        let statement = emit::total(query, cap, Dialect::Sqlite);
        self.by_shape(shared, &statement, |found| {
            let row = found
                .next()?
                .ok_or_else(|| corrupt("a count gave no row"))?;
            let count: i64 = row.get(0)?;
            Ok(count.unsigned_abs())
        })
    }

    fn show(
        &self,
        shared: &Shared,
        point: Point<'_>,
        show: &mut dyn FnMut(RowRef<'_>),
    ) -> Step<Mark> {
        if is_common(point) {
            return self.show_common(shared, point, show);
        }
        let Snapshot { answer, mark } = self.get(shared, point)?;
        if let Some(row) = &answer {
            show(row.borrowed());
        }
        Ok(mark)
    }

    /// A whole row of now, for a caller that sees all: it is shown as it stands in the database.
    fn show_common(
        &self,
        shared: &Shared,
        point: Point<'_>,
        show: &mut dyn FnMut(RowRef<'_>),
    ) -> Step<Mark> {
        let shape = self.shape(shared, point.table, point.selection, true);
        let (id, epoch) = (point.id.as_str(), point.catalogue_epoch);
        let mut statements = self.row_statements.borrow_mut();
        let (statement, latest) = statements.of(&self.connection, point.table)?;
        let read_stamp = || -> Step<Stamp> {
            let mut stamp = self.connection.prepare_cached(emit::stamp())?;
            Ok(stamp.query_row((), |row| Ok((row.get(0)?, row.get(1)?)))?)
        };
        let shown = statement.row(&self.connection, id, |row| {
            let mark = stamped(latest.or_read(&self.connection, read_stamp)?, epoch)?;
            shape.show(row, show)?;
            Ok(mark)
        })?;
        if let Some(mark) = shown {
            return Ok(mark);
        }
        // Without a row there is no snapshot left whose stamp could be read.
        let mut stamp_statement = self.connection.prepare_cached(emit::stamp())?;
        let mut stamp = stamp_statement.query(())?;
        let mark = self::read_stamp(&mut stamp, epoch)?;
        statement.row(&self.connection, id, |row| shape.show(row, show))?;
        Ok(mark)
    }

    fn get(&self, shared: &Shared, point: Point<'_>) -> Step<Snapshot<Option<Row>>> {
        let Point {
            table,
            selection,
            visibility,
            ..
        } = point;
        if is_common(point) {
            let mut found = None;
            let mark = self.show_common(shared, point, &mut |row| found = Some(row::kept(row)))?;
            let answer = found.transpose()?;
            return Ok(Snapshot { answer, mark });
        }
        let id = point.id.as_str();
        let sees_all = (selection, visibility) == (&Selection::All, &Visibility::Everything);
        let shape = self.shape(shared, table, selection, point.at.is_none());
        if let Some(at) = point.at {
            let shows_span = point.shows_span;
            let shape = Shape {
                shows_span,
                ..shape
            };
            let answered = (at, point.catalogue_epoch);
            if sees_all {
                let text = self.points.past(table, at, shows_span);
                let values = [
                    Value::Text(id.to_owned()),
                    Value::Int(at.system.0),
                    Value::Instant(at.valid),
                ];
                return self.get_at((&text.sql, &text.order(&values)), &shape, answered);
            }
            let shown = (selection, shows_span);
            let statement = emit::point_at(table, id, shown, visibility, at, Dialect::Sqlite);
            let statement = (&*statement.sql, &*statement.parameters);
            return self.get_at(statement, &shape, answered);
        }
        let statement = emit::point(table, id, selection, visibility, Dialect::Sqlite);
        let mut prepared = self.prepare(&statement.sql)?;
        let found = bind(&mut prepared, &statement.parameters)?;
        point_of(found, &shape, point.catalogue_epoch)
    }

    fn get_at(
        &self,
        (sql, parameters): (&str, &[Value]),
        shape: &Shape<'_>,
        (at, catalogue_epoch): (Coordinates, u64),
    ) -> Step<Snapshot<Option<Row>>> {
        let mut stamp_statement = self.connection.prepare_cached(emit::stamp())?;
        // Open until the answer is complete: it holds the snapshot.
        let mut stamp = stamp_statement.query(())?;
        let mark = read_stamp(&mut stamp, catalogue_epoch)?;
        history_line::check(shape.table, at, mark)?;
        let mut prepared = self.prepare(sql)?;
        let mut found = bind(&mut prepared, parameters)?;
        let mut answer = None;
        if let Some(row) = found.next()? {
            answer = Some(shape.read(row, 0)?);
        }
        Ok(Snapshot { answer, mark })
    }

    fn shape<'a>(
        &'a self,
        shared: &'a Shared,
        table: &'a model::Table,
        selection: &'a Selection,
        is_now: bool,
    ) -> Shape<'a> {
        Shape {
            connection: &self.connection,
            coding: &shared.coding,
            table,
            selection,
            is_now,
            shows_span: false,
            shows_end: false,
            shows_damaged: false,
        }
    }
}

/// Where a row of [`emit::rows_in_place`] stands.
fn place_of(row: &rusqlite::Row<'_>, query: &Query) -> Step<Vec<Value>> {
    list_read::place_of(query, row.as_ref().column_count(), |position, of| {
        let value = codec::single(row.get_ref(position)?, field::storage(&query.table, of));
        Ok(value.ok_or_else(|| corrupt("an order column holds another type"))?)
    })
}

/// Columns of a stamp, before those of the row in a point read.
const STAMP_COLUMNS: usize = 2;

/// The last instant of which the rows of now show anything.
fn activated(connection: &Connection) -> rusqlite::Result<Timestamp> {
    let mut statement = connection.prepare_cached("SELECT x_at FROM meta")?;
    statement.query_row((), |row| row.get(0)).map(Timestamp)
}

fn read_stamp(stamp: &mut Rows<'_>, catalogue_epoch: u64) -> Step<Mark> {
    stamp_of(stamp.next()?.ok_or_else(no_stamp)?, catalogue_epoch)
}

/// The row of a statement of [`emit::point`], whatever its stamp.
fn row_of_point(mut found: Rows<'_>, shape: &Shape<'_>) -> Step<Option<Row>> {
    let row = found.next()?.ok_or_else(no_stamp)?;
    if row.get_ref(STAMP_COLUMNS)? == ValueRef::Null {
        return Ok(None);
    }
    shape.read(row, STAMP_COLUMNS).map(Some)
}

/// The answer of a statement of [`emit::point`].
fn point_of(
    mut found: Rows<'_>,
    shape: &Shape<'_>,
    catalogue_epoch: u64,
) -> Step<Snapshot<Option<Row>>> {
    let row = found.next()?.ok_or_else(no_stamp)?;
    let mark = stamp_of(row, catalogue_epoch)?;
    let mut answer = None;
    if row.get_ref(STAMP_COLUMNS)? != ValueRef::Null {
        answer = Some(shape.read(row, STAMP_COLUMNS)?);
    }
    Ok(Snapshot { answer, mark })
}

/// Whether a point is of the commonest kind: a whole row of now, for a caller that sees all.
fn is_common(point: Point<'_>) -> bool {
    let common = (&Selection::All, &Visibility::Everything);
    point.at.is_none() && (point.selection, point.visibility) == common
}

fn stamp_of(row: &rusqlite::Row<'_>, catalogue_epoch: u64) -> Step<Mark> {
    stamped((row.get(0)?, row.get(1)?), catalogue_epoch)
}

fn stamped((mark, epoch): (i64, i64), catalogue_epoch: u64) -> Step<Mark> {
    if u64::try_from(epoch) != Ok(catalogue_epoch) {
        return Err(StoreError::CatalogueMoved.into());
    }
    Ok(Mark(mark))
}

fn no_stamp() -> StoreError {
    corrupt("the table `meta` has no row")
}

fn bind<'a>(
    prepared: &'a mut rusqlite::Statement<'_>,
    parameters: &[Value],
) -> rusqlite::Result<Rows<'a>> {
    prepared.query(rusqlite::params_from_iter(parameters.iter().map(Bound)))
}

fn is_interrupted(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}
