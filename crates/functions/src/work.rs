//! What the executor is handed, and what it hands back.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::memory_budget::HeldMemory;

/// One deployment, unpacked and ready to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpackedDeployment {
    /// Of the deployment; its processes are found by it.
    pub id: String,
    /// Rises with each change of what is below: the processes of a lower one are retired.
    pub revision: u64,
    /// The runtime's id, such as `node-20.0`.
    pub runtime: String,
    /// The root of its code.
    pub folder: PathBuf,
    /// The file with the handler, relative to the folder.
    pub entrypoint: String,
    /// The whole environment of the handler.
    pub variables: Vec<(String, String)>,
    /// What one process may hold.
    pub memory_mib: u32,
    /// What one process weighs among others, where the kernel weighs them: 1 to 10,000.
    pub cpu_weight: u32,
    /// How many requests may be in flight in one process.
    pub concurrency: usize,
    /// Whether it reaches public addresses, and names.
    pub reaches_outside: bool,
}

/// One run of a function.
#[derive(Clone, Debug)]
pub struct FunctionWork {
    /// Whose code runs.
    pub deployment: Arc<UnpackedDeployment>,
    /// The method that the handler sees.
    pub method: String,
    /// The path that the handler sees, with its query string.
    pub path: String,
    /// The headers that the handler sees; names in small letters.
    pub headers: Vec<(String, String)>,
    /// The body that the handler sees.
    pub body: Bytes,
    /// Counts from the start of the handler.
    pub timeout: Duration,
    /// Counts from acceptance, time in the queue included; `None` where no caller waits. Then the
    /// body of the response is dropped as it comes.
    pub wait_max: Option<Duration>,
}

/// Why a run ended. The text of an error is in [`FunctionOutcome::errors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunCause {
    /// The handler answered, or threw.
    Answered,
    /// The handler took longer than its `timeout`.
    TimedOut,
    /// No answer within `wait_max`.
    WaitedTooLong,
    /// The process held more than its memory.
    OutOfMemory,
    /// The process ended by itself, or broke a rule of the frames.
    ProcessEnded,
    /// The process was killed over another request: this one may run again.
    NeighbourStopped,
    /// The processes of this deployment end before they answer anything.
    NeverStarted,
    /// The host could not start a process: this one may run again.
    NotStarted,
    /// The executor was shut down: this one may run again.
    ShutDown,
}

impl RunCause {
    /// As metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            RunCause::Answered => "answered",
            RunCause::TimedOut => "timed_out",
            RunCause::WaitedTooLong => "waited_too_long",
            RunCause::OutOfMemory => "out_of_memory",
            RunCause::ProcessEnded => "process_ended",
            RunCause::NeighbourStopped => "neighbour_stopped",
            RunCause::NeverStarted => "never_started",
            RunCause::NotStarted => "not_started",
            RunCause::ShutDown => "shut_down",
        }
    }
}

/// What a handler answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunResponse {
    /// 200 to 599.
    pub status: u16,
    /// Names in small letters.
    pub headers: Vec<(String, String)>,
    /// At most [`crate::ExecutorSettings::body_bytes_max`].
    pub body: Bytes,
}

/// How a run ended. One that failed has the status 500.
#[derive(Debug)]
pub struct FunctionOutcome {
    /// Why it ended.
    pub cause: RunCause,
    /// What its caller gets.
    pub response: RunResponse,
    /// What it logged, at most 1,000,000 letters.
    pub logs: String,
    /// What it logged as errors, with the reason of a failure as the last line.
    pub errors: String,
    /// The memory of both, which counts until this is dropped.
    pub held: HeldMemory,
    /// From the start of the handler to its end; zero for one that never started.
    pub duration: Duration,
    /// Whether it waited for a process to start.
    pub is_cold: bool,
}

/// Why a run was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunRefusal {
    /// As many runs of this deployment wait as may.
    QueueFull {
        /// Runs that may wait.
        runs_max: usize,
        /// What their bodies may hold.
        bytes_max: usize,
    },
    /// The bodies of all runs hold as much memory as they may, or those of this deployment as much
    /// as they leave free.
    BodiesFull {
        /// What all may hold.
        bytes_max: usize,
    },
    /// No interpreter on this host answers to this id.
    RuntimeMissing {
        /// As the deployment names it.
        runtime: String,
    },
    /// The deployment reaches outside, which takes a jail with a network of its own.
    NetworkMissing,
    /// The executor is being shut down.
    Closing,
}

impl RunRefusal {
    /// As metrics name it.
    pub fn as_str(&self) -> &'static str {
        match self {
            RunRefusal::QueueFull { .. } => "queue_full",
            RunRefusal::BodiesFull { .. } => "bodies_full",
            RunRefusal::RuntimeMissing { .. } => "runtime_missing",
            RunRefusal::NetworkMissing => "network_missing",
            RunRefusal::Closing => "closing",
        }
    }
}

impl std::fmt::Display for RunRefusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunRefusal::QueueFull {
                runs_max,
                bytes_max,
            } => write!(
                formatter,
                "the queue of this function is full ({runs_max} runs or {bytes_max} bytes)"
            ),
            RunRefusal::BodiesFull { bytes_max } => write!(
                formatter,
                "the bodies of executions for which callers wait hold as much of {bytes_max} \
                 bytes as they may"
            ),
            RunRefusal::RuntimeMissing { runtime } => {
                write!(formatter, "the runtime `{runtime}` is not on this host")
            }
            RunRefusal::NetworkMissing => write!(
                formatter,
                "its network is `outside`, which needs isolation `full` on this host"
            ),
            RunRefusal::Closing => write!(formatter, "the server is stopping"),
        }
    }
}

impl std::error::Error for RunRefusal {}
