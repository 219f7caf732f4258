//! Calls of a store for which a turn is taken each time.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use model::{Mark, Timestamp};
use store::{Pending, Preview, StoreError, StoreFuture, StoreWrites, Trial, WriteBatch};

/// What a store answers that has the answer before it is first polled. For hooks, which are called
/// while their caller waits for a future: there it can wait for no other.
///
/// # Errors
/// What the store says.
pub fn at_once<T>(mut answer: StoreFuture<'_, T>) -> Result<T, StoreError> {
    match answer
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it is there at the first poll"),
    }
}

/// The same of a store that waits for a database: the thread that polls the answer first waits.
pub fn waited<'a, T: 'a>(mut answer: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
    Box::pin(async move {
        let waker = Waker::from(Arc::new(Unparked(thread::current())));
        loop {
            match answer.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(answer) => return answer,
                Poll::Pending => thread::park(),
            }
        }
    })
}

/// Wakes a thread that waits.
struct Unparked(Thread);

impl Wake for Unparked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The calls of [`store::WriteTurn`], each in a turn of its own.
pub trait OwnTurn: StoreWrites + Sync {
    /// See [`store::WriteTurn::apply`].
    fn apply<'a>(
        &'a self,
        batches: &'a [WriteBatch],
        first: Mark,
    ) -> StoreFuture<'a, Box<dyn Pending>> {
        Box::pin(async move { self.turn().await?.apply(batches, first).await })
    }

    /// See [`store::WriteTurn::activate_due`].
    fn activate_due(&self, instant: Timestamp) -> StoreFuture<'_, Box<dyn Pending>> {
        Box::pin(async move { self.turn().await?.activate_due(instant).await })
    }

    /// See [`store::WriteTurn::preview`].
    fn preview<'a>(
        &'a self,
        trials: &'a [Trial],
        first: Mark,
        limit_ms: u64,
    ) -> StoreFuture<'a, Box<dyn Preview>> {
        Box::pin(async move { self.turn().await?.preview(trials, first, limit_ms).await })
    }

    /// See [`store::WriteTurn::reserve`].
    fn reserve(&self, horizon: Mark) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.turn().await?.reserve(horizon).await })
    }

    /// See [`store::WriteTurn::rewind`].
    fn rewind(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.turn().await?.rewind().await })
    }

    /// See [`store::WriteTurn::run_upkeep`].
    fn run_upkeep(&self) -> StoreFuture<'_, bool> {
        Box::pin(async move { self.turn().await?.run_upkeep().await })
    }
}

impl<T: StoreWrites + Sync + ?Sized> OwnTurn for T {}
