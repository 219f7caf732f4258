//! What becomes due: rows that were scheduled begin and end without a commit.
//!
//! The writer activates them at their instant (`commit.rs`). Until it has, a read of now does not
//! wait for it, for it may stand behind a large write: it takes the rows that are due from the
//! versions, and nothing of it is cached.
//!
//! A commit takes its time to be durable, and boundaries pass meanwhile. A reader across both
//! may meet the commit and lack what began or ended before it could be seen; and a reader
//! across a boundary at which very much begins or ends may meet the first slice of that. A reader
//! that looks at the two one after the other never finds either. Such a read is begun again.

use std::sync::atomic::Ordering;

use model::{Mark, TableNumber, Timestamp};
use store::Boundaries;

use crate::Engine;
use crate::error::EngineError;
use crate::state::shared::Shared;

/// What stood before a read of now.
#[derive(Clone, Copy)]
pub(crate) struct Before {
    /// Commits up to here could be seen.
    published: Mark,
    slices: u64,
    passages: u64,
    /// Of this table alone; `None` is all.
    table: Option<TableNumber>,
}

impl Shared {
    /// Now, as reads and marks have it: the clock may have stepped back since the last commit, or
    /// since something was activated.
    pub(crate) fn instant(&self) -> Timestamp {
        self.now().max(self.marks.passed().timestamp())
    }

    /// Whether `boundary` lies at or before now. Where it lies ahead, which nearly every read of a
    /// table finds, no lock is taken: a clock that is not believed is ahead of now.
    fn is_passed(&self, boundary: Timestamp) -> bool {
        boundary < Timestamp::END
            && boundary <= self.clock.now().max(self.marks.passed().timestamp())
            && boundary <= self.instant()
    }

    /// The instant it is now, if what the table shows now is behind it.
    pub(crate) fn overdue(&self, table: TableNumber) -> Option<Timestamp> {
        if !self.is_passed(self.lists.first_boundary()) {
            return None;
        }
        let now = self.instant();
        self.lists.is_overdue(table, now).then_some(now)
    }

    /// What stands before a read of the table, or, without one, of several. To be asked for before
    /// it is asked what is due.
    pub(crate) fn before(&self, table: Option<TableNumber>) -> Before {
        Before {
            published: self.marks.published(),
            slices: self.slices.load(Ordering::Acquire),
            passages: self.passages(table),
            table,
        }
    }

    fn passages(&self, table: Option<TableNumber>) -> u64 {
        match table {
            Some(table) => self.lists.passages(table),
            None => self.lists.passages_of_all(),
        }
    }

    /// Before a commit that activates what is due, and leaves these boundaries.
    pub(crate) fn note_activation(&self, left: &Boundaries) {
        let now = self.instant();
        if left.values().any(|at| *at <= now) {
            self.slices.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether something may have begun or ended by itself since.
    pub(crate) fn has_passed(&self, before: &Before) -> bool {
        let is_due = match before.table {
            Some(table) => self.overdue(table).is_some(),
            None => self.is_due(),
        };
        is_due || self.passages(before.table) != before.passages
    }

    /// Whether a read on one snapshot that shows commits up to `mark` may lack what began or ended
    /// before the last of them could be seen.
    pub(crate) fn is_torn(&self, before: &Before, mark: Mark) -> bool {
        mark > before.published && self.has_passed(before)
    }

    /// Whether a read of the rows of now, when nothing was due, may show a part of what has begun
    /// or ended since, or lack it as above.
    pub(crate) fn parts(&self, before: &Before, mark: Mark) -> bool {
        self.slices.load(Ordering::Acquire) != before.slices || self.is_torn(before, mark)
    }

    /// Whether anything is due.
    pub(crate) fn is_due(&self) -> bool {
        self.is_passed(self.lists.first_boundary())
    }

    /// Up to when the writer activates what is due before a read waits for it. No mark to come is
    /// below that, and a clock that clients set is one request's: if that is refused, the next one
    /// may come earlier. So there it is what was committed, read or waited for.
    pub(crate) fn writers_instant(&self) -> Timestamp {
        if self.clock.is_set() {
            self.marks.passed().timestamp()
        } else {
            self.instant()
        }
    }

    /// Whether the writer has something to activate.
    pub(crate) fn is_due_to_writer(&self) -> bool {
        self.is_due() && self.lists.first_boundary() <= self.writers_instant()
    }
}

impl Engine {
    /// The instant it is now, if what the table shows now is behind it; then the writer is to
    /// activate what is due.
    pub(crate) fn overdue(&self, table: TableNumber) -> Option<Timestamp> {
        let overdue = self.shared.overdue(table);
        if overdue.is_some() {
            self.writer.wake();
        }
        overdue
    }

    /// Waits until nothing is due, for reads that go from table to table.
    pub(crate) async fn wait_until_activated(&self) -> Result<(), EngineError> {
        if self.shared.is_due() {
            self.writer.activate_due(self.shared.instant()).await?;
        }
        Ok(())
    }
}
