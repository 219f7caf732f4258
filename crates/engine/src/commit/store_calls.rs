//! How the writer's thread calls the store: a fault of the program ends one call, and after some
//! answers nothing more may be written.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
#[cfg(feature = "test-switches")]
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use list_cache::{Batch, Withheld};
use model::TableNumber;
use store::{Standing, Store, StoreError, WriteTurn};

use crate::commit::write_queue::WriteQueue;
use crate::error::EngineError;
use crate::state::shared::Shared;
use crate::state::tally::Written;

/// From one turn to the next where nothing is written.
const TURN_EVERY: Duration = Duration::from_secs(1);

/// The store, what its answers change, and what waits for them.
pub(super) struct StoreCalls {
    pub(super) shared: Arc<Shared>,
    pub(super) written: Arc<Written>,
    pub(super) queue: Arc<WriteQueue>,
    /// [`Standing::others`], as far as their commits were taken in.
    pub(super) others: Cell<u64>,
    /// Whether commits of others were taken in, and what they left was not looked for yet.
    pub(super) has_caught_up: Cell<bool>,
    /// Since the right to write was lost, all lists: another process may write.
    lost: RefCell<Option<Withheld>>,
    /// The last turn.
    turned: Cell<Instant>,
}

impl StoreCalls {
    pub(super) fn new(
        shared: Arc<Shared>,
        written: Arc<Written>,
        queue: Arc<WriteQueue>,
    ) -> StoreCalls {
        StoreCalls {
            shared,
            written,
            queue,
            others: Cell::new(0),
            has_caught_up: Cell::new(false),
            lost: RefCell::default(),
            turned: Cell::new(Instant::now()),
        }
    }

    /// Calls the store. A fault of the program in there fails the call and nothing else: what it
    /// has begun is taken back.
    pub(super) fn call<'s, T>(
        &'s self,
        call: impl FnOnce(&'s dyn Store) -> Result<T, StoreError>,
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

    /// When a turn is due that only shows whether another process has written; `None` where none
    /// can.
    pub(super) fn until_turn(&self) -> Option<Duration> {
        let rest = TURN_EVERY.saturating_sub(self.turned.get().elapsed());
        (!self.shared.store.keeps_its_turn()).then_some(rest)
    }

    /// Takes such a turn if it is due.
    pub(super) fn take_due_turn(&self) {
        if self.until_turn().is_some_and(|until| until.is_zero()) {
            // Lists are withheld where it fails, and writers meet the same.
            let _ = self.turn();
        }
    }

    /// No list is kept while others may write: what they alter is not known.
    fn withhold_all(&self) {
        let mut lost = self.lost.borrow_mut();
        if lost.is_none() {
            let catalogue = self.shared.catalogue();
            let tables: Vec<TableNumber> = catalogue.tables().map(|table| table.number).collect();
            *lost = Some(self.shared.lists.withhold(Batch {
                past_changed: tables.clone(),
                unseen: tables,
                ..Batch::default()
            }));
        }
    }

    /// Takes the right to write. What others have committed is taken in before. While it is lost,
    /// no list is kept.
    ///
    /// # Errors
    /// What the store says. A database that lacks commits which this process has seen is written
    /// to no more: their marks would be given twice.
    pub(super) fn turn(&self) -> Result<Box<dyn WriteTurn + '_>, StoreError> {
        self.turned.set(Instant::now());
        let turn = self
            .call(|store| block_on(store.turn()))
            .inspect_err(|error| {
                let is_lost = |error: &StoreError| {
                    use StoreError::{DatabaseUnfit, Unreachable};
                    matches!(error, Unreachable { .. } | DatabaseUnfit(_))
                };
                if is_lost(error) {
                    self.withhold_all();
                }
            })?;
        if let Some(withheld) = self.lost.take() {
            self.shared.lists.publish(withheld, false);
        }
        if self.looks() {
            self.take_in(turn.standing())?;
        }
        Ok(turn)
    }

    /// What others have committed by then is taken in.
    fn take_in(&self, standing: Standing) -> Result<(), StoreError> {
        let shared = &self.shared;
        let published = shared.marks.published();
        if standing.mark < published {
            shared.stop(format!(
                "The database ends at mark {}, and commits up to mark {} were made durable in it: \
                 an older state of it was put in its place.",
                standing.mark.0, published.0
            ));
            return Err(StoreError::Stopped);
        }
        let has_moved =
            standing.mark > published || standing.catalogue_epoch != shared.catalogue_epoch();
        if has_moved || standing.others != self.others.get() {
            shared.catch_up(self.call(|store| block_on(store.load()))?);
            self.others.set(standing.others);
            self.has_caught_up.set(true);
        }
        Ok(())
    }

    /// Whether it is looked at what stands. Where doubt is ignored, that would bring up most of
    /// what was missed.
    #[cfg(feature = "test-switches")]
    fn looks(&self) -> bool {
        !self.shared.ignore_doubt.load(Ordering::Relaxed)
    }

    #[cfg(not(feature = "test-switches"))]
    #[expect(clippy::unused_self, reason = "the switch exists in test builds only")]
    fn looks(&self) -> bool {
        true
    }

    /// Does something in a turn; a fault in there is caught as well.
    pub(super) fn in_turn<T>(
        &self,
        act: impl FnOnce(Box<dyn WriteTurn + '_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let turn = self.turn()?;
        self.call(|_| act(turn))
    }

    pub(super) fn reserve(&self) -> Result<(), EngineError> {
        let horizon = self.shared.marks.reservation(self.shared.now());
        self.in_turn(|turn| block_on(turn.reserve(horizon)))?;
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
