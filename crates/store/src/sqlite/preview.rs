//! What batches would do: they are run in a transaction that is never committed.
//!
//! On the connection that writes, because no other can write, and a read that is to show what
//! operations would do must have them done. So nothing else is written as long as a preview
//! exists, and it has a limit that interrupts whatever it does, writing statements as well.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use model::{Mark, Row};

use super::Shared;
use super::commit::writer::Writer;
use super::read::preview;
use super::together::Together;
use crate::batch::{Outcome, WriteBatch};
use crate::history_line;
use crate::laws::run::RunManner;
use crate::laws::settled::BatchEnd;
use crate::refusal::Refusal;
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
        let mut trying = Trying {
            writer,
            mark: first,
        };
        for trial in trials {
            self.outcomes.extend(trying.run(trial)?);
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

/// Batches as they are tried, one trial after the other.
struct Trying<'w> {
    writer: &'w mut Writer,
    /// The next one that was never given.
    mark: Mark,
}

/// So often a trial is begun again without the batch that kept it from being done. Then each is
/// tried on its own.
const ROUNDS_MAX: usize = 16;

impl Trying<'_> {
    /// Tries batches that are to be committed together. Those that keep the others from being done
    /// are left out.
    fn run(&mut self, trial: &Trial) -> Result<Vec<Outcome>, StoreError> {
        let group = &*trial.batches;
        let manner = |blames| RunManner {
            blames,
            judges_end: trial.judges_end,
        };
        if group.len() > 1 {
            let mut refused: Vec<Option<Refusal>> = vec![None; group.len()];
            for _ in 0..ROUNDS_MAX {
                let together = Together::of(group, &refused);
                match self.one(&together.batch, manner(true))? {
                    Ok(applied) => return Ok(together.outcomes(applied, refused)),
                    Err(Refusal::Of { nth, refusal }) => {
                        refused[together.batch_of(nth)] = Some(*refusal);
                    }
                    Err(_) => break,
                }
            }
        }
        let each = group.iter();
        each.map(|batch| self.one(batch, manner(batch.noted_in.is_some())))
            .collect()
    }

    fn one(&mut self, batch: &WriteBatch, manner: RunManner) -> Result<Outcome, StoreError> {
        // A statement that moves a large row takes few steps, at which alone SQLite looks.
        if self.writer.deadline.is_past() {
            return Err(StoreError::Interrupted);
        }
        self.writer.activate_all(self.mark.timestamp())?;
        match self.writer.run_so(batch, self.mark, manner) {
            Ok(applied) => {
                if applied.mark.is_some() {
                    self.mark = self.mark.next();
                }
                Ok(Ok(applied))
            }
            Err(BatchEnd::Alone(Refusal::Failed(error)) | BatchEnd::WithAll(error)) => Err(error),
            Err(BatchEnd::Alone(refusal)) => Ok(Err(refusal)),
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
