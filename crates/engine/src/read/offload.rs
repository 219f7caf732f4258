//! Work on large answers, which would hold up whatever else its thread serves.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};

use futures_channel::oneshot;
use list_cache::Family;
use model::{Catalogue, Coordinates, Marked, Page};
use store::{OffloadKind, StoreError};

use crate::Engine;
use crate::error::{EngineError, Unavailable};
use crate::read::related::Gathering;
use crate::request::attempt::ATTEMPTS_MAX;
use crate::request::inputs::{Caller, ListAnswer};
use crate::request::turn::Turn;

/// Work on so many bytes or more is done on a thread for long reads: on fewer it takes some tenths
/// of a millisecond.
pub const OFFLOAD_BYTES_MIN: usize = 256 << 10;

impl Engine {
    /// Does work on so many bytes: here while they are few, else on a thread for long reads, ahead
    /// of the reads that wait for one. Guests have a share of those threads and a queue of their
    /// own. Work that is dropped before its turn is not done.
    ///
    /// # Errors
    /// [`StoreError::ReadersBusy`] when as much work waits as reads may.
    pub async fn offload<T: Send + 'static>(
        &self,
        bytes: usize,
        of_guest: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        if bytes < OFFLOAD_BYTES_MIN {
            return Ok(work());
        }
        self.handed_over((OffloadKind::Answer, of_guest), |_| work())
            .await
    }

    /// Reads on a thread for long reads: what [`Turn::here`] did not suffice for.
    ///
    /// What a read may have to wait for is the writer, and no thread is held meanwhile: the read
    /// is given up, waits here, and begins again.
    ///
    /// # Errors
    /// As for [`Engine::offload`]; [`Unavailable::Overloaded`] when it had to wait too often.
    pub(crate) async fn read_apart<T: Send + 'static>(
        &self,
        of_guest: bool,
        mut read: impl AsyncFnMut(&Engine, &Turn<'_>) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        for _ in 0..ATTEMPTS_MAX {
            self.wait_until_activated().await?;
            let seen = self.shared.marks.publications();
            let engine = self.this.upgrade().ok_or(StoreError::Interrupted)?;
            let once = move |stop: &AtomicBool| {
                let answer = at_once(read(&engine, &Turn::apart(stop)));
                (read, answer)
            };
            let (again, answer) = self
                .handed_over((OffloadKind::Read, of_guest), once)
                .await?;
            if let Some(answer) = answer {
                return answer;
            }
            read = again;
            // A mark that is not reserved yet, or one that is pending.
            self.fix().await?;
            self.shared.marks.after(seen).await;
        }
        Err(Unavailable::Overloaded.into())
    }

    /// Reads on one snapshot, or at settled coordinates: here while that is short, else on a thread
    /// for long reads.
    ///
    /// # Errors
    /// As for [`Engine::read_apart`].
    pub(crate) async fn in_turns<T: Send + 'static>(
        &self,
        catalogue: &Arc<Catalogue>,
        caller: &Caller,
        at: Option<Coordinates>,
        mut read: impl AsyncFnMut(&mut Gathering<'_>) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<Marked<T>, EngineError> {
        let turn = Turn::here();
        let answer = self.gather(&turn, catalogue, caller, at, &mut read).await;
        if !turn.is_over() {
            return answer;
        }
        let (catalogue, caller) = (catalogue.clone(), caller.clone());
        let of_guest = caller.is_guest();
        let apart = async move |engine: &Engine, turn: &Turn<'_>| {
            let answer = engine.gather(turn, &catalogue, &caller, at, &mut read);
            answer.await
        };
        self.read_apart(of_guest, apart).await
    }

    async fn handed_over<T: Send + 'static>(
        &self,
        (kind, of_guest): (OffloadKind, bool),
        work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let (reply, mut answer) = oneshot::channel();
        // The receiver may be gone.
        let work = Box::new(move |stop: &AtomicBool| drop(reply.send(work(stop))));
        self.shared.store.offload(kind, of_guest, work).await?;
        let done = answer.try_recv().ok().flatten();
        // It broke down, and said so where it did.
        Ok(done.ok_or(StoreError::Interrupted)?)
    }

    /// A page as it is sent, and the number that stands for it.
    pub(crate) async fn encoded(
        &self,
        page: Page,
        family: Family,
        of_guest: bool,
    ) -> Result<(u128, Arc<[u8]>), EngineError> {
        let (encode, seed) = (self.shared.encode_page, self.seed);
        self.offload(page.size_bytes(), of_guest, move || {
            let body = encode(&page, family);
            // Large rows are not held beside two copies of what is made of them.
            drop(page);
            (list_cache::fingerprint(seed, &body), Arc::from(body))
        })
        .await
    }

    /// The answer to a list that no cache keeps: with related rows, or inside a transaction.
    pub(crate) async fn uncached_answer(
        &self,
        Marked {
            answer: (page, total),
            mark,
        }: Marked<(Page, u64)>,
        family: Family,
        of_guest: bool,
    ) -> Result<ListAnswer, EngineError> {
        let (tag, rows) = self.encoded(page, family, of_guest).await?;
        Ok(ListAnswer {
            tag,
            rows,
            total,
            cached: None,
            mark,
            fixed: None,
            is_erased: false,
        })
    }
}

/// The answer of a read that waits for nothing.
pub(crate) fn at_once<T>(read: impl Future<Output = T>) -> Option<T> {
    match pin!(read).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}
