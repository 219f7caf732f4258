//! Undoing commits: the rows that they changed become again what they were before the first of
//! them, at every instant of valid time.
//!
//! Nothing is taken back in the past: what is undone is written as a new commit. A row that other
//! commits changed in between or since would lose their change, so it refuses the whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{
    Content, Coordinates, Mark, ModelError, Period, Permission, Row, RowId, Span, Table, Timestamp,
    Value,
};
use query::Frame;

use crate::Engine;
use crate::error::{EngineError, PIECES_MAX, ReadError, TransactionError, WriteError};
use crate::request::authorize::{self, WRITE_ROWS};
use crate::request::inputs::{Caller, Place};
use crate::write::grants_undone::{GrantsUndone, grants};
use crate::write::temporal::{Pieces, PiecesRead, RECORDS_MAX, RecordsWanted};
use crate::write::temporal_transaction::{
    OPERATIONS_MAX, TimedTransaction, Transacted, TransactionAct, TransactionOp,
};

/// Most commits that are undone at once.
pub const COMMITS_UNDONE_MAX: usize = RECORDS_MAX as usize - 1;
/// Most rows that are undone at once.
pub const ROWS_UNDONE_MAX: usize = 1_000;
/// Most pieces, of all its rows together, that an undo looks at.
const PIECES_LOOKED_AT_MAX: usize = PIECES_MAX as usize;

/// What is to be undone.
#[derive(Clone, Debug)]
pub struct ToUndo {
    /// How many commits.
    pub commits: usize,
    /// The rows that they changed, by table and id, with their marks.
    pub rows: BTreeMap<(String, RowId), BTreeSet<Mark>>,
    /// The mark as of which that is known: what is committed after it refuses the undo.
    pub known: Mark,
}

/// How one row is undone.
#[derive(Clone, Debug)]
pub struct RowUndo {
    /// Its table, as it is now.
    pub table: Arc<Table>,
    /// The row.
    pub id: RowId,
    /// What is written over which periods, in order; nothing where the commits left the row as it
    /// was.
    pub steps: Vec<UndoStep>,
    /// The grants that it gets again; `None` where the commits left them as they were, or left no
    /// row.
    pub permissions: Option<Vec<Permission>>,
    /// Whether others changed the row between the commits or since.
    pub is_moved: bool,
    /// How many pieces were looked at.
    pub looked_at: usize,
    /// A period in which the row is there once it is undone.
    is_there: Option<Period>,
}

/// What a row becomes again over a period.
#[derive(Clone, Debug, PartialEq)]
pub struct UndoStep {
    /// The period.
    pub valid: Period,
    /// A value for each column of today; `None`: the row is absent.
    pub values: Option<Vec<Value>>,
}

/// The pieces of a row, in order.
type Timeline = Vec<(Period, Vec<Value>)>;

impl Engine {
    /// What the wanted commits after `after` and up to `upto` changed, which must be settled; for
    /// keys that may read and write rows. Their changes of the schema and erasures are not among
    /// it.
    ///
    /// # Errors
    /// [`WriteError::TooMuchToUndo`]; what keeps the caller out.
    pub async fn to_undo(
        &self,
        caller: &Caller,
        database: &str,
        (after, upto): (Mark, Mark),
        wanted: RecordsWanted,
    ) -> Result<ToUndo, EngineError> {
        authorize::need_key(caller, WRITE_ROWS)?;
        let known = self.fix().await?;
        let wanted = RecordsWanted {
            limit: RECORDS_MAX,
            ..wanted
        };
        let commits = self
            .commits(caller, database, (after, upto), wanted)
            .await?;
        let mut rows: BTreeMap<(String, RowId), BTreeSet<Mark>> = BTreeMap::new();
        let mut changes = 0;
        for commit in &commits {
            changes += commit.changes.len();
            for (table, id) in &commit.changes {
                let id = RowId::new(id).map_err(WriteError::Structure)?;
                let marks = rows.entry((table.clone(), id)).or_default();
                marks.insert(commit.mark);
            }
        }
        // Records of more changes than that end early.
        let counted = [
            ("commits", commits.len(), COMMITS_UNDONE_MAX),
            ("changes of rows", changes, store::batch::BATCH_ROWS_MAX),
            ("rows", rows.len(), ROWS_UNDONE_MAX),
        ];
        if let Some((what, _, max)) = counted.into_iter().find(|(_, count, max)| count > max) {
            return Err(WriteError::TooMuchToUndo { what, max }.into());
        }
        let commits = commits.iter().filter(|commit| !commit.changes.is_empty());
        Ok(ToUndo {
            commits: commits.count(),
            rows,
            known,
        })
    }

