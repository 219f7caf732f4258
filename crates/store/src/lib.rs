//! The `Store` border: what the engine asks of a database, and the databases behind it.
//!
//! Nothing above this crate knows which database answers. SQL text stands here and in
//! `query::emit` only. This crate knows nothing of roles, scopes, caches or HTTP.

use std::collections::BTreeMap;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use model::{
    Catalogue, Coordinates, Index, Mark, ProjectId, Row, RowId, RowRef, Selection, Table,
    TableNumber, Timestamp, Value,
};
use query::{Query, Visibility};

pub mod batch;
mod beside;
mod counts;
pub mod error;
pub mod execution_queue;
pub mod execution_record;
mod function_name;
pub mod function_op;
mod history_line;
mod json_list;
mod json_value;
mod laws;
mod list_read;
mod moving;
mod pending;
mod place;
mod plan_words;
mod postgres;
mod read_threads;
mod refusal;
mod row_op;
mod schema_record;
mod slow_shapes;
mod sqlite;
pub mod staged;
mod stored;
mod stored_catalogue;
mod stored_constraint;
pub mod tally;
mod turn;
mod vault;
#[cfg(test)]
mod working_set_tests;
mod written;

pub use batch::{
    Applied, CatalogueOp, Changes, Constraint, ConstraintChange, HoldOp, LinkOp, MatchingAct,
    MatchingOp, Op, Outcome, RelatedOp, SchemaChange, SpaceLimit, TableConstraints, WriteBatch,
};
pub use beside::DirectoryBeside;
pub use counts::{Counts, DatabaseCounts, LongReadCounts};
pub use error::{SortRoom, StoreError};
pub use execution_queue::{
    ChangedRow, ChangedRows, CursorOf, EventCursor, ExecutionRefusal, NewEvents, NewExecution,
    QUEUED_BYTES_MAX, QUEUED_MAX, QueueBounds, QueueOp, QueuedCall, QueuedExecution,
};
pub use execution_record::{ExecutionRecord, ExecutionStatus, ExecutionTrigger, Headers};
pub use function_name::FunctionName;
pub use function_op::{
    ArchivePart, ArchivePiece, Deployment, DeploymentAct, DeploymentRefusal, DeploymentStatus,
    FunctionOp, Variable,
};
pub use moving::{
    InspectedCopy, MoveStep, Moved, StoreCopy, inspect_copy, move_to_database, move_to_directory,
};
pub use pending::{Committed, InDoubt, Pending};
pub use place::StorePlace;
pub use postgres::{
    DatabaseFinding, DatabaseReads, DatabaseStore, DatabaseUrl, Maintained, UrlFault, Verdict,
    accept_restore, database_holder, database_holds_store, examine_database, maintain_database,
};
pub use refusal::{Container, Counted, Full, Refusal, VIOLATIONS_MAX, Violation, Violations};
pub use row_op::{Guard, InsertedBody, PeriodEnd, RowAct, RowAssertion, RowOp, Stamps};
pub use schema_record::{SchemaAct, SchemaRecord};
pub use sqlite::disk::directory::accept_loss;
pub use sqlite::history::{HistoryCount, HistoryFault, HistoryImport, HistoryMembers};
pub use sqlite::inspect::{DAMAGED_ROWS_MAX, Damage, Inspection, inspect};
pub use staged::{
    AnswerOf, Done, KeptRequest, Once, OperationsOf, Repeated, Share, Since, StagedOperation,
    Transaction, TransactionOp, TransactionRefusal, TransactionStatus,
};
pub use turn::{Preview, Standing, StoreWrites, Trial, WriteTurn};
pub use written::{Matched, TimedDone, WrittenRow};

/// The next instant at which a table's rows of now change by themselves, for tables that have one.
pub type Boundaries = Arc<BTreeMap<TableNumber, Timestamp>>;

/// Most rows that one call of [`WriteTurn::activate_due`] activates, and [`WriteTurn::apply`]
/// beside those that its batches name: writers wait for so many. Fewer where they hold 8 MiB.
pub const DUE_ROWS_MAX: usize = 1_000;

/// What a store call returns. An embedded store has the answer, long reads apart, before the future
/// is first polled.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// What the engine asks of a database: all of it. Each one must pass `tests/conformance.rs`.
///
/// One writer: turns are taken by one caller at a time, and no two [`Pending`] exist at once. Reads
/// come from anywhere, at any time.
pub trait Store:
    StoreReads
    + StoreAtOnce
    + StoreConstraints
    + StoreWrites
    + StoreTransactions
    + StoreFunctions
    + StoreExecutions
    + StoreUsage
    + StoreUpkeep
    + Send
    + Sync
{
}

