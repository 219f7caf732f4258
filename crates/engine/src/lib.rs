//! The use cases: may they? is it cached? read or commit, tell the others.
//!
//! One conductor: the engine asks the rooms below in a fixed order, and no room calls back up.
//! It knows nothing of HTTP, of wire words, or of which database answers.
//!
//! Its folders stand on one another, and none imports one above it: `error`, `state`, `request`,
//! `commit`, `schema`, `read`, `write`, `transactions`.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};

use list_cache::ListCache;
use model::{Catalogue, Mark, Page, TableOptions};

mod commit;
mod error;
mod functions;
pub mod limits;
mod read;
mod request;
mod schema;
mod staged_transactions;
mod state;
mod write;

pub use commit::mailbox::take_answers;
pub use commit::quota::{Quotas, Taken};
pub use error::{
    AccessError, ColumnFault, EngineError, FunctionError, IndexFault, PIECES_MAX, ReadError,
    SchemaError, TransactionError, Unavailable, WriteError,
};
pub use functions::{
    Build, DeploymentUpload, EVENT_DEPTH_MAX, EventRequest, EventSlice, Executable, FunctionInput,
    FunctionOptionsInput, FunctionShown, QueuedRequest, RUNTIMES, SPECIFICATIONS, STARTS_MAX,
    Schedules, Specification, StartedExecution, UploadRange, VariableInput, failed_execution,
};
pub use list_cache::{Counts as ListCounts, Family};
pub use query::json::{JsonBudget, read as read_json, read_within as read_json_within};
pub use query::{Frame, QueryError, instant, mark};
pub use read::batch_read::{BATCH_ROWS_READ_MAX, BatchPart, BatchRead, WantedRows};
pub use read::coordinates::PreparedPast;
pub use read::explained::Explained;
pub use read::export::{ExportPage, ExportStart};
pub use read::hit_audit::{Compared, Difference, Part, Report};
pub use read::offload::OFFLOAD_BYTES_MIN;
pub use read::pinned::PinnedPage;
pub use read::prepared::{PreparedList, PreparedTable};
pub use read::view::{RowAnswer, View};
pub use request::callers::Identity;
pub use request::inputs::{
    Cached, Caller, CallingFunction, ColumnChange, Effect, Fixed, GrantsAsOf, ListAnswer,
    ListContainers, ListRows, Listed, NewColumn, NewIndex, NewTable, Place, Request, RowInput,
    TableChange, WriteAnswer,
};
pub use schema::constraints::{NamedChange, NamedConstraints};
pub use schema::definition::{column_type, index_status, index_type};
pub use schema::indexes::IndexOf;
pub use schema::options::OptionsChange;
pub use schema::projects::NewKey;
pub use schema::relations::{NewRelationship, RelationshipChange};
pub use schema::tables::define;
pub use staged_transactions::{
    Echo, TRANSACTION_TTL_S_DEFAULT, TRANSACTION_TTL_S_MAX, TRANSACTION_TTL_S_MIN, Transaction,
    TransactionStatus, status_text,
};
pub use state::clock::Clock;
pub use state::clock_guard::DRIFT_MAX_US;
pub use state::observed::{ShapeCounts, SlowQuery, TellSlow};
#[cfg(feature = "test-switches")]
pub use state::shared::ErasureFault;
pub use state::tally::Writes;
pub use store::staged::Bound as TransactionsBound;
pub use store::{
    ArchivePart, ArchivePiece, Counted, Counts as StoreCounts, DAMAGED_ROWS_MAX, Damage,
    DatabaseFinding, DatabaseUrl, Deployment, DeploymentStatus, DirectoryBeside, Durability,
    EncodeRow, ExecutionRecord, ExecutionStatus, ExecutionTrigger, HistoryCount, HistoryFault,
    HistoryImport, HistoryMembers, Inspection, LongReadCounts, LongReads, Maintained, MoveStep,
    Moved, QUEUED_BYTES_MAX, QUEUED_MAX, QueueBounds, QueuedExecution, SchemaAct, SchemaRecord,
    SortRoom, StoreError, StorePlace, UrlFault, Variable, Verdict, Violation, Violations,
    accept_loss, accept_restore, database_holder, database_holds_store, examine_database, inspect,
    inspect_copy, maintain_database, move_to_database, move_to_directory, tally,
};
pub use write::batch_write::BatchWrite;
pub use write::bulk::{Bulk, Bulked};
pub use write::import::{LinkColumn, RowLinks};
pub use write::increment::Increment;
pub use write::operation::{Act, Operation};
pub use write::temporal::{CommitRecord, Pieces, PiecesRead, RECORDS_MAX, RecordsWanted};
pub use write::temporal_transaction::{
    META_BYTES_MAX, OPERATIONS_MAX, RowClaim, TimedTransaction, Transacted, TransactionAct,
    TransactionOp,
};
pub use write::undo::{COMMITS_UNDONE_MAX, ROWS_UNDONE_MAX, RowUndo, ToUndo, UndoStep};

