//! What batches would do: they are run in a transaction that is never committed.
//!
//! On the connection that writes, because no other can write, and a read that is to show what
//! operations would do must have them done. So nothing else is written as long as a preview
//! exists, and it has a limit that interrupts whatever it does, writing statements as well.

use std::sync::Arc;
use std::time::Duration;

use model::{Mark, Row};

use super::Shared;
use super::commit::writer::{End, Writer};
use super::read::preview;
use crate::batch::{Outcome, WriteBatch};
use crate::refusal::Refusal;
use crate::{Listed, Listing, Point, Preview, StoreError};

/// An open transaction with what became of its batches.
struct Previewing {
    shared: Arc<Shared>,
    /// `None` once it is given back.
    writer: Option<Box<Writer>>,
    outcomes: Vec<Outcome>,
    limit_ms: u64,
}

/// What [`crate::StoreWrites::preview`] promises.
pub(super) fn begin(
    shared: &Arc<Shared>,
    batches: &[WriteBatch],
    first: Mark,
    limit_ms: u64,
) -> Result<Box<dyn Preview>, StoreError> {
    let mut previewing = Previewing {
        shared: Arc::clone(shared),
        writer: Some(shared.take()?),
        outcomes: Vec::new(),
        limit_ms,
    };
    let ran = previewing.run(batches, first);
    ran.map_err(|error| previewing.explain(error))?;
    Ok(Box::new(previewing))
}

impl Previewing {
    fn run(&mut self, batches: &[WriteBatch], first: Mark) -> Result<(), StoreError> {
        let writer = self.writer.as_mut().expect("given back at the end only");
        let limit = Duration::from_millis(self.limit_ms);
        writer.deadline.limit(Some(limit));
        writer.begin()?;
        let mut mark = first;
        for batch in batches {
            // A statement that moves a large row takes few steps, at which alone SQLite looks.
            if writer.deadline.is_past() {
                return Err(StoreError::Interrupted);
            }
            writer.activate_all(mark.timestamp())?;
            let outcome = match writer.run(batch, mark) {
                Ok(applied) => {
                    if applied.mark.is_some() {
                        mark = mark.next();
                    }
                    Ok(applied)
                }
                Err(End::Alone(Refusal::Failed(error)) | End::WithAll(error)) => return Err(error),
                Err(End::Alone(refusal)) => Err(refusal),
            };
            self.outcomes.push(outcome);
        }
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
}

impl Preview for Previewing {
    fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    fn mark(&self) -> Mark {
        self.writer().committed.mark
    }

    fn list(&self, listing: Listing<'_>) -> Result<Listed, StoreError> {
        self.need_epoch(listing.catalogue_epoch)?;
        let writer = self.writer();
        preview::need_kept(listing.query, writer.state.mark)?;
        let listed = preview::list(&writer.connection, &writer.coding, listing);
        listed.map_err(|error| self.explain(error))
    }

    fn get(&self, point: Point<'_>) -> Result<Option<Row>, StoreError> {
        self.need_epoch(point.catalogue_epoch)?;
        let writer = self.writer();
        let found = preview::get(&writer.connection, &writer.coding, point);
        found.map_err(|error| self.explain(error))
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
