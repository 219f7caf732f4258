//! Staging: an operation is judged, tried, kept, and answered with what it would do.

use std::sync::Arc;

use model::{Actor, Catalogue, Mark, Page, Selection, Table};
use store::{
    Applied, OperationsOf, Outcome, Refusal, StagedOperation, StoreError, Transaction,
    TransactionOp, WriteBatch,
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
enum Attempt {
    /// The operation itself.
    Whole(WriteBatch),
    /// Whether its row is there and may be changed: the rest would fail at the commit.
    Probe(WriteBatch),
    /// Nothing can be told now.
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
        let place = operations.first().map(Operation::place);
        let is_of_one = operations
            .iter()
            .all(|op| Some(op.place()) == place && !has_relationships(catalogue, caller, op));
        let wanted = match &place {
            Some(place) if is_of_one => OperationsOf::Place(place),
            _ => OperationsOf::Everything,
        };
        let (_, staged) = self.find_open(caller, WRITE_ROWS, id, wanted).await?;
        let attempts = operations.iter().map(|op| attempt(catalogue, caller, op));
        let attempts = attempts.collect::<Result<Vec<_>, _>>()?;
        if attempts
            .iter()
            .all(|attempt| matches!(attempt, Attempt::Nothing))
        {
            let echoes = operations
                .iter()
                .map(|op| as_sent(catalogue, caller, op))
                .collect::<Result<_, _>>()?;
            return Ok(Some((published, echoes)));
        }
        let kept = kept(&staged)?;
        let before = kept
            .iter()
            .filter(|kept| concerns(kept, operations, is_of_one));
        let mut all = batches(catalogue, caller, before);
        let first = all.len();
        all.extend(attempts.iter().filter_map(|attempt| match attempt {
            Attempt::Whole(batch) | Attempt::Probe(batch) => Some(batch.clone()),
            Attempt::Nothing => None,
        }));
        let tried = self.dry_run(caller, all, |_| Ok(())).await?;
        let mut outcomes = tried.outcomes.into_iter().skip(first);
        let mut echoes = Vec::with_capacity(operations.len());
        for (operation, attempt) in operations.iter().zip(&attempts) {
            let outcome = match attempt {
                Attempt::Nothing => None,
                Attempt::Whole(_) | Attempt::Probe(_) => outcomes.next(),
            };
            let whole = match attempt {
                Attempt::Whole(batch) => Some(batch),
                Attempt::Probe(_) | Attempt::Nothing => None,
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
        Ok(Some((tried.mark, echoes)))
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
) -> Result<Attempt, EngineError> {
    match plan(catalogue, caller, operation) {
        Ok(_) if operation.row().is_none() => Ok(Attempt::Nothing),
        Ok(ops) => Ok(Attempt::Whole(batch(catalogue, caller, ops))),
        // Content is judged by the commit, but not whether the caller may change the row.
        Err(EngineError::Write(WriteError::Structure(_) | WriteError::Relationship(_))) => {
            let table = table(catalogue, caller, operation)?;
            Ok(match probe(table, caller, operation) {
                Some(op) => Attempt::Probe(batch(catalogue, caller, vec![op])),
                None => Attempt::Nothing,
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
        Actor::Key { id, .. } => Some(id),
        Actor::Guest | Actor::User { .. } => None,
    };
    let one = |operation: &Operation| StagedOperation {
        seen,
        place: operation.place(),
        row: operation.row().map(ToString::to_string),
        body: text::write(operation, key).into(),
    };
    operations.iter().map(one).collect()
}
