//! Checked operations on their way into a commit, and what became of them.

use std::sync::Arc;

use model::history::Range;
use model::{
    ApiKey, CatalogueChange, Change, Column, ColumnNumber, DatabaseId, DatabaseKind,
    FunctionChange, FunctionDefinition, Index, KeyId, Mark, Past, Patch, Period, Permission,
    ProjectId, Retention, RowId, Table, TableId, TableNumber, Timestamp,
};
use query::Query;

use crate::EncodeRow;
use crate::execution_queue::{NewExecution, QueueOp};
use crate::function_name::FunctionName;
use crate::function_op::{DeploymentAct, FunctionOp};
use crate::refusal::{Full, Refusal};
use crate::row_op::{Guard, PeriodEnd, RowAct, RowOp, Stamps};
use crate::staged::{Once, Since, Transaction, TransactionOp};
use crate::written::{Matched, TimedDone, WrittenRow};

/// Most rows one batch may change, and most that its searches may find, together.
pub const BATCH_ROWS_MAX: usize = 10_000;
/// Most bytes of rows, as they were before and are after it, that one batch may write. A single row
/// may have more: how long a request can be bounds that.
pub const BATCH_BYTES_MAX: usize = 64 << 20;
/// An index over at most so many versions of rows is built by the commit that adds it (bitemporal
/// rows, schema over time).
pub const INDEXED_AT_ONCE_MAX: i64 = 100_000;
/// Most columns that one table can ever get, those that were dropped among them: their places in
/// the physical tables stay taken. PostgreSQL has room for 1,600 (its manual, "Limits"), SQLite
/// for 2,000 (its manual, "Implementation Limits"); the rest is for our own.
pub const COLUMNS_EVER_MAX: u32 = 1_500;
/// Most keys, and most references, over valid time of one table: each is looked at by each write.
pub const CONSTRAINTS_MAX: usize = 20;
/// Above so many changed rows, or …
pub const IMAGES_MAX: usize = 1_000;
/// … so many bytes of images, a batch reports tables instead of images.
pub const IMAGE_BYTES_MAX: usize = 16 << 20;

/// Once the batches of a group with an author, or those without one, have written so many bytes of
/// images, before and after each change, the others of that kind are [`Refusal::Deferred`].
pub const GROUP_IMAGE_BYTES_MAX: usize = 8 << 20;

/// Most operations of a batch whose bodies are encoded before it runs: mostly a microsecond each,
/// and never more than 16 KiB of values.
const BODIES_ENCODED_MAX: usize = 100;

/// Checked operations, applied all or none.
#[derive(Clone, Debug)]
pub struct WriteBatch {
    /// [`model::Catalogue::epoch`] of the catalogue the operations were checked under. A batch
    /// with row operations that were checked under an older one is refused.
    pub catalogue_epoch: u64,
    /// In the order of their effect.
    pub ops: Vec<Op>,
    /// Who writes, for the record of the commit.
    pub author: Option<String>,
    /// The batch is refused with [`Refusal::RowMoved`] if a row that it updates or deletes was
    /// changed after this instant, cut to milliseconds as `$updatedAt` is.
    pub unchanged_since: Option<Timestamp>,
    /// What its author says of the commit, for its record: a JSON object as text.
    pub meta: Option<Arc<str>>,
    /// The database, by [`model::Database::seq`], of a transaction that its author knows by its
    /// mark: then it takes one, and is recorded there, whatever it changes.
    pub noted_in: Option<i64>,
    /// What there is room for.
    pub space: SpaceLimit,
}

/// What there is room for, as far as quotas are held against a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SpaceLimit {
    /// For all of it.
    #[default]
    Any,
    /// As long as a project whose versions get more bytes by it has no more than so many.
    ProjectBytes(u64),
    /// For nothing: the batch is there to say whether the request has run before.
    None(Full),
}