use commit::quota::Held;
use commit::writer::Writer;
use read::hit_audit::{Hit, HitAudit};
use state::clock_guard::ClockGuard;
use state::marks::Marks;
use state::observed::Observed;
use state::shared::Shared;

/// Turns a page into the bytes of its rows, joined by commas. Given by the rim at start, so the
/// cache can hold finished bytes while no code in here knows a wire shape.
pub type EncodePage = fn(&Page, Family) -> Vec<u8>;

/// How to open an engine. No limit has a default here: the caller decides.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the store is.
    pub place: StorePlace,
    /// What a commit waits for.
    pub durability: Durability,
    /// Page cache of each reading thread, in bytes.
    pub reader_cache_bytes: u64,
    /// Longest run of one read, in milliseconds.
    pub read_limit_ms: u64,
    /// What becomes of reads that are not short.
    pub long_reads: LongReads,
    /// Rows of a page when a query names no limit.
    pub page_rows_default: u32,
    /// Most rows of a page.
    pub page_rows_max: u32,
    /// Most bytes of the rows of one answer.
    pub answer_bytes_max: usize,
    /// Totals are counted up to this; 0 counts all.
    pub total_cap: u64,
    /// Capacity of the list cache in bytes; 0 switches it off.
    pub list_cache_bytes: u64,
    /// Most write requests that may wait for a commit.
    pub writes_waiting_max: usize,
    /// Goes on although the clock is far ahead of the last commit.
    pub accept_clock: bool,
    /// So far ahead it may be at a start, in microseconds, where it is not known how long there
    /// was no commit.
    pub downtime_max_us: i64,
    /// What callers and projects may take.
    pub quotas: Quotas,
    /// What a new table starts with.
    pub new_tables: TableOptions,
    /// Encodes row bodies.
    pub encode_row: EncodeRow,
    /// Encodes pages.
    pub encode_page: EncodePage,
}

impl Config {
    fn store_options(&self) -> store::Options {
        store::Options {
            place: self.place.clone(),
            durability: self.durability,
            encode_row: self.encode_row,
            reader_cache_bytes: self.reader_cache_bytes,
            read_limit_ms: self.read_limit_ms,
            long_reads: self.long_reads,
            vfs: None,
        }
    }

    /// Begins to make the store of its place, which must be empty, of a history.
    ///
    /// # Errors
    /// As [`HistoryImport::begin`].
    pub fn begin_history(&self) -> Result<HistoryImport, HistoryFault> {
        HistoryImport::begin(self.store_options())
    }
}

/// Everything above the store and below the wire.
pub struct Engine {
    /// For work on other threads.
    this: Weak<Engine>,
    limits: query::Limits,
    total_cap: store::TotalCap,
    answer_bytes_max: usize,
    new_tables: TableOptions,
    caches_lists: bool,
    shared: Arc<Shared>,
    writer: Writer,
    quotas: Quotas,
    held: Arc<Held>,
    lineage: String,
    /// See [`Engine::fingerprint`].
    seed: u64,
    hit_audit: OnceLock<HitAudit>,
    observed: Observed,
    /// See [`Engine::variables_epoch`].
    variables_epoch: AtomicU64,
}

/// What an engine says of itself.
#[derive(Clone, Debug)]
pub struct Status {
    /// Mark of the latest published commit.
    pub mark: Mark,
    /// Highest mark that was given or read.
    pub horizon: Mark,
    /// As of when rows that begin or end by themselves were activated last: no mark to come is
    /// below it.
    pub matured: Mark,
    /// The identity of the store's one history.
    pub lineage: String,
    /// Bytes of all cached lists.
    pub list_cache_bytes: u64,
    /// How many entries they are: rows and total of a list are two.
    pub list_cache_entries: usize,
    /// What watches over them, and what became of them.
    pub lists: ListCounts,
}

