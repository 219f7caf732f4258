//! Many writes in one request: together, or each on its own.

use model::{Catalogue, Mark};
use store::{Once, Op, Outcome, Refusal, WriteBatch};

use crate::Engine;
use crate::commit::batch::batch;
use crate::commit::writer::unanswered;
use crate::error::EngineError;
use crate::error::refused::refused;
use crate::request::authorize::{self, WRITE_ROWS};
use crate::request::inputs::Caller;
use crate::write::operation::Operation;
use crate::write::plan::plan;

/// Batches of one request that wait for a commit at once: as many as share a sync well, and few
/// enough to leave room in the queue for others.
const WAITING_MAX: usize = 100;

/// Operations to do.
#[derive(Clone, Debug)]
pub struct BatchWrite {
    /// In the order of their effect.
    pub operations: Vec<Operation>,
    /// Whether all of them have one mark, or none has an effect.
    pub is_atomic: bool,
}

/// What became of an operation: its mark, if it changed anything.
type Written = Result<Option<Mark>, EngineError>;

impl Engine {
    /// Does the operations; what became of each, in order. Those of a request that is sent again
    /// are not done again if they had an effect, and have the marks they had.
    ///
    /// # Errors
    /// Of an atomic batch, what keeps one of its operations from being done;
    /// [`crate::WriteError::RequestKeyReused`].
    pub async fn write_batch(
        &self,
        caller: &Caller,
        request: &BatchWrite,
    ) -> Result<Vec<Written>, EngineError> {
        authorize::need_scope(caller, WRITE_ROWS)?;
        authorize::project(&self.catalogue(), caller)?;
        if request.is_atomic {
            let operations = &request.operations;
            let once = self.once_of_part(caller, 0);
            let mark = self.write_part(caller, operations, once).await?;
            return Ok(vec![Ok(mark); operations.len()]);
        }
        let mut written = Vec::with_capacity(request.operations.len());
        for (nth, part) in request.operations.chunks(WAITING_MAX).enumerate() {
            let first = nth * WAITING_MAX;
            written.extend(self.write_each(caller, part, first).await);
        }
        Ok(written)
    }

    /// Does operations each on its own, in groups with as many others as there are.
    async fn write_each(
        &self,
        caller: &Caller,
        operations: &[Operation],
        first: usize,
    ) -> Vec<Written> {
        let seen = self.shared.marks.publications();
        let catalogue = self.catalogue();
        let onces: Vec<Option<Once>> = (first..first + operations.len())
            .map(|part| self.once_of_part(caller, part as u32))
            .collect();
        let submitted: Vec<_> = operations
            .iter()
            .zip(&onces)
            .map(|(one, once)| {
                let batch = prepare(&catalogue, caller, std::slice::from_ref(one), once.clone());
                self.writer.submit(batch?)
            })
            .collect();
        let mut written = Vec::with_capacity(operations.len());
        for ((submitted, one), once) in submitted.into_iter().zip(operations).zip(onces) {
            let outcome = match submitted {
                Ok(answer) => answer.await.unwrap_or_else(|_| Err(unanswered())),
                Err(error) => Err(error),
            };
            written.push(match outcome {
                Ok(Err(Refusal::CatalogueMoved)) => {
                    self.shared.newer_catalogue(catalogue.epoch, seen).await;
                    self.write_part(caller, std::slice::from_ref(one), once)
                        .await
                }
                Ok(outcome) => mark_of(outcome),
                Err(error) => Err(error),
            });
        }
        written
    }

    /// Does operations together.
    async fn write_part(
        &self,
        caller: &Caller,
        operations: &[Operation],
        once: Option<Once>,
    ) -> Written {
        self.under_catalogue(async |catalogue| {
            let batch = prepare(catalogue, caller, operations, once.clone())?;
            mark_of(self.writer.commit(batch).await?)
        })
        .await
    }
}

fn prepare(
    catalogue: &Catalogue,
    caller: &Caller,
    operations: &[Operation],
    once: Option<Once>,
) -> Result<WriteBatch, EngineError> {
    let mut ops: Vec<Op> = once.into_iter().map(Op::Once).collect();
    for operation in operations {
        ops.extend(plan(catalogue, caller, operation)?);
    }
    Ok(batch(catalogue, caller, ops))
}

fn mark_of(outcome: Outcome) -> Written {
    match outcome {
        Ok(applied) => Ok(applied.mark),
        Err(Refusal::Repeated(repeated)) if repeated.is_same => Ok(repeated.mark),
        Err(refusal) => Err(refused(refusal)),
    }
}