impl WriteBatch {
    /// Most rows that the batch may change.
    pub fn rows_max(&self) -> usize {
        let rows = |op: &Op| match op {
            Op::Matching(op) => op.query.limit as usize,
            Op::Related(op) => match &**op {
                RelatedOp::Link(op) => op.holders.len().max(1),
                RelatedOp::Need { .. }
                | RelatedOp::Write(_)
                | RelatedOp::Alone(_)
                | RelatedOp::NeedUnlinked { .. }
                | RelatedOp::Free(_)
                | RelatedOp::Hold(_) => 1,
            },
            Op::Function(FunctionOp::KeepExecutions(kept)) => kept.len(),
            Op::Function(FunctionOp::Queue(QueueOp::Put(queued, _))) => queued.len(),
            Op::Function(FunctionOp::Queue(QueueOp::PutEvents(events))) => {
                events.queued.len() + events.failed.len()
            }
            Op::Row(_) | Op::Catalogue(_) | Op::Transaction(_) | Op::Function(_) => 1,
            Op::Since(_) | Op::Once(_) => 0,
        };
        self.ops.iter().map(rows).sum()
    }
}

impl WriteBatch {
    /// Encodes the bodies of rows that it inserts, for the thread that asks: all writers wait for
    /// what the writer's thread does. Of many operations the writer does it, since here other
    /// requests wait.
    pub fn encode_bodies(&mut self, encode_row: EncodeRow) {
        if self.ops.len() > BODIES_ENCODED_MAX {
            return;
        }
        for op in &mut self.ops {
            if let Op::Row(op) = op {
                op.encode_body(encode_row);
            }
        }
    }

    /// About so many bytes of values it brings along.
    pub fn bytes(&self) -> usize {
        let bytes = |op: &Op| match op {
            Op::Row(op) => op.size_bytes(),
            Op::Related(op) => match &**op {
                RelatedOp::Write(op) | RelatedOp::Alone(op) => op.size_bytes(),
                _ => 0,
            },
            Op::Function(FunctionOp::Deployment {
                act: DeploymentAct::PutPiece(piece),
                ..
            }) => piece.bytes.len(),
            Op::Function(FunctionOp::KeepExecutions(kept)) => {
                kept.iter().map(|(.., record)| record.size_bytes()).sum()
            }
            Op::Function(FunctionOp::Queue(QueueOp::Put(queued, _))) => calls_bytes(queued),
            Op::Function(FunctionOp::Queue(QueueOp::PutEvents(events))) => {
                let failed = events.failed.iter();
                let failed: usize = failed.map(|(.., record)| record.size_bytes()).sum();
                calls_bytes(&events.queued) + failed
            }
            Op::Function(FunctionOp::Queue(QueueOp::End { record, .. })) => record.size_bytes(),
            _ => 0,
        };
        self.ops.iter().map(bytes).sum()
    }

    /// The last operation that wrote this row.
    pub(crate) fn last_on(&self, table: TableNumber, id: &RowId) -> Option<usize> {
        self.ops.iter().rposition(|op| match op {
            Op::Row(op) => op.table.number == table && op.id == *id,
            Op::Related(op) => match &**op {
                RelatedOp::Write(op) | RelatedOp::Alone(op) => {
                    op.table.number == table && op.id == *id
                }
                RelatedOp::Link(op) => op.table.number == table && op.holders.contains(id),
                RelatedOp::Need { .. }
                | RelatedOp::NeedUnlinked { .. }
                | RelatedOp::Free(_)
                | RelatedOp::Hold(_) => false,
            },
            _ => false,
        })
    }

    /// Whether a row may be touched twice: by two operations, or by one that goes on from row to
    /// row along relationships.
    pub(crate) fn meets_rows_again(&self) -> bool {
        let goes_on = |op: &Op| match op {
            Op::Row(op) if op.range.is_some() => true,
            Op::Row(op) => {
                matches!(op.act, RowAct::Delete { .. }) && op.table.relations().next().is_some()
            }
            Op::Matching(op) => {
                let is_ranged = matches!(
                    op.act,
                    MatchingAct::Update { range: Some(_), .. }
                        | MatchingAct::Resize { .. }
                        | MatchingAct::Delete { range: Some(_) }
                );
                is_ranged || op.query.table.relations().next().is_some()
            }
            Op::Related(_) | Op::Catalogue(_) => true,
            Op::Transaction(_) | Op::Function(_) | Op::Since(_) | Op::Once(_) => false,
        };
        self.ops.len() > 1 || self.ops.iter().any(goes_on)
    }
}

