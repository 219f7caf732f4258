//! What belongs to functions and is no part of the catalogue, and operations on it. They take no
//! mark: no reader of rows sees anything of them.

use std::sync::Arc;

use crate::execution_queue::QueueOp;
use crate::execution_record::ExecutionRecord;
use crate::function_name::FunctionName;
use model::{DeploymentId, Timestamp, VariableId};

/// Most functions of a project: all of them are in memory.
pub const FUNCTIONS_MAX: usize = 1_000;
/// Most variables of a function (wire protocol, variables).
pub const VARIABLES_MAX: usize = 100;

/// Most deployments of a function, those whose archive is not all there included.
pub const DEPLOYMENTS_MAX: usize = 100;
/// Most bytes of one piece of an archive or a log: a commit writes one.
pub const PIECE_BYTES_MAX: usize = 1 << 20;
/// Most pieces of one archive, however small a client makes them.
pub const PIECES_MAX: usize = 1_024;
/// An archive that is not all there after so many microseconds goes: a day (wire protocol,
/// deployments).
pub const UPLOAD_KEPT_US: i64 = 24 * 3_600 * 1_000_000;

/// An operation on what belongs to a function.
#[derive(Clone, Debug)]
pub enum FunctionOp {
    /// Creates a variable: [`crate::Refusal::Exists`] where its id or its key is taken.
    CreateVariable {
        /// Of which function.
        function: FunctionName,
        /// Its id.
        id: VariableId,
        /// Its name in the environment.
        key: String,
        /// What it holds.
        value: String,
        /// Whether that is never shown.
        secret: bool,
    },
    /// Changes a variable; `None` keeps.
    UpdateVariable {
        /// Of which function.
        function: FunctionName,
        /// Its id.
        id: VariableId,
        /// Its name in the environment.
        key: Option<String>,
        /// What it holds.
        value: Option<String>,
        /// Whether that is never shown, from now on. A secret stays one.
        secret: bool,
    },
    /// Removes a variable.
    DeleteVariable {
        /// Of which function.
        function: FunctionName,
        /// Its id.
        id: VariableId,
    },
    /// Creates a deployment, whose archive comes in pieces.
    CreateDeployment {
        /// Of which function.
        function: FunctionName,
        /// Its id.
        id: DeploymentId,
        /// Bytes of its archive.
        source_bytes: u64,
        /// Whether it becomes the active one when it is built.
        activate: bool,
        /// The file whose handler is called.
        entrypoint: String,
        /// What builds it.
        commands: String,
    },
    /// On a deployment that is there.
    Deployment {
        /// Of which function.
        function: FunctionName,
        /// Its id.
        id: DeploymentId,
        /// What is done.
        act: DeploymentAct,
    },
    /// Lets every deployment that is being built wait for its build again, without what that build
    /// has made and said: the server that built it is gone.
    RestartBuilds,
    /// Keeps records of executions, each with its function and [`model::Function::seq`] of that;
    /// those of functions that are gone are passed over. The oldest go where a function's options
    /// say so.
    KeepExecutions(Arc<[(FunctionName, i64, ExecutionRecord)]>),
    /// Lets the upkeep remove the records that these functions keep no longer, each by
    /// [`model::Function::seq`] as well; those that are gone are passed over.
    TrimExecutions(Arc<[(FunctionName, i64)]>),
    /// On executions that wait for their start.
    Queue(QueueOp),
    /// Removes an execution that waits, or the record of one, if it is there:
    /// [`crate::execution_queue::ExecutionRefusal::InProgress`] while it runs.
    DeleteExecution {
        /// Of which function.
        function: FunctionName,
        /// Its id.
        id: String,
    },
}

