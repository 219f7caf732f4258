//! Transactions over valid periods, by the letter of the bitemporal operations.

use std::sync::Arc;

use model::history::Range;
use model::{Catalogue, Json, Mark, Patch, Period, Permission, RowId, Table, Timestamp, Value};
use store::{
    Guard, Op, Outcome, Refusal, RelatedOp, RowAct, RowAssertion, RowOp, Since, Stamps, TimedDone,
    Trial, WriteBatch,
};

use crate::Engine;
use crate::commit::batch::batch;
use crate::error::refused::{answer, refused};
use crate::error::{EngineError, TransactionError, WriteError};
use crate::request::authorize::{self, WRITE_ROWS};
use crate::request::inputs::{Caller, Effect, Place, RowInput};
use crate::write::content::values;
use crate::write::links::{self, Scene};
use crate::write::temporal;

/// Most operations of one transaction: as many rows as one commit may change.
pub const OPERATIONS_MAX: usize = store::batch::BATCH_ROWS_MAX;
/// Longest metadata of a transaction, in bytes of JSON.
pub const META_BYTES_MAX: usize = 16 << 10;

/// A transaction over valid periods, by the letter of the bitemporal operations.
#[derive(Clone, Debug)]
pub struct TimedTransaction {
    /// In the order of their effect.
    pub ops: Vec<TransactionOp>,
    /// What is said of the commit, in the place of [`Caller::meta`]; at most [`META_BYTES_MAX`].
    pub meta: Option<String>,
}

/// One operation of a transaction.
#[derive(Clone, Debug)]
pub struct TransactionOp {
    /// The table's id.
    pub table: String,
    /// The row.
    pub id: RowId,
    /// Over which valid period.
    pub range: Range,
    /// What happens.
    pub act: TransactionAct,
}

/// What happens to a row.
#[derive(Clone, Debug)]
pub enum TransactionAct {
    /// The row gets this content; refused where it is there at any instant of the period.
    Insert(Vec<(String, Json)>),
    /// The row has exactly this content.
    Put(Vec<(String, Json)>),
    /// The row has exactly these values, one for each column, links as the ids of their rows.
    Restore {
        /// The values.
        values: Vec<Value>,
        /// The schema of the table that they follow, by [`Table::schema_epoch`].
        schema_epoch: u64,
    },
    /// The row is absent; what it is related to stays as it is, and is to be judged by
    /// [`TransactionAct::NeedUnlinked`].
    Withdraw,
    /// Nothing; but the transaction fails if any row holds a link to this one in the period.
    NeedUnlinked(Period),
    /// The row, which is there in the period, has these grants from now on.
    Regrant(Vec<Permission>),
    /// Merges into every piece, and makes the row in the gaps.
    Patch(Vec<(String, Json)>),
    /// Merges into every piece.
    Update(Vec<(String, Json)>),
    /// The row is absent.
    Delete,
    /// Every version at every mark disappears.
    Erase,
    /// Nothing; but the transaction fails unless all of it holds.
    Assert(Vec<RowClaim>),
}

/// What a transaction may claim of a row.
#[derive(Clone, Debug)]
pub enum RowClaim {
    /// The row is there, or is not, at an instant; `None` is the transaction's own.
    Exists(bool, Option<Timestamp>),
    /// The row has these values at an instant.
    Equals(Vec<(String, Json)>, Option<Timestamp>),
    /// No later commit than this one changed the row.
    UnchangedSince(Mark),
}

/// A transaction that was committed.
#[derive(Clone, Debug)]
pub struct Transacted {
    /// Its mark.
    pub mark: Mark,
    /// For each operation in order, whether it changed anything.
    pub affected: Vec<bool>,
}

/// The operations as the store runs them.
#[derive(Default)]
struct Planned {
    ops: Vec<Op>,
    /// How many operations of the batch come before them.
    begins_at: usize,
    /// For each of them, which operation of the transaction it is a part of.
    parts_of: Vec<usize>,
    /// For each operation of the transaction, how many parts of it report what they did.
    reports: Arc<[usize]>,
}

