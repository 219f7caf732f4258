//! What a batch does from its first operation to the record of its commit.

use std::sync::Arc;

use model::Mark;

use super::halt::{Halt, Step};
use super::past::PastRows;
use super::requests::RequestStore;
use super::run::{RowStore, Run};
use super::state::State;
use super::stored_tables::StoredTables;
use super::table_layout::TableLayout;
use super::transaction_store::TransactionStore;
use crate::batch::{Applied, BATCH_ROWS_MAX, Changes, Op, SpaceLimit, WriteBatch};
use crate::refusal::Refusal;
use crate::staged::Done;
use crate::written::{Matched, TimedDone, WrittenRow};

/// A database, as a batch sees it: rows, their past, the tables of rows, those beside them,
/// requests, transactions of clients, and the record of the commit.
pub(crate) trait BatchStore:
    RowStore + PastRows + StoredTables + TableLayout + RequestStore + TransactionStore + Sized
{
    /// Writes the record of the commit with the rows it touched. Snapshots of it are stamped with
    /// the state that follows, by the end of the transaction.
    fn record(run: &mut Run<'_, Self>, record: &RecordToWrite<'_>) -> Step<()>;
}

/// What the record of a commit says, next to its mark, its number and its rows.
pub(crate) struct RecordToWrite<'a> {
    /// The mark of the commit before.
    pub(crate) previous: Mark,
    pub(crate) author: Option<&'a str>,
    /// What its author says of it.
    pub(crate) meta: Option<&'a str>,
    /// How many rows it erased.
    pub(crate) erased: usize,
    /// See [`WriteBatch::noted_in`].
    pub(crate) noted_in: Option<i64>,
}

/// What became of the operations so far, by their kinds.
struct Reports<'a> {
    rows: &'a mut Vec<WrittenRow>,
    matched: &'a mut Vec<Matched>,
    timed: &'a mut Vec<TimedDone>,
}

/// What the operations of a batch came to.
struct Performed {
    rows: Vec<WrittenRow>,
    matched: Vec<Matched>,
    timed: Vec<TimedDone>,
    changes_nothing: bool,
}

