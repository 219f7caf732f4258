//! Why a use case failed. Names no wire word: the server shapes these for clients.

pub(crate) mod refused;

use std::fmt;

use model::{Mark, ModelError, Period, RowId, Scope, Timestamp, counted};
use query::QueryError;
use store::{Counted, StoreError};

/// Most pieces or versions that one read of this kind looks at: they are held in memory.
pub const PIECES_MAX: u32 = 100_000;

/// Why a use case failed. The text is written for the caller, except for
/// [`EngineError::Store`], whose detail belongs into the log.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineError {
    /// The request names no project.
    ProjectMissing,
    /// There is no such project.
    ProjectNotFound(String),
    /// The API key has expired.
    KeyExpired,
    /// The key was never issued for this project, or was revoked.
    KeyUnknown,
    /// The actor lacks every scope that would open this use case.
    ScopeMissing(&'static [Scope]),
    /// The actor is known and may not do this.
    Unauthorized,
    /// The actor sets a permission for a role it does not hold.
    RoleNotHeld(String),
    /// The table does not let callers without a key look at such times.
    PastClosed(model::Past),
    /// There is no such database, or it is disabled for this actor.
    DatabaseNotFound(String),
    /// There is no such table, or it is disabled for this actor.
    TableNotFound(String),
    /// There is no such row, or the actor may not know of it.
    RowNotFound(RowId),
    /// There is no such API key.
    KeyNotFound(String),
    /// Keys are not made or changed over the wire.
    KeyCreationDenied,
    /// A container of this kind and id is there already.
    ProjectExists,
    /// An API key of this id, or with this secret, is there already.
    KeyExists,
    /// A database of this id is there already.
    DatabaseExists,
    /// A table of this id is there already.
    TableExists,
    /// A row of this id is there already.
    RowExists(RowId),
    /// The row was changed after the instant that the caller named.
    RowMoved(RowId),
    /// There is no such column.
    ColumnNotFound(String),
    /// The column holds no number.
    NotNumeric(String),
    /// Another row has the same values in a unique index.
    UniqueViolation {
        /// The index's key, where it is known.
        index: Option<String>,
    },
    /// Row content breaks the schema.
    Structure(ModelError),
    /// A value of a relationship is no link, or leads to no row; a sentence.
    Relationship(String),
    /// A row has related ones that its relationship protects.
    DeleteRestricted {
        /// The row.
        id: RowId,
        /// The table of the related rows.
        related: String,
    },
    /// What a transaction asserts of a row does not hold.
    AssertFailed(RowId),
    /// Another row has the same values at an instant at which both are valid.
    UniqueOverTime {
        /// The keys of the columns.
        columns: Vec<String>,
        /// The other row.
        other: RowId,
        /// What both are valid over.
        shared: Period,
    },
    /// A row would refer to one that is not there at every instant at which the former is.
    ReferenceOverTime {
        /// The key of the column that refers.
        column: String,
        /// The table it refers to.
        related: String,
        /// The row it refers to.
        target: RowId,
        /// Where that one is missing.
        missing: Period,
    },
    /// More pieces than one read may look at.
    TooManyPieces,
    /// A mark that nobody can read yet.
    FutureMark {
        /// The mark.
        mark: Mark,
        /// The highest one that can be read.
        horizon: Mark,
    },
    /// What is asked for lies before this line, from which the table keeps its past.
    HistoryGone(Timestamp),
    /// Many rows at once, of a table with relationships.
    BulkOfRelationships(String),
    /// A new row without content.
    RowDataMissing,
    /// A change of a row that sets nothing.
    PayloadMissing,
    /// A parameter breaks its rule.
    Argument {
        /// The parameter's name on the wire.
        name: &'static str,
        /// What is wrong, as a sentence.
        why: String,
    },
    /// A definition of a column breaks its rule.
    Column(ColumnFault),
    /// A definition of an index breaks its rule.
    Index(IndexFault),
    /// What was asked is part of the protocol, but not of this server.
    Unsupported(String),
    /// The query cannot be answered.
    Query(QueryError),
    /// The cursor's row does not exist, or the caller may not know of it.
    CursorNotFound(RowId),
    /// The cursor's row has no value in a column that the order uses.
    CursorNull(RowId),
    /// A read ran longer than allowed.
    Timeout {
        /// The limit.
        limit_ms: u64,
    },
    /// The rows of the answer would take more bytes than one answer may.
    AnswerTooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// What must be sorted for the order takes more memory than one read may have.
    SortTooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// Too many long reads wait for their turn; try again later.
    ReadersBusy {
        /// How many may wait.
        waiting_max: usize,
    },
    /// Too many wait to see what operations of their transactions would do; try again later.
    TrialsBusy {
        /// How many may wait.
        waiting_max: usize,
    },
    /// More rows than one commit may change.
    TooManyRows {
        /// The limit.
        rows_max: usize,
    },
    /// More bytes than one commit may write.
    TooManyBytes {
        /// The limit.
        bytes_max: usize,
    },
    /// A bulk write that runs in slices stopped between two of them.
    Partly {
        /// Rows of the slices before, which are changed.
        rows: u64,
        /// Why it stopped.
        error: Box<EngineError>,
    },
    /// One operation of a transaction over valid periods cannot be done, or leaves its row so that
    /// it breaks a key or a reference.
    OfOperation {
        /// Its place among them.
        nth: usize,
        /// Why.
        error: Box<EngineError>,
    },
    /// Too many writes are waiting; try again later.
    Overloaded,
    /// There is no such transaction, or the caller may not know of it.
    TransactionNotFound(String),
    /// A transaction of this id is there already.
    TransactionExists(String),
    /// The transaction has ended.
    TransactionEnded(String),
    /// The transaction was not ended in time.
    TransactionExpired(String),
    /// A row was changed since an operation of the transaction was staged, or is there already.
    TransactionConflict(RowId),
    /// The transaction would be larger than one can be; a sentence.
    TransactionTooLarge(String),
    /// Open transactions of the caller, or of others, leave no room; a sentence.
    TransactionsFull(String),
    /// A project has as many rows or bytes as it may have, or the store as many bytes.
    QuotaExceeded {
        /// What is counted.
        what: Counted,
        /// How many there are.
        held: u64,
        /// How many there may be.
        max: u64,
    },
    /// The key of the request was used for another one.
    RequestKeyReused,
    /// The request has had its effect, and its answer is not there any more.
    RequestRepeated,
    /// The server is shutting down.
    Closing,
    /// Nothing is written any more until a new start; see [`crate::Engine::stop_reason`].
    Stopped,
    /// The clock is so far ahead of the last commit that a wrong year must be feared.
    ClockImplausible {
        /// How far it is ahead, in seconds.
        ahead_s: u64,
    },
    /// The store failed.
    Store(StoreError),
}