/// What is done to a deployment.
#[derive(Clone, Debug)]
pub enum DeploymentAct {
    /// Stores a piece, which changes nothing that is there:
    /// [`DeploymentRefusal::PieceInvalid`] where it meets others, unless it is there already with
    /// the same bytes.
    PutPiece(ArchivePiece),
    /// Takes it up for its build: [`DeploymentRefusal::BuildMoved`] unless it waits, with all of
    /// its archive.
    BeginBuild,
    /// Ends its build: [`DeploymentRefusal::BuildMoved`] unless it is being built. One that is to
    /// be active becomes so, unless a later one is.
    EndBuild {
        /// Whether it can be executed.
        is_ready: bool,
        /// How long it took, in milliseconds.
        build_ms: u64,
    },
    /// Gives it up: [`DeploymentRefusal::BuildMoved`] where its build has ended.
    Cancel,
    /// Makes it the active one: [`DeploymentRefusal::BuildMoved`] unless it is ready.
    Activate,
    /// Removes it. A function whose active one it was has none any more.
    Delete,
    /// As [`DeploymentAct::Delete`], and nothing to the active one.
    Expire,
}

/// Why nothing is done to a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeploymentRefusal {
    /// Its build is not as far as the operation needs, or farther.
    BuildMoved(DeploymentStatus),
    /// A piece does not fit to the others; the rest of a sentence about it.
    PieceInvalid(&'static str),
}

/// A piece of what belongs to a deployment.
#[derive(Clone, Debug)]
pub struct ArchivePiece {
    /// Of what.
    pub part: ArchivePart,
    /// Where it begins, in bytes.
    pub start: u64,
    /// At most [`PIECE_BYTES_MAX`].
    pub bytes: Arc<[u8]>,
}

/// What a deployment consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchivePart {
    /// The archive that was sent.
    Source,
    /// The archive that its build made.
    Output,
    /// What its build said, as text.
    Log,
}

/// How far a deployment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeploymentStatus {
    /// For the rest of its archive, or for its build.
    Waiting,
    /// It is being built.
    Building,
    /// It can be executed.
    Ready,
    /// Its build has failed.
    Failed,
    /// It was given up.
    Canceled,
}

impl DeploymentStatus {
    const ALL: [DeploymentStatus; 5] = [
        DeploymentStatus::Waiting,
        DeploymentStatus::Building,
        DeploymentStatus::Ready,
        DeploymentStatus::Failed,
        DeploymentStatus::Canceled,
    ];

    /// The word on the wire and on the disk.
    pub fn as_str(self) -> &'static str {
        match self {
            DeploymentStatus::Waiting => "waiting",
            DeploymentStatus::Building => "building",
            DeploymentStatus::Ready => "ready",
            DeploymentStatus::Failed => "failed",
            DeploymentStatus::Canceled => "canceled",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<DeploymentStatus> {
        let mut all = DeploymentStatus::ALL.into_iter();
        all.find(|status| status.as_str() == text)
    }
}

/// A deployment: an archive of code, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// Position in the order of creation, over all functions; never given twice.
    pub seq: i64,
    /// Its id.
    pub id: DeploymentId,
    /// How far it is.
    pub status: DeploymentStatus,
    /// Whether it becomes the active one when it is built.
    pub activate: bool,
    /// The file whose handler is called.
    pub entrypoint: String,
    /// What builds it.
    pub commands: String,
    /// Bytes of its archive.
    pub source_bytes: u64,
    /// So many of them are there.
    pub received_bytes: u64,
    /// Bytes of the archive that its build made.
    pub output_bytes: u64,
    /// How long its build took, in milliseconds.
    pub build_ms: u64,
    /// When it was created.
    pub created: Timestamp,
    /// When it last changed.
    pub updated: Timestamp,
}

impl Deployment {
    /// Whether all of its archive is there.
    pub fn is_whole(&self) -> bool {
        self.received_bytes == self.source_bytes
    }
}

/// A variable in the environment of a function's executions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Position in the order of creation, over all functions.
    pub seq: i64,
    /// Its id.
    pub id: VariableId,
    /// Its name in the environment.
    pub key: String,
    /// What it holds; empty where that is not shown.
    pub value: String,
    /// Whether what it holds is never shown.
    pub secret: bool,
    /// When it was created.
    pub created: Timestamp,
    /// When it last changed.
    pub updated: Timestamp,
}
