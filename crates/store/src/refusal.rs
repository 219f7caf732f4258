//! Why a batch is refused.

use model::history::WriteRefusal;
use model::{HistoryGone, ModelError, Period, ProjectId, RowId, TableId, TableNumber};

use crate::error::StoreError;
use crate::execution_queue::ExecutionRefusal;
use crate::function_op::DeploymentRefusal;
use crate::staged::{Repeated, TransactionRefusal};

/// Why a batch was refused. Nothing of it was applied.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// Insert of a row that is there.
    RowExists(RowId),
    /// The row is not there.
    RowNotFound(RowId),
    /// The row is there, and the actor may not change it so.
    RowForbidden(RowId),
    /// The row was changed after [`crate::WriteBatch::unchanged_since`].
    RowMoved(RowId),
    /// A link to a row that is not there, or that the actor may not read.
    LinkMissing {
        /// The key of the column with the link.
        column: String,
        /// The row.
        id: RowId,
    },
    /// The row has related ones, and its relationship protects them.
    DeleteRestricted {
        /// The row.
        id: RowId,
        /// The table of the related rows.
        related: TableId,
    },
    /// See [`HistoryGone`].
    HistoryGone(HistoryGone),
    /// Another row has the same values in a unique index.
    Unique {
        /// The index's key, where the database names it.
        index: Option<String>,
        /// The other row, and what both are valid over, where that is known.
        clash: Option<(RowId, Period)>,
    },
    /// What the batch asserts of the row does not hold.
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
        related: TableId,
        /// The row it refers to.
        target: RowId,
        /// Where that one is missing.
        missing: Period,
    },
    /// Rows break a constraint over valid time that is to be declared.
    NotKept {
        /// What one of them would be refused with.
        first: Box<Refusal>,
        /// Which they are.
        violations: Violations,
    },
    /// The table has this constraint over valid time already.
    ConstraintExists,
    /// The table has no such constraint over valid time.
    ConstraintNotFound,
    /// The table has as many constraints of a kind as it can have.
    TooManyConstraints {
        /// The limit.
        constraints_max: usize,
    },
    /// References over valid time lead to a table that is to be deleted.
    TableReferenced {
        /// The table.
        table: TableId,
        /// The tables that refer to it, in the order of their ids.
        by: Vec<TableId>,
    },
    /// A law of the model, found when the row turned out to be absent or present.
    Invalid(ModelError),
    /// More rows than one commit may change.
    TooManyRows {
        /// The limit.
        rows_max: usize,
    },
    /// More pieces of a row in the period of an operation than it may meet.
    TooManyPieces {
        /// The limit.
        pieces_max: usize,
    },
    /// More pieces than one commit may end and write.
    TooManySteps {
        /// The limit.
        pieces_max: usize,
    },
    /// More bytes than one commit may write.
    TooManyBytes {
        /// The limit.
        bytes_max: usize,
    },
    /// The pieces that an operation over a valid period meets hold more bytes than it may have in
    /// memory.
    PiecesTooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// See [`crate::WriteBatch::room`].
    Full(Full),
    /// The answer that is to be kept under the key of the request would be too large.
    AnswerTooLarge {
        /// Most bytes of one.
        bytes_max: usize,
    },
    /// The row that the cursor of a [`crate::MatchingOp`] names is not there.
    CursorNotFound(RowId),
    /// It has no value in a column that the order uses.
    CursorNull(RowId),
    /// A row holds a longer text than the column is to take.
    ValuesTooLong {
        /// The column's key.
        column: String,
        /// Most characters it was to take.
        chars_max: u32,
    },
    /// The table has had as many columns as it can ever get.
    ColumnsUsedUp {
        /// The limit.
        columns_max: u32,
    },
    /// Of a batch with a [`crate::Note`]: one operation cannot be done, or leaves its row so that
    /// it breaks a key or a reference over valid time.
    Of {
        /// Its place in [`crate::WriteBatch::ops`].
        nth: usize,
        /// Why.
        refusal: Box<Refusal>,
    },
    /// The catalogue is not the one the operations were checked under.
    CatalogueMoved,
    /// More is due in this table than one commit brings in, and the batch looks at all of it:
    /// after some calls of [`crate::StoreWrites::activate_due`] it can run.
    Behind(TableNumber),
    /// Those before it in the group have written as much as one commit is to
    /// ([`crate::batch::GROUP_IMAGE_BYTES_MAX`]). It was not run, and can be in the next group.
    Deferred,
    /// Others use the tables that it changes, readers for long say, and all that write would wait
    /// behind it for them. It can be done a while later.
    TablesBusy,
    /// A transaction of a client stands against it.
    Transaction(TransactionRefusal),
    /// It has run before.
    Repeated(Repeated),
    /// A container of this id is there already.
    Exists(Container),
    /// There is no container of this kind and id.
    NotFound(Container, String),
    /// A deployment stands against it.
    OfDeployment(DeploymentRefusal),
    /// An execution stands against it, or all that wait.
    OfExecution(ExecutionRefusal),
    /// There are as many of this kind as there can be.
    TooMany {
        /// Of what.
        kind: Container,
        /// The limit.
        max: usize,
    },
    /// The database failed while this batch ran.
    Failed(StoreError),
}