/// Why a column cannot be as defined. Each variant is a `type` of its own on the wire.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnFault {
    /// The key is taken, in whatever case.
    Exists(String),
    /// The type is unknown.
    UnknownType(String),
    /// A default where none is allowed: the column is required, or an array.
    DefaultUnsupported(String),
    /// Limits or default contradict each other.
    ValueInvalid(String),
    /// Too many columns, or too wide ones.
    LimitExceeded(String),
    /// The format does not fit the type.
    FormatUnsupported(String),
    /// There is no such column.
    NotFound(String),
    /// The column is of another kind than the change is for.
    TypeInvalid(String),
    /// Rows hold longer texts than the column is to take.
    InvalidResize(String),
    /// An index names the column.
    IndexDependency(String),
}

/// Why an index cannot be as defined.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexFault {
    /// The key is taken.
    Exists(String),
    /// It names a column that is not there.
    ColumnUnknown(String),
    /// An array column, or otherwise nothing an index can order.
    Invalid(String),
    /// A column twice, or lengths or orders that do not fit.
    ColumnInvalid(String),
    /// It would hold longer texts than an index may.
    TooLong {
        /// The key of the index.
        key: String,
        /// What to do about it.
        why: String,
    },
    /// Too many indexes.
    LimitExceeded(String),
    /// There is no such index.
    NotFound(String),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use EngineError as E;
        match self {
            E::ProjectMissing => f.write_str("The request names no project."),
            E::ProjectNotFound(id) => write!(f, "No project `{id}`."),
            E::KeyExpired
            | E::KeyUnknown
            | E::ScopeMissing(_)
            | E::Unauthorized
            | E::RoleNotHeld(_)
            | E::PastClosed(_) => self.fmt_of_callers(f),
            E::DatabaseNotFound(_)
            | E::TableNotFound(_)
            | E::RowNotFound(_)
            | E::KeyNotFound(_)
            | E::KeyCreationDenied
            | E::ProjectExists
            | E::KeyExists
            | E::DatabaseExists
            | E::TableExists => self.fmt_of_ids(f),
            E::RowExists(_)
            | E::RowMoved(_)
            | E::ColumnNotFound(_)
            | E::NotNumeric(_)
            | E::UniqueViolation { .. }
            | E::RowDataMissing
            | E::PayloadMissing
            | E::TooManyRows { .. }
            | E::TooManyBytes { .. }
            | E::Relationship(_)
            | E::DeleteRestricted { .. }
            | E::BulkOfRelationships(_)
            | E::Partly { .. } => self.fmt_of_writing(f),
            E::AssertFailed(_)
            | E::UniqueOverTime { .. }
            | E::ReferenceOverTime { .. }
            | E::TooManyPieces
            | E::FutureMark { .. }
            | E::HistoryGone(_) => self.fmt_over_time(f),
            E::TransactionNotFound(_)
            | E::TransactionExists(_)
            | E::TransactionEnded(_)
            | E::TransactionExpired(_)
            | E::TransactionConflict(_)
            | E::TransactionTooLarge(_)
            | E::TransactionsFull(_) => self.fmt_of_transactions(f),
            E::OfOperation { nth, error } => write!(f, "Operation {nth}: {error}"),
            E::Structure(error) => write!(f, "Invalid document structure: {error}"),
            E::Argument { name, why } => write!(f, "Invalid `{name}` param: {why}"),
            E::Column(fault) => fault.fmt(f),
            E::Index(fault) => fault.fmt(f),
            E::Unsupported(what) => write!(f, "{what} is not supported by this server."),
            E::Query(error) => error.fmt(f),
            E::CursorNotFound(_)
            | E::CursorNull(_)
            | E::Timeout { .. }
            | E::AnswerTooLarge { .. }
            | E::SortTooLarge { .. }
            | E::ReadersBusy { .. } => self.fmt_of_reading(f),
            E::RequestKeyReused | E::RequestRepeated => self.fmt_of_repeating(f),
            E::QuotaExceeded { .. }
            | E::Overloaded
            | E::TrialsBusy { .. }
            | E::Stopped
            | E::Closing
            | E::ClockImplausible { .. } => self.fmt_of_waiting(f),
            E::Store(error) => error.fmt(f),
        }
    }
}

