//! One batch on its way through the open transaction.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use model::{CatalogueChange, Mark, RowId, Table, TableNumber, Timestamp};
use rusqlite::{CachedStatement, Connection, ToSql, params};

use super::coding::Coding;
use super::deadline::Deadline;
use super::halt::Step;
use super::row_sql::RowTexts;
use super::sizes::Totals;
use super::staged_run::StagedRun;
use super::state::State;
use super::timed_rows::Timed;
use super::touched::Touched;
use super::vault::Place;
use super::versions::Source;
use crate::batch::{Applied, BATCH_BYTES_MAX, BATCH_ROWS_MAX, Changes, Op, Room, WriteBatch};
use crate::refusal::Refusal;
use crate::staged::Done;
use crate::written::{Matched, TimedDone, WrittenRow};

/// What became of the operations so far, by their kinds.
struct Reports<'a> {
    rows: &'a mut Vec<WrittenRow>,
    matched: &'a mut Vec<Matched>,
    timed: &'a mut Vec<TimedDone>,
}

/// A batch while it runs: what it writes with, and what it has done so far.
pub(super) struct Run<'w> {
    pub(super) connection: &'w Connection,
    pub(super) coding: &'w Coding,
    pub(super) texts: &'w mut RowTexts,
    /// How many bytes the tables held before the open transaction.
    pub(super) totals: &'w Totals,
    /// The writer's state as this batch sees and changes it; thrown away if the batch halts.
    pub(super) state: State,
    /// The mark this batch gets if it changes something.
    pub(super) mark: Mark,
    pub(super) touched: Touched,
    /// How many operations on rows have begun.
    pub(super) row_ops: usize,
    /// See [`WriteBatch::unchanged_since`].
    pub(super) unchanged_since: Option<Timestamp>,
    /// Stops a search for matching rows.
    pub(super) deadline: &'w Deadline,
    /// How long its searches may still take, together.
    pub(super) search_left: Duration,
    /// How many rows they may still find, together: a row that is found costs its turn, whether or
    /// not another search of the batch has found it before.
    pub(super) finds_left: usize,
    /// What the batch has to do with transactions of clients.
    pub(super) staged: StagedRun,
    pub(super) catalogue: Vec<CatalogueChange>,
    /// What it wrote over valid periods.
    pub(super) timed: Timed,
    /// The rows it erased.
    pub(super) erased: Vec<(Arc<Table>, RowId)>,
    /// Whether it changed what must hold over valid time.
    pub(super) constrained: bool,
    /// Whether it wrote a part of an index, which no reader sees before all of it is there.
    pub(super) is_begun: bool,
    /// See [`Applied::recast`].
    pub(super) recast: Recast,
    /// See [`Applied::erased`].
    pub(super) erased_in: Recast,
}

/// Tables whose past looks otherwise.
#[derive(Default)]
pub(super) struct Recast(RefCell<BTreeSet<TableNumber>>);

impl From<Recast> for Vec<TableNumber> {
    fn from(recast: Recast) -> Vec<TableNumber> {
        recast.0.into_inner().into_iter().collect()
    }
}

impl Recast {
    pub(super) fn add(&self, table: TableNumber) {
        self.0.borrow_mut().insert(table);
    }
}

/// What the operations of a batch came to.
struct Performed {
    rows: Vec<WrittenRow>,
    matched: Vec<Matched>,
    timed: Vec<TimedDone>,
    changes_nothing: bool,
}

