//! The one writer: groups of batches inside one transaction, and what follows when it fails.

use std::sync::Arc;

use model::{Mark, Timestamp};
use rusqlite::Connection;

use crate::batch::{Applied, Changes, Op, Outcome, WriteBatch};
use crate::laws::group_bytes::GroupBytes;
use crate::laws::growth::Totals;
use crate::laws::halt::Halt;
use crate::laws::run::{Run, RunManner};
use crate::laws::settled::{BatchEnd, run_settled};
use crate::laws::state::State;
use crate::laws::touched::Touched;
use crate::refusal::Refusal;
use crate::sqlite::disk::checkpoint::Backlog;
use crate::sqlite::disk::deadline::Deadline;
use crate::sqlite::disk::kept::Keeping;
use crate::sqlite::disk::wal_coalescing;
use crate::sqlite::schema::coding::Coding;
use crate::sqlite::schema::row_sql::RowTexts;
use crate::sqlite::schema::{sizes, state};
use crate::sqlite::write::run::SqliteRun;
use crate::sqlite::write::stored_rows::SqliteRows;
use crate::{DUE_ROWS_MAX, StoreError};

/// The connection that writes, and what it knows.
pub(crate) struct Writer {
    pub(crate) connection: Connection,
    pub(crate) coding: Coding,
    pub(crate) texts: RowTexts,
    /// As of the latest commit.
    pub(crate) committed: State,
    /// As of the open transaction; equal to `committed` when none is open.
    pub(crate) state: State,
    pub(crate) totals: Totals,
    backlog: Backlog,
    keeping: Keeping,
    pub(crate) deadline: Deadline,
    /// What became due in the open transaction.
    due: Vec<Changes>,
    /// Bytes of the images of all rows that the open transaction wrote, also of those it took back.
    written_bytes: usize,
    /// Whether batches of rows run without savepoints now; see [`Writer::apply`].
    is_bare: bool,
    /// A batch that ran so has left what only the end of the transaction takes back.
    needs_savepoints: bool,
    /// So many groups are yet to run with savepoints.
    pub(crate) guarded_groups: u32,
    /// Nothing is written any more: what the log holds behind its last commit is not known.
    is_stopped: bool,
}

/// After a group that needed savepoints so many more have them: who has refused writes all the
/// time has few groups run twice.
const GUARDED_GROUPS: u32 = 64;

/// What a batch goes back to if it is refused.
#[derive(Clone, Copy)]
enum BatchStart {
    /// To its own savepoint.
    Savepoint,
    /// To nothing, if SQLite still has counted so many changes.
    Changes(u64),
}

impl Writer {
    /// # Errors
    /// When the connection cannot be made to look at the clock, or the database be read.
    pub(crate) fn new(
        mut connection: Connection,
        coding: Coding,
        state: State,
        backlog: Backlog,
        keeping: Keeping,
    ) -> Result<Writer, StoreError> {
        let deadline = Deadline::watch(&mut connection)?;
        let totals = Totals::new(&state.catalogue, sizes::read(&connection)?);
        // What opening has written is committed.
        wal_coalescing::keep(&mut connection);
        Ok(Writer {
            connection,
            coding,
            texts: RowTexts::default(),
            committed: state.clone(),
            state,
            totals,
            backlog,
            keeping,
            deadline,
            due: Vec::new(),
            written_bytes: 0,
            is_bare: false,
            needs_savepoints: false,
            guarded_groups: 0,
            is_stopped: false,
        })
    }