/// One operation.
#[derive(Clone, Debug)]
pub enum Op {
    /// On a row.
    Row(RowOp),
    /// On all rows that match.
    Matching(Box<MatchingOp>),
    /// On rows at the other end of a relationship.
    Related(Box<RelatedOp>),
    /// On a container.
    Catalogue(CatalogueOp),
    /// On a transaction of a client.
    Transaction(TransactionOp),
    /// On what belongs to a function.
    Function(FunctionOp),
    /// None: says what holds for the operations on rows that follow.
    Since(Since),
    /// None: keeps the batch from running twice.
    Once(Once),
}

impl Op {
    /// Whether it was checked against a catalogue, which must not have changed since.
    pub(crate) fn needs_catalogue(&self) -> bool {
        match self {
            Op::Row(_) | Op::Matching(_) | Op::Related(_) => true,
            Op::Catalogue(_)
            | Op::Transaction(_)
            | Op::Function(_)
            | Op::Since(_)
            | Op::Once(_) => false,
        }
    }

    /// Whether all that it does is done by statements that change rows: SQLite counts those.
    pub(crate) fn is_of_one_row(&self) -> bool {
        matches!(self, Op::Row(_) | Op::Since(_) | Op::Once(_))
    }
}

/// What the write of a row does at the other ends of its relationships. [`Applied::rows`] does not
/// report it.
#[derive(Clone, Debug)]
pub enum RelatedOp {
    /// The row must be there at the end of the batch, if it is not now, and the guard must let it
    /// be read: [`Refusal::LinkMissing`].
    Need {
        /// Its table.
        table: Arc<Table>,
        /// Its id.
        id: RowId,
        /// Who may read it.
        guard: Guard,
        /// The key of the column that is to link to it.
        column: String,
        /// Whether it need not be there now: the link is over a period, and that the row is there
        /// throughout is judged at the end of the batch.
        at_any_time: bool,
    },
    /// Writes a row.
    Write(RowOp),
    /// Writes a row over a valid period, or takes it away, and leaves the rows that it is related
    /// to as they are.
    Alone(RowOp),
    /// No row may hold a link to this one within the period: [`Refusal::DeleteRestricted`].
    NeedUnlinked {
        /// Its table.
        table: Arc<Table>,
        /// Its id.
        id: RowId,
        /// The period.
        valid: Period,
    },
    /// Gives rows a link, and takes it from all others.
    Link(LinkOp),
    /// Takes one row's links away, unless it holds those that it is to hold.
    Free(HoldOp),
    /// Sets which links one row holds.
    Hold(HoldOp),
}

/// Makes certain rows, and no others, hold a link to one row.
#[derive(Clone, Debug)]
pub struct LinkOp {
    /// The table whose rows hold the links.
    pub table: Arc<Table>,
    /// The position of the column that holds them.
    pub column: usize,
    /// The row they lead to.
    pub target: RowId,
    /// The rows that are to hold one. Of a relationship from one to one, a row that holds a link
    /// to another row is [`Refusal::Unique`]; else the link is turned to this one.
    pub holders: Vec<RowId>,
    /// Over which valid period; `None` is from the mark on. Each piece of a holder in it gets, or
    /// loses, the link.
    pub range: Option<Range>,
    /// Who may update the rows that hold links.
    pub guard: Guard,
}

/// Sets which links a row holds, and leaves its `$updatedAt` as it is: the row is brought from
/// elsewhere, where it held them already.
#[derive(Clone, Debug)]
pub struct HoldOp {
    /// The table of the row.
    pub table: Arc<Table>,
    /// The row: [`Refusal::RowNotFound`] when it is not there.
    pub id: RowId,
    /// The position of the column that holds them.
    pub column: usize,
    /// The table that they lead to.
    pub related: Arc<Table>,
    /// The rows that they lead to, each once: [`Refusal::LinkMissing`] when one is not there. At
    /// most one, unless the column holds lists.
    pub links: Vec<RowId>,
}