impl Engine {
    /// Commits a transaction, all or nothing; for keys only. It takes a mark whatever it changes.
    ///
    /// # Errors
    /// [`TransactionError::OfOperation`] with [`WriteError::RowExists`],
    /// [`WriteError::AssertFailed`], [`WriteError::UniqueOverTime`],
    /// [`WriteError::ReferenceOverTime`], or what keeps the content out; what keeps the caller out.
    pub async fn transact(
        &self,
        caller: &Caller,
        database: &str,
        transaction: &TimedTransaction,
    ) -> Result<Transacted, EngineError> {
        self.transact_since(caller, database, transaction, None)
            .await
    }

    /// The same, unless another commit changed a row of it, or its grants, after this mark.
    ///
    /// # Errors
    /// As there; [`TransactionError::Conflict`].
    pub(crate) async fn transact_since(
        &self,
        caller: &Caller,
        database: &str,
        transaction: &TimedTransaction,
        since: Option<Mark>,
    ) -> Result<Transacted, EngineError> {
        authorize::need_key(caller, WRITE_ROWS)?;
        check_size(transaction)?;
        self.under_catalogue(async |catalogue| {
            let prepared = self.as_batch((catalogue, caller, database), transaction, since)?;
            let outcome = self.writer.commit(prepared.batch).await?;
            prepared.planned.transacted(outcome)
        })
        .await
    }

    /// Finds out whether it could be committed, without a trace.
    ///
    /// # Errors
    /// As for [`Engine::transact_since`].
    pub(crate) async fn try_transaction(
        &self,
        caller: &Caller,
        database: &str,
        transaction: &TimedTransaction,
        since: Option<Mark>,
    ) -> Result<(), EngineError> {
        authorize::need_key(caller, WRITE_ROWS)?;
        check_size(transaction)?;
        self.under_catalogue(async |catalogue| {
            let prepared = self.as_batch((catalogue, caller, database), transaction, since)?;
            let trial = Trial {
                batches: vec![prepared.batch],
                judges_end: true,
            };
            let mut tried = self.dry_run(caller, vec![trial], |_| Ok(())).await?;
            let outcome = tried.outcomes.pop().expect("one outcome per batch");
            prepared.planned.transacted(outcome).map(drop)
        })
        .await
    }

    fn as_batch(
        &self,
        (catalogue, caller, database): (&Catalogue, &Caller, &str),
        transaction: &TimedTransaction,
        since: Option<Mark>,
    ) -> Result<BatchOfTransaction, EngineError> {
        let scene = Scene {
            catalogue,
            caller,
            database,
        };
        let mut planned = plan(scene, &transaction.ops)?;
        let once = self.once(caller, {
            let reports = Arc::clone(&planned.reports);
            move |done, tell| tell(&Effect::Timed(&affected(&reports, done.timed)))
        });
        let since = since.map(|mark| {
            Op::Since(Since {
                mark: Some(mark),
                instant: None,
            })
        });
        let before = once.into_iter().map(Op::Once).chain(since);
        let mut ops: Vec<Op> = before.collect();
        planned.begins_at = ops.len();
        ops.append(&mut planned.ops);
        let said = transaction.meta.as_deref().map(Arc::from);
        let batch = WriteBatch {
            meta: said.or_else(|| caller.meta.clone()),
            noted_in: Some(authorize::database(catalogue, caller, database)?.seq),
            ..batch(catalogue, caller, ops)
        };
        Ok(BatchOfTransaction { batch, planned })
    }
}

/// A transaction as the writer takes it.
struct BatchOfTransaction {
    batch: WriteBatch,
    planned: Planned,
}