impl<D: BatchStore> Run<'_, D> {
    /// The halt of the batch over one of its operations, as its author is to see it.
    fn blaming(&self, halt: Halt, nth: Option<usize>) -> Halt {
        match nth.filter(|_| self.manner.blames) {
            Some(nth) => halt.over(nth),
            None => halt,
        }
    }

    /// Runs the operations and records the commit. The state is what the next batch goes on
    /// from; it is unchanged when the batch changed nothing. Beside it: bytes of the images of all
    /// steps, whatever became of them.
    pub(crate) fn run(mut self, batch: &WriteBatch) -> (Step<(Applied, State)>, usize) {
        let ran = self.perform(batch);
        let written = self.touched.bytes();
        (ran.map(|performed| self.finish(performed)), written)
    }

    fn perform(&mut self, batch: &WriteBatch) -> Step<Performed> {
        let mut rows: Vec<WrittenRow> = Vec::with_capacity(batch.ops.len().min(BATCH_ROWS_MAX));
        let mut matched = Vec::new();
        let mut timed = Vec::new();
        let mut done = Reports {
            rows: &mut rows,
            matched: &mut matched,
            timed: &mut timed,
        };
        for (nth, op) in batch.ops.iter().enumerate() {
            self.nth = nth;
            let ran = self.op(op, &mut done);
            ran.map_err(|halt| self.blaming(halt, Some(nth)))?;
        }
        if let SpaceLimit::None(full) = &batch.space {
            return Err(Refusal::Full(full.clone()).into());
        }
        self.end_timed()?;
        if self.manner.judges_end {
            self.judge_end(batch)?;
        }
        self.touched.drop_transient();
        let changes_nothing = self.touched.len() == 0
            && self.catalogue.is_empty()
            && self.erased.is_empty()
            && !self.constrained
            && batch.noted_in.is_none();
        if !changes_nothing {
            self.forget_past()?;
            self.totals.need_project_bytes(
                &batch.space,
                &self.state.catalogue,
                &self.state.growth,
            )?;
            self.record(batch)?;
        }
        let done = Done {
            mark: self.state.mark,
            rows: &rows,
            matched: &matched,
            timed: &timed,
            transactions: &self.staged.changed,
        };
        self.keep_request(!changes_nothing, &done)?;
        Ok(Performed {
            rows,
            matched,
            timed,
            changes_nothing,
        })
    }

    /// Judges what need not hold between two operations.
    fn judge_end(&mut self, batch: &WriteBatch) -> Step<()> {
        let needed = self.check_needed();
        needed.map_err(|(nth, halt)| self.blaming(halt, Some(nth)))?;
        let checked = self.show_parked().and_then(|()| self.check_over_time());
        checked.map_err(|(table, id, halt)| self.blaming(halt, batch.last_on(table, &id)))
    }

    fn op(&mut self, op: &Op, done: &mut Reports<'_>) -> Step<()> {
        let over = match op {
            Op::Row(op) if op.range.is_some() => Some(op),
            _ => None,
        };
        if over.is_none() {
            // Whatever else there is looks at the current rows.
            self.catch_up()?;
        }
        let is_of_rows = matches!(op, Op::Row(_) | Op::Matching(_) | Op::Related(_));
        self.row_ops += usize::from(is_of_rows);
        match op {
            // The operation was checked under a catalogue that this very batch has changed.
            _ if is_of_rows && !self.catalogue.is_empty() => {
                return Err(Refusal::CatalogueMoved.into());
            }
            Op::Row(op) => match over {
                Some(op) => done.timed.push(self.timed_op(op)?),
                None => done.rows.push(self.row_op(op)?),
            },
            Op::Matching(op) => done.matched.push(self.matching_op(op)?),
            Op::Related(op) => self.related_op(op)?,
            Op::Catalogue(op) => {
                // An index, say, is made of the rows as they are shown.
                self.show_parked().map_err(|(.., halt)| halt)?;
                self.catalogue_op(op)?;
            }
            Op::Transaction(op) => self.transaction_op(op)?,
            Op::Function(op) => self.function_op(op)?,
            Op::Since(since) => self.hold_since(*since),
            Op::Once(once) => self.need_first_time(once)?,
        }
        if self.touched.len() > BATCH_ROWS_MAX {
            let rows_max = BATCH_ROWS_MAX;
            return Err(Refusal::TooManyRows { rows_max }.into());
        }
        self.need_room()
    }

    /// Counts the commit, and writes its record.
    fn record(&mut self, batch: &WriteBatch) -> Step<()> {
        if !self.catalogue.is_empty() {
            self.state.catalogue_mut().epoch += 1;
        }
        let previous = self.state.mark;
        self.state.number += 1;
        self.state.mark = self.mark;
        self.state.horizon = self.state.horizon.max(self.mark);
        let erased = self.erased.len();
        self.state.erased += erased as u64;
        let record = RecordToWrite {
            previous,
            author: batch.author.as_deref(),
            meta: batch.meta.as_deref(),
            erased,
            noted_in: batch.noted_in,
        };
        D::record(self, &record)
    }

    fn finish(self, performed: Performed) -> (Applied, State) {
        let Performed {
            rows,
            matched,
            timed,
            changes_nothing,
        } = performed;
        let applied = Applied {
            mark: (!changes_nothing).then_some(self.mark),
            rows,
            matched,
            timed,
            changes: if changes_nothing {
                Changes::Images(Arc::default())
            } else {
                self.touched.into_changes()
            },
            past_changed: self.past_changed.into(),
            erased: self.erased_in.into(),
            catalogue: self.catalogue,
            leaves_upkeep: self.of_functions.leaves_pieces.get(),
            keeps: self.staged.keeps() || self.is_begun || self.of_functions.is_any,
            transactions: self.staged.changed,
            catalogue_epoch: self.state.catalogue.epoch,
        };
        (applied, self.state)
    }
}
