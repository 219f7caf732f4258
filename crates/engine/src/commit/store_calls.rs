//! How the writer's thread calls the store: a fault of the program ends one call, and after some
//! answers nothing more may be written.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_executor::block_on;
use store::{Store, StoreError};

use crate::commit::write_queue::WriteQueue;
use crate::error::EngineError;
use crate::state::shared::Shared;
use crate::state::tally::Written;

/// The store, what its answers change, and what waits for them.
pub(super) struct StoreCalls {
    pub(super) shared: Arc<Shared>,
    pub(super) written: Arc<Written>,
    pub(super) queue: Arc<WriteQueue>,
}

impl StoreCalls {
    /// Calls the store. A fault of the program in there fails the call and nothing else: what it
    /// has begun is taken back.
    pub(super) fn call<T>(
        &self,
        call: impl FnOnce(&dyn Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let called = catch_unwind(AssertUnwindSafe(|| call(&*self.shared.store)));
        self.heed(called.unwrap_or_else(|panic| {
            self.written.panics.add(1);
            let detail = said(&*panic);
            Err(StoreError::Panicked { detail })
        }))
    }

    /// Takes in what the store has answered: after some answers nothing more may be written.
    pub(super) fn heed<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error @ (StoreError::OutcomeUnknown { .. } | StoreError::Stopped)) = &answer {
            self.shared.stop(error.to_string());
        }
        answer
    }

    pub(super) fn reserve(&self) -> Result<(), EngineError> {
        let horizon = self.shared.marks.reservation(self.shared.now());
        self.call(|store| block_on(store.reserve(horizon)))?;
        self.shared.marks.reserved(horizon);
        Ok(())
    }
}

/// What a panic said.
pub(super) fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no message").to_owned()
}
