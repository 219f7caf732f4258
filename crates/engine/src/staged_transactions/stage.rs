//! Staging: an operation is judged, tried, kept, and answered with what it would do.

use std::sync::Arc;

use model::{Actor, Catalogue, KeyId, Mark, Page, Selection, Table};
use store::{
    Applied, OperationsOf, Outcome, Refusal, StagedOperation, StoreError, Transaction,
    TransactionOp, Trial, WriteBatch,
};

use super::dry_run::{batches, kept};
use super::text::{self, Kept};
use crate::Engine;
use crate::commit::batch::batch;
use crate::error::refused::refused;
use crate::error::{ColumnFault, EngineError, SchemaError, WriteError};
use crate::request::authorize::WRITE_ROWS;
use crate::request::inputs::{Caller, RowInput};
use crate::write::operation::{Act, Operation};
use crate::write::plan::{plan, probe, table};
use crate::write::unseen::Unseen;

/// The answer to an operation on one row that was staged.
#[derive(Clone, Debug)]
pub enum Echo {
    /// The row as it would be, if the transaction were committed now.
    Row(Page),
    /// The row as sent: it could not be written now.
    Sent {
        /// Its table.
        table: Arc<Table>,
        /// What was sent.
        row: RowInput,
    },
    /// Nothing: a row would go, or many rows would change.
    Nothing,
}

/// What is tried for an operation.
enum StageAttempt {
    /// The operation itself.
    Whole(WriteBatch),
    /// Whether its row is there and may be changed: the rest would fail at the commit.
    Probe(WriteBatch),
    /// Nothing can be said now.
    Nothing,
}

impl Engine {
    /// Stages operations, all or none. The row of each must be there, if it must be there at all,
    /// and the caller must be permitted; anything else is judged by the commit.
    ///
    /// # Errors
    /// [`crate::TransactionError::NotFound`], [`crate::TransactionError::Ended`],
    /// [`crate::TransactionError::Expired`], [`crate::TransactionError::TooLarge`];
    /// [`crate::ReadError::RowNotFound`], and whatever keeps the caller out.
    pub async fn stage(
        &self,
        caller: &Caller,
        id: &str,
        mut operations: Vec<Operation>,
    ) -> Result<(Transaction, Vec<Echo>), EngineError> {
        for operation in &mut operations {
            operation.forget_reserved(&caller.actor);
        }
        self.under_catalogue(async |catalogue| {
            let tried = self.try_operations(catalogue, caller, id, &operations);
            let (mark, echoes) = tried.await?.ok_or(StoreError::CatalogueMoved)?;
            let op = TransactionOp::Stage {
                project: caller.project.clone(),
                id: id.to_owned(),
                now: self.shared.clock.now(),
                operations: staged(caller, &operations, mark),
                share: self.share(&caller.actor),
            };
            Ok((self.change_transaction(caller, op).await?, echoes))
        })
        .await
    }

    /// The mark of what was seen, and an answer to each operation. `None` when the catalogue is
    /// another one by now.
    async fn try_operations(
        &self,
        catalogue: &Catalogue,
        caller: &Caller,
        id: &str,
        operations: &[Operation],
    ) -> Result<Option<(Mark, Vec<Echo>)>, EngineError> {
        let published = self.shared.marks.published();
        let nothing = OperationsOf::Nothing;
        self.find_open(caller, WRITE_ROWS, id, nothing).await?;
        let attempts = operations.iter().map(|op| attempt(catalogue, caller, op));
        let attempts = attempts.collect::<Result<Vec<_>, _>>()?;
        if attempts
            .iter()
            .all(|attempt| matches!(attempt, StageAttempt::Nothing))
        {
            let echoes = operations
                .iter()
                .map(|op| as_sent(catalogue, caller, op))
                .collect::<Result<_, _>>()?;
            return Ok(Some((published, echoes)));
        }
        let attempted = Attempted {
            catalogue,
            caller,
            operations,
            attempts,
        };
        let first = self.try_after_own(&attempted, id).await?;
        match attempted.echoes(first) {
            // Perhaps it needs what others of the transaction do.
            Err(_) => attempted.echoes(self.try_together(&attempted, id).await?),
            echoes => echoes,
        }
    }

