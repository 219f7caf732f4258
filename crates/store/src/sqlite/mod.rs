//! The embedded store: SQLite in the process, one writer, readers on the threads that ask.
//!
//! Every call does its work before it returns, and the futures are finished from the start, long
//! reads apart: those are done by threads of their own. The
//! writer's connection is handed from call to call: to a [`Pending`] and back, so that nothing
//! else can be written while one exists.
//!
//! The folders are floors, and each imports those below it only (`tidy` holds them to it). From
//! the ground: `disk`, the files and SQLite over them; `schema`, what is stored and how; `read`;
//! `write`, what the operations of a batch do; `constraint`, what must hold when all of them are
//! done; `commit`, the one writer; `upkeep`, what is left to do between commits. What a batch runs
//! with (`write/run.rs`) gets its methods on several floors: the order in which they are called
//! stands in `commit/perform.rs`.

pub(crate) mod commit;
pub(crate) mod constraint;
pub(crate) mod disk;
pub(crate) mod history;
pub(crate) mod inspect;
mod preview;
mod read;
pub(crate) mod schema;
pub(crate) mod upkeep;
pub(crate) mod write;

use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use model::{Mark, ProjectId, Row, RowRef, Table, TableNumber, Timestamp};
use query::Query;
use rusqlite::config::DbConfig;
use rusqlite::wal::CheckpointMode;

use self::commit::writer::Writer;
use self::disk::checkpoint::{self, Checkpointer};
use self::disk::connection::{self, Location};
use self::disk::directory::{Directory, directory_of, expect_own};
use self::disk::kept::{Keeping, Kept};
use self::disk::keys;
use self::read::Readers;
use self::schema::coding::Coding;
use self::schema::{catalogue_read, fulltext, migrate};
use crate::batch::{Changes, Outcome, TableConstraints, WriteBatch};
use crate::vault::Vault;
use crate::{
    ArchivePart, ArchivePiece, Boundaries, BoundaryOf, ChangedRows, Committed, Counts, Deployment,
    Durability, ExecutionRecord, InDoubt, KeptRequest, Listed, Listing, Loaded, OffloadKind,
    OpenTransactions, OperationsOf, Options, Pending, Point, Points, Preview, QueuedCall,
    QueuedExecution, ReadsAtOnce, Recorded, RecordsOf, Snapshot, Staged, Standing, Store,
    StoreAtOnce, StoreConstraints, StoreError, StoreExecutions, StoreFunctions, StoreFuture,
    StoreReads, StoreTransactions, StoreUpkeep, StoreUsage, StoreWrites, Transaction, Trial,
    Variable, Work, WriteTurn,
};

/// The store behind the border.
struct SqliteStore {
    shared: Arc<Shared>,
    readers: Readers,
    checkpointer: Mutex<Option<Checkpointer>>,
}

/// What a [`Pending`] holds on to.
struct Shared {
    writer: Mutex<Slot>,
    database: PathBuf,
    vfs: Option<String>,
    /// See [`Loaded::rest_ms`].
    rest_ms: Option<u64>,
    // Given up last: until no connection writes any more, the files have this one owner.
    directory: Mutex<Option<Directory>>,
}

/// Where the writer is.
enum Slot {
    /// Here, with no transaction open.
    Free(Box<Writer>),
    /// With a call, or with a [`Pending`].
    Taken,
    /// Gone for good.
    Closed,
}

pub(crate) fn open(options: Options) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(SqliteStore::open(options)?))
}

