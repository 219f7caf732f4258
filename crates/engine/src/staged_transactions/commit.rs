//! The commit: all operations in one batch, in the order in which they were staged.

use model::{Catalogue, Marked};
use store::{
    Op, OperationsOf, Outcome, Refusal, Since, Staged, StoreError, Transaction, TransactionRefusal,
    TransactionStatus,
};

use super::dry_run::kept;
use super::text::doer;
use crate::Engine;
use crate::commit::batch::batch;
use crate::error::refused::refused;
use crate::error::{EngineError, TransactionError, WriteError};
use crate::request::authorize::WRITE_ROWS;
use crate::request::inputs::{Caller, Effect};
use crate::write::plan::plan;

impl Engine {
    /// Commits a transaction: one batch, one mark. If an operation cannot be done, none is, and
    /// the transaction has failed.
    ///
    /// # Errors
    /// [`TransactionError::NotFound`], [`TransactionError::Ended`],
    /// [`TransactionError::Expired`]; [`TransactionError::Conflict`],
    /// [`TransactionError::TooLarge`] when it would change more than 10,000 rows, and
    /// whatever keeps one of the operations from being done.
    pub async fn commit_transaction(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Marked<Transaction>, EngineError> {
        self.under_catalogue(async |catalogue| {
            let wanted = OperationsOf::Everything;
            let found = self.find_open(caller, WRITE_ROWS, id, wanted).await?;
            let ops = match self.ops(catalogue, caller, &found) {
                Ok(ops) => ops,
                Err(error) => return Err(self.fail(caller, &found.0, conflict_of(error)).await),
            };
            let once = self.once(caller, |done, tell| {
                if let Some(ended) = done.transactions.first() {
                    tell(&Effect::Transaction(ended));
                }
            });
            let ops = once.into_iter().map(Op::Once).chain(ops).collect();
            let outcome = self.writer.commit(batch(catalogue, caller, ops)).await?;
            let judged = self.judge_commit(caller, &found.0, outcome).await?;
            Ok(judged.ok_or(StoreError::CatalogueMoved)?)
        })
        .await
    }

    /// Everything that the commit does.
    fn ops(
        &self,
        catalogue: &Catalogue,
        caller: &Caller,
        (known, staged): &Staged,
    ) -> Result<Vec<Op>, EngineError> {
        let count = Some(staged.len());
        let end = self.end(known, TransactionStatus::Committed, count);
        let mut ops = vec![Op::Transaction(end)];
        for (kept, staged) in kept(staged)?.iter().zip(staged) {
            let operation = &kept.operation;
            ops.push(Op::Since(Since {
                mark: operation.may_conflict().then_some(staged.seen),
                instant: operation.unchanged_since,
            }));
            ops.extend(plan(catalogue, &doer(caller, kept), operation)?);
        }
        Ok(ops)
    }

    /// The transaction, if it is committed; `None` if it must be tried again.
    async fn judge_commit(
        &self,
        caller: &Caller,
        known: &Transaction,
        outcome: Outcome,
    ) -> Result<Option<Marked<Transaction>>, EngineError> {
        use TransactionRefusal as R;
        match outcome {
            Ok(applied) => {
                let mut changed = applied.transactions.into_iter();
                Ok(Some(Marked {
                    answer: changed.next().expect("it was ended by the batch"),
                    // One that changed nothing has none of its own.
                    mark: applied
                        .mark
                        .unwrap_or_else(|| self.shared.marks.published()),
                }))
            }
            Err(Refusal::CatalogueMoved | Refusal::Transaction(R::Moved)) => Ok(None),
            // Nothing is known against the operations.
            Err(
                refusal @ (Refusal::Failed(_)
                | Refusal::Repeated(_)
                | Refusal::AnswerTooLarge { .. }
                | Refusal::Full(_)
                | Refusal::Transaction(R::NotFound(_) | R::Ended(_) | R::Expired(_))),
            ) => Err(refused(refusal)),
            Err(refusal) => Err(self
                .fail(caller, known, conflict_of(refused(refusal)))
                .await),
        }
    }

    /// Ends a transaction that cannot be committed. What goes wrong meanwhile changes nothing for
    /// the caller: the transaction expires.
    async fn fail(&self, caller: &Caller, known: &Transaction, error: EngineError) -> EngineError {
        let end = self.end(known, TransactionStatus::Failed, None);
        let _ = self.change_transaction(caller, end).await;
        error
    }
}

/// What an error means inside a commit.
fn conflict_of(error: EngineError) -> EngineError {
    match error {
        EngineError::Write(WriteError::RowExists(id)) => {
            EngineError::Transaction(TransactionError::Conflict(id))
        }
        EngineError::Write(WriteError::TooManyRows { rows_max }) => {
            let why = format!("A transaction can change {rows_max} rows.");
            EngineError::Transaction(TransactionError::TooLarge(why))
        }
        EngineError::Write(
            error @ (WriteError::TooManyPieces { .. } | WriteError::TooManySteps { .. }),
        ) => EngineError::Transaction(TransactionError::TooLarge(error.to_string())),
        EngineError::Write(WriteError::TooManyBytes { bytes_max }) => {
            let why = format!("A transaction can write rows of {bytes_max} bytes.");
            EngineError::Transaction(TransactionError::TooLarge(why))
        }
        other => other,
    }
}
