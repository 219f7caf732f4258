//! What is kept of executions of functions.

use model::{DeploymentId, Timestamp};

/// Most records of a function that a list looks at: the newest ones. They are read whole but for
/// headers and logs, some hundred bytes each.
pub const RECORDS_LISTED_MAX: usize = 100_000;

/// Why an execution starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionTrigger {
    /// A caller asked for it.
    Http,
    /// The clock has come to a minute of its function's schedule.
    Schedule,
    /// A row has changed.
    Event,
}

impl ExecutionTrigger {
    /// The word on the wire and on the disk.
    pub fn as_str(self) -> &'static str {
        match self {
            ExecutionTrigger::Http => "http",
            ExecutionTrigger::Schedule => "schedule",
            ExecutionTrigger::Event => "event",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<ExecutionTrigger> {
        use ExecutionTrigger::{Event, Http, Schedule};
        let mut all = [Http, Schedule, Event].into_iter();
        all.find(|trigger| trigger.as_str() == text)
    }
}

/// How far an execution is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionStatus {
    /// Its caller has named a later instant.
    Scheduled,
    /// For its start.
    Waiting,
    /// It runs.
    Processing,
    /// The handler has answered with a status below 500.
    Completed,
    /// With another one, or not at all.
    Failed,
}

impl ExecutionStatus {
    /// The word on the wire and on the disk.
    pub fn as_str(self) -> &'static str {
        match self {
            ExecutionStatus::Scheduled => "scheduled",
            ExecutionStatus::Waiting => "waiting",
            ExecutionStatus::Processing => "processing",
            ExecutionStatus::Completed => "completed",
            ExecutionStatus::Failed => "failed",
        }
    }

    /// One that has ended.
    pub(crate) fn parse(text: &str) -> Option<ExecutionStatus> {
        let all = [ExecutionStatus::Completed, ExecutionStatus::Failed];
        all.into_iter().find(|status| status.as_str() == text)
    }
}

/// Headers in their order: names in small letters, and values.
pub type Headers = Vec<(String, String)>;

/// An execution without its bodies: one that has ended, unless it is shown before.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionRecord {
    /// Position in the order in which they were kept, over all functions; 0 before that.
    pub seq: i64,
    /// Its id.
    pub id: String,
    /// Why it was executed.
    pub trigger: ExecutionTrigger,
    /// Whose code ran.
    pub deployment: DeploymentId,
    /// How it ended.
    pub status: ExecutionStatus,
    /// The method that the handler saw.
    pub method: String,
    /// The path that the handler saw, with its query string.
    pub path: String,
    /// Headers that the handler saw.
    pub request_headers: Headers,
    /// The status of the response.
    pub response_status: u16,
    /// Headers of the response.
    pub response_headers: Headers,
    /// What the handler logged.
    pub logs: String,
    /// What it logged as errors.
    pub errors: String,
    /// From the start of the handler to its end, in microseconds.
    pub duration_us: u64,
    /// The instant that its caller has named for its start.
    pub scheduled: Option<Timestamp>,
    /// When it was asked for.
    pub created: Timestamp,
    /// When it ended.
    pub updated: Timestamp,
}

impl ExecutionRecord {
    /// About so many bytes are stored of it.
    pub fn size_bytes(&self) -> usize {
        /// Ids, numbers, and what the indexes repeat of them.
        const FIXED: usize = 200;
        let of = |headers: &Headers| -> usize {
            let pairs = headers.iter();
            pairs
                .map(|(name, value)| name.len() + value.len() + 8)
                .sum()
        };
        let texts = self.path.len() + self.logs.len() + self.errors.len();
        FIXED + texts + of(&self.request_headers) + of(&self.response_headers)
    }
}