    /// How a row becomes again what it was before the first of these marks.
    ///
    /// # Errors
    /// [`ReadError::HistoryGone`] where its table has let go of what it was; what keeps the caller
    /// from reading.
    pub async fn undo_of_row(
        &self,
        caller: &Caller,
        place: Place<'_>,
        id: &RowId,
        (marks, known): (&BTreeSet<Mark>, Mark),
    ) -> Result<RowUndo, EngineError> {
        let first = *marks.first().expect("a row is there for its changes");
        let catalogue = self.catalogue();
        let table = authorize::table(&catalogue, caller, place)?;
        let range = Period::new(table.options.kept_from, None).map_err(WriteError::Structure)?;
        let pieces = |system, frame, limit| Pieces {
            place,
            id: Some(id),
            beyond: None,
            equal: Vec::new(),
            order: None,
            limit,
            at: Coordinates {
                valid: range.from(),
                system,
            },
            frame,
            shows_damaged: false,
            shows_grants: !matches!(frame, Frame::Versions(_)),
        };
        let before = Mark(first.0 - 1);
        let versions = pieces(known, Frame::Versions(range), None);
        let versions = self.pieces(caller, &versions).await?;
        let was = pieces(before, Frame::Pieces(range), None);
        let was = self.pieces(caller, &was).await?;
        let is = pieces(known, Frame::Pieces(range), None);
        let is = self.pieces(caller, &is).await?;
        let one_at = |mark| pieces(mark, Frame::Pieces(range), Some(1));
        let both = (grants(&was)?, grants(&is)?);
        let granted = self.grants_undone(caller, one_at, marks, both).await?;
        let GrantsUndone {
            restored,
            is_moved,
            looked_at,
        } = granted;
        let by_others = |mark| first <= mark && !marks.contains(&mark);
        Ok(RowUndo {
            is_moved: is_moved || changes(&versions).any(by_others),
            looked_at: looked_at + versions.rows.len() + was.rows.len() + is.rows.len(),
            steps: steps(&was, &is, range)?,
            permissions: restored,
            is_there: spans(&was).find_map(|span| span.valid.intersect(&range)),
            table: is.table,
            id: id.clone(),
        })
    }

    /// Undoes rows in one commit, unless any of them was changed after the mark `known`, as of
    /// which it was found what is to be done.
    ///
    /// # Errors
    /// [`WriteError::RowsMoved`]; [`WriteError::UndoRefused`] with what [`Engine::transact`] says
    /// of an operation, or with [`WriteError::DeleteRestricted`] for a row that others hold a
    /// link to; [`WriteError::TooMuchToUndo`].
    pub async fn undo(
        &self,
        caller: &Caller,
        database: &str,
        rows: &[RowUndo],
        known: Mark,
    ) -> Result<Transacted, EngineError> {
        let undoing = undoing(rows)?;
        let done = self.transact_since(caller, database, &undoing, Some(known));
        let done = done.await;
        done.map_err(|error| refused(error, &undoing.ops))
    }

