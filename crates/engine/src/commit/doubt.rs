//! A commit of which the database does not say how it ended.
//!
//! It may be there. So its marks stay pending, what it may alter stays withheld, no caller is
//! answered, and nothing of it is run again: an increment would count twice. The writer asks until
//! the database answers, and writes nothing else meanwhile. Callers wait for that no longer than
//! [`PATIENCE_MS`]; then they get the mark that tells them later what became of their write, and it
//! is given to no other commit.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_executor::block_on;
use model::Mark;
use store::{Applied, Committed, InDoubt, Outcome, Pending, StoreError};

use crate::commit::mailbox::Recipient;
use crate::commit::store_calls::StoreCalls;
use crate::error::{EngineError, Unavailable, WriteError};

/// How long callers wait for the outcome of a commit, in milliseconds.
const PATIENCE_MS: u64 = 10_000;
/// The pause before the database is asked again doubles each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Who waits for a batch; none once it was answered.
pub(crate) type Reply = Option<Recipient>;

/// Answers those who wait for a commit with these outcomes with what is known of it by now, and
/// those behind them, who wait for their turn, with that nothing was done.
fn leave(replies: &mut [Reply], outcomes: &[Outcome]) {
    let mut outcomes = outcomes.iter();
    for reply in replies {
        let awaits = || Unavailable::AwaitsCommit.into();
        let error = outcomes.next().map_or_else(awaits, unknown);
        if let Some(reply) = reply.take() {
            reply.send(Err(error));
        }
    }
}

/// What a caller gets whose batch had this outcome inside the commit.
fn unknown(outcome: &Outcome) -> EngineError {
    match outcome {
        Ok(Applied { mark, keeps, .. }) if mark.is_some() || *keeps => {
            WriteError::CommitUnknown { mark: *mark }.into()
        }
        // It changed nothing, perhaps because of what another one of the group had done.
        _ => Unavailable::AwaitsCommit.into(),
    }
}

impl StoreCalls {
    /// Commits what was applied, and waits until it is known how that ended.
    pub(super) fn conclude(
        &self,
        pending: Box<dyn Pending>,
        replies: &mut [Reply],
    ) -> Result<Vec<Outcome>, StoreError> {
        match self.heed(block_on(pending.commit()))? {
            Committed::Done(outcomes) => Ok(outcomes),
            #[cfg(feature = "test-switches")]
            Committed::Unknown(doubt) if self.shared.ignore_doubt.load(Ordering::Relaxed) => {
                Err(doubt.cause().clone())
            }
            Committed::Unknown(doubt) => {
                self.written.unknown.add(1);
                let settled = self.settle(doubt, replies);
                self.shared.awaits_commit.store(false, Ordering::Release);
                settled
            }
        }
    }

    /// Asks until the database answers. What was not done fails with what came in place of its
    /// answer.
    fn settle(
        &self,
        mut doubt: Box<dyn InDoubt>,
        replies: &mut [Reply],
    ) -> Result<Vec<Outcome>, StoreError> {
        let shared = &self.shared;
        let began_ms = shared.clock.elapsed_ms();
        let (mut pause, mut is_left) = (FIRST_PAUSE, false);
        loop {
            match self.call(|_| block_on(doubt.ask())) {
                Ok(true) => return Ok(doubt.outcomes().to_vec()),
                Ok(false) => {
                    if is_left {
                        // Where this fails, only a clock that steps back over a restart could
                        // bring their marks up again.
                        let _ = self.reserve();
                    }
                    return Err(doubt.cause().clone());
                }
                Err(error) if shared.stop.reason().is_some() => return Err(error),
                Err(_) => {}
            }
            if shared.clock.elapsed_ms() - began_ms >= PATIENCE_MS {
                shared.awaits_commit.store(true, Ordering::Release);
                shared.marks.leave_open(last_mark(doubt.outcomes()));
                leave(replies, doubt.outcomes());
                is_left = true;
                if self.refuse_waiting() {
                    return self.heed(Err(closed_in_doubt()));
                }
            }
            self.queue.pause(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Refuses all that waits for the writer. Whether the queue is closed.
    fn refuse_waiting(&self) -> bool {
        let mut queue = self.queue.lock();
        let refused = queue.drain();
        let (dry_runs, closing) = (queue.dry_runs.drain(), queue.closing);
        drop(queue);
        for work in refused {
            work.refuse(Unavailable::AwaitsCommit.into());
        }
        for dry_run in dry_runs {
            dry_run.refuse();
        }
        closing
    }
}

/// The last mark that batches with these outcomes take.
pub(super) fn last_mark(outcomes: &[Outcome]) -> Option<Mark> {
    outcomes
        .iter()
        .flatten()
        .filter_map(|applied| applied.mark)
        .max()
}

fn closed_in_doubt() -> StoreError {
    StoreError::OutcomeUnknown {
        detail: "The server was ended before the database said.".to_owned(),
    }
}
