//! Transactions of clients: operations that are staged one by one, kept on disk, and committed
//! together by one batch.
//!
//! A store keeps them and says no more of them than it must to keep two requests apart: whether
//! one is still open, and how many operations it holds. What an operation means is text to it.

use std::fmt;
use std::sync::Arc;

use model::{Mark, ProjectId, RowId, Timestamp};

use crate::written::{Matched, TimedDone, WrittenRow};

/// Most operations that one transaction can hold (wire protocol, transactions).
pub const OPERATIONS_MAX: usize = 100;
/// Most bytes of operations that one transaction can hold: a commit has them in memory.
pub const OPERATION_BYTES_MAX: usize = 32 << 20;
/// Most transactions that are kept of one project, those that have ended among them; of these the
/// oldest go first.
pub const TRANSACTIONS_MAX: usize = 5_000;
/// Most bytes of operations that the open transactions of one project can hold together: what
/// a caller stages and never commits stands on the disk until it expires.
pub const PROJECT_BYTES_MAX: usize = 1 << 30;
/// What open transactions may take together of what a project has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Most that are open.
    pub open: usize,
    /// Most bytes of operations that they hold together.
    pub bytes: usize,
}

impl Bound {
    /// All of it.
    pub const WHOLE: Bound = Bound {
        open: TRANSACTIONS_MAX,
        bytes: PROJECT_BYTES_MAX,
    };
    /// A tenth of it.
    pub const PART: Bound = Bound {
        open: TRANSACTIONS_MAX / 10,
        bytes: PROJECT_BYTES_MAX / 10,
    };
}

/// What the open transactions of a caller may take: strangers must leave room for each other, and
/// all of them for those who hold a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Those of its owner.
    pub own: Bound,
    /// Those of all owners of its class.
    pub class: Bound,
}

/// The class of an owner, its first word: `guest` of `guest 192.0.2.7`.
pub fn class_of(owner: &str) -> &str {
    owner.split_once(' ').map_or(owner, |(class, _)| class)
}

/// How long a transaction that was not ended is kept after it expired, in microseconds, so that
/// a late request learns that.
pub const KEPT_US: i64 = 3_600_000_000;

/// What has become of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// Operations can be staged, until it expires.
    Pending,
    /// All its operations are in effect.
    Committed,
    /// None of them is, or ever will be: it was rolled back, or could not be committed.
    Failed,
}

impl TransactionStatus {
    /// As it is stored: never to be changed.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            TransactionStatus::Pending => "pending",
            TransactionStatus::Committed => "committed",
            TransactionStatus::Failed => "failed",
        }
    }
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Rises with each transaction of the store.
    pub seq: i64,
    /// Its project.
    pub project: ProjectId,
    /// Its id, unique within the project.
    pub id: String,
    /// Who may see it, in its creator's words.
    pub owner: String,
    /// What has become of it.
    pub status: TransactionStatus,
    /// When it was created, cut to milliseconds.
    pub created: Timestamp,
    /// When it last changed, cut to milliseconds.
    pub updated: Timestamp,
    /// From when on it can no longer be committed.
    pub expires: Timestamp,
    /// How many operations have been staged.
    pub operation_count: usize,
    /// Their bytes.
    pub operation_bytes: usize,
}

/// An operation that waits for the commit of its transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedOperation {
    /// The mark whose state the caller that staged it had seen.
    pub seen: Mark,
    /// The table it is about.
    pub place: String,
    /// The row it is about, if it is about one.
    pub row: Option<String>,
    /// What it does.
    pub body: Box<str>,
}

/// Which operations are wanted with a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationsOf<'a> {
    /// None.
    Nothing,
    /// All of them.
    Everything,
    /// Those about these tables.
    Places(&'a [String]),
}