impl SqliteStore {
    fn open(options: Options) -> Result<SqliteStore, StoreError> {
        let directory = Directory::open(directory_of(&options.place)?)?;
        expect_own(directory.path())?;
        history::site::settle(directory.path())?;
        let kept = Kept::read(directory.path());
        let database = directory.database()?;
        let location = Location {
            database: &database,
            vfs: options.vfs.as_deref(),
        };
        let is_log_left = checkpoint::is_log_left(location);
        let coding = Coding {
            encode_row: options.encode_row,
            vault: Arc::new(look(location, kept.as_ref(), directory.path())?),
            variables: Arc::new(Vault::of_variables(directory.path())),
        };
        let mut connection = connection::open_writer(location, options.durability)?;
        migrate::migrate(&mut connection)?;
        let known = catalogue_read::load(&connection)?;
        fulltext::renew(&mut connection, &known.state.catalogue)?;
        let (backlog, checkpointer) = checkpoint::start(&mut connection, location, is_log_left)?;
        let mark = known.state.mark;
        let is_durable = options.durability == Durability::Full;
        let at = (mark, &*known.lineage);
        let keeping = Keeping::begin(directory.path(), at, kept.as_ref(), is_durable);
        let writer = Writer::new(connection, coding.clone(), known.state, backlog, keeping)?;
        let readers = Readers::new(&options, &database, coding);
        let shared = Shared {
            writer: Mutex::new(Slot::Free(Box::new(writer))),
            database,
            vfs: options.vfs,
            rest_ms: kept.and_then(|kept| kept.rest_ms(mark)),
            directory: Mutex::new(Some(directory)),
        };
        Ok(SqliteStore {
            shared: Arc::new(shared),
            readers,
            checkpointer: Mutex::new(Some(checkpointer)),
        })
    }
}

/// Refuses a database that this binary must not touch, that has lost commits, or whose key is not
/// there. What is refused stays as it is, its log included, which the last connection to go would
/// carry over otherwise.
fn look(
    location: Location<'_>,
    kept: Option<&Kept>,
    directory: &Path,
) -> Result<Vault, StoreError> {
    let connection = connection::open(location)?;
    let stays = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    connection.set_db_config(stays, true)?;
    migrate::check(&connection)?;
    if let Some(kept) = kept {
        kept.check(&connection)?;
    }
    let vault = keys::vault_of(directory, &connection)?;
    connection.set_db_config(stays, false)?;
    Ok(vault)
}

impl Shared {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.writer
            .lock()
            .expect("the slot is held for assignments only")
    }

    /// # Errors
    /// When the store is closed.
    fn take(&self) -> Result<Box<Writer>, StoreError> {
        let mut slot = self.slot();
        match std::mem::replace(&mut *slot, Slot::Taken) {
            Slot::Free(writer) => Ok(writer),
            Slot::Taken => panic!("one writer at a time, and no call while a Pending exists"),
            Slot::Closed => {
                *slot = Slot::Closed;
                Err(closed())
            }
        }
    }

    /// What the writer goes on from.
    ///
    /// # Errors
    /// When the store is closed.
    fn standing(&self) -> Result<Standing, StoreError> {
        match &*self.slot() {
            Slot::Free(writer) => Ok(Standing {
                mark: writer.committed.mark,
                catalogue_epoch: writer.committed.catalogue.epoch,
                others: 0,
            }),
            Slot::Taken => panic!("one writer at a time, and no turn while a Pending exists"),
            Slot::Closed => Err(closed()),
        }
    }

    fn give_back(&self, writer: Box<Writer>) {
        let mut slot = self.slot();
        if !matches!(*slot, Slot::Closed) {
            *slot = Slot::Free(writer);
        }
    }

    /// Lends the writer to one call.
    fn with_writer<T>(
        &self,
        call: impl FnOnce(&mut Writer) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut lent = Lent::new(self)?;
        call(lent.writer())
    }

    fn give_up_directory(&self) {
        self.directory
            .lock()
            .expect("held for one assignment only")
            .take();
    }

    fn load(&self) -> Result<Loaded, StoreError> {
        let location = Location {
            database: &self.database,
            vfs: self.vfs.as_deref(),
        };
        let known = catalogue_read::load(&connection::open(location)?)?;
        Ok(Loaded {
            catalogue: Arc::unwrap_or_clone(known.state.catalogue),
            mark: known.state.mark,
            horizon: known.state.horizon,
            lineage: known.lineage,
            rest_ms: self.rest_ms,
            boundaries: known.state.boundaries,
        })
    }
}

