//! One execution: what is asked for, and what came of it.

use std::time::Instant;

use bytes::Bytes;
use engine::{EngineError, ExecutionRecord, ExecutionStatus, ExecutionTrigger};
use functions::{FunctionOutcome, HeldMemory, RunRefusal};
use model::{DeploymentId, Function, Timestamp};

use super::log_rate::LogRate;

/// Headers of a request that a record keeps (wire protocol, executions).
const REQUEST_HEADERS_KEPT: [&str; 5] = [
    "content-type",
    "agent",
    "content-length",
    "host",
    "x-appwrite-client-ip",
];
/// Headers of a response that a record keeps.
const RESPONSE_HEADERS_KEPT: [&str; 2] = ["content-type", "content-length"];

/// What a caller asks for.
#[derive(Clone, Debug)]
pub struct ExecutionCall {
    /// The id of the execution.
    pub id: String,
    /// Why it starts.
    pub trigger: ExecutionTrigger,
    /// The method that the handler sees.
    pub method: String,
    /// The path that the handler sees, with its query string.
    pub path: String,
    /// The headers that the handler sees, but for those that each start has of its own; names in
    /// small letters.
    pub headers: Vec<(String, String)>,
    /// The body that the handler sees.
    pub body: Bytes,
    /// How many executions stand behind this one: [`engine::CallingFunction::depth`] of a caller
    /// that is one, else 0.
    pub depth: u8,
}

impl ExecutionCall {
    /// The headers of a start with its key, which is for its handler alone.
    pub fn handed_headers(&self, key: &str, attempt: u32) -> Vec<(String, String)> {
        let own = [
            ("x-appwrite-key".to_owned(), key.to_owned()),
            ("x-tidemark-attempt".to_owned(), attempt.to_string()),
        ];
        self.headers.iter().cloned().chain(own).collect()
    }
}

/// What the server says to every handler in headers; `client` is the address of the caller, if
/// there is one.
pub fn own_headers(id: &str, trigger: ExecutionTrigger, client: &str) -> Vec<(String, String)> {
    let own = [
        ("x-appwrite-execution-id", id),
        ("x-appwrite-trigger", trigger.as_str()),
        ("x-appwrite-user-id", ""),
        ("x-appwrite-user-jwt", ""),
        ("x-appwrite-client-ip", client),
        ("x-appwrite-country-code", ""),
        ("x-appwrite-continent-code", ""),
        ("x-appwrite-continent-eu", "false"),
    ];
    own.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

/// An execution that has ended, as its caller sees it.
#[derive(Debug)]
pub struct Execution {
    /// With all headers.
    pub record: ExecutionRecord,
    /// The body of the response.
    pub body: Bytes,
    /// The memory of its logs.
    held: HeldMemory,
}

impl Execution {
    /// What came of a call.
    pub fn new(
        call: ExecutionCall,
        deployment: DeploymentId,
        outcome: FunctionOutcome,
        (created, updated): (Timestamp, Timestamp),
    ) -> Execution {
        let response = outcome.response;
        let status = if response.status >= 500 {
            ExecutionStatus::Failed
        } else {
            ExecutionStatus::Completed
        };
        Execution {
            record: ExecutionRecord {
                seq: 0,
                id: call.id,
                trigger: call.trigger,
                deployment,
                status,
                method: call.method,
                path: call.path,
                request_headers: call.headers,
                response_status: response.status,
                response_headers: response.headers,
                logs: outcome.logs,
                errors: outcome.errors,
                duration_us: outcome.duration.as_micros() as u64,
                scheduled: None,
                created,
                updated,
            },
            body: response.body,
            held: outcome.held,
        }
    }

    /// What is kept of it: no body, of the headers those that say what the bodies were, and of the
    /// logs as much as its function may bring.
    pub fn kept(&self, function: &Function, rate: &LogRate) -> ExecutionRecord {
        let mut record = self.record.clone();
        reduce(&mut record, function, rate);
        record
    }

    /// As [`Execution::kept`], with the memory of its logs, where no caller is to be answered.
    pub fn into_kept(
        mut self,
        function: &Function,
        rate: &LogRate,
    ) -> (ExecutionRecord, HeldMemory) {
        reduce(&mut self.record, function, rate);
        (self.record, self.held)
    }
}

/// Each record of an execution that was run passes here.
fn reduce(record: &mut ExecutionRecord, function: &Function, rate: &LogRate) {
    rate.bound(function.seq, record, Instant::now());
    let keep = |headers: &mut Vec<(String, String)>, names: &[&str]| {
        headers.retain(|(name, _)| names.contains(&name.as_str()));
    };
    keep(&mut record.request_headers, &REQUEST_HEADERS_KEPT);
    keep(&mut record.response_headers, &RESPONSE_HEADERS_KEPT);
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
