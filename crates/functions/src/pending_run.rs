//! A run between its acceptance and its end.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::memory_budget::HeldMemory;
use crate::work::{FunctionOutcome, FunctionWork, RunCause, RunResponse};

/// A run that was accepted and has not ended.
#[derive(Debug)]
pub struct PendingRun {
    pub work: FunctionWork,
    pub accepted: Instant,
    pub reply: oneshot::Sender<FunctionOutcome>,
    /// The memory of its body.
    pub held: HeldMemory,
    /// How many processes ended before it was started in them.
    pub moves: u32,
    /// Whether it waited for a process to start.
    pub is_cold: bool,
}

impl PendingRun {
    /// When its caller gives up.
    pub fn wait_end(&self) -> Option<Instant> {
        self.work.wait_max.map(|wait| self.accepted + wait)
    }

    /// Ends it without a response of a handler.
    pub fn fail(self, cause: RunCause, ended: RunFailure) {
        // A caller who went away gets nothing; the run has ended all the same.
        let _ = self.reply.send(FunctionOutcome {
            cause,
            response: RunResponse {
                status: 500,
                headers: Vec::new(),
                body: Bytes::new(),
            },
            logs: ended.logs,
            errors: ended.errors,
            held: ended.held,
            duration: ended.duration,
            is_cold: self.is_cold,
        });
    }
}

/// What is known of a run that failed.
#[derive(Debug, Default)]
pub struct RunFailure {
    pub logs: String,
    /// With the reason as the last line.
    pub errors: String,
    /// The memory of both.
    pub held: HeldMemory,
    pub duration: Duration,
}

impl RunFailure {
    pub fn because(reason: impl Into<String>) -> RunFailure {
        RunFailure {
            errors: reason.into(),
            ..RunFailure::default()
        }
    }
}