    /// Finds out whether rows could be undone, without a trace.
    ///
    /// # Errors
    /// As for [`Engine::undo`].
    pub async fn try_undo(
        &self,
        caller: &Caller,
        database: &str,
        rows: &[RowUndo],
        known: Mark,
    ) -> Result<(), EngineError> {
        let undoing = undoing(rows)?;
        let tried = self.try_transaction(caller, database, &undoing, Some(known));
        let tried = tried.await;
        tried.map_err(|error| refused(error, &undoing.ops))
    }
}

/// All that is to be done. That no link leads to what has gone is judged behind everything else,
/// because a row that holds one may go, too.
fn undoing(rows: &[RowUndo]) -> Result<TimedTransaction, EngineError> {
    let written = rows.iter().flat_map(RowUndo::writes);
    let judged = rows.iter().flat_map(RowUndo::judgements);
    let ops: Vec<TransactionOp> = written.chain(judged).collect();
    if ops.len() > OPERATIONS_MAX {
        let (what, max) = ("periods to write", OPERATIONS_MAX);
        return Err(WriteError::TooMuchToUndo { what, max }.into());
    }
    Ok(TimedTransaction { ops, meta: None })
}

/// The refusal of an operation as that of its row.
fn refused(error: EngineError, ops: &[TransactionOp]) -> EngineError {
    let named = |op: &TransactionOp| format!("{}/{}", op.table, op.id);
    match error {
        // It was changed after the look at it.
        EngineError::Transaction(TransactionError::Conflict(id)) => {
            let moved: BTreeSet<String> = ops.iter().filter(|op| op.id == id).map(named).collect();
            WriteError::RowsMoved(moved.into_iter().collect()).into()
        }
        EngineError::Transaction(TransactionError::OfOperation { nth, error }) => match *error {
            EngineError::Write(WriteError::RowsMoved(rows)) => WriteError::RowsMoved(rows).into(),
            error => {
                let (row, error) = (named(&ops[nth]), Box::new(error));
                WriteError::UndoRefused { row, error }.into()
            }
        },
        error => error,
    }
}

impl RowUndo {
    /// # Errors
    /// [`ReadError::TooManyPieces`] after so many that were looked at before.
    pub fn need_room(&self, before: usize) -> Result<usize, EngineError> {
        let count = before + self.looked_at;
        if count > PIECES_LOOKED_AT_MAX {
            return Err(ReadError::TooManyPieces.into());
        }
        Ok(count)
    }

    /// Whether anything is to be done.
    pub fn is_any(&self) -> bool {
        !self.steps.is_empty() || self.permissions.is_some()
    }

    fn op(&self, valid: Period, act: TransactionAct) -> TransactionOp {
        TransactionOp {
            table: self.table.id.to_string(),
            id: self.id.clone(),
            range: valid.into(),
            act,
        }
    }

    fn writes(&self) -> impl Iterator<Item = TransactionOp> {
        let step = |step: &UndoStep| {
            let act = step.values.as_ref().map(|values| TransactionAct::Restore {
                values: values.clone(),
                schema_epoch: self.table.schema_epoch,
            });
            self.op(step.valid, act.unwrap_or(TransactionAct::Withdraw))
        };
        let granted = self.permissions.as_ref().zip(self.is_there);
        let granted = granted.map(|(permissions, valid)| {
            self.op(valid, TransactionAct::Regrant(permissions.clone()))
        });
        self.steps.iter().map(step).chain(granted)
    }

    fn judgements(&self) -> impl Iterator<Item = TransactionOp> {
        let is_related = self.table.has_relationships();
        let gone = self.steps.iter().filter(|step| step.values.is_none());
        let gone = gone.filter(move |_| is_related);
        gone.map(|step| self.op(step.valid, TransactionAct::NeedUnlinked(step.valid)))
    }
}

fn spans(read: &PiecesRead) -> impl Iterator<Item = &Span> {
    read.rows.iter().filter_map(|row| row.span.as_deref())
}

/// The marks at which anything of the row changed.
fn changes(versions: &PiecesRead) -> impl Iterator<Item = Mark> {
    spans(versions).flat_map(|span| std::iter::once(span.system_from).chain(span.system_to))
}