impl Engine {
    /// Opens the store, takes in its catalogue, and starts the writer. Blocks.
    ///
    /// # Errors
    /// What the store says; see [`StoreError`].
    pub fn open(config: Config, clock: Arc<dyn Clock>) -> Result<Arc<Engine>, EngineError> {
        let store = store::open(config.store_options())?;
        Engine::over(store, &config, clock)
    }

    /// The same over a store in the database that is its place. The URL's password, if it lacks
    /// one, is looked for in the file; the files of keys are in the directory `keys`.
    ///
    /// # Errors
    /// What the store says; see [`StoreError`].
    pub fn open_database(
        config: &Config,
        (password_file, keys): (Option<&Path>, &Path),
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Engine>, EngineError> {
        let StorePlace::Database(url) = &config.place else {
            let place = config.place.clone();
            return Err(StoreError::PlaceUnfit { place }.into());
        };
        let store = store::DatabaseStore::open(url, password_file)?;
        let store = store.serve(&config.store_options(), password_file, keys)?;
        Engine::over(store, config, clock)
    }

    /// An engine over a store that is open already.
    ///
    /// # Errors
    /// What the store says while it is loaded.
    pub fn over(
        store: Arc<dyn store::Store>,
        config: &Config,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Engine>, EngineError> {
        let loaded = futures_executor::block_on(store.load())?;
        let boundaries = loaded.boundaries.clone();
        let clock_guard = if config.accept_clock {
            ClockGuard::accepted()
        } else {
            let rest_ms = loaded.rest_ms.filter(|_| clock.is_machines());
            let downtime_max_us = config.downtime_max_us;
            ClockGuard::new(loaded.mark, clock.elapsed_ms(), rest_ms, downtime_max_us)
        };
        let shared = Arc::new(Shared::new(
            store,
            clock,
            clock_guard,
            Marks::new(loaded.mark, loaded.horizon),
            ListCache::new(list_cache::Bounds {
                bytes_max: config.list_cache_bytes,
                total_cap: (config.total_cap > 0).then_some(config.total_cap),
            }),
            loaded.catalogue,
            config.encode_page,
        ));
        shared.lists.expect(boundaries);
        let held = Arc::new(Held::new(config.quotas));
        let waiting_max = config.writes_waiting_max;
        let encode_row = config.encode_row;
        let started = Writer::start(shared.clone(), waiting_max, held.clone(), encode_row);
        let started = started.and_then(|writer| held.start(&shared).map(|()| writer));
        let writer = started.map_err(|error| StoreError::Io {
            detail: error.to_string(),
        })?;
        Ok(Arc::new_cyclic(|this| Engine {
            this: this.clone(),
            limits: query::Limits {
                page_rows_default: config.page_rows_default,
                page_rows_max: config.page_rows_max,
            },
            new_tables: config.new_tables,
            total_cap: match config.total_cap {
                0 => store::TotalCap::None,
                cap => store::TotalCap::UpTo(cap),
            },
            answer_bytes_max: config.answer_bytes_max,
            caches_lists: config.list_cache_bytes > 0,
            shared,
            writer,
            quotas: config.quotas,
            held,
            seed: list_cache::fingerprint(0, loaded.lineage.as_bytes()) as u64,
            lineage: loaded.lineage,
            hit_audit: OnceLock::new(),
            observed: Observed::default(),
            variables_epoch: AtomicU64::new(0),
        }))
    }

    /// Takes no more writes, finishes and answers those it took, and closes the store. Blocks.
    ///
    /// # Errors
    /// What the store says while it is closed.
    pub fn close(&self) -> Result<(), EngineError> {
        self.writer.close();
        self.held.close();
        if let Some(hit_audit) = self.hit_audit.get() {
            hit_audit.close();
        }
        let marks = &self.shared.marks;
        let horizon = marks.horizon().max(Mark(marks.matured().0 - 1));
        Ok(futures_executor::block_on(
            self.shared.store.close(horizon),
        )?)
    }

    /// Highest mark that was given or read.
    pub fn horizon(&self) -> Mark {
        self.shared.marks.horizon()
    }

    /// The time by which commits and reads go: the clock's, as far as it can be believed.
    pub fn now(&self) -> model::Timestamp {
        self.shared.now()
    }

    /// What the engine says of itself.
    pub fn status(&self) -> Status {
        Status {
            mark: self.shared.marks.published(),
            horizon: self.shared.marks.horizon(),
            matured: self.shared.marks.matured(),
            lineage: self.lineage.clone(),
            list_cache_bytes: self.shared.lists.bytes(),
            list_cache_entries: self.shared.lists.entries(),
            lists: self.shared.lists.counts(),
        }
    }

    /// Why nothing is written any more, where that is so: after a fault of the writer, or a commit
    /// whose outcome is unknown. Only a new start helps.
    pub fn stop_reason(&self) -> Option<&str> {
        self.shared.stop.reason()
    }

    /// Waits until nothing is written any more; see [`Engine::stop_reason`].
    pub async fn stopped(&self) -> &str {
        self.shared.stop.wait().await
    }

    /// Whether the database has not said for long whether a commit was done. Nothing is written
    /// until it does.
    pub fn awaits_commit(&self) -> bool {
        let awaits = &self.shared.awaits_commit;
        awaits.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Whether the database cannot be reached. It is tried again by itself.
    pub fn is_out_of_reach(&self) -> bool {
        self.shared.store.outage().is_some()
    }

    /// What the writer has done, and what waits for it.
    pub fn writes(&self) -> Writes {
        self.writer.writes()
    }

    /// What the store has at work.
    pub fn store_counts(&self) -> StoreCounts {
        self.shared.store.counts()
    }

    /// What is taken of what callers and projects may take. Reads the store.
    pub fn taken(&self) -> Taken {
        self.held.taken(&self.shared)
    }

    /// From now on compares one of `every` exact hits, and of those at fixed coordinates, with a
    /// fresh read, on a thread of its own,
    /// and reports every difference. Asked for again, nothing changes.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn compare_hits(&self, every: u64, report: Report) -> std::io::Result<()> {
        let hit_audit = HitAudit::start(self.shared.clone(), self.total_cap, every, report)?;
        if let Err(second) = self.hit_audit.set(hit_audit) {
            second.close();
        }
        Ok(())
    }

    /// What comparing has come to; `None` where nothing is compared.
    pub fn compared(&self) -> Option<Compared> {
        self.hit_audit.get().map(HitAudit::compared)
    }

    /// Hands in a hit that may be compared.
    pub(crate) fn look_again(&self, hit: impl FnOnce() -> Hit) {
        if let Some(hit_audit) = self.hit_audit.get() {
            hit_audit.offer(hit);
        }
    }

    /// A number that stands for `bytes` in this store's history: the same after a restart, and on
    /// every node that holds this history; another one after it was restored from a copy.
    pub fn fingerprint(&self, bytes: &[u8]) -> u128 {
        list_cache::fingerprint(self.seed, bytes)
    }

    /// Lets reads fix their coordinates at or above pending marks, to show that a test notices.
    #[cfg(feature = "test-switches")]
    pub fn ignore_pending_marks(&self) {
        self.shared
            .marks
            .ignore_pending
            .store(true, std::sync::atomic::Ordering::Relaxed);
    }

    /// Lets answers say what is wrong of erasures, to show that a test notices.
    #[cfg(feature = "test-switches")]
    pub fn mistell_erasures(&self, fault: ErasureFault) {
        // Of several the first one holds.
        self.shared.erasure_fault.get_or_init(|| fault);
    }

    /// Takes commits of unknown outcome for such that came to nothing, to show that a test notices.
    #[cfg(feature = "test-switches")]
    pub fn ignore_doubt(&self) {
        let ignore = &self.shared.ignore_doubt;
        ignore.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    /// Lets executions be started as often as they return, to show that a test notices.
    #[cfg(feature = "test-switches")]
    pub fn ignore_starts_max(&self) {
        let ignore = &self.shared.ignore_starts_max;
        ignore.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    /// The rules that keep cached lists exact, to show that a test notices when one is gone.
    #[cfg(feature = "test-switches")]
    pub fn list_rules(&self) -> &list_cache::Rules {
        self.shared.lists.rules()
    }

    /// What became of cached lists, to show that a test has met it all.
    #[cfg(feature = "test-switches")]
    pub fn list_counts(&self) -> list_cache::Counts {
        self.shared.lists.counts()
    }

    fn catalogue(&self) -> Arc<Catalogue> {
        self.shared.catalogue()
    }
}