    /// Tries each operation after those that were staged before on its row.
    async fn try_after_own(&self, attempted: &Attempted<'_>, id: &str) -> Tried {
        let (catalogue, caller) = (attempted.catalogue, attempted.caller);
        let operations = attempted.operations;
        let place = operations.first().map(Operation::place);
        let is_of_one = operations
            .iter()
            .all(|op| Some(op.place()) == place && !has_relationships(catalogue, caller, op));
        let places: Vec<String> = place.into_iter().collect();
        let wanted = if is_of_one {
            OperationsOf::Places(&places)
        } else {
            OperationsOf::Everything
        };
        let (_, staged) = self.find_open(caller, WRITE_ROWS, id, wanted).await?;
        let kept = kept(&staged)?;
        let before = kept
            .iter()
            .filter(|kept| concerns(kept, operations, is_of_one));
        let before = batches(catalogue, caller, before);
        let first = before.len();
        let trials = before.into_iter().chain(attempted.batches());
        let trials = trials.map(|batch| Trial {
            batches: vec![batch],
            judges_end: true,
        });
        let tried = self.dry_run(caller, trials.collect(), |_| Ok(())).await?;
        Ok((tried.mark, tried.outcomes.into_iter().skip(first).collect()))
    }

    /// Tries all operations of the transaction as its commit does them, but for what that judges at
    /// its end: more may be staged until then.
    async fn try_together(&self, attempted: &Attempted<'_>, id: &str) -> Tried {
        let (catalogue, caller) = (attempted.catalogue, attempted.caller);
        let everything = OperationsOf::Everything;
        let (_, staged) = self.find_open(caller, WRITE_ROWS, id, everything).await?;
        let mut all = batches(catalogue, caller, &kept(&staged)?);
        let first = all.len();
        all.extend(attempted.batches());
        let trial = Trial {
            batches: all,
            judges_end: false,
        };
        let tried = self.dry_run(caller, vec![trial], |_| Ok(())).await?;
        Ok((tried.mark, tried.outcomes.into_iter().skip(first).collect()))
    }
}

/// The mark of the state that operations were tried on, and what became of each that was.
type Tried = Result<(Mark, Vec<Outcome>), EngineError>;

/// Operations that are to be staged, and what is tried for each.
struct Attempted<'a> {
    catalogue: &'a Catalogue,
    caller: &'a Caller,
    operations: &'a [Operation],
    attempts: Vec<StageAttempt>,
}

impl Attempted<'_> {
    fn batches(&self) -> impl Iterator<Item = WriteBatch> {
        self.attempts.iter().filter_map(|attempt| match attempt {
            StageAttempt::Whole(batch) | StageAttempt::Probe(batch) => Some(batch.clone()),
            StageAttempt::Nothing => None,
        })
    }

    /// The mark, and the answer to each operation. `None` when the catalogue is another one by now.
    fn echoes(
        &self,
        (mark, outcomes): (Mark, Vec<Outcome>),
    ) -> Result<Option<(Mark, Vec<Echo>)>, EngineError> {
        let (catalogue, caller) = (self.catalogue, self.caller);
        let mut outcomes = outcomes.into_iter();
        let mut echoes = Vec::with_capacity(self.operations.len());
        for (operation, attempt) in self.operations.iter().zip(&self.attempts) {
            let (whole, outcome) = match attempt {
                StageAttempt::Whole(batch) => (Some(batch), outcomes.next()),
                StageAttempt::Probe(_) => (None, outcomes.next()),
                StageAttempt::Nothing => (None, None),
            };
            match judge(operation, whole.is_some(), outcome)? {
                GrantsAsOf::Row(applied) => {
                    let table = table(catalogue, caller, operation)?;
                    let unseen =
                        whole.and_then(|batch| Unseen::of(table, &caller.actor, &batch.ops));
                    echoes.push(echo(table, *applied, unseen.as_ref()));
                }
                GrantsAsOf::AsSent => echoes.push(as_sent(catalogue, caller, operation)?),
                GrantsAsOf::Moved => return Ok(None),
            }
        }
        Ok(Some((mark, echoes)))
    }
}