fn values(row: &Row) -> &[Value] {
    match &row.content {
        Content::Values(values) => values,
        Content::Body(_) => unreachable!("pieces are read by their columns"),
    }
}

/// The pieces within the period, each with what `value` makes of its values.
fn timeline(
    read: &PiecesRead,
    range: Period,
    value: impl Fn(&[Value]) -> Result<Vec<Value>, ModelError>,
) -> Result<Timeline, EngineError> {
    let mut pieces = Timeline::new();
    for row in &read.rows {
        let span = row.span.as_ref().expect("pieces show where they stand");
        if let Some(valid) = span.valid.intersect(&range) {
            pieces.push((valid, value(values(row)).map_err(WriteError::Structure)?));
        }
    }
    pieces.sort_by_key(|(valid, _)| valid.from());
    Ok(pieces)
}

/// What differs, in the columns of today: those that are gone since cannot be written, and those
/// that were added since keep what a new row would have.
fn steps(was: &PiecesRead, is: &PiecesRead, range: Period) -> Result<Vec<UndoStep>, EngineError> {
    let columns = is.table.columns.iter();
    let sources: Vec<Option<usize>> = columns.map(|one| was.table.numbered(one.number)).collect();
    let of_today = |values: &[Value]| {
        let known = sources.iter().enumerate();
        let known = known.filter_map(|(at, source)| Some((at, values[(*source)?].clone())));
        let patch: model::Patch = known.collect::<Vec<_>>().into();
        patch.start(&is.table)
    };
    let was = timeline(was, range, of_today)?;
    let is = timeline(is, range, |values| Ok(values.to_vec()))?;
    let is_same = |old: &[Value], new: &[Value]| {
        let both = sources.iter().zip(old).zip(new);
        both.into_iter()
            .all(|((source, old), new)| source.is_none() || old == new)
    };
    Ok(differing(&was, &is, is_same))
}

/// Where two timelines differ, and what the first has there.
fn differing(
    was: &Timeline,
    is: &Timeline,
    is_same: impl Fn(&[Value], &[Value]) -> bool,
) -> Vec<UndoStep> {
    let pieces = was.iter().chain(is);
    let ends = pieces.flat_map(|(valid, _)| [valid.from(), valid.end()]);
    let ends: Vec<Timestamp> = ends.collect::<BTreeSet<_>>().into_iter().collect();
    let (mut old, mut new) = (Along::new(was), Along::new(is));
    let mut steps: Vec<UndoStep> = Vec::new();
    for pair in ends.windows(2) {
        let (old, new) = (old.at(pair[0]), new.at(pair[0]));
        let stays = match (old, new) {
            (Some(old), Some(new)) => is_same(old, new),
            (None, None) => true,
            _ => false,
        };
        let Some(valid) = Period::spanning(pair[0], pair[1]).filter(|_| !stays) else {
            continue;
        };
        let values = old.map(<[Value]>::to_vec);
        if let Some(last) = steps.last_mut()
            && last.values == values
            && let Some(whole) = last.valid.extend(&valid)
        {
            last.valid = whole;
            continue;
        }
        steps.push(UndoStep { valid, values });
    }
    steps
}

/// A timeline that is looked at from its beginning on.
struct Along<'t> {
    pieces: &'t [(Period, Vec<Value>)],
}

impl<'t> Along<'t> {
    fn new(pieces: &'t Timeline) -> Along<'t> {
        Along { pieces }
    }

    /// What is valid at an instant, which is not before the last one.
    fn at(&mut self, instant: Timestamp) -> Option<&'t [Value]> {
        while let Some(((valid, _), rest)) = self.pieces.split_first()
            && valid.end() <= instant
        {
            self.pieces = rest;
        }
        let (valid, values) = self.pieces.first()?;
        valid.contains(instant).then_some(values)
    }
}
