//! What was applied and is not committed yet, and the three ends of its commit: it is done, it came
//! to nothing, or that is not known.

use crate::batch::{Changes, Outcome};
use crate::{Boundaries, StoreError, StoreFuture};

/// A transaction that ran and that no reader sees yet. Dropped, it is rolled back.
pub trait Pending: Send {
    /// What became of each batch, in order.
    fn outcomes(&self) -> &[Outcome];

    /// What became due before, or between, the batches, and was activated into what is shown now.
    fn due(&self) -> &[Changes];

    /// The next valid-time boundary of each table that has one, once this is committed.
    fn boundaries(&self) -> Boundaries;

    /// Makes it durable, then visible.
    ///
    /// # Errors
    /// Nothing of it is visible, nor ever will be, and the store is ready for the next `apply`.
    fn commit(self: Box<Self>) -> StoreFuture<'static, Committed>;
}

/// How a commit ended that is not known to have come to nothing.
pub enum Committed {
    /// It is durable: it survives a power cut (with the durability `full`). SQLite needs
    /// `synchronous = FULL` in WAL mode for that (SQLite manual, "PRAGMA synchronous").
    Done(Vec<Outcome>),
    /// The database has not said. It is there whole or not at all, and readers may see it.
    Unknown(Box<dyn InDoubt>),
}

/// A commit of which it is not known whether it was done. What may be done must not be run again:
/// an increment would count twice. Nothing else is written before the store has answered.
pub trait InDoubt: Send {
    /// What becomes of each batch if it was done, in order.
    fn outcomes(&self) -> &[Outcome];

    /// What came in place of an answer.
    fn cause(&self) -> &StoreError;

    /// Asks the database: whether it was done. If not, nothing of it will ever be visible. Either
    /// way the store is ready for the next `apply`.
    ///
    /// # Errors
    /// While the database does not say. It may be asked again, but after
    /// [`StoreError::OutcomeUnknown`]: then only a restart tells, and till then the store answers
    /// whatever is to be written with [`StoreError::Stopped`].
    fn ask(&mut self) -> StoreFuture<'_, bool>;
}
