//! Executions that wait for their start, or run while no caller waits for them.

use std::sync::Arc;

use model::{DeploymentId, Mark, ProjectId, TableNumber, Timestamp};

use crate::execution_record::{ExecutionRecord, ExecutionStatus, ExecutionTrigger, Headers};
use crate::function_name::FunctionName;

/// Most executions of one project that wait (wire protocol, queue).
pub const QUEUED_MAX: u64 = 10_000;
/// Most bytes of their bodies and headers.
pub const QUEUED_BYTES_MAX: u64 = 1 << 30;

/// What waits, without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedExecution {
    /// Position in the order in which they were queued, over all functions; 0 before that.
    pub seq: i64,
    /// Its id.
    pub id: String,
    /// Why it is executed.
    pub trigger: ExecutionTrigger,
    /// The active deployment as of then.
    pub deployment: DeploymentId,
    /// It is not started before.
    pub due: Timestamp,
    /// Whether its caller has named that instant.
    pub is_scheduled: bool,
    /// How often it was started.
    pub attempt: u32,
    /// Until when no one else starts it; `None` while it waits.
    pub lease: Option<Timestamp>,
    /// The method that the handler sees.
    pub method: String,
    /// The path that the handler sees, with its query string.
    pub path: String,
    /// How many executions stand behind it.
    pub depth: u8,
    /// When it was asked for.
    pub created: Timestamp,
    /// When it was last started or returned.
    pub updated: Timestamp,
}

impl QueuedExecution {
    /// As it is shown at an instant.
    pub fn record(&self, now: Timestamp) -> ExecutionRecord {
        let status = match self.lease {
            Some(_) => ExecutionStatus::Processing,
            None if self.is_scheduled && self.due > now => ExecutionStatus::Scheduled,
            None => ExecutionStatus::Waiting,
        };
        ExecutionRecord {
            seq: self.seq,
            id: self.id.clone(),
            trigger: self.trigger,
            deployment: self.deployment.clone(),
            status,
            method: self.method.clone(),
            path: self.path.clone(),
            request_headers: Vec::new(),
            response_status: 0,
            response_headers: Vec::new(),
            logs: String::new(),
            errors: String::new(),
            duration_us: 0,
            scheduled: self.is_scheduled.then_some(self.due),
            created: self.created,
            updated: self.updated,
        }
    }
}

/// What a handler is given: encrypted on disk, and gone when the execution ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuedCall {
    /// Headers that the handler sees.
    pub headers: Headers,
    /// The body that it sees.
    pub body: Arc<[u8]>,
}

impl QueuedCall {
    /// About so many bytes are stored of it.
    pub fn size_bytes(&self) -> usize {
        let headers = self.headers.iter();
        let headers: usize = headers.map(|(name, value)| name.len() + value.len()).sum();
        self.body.len() + headers
    }
}

/// An execution that is to be queued.
#[derive(Clone, Debug)]
pub struct NewExecution {
    /// Its function.
    pub function: FunctionName,
    /// [`model::Function::seq`] of that.
    pub function_seq: i64,
    /// What is known of it.
    pub queued: QueuedExecution,
    /// What its handler is given.
    pub call: QueuedCall,
}

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBounds {
    /// Executions of one project.
    pub count_max: u64,
    /// Bytes of their bodies and headers.
    pub bytes_max: u64,
}

/// An operation on what waits.
#[derive(Clone, Debug)]
pub enum QueueOp {
    /// Queues executions; those of functions that are gone are passed over.
    /// [`ExecutionRefusal::QueueFull`] where not all of them have room.
    Put(Arc<[NewExecution]>, QueueBounds),
    /// Queues the execution of a minute of its function's schedule; nothing where that minute, or a
    /// later one, was queued before, and where the function is gone.
    PutMinute(Box<NewExecution>, Timestamp, QueueBounds),
    /// Queues what changes of rows ask for, and moves a cursor behind those changes.
    PutEvents(Arc<NewEvents>),
    /// Takes a lease on those that wait, by [`QueuedExecution::seq`], and counts a start. Those
    /// that have gone, or are leased beyond `now`, are passed over.
    Start {
        /// Which.
        seqs: Vec<i64>,
        /// The instant of the start.
        now: Timestamp,
        /// The end of the lease.
        until: Timestamp,
    },
    /// Moves the end of leases.
    Renew {
        /// Which.
        seqs: Vec<i64>,
        /// The end.
        until: Timestamp,
    },
    /// Ends a lease: it waits again.
    Return {
        /// Which.
        seq: i64,
        /// Whether its start counts.
        counts: bool,
    },
    /// Ends all leases: who held them is gone.
    Release,
    /// Removes one that has ended, and keeps its record: both or nothing. One that is not there any
    /// more, with its function, is passed over.
    End {
        /// [`QueuedExecution::seq`].
        seq: i64,
        /// Its function.
        function: FunctionName,
        /// [`model::Function::seq`] of that.
        function_seq: i64,
        /// What came of it.
        record: Box<ExecutionRecord>,
    },
}

/// What follows from changes of rows: all of it, or nothing where the cursor is not at `from`.
/// Executions and records of functions that are gone are passed over.
#[derive(Clone, Debug)]
pub struct NewEvents {
    /// Whose changes they are. Those of the rest never meet [`ExecutionRefusal::QueueFull`]: a
    /// project without room for all of its own gets a cursor of its own at `from`, and nothing of
    /// it is queued.
    pub of: CursorOf,
    /// Projects that get a cursor of their own at `from`, whatever room they have.
    pub held: Vec<ProjectId>,
    /// What is queued.
    pub queued: Vec<NewExecution>,
    /// The records of what is not to be started, each with its function and the number of that.
    pub failed: Vec<(FunctionName, i64, ExecutionRecord)>,
    /// Where the cursor is.
    pub from: EventCursor,
    /// Where it is then.
    pub to: EventCursor,
    /// How much may wait.
    pub bounds: QueueBounds,
}

/// Whose changes a cursor goes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CursorOf {
    /// Those of all projects but these, which have cursors of their own; in the order of their ids.
    AllBut(Vec<ProjectId>),
    /// Those of one project whose events have waited. It ends where it reaches the cursor of the
    /// rest.
    Project(ProjectId),
}

/// Why nothing is done to an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionRefusal {
    /// It runs.
    InProgress,
    /// As many wait as may.
    QueueFull(QueueBounds),
}

/// How far changes of rows were looked at: the last one that was, in the order of commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventCursor {
    /// Of the commit.
    pub mark: Mark,
    /// The table.
    pub table: TableNumber,
    /// The row.
    pub row: String,
}

/// A row that a commit has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedRow {
    /// Of the commit.
    pub mark: Mark,
    /// The table, which may be gone.
    pub table: TableNumber,
    /// The row.
    pub id: String,
    /// Who made the commit.
    pub author: Option<String>,
}

/// Changes behind a cursor, as of one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedRows {
    /// Where it is.
    pub cursor: EventCursor,
    /// The next ones, of all projects, in their order.
    pub rows: Vec<ChangedRow>,
    /// Where the cursor is behind all of them.
    pub end: EventCursor,
    /// The projects that have cursors of their own, in the order of their ids.
    pub apart: Vec<ProjectId>,
    /// The functions that listen, by [`model::Function::seq`], with the marks behind which they do.
    pub listening: Vec<(i64, i64)>,
}