impl Run<'_> {
    /// Runs the operations and records the commit. The state is what the next batch goes on
    /// from; it is unchanged when the batch changed nothing. Beside it: bytes of the images of all
    /// steps, whatever became of them.
    pub(super) fn run(mut self, batch: &WriteBatch) -> (Step<(Applied, State)>, usize) {
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
            let ran = self.op(op, &mut done);
            ran.map_err(|halt| halt.of(batch, Some(nth)))?;
        }
        if let Room::None(full) = &batch.room {
            return Err(Refusal::Full(full.clone()).into());
        }
        self.end_timed()?;
        let checked = self.check_over_time();
        checked.map_err(|(table, id, halt)| halt.of(batch, batch.last_on(table, &id)))?;
        self.touched.drop_transient();
        let changes_nothing = self.touched.len() == 0
            && self.catalogue.is_empty()
            && self.erased.is_empty()
            && !self.constrained
            && batch.note.is_none();
        if !changes_nothing {
            self.forget_past()?;
            self.totals.need_project_bytes(
                &batch.room,
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

    fn op(&mut self, op: &Op, done: &mut Reports<'_>) -> Step<()> {
        if !matches!(op, Op::Timed(_)) {
            // Whatever else there is looks at the table of now.
            self.catch_up()?;
        }
        let is_of_rows = matches!(
            op,
            Op::Row(_) | Op::Matching(_) | Op::Related(_) | Op::Timed(_)
        );
        self.row_ops += usize::from(is_of_rows);
        match op {
            // The operation was checked under a catalogue that this very batch has changed.
            _ if is_of_rows && !self.catalogue.is_empty() => {
                return Err(Refusal::CatalogueMoved.into());
            }
            Op::Row(op) => done.rows.push(self.row_op(op)?),
            Op::Matching(op) => done.matched.push(self.matching_op(op)?),
            Op::Related(op) => self.related_op(op)?,
            Op::Timed(op) => done.timed.push(self.timed_op(op)?),
            Op::Catalogue(op) => self.catalogue_op(op)?,
            Op::Transaction(op) => self.transaction_op(op)?,
            Op::Since(since) => self.hold_since(*since),
            Op::Once(once) => self.need_first_time(once)?,
        }
        if self.touched.len() > BATCH_ROWS_MAX {
            let rows_max = BATCH_ROWS_MAX;
            return Err(Refusal::TooManyRows { rows_max }.into());
        }
        self.need_room()
    }

    /// To be asked after each row: other writers wait until all of this batch is in the log.
    pub(super) fn need_room(&self) -> Step<()> {
        // One change of one row is possible however large the row is.
        let is_single = self.touched.len() <= 1 && self.row_ops <= 1;
        if self.touched.bytes() > BATCH_BYTES_MAX && !is_single {
            let bytes_max = BATCH_BYTES_MAX;
            return Err(Refusal::TooManyBytes { bytes_max }.into());
        }
        Ok(())
    }

    /// Writes the commit's own row, the rows it touched, and the stamp of snapshots from here on.
    fn record(&mut self, batch: &WriteBatch) -> Step<()> {
        let mark = self.mark.0;
        if !self.catalogue.is_empty() {
            self.state.catalogue_mut().epoch += 1;
        }
        let previous = self.state.mark.0;
        self.state.number += 1;
        self.state.mark = self.mark;
        self.state.horizon = self.state.horizon.max(self.mark);
        let author = batch.author.as_deref();
        let meta = batch.note.as_ref().and_then(|note| note.meta.as_deref());
        let vault = &self.coding.vault;
        let sealed = meta.filter(|_| self.state.is_sealing);
        let sealed = sealed.map(|meta| vault.seal(Place::Note(mark), meta.as_bytes()));
        let sealed = sealed.transpose()?;
        let meta: &dyn ToSql = match &sealed {
            Some(sealed) => sealed,
            None => &meta,
        };
        let noted_in = batch.note.as_ref().map(|note| note.database);
        let erased = self.erased.len() as i64;
        self.state.erased += self.erased.len() as u64;
        let erased = (erased > 0).then_some(erased);
        self.statement(
            "INSERT INTO tx (tt, n, prev, user, meta, erased, noted_in) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            mark,
            self.state.number,
            previous,
            author,
            meta,
            erased,
            noted_in
        ])?;
        let mut row = self.statement("INSERT INTO tx_row (tt, tab, id) VALUES (?1, ?2, ?3)")?;
        for (TableNumber(table), id) in self.touched.ids() {
            row.execute(params![mark, table, id.as_str()])?;
        }
        drop(row);
        self.state.write(self.connection)?;
        Ok(())
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
            recast: self.recast.into(),
            erased: self.erased_in.into(),
            catalogue: self.catalogue,
            keeps: self.staged.keeps() || self.is_begun,
            transactions: self.staged.changed,
            catalogue_epoch: self.state.catalogue.epoch,
        };
        (applied, self.state)
    }

    /// From where versions are read.
    pub(super) fn source(&self) -> Source<'_> {
        Source {
            connection: self.connection,
            coding: self.coding,
        }
    }

    /// A prepared statement, kept for the next time.
    pub(super) fn statement(&self, sql: &str) -> rusqlite::Result<CachedStatement<'_>> {
        self.connection.prepare_cached(sql)
    }

    /// Takes one change of the catalogue in, for the operations that follow and for the report.
    pub(super) fn change_catalogue(&mut self, change: CatalogueChange) {
        Arc::make_mut(&mut self.state.catalogue).apply(change.clone());
        self.catalogue.push(change);
    }
}