impl EngineError {
    /// What may be otherwise later.
    fn fmt_of_waiting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use EngineError as E;
        match self {
            E::QuotaExceeded { what, held, max } => f.write_str(&over_quota(what, *held, *max)),
            E::Overloaded => f.write_str("Too many writes are waiting. Try again later."),
            E::TrialsBusy { waiting_max } => write!(
                f,
                "Too many requests inside transactions are waiting: at most {waiting_max} may. Try \
                 again later."
            ),
            E::Stopped => f.write_str(
                "Nothing was changed: this server writes no more, after a fault, and ends. Try \
                 again when it has been started anew.",
            ),
            E::Closing => f.write_str("The server is shutting down."),
            E::ClockImplausible { ahead_s } => write!(
                f,
                "Writes are stopped: the clock is {ahead_s} s ahead of the last commit. Check the \
                 clock; if it is right, restart with --accept-clock."
            ),
            _ => unreachable!("the caller matched what may be otherwise later"),
        }
    }

    /// What became of a request of this key before.
    fn fmt_of_repeating(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EngineError::RequestKeyReused => "The key of this request was used for another one.",
            _ => {
                "This request has had its effect, and its answer is no longer kept: it gave way to \
                 newer ones of its API key, was erased, or was for a caller without an API key, \
                 for whom answers are not kept."
            }
        })
    }

    /// What keeps the caller out.
    fn fmt_of_callers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use EngineError as E;
        match self {
            E::KeyExpired => f.write_str("The API key has expired."),
            E::KeyUnknown => f.write_str("The API key is not one of this project, or was revoked."),
            E::ScopeMissing(scopes) => {
                let names: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
                write!(f, "The caller lacks the scope {}.", names.join(" or "))
            }
            E::Unauthorized => f.write_str("The caller is not permitted to do this."),
            E::RoleNotHeld(role) => {
                write!(
                    f,
                    "Permissions can only be set for roles the caller holds, not `{role}`."
                )
            }
            E::PastClosed(past) => write!(
                f,
                "Without an API key this table is read and written as of now only: its option \
                 `past` is `{}`.",
                past.as_str()
            ),
            _ => unreachable!("the caller matched what is about callers"),
        }
    }

    /// What is not there, or is there already.
    fn fmt_of_ids(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use EngineError as E;
        match self {
            E::DatabaseNotFound(id) => write!(f, "No database `{id}`."),
            E::TableNotFound(id) => write!(f, "No table `{id}`."),
            E::RowNotFound(id) => write!(f, "No row `{id}`."),
            E::KeyNotFound(id) => write!(f, "No key `{id}`."),
            E::KeyCreationDenied => f.write_str(
                "API keys are made on the server's command line, by `tidemark key create`, and are \
                 not changed; they can be revoked.",
            ),
            E::ProjectExists => f.write_str("A project with this id already exists."),
            E::KeyExists => f.write_str("A key with this id or secret already exists."),
            E::DatabaseExists => f.write_str("A database with this id already exists."),
            E::TableExists => f.write_str("A table with this id already exists."),
            _ => unreachable!("the caller matched what is about ids"),
        }
    }

    /// What keeps a row from being written.
    fn fmt_of_writing(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use EngineError as E;
        match self {
            E::RowExists(id) => write!(f, "A row with the id `{id}` already exists."),
            E::RowMoved(id) => {
                write!(
                    f,
                    "Row `{id}` was changed after the time that the request names."
                )
            }
            E::ColumnNotFound(key) => write!(f, "No column `{key}`."),
            E::Relationship(why) => f.write_str(why),
            E::DeleteRestricted { id, related } => write!(
                f,
                "Row `{id}` cannot be deleted while rows of table `{related}` are related to it."
            ),
            E::BulkOfRelationships(table) => write!(
                f,
                "Table `{table}` has relationships: its rows are written one by one."
            ),
            E::NotNumeric(key) => write!(f, "Column `{key}` does not hold one number."),
            E::UniqueViolation { index: Some(index) } => {
                write!(
                    f,
                    "Another row has the same values in the unique index `{index}`."
                )
            }
            E::UniqueViolation { index: None } => {
                f.write_str("Another row has the same values in a unique index.")
            }
            E::RowDataMissing => f.write_str("A new row needs an id and at least one column."),
            E::PayloadMissing => f.write_str("Nothing to change: neither data nor permissions."),
            E::TooManyBytes { bytes_max } => write!(
                f,
                "One commit may write rows of at most {bytes_max} bytes, before and after it taken \
                 together. Write fewer rows at once."
            ),
            E::TooManyRows { rows_max } => write!(
                f,
                "One commit may change at most {rows_max} rows. Set a limit, or leave the order \
                 out."
            ),
            E::Partly { rows, error } => {
                let were = if *rows == 1 { "was" } else { "were" };
                write!(
                    f,
                    "{error} Before that, {} {were} changed.",
                    counted(*rows, "row")
                )
            }
            _ => unreachable!("the caller matched what keeps a row from being written"),
        }
    }

    /// What keeps a list from being read.
    fn fmt_of_reading(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use EngineError as E;
        match self {
            E::CursorNotFound(id) => write!(f, "The cursor's row `{id}` does not exist."),
            E::CursorNull(id) => write!(
                f,
                "The cursor's row `{id}` has no value in a column that the order uses."
            ),
            E::Timeout { limit_ms } => write!(f, "The query was stopped after {limit_ms} ms."),
            E::AnswerTooLarge { bytes_max } => {
                let bytes_max = *bytes_max;
                fmt::Display::fmt(&StoreError::AnswerTooLarge { bytes_max }, f)
            }
            E::SortTooLarge { bytes_max } => {
                let bytes_max = *bytes_max;
                fmt::Display::fmt(&StoreError::SortTooLarge { bytes_max }, f)
            }
            E::ReadersBusy { waiting_max } => {
                let waiting_max = *waiting_max;
                fmt::Display::fmt(&StoreError::ReadersBusy { waiting_max }, f)
            }
            _ => unreachable!("the caller matched what keeps a list from being read"),
        }
    }

    /// What two time axes forbid.
    fn fmt_over_time(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use EngineError as E;
        match self {
            E::AssertFailed(id) => {
                write!(
                    f,
                    "What the transaction asserts of row `{id}` does not hold."
                )
            }
            E::UniqueOverTime {
                columns,
                other,
                shared,
            } => {
                let columns = columns.join("`, `");
                write!(
                    f,
                    "Row `{other}` has the same values in `{columns}` over {shared:?}."
                )
            }
            E::ReferenceOverTime {
                column,
                related,
                target,
                missing,
            } => write!(
                f,
                "Column `{column}`: row `{target}` of table `{related}` is not there over \
                 {missing:?}."
            ),
            E::TooManyPieces => write!(
                f,
                "At most {PIECES_MAX} pieces are looked at. Ask of one row, or of rows with \
                 certain values."
            ),
            E::FutureMark { mark, horizon } => write!(
                f,
                "Nobody can know at {} what will be known then; the horizon is {}.",
                mark.0, horizon.0
            ),
            E::HistoryGone(kept_from) => write!(
                f,
                "The table keeps what was known and valid from {} on. Ask for nothing before that.",
                kept_from.0
            ),
            _ => unreachable!("the caller matched what two time axes forbid"),
        }
    }

    /// What became of a client's transaction.
    fn fmt_of_transactions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use EngineError as E;
        match self {
            E::TransactionNotFound(id) => write!(f, "No transaction `{id}`."),
            E::TransactionExists(id) => write!(f, "A transaction `{id}` already exists."),
            E::TransactionEnded(id) => {
                write!(f, "Transaction `{id}` has been committed or has failed.")
            }
            E::TransactionExpired(id) => write!(f, "Transaction `{id}` has expired."),
            E::TransactionConflict(id) => write!(
                f,
                "Row `{id}` was created or changed by somebody else since the transaction's \
                 operation on it was staged."
            ),
            E::TransactionTooLarge(why) | E::TransactionsFull(why) => f.write_str(why),
            _ => unreachable!("the caller matched what is about transactions"),
        }
    }
}