    /// Runs the batches inside a transaction that stays open.
    ///
    /// After any error SQLite is asked whether the transaction still exists; on a full disk, an
    /// I/O error, an interrupt or lack of memory it may end all of it. Then the batch it ended
    /// over is out, and the others run again from the start. Each round takes at least one batch
    /// out, so there are no more rounds than batches. Refusals are judged again in each round:
    /// what stood in the way may have gone with the batch that failed.
    ///
    /// A savepoint has SQLite copy each page before the batch changes it, and most batches are not
    /// refused, or before they write anything. So in the first round batches of rows have none; one
    /// that is refused after it wrote ends the round, and the next one has a savepoint for each.
    ///
    /// # Errors
    /// When no transaction can be begun.
    pub(crate) fn apply(
        &mut self,
        batches: &[WriteBatch],
        first: Mark,
    ) -> Result<Vec<Outcome>, StoreError> {
        assert!(
            first > self.committed.mark,
            "marks rise strictly: {first:?} follows {:?}",
            self.committed.mark
        );
        let mut failed: Vec<Option<StoreError>> = vec![None; batches.len()];
        let mut is_bare = self.guarded_groups == 0;
        self.guarded_groups = self.guarded_groups.saturating_sub(1);
        loop {
            self.begin()?;
            self.is_bare = std::mem::take(&mut is_bare);
            let outcomes = self.round(batches, first, &mut failed);
            self.is_bare = false;
            match outcomes {
                Some(outcomes) => return Ok(outcomes),
                None => self.rollback(),
            }
        }
    }

    pub(crate) fn begin(&mut self) -> Result<(), StoreError> {
        if self.is_stopped {
            return Err(StoreError::Stopped);
        }
        self.backlog.clear();
        if !self.connection.is_autocommit() {
            // An earlier rollback could not be run, for want of memory.
            self.rollback();
        }
        self.execute("BEGIN IMMEDIATE")?;
        self.state = self.committed.clone();
        self.due.clear();
        self.written_bytes = 0;
        // A panic may have left them as they were within a group.
        self.is_bare = false;
        self.needs_savepoints = false;
        Ok(())
    }

    /// One pass over the batches that have not failed. `None` when the transaction has ended;
    /// the batch it ended over has then joined the failed ones.
    fn round(
        &mut self,
        batches: &[WriteBatch],
        first: Mark,
        failed: &mut [Option<StoreError>],
    ) -> Option<Vec<Outcome>> {
        let mut mark = first;
        let mut due_left = DUE_ROWS_MAX;
        let mut outcomes = Vec::with_capacity(batches.len());
        let mut written = GroupBytes::default();
        for (batch, failed) in batches.iter().zip(failed) {
            if let Some(error) = failed {
                outcomes.push(Err(Refusal::Failed(error.clone())));
                continue;
            }
            if written.is_enough(batch) {
                outcomes.push(Err(Refusal::Deferred));
                continue;
            }
            let before = self.written_bytes;
            // Every operation looks at what is valid at its mark.
            let ran = run_settled(self, batch, mark, &mut due_left);
            written.add(batch, self.written_bytes - before);
            match ran {
                Ok(applied) => {
                    if applied.mark.is_some() {
                        mark = mark.next();
                    }
                    outcomes.push(Ok(applied));
                }
                Err(BatchEnd::Alone(refusal)) => {
                    if let Refusal::Failed(error) = &refusal {
                        *failed = Some(error.clone());
                    }
                    outcomes.push(Err(refusal));
                }
                Err(BatchEnd::WithAll(error)) => {
                    if std::mem::take(&mut self.needs_savepoints) {
                        self.guarded_groups = GUARDED_GROUPS;
                    } else {
                        *failed = Some(error);
                    }
                    return None;
                }
            }
        }
        Some(outcomes)
    }

    /// Runs one batch, whole or not at all.
    pub(crate) fn run(&mut self, batch: &WriteBatch, mark: Mark) -> Result<Applied, BatchEnd> {
        let manner = RunManner {
            blames: batch.noted_in.is_some(),
            judges_end: true,
        };
        self.run_so(batch, mark, manner)
    }

