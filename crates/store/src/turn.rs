//! The right to write, and what can be done with it.

use model::{Mark, Row, Timestamp};

use crate::batch::{Outcome, WriteBatch};
use crate::{Listed, Listing, Pending, Point, StoreFuture};

/// Batches that are tried as one: what they need of each other is judged when all are done, and
/// those that keep the others from being done are left out.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Each whole or not at all.
    pub batches: Vec<WriteBatch>,
    /// Whether it is judged at all. If not, unique values of rows are not always shown.
    pub judges_end: bool,
}

/// The door for writes.
pub trait StoreWrites {
    /// Takes the right to write, and says what stands: as long as the turn lasts no other process
    /// commits. Turns are taken by one caller at a time, and none as long as a [`Pending`], a
    /// [`Preview`] or an [`crate::InDoubt`] that has not answered exists.
    ///
    /// # Errors
    /// What the database says.
    fn turn(&self) -> StoreFuture<'_, Box<dyn WriteTurn + '_>>;
}

/// What stands in the database when a turn begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The mark of the latest commit; [`Mark::ZERO`] if there was none.
    pub mark: Mark,
    /// [`model::Catalogue::epoch`] of the catalogue it left.
    pub catalogue_epoch: u64,
    /// How often another process has written since this one opened the store: also what takes no
    /// mark, as the activation of what is due. And how often a standby has taken the place of its
    /// primary: what is cached may be of what that one had not handed on.
    pub others: u64,
}

/// A turn to write. It ends with what is done in it, or when it is dropped.
pub trait WriteTurn: Send {
    /// What stood when it began.
    fn standing(&self) -> Standing;

    /// Runs each batch whole or not at all, inside one transaction that no reader sees yet.
    ///
    /// The first batch that changes something gets the mark `first`, each further one the next
    /// mark; a batch that is refused, or changes nothing, takes none. One that fails, in whatever
    /// way, takes nothing from its neighbours, even if the database ends the transaction over it.
    /// What is due by its mark, and it looks at, is activated before:
    /// [`crate::Refusal::Behind`] when that is more than one commit brings in.
    /// Batches behind much that was written are not run: [`crate::Refusal::Deferred`].
    ///
    /// # Errors
    /// Only when no batch at all could be run.
    fn apply<'a>(
        self: Box<Self>,
        batches: &'a [WriteBatch],
        first: Mark,
    ) -> StoreFuture<'a, Box<dyn Pending>>
    where
        Self: 'a;

    /// Brings what has become due at `instant`, or begun or ended before it, into what is shown
    /// now, inside a transaction that no reader sees yet. It takes no mark and has no outcomes;
    /// [`Pending::due`] says what changes. At most [`crate::DUE_ROWS_MAX`] rows: while a table's
    /// boundary is not after the instant, more are waiting.
    ///
    /// `instant` is no later than every mark to come, and no earlier than the last one.
    ///
    /// # Errors
    /// What the database says.
    fn activate_due<'a>(self: Box<Self>, instant: Timestamp) -> StoreFuture<'a, Box<dyn Pending>>
    where
        Self: 'a;

    /// Runs batches to look at what would be: no other reader ever sees it, and nothing
    /// of it stays.
    /// [`Preview::outcomes`] has one for each batch of each trial, in order; of a trial of several
    /// it does not tell what changed. `first` is a mark that was never given.
    ///
    /// # Errors
    /// [`crate::StoreError::Timeout`] past `limit_ms`, within which the preview must end, too:
    /// as long as it exists nothing can be written.
    fn preview<'a>(
        self: Box<Self>,
        trials: &'a [Trial],
        first: Mark,
        limit_ms: u64,
    ) -> StoreFuture<'a, Box<dyn Preview>>
    where
        Self: 'a;

    /// Makes durable that marks up to `horizon` may have been read, so that a restart goes on
    /// above them.
    fn reserve<'a>(self: Box<Self>, horizon: Mark) -> StoreFuture<'a, ()>
    where
        Self: 'a;

    /// Forgets every mark and every record of a commit, as if nothing had been committed; for
    /// tests that set the clock. What the catalogue and the tables hold stays.
    ///
    /// # Errors
    /// What the database says.
    fn rewind<'a>(self: Box<Self>) -> StoreFuture<'a, ()>
    where
        Self: 'a;

    /// One bounded piece of upkeep: at most 1,000 rows of dropped tables removed, row bodies of
    /// older schemas rewritten, or versions below their table's line let go of; it ends with the
    /// row that fills 8 MiB. Says whether more is waiting. Takes no mark.
    fn run_upkeep<'a>(self: Box<Self>) -> StoreFuture<'a, bool>
    where
        Self: 'a;
}

/// Rows as batches would leave them. Dropped, it is as if it had never been.
pub trait Preview: Send {
    /// What would become of each batch, in order.
    fn outcomes(&self) -> &[Outcome];

    /// The mark of the state that the batches ran on.
    fn mark(&self) -> Mark;

    /// As [`crate::StoreReads::list`], of what would be.
    ///
    /// # Errors
    /// As there; [`crate::StoreError::Timeout`] when the preview's time is over.
    fn list<'a>(&'a self, listing: Listing<'a>) -> StoreFuture<'a, Listed>;

    /// As [`crate::StoreReads::get`], of what would be.
    ///
    /// # Errors
    /// As there.
    fn get<'a>(&'a self, point: Point<'a>) -> StoreFuture<'a, Option<Row>>;
}
