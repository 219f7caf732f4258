//! The end of writing before the engine is closed.
//!
//! A fault of the writer, or a commit whose outcome is unknown, ends it for good: what
//! follows would rest on what is not known. Reads go on meanwhile. The marks that were given stay
//! pending, so no read says of such a commit that it is there, or that it will never be.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};

/// Whether writing has ended so, and who waits for that.
#[derive(Default)]
pub(crate) struct Stop {
    reason: OnceLock<String>,
    waiters: Mutex<Vec<Waker>>,
}

impl Stop {
    /// Ends it; the first reason stays.
    pub(crate) fn set(&self, reason: String) {
        if self.reason.set(reason).is_ok() {
            let waiters = std::mem::take(&mut *self.waiters());
            waiters.into_iter().for_each(Waker::wake);
        }
    }

    /// Why it ended, if it has.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }

    /// Waits until it ends.
    pub(crate) async fn wait(&self) -> &str {
        std::future::poll_fn(|context| {
            let mut waiters = self.waiters();
            if let Some(reason) = self.reason() {
                return Poll::Ready(reason);
            }
            waiters.push(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn waiters(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