impl<T> Store for T where
    T: StoreReads
        + StoreAtOnce
        + StoreConstraints
        + StoreWrites
        + StoreTransactions
        + StoreFunctions
        + StoreExecutions
        + StoreUsage
        + StoreUpkeep
        + Send
        + Sync
{
}

/// Reads, from anywhere and at any time.
pub trait StoreReads {
    /// One page, or its total, or both, on one snapshot.
    ///
    /// # Errors
    /// [`StoreError::CatalogueMoved`] when the snapshot was written under another catalogue than
    /// the query was resolved under; [`StoreError::HistoryGone`] when it looks below the line of
    /// its table; [`StoreError::CursorNotFound`], [`StoreError::CursorNull`];
    /// [`StoreError::AnswerTooLarge`] past [`Listing::bytes_max`];
    /// [`StoreError::Timeout`] past the limit the store was opened with;
    /// [`StoreError::ReadersBusy`] when too many long reads wait.
    fn list<'a>(&'a self, listing: Listing<'a>) -> StoreFuture<'a, Snapshot<Listed>>;

    /// One row by its id, on one snapshot; `None` when it is absent or not visible.
    ///
    /// # Errors
    /// As for [`StoreReads::list`], cursors apart.
    fn get<'a>(&'a self, point: Point<'a>) -> StoreFuture<'a, Snapshot<Option<Row>>>;

    /// A table with the columns and grants that it had at `mark`, which is settled, by the names of
    /// then; of a time before it was made, those it was made with. Number, epochs, options, and
    /// those of its indexes whose columns were there, are those of `today`.
    ///
    /// # Errors
    /// What the database says.
    fn table_as_of<'a>(&'a self, today: &'a Arc<Table>, mark: Mark) -> StoreFuture<'a, Arc<Table>>;

    /// The next instant after that of the coordinates at which rows, as known at their mark, come,
    /// end or become others; `None` where there is none.
    ///
    /// # Errors
    /// As for [`StoreReads::list`], cursors apart.
    fn next_boundary<'a>(&'a self, request: BoundaryOf<'a>) -> StoreFuture<'a, Option<Timestamp>>;

    /// Records of commits in the order of their marks; fewer than asked for once they hold very
    /// many rows.
    ///
    /// # Errors
    /// What the database says.
    fn recorded(&self, request: RecordsOf) -> StoreFuture<'_, Vec<Recorded>>;

    /// The mark of the last commit that erased a row of one of these tables, if any did. To be
    /// asked for after what it says something about was read.
    ///
    /// # Errors
    /// What the database says.
    fn last_erasure<'a>(&'a self, tables: &'a [TableNumber]) -> StoreFuture<'a, Option<Mark>>;

    /// How the rows of a list are found: the database's own plan, a step a line, with the words
    /// of the schema in it. It is not read for it. Empty where the store cannot tell.
    ///
    /// # Errors
    /// As for [`StoreReads::list`].
    fn explain<'a>(&'a self, _query: &'a Query) -> StoreFuture<'a, Vec<String>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Does work that takes long on a thread for long reads, in the share of callers without a key
    /// if it is `of_guest`. What it reads of this store is read there, and it learns by the flag
    /// when no caller waits for it any more.
    ///
    /// # Errors
    /// [`StoreError::ReadersBusy`] when too much of its kind waits; [`StoreError::Interrupted`].
    fn offload(&self, _kind: OffloadKind, _of_guest: bool, work: Work) -> StoreFuture<'static, ()> {
        work(&AtomicBool::new(false));
        Box::pin(ready(Ok(())))
    }
}

/// What may be read without waiting for anything.
pub trait StoreAtOnce {
    /// Reads that end on the thread that makes them, with no message to another process; `None`
    /// where there are none. Then a caller that cannot wait begins no read either: no caller
    /// would take its answer.
    fn at_once(&self) -> Option<&dyn ReadsAtOnce>;
}

