//! Batches that are tried, to look at what would be, one trial after the other.

use model::{Mark, Timestamp};

use super::run::RunManner;
use super::settled::BatchEnd;
use super::together::Together;
use crate::batch::{Applied, Outcome, WriteBatch};
use crate::refusal::Refusal;
use crate::{StoreError, Trial};

/// So often a trial is begun again without the batch that kept it from being done. Then each is
/// tried on its own.
const ROUNDS_MAX: usize = 16;

/// An open transaction that comes to nothing, and has little time.
pub(crate) trait TriedGroup {
    /// # Errors
    /// [`StoreError::Interrupted`] when its time is over.
    fn need_time(&self) -> Result<(), StoreError>;

    /// Shows all that is due by the instant.
    fn show_all_due(&mut self, instant: Timestamp) -> Result<(), StoreError>;

    /// Runs a batch at a mark, whole or not at all.
    fn run_so(
        &mut self,
        batch: &WriteBatch,
        mark: Mark,
        manner: RunManner,
    ) -> Result<Applied, BatchEnd>;
}

/// Tries batches. `mark` was never given.
///
/// # Errors
/// When the time is over, or the database fails.
pub(crate) fn try_all(
    group: &mut impl TriedGroup,
    trials: &[Trial],
    mark: Mark,
) -> Result<Vec<Outcome>, StoreError> {
    let mut trying = Trying { group, mark };
    let mut outcomes = Vec::new();
    for trial in trials {
        outcomes.extend(trying.run(trial)?);
    }
    Ok(outcomes)
}

/// Batches as they are tried.
struct Trying<'g, G> {
    group: &'g mut G,
    /// The next one that was never given.
    mark: Mark,
}

impl<G: TriedGroup> Trying<'_, G> {
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
        self.group.need_time()?;
        self.group.show_all_due(self.mark.timestamp())?;
        match self.group.run_so(batch, self.mark, manner) {
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
