//! What becomes due: rows that were scheduled begin and end without a commit.
//!
//! The writer brings them in at their instant (`commit.rs`). Until it has, a read of now does not
//! wait for it, for it may stand behind a large write: it takes the rows that are due from the
//! versions, and nothing of it is cached.

use model::{TableNumber, Timestamp};

use crate::Engine;
use crate::error::EngineError;
use crate::shared::Shared;

impl Shared {
    /// Now, as reads and marks have it: the clock may have stepped back since the last commit, or
    /// since something was brought in.
    pub(crate) fn instant(&self) -> Timestamp {
        self.now().max(self.marks.passed().timestamp())
    }

    /// Whether `boundary` lies at or before now. Where it lies ahead, which nearly every read of a
    /// table finds, no lock is taken: a clock that is not believed is ahead of now.
    fn has_passed(&self, boundary: Timestamp) -> bool {
        boundary < Timestamp::END
            && boundary <= self.clock.now().max(self.marks.passed().timestamp())
            && boundary <= self.instant()
    }

    /// The instant it is now, if what the table shows now is behind it.
    pub(crate) fn overdue(&self, table: TableNumber) -> Option<Timestamp> {
        if !self.has_passed(self.lists.first_boundary()) {
            return None;
        }
        let now = self.instant();
        self.lists.is_overdue(table, now).then_some(now)
    }

    /// Whether what the table shows by itself has changed since its next boundary was `boundary`,
    /// or is to be changed: a read that took so long may have seen a commit that came after the
    /// boundary, and not what began or ended at it.
    pub(crate) fn has_matured(&self, table: TableNumber, boundary: Timestamp) -> bool {
        self.has_passed(boundary) || self.overdue(table).is_some()
    }

    /// Whether anything is due.
    pub(crate) fn is_due(&self) -> bool {
        self.has_passed(self.lists.first_boundary())
    }
}

impl Engine {
    /// The instant it is now, if what the table shows now is behind it; then the writer is told to
    /// bring in what is due.
    pub(crate) fn overdue(&self, table: TableNumber) -> Option<Timestamp> {
        let overdue = self.shared.overdue(table);
        if overdue.is_some() {
            self.writer.wake();
        }
        overdue
    }

    /// Waits until nothing is due, for reads that go from table to table.
    pub(crate) async fn settle_due(&self) -> Result<(), EngineError> {
        if self.shared.is_due() {
            self.writer.bring_due().await?;
        }
        Ok(())
    }
}