/// The writer while a call has it. Where that panics, what it has begun is taken back.
struct Lent<'a> {
    shared: &'a Shared,
    writer: Option<Box<Writer>>,
}

impl<'a> Lent<'a> {
    fn new(shared: &'a Shared) -> Result<Lent<'a>, StoreError> {
        let writer = Some(shared.take()?);
        Ok(Lent { shared, writer })
    }

    fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().expect("taken by `keep` alone")
    }

    /// The writer, which is not given back.
    fn keep(mut self) -> Box<Writer> {
        self.writer.take().expect("taken by this alone")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(mut writer) = self.writer.take() {
            if std::thread::panicking() {
                writer.rollback();
            }
            self.shared.give_back(writer);
        }
    }
}

fn closed() -> StoreError {
    StoreError::Io {
        detail: "the store is closed".to_owned(),
    }
}

impl StoreAtOnce for SqliteStore {
    fn at_once(&self) -> Option<&dyn ReadsAtOnce> {
        Some(self)
    }
}

impl ReadsAtOnce for SqliteStore {
    fn show_at_once(
        &self,
        point: Point<'_>,
        show: &mut dyn FnMut(RowRef<'_>),
    ) -> Result<Mark, StoreError> {
        self.readers.show(point, show)
    }

    fn points_at_once(&self, points: Points<'_>) -> Result<Snapshot<Vec<Option<Row>>>, StoreError> {
        self.readers.points(points)
    }
}

impl StoreReads for SqliteStore {
    fn list<'a>(&'a self, listing: Listing<'a>) -> StoreFuture<'a, Snapshot<Listed>> {
        self.readers.list(listing)
    }

    fn get<'a>(&'a self, point: Point<'a>) -> StoreFuture<'a, Snapshot<Option<Row>>> {
        Box::pin(ready(self.readers.get(point)))
    }

    fn table_as_of<'a>(&'a self, today: &'a Arc<Table>, mark: Mark) -> StoreFuture<'a, Arc<Table>> {
        Box::pin(ready(self.readers.table_as_of(today, mark)))
    }

    fn next_boundary<'a>(&'a self, request: BoundaryOf<'a>) -> StoreFuture<'a, Option<Timestamp>> {
        self.readers.next_boundary(request)
    }

    fn recorded(&self, request: RecordsOf) -> StoreFuture<'_, Vec<Recorded>> {
        self.readers.recorded(request)
    }

    fn last_erasure<'a>(&'a self, tables: &'a [TableNumber]) -> StoreFuture<'a, Option<Mark>> {
        Box::pin(ready(self.readers.last_erasure(tables)))
    }

    fn explain<'a>(&'a self, query: &'a Query) -> StoreFuture<'a, Vec<String>> {
        Box::pin(ready(self.readers.explain(query)))
    }

    fn offload(&self, kind: OffloadKind, of_guest: bool, work: Work) -> StoreFuture<'static, ()> {
        self.readers.offload(kind, of_guest, work)
    }
}

impl StoreWrites for SqliteStore {
    fn turn(&self) -> StoreFuture<'_, Box<dyn WriteTurn + '_>> {
        let turn = self
            .shared
            .standing()
            .map(|standing| -> Box<dyn WriteTurn + '_> {
                Box::new(SqliteTurn {
                    store: self,
                    standing,
                })
            });
        Box::pin(ready(turn))
    }
}

/// A turn costs nothing: the files have one owner.
struct SqliteTurn<'s> {
    store: &'s SqliteStore,
    standing: Standing,
}