impl Planned {
    /// What became of it.
    fn transacted(&self, outcome: Outcome) -> Result<Transacted, EngineError> {
        if let Outcome::Err(Refusal::Of { nth, refusal }) = outcome {
            let nth = self.parts_of[nth - self.begins_at];
            return Err(of_operation(nth)(refused(*refusal)));
        }
        let applied = answer(outcome)?;
        let mark = applied.mark;
        Ok(Transacted {
            mark: mark.expect("a transaction with a note takes a mark"),
            affected: affected(&self.reports, &applied.timed),
        })
    }
}

/// Whether each operation changed anything, of which so many parts reported. Those of an
/// assertion are about one row, and change nothing of it.
fn affected(reports: &[usize], done: &[TimedDone]) -> Vec<bool> {
    let mut done = done.iter();
    let any = |count: &usize| done.by_ref().take(*count).any(|done| done.is_affected);
    reports.iter().map(any).collect()
}

fn of_operation(nth: usize) -> impl Fn(EngineError) -> EngineError {
    move |error| {
        EngineError::Transaction(TransactionError::OfOperation {
            nth,
            error: Box::new(error),
        })
    }
}

fn check_size(transaction: &TimedTransaction) -> Result<(), EngineError> {
    let refuse = |name, why: String| Err(EngineError::Argument { name, why });
    if transaction.ops.is_empty() {
        return refuse("ops", "a transaction has at least one operation".to_owned());
    }
    if transaction.ops.len() > OPERATIONS_MAX {
        return refuse(
            "ops",
            format!("at most {OPERATIONS_MAX} operations are allowed"),
        );
    }
    let meta = transaction.meta.as_deref().unwrap_or_default();
    if meta.len() > META_BYTES_MAX {
        return refuse(
            "meta",
            format!("at most {META_BYTES_MAX} bytes are allowed"),
        );
    }
    Ok(())
}

fn plan(scene: Scene<'_>, ops: &[TransactionOp]) -> Result<Planned, EngineError> {
    let mut planned = Planned::default();
    let mut reports = Vec::with_capacity(ops.len());
    for (nth, op) in ops.iter().enumerate() {
        let parts = parts(scene, op).map_err(of_operation(nth))?;
        let is_reported = |op: &&Op| matches!(op, Op::Row(_));
        reports.push(parts.iter().filter(is_reported).count());
        planned.parts_of.extend(parts.iter().map(|_| nth));
        planned.ops.extend(parts);
    }
    planned.reports = reports.into();
    Ok(planned)
}

/// What one operation is for the store: itself, or each claim of an assertion, and what it does at
/// the other ends of relationships.
fn parts(scene: Scene<'_>, op: &TransactionOp) -> Result<Vec<Op>, EngineError> {
    let place = Place {
        database: scene.database,
        table: &op.table,
    };
    let table = authorize::table(scene.catalogue, scene.caller, place)?;
    let timed =
        |act| Op::Row(RowOp::over(Arc::clone(table), op.id.clone(), op.range, act).literal());
    let content = match &op.act {
        TransactionAct::Insert(members)
        | TransactionAct::Put(members)
        | TransactionAct::Patch(members)
        | TransactionAct::Update(members) => members,
        TransactionAct::Delete => {
            let guard = Guard::Open;
            return Ok(vec![timed(RowAct::Delete { guard })]);
        }
        TransactionAct::Erase => return Ok(vec![timed(RowAct::Erase)]),
        TransactionAct::Restore { .. }
        | TransactionAct::Withdraw
        | TransactionAct::NeedUnlinked(_)
        | TransactionAct::Regrant(_) => return Ok(vec![undoing(table, op)?]),
        TransactionAct::Assert(claims) => {
            let claim = |claim| Ok(timed(RowAct::Assert(asserted(table, claim)?)));
            return claims.iter().map(claim).collect();
        }
    };
    if !table.has_relationships() {
        let patch = values(table, content)?.into();
        return Ok(vec![timed(written(table, &op.act, patch)?)]);
    }
    let row = RowInput {
        id: op.id.clone(),
        members: content.clone(),
        permissions: None,
    };
    let linked = links::take_apart_over(scene, table, &row, op.range)?;
    let mut set = values(table, &linked.row.members)?;
    set.extend(linked.held.iter().cloned());
    let act = written(table, &op.act, set.into())?;
    Ok(linked.into_ops(timed(act)))
}