/// An operation on every row that a query finds when the batch runs, in the query's order.
///
/// Which rows match is found inside the transaction, so no row is changed by a match that a
/// write in between has made wrong. Rows are found first and changed after that: none is met
/// twice, whatever the change does to its place in the order.
#[derive(Clone, Debug)]
pub struct MatchingOp {
    /// What is matched: of now, at most [`BATCH_ROWS_MAX`] rows. Its selection has no meaning.
    pub query: Query,
    /// Whether more rows than the query's limit may match. If not, and more do, the batch is
    /// refused with [`Refusal::TooManyRows`].
    pub may_leave_rows: bool,
    /// Whether the rows are to be walked along `$sequence`, whatever indexes there are. Only for a
    /// query whose filter bounds `$sequence`, and without order, offset and cursor.
    pub walks: bool,
    /// Behind the row with which it has written so many bytes it stops, in order of the rows.
    /// `None` is that it goes on, or is refused with [`Refusal::TooManyBytes`].
    pub bytes_max: Option<usize>,
    /// Whether [`Matched::end`] is wanted.
    pub tells_end: bool,
    /// What happens to each row.
    pub act: MatchingAct,
    /// How many of the rows, the first ones, are given back.
    pub rows_returned_max: usize,
}

/// What happens to each row that matches.
#[derive(Clone, Debug)]
pub enum MatchingAct {
    /// Merges into it. A row that this does not change is not written.
    Update {
        /// The columns to set.
        patch: Patch,
        /// New grants; `None` keeps the old ones.
        permissions: Option<Vec<Permission>>,
        /// Times a key set by hand.
        stamps: Stamps,
        /// Over which valid period, where it is there; `None` is from the mark on.
        range: Option<Range>,
    },
    /// Moves one end of its time.
    Resize {
        /// Which, and where to.
        edge: PeriodEnd,
        /// New grants; `None` keeps the old ones.
        permissions: Option<Vec<Permission>>,
    },
    /// Deletes it.
    Delete {
        /// Over which valid period; `None` is from the mark on.
        range: Option<Range>,
    },
}