impl WriteTurn for SqliteTurn<'_> {
    fn standing(&self) -> Standing {
        self.standing
    }

    fn apply<'a>(
        self: Box<Self>,
        batches: &'a [WriteBatch],
        first: Mark,
    ) -> StoreFuture<'a, Box<dyn Pending>>
    where
        Self: 'a,
    {
        Box::pin(ready(self.store.begin(batches, first)))
    }

    fn activate_due<'a>(self: Box<Self>, instant: Timestamp) -> StoreFuture<'a, Box<dyn Pending>>
    where
        Self: 'a,
    {
        Box::pin(ready(self.store.begin_due(instant)))
    }

    fn preview<'a>(
        self: Box<Self>,
        trials: &'a [Trial],
        first: Mark,
        limit_ms: u64,
    ) -> StoreFuture<'a, Box<dyn Preview>>
    where
        Self: 'a,
    {
        let shared = &self.store.shared;
        Box::pin(ready(preview::begin(shared, trials, first, limit_ms)))
    }

    fn reserve<'a>(self: Box<Self>, horizon: Mark) -> StoreFuture<'a, ()>
    where
        Self: 'a,
    {
        let stored = self.store.shared.with_writer(|writer| {
            let horizon = horizon.max(writer.committed.horizon);
            writer.store_horizon(horizon)
        });
        Box::pin(ready(stored))
    }

    fn rewind<'a>(self: Box<Self>) -> StoreFuture<'a, ()>
    where
        Self: 'a,
    {
        Box::pin(ready(self.store.shared.with_writer(Writer::rewind)))
    }

    fn run_upkeep<'a>(self: Box<Self>) -> StoreFuture<'a, bool>
    where
        Self: 'a,
    {
        Box::pin(ready(self.store.shared.with_writer(Writer::run_upkeep)))
    }
}

impl StoreConstraints for SqliteStore {
    fn constraints(&self, table: TableNumber) -> StoreFuture<'_, TableConstraints> {
        Box::pin(ready(self.readers.constraints(table)))
    }

    fn referring(&self, table: TableNumber) -> StoreFuture<'_, Vec<TableNumber>> {
        Box::pin(ready(self.readers.referring(table)))
    }
}

impl StoreTransactions for SqliteStore {
    fn transactions<'a>(&'a self, project: &'a ProjectId) -> StoreFuture<'a, Vec<Transaction>> {
        Box::pin(ready(self.readers.transactions(project)))
    }

    fn transaction<'a>(
        &'a self,
        project: &'a ProjectId,
        id: &'a str,
        operations: OperationsOf<'a>,
    ) -> StoreFuture<'a, Option<Staged>> {
        Box::pin(ready(self.readers.transaction(project, id, operations)))
    }

    fn kept_request<'a>(
        &'a self,
        project: &'a ProjectId,
        key: &'a str,
    ) -> StoreFuture<'a, Option<KeptRequest>> {
        Box::pin(ready(self.readers.kept_request(project, key)))
    }
}

impl StoreFunctions for SqliteStore {
    fn variables(&self, function: i64) -> StoreFuture<'_, Vec<Variable>> {
        Box::pin(ready(self.readers.variables(function, false)))
    }

    fn name_variables_key(&self, file: PathBuf) {
        self.readers.name_variables_key(file);
    }

    fn revealed_variables(&self, function: i64) -> StoreFuture<'_, Vec<Variable>> {
        Box::pin(ready(self.readers.variables(function, true)))
    }

    fn deployments(&self, function: i64) -> StoreFuture<'_, Vec<Deployment>> {
        Box::pin(ready(self.readers.deployments(function)))
    }

    fn latest_deployment(&self, function: i64) -> StoreFuture<'_, Option<Deployment>> {
        Box::pin(ready(self.readers.latest_deployment(function)))
    }

    fn piece(
        &self,
        deployment: i64,
        part: ArchivePart,
        from: u64,
    ) -> StoreFuture<'_, Option<ArchivePiece>> {
        Box::pin(ready(self.readers.piece(deployment, part, from)))
    }

    fn source_extents(&self, deployment: i64) -> StoreFuture<'_, Vec<(u64, u64)>> {
        Box::pin(ready(self.readers.source_extents(deployment)))
    }

    fn next_build<'a>(&'a self, except: &'a [i64]) -> StoreFuture<'a, Option<(i64, Deployment)>> {
        Box::pin(ready(self.readers.next_build(except)))
    }
}