    /// The same in another manner.
    pub(crate) fn run_so(
        &mut self,
        batch: &WriteBatch,
        mark: Mark,
        manner: RunManner,
    ) -> Result<Applied, BatchEnd> {
        let needs_catalogue = batch.ops.iter().any(Op::needs_catalogue);
        if needs_catalogue && batch.catalogue_epoch != self.state.catalogue.epoch {
            return Err(BatchEnd::Alone(Refusal::CatalogueMoved));
        }
        let begun = if self.is_bare && batch.ops.iter().all(Op::is_of_one_row) {
            BatchStart::Changes(self.connection.total_changes())
        } else {
            BatchStart::Savepoint
        };
        if let BatchStart::Savepoint = begun
            && let Err(error) = self.execute("SAVEPOINT batch")
        {
            return Err(self.undo(begun, Halt::Failed(error)));
        }
        let mut run = self.fresh_run(mark, manner);
        run.touched = Touched::new(batch.ops.len(), batch.meets_rows_again());
        run.unchanged_since = batch.unchanged_since;
        let (ran, written_bytes) = run.run(batch);
        self.written_bytes += written_bytes;
        match ran {
            Ok((applied, _)) if applied.mark.is_none() && !applied.keeps => {
                // What it wrote, if anything, it took back itself; nothing of that shall stay.
                self.take_back(begun).map_err(BatchEnd::WithAll)?;
                Ok(applied)
            }
            Ok((applied, state)) => {
                if let BatchStart::Savepoint = begun
                    && let Err(error) = self.execute("RELEASE batch")
                {
                    return Err(self.undo(begun, Halt::Failed(error)));
                }
                self.state = state;
                self.state.growth.settle();
                Ok(applied)
            }
            Err(halt) => Err(self.undo(begun, halt)),
        }
    }

    /// A run of no batch, for what becomes due at `instant`.
    pub(crate) fn run_without_batch(&mut self, instant: Timestamp) -> SqliteRun<'_, '_> {
        let manner = RunManner {
            blames: false,
            judges_end: true,
        };
        self.fresh_run(Mark(instant.0), manner)
    }

    /// A run that has done nothing yet.
    fn fresh_run(&mut self, mark: Mark, manner: RunManner) -> SqliteRun<'_, '_> {
        let (rows, state) = (self.rows(), self.state.clone());
        Run::new(
            rows,
            (self.coding.encode_row, &self.totals),
            state,
            mark,
            manner,
        )
    }