/// An operation on a container.
#[derive(Clone, Debug)]
pub enum CatalogueOp {
    /// Creates a project.
    CreateProject {
        /// Its id.
        id: ProjectId,
        /// What people call it.
        name: String,
    },
    /// Removes a project, with all it contains.
    DeleteProject(ProjectId),
    /// Stores a key; its `created` is set by the commit.
    CreateKey(ApiKey),
    /// Removes a key.
    RevokeKey(ProjectId, KeyId),
    /// Creates a database.
    CreateDatabase {
        /// Its project.
        project: ProjectId,
        /// Its id.
        id: DatabaseId,
        /// What people call it.
        name: String,
        /// Whether callers without a key see it.
        enabled: bool,
        /// The route family it is created through.
        kind: DatabaseKind,
    },
    /// Changes a database; `None` keeps.
    UpdateDatabase {
        /// Its project.
        project: ProjectId,
        /// Its id.
        id: DatabaseId,
        /// What people call it.
        name: Option<String>,
        /// Whether callers without a key see it.
        enabled: Option<bool>,
    },
    /// Removes a database, with all it contains.
    DeleteDatabase(ProjectId, DatabaseId),
    /// Creates a table with its columns and indexes. Its number, and all times and epochs, are
    /// set by the commit; columns and indexes come numbered.
    CreateTable(Box<Table>),
    /// Changes a table; `None` keeps.
    UpdateTable {
        /// Its project.
        project: ProjectId,
        /// Its database.
        database: DatabaseId,
        /// Its id.
        id: TableId,
        /// What people call it.
        name: Option<String>,
        /// Grants for the whole table.
        permissions: Option<Vec<Permission>>,
        /// Whether grants on rows count.
        row_security: Option<bool>,
        /// Whether callers without a key see it.
        enabled: Option<bool>,
    },
    /// Sets what the owner of a table decides about its past; `None` keeps. Its line rises as far
    /// as that asks for, and what lies below goes in slices by [`crate::StoreUpkeep::run_upkeep`].
    SetOptions {
        /// The table.
        number: TableNumber,
        /// See [`model::TableOptions::pinned_max_age_s`].
        pinned_max_age_s: Option<u32>,
        /// See [`model::TableOptions::history`].
        history: Option<Retention>,
        /// See [`model::TableOptions::past`].
        past: Option<Past>,
        /// See [`model::TableOptions::ttl_max_s`].
        ttl_max_s: Option<u32>,
    },
    /// Removes a table: at once for readers, its rows in slices by
    /// [`crate::StoreUpkeep::run_upkeep`].
    DeleteTable(ProjectId, DatabaseId, TableId),
    /// Creates a function; its number and times are set by the commit.
    CreateFunction(FunctionName, Box<FunctionDefinition>),
    /// Changes a function.
    UpdateFunction(FunctionName, Box<FunctionChange>),
    /// Removes a function, with all that belongs to it.
    DeleteFunction(FunctionName),
    /// Changes what must hold of a table's rows over valid time. Refused with
    /// [`Refusal::NotKept`] when it does not hold now.
    Constrain {
        /// The table.
        table: Arc<Table>,
        /// What changes.
        change: ConstraintChange,
    },
    /// Changes the columns or indexes of a table. [`Refusal::CatalogueMoved`] when they are not
    /// those of `table` any more: the change was checked against those.
    ChangeSchema {
        /// The table as the change was checked against it.
        table: Arc<Table>,
        /// What changes.
        change: SchemaChange,
    },
}

/// What must hold of a table's rows at every instant of valid time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableConstraints {
    /// No two rows that are valid at the same instant have equal values in all columns of one of
    /// these keys. Null equals nothing.
    pub unique: Vec<Vec<ColumnNumber>>,
    /// While a row has a text in the column, the row of this id in the table is valid, too.
    pub refs: Vec<(ColumnNumber, TableNumber)>,
}

impl TableConstraints {
    /// Adds one at the end.
    pub fn add(&mut self, constraint: Constraint) {
        match constraint {
            Constraint::Unique(columns) => self.unique.push(columns),
            Constraint::Ref(column, table) => self.refs.push((column, table)),
        }
    }

    /// One by one: keys first.
    pub fn each(&self) -> impl Iterator<Item = Constraint> {
        let keys = self.unique.iter().cloned().map(Constraint::Unique);
        let refs = self.refs.iter();
        keys.chain(refs.map(|(column, table)| Constraint::Ref(*column, *table)))
    }
}

/// One constraint over valid time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// One of [`TableConstraints::unique`].
    Unique(Vec<ColumnNumber>),
    /// One of [`TableConstraints::refs`].
    Ref(ColumnNumber, TableNumber),
}

/// A change of what must hold over valid time.
#[derive(Clone, Debug)]
pub enum ConstraintChange {
    /// These take the place of all.
    Replace(TableConstraints),
    /// These are added: [`Refusal::ConstraintExists`], or [`Refusal::TooManyConstraints`] above
    /// [`CONSTRAINTS_MAX`] of a kind.
    Add(TableConstraints),
    /// These are removed: [`Refusal::ConstraintNotFound`].
    Remove(TableConstraints),
}