impl fmt::Display for ColumnFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnFault::Exists(key) => write!(f, "A column `{key}` already exists."),
            ColumnFault::NotFound(key) => write!(f, "No column `{key}`."),
            ColumnFault::UnknownType(why)
            | ColumnFault::DefaultUnsupported(why)
            | ColumnFault::ValueInvalid(why)
            | ColumnFault::LimitExceeded(why)
            | ColumnFault::FormatUnsupported(why)
            | ColumnFault::TypeInvalid(why)
            | ColumnFault::InvalidResize(why)
            | ColumnFault::IndexDependency(why) => f.write_str(why),
        }
    }
}

impl fmt::Display for IndexFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IndexFault::Exists(key) => write!(f, "An index `{key}` already exists."),
            IndexFault::NotFound(key) => write!(f, "No index `{key}`."),
            IndexFault::ColumnUnknown(why)
            | IndexFault::Invalid(why)
            | IndexFault::ColumnInvalid(why)
            | IndexFault::TooLong { why, .. }
            | IndexFault::LimitExceeded(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for EngineError {}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> EngineError {
        match error {
            StoreError::CursorNotFound { id } => EngineError::CursorNotFound(id),
            StoreError::CursorNull { id } => EngineError::CursorNull(id),
            StoreError::HistoryGone { kept_from } => EngineError::HistoryGone(kept_from),
            StoreError::Timeout { limit_ms } => EngineError::Timeout { limit_ms },
            StoreError::AnswerTooLarge { bytes_max } => EngineError::AnswerTooLarge { bytes_max },
            StoreError::SortTooLarge { bytes_max } => EngineError::SortTooLarge { bytes_max },
            StoreError::ReadersBusy { waiting_max } => EngineError::ReadersBusy { waiting_max },
            StoreError::PatternTooHard | StoreError::QueryTooLong { .. } => {
                QueryError::Invalid(error.to_string()).into()
            }
            other => EngineError::Store(other),
        }
    }
}

impl From<QueryError> for EngineError {
    fn from(error: QueryError) -> EngineError {
        EngineError::Query(error)
    }
}

/// The refusal of more.
fn over_quota(what: &Counted, held: u64, max: u64) -> String {
    match what {
        Counted::Rows(project) => {
            let those = "with those just being added";
            format!("Project `{project}` can have {max} rows; it has {held}, {those}.")
        }
        Counted::ProjectBytes(project) => {
            let less = "and this adds more than is left";
            format!("Project `{project}` can store {max} bytes; it stores {held}, {less}.")
        }
        Counted::Bytes => format!("This server can store {max} bytes; it stores {held}."),
    }
}
