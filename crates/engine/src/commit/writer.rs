//! The thread that writes, as the others see it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use futures_channel::oneshot;
use model::Timestamp;
use store::{EncodeRow, Op, Outcome, Refusal, SpaceLimit, StoreError, WriteBatch};

use crate::commit::dry_runs::DryRun;
use crate::commit::group::GroupCommit;
use crate::commit::mailbox::{Answer, Recipient};
use crate::commit::quota::Held;
use crate::commit::write_queue::{Queue, Work, WriteQueue};
use crate::error::refused::refused;
use crate::error::{EngineError, Unavailable};
use crate::state::shared::Shared;
use crate::state::tally::{Writes, Written};

/// The answer to a batch that was submitted.
pub(crate) type Submitted = oneshot::Receiver<Answer>;

/// What became of a batch that has got no answer: the writer broke down over its group.
pub(crate) fn unanswered() -> EngineError {
    EngineError::Store(StoreError::OutcomeUnknown {
        detail: "The writer broke down.".to_owned(),
    })
}

/// The queue of writes and the thread that empties it.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    queue: Arc<WriteQueue>,
    waiting_max: usize,
    held: Arc<Held>,
    encode_row: EncodeRow,
    written: Arc<Written>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts the thread. At most `waiting_max` requests may wait, and none that `held` has no room
    /// for.
    pub(crate) fn start(
        shared: Arc<Shared>,
        waiting_max: usize,
        held: Arc<Held>,
        encode_row: EncodeRow,
    ) -> std::io::Result<Writer> {
        let queue = Arc::<WriteQueue>::default();
        let written = Arc::<Written>::default();
        let mut group =
            GroupCommit::new(shared.clone(), written.clone(), queue.clone(), held.clone());
        let thread = std::thread::Builder::new()
            .name("writer".into())
            .spawn(move || group.run_to_the_end())?;
        Ok(Writer {
            shared,
            queue,
            waiting_max,
            held,
            encode_row,
            written,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Commits `batch`; `Ok` means it is durable and visible.
    pub(crate) async fn commit(&self, batch: WriteBatch) -> Result<Outcome, EngineError> {
        let answer = self.submit(batch)?;
        answer.await.unwrap_or_else(|_| Err(unanswered()))
    }

    /// As [`Writer::commit`], which answers later: so several can share a group.
    pub(crate) fn submit(&self, mut batch: WriteBatch) -> Result<Submitted, EngineError> {
        if let Err(full) = self.held.admit(&mut batch) {
            // A request that has run before is answered so, whether or not it could run again.
            batch.ops.retain(|op| matches!(op, Op::Once(_)));
            if batch.ops.is_empty() {
                self.held.refused(&full);
                return Err(refused(Refusal::Full(full)));
            }
            batch.space = SpaceLimit::None(full);
        }
        // Before bodies are encoded: a client could have that done for requests that are refused.
        self.check_room(&self.queue.lock())?;
        batch.encode_bodies(self.encode_row);
        let (reply, answer) = Recipient::here();
        self.enqueue(Work::Write {
            batch,
            reply,
            put_aside: None,
        })?;
        Ok(answer)
    }

    /// Makes durable that marks ahead of the clock may be read.
    pub(crate) async fn reserve(&self) -> Result<(), EngineError> {
        self.ask(|reply| Work::Reserve { reply }).await
    }

    /// Has what is due at the instant activated.
    pub(crate) async fn activate_due(&self, instant: Timestamp) -> Result<(), EngineError> {
        self.ask(|reply| Work::ActivateDue { instant, reply }).await
    }

    /// Forgets every mark.
    pub(crate) async fn rewind(&self) -> Result<(), EngineError> {
        self.ask(|reply| Work::Rewind { reply }).await
    }

    async fn ask(
        &self,
        work: impl FnOnce(oneshot::Sender<Result<(), EngineError>>) -> Work,
    ) -> Result<(), EngineError> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(work(reply))?;
        answer
            .await
            .map_err(|_| EngineError::Unavailable(Unavailable::Stopped))?
    }

    /// Makes the writer look at the clock: a boundary has passed, and perhaps not by the clock
    /// that it sleeps by.
    pub(crate) fn wake(&self) {
        self.queue.lock().is_woken = true;
        self.queue.notify();
    }

    /// Queues `dry_run` for the writer's thread, in its turn.
    pub(crate) fn enqueue_dry_run(&self, dry_run: DryRun) -> Result<(), EngineError> {
        let mut queue = self.queue.lock();
        if queue.closing {
            return Err(self.closing());
        }
        self.check_doubt()?;
        queue.dry_runs.push(dry_run)?;
        drop(queue);
        self.queue.notify();
        Ok(())
    }

    fn enqueue(&self, work: Work) -> Result<(), EngineError> {
        let mut queue = self.queue.lock();
        self.check_room(&queue)?;
        let wakes = queue.push(work);
        drop(queue);
        if wakes {
            self.queue.notify();
        }
        Ok(())
    }

    /// # Errors
    /// When another request may not wait now.
    fn check_room(&self, queue: &Queue) -> Result<(), EngineError> {
        if queue.closing {
            return Err(self.closing());
        }
        self.check_doubt()?;
        if queue.waiting() >= self.waiting_max {
            self.written.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Unavailable::Overloaded.into());
        }
        Ok(())
    }

    /// # Errors
    /// While the outcome of a commit is not known for so long that nothing waits for it any more.
    fn check_doubt(&self) -> Result<(), Unavailable> {
        if self.shared.awaits_commit.load(Ordering::Acquire) {
            return Err(Unavailable::AwaitsCommit);
        }
        Ok(())
    }

    /// Why a dry run got no answer.
    pub(crate) fn gave_up(&self) -> EngineError {
        if self.queue.lock().closing {
            return self.closing();
        }
        let detail = "a dry run broke down".to_owned();
        EngineError::Store(StoreError::Panicked { detail })
    }

    /// Why no more is taken.
    fn closing(&self) -> EngineError {
        match self.shared.stop.reason() {
            Some(_) => EngineError::Unavailable(Unavailable::Stopped),
            None => EngineError::Unavailable(Unavailable::Closing),
        }
    }

    /// What was written, and what waits.
    pub(crate) fn writes(&self) -> Writes {
        let written = &*self.written;
        Writes {
            commits: written.commits.get(),
            failed: written.failed.get(),
            unknown: written.unknown.get(),
            panics: written.panics.get(),
            rows: written.rows.get(),
            refused: written.refused.load(Ordering::Relaxed),
            waiting: self.queue.lock().waiting(),
            waiting_max: self.waiting_max,
            pending: written.pending.get(),
            requests: written.requests.read(),
            apply_ns: written.apply_ns.read(),
            sync_ns: written.sync_ns.read(),
        }
    }

    /// Takes no more requests, finishes those that wait, and ends the thread.
    pub(crate) fn close(&self) {
        self.queue.lock().closing = true;
        self.queue.notify();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // A panic in the writer was reported when it happened; there is nothing to add.
            let _ = thread.join();
        }
    }
}