/// Reads on the thread that makes them.
pub trait ReadsAtOnce {
    /// As [`StoreReads::get`], which is then ready when it is first polled: the row is shown once,
    /// if it is there, and the mark of the snapshot returned.
    ///
    /// # Errors
    /// As there; the row may have been shown by then.
    fn show_at_once(
        &self,
        point: Point<'_>,
        show: &mut dyn FnMut(RowRef<'_>),
    ) -> Result<Mark, StoreError>;

    /// Rows of now by the first of these keys, of at least one, in their order; `None` for each
    /// that is absent or not visible. All on one snapshot.
    ///
    /// # Errors
    /// As for [`StoreReads::list`], cursors and [`StoreError::AnswerTooLarge`] apart.
    fn points_at_once(&self, points: Points<'_>) -> Result<Snapshot<Vec<Option<Row>>>, StoreError>;
}

/// Reads of what must hold over valid time.
pub trait StoreConstraints {
    /// What must hold of a table's rows over valid time, as of the latest commit.
    ///
    /// # Errors
    /// What the database says.
    fn constraints(&self, table: TableNumber) -> StoreFuture<'_, TableConstraints>;

    /// The tables that references over valid time join with this one, over any number of tables;
    /// itself among them.
    ///
    /// # Errors
    /// What the database says.
    fn referring(&self, table: TableNumber) -> StoreFuture<'_, Vec<TableNumber>>;
}

/// Transactions of clients that are staged, and the requests that ran.
pub trait StoreTransactions {
    /// The transactions of a project, oldest first.
    fn transactions<'a>(&'a self, project: &'a ProjectId) -> StoreFuture<'a, Vec<Transaction>>;

    /// The transaction of this id with operations of it, as of one snapshot.
    fn transaction<'a>(
        &'a self,
        project: &'a ProjectId,
        id: &'a str,
        operations: OperationsOf<'a>,
    ) -> StoreFuture<'a, Option<Staged>>;

    /// The request that ran under this key as the first, or only, batch of it; also one whose time
    /// is over, until it is removed.
    fn kept_request<'a>(
        &'a self,
        project: &'a ProjectId,
        key: &'a str,
    ) -> StoreFuture<'a, Option<KeptRequest>>;
}

/// What belongs to functions.
pub trait StoreFunctions {
    /// The variables of the function of this [`model::Function::seq`], in the order of their
    /// creation, without the values of secret ones.
    ///
    /// # Errors
    /// [`StoreError::KeyMissing`], [`StoreError::SealBroken`] when a value cannot be opened.
    fn variables(&self, function: i64) -> StoreFuture<'_, Vec<Variable>>;

    /// Lets the key that seals variables be in this file, in place of one beside the data. Called
    /// before the first of them is read or written.
    fn name_variables_key(&self, file: std::path::PathBuf);

    /// As [`StoreFunctions::variables`], with the values of secret ones.
    fn revealed_variables(&self, function: i64) -> StoreFuture<'_, Vec<Variable>>;

    /// The deployments of a function in the order of their creation.
    fn deployments(&self, function: i64) -> StoreFuture<'_, Vec<Deployment>>;

    /// The deployment of a function that was created last.
    fn latest_deployment(&self, function: i64) -> StoreFuture<'_, Option<Deployment>>;

    /// The piece of a deployment that begins at `from`; `None` behind the last one, and where it is
    /// gone: pieces of a deleted deployment go in no order.
    fn piece(
        &self,
        deployment: i64,
        part: ArchivePart,
        from: u64,
    ) -> StoreFuture<'_, Option<ArchivePiece>>;

    /// Where the pieces of a deployment's archive begin, and how many bytes they have, in order.
    fn source_extents(&self, deployment: i64) -> StoreFuture<'_, Vec<(u64, u64)>>;

    /// The deployment that has waited for its build the longest, with [`model::Function::seq`] of
    /// its function: none of the functions `except`.
    fn next_build<'a>(&'a self, except: &'a [i64]) -> StoreFuture<'a, Option<(i64, Deployment)>>;
}

/// Executions that wait, and records of those that have ended.
pub trait StoreExecutions {
    /// What waits of a function, or runs from the queue, in the order in which it was queued.
    fn queued_executions(&self, function: i64) -> StoreFuture<'_, Vec<QueuedExecution>>;

