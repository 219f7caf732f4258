//! What batches would do: they are run in a transaction that is never committed.
//!
//! On the connection that writes, because no other can write, and a read that is to show what
//! operations would do must have them done. So nothing else is written as long as a preview
//! exists, and it has a limit that interrupts whatever it does, writing statements as well.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use model::{Mark, Row, Timestamp};

use super::Shared;
use super::commit::writer::Writer;
use super::read::preview;
use crate::batch::{Applied, Outcome, WriteBatch};
use crate::history_line;
use crate::laws::run::RunManner;
use crate::laws::settled::BatchEnd;
use crate::laws::trying::{TriedGroup, try_all};
use crate::{Listed, Listing, Point, Preview, StoreError, StoreFuture, Trial};

/// An open transaction with what became of its batches.
struct Previewing {
    shared: Arc<Shared>,
    /// `None` once it is given back.
    writer: Option<Box<Writer>>,
    outcomes: Vec<Outcome>,
    limit_ms: u64,
}

/// What [`crate::WriteTurn::preview`] promises.
pub(super) fn begin(
    shared: &Arc<Shared>,
    trials: &[Trial],
    first: Mark,
    limit_ms: u64,
) -> Result<Box<dyn Preview>, StoreError> {
    let mut previewing = Previewing {
        shared: Arc::clone(shared),
        writer: Some(shared.take()?),
        outcomes: Vec::new(),
        limit_ms,
    };
    let ran = previewing.run(trials, first);
    ran.map_err(|error| previewing.explain(error))?;
    Ok(Box::new(previewing))
}

impl Previewing {
    fn run(&mut self, trials: &[Trial], first: Mark) -> Result<(), StoreError> {
        let writer = self.writer.as_mut().expect("given back at the end only");
        let limit = Duration::from_millis(self.limit_ms);
        writer.deadline.limit(Some(limit));
        writer.begin()?;
        self.outcomes = try_all(&mut **writer, trials, first)?;
        Ok(())
    }

    fn writer(&self) -> &Writer {
        self.writer.as_ref().expect("given back at the end only")
    }

    /// Nothing but its limit interrupts a preview.
    fn explain(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Interrupted => StoreError::Timeout {
                limit_ms: self.limit_ms,
            },
            other => other,
        }
    }

    fn need_epoch(&self, epoch: u64) -> Result<(), StoreError> {
        if self.writer().state.catalogue.epoch == epoch {
            Ok(())
        } else {
            Err(StoreError::CatalogueMoved)
        }
    }

    fn find_list(&self, listing: Listing<'_>) -> Result<Listed, StoreError> {
        self.need_epoch(listing.catalogue_epoch)?;
        let writer = self.writer();
        history_line::check_query(listing.query, writer.state.mark)?;
        let listed = preview::list(&writer.connection, &writer.coding, listing);
        listed.map_err(|error| self.explain(error))
    }

    fn find(&self, point: Point<'_>) -> Result<Option<Row>, StoreError> {
        self.need_epoch(point.catalogue_epoch)?;
        let writer = self.writer();
        let found = preview::get(&writer.connection, &writer.coding, point);
        found.map_err(|error| self.explain(error))
    }
}

impl TriedGroup for Writer {
    fn need_time(&self) -> Result<(), StoreError> {
        // A statement that moves a large row takes few steps, at which alone SQLite looks.
        if self.deadline.is_past() {
            return Err(StoreError::Interrupted);
        }
        Ok(())
    }

    fn show_all_due(&mut self, instant: Timestamp) -> Result<(), StoreError> {
        self.activate_all(instant)
    }

    fn run_so(
        &mut self,
        batch: &WriteBatch,
        mark: Mark,
        manner: RunManner,
    ) -> Result<Applied, BatchEnd> {
        Writer::run_so(self, batch, mark, manner)
    }
}

impl Preview for Previewing {
    fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    fn mark(&self) -> Mark {
        self.writer().committed.mark
    }

    fn list<'a>(&'a self, listing: Listing<'a>) -> StoreFuture<'a, Listed> {
        Box::pin(ready(self.find_list(listing)))
    }

    fn get<'a>(&'a self, point: Point<'a>) -> StoreFuture<'a, Option<Row>> {
        Box::pin(ready(self.find(point)))
    }
}

impl Drop for Previewing {
    fn drop(&mut self) {
        if let Some(mut writer) = self.writer.take() {
            writer.deadline.limit(None);
            writer.rollback();
            self.shared.give_back(writer);
        }
    }
}