/// A change of a table's columns or indexes. None of them rewrites rows before it is committed.
#[derive(Clone, Debug)]
pub enum SchemaChange {
    /// Adds a column, which has no value in the rows that are there. Its number and times are
    /// set by the commit.
    AddColumn(Column),
    /// Replaces the definition of the column of this number. Its kind may get other limits, never
    /// another storage. [`Refusal::ValuesTooLong`] when a text of a row does not fit any more.
    UpdateColumn(Column),
    /// As [`SchemaChange::UpdateColumn`], for texts that get shorter: those of rows that no commit
    /// after `since` has changed were found to fit, and are not looked at again.
    ShortenColumn {
        /// The column.
        column: Column,
        /// The mark of the snapshot that was looked at.
        since: Mark,
    },
    /// Adds a relationship: this column, and its partner at the end of `related`. Their numbers,
    /// also where they name each other, and times are set by the commit. The links are indexed
    /// within it.
    AddRelationship {
        /// The table at the other end, as the change was checked against it.
        related: Arc<Table>,
        /// The column, of [`model::Side::Parent`].
        column: Column,
        /// The column at the other end.
        partner: Column,
    },
    /// Gives the column of this number, an end of a relationship, another key, and its
    /// relationship another behaviour on deletion.
    UpdateRelationship {
        /// The column.
        number: ColumnNumber,
        /// Its key.
        key: model::ColumnKey,
        /// What becomes of related rows.
        on_delete: model::OnDelete,
    },
    /// Removes a column, which no index may name; of a relationship, both ends. Its values stay
    /// where they are, because reads at coordinates before this commit need them; no other read
    /// finds them.
    DropColumn(ColumnNumber),
    /// Adds an index. Its number, status and times are set by the commit: it is built within it
    /// if the table has at most [`INDEXED_AT_ONCE_MAX`] versions of rows, and waits for
    /// [`SchemaChange::BuildIndex`] otherwise. One of words is built within it if the table has at
    /// most 1,000 rows. One that is to be unique over equal values fails.
    AddIndex(Index),
    /// Builds the next part of the index of this number, which waits for it: of one of words, 1,000
    /// rows or a mebibyte of text; of another, that over versions or that over rows of now. It
    /// changes the catalogue with the last part, and takes no mark before.
    BuildIndex(u32),
    /// Gives up the index of this number, which waits to be built: rows were found to have equal
    /// values in its columns.
    FailIndex(u32),
    /// Removes the index of this number.
    DropIndex(u32),
}

/// What became of a batch.
pub type Outcome = Result<Applied, Refusal>;

/// A batch that was applied.
#[derive(Clone, Debug)]
pub struct Applied {
    /// Its mark; `None` when it changed nothing.
    pub mark: Option<Mark>,
    /// For each row operation in order, the row as it became; `None` after a delete.
    pub rows: Vec<WrittenRow>,
    /// For each matching operation in order, what it found.
    pub matched: Vec<Matched>,
    /// For each operation over a valid period in order, what it did.
    pub timed: Vec<TimedDone>,
    /// What changed in rows.
    pub changes: Changes,
    /// Tables whose past looks otherwise from now on: a row was erased, or other grants judge who
    /// sees what it once was.
    pub past_changed: Vec<TableNumber>,
    /// Of these, the tables in which rows were erased.
    pub erased: Vec<TableNumber>,
    /// What changed in the catalogue, in order.
    pub catalogue: Vec<CatalogueChange>,
    /// Transactions of clients as they became; one that was removed as it was.
    pub transactions: Vec<Transaction>,
    /// Whether something beside rows was kept: a transaction, the key of a request, or what belongs
    /// to a function. Such a batch must be made durable even if it takes no mark.
    pub keeps: bool,
    /// Whether it leaves something to [`crate::StoreUpkeep::run_upkeep`] that the changes of the
    /// catalogue do not tell.
    pub leaves_upkeep: bool,
    /// [`model::Catalogue::epoch`] after this batch.
    pub catalogue_epoch: u64,
}

/// What a batch changed in rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Changes {
    /// Each row before and after; shared with those that still have to look at them.
    Images(Arc<Vec<Change>>),
    /// Too much for images: anything in these tables may have changed.
    Tables(Vec<TableNumber>),
}

/// About so many bytes are stored of what the handlers are given.
fn calls_bytes(queued: &[NewExecution]) -> usize {
    queued.iter().map(|one| one.call.size_bytes()).sum()
}