    /// The one of this id.
    fn queued_execution<'a>(
        &'a self,
        function: i64,
        id: &'a str,
    ) -> StoreFuture<'a, Option<QueuedExecution>>;

    /// What may be started at an instant, with [`model::Function::seq`] of its function: the one
    /// that is due the longest first, at most `limit`, and none of the functions `except`.
    fn due_executions<'a>(
        &'a self,
        now: Timestamp,
        except: &'a [i64],
        limit: usize,
    ) -> StoreFuture<'a, Vec<(i64, QueuedExecution)>>;

    /// The last minute of a function's schedule that was queued, or when the schedule began.
    fn schedule_minute(&self, function: i64) -> StoreFuture<'_, Option<Timestamp>>;

    /// The next changes of rows behind the cursor of a project, up to that of the rest, or behind
    /// that of the rest; at most `limit`. `None` while no function listens, and where the project
    /// has no cursor of its own.
    fn changed_rows<'a>(
        &'a self,
        of: Option<&'a ProjectId>,
        limit: usize,
    ) -> StoreFuture<'a, Option<ChangedRows>>;

    /// What the handler of an execution is given, by [`QueuedExecution::seq`]; `None` where it is
    /// gone.
    ///
    /// # Errors
    /// [`StoreError::KeyMissing`], [`StoreError::KeyWrong`]; [`StoreError::SealBroken`] when the
    /// key is right, and it cannot be opened nevertheless.
    fn queued_call(
        &self,
        function: i64,
        seq: i64,
    ) -> StoreFuture<'_, Option<(QueuedExecution, QueuedCall)>>;

    /// The newest records of a function, at most [`execution_record::RECORDS_LISTED_MAX`], in the
    /// order in which they were kept, without headers and logs.
    fn executions(&self, function: i64) -> StoreFuture<'_, Vec<ExecutionRecord>>;

    /// The record of this id.
    fn execution<'a>(
        &'a self,
        function: i64,
        id: &'a str,
    ) -> StoreFuture<'a, Option<ExecutionRecord>>;
}

/// What a store holds, and what it has at work. One that does not count says so by zeros.
pub trait StoreUsage {
    /// Bytes of the pages that are in use, of all projects and their past together.
    fn data_bytes(&self) -> StoreFuture<'_, u64> {
        Box::pin(std::future::ready(Ok(0)))
    }

    /// How many bytes the versions of each table hold, present and past. Tables that were made
    /// before this was counted hold those that were counted so far.
    fn table_bytes(&self) -> StoreFuture<'_, Vec<(TableNumber, u64)>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// The transactions of clients that are open, of all projects together; those that have expired
    /// and were not removed yet included.
    fn open_transactions(&self) -> StoreFuture<'_, OpenTransactions> {
        Box::pin(std::future::ready(Ok(OpenTransactions::default())))
    }

    /// Bytes of the answers that are kept for requests which may be sent again.
    fn kept_answer_bytes(&self) -> StoreFuture<'_, u64> {
        Box::pin(std::future::ready(Ok(0)))
    }

    /// What is at work, and what waits. A store that counts nothing says so by zeros.
    fn counts(&self) -> Counts {
        Counts::default()
    }
}

/// What came of what was done for an index outside of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexBuildEnd {
    /// [`SchemaChange::BuildIndex`] can follow.
    Ready,
    /// It is to be unique, and rows have equal values: [`SchemaChange::FailIndex`] is to follow.
    NotUnique,
}

/// What a store knows when it is opened, what is to be done outside of turns, and its end.
pub trait StoreUpkeep {
    /// All containers, and the marks to go on from, as of the latest commit.
    fn load(&self) -> StoreFuture<'_, Loaded>;

    /// Does what an index needs outside of any commit, before the batch with
    /// [`SchemaChange::BuildIndex`] that makes it available; writes go on meanwhile. Begun again,
    /// it takes up, or clears away, what an earlier one left; dropped, it is called off. Nothing is
    /// needed where that batch itself builds.
    ///
    /// # Errors
    /// What the database says. It may be tried again.
    fn build(&self, _table: &Arc<Table>, _index: u32) -> StoreFuture<'static, IndexBuildEnd> {
        Box::pin(ready(Ok(IndexBuildEnd::Ready)))
    }

    /// Why the database cannot be reached, if it cannot; the last try may be a moment ago.
    fn outage(&self) -> Option<StoreError> {
        None
    }

    /// Whether this process keeps the right to write as long as the store is open. Where another
    /// one can get it while nothing is written here, a turn now and then shows that.
    fn keeps_its_turn(&self) -> bool {
        true
    }

    /// Does what only serves later reads. Called when all that was written is answered and nothing
    /// waits to be written, so that no commit waits for it.
    fn rest(&self) {}

    /// Ends background work and closes the database; `horizon` is the highest mark ever read,
    /// and replaces what was reserved ahead.
    fn close(&self, horizon: Mark) -> StoreFuture<'_, ()>;
}