/// What an operation of an undo is for the store.
fn undoing(table: &Arc<Table>, op: &TransactionOp) -> Result<Op, EngineError> {
    let over = |act| RowOp::over(Arc::clone(table), op.id.clone(), op.range, act);
    let related = |op| Op::Related(Box::new(op));
    let guard = Guard::Open;
    Ok(match &op.act {
        TransactionAct::Restore { schema_epoch, .. } if *schema_epoch != table.schema_epoch => {
            let row = format!("{}/{}", op.table, op.id);
            return Err(WriteError::RowsMoved(vec![row]).into());
        }
        TransactionAct::Restore { values, .. } => {
            let replace = RowAct::Replace {
                values: values.clone(),
                permissions: None,
                guard,
            };
            Op::Row(over(replace).literal())
        }
        TransactionAct::Withdraw => {
            let gone = over(RowAct::Delete { guard }).literal();
            if table.has_relationships() {
                related(RelatedOp::Alone(gone))
            } else {
                Op::Row(gone)
            }
        }
        TransactionAct::NeedUnlinked(valid) => related(RelatedOp::NeedUnlinked {
            table: Arc::clone(table),
            id: op.id.clone(),
            valid: *valid,
        }),
        // Not to the letter, which would write pieces that say what they said before.
        TransactionAct::Regrant(permissions) => Op::Row(over(RowAct::Update {
            patch: Patch::default(),
            permissions: Some(permissions.clone()),
            stamps: Stamps::default(),
            guard,
        })),
        other => unreachable!("{other:?} undoes nothing"),
    })
}

/// The act that writes this content.
fn written(table: &Table, act: &TransactionAct, patch: Patch) -> Result<RowAct, EngineError> {
    let start = |patch: &Patch| patch.start(table).map_err(WriteError::Structure);
    let (stamps, guard, permissions) = (Stamps::default(), Guard::Open, None);
    Ok(match act {
        TransactionAct::Insert(_) => RowAct::Insert {
            values: start(&patch)?,
            permissions: Vec::new(),
            stamps,
            guard,
        },
        TransactionAct::Put(_) => RowAct::Replace {
            values: start(&patch)?,
            permissions,
            guard,
        },
        TransactionAct::Patch(_) => {
            let gap = patch.start(table);
            RowAct::Put {
                insert: gap.map_err(|error| Box::new(Refusal::Invalid(error))),
                patch,
                permissions,
                insert_permissions: Vec::new(),
                stamps,
                guard,
            }
        }
        TransactionAct::Update(_) => RowAct::Update {
            patch,
            permissions,
            stamps,
            guard,
        },
        TransactionAct::Restore { .. }
        | TransactionAct::Withdraw
        | TransactionAct::NeedUnlinked(_)
        | TransactionAct::Regrant(_)
        | TransactionAct::Delete
        | TransactionAct::Erase
        | TransactionAct::Assert(_) => {
            unreachable!("the caller matched what writes content")
        }
    })
}

fn asserted(table: &Table, claim: &RowClaim) -> Result<RowAssertion, EngineError> {
    Ok(match claim {
        RowClaim::Exists(expected, at) => RowAssertion::Exists(*expected, *at),
        RowClaim::Equals(members, at) => {
            let values = values(table, members)?;
            // A failed claim would tell a key that may only write that its guess was wrong.
            for (position, _) in &values {
                temporal::need_plain(table, *position)?;
            }
            RowAssertion::Equals(values, *at)
        }
        RowClaim::UnchangedSince(mark) => RowAssertion::UnchangedSince(*mark),
    })
}