impl StoreExecutions for SqliteStore {
    fn queued_executions(&self, function: i64) -> StoreFuture<'_, Vec<QueuedExecution>> {
        Box::pin(ready(self.readers.queued_executions(function)))
    }

    fn queued_execution<'a>(
        &'a self,
        function: i64,
        id: &'a str,
    ) -> StoreFuture<'a, Option<QueuedExecution>> {
        Box::pin(ready(self.readers.queued_execution(function, id)))
    }

    fn due_executions<'a>(
        &'a self,
        now: Timestamp,
        except: &'a [i64],
        limit: usize,
    ) -> StoreFuture<'a, Vec<(i64, QueuedExecution)>> {
        Box::pin(ready(self.readers.due_executions(now, except, limit)))
    }

    fn schedule_minute(&self, function: i64) -> StoreFuture<'_, Option<Timestamp>> {
        Box::pin(ready(self.readers.schedule_minute(function)))
    }

    fn changed_rows<'a>(
        &'a self,
        of: Option<&'a ProjectId>,
        limit: usize,
    ) -> StoreFuture<'a, Option<ChangedRows>> {
        Box::pin(ready(self.readers.changed_rows(of, limit)))
    }

    fn queued_call(
        &self,
        function: i64,
        seq: i64,
    ) -> StoreFuture<'_, Option<(QueuedExecution, QueuedCall)>> {
        Box::pin(ready(self.readers.queued_call(function, seq)))
    }

    fn executions(&self, function: i64) -> StoreFuture<'_, Vec<ExecutionRecord>> {
        Box::pin(ready(self.readers.executions(function)))
    }

    fn execution<'a>(
        &'a self,
        function: i64,
        id: &'a str,
    ) -> StoreFuture<'a, Option<ExecutionRecord>> {
        Box::pin(ready(self.readers.execution(function, id)))
    }
}

impl StoreUsage for SqliteStore {
    fn data_bytes(&self) -> StoreFuture<'_, u64> {
        Box::pin(ready(self.readers.data_bytes()))
    }

    fn table_bytes(&self) -> StoreFuture<'_, Vec<(TableNumber, u64)>> {
        Box::pin(ready(self.readers.table_bytes()))
    }

    fn open_transactions(&self) -> StoreFuture<'_, OpenTransactions> {
        Box::pin(ready(self.readers.open_transactions()))
    }

    fn kept_answer_bytes(&self) -> StoreFuture<'_, u64> {
        Box::pin(ready(self.readers.kept_answer_bytes()))
    }

    fn counts(&self) -> Counts {
        let checkpointer = self.checkpointer.lock();
        let checkpointer = checkpointer.expect("held for one assignment only");
        let backlog = checkpointer.as_ref().map(Checkpointer::backlog_bytes);
        Counts {
            log_backlog_bytes: backlog.unwrap_or_default(),
            damaged: self.readers.damaged(),
            long_reads: self.readers.long_reads(),
            database: None,
        }
    }
}

impl StoreUpkeep for SqliteStore {
    fn load(&self) -> StoreFuture<'_, Loaded> {
        Box::pin(ready(self.shared.load()))
    }

    fn rest(&self) {
        let rested = self.shared.with_writer(|writer| {
            writer.rest();
            Ok(())
        });
        // A store that is closed has no readers any more.
        let _ = rested;
    }

    fn close(&self, horizon: Mark) -> StoreFuture<'_, ()> {
        Box::pin(ready(self.close_at(horizon)))
    }
}