    /// The rows of the open transaction.
    pub(crate) fn rows(&self) -> SqliteRows<'_> {
        SqliteRows {
            connection: &self.connection,
            coding: &self.coding,
            texts: &self.texts,
            deadline: &self.deadline,
        }
    }

    /// As of the open transaction.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Takes in what such a run has activated.
    pub(crate) fn include_due(&mut self, state: State, touched: Touched) {
        self.state = state;
        if touched.len() > 0 {
            self.due.push(touched.into_changes());
        }
    }

    /// What became due in the open transaction.
    pub(crate) fn take_due(&mut self) -> Vec<Changes> {
        std::mem::take(&mut self.due)
    }

    /// Takes a halted batch back, and finds out whether the transaction outlived it.
    fn undo(&mut self, begun: BatchStart, halt: Halt) -> BatchEnd {
        let refusal = match halt {
            Halt::Refused(refusal) => refusal,
            Halt::Failed(error) => Refusal::Failed(error),
        };
        match (self.take_back(begun), refusal) {
            (Ok(()), refusal) => BatchEnd::Alone(refusal),
            // The first error tells more than that of the rollback, and the batch is out with it.
            (Err(_), Refusal::Failed(error)) => {
                if std::mem::take(&mut self.needs_savepoints) {
                    self.guarded_groups = GUARDED_GROUPS;
                }
                BatchEnd::WithAll(error)
            }
            (Err(error), _) => BatchEnd::WithAll(error),
        }
    }

    /// Takes back what a batch has done.
    ///
    /// # Errors
    /// When the transaction has ended, or must end: then for the batch to be run again with a
    /// savepoint, or because that cannot be rolled back to.
    fn take_back(&mut self, begun: BatchStart) -> Result<(), StoreError> {
        let ended = |detail: &str| StoreError::Io {
            detail: detail.to_owned(),
        };
        if self.connection.is_autocommit() {
            return Err(ended("the transaction has ended"));
        }
        match begun {
            BatchStart::Savepoint => {
                self.execute("ROLLBACK TO batch")?;
                self.execute("RELEASE batch")
            }
            BatchStart::Changes(before) if before == self.connection.total_changes() => Ok(()),
            BatchStart::Changes(_) => {
                self.needs_savepoints = true;
                Err(ended(
                    "a batch without a savepoint was refused after it wrote",
                ))
            }
        }
    }

    /// Makes the open transaction durable and visible.
    ///
    /// # Errors
    /// Nothing of it is visible, nor will it be after a restart. Only with
    /// [`StoreError::OutcomeUnknown`] it may be, whole, and nothing more is written before that.
    pub(crate) fn commit(&mut self) -> Result<(), StoreError> {
        // Should a fault of ours end this half-way, nothing follows it.
        self.is_stopped = true;
        let committed = self.commit_or_void();
        self.is_stopped = matches!(committed, Err(StoreError::OutcomeUnknown { .. }));
        committed
    }

    fn commit_or_void(&mut self) -> Result<(), StoreError> {
        match self.stamp().and_then(|()| self.execute("COMMIT")) {
            Ok(()) => {
                wal_coalescing::keep(&mut self.connection);
                let catalogue = &self.state.catalogue;
                let is_same = Arc::ptr_eq(catalogue, &self.committed.catalogue);
                let moved = (!is_same).then_some(&**catalogue);
                self.totals.take_in(&mut self.state.growth, moved);
                let erased = self.state.erased > self.committed.erased;
                self.committed = self.state.clone();
                self.keeping.committed(self.committed.mark);
                if erased {
                    self.backlog.report_erased();
                }
                self.backlog.report();
                Ok(())
            }
            Err(error) => {
                self.rollback();
                Err(match wal_coalescing::void(&mut self.connection) {
                    Ok(()) => error,
                    Err(second) => {
                        let detail = format!("{error} And then: {second}");
                        StoreError::OutcomeUnknown { detail }
                    }
                })
            }
        }
    }

    /// Writes what all batches of the open transaction have in common: what they add to the
    /// counters, and the stamp of snapshots from here on.
    fn stamp(&mut self) -> Result<(), StoreError> {
        self.state.growth.settle();
        sizes::write_growth(&self.connection, &self.state.growth)?;
        if self.state.number != self.committed.number {
            state::write(&self.connection, &self.state)?;
        }
        Ok(())
    }

    /// Whether it writes no more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Ends the open transaction, if there is one, without a trace.
    pub(crate) fn rollback(&mut self) {
        self.state = self.committed.clone();
        if !self.connection.is_autocommit() {
            // It can only fail for want of memory, before it has begun; then the transaction is
            // still open, and the next one to begin finds it so and tries again.
            let _ = self.execute("ROLLBACK");
        }
    }

    /// Does what only serves readers, while there is nothing to write.
    pub(crate) fn rest(&self) {
        self.backlog.rest();
    }

    /// Runs `change` in a transaction of its own that takes no mark. Durable when it returns.
    pub(crate) fn in_own_transaction<T>(
        &mut self,
        change: impl FnOnce(&mut Writer) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.begin()?;
        let changed = change(self).and_then(|answer| self.commit().map(|()| answer));
        if changed.is_err() {
            self.rollback();
        }
        changed
    }

    /// Goes on from nothing, inside the open transaction.
    pub(crate) fn forget_marks(&mut self) -> Result<(), StoreError> {
        self.state.mark = Mark::ZERO;
        self.state.horizon = Mark::ZERO;
        self.state.number = 0;
        state::write(&self.connection, &self.state)?;
        Ok(())
    }

    /// Stores the horizon; see [`crate::StoreUpkeep::reserve`] and [`crate::StoreUpkeep::close`].
    pub(crate) fn store_horizon(&mut self, horizon: Mark) -> Result<(), StoreError> {
        self.in_own_transaction(|writer| {
            writer.state.horizon = horizon.max(writer.state.mark);
            state::write(&writer.connection, &writer.state)?;
            Ok(())
        })
    }

    /// What is left for the last steps before the connection is closed.
    pub(crate) fn into_connection(self) -> (Connection, Keeping) {
        (self.connection, self.keeping)
    }

    fn execute(&self, sql: &str) -> Result<(), StoreError> {
        self.connection.prepare_cached(sql)?.execute(())?;
        Ok(())
    }
}
