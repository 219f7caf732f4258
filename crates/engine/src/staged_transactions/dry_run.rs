//! Finding out what operations would do, on the writer's thread and without a trace.

use futures_channel::oneshot;
use model::{Catalogue, Mark};
use store::{Op, Outcome, Preview, StagedOperation, StoreError, Trial, WriteBatch};

use super::text::doer;
use super::text::{self, Kept};
use crate::Engine;
use crate::commit::batch::batch;
use crate::commit::dry_runs::DryRun;
use crate::error::EngineError;
use crate::request::inputs::Caller;
use crate::write::plan::plan;

/// What a dry run said.
pub(crate) struct DryRunOutcome<T> {
    pub(crate) outcomes: Vec<Outcome>,
    /// The mark of the state it was tried on.
    pub(super) mark: Mark,
    pub(super) seen: T,
}

impl Engine {
    /// Tries batches, and then looks.
    pub(crate) async fn dry_run<T: Send + 'static>(
        &self,
        caller: &Caller,
        trials: Vec<Trial>,
        look: impl FnOnce(&dyn Preview) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<DryRunOutcome<T>, EngineError> {
        let (reply, answer) = oneshot::channel();
        let look = move |preview: Result<&dyn Preview, StoreError>| {
            let tried = preview.and_then(|preview| {
                Ok(DryRunOutcome {
                    outcomes: preview.outcomes().to_vec(),
                    mark: preview.mark(),
                    seen: look(preview)?,
                })
            });
            // A caller that went away needs no answer.
            let _ = reply.send(tried);
        };
        self.writer.enqueue_dry_run(DryRun {
            trials,
            is_of_guest: !caller.actor.bypasses_grants(),
            look: Box::new(look),
        })?;
        let tried = answer.await.map_err(|_| self.writer.gave_up())?;
        Ok(tried?)
    }
}

/// The operations of a transaction as they were staged.
pub(super) fn kept(staged: &[StagedOperation]) -> Result<Vec<Kept>, EngineError> {
    let read = |staged: &StagedOperation| {
        text::read(&staged.body).ok_or_else(|| {
            EngineError::Store(StoreError::Corrupt {
                detail: "a staged operation cannot be read".to_owned(),
            })
        })
    };
    staged.iter().map(read).collect()
}

/// A batch for each operation that can be done under today's catalogue; the others would fail,
/// and show nothing.
pub(super) fn batches<'k>(
    catalogue: &Catalogue,
    caller: &Caller,
    kept: impl IntoIterator<Item = &'k Kept>,
) -> Vec<WriteBatch> {
    let planned = kept.into_iter().filter_map(|kept| {
        let doer = doer(caller, kept);
        plan(catalogue, &doer, &kept.operation).ok()
    });
    planned
        .map(|ops: Vec<Op>| batch(catalogue, caller, ops))
        .collect()
}
