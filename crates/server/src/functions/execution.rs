//! One execution: what is asked for, and what came of it.

use bytes::Bytes;
use engine::EngineError;
use functions::{FunctionOutcome, RunRefusal};
use model::{DeploymentId, Timestamp};

/// What a caller asks for.
#[derive(Clone, Debug)]
pub struct ExecutionCall {
    /// The id of the execution.
    pub id: String,
    /// The method that the handler sees.
    pub method: &'static str,
    /// The path that the handler sees, with its query string.
    pub path: String,
    /// The headers that the handler sees; names in small letters.
    pub headers: Vec<(String, String)>,
    /// The body that the handler sees.
    pub body: Bytes,
}

/// How an execution stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionStatus {
    /// The handler has answered with a status below 500.
    Completed,
    /// With another one, or not at all.
    Failed,
}

impl ExecutionStatus {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ExecutionStatus::Completed => "completed",
            ExecutionStatus::Failed => "failed",
        }
    }
}

/// An execution that has ended.
#[derive(Clone, Debug)]
pub struct Execution {
    /// What was asked for. Its body is empty: the handler has it.
    pub call: ExecutionCall,
    /// When it was asked for.
    pub created: Timestamp,
    /// When it ended.
    pub updated: Timestamp,
    /// Whose code ran.
    pub deployment: DeploymentId,
    /// How it ended.
    pub outcome: FunctionOutcome,
}

impl Execution {
    /// How it stands.
    pub fn status(&self) -> ExecutionStatus {
        if self.outcome.response.status >= 500 {
            ExecutionStatus::Failed
        } else {
            ExecutionStatus::Completed
        }
    }
}

/// Why there is no execution.
#[derive(Debug)]
pub enum ExecutionFault {
    /// What is stored of the function cannot be had.
    Engine(EngineError),
    /// The executor has not taken it.
    Refused(RunRefusal),
    /// It took longer than a caller waits, in seconds.
    WaitedTooLong {
        /// The limit.
        seconds: u64,
    },
    /// A fault of the host or of ours.
    Broken(String),
}

impl From<EngineError> for ExecutionFault {
    fn from(error: EngineError) -> ExecutionFault {
        ExecutionFault::Engine(error)
    }
}

impl From<String> for ExecutionFault {
    fn from(detail: String) -> ExecutionFault {
        ExecutionFault::Broken(detail)
    }
}