/// Transactions of clients that are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenTransactions {
    /// How many.
    pub count: u64,
    /// Bytes of the operations that are staged in them.
    pub bytes: u64,
}

/// Work for a thread for long reads.
pub type Work = Box<dyn FnOnce(&AtomicBool) + Send>;

/// What kind of work a thread for long reads is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffloadKind {
    /// It reads, and waits for its turn as reads do.
    Read,
    /// It makes an answer of what was read, which is held until it is done: so it goes before
    /// reads.
    Answer,
}

/// Of what the next boundary is asked for.
#[derive(Clone, Copy, Debug)]
pub struct BoundaryOf<'a> {
    /// Of which table.
    pub table: &'a Arc<Table>,
    /// Of this row alone.
    pub id: Option<&'a RowId>,
    /// After which instant, as known when; the mark must be settled.
    pub at: Coordinates,
    /// [`Catalogue::epoch`] of the catalogue the table was taken from.
    pub catalogue_epoch: u64,
}

/// Whether a record is wanted, by its author and by what that said of the commit.
pub type RecordFilter = dyn Fn(Option<&str>, Option<&str>) -> bool + Send + Sync;

/// Which records of commits are read.
#[derive(Clone)]
pub struct RecordsOf {
    /// With marks above this.
    pub after: Mark,
    /// And up to this.
    pub upto: Mark,
    /// At most so many.
    pub limit: u32,
    /// Of this database, by [`model::Database::seq`]: what was noted for it.
    pub database: i64,
    /// What changed it, or a table of it, and what changed rows of these tables; rows of others
    /// are left out.
    pub tables: Vec<TableNumber>,
    /// Of these the ones that changed rows of this table, or this row of it.
    pub changed: Option<(TableNumber, Option<RowId>)>,
    /// Of these the ones for which this holds; damaged metadata counts as none.
    pub filter: Option<Arc<RecordFilter>>,
}

/// The record of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its mark.
    pub mark: Mark,
    /// What its author said of it.
    pub meta: Option<String>,
    /// Whether that is damaged, and none therefore.
    pub is_damaged: bool,
    /// Who wrote.
    pub author: Option<String>,
    /// How many rows it erased.
    pub erased: Option<u64>,
    /// The rows it changed, but those that were erased since.
    pub rows: Vec<(TableNumber, String)>,
    /// How it changed the database, in order.
    pub schema: Vec<SchemaRecord>,
}

/// A transaction and operations of it, in the order of their effect.
pub type Staged = (Transaction, Vec<StagedOperation>);

/// What a store knows when it is opened.
#[derive(Debug)]
pub struct Loaded {
    /// All containers.
    pub catalogue: Catalogue,
    /// The mark of the latest commit; [`Mark::ZERO`] if there was none.
    pub mark: Mark,
    /// The highest mark that may ever have been read or given.
    pub horizon: Mark,
    /// The identity of this store's one history.
    pub lineage: String,
    /// How many milliseconds passed between the latest commit and the opening of the store, asleep
    /// or awake; `None` where that is not known, as after a start of the machine.
    pub rest_ms: Option<u64>,
    /// The next valid-time boundary of each table that has one.
    pub boundaries: Boundaries,
}

/// A list to read.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that is asked for, or not"
)]
#[derive(Clone, Copy, Debug)]
pub struct Listing<'a> {
    /// What to list.
    pub query: &'a Query,
    /// Whether the rows are wanted.
    pub rows: bool,
    /// Whether the total is wanted, and up to what it is counted.
    pub total: Option<TotalCap>,
    /// Whether [`Listed::last_place`] is wanted with the rows.
    pub place: bool,
    /// Most bytes that the rows may take, by [`Row::size_bytes`].
    pub bytes_max: usize,
    /// [`Catalogue::epoch`] of the catalogue the query was resolved under.
    pub catalogue_epoch: u64,
    /// Whether it is for a caller without a key: such have a part of the threads for long reads.
    pub of_guest: bool,
    /// Whether a row of which encrypted values are damaged is shown without them, where columns and
    /// [`model::Span::damaged`] are selected; otherwise such a row refuses the list.
    pub shows_damaged: bool,
}

/// How far matches are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TotalCap {
    /// All of them.
    None,
    /// Up to this many.
    UpTo(u64),
}