fn has_relationships(catalogue: &Catalogue, caller: &Caller, operation: &Operation) -> bool {
    table(catalogue, caller, operation).is_ok_and(|table| table.has_relationships())
}

/// Whether an operation staged before must be done first to know what the new ones do. Changes of
/// all rows that match are left out: they take long, and the commit judges them again in any case.
fn concerns(kept: &Kept, operations: &[Operation], is_of_one: bool) -> bool {
    let earlier = &kept.operation;
    if earlier.is_matching() {
        return false;
    }
    let rows = earlier.row().map(model::RowId::as_str);
    !is_of_one
        || rows.is_none()
        || operations
            .iter()
            .any(|op| op.row().map(model::RowId::as_str) == rows)
}

fn attempt(
    catalogue: &Catalogue,
    caller: &Caller,
    operation: &Operation,
) -> Result<StageAttempt, EngineError> {
    match plan(catalogue, caller, operation) {
        Ok(_) if operation.row().is_none() => Ok(StageAttempt::Nothing),
        Ok(ops) => Ok(StageAttempt::Whole(batch(catalogue, caller, ops))),
        // Content is judged by the commit, but not whether the caller may change the row.
        Err(EngineError::Write(WriteError::Structure(_) | WriteError::Relationship(_))) => {
            let table = table(catalogue, caller, operation)?;
            Ok(match probe(table, caller, operation) {
                Some(op) => StageAttempt::Probe(batch(catalogue, caller, vec![op])),
                None => StageAttempt::Nothing,
            })
        }
        Err(error) => Err(error),
    }
}

/// What an attempt came to.
enum GrantsAsOf {
    Row(Box<Applied>),
    AsSent,
    Moved,
}

fn judge(
    operation: &Operation,
    is_whole: bool,
    outcome: Option<Outcome>,
) -> Result<GrantsAsOf, EngineError> {
    match outcome {
        Some(Ok(applied)) if is_whole => Ok(GrantsAsOf::Row(Box::new(applied))),
        Some(Err(Refusal::CatalogueMoved)) => Ok(GrantsAsOf::Moved),
        Some(Err(refusal @ (Refusal::RowNotFound(_) | Refusal::RowForbidden(_)))) => {
            Err(refused(refusal))
        }
        Some(Err(Refusal::Invalid(error))) if !operation.may_conflict() => {
            Err(EngineError::Schema(SchemaError::Column(
                ColumnFault::LimitExceeded(error.to_string()),
            )))
        }
        _ => Ok(GrantsAsOf::AsSent),
    }
}

fn echo(table: &Arc<Table>, applied: Applied, unseen: Option<&Unseen>) -> Echo {
    let timed = applied.timed.into_iter().find_map(|done| done.row);
    let Some(row) = applied.rows.into_iter().flatten().next().or(timed) else {
        return Echo::Nothing;
    };
    let page = Page {
        table: table.clone(),
        selection: Selection::All,
        rows: vec![row],
        related: Vec::new(),
    };
    Echo::Row(match unseen {
        Some(unseen) => unseen.hide(page),
        None => page,
    })
}

fn as_sent(
    catalogue: &Catalogue,
    caller: &Caller,
    operation: &Operation,
) -> Result<Echo, EngineError> {
    let (Act::Create(row) | Act::Update(row) | Act::Upsert(row)) = &operation.act else {
        return Ok(Echo::Nothing);
    };
    Ok(Echo::Sent {
        table: table(catalogue, caller, operation)?.clone(),
        row: row.clone(),
    })
}

/// The operations as they are kept.
fn staged(caller: &Caller, operations: &[Operation], seen: Mark) -> Vec<StagedOperation> {
    let key = match &caller.actor {
        Actor::Key { id, .. } => Some(id.clone()),
        // Ids of both follow one rule; this one says only that it has the rights of a key.
        Actor::Function { id, .. } => KeyId::new(id.as_str()).ok(),
        Actor::Guest | Actor::User { .. } => None,
    };
    let one = |operation: &Operation| StagedOperation {
        seen,
        place: operation.place(),
        row: operation.row().map(ToString::to_string),
        body: text::write(operation, key.as_ref()).into(),
    };
    operations.iter().map(one).collect()
}