impl Refusal {
    /// Of an operation on the row `id`, by the rules of the time axes.
    pub(crate) fn of_write(refusal: WriteRefusal, id: &RowId) -> Refusal {
        match refusal {
            WriteRefusal::EmptyRange { from, to } => {
                Refusal::Invalid(ModelError::EmptyPeriod { from, to })
            }
            WriteRefusal::Exists { .. } => Refusal::RowExists(id.clone()),
            WriteRefusal::AssertFailed => Refusal::AssertFailed(id.clone()),
            WriteRefusal::Invalid(error) => Refusal::Invalid(error),
        }
    }

    /// Another row has the same values in the unique index of this key.
    pub(crate) fn unique(index: &str, clash: Option<(RowId, Period)>) -> Refusal {
        Refusal::Unique {
            index: Some(index.to_owned()),
            clash,
        }
    }

    /// Whether a row has the values of another in a unique index.
    pub(crate) fn is_unique(&self) -> bool {
        match self {
            Refusal::Unique { .. } => true,
            Refusal::Of { refusal, .. } => refusal.is_unique(),
            _ => false,
        }
    }

    /// The same, over one operation of the batch.
    pub(crate) fn over(self, nth: usize) -> Refusal {
        if !self.is_about_content() {
            return self;
        }
        let refusal = Box::new(self);
        Refusal::Of { nth, refusal }
    }

    /// Whether it says something about the operation, in whatever state the server is and whichever
    /// caller sent it before.
    pub(crate) fn is_about_content(&self) -> bool {
        !matches!(
            self,
            Refusal::CatalogueMoved
                | Refusal::Transaction(_)
                | Refusal::Repeated(_)
                | Refusal::AnswerTooLarge { .. }
                | Refusal::Full(_)
                | Refusal::Failed(_)
        )
    }
}

/// Rows that break a constraint over valid time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    /// The first ones that were found, at most [`VIOLATIONS_MAX`].
    pub found: Vec<Violation>,
    /// Whether these need not be all.
    pub more: bool,
}

/// Most violations that one refusal names.
pub const VIOLATIONS_MAX: usize = 100;

/// A row that breaks a constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The row.
    pub row: RowId,
    /// The row with equal values, or that which is referred to, as far as an id is long.
    pub against: String,
    /// Over which period.
    pub period: Period,
}

/// Of what there is, or would be, too much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Full {
    /// Of what.
    pub what: Counted,
    /// How much there is.
    pub held: u64,
    /// How much there may be.
    pub max: u64,
}

/// What a quota counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Rows of this project.
    Rows(ProjectId),
    /// Bytes that the versions of this project hold.
    ProjectBytes(ProjectId),
    /// Bytes of the store.
    Bytes,
}

/// A kind of container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// A project.
    Project,
    /// An API key.
    Key,
    /// A database.
    Database,
    /// A table.
    Table,
    /// A function.
    Function,
    /// A variable of a function.
    Variable,
    /// A deployment of a function.
    Deployment,
}