impl SqliteStore {
    fn begin(&self, batches: &[WriteBatch], first: Mark) -> Result<Box<dyn Pending>, StoreError> {
        let mut lent = Lent::new(&self.shared)?;
        let outcomes = lent.writer().apply(batches, first)?;
        Ok(self.applying(lent.keep(), outcomes))
    }

    fn begin_due(&self, instant: Timestamp) -> Result<Box<dyn Pending>, StoreError> {
        let mut lent = Lent::new(&self.shared)?;
        lent.writer().begin_due(instant)?;
        Ok(self.applying(lent.keep(), Vec::new()))
    }

    fn applying(&self, mut writer: Box<Writer>, outcomes: Vec<Outcome>) -> Box<dyn Pending> {
        Box::new(Applying {
            shared: Arc::clone(&self.shared),
            due: writer.take_due(),
            boundaries: Arc::clone(&writer.state().boundaries),
            writer: Some(writer),
            outcomes,
        })
    }

    fn close_at(&self, horizon: Mark) -> Result<(), StoreError> {
        // An open snapshot would keep the log from being carried over.
        self.readers.close();
        self.shared.with_writer(|writer| {
            if writer.is_stopped() {
                // What was reserved stands higher.
                return Ok(());
            }
            writer.store_horizon(horizon)
        })?;
        let writer = self.shared.take()?;
        *self.shared.slot() = Slot::Closed;
        let (connection, mut keeping) = writer.into_connection();
        self.join_checkpointer();
        // Everything is durable already: where this fails, the log is carried over at the next
        // start.
        let carried = connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE);
        if carried.is_ok() {
            keeping.carried_over();
        }
        drop(connection);
        self.shared.give_up_directory();
        Ok(())
    }

    fn join_checkpointer(&self) {
        let mut slot = self
            .checkpointer
            .lock()
            .expect("held for one assignment only");
        if let Some(checkpointer) = slot.take() {
            checkpointer.join();
        }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        let slot = std::mem::replace(&mut *self.shared.slot(), Slot::Closed);
        if let Slot::Free(writer) = slot {
            drop(writer);
            self.join_checkpointer();
        }
        // A writer that is taken ends with its `Pending`, and then the thread ends by itself.
    }
}

/// An open transaction with its outcomes.
struct Applying {
    shared: Arc<Shared>,
    /// `None` once the transaction has ended.
    writer: Option<Box<Writer>>,
    outcomes: Vec<Outcome>,
    due: Vec<Changes>,
    boundaries: Boundaries,
}

impl Pending for Applying {
    fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    fn due(&self) -> &[Changes] {
        &self.due
    }

    fn boundaries(&self) -> Boundaries {
        Arc::clone(&self.boundaries)
    }

    fn commit(mut self: Box<Self>) -> StoreFuture<'static, Committed> {
        let mut lent = Lent {
            shared: &self.shared,
            writer: self.writer.take(),
        };
        let committed = lent.writer().commit();
        drop(lent);
        let outcomes = std::mem::take(&mut self.outcomes);
        Box::pin(ready(match committed {
            Ok(()) => Ok(Committed::Done(outcomes)),
            Err(cause @ StoreError::OutcomeUnknown { .. }) => {
                Ok(Committed::Unknown(Box::new(UntilRestart {
                    outcomes,
                    cause,
                })))
            }
            Err(error) => Err(error),
        }))
    }
}

/// A commit that could neither be made durable nor be taken back. What the log holds of it, the
/// next start finds.
struct UntilRestart {
    outcomes: Vec<Outcome>,
    cause: StoreError,
}

impl InDoubt for UntilRestart {
    fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    fn cause(&self) -> &StoreError {
        &self.cause
    }

    fn ask(&mut self) -> StoreFuture<'_, bool> {
        Box::pin(ready(Err(self.cause.clone())))
    }
}

impl Drop for Applying {
    fn drop(&mut self) {
        if let Some(mut writer) = self.writer.take() {
            writer.rollback();
            self.shared.give_back(writer);
        }
    }
}