/// What [`StoreReads::list`] found; what was not asked for is empty or 0.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// Matches of the filter, whatever the page.
    pub total: u64,
    /// Of a page with as many rows as its limit: what the row that was read last has in each key
    /// of [`Query::read_order`].
    pub last_place: Option<Vec<Value>>,
    /// Rows that a read of whole tables went through, as far as the store counts them: none where
    /// an index led to the rows. Page and total are read apart, so a row may count twice.
    pub scanned: u64,
}

/// A row to read.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// Its table.
    pub table: &'a Arc<Table>,
    /// Its id.
    pub id: &'a RowId,
    /// What is shown of it.
    pub selection: &'a Selection,
    /// Which rows the actor may see.
    pub visibility: &'a Visibility,
    /// The coordinates; `None` is now, as known now.
    pub at: Option<model::Coordinates>,
    /// Whether it comes with where it stands in time; at coordinates only.
    pub shows_span: bool,
    /// [`Catalogue::epoch`] of the catalogue the table was taken from.
    pub catalogue_epoch: u64,
}

/// Rows of now of one table, each by a key.
#[derive(Clone, Copy, Debug)]
pub struct Points<'a> {
    /// Their table.
    pub table: &'a Arc<Table>,
    /// Their keys, of which there is one.
    pub keys: PointKeys<'a>,
    /// What is shown of them.
    pub selection: &'a Selection,
    /// Which rows the actor may see.
    pub visibility: &'a Visibility,
    /// No further row is read once those before it take so many bytes, by [`Row::size_bytes`].
    pub bytes_enough: usize,
    /// [`Catalogue::epoch`] of the catalogue the table was taken from.
    pub catalogue_epoch: u64,
}

/// What rows are read by.
#[derive(Clone, Copy, Debug)]
pub enum PointKeys<'a> {
    /// Their ids.
    Ids(&'a [&'a RowId]),
    /// Of a unique index that can be used, for each row a value for each column. None is null.
    Of(&'a Index, &'a [Vec<Value>]),
}

impl PointKeys<'_> {
    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "there is one at least")]
    pub fn len(&self) -> usize {
        match self {
            PointKeys::Ids(ids) => ids.len(),
            PointKeys::Of(_, keys) => keys.len(),
        }
    }
}

/// An answer, and the mark of the snapshot it was read from.
#[derive(Clone, Debug)]
pub struct Snapshot<T> {
    /// The answer.
    pub answer: T,
    /// The mark that stood in the snapshot.
    pub mark: Mark,
}

/// Encodes a row's columns into the body that is kept beside them and copied on reading. Given
/// by the caller that opens the store; the only encoder a store calls.
pub type EncodeRow = fn(&Table, &[model::Value], &mut Vec<u8>);

/// What must have happened before a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The disk has synced it: it survives a power cut.
    Full,
    /// It survives the death of the process; a power cut may take the last milliseconds, never
    /// the consistency.
    Normal,
}

/// What becomes of reads that are not short. No limit has a default here: the caller decides.
#[derive(Clone, Copy, Debug)]
pub struct LongReads {
    /// After how many microseconds a read counts as long: it is given up on the thread that asks
    /// and begun again on one for long reads, where its shape begins for the next minute.
    pub after_us: u64,
    /// Threads for long reads, each with a connection and a page cache of its own; at least 1.
    pub threads: usize,
    /// Most long reads of callers with a key that wait for one of them, and as many answers; those
    /// without a key have half as many places of their own.
    pub waiting_max: usize,
}

/// How to open a store. No limit has a default here: the caller decides.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it is. A directory is created if absent, and locked while the store is open.
    pub place: StorePlace,
    /// What a commit waits for.
    pub durability: Durability,
    /// The encoder of row bodies.
    pub encode_row: EncodeRow,
    /// Page cache of each reading thread, in bytes.
    pub reader_cache_bytes: u64,
    /// Longest run of one read, in milliseconds.
    pub read_limit_ms: u64,
    /// What becomes of reads that are not short.
    pub long_reads: LongReads,
    /// The name of a registered file system layer to go through; tests record and fail it.
    pub vfs: Option<String>,
}

/// Opens the store in `options.place`.
///
/// # Errors
/// [`StoreError::Locked`] when another process holds the place, [`StoreError::Format`] when
/// a newer Tidemark wrote it, [`StoreError::DatabaseMissing`] or [`StoreError::CommitsLost`] when
/// it held more before, [`StoreError::Io`] when it cannot be read or written,
/// [`StoreError::PlaceUnfit`] when it is no directory.
pub fn open(options: Options) -> Result<Arc<dyn Store>, StoreError> {
    sqlite::open(options)
}