/// A change of a transaction. It takes no mark and changes no row; a batch that ends one may do
/// so beside it.
#[derive(Clone, Debug)]
pub enum TransactionOp {
    /// Opens one.
    Create {
        /// Its project.
        project: ProjectId,
        /// Its id.
        id: String,
        /// Who may see it.
        owner: String,
        /// The clock.
        now: Timestamp,
        /// From when on it can no longer be committed.
        expires: Timestamp,
        /// What its owner may take.
        share: Share,
    },
    /// Adds operations to one that is open.
    Stage {
        /// Its project.
        project: ProjectId,
        /// Its id.
        id: String,
        /// The clock.
        now: Timestamp,
        /// The operations, in the order of their effect.
        operations: Vec<StagedOperation>,
        /// What its owner may take.
        share: Share,
    },
    /// Ends one that is open; its operations are no longer kept.
    End {
        /// Its project.
        project: ProjectId,
        /// Its id.
        id: String,
        /// The clock.
        now: Timestamp,
        /// How it ends.
        status: TransactionStatus,
        /// How many operations it must hold; with another number it is
        /// [`TransactionRefusal::Moved`].
        operation_count: Option<usize>,
    },
    /// Removes one, whatever has become of it.
    Delete {
        /// Its project.
        project: ProjectId,
        /// Its id.
        id: String,
    },
}

/// What holds for the operations on rows that follow in a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Since {
    /// A row that another commit changed after this mark is [`TransactionRefusal::Conflict`].
    pub mark: Option<Mark>,
    /// As [`crate::WriteBatch::unchanged_since`], by what the row was before the batch.
    pub instant: Option<Timestamp>,
}

/// Makes a batch run once, however often it is sent: the first operation of such a batch.
///
/// What was refused can be sent again under the same key. Keys are forgotten after
/// [`REQUESTS_KEPT_US`].
#[derive(Clone, Debug)]
pub struct Once {
    /// The sender's project.
    pub project: ProjectId,
    /// The key that it was sent under.
    pub key: String,
    /// Which of the batches of one request it is.
    pub part: u32,
    /// Stands for what was asked.
    pub request: u128,
    /// The clock.
    pub now: Timestamp,
    /// Writes the answer that is kept with the key; without it, only the mark is.
    pub answer: Option<AnswerOf>,
    /// Most bytes of answers that are kept for keys with the same first word; the oldest ones go.
    pub answers_bytes_max: u64,
}

impl Once {
    /// Requests that ran before are forgotten.
    pub(crate) fn kept_from(&self) -> Timestamp {
        Timestamp(self.now.0.saturating_sub(REQUESTS_KEPT_US))
    }
}

/// Writes the answer to a request from what its batch has done.
#[derive(Clone)]
pub struct AnswerOf(pub Arc<WriteAnswer>);

/// See [`AnswerOf`].
pub type WriteAnswer = dyn Fn(&Done<'_>) -> Vec<u8> + Send + Sync;

impl fmt::Debug for AnswerOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswerOf")
    }
}

/// What a batch has done, inside the transaction that will make it durable.
#[derive(Clone, Copy, Debug)]
pub struct Done<'a> {
    /// Its mark; that of the latest commit if it changes nothing.
    pub mark: Mark,
    /// As [`crate::Applied::rows`].
    pub rows: &'a [WrittenRow],
    /// As [`crate::Applied::matched`].
    pub matched: &'a [Matched],
    /// As [`crate::Applied::timed`].
    pub timed: &'a [TimedDone],
    /// As [`crate::Applied::transactions`].
    pub transactions: &'a [Transaction],
}

/// A request that has run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRequest {
    /// [`Once::request`], as it is stored.
    pub request: String,
    /// When it ran, by the clock.
    pub at: Timestamp,
    /// Its answer, if one was kept and nothing of it was erased.
    pub answer: Option<Vec<u8>>,
}

/// The text that stands for [`Once::request`].
pub fn request_text(request: u128) -> String {
    format!("{request:032x}")
}

/// Most bytes of one answer that is kept: it is written by the same commit, for which others wait.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;

/// How long the keys of requests are kept, in microseconds: a client that tries again does so
/// within seconds, and each write leaves one.
pub const REQUESTS_KEPT_US: i64 = 3_600_000_000;

/// A batch that has run before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// Its mark; none if it changed nothing.
    pub mark: Option<Mark>,
    /// Whether the same was asked then.
    pub is_same: bool,
}

/// Why a transaction could not be changed, or committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionRefusal {
    /// There is none of this id.
    NotFound(String),
    /// One of this id is there already.
    Exists(String),
    /// It has ended.
    Ended(String),
    /// It was not ended in time.
    Expired(String),
    /// It would hold more operations, or larger ones, than it can; a sentence.
    LimitExceeded(String),
    /// Others that are open leave it no room; a sentence.
    NoRoom(String),
    /// Its operations are not those that the batch was made of.
    Moved,
    /// Another commit has changed a row since an operation on it was staged.
    Conflict(RowId),
}
