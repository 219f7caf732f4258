//! The one writer of a store in a schema: groups of batches, and how their commits end.

use std::cell::RefCell;
use std::sync::Arc;

#[cfg(test)]
use model::Catalogue;
use model::Mark;

use super::bulk_send::calls_of;
use super::records::{UnsentRecords, growth, stamp};
use super::rows::{ByteTexts, PostgresRows};
use super::session::{BurstEnd, SqlCall, WriterSession};
use crate::batch::{Applied, Op, Outcome, WriteBatch};
use crate::laws::group_bytes::GroupBytes;
use crate::laws::growth::Totals;
use crate::laws::halt::Halt;
use crate::laws::named::named;
use crate::laws::run::{Run, RunManner};
use crate::laws::state::State;
use crate::laws::touched::Touched;
use crate::laws::working_set::WorkingSet;
use crate::refusal::Refusal;
use crate::{EncodeRow, StoreError};

/// The connection that writes, and what it knows.
pub(crate) struct DatabaseWriter {
    session: WriterSession,
    encode_row: EncodeRow,
    /// As of the latest commit.
    committed: State,
    totals: Totals,
    bytes: RefCell<ByteTexts>,
}

/// A group that ran in memory: nothing of it was sent that cannot be taken back.
pub(crate) struct AppliedGroup {
    pub(crate) outcomes: Vec<Outcome>,
    state: State,
    left: Vec<SqlCall>,
}

/// How the commit of a group ended.
#[derive(Debug)]
pub(crate) enum GroupEnd {
    /// It is durable and visible.
    Done(Vec<Outcome>),
    /// Nothing of it is, nor will be: why.
    Nothing(StoreError),
    /// It is there whole or not at all: what came in place of an answer.
    Unknown(StoreError),
}

/// What one pass over the batches of a group came to.
enum GroupRound {
    Ran(AppliedGroup),
    /// The transaction has ended over the batch at this place.
    Ended(usize, StoreError),
}

impl DatabaseWriter {
    /// A writer that goes on from this state.
    pub(crate) fn new(
        session: WriterSession,
        encode_row: EncodeRow,
        state: State,
        totals: Totals,
    ) -> DatabaseWriter {
        DatabaseWriter {
            session,
            encode_row,
            committed: state,
            totals,
            bytes: RefCell::default(),
        }
    }

    /// Goes on with another catalogue.
    #[cfg(test)]
    pub(crate) fn with_catalogue(mut self, catalogue: Arc<Catalogue>) -> DatabaseWriter {
        self.totals = Totals::new(&catalogue, std::iter::empty());
        self.committed.catalogue = catalogue;
        self
    }

    /// What a statement gives, a line a row.
    #[cfg(test)]
    pub(crate) fn lines(&self, sql: &str) -> Vec<String> {
        self.session.lines(sql).unwrap()
    }

    /// How often it has waited for the database.
    pub(crate) fn round_trips(&self) -> u64 {
        self.session.round_trips()
    }

    /// As of the latest commit.
    pub(crate) fn committed(&self) -> &State {
        &self.committed
    }

    /// Runs the batches inside a transaction that stays open.
    ///
    /// Behind a statement that failed the transaction takes no more. Then the batch it failed over
    /// is out, and the others run again from the start: there are no more rounds than batches.
    ///
    /// # Errors
    /// When no transaction can be begun.
    pub(crate) fn apply(
        &mut self,
        batches: &[WriteBatch],
        first: Mark,
    ) -> Result<AppliedGroup, StoreError> {
        assert!(
            first > self.committed.mark,
            "marks rise strictly: {first:?} follows {:?}",
            self.committed.mark
        );
        let mut failed: Vec<Option<StoreError>> = vec![None; batches.len()];
        loop {
            match self.round(batches, first, &failed) {
                Ok(GroupRound::Ran(group)) => return Ok(group),
                Ok(GroupRound::Ended(nth, error)) => {
                    failed[nth] = Some(error);
                    self.session.rollback()?;
                }
                Err(error) => {
                    // What was said first tells more.
                    let _ = self.session.rollback();
                    return Err(error);
                }
            }
        }
    }

    /// One pass over the batches that have not failed.
    fn round(
        &self,
        batches: &[WriteBatch],
        first: Mark,
        failed: &[Option<StoreError>],
    ) -> Result<GroupRound, StoreError> {
        let records = RefCell::default();
        let rows = PostgresRows {
            session: &self.session,
            records: &records,
            bytes: &self.bytes,
        };
        self.session.begin_at(self.committed.mark.0);
        let set = WorkingSet::new(rows, first);
        set.read_ahead(named(batches))?;
        let mut group = OpenGroup {
            set,
            records: &records,
            state: self.committed.clone(),
            mark: first,
        };
        let mut written = GroupBytes::default();
        let mut outcomes = Vec::with_capacity(batches.len());
        for (nth, (batch, failed)) in batches.iter().zip(failed).enumerate() {
            if let Some(error) = failed {
                outcomes.push(Err(Refusal::Failed(error.clone())));
            } else if written.is_enough(batch) {
                outcomes.push(Err(Refusal::Deferred));
            } else {
                let (ran, bytes) = group.run(batch, (self.encode_row, &self.totals));
                written.add(batch, bytes);
                match ran {
                    Ok(applied) => outcomes.push(Ok(applied)),
                    Err(Halt::Refused(refusal)) => outcomes.push(Err(refusal)),
                    Err(Halt::Failed(error)) => return Ok(GroupRound::Ended(nth, error)),
                }
            }
        }
        let OpenGroup { set, state, .. } = group;
        let mut left = Vec::new();
        for table in set.take_unsent()? {
            left.extend(calls_of(&table)?);
        }
        left.extend(records.borrow_mut().take_all());
        Ok(GroupRound::Ran(AppliedGroup {
            outcomes,
            state,
            left,
        }))
    }

    /// Sends what is left of a group, and its commit.
    pub(crate) fn commit(&mut self, group: AppliedGroup) -> GroupEnd {
        let AppliedGroup {
            outcomes,
            mut state,
            mut left,
        } = group;
        left.extend(growth(&state.growth));
        left.push(stamp(&state));
        match self.session.commit(left) {
            BurstEnd::Done => {
                let is_same = Arc::ptr_eq(&state.catalogue, &self.committed.catalogue);
                let catalogue = Arc::clone(&state.catalogue);
                let moved = (!is_same).then_some(&*catalogue);
                self.totals.take_in(&mut state.growth, moved);
                self.committed = state;
                GroupEnd::Done(outcomes)
            }
            BurstEnd::Nothing(error) => {
                // It has ended already where a statement of it failed.
                let _ = self.session.rollback();
                GroupEnd::Nothing(error)
            }
            BurstEnd::Unknown(error) => GroupEnd::Unknown(error),
        }
    }
}

/// A group while its batches run.
struct OpenGroup<'g> {
    set: WorkingSet<PostgresRows<'g>>,
    records: &'g RefCell<UnsentRecords>,
    state: State,
    /// Of the next batch that changes something.
    mark: Mark,
}

impl OpenGroup<'_> {
    /// Runs one batch whole or not at all; and how many bytes of rows it wrote.
    fn run(
        &mut self,
        batch: &WriteBatch,
        parts: (EncodeRow, &Totals),
    ) -> (Result<Applied, Halt>, usize) {
        let needs_catalogue = batch.ops.iter().any(Op::needs_catalogue);
        if needs_catalogue && batch.catalogue_epoch != self.state.catalogue.epoch {
            return (Err(Refusal::CatalogueMoved.into()), 0);
        }
        self.set.begin();
        self.records.borrow_mut().begin();
        let manner = RunManner {
            blames: batch.noted_in.is_some(),
            judges_end: true,
        };
        let state = self.state.clone();
        let mut run = Run::new(self.set.clone(), parts, state, self.mark, manner);
        run.touched = Touched::new(batch.ops.len(), batch.meets_rows_again());
        run.unchanged_since = batch.unchanged_since;
        let (ran, bytes) = run.run(batch);
        (self.settle(ran), bytes)
    }

    fn settle(&mut self, ran: Result<(Applied, State), Halt>) -> Result<Applied, Halt> {
        match ran {
            Ok((applied, _)) if applied.mark.is_none() && !applied.keeps => {
                // What it wrote, if anything, it took back itself; nothing of that shall stay.
                self.drop_batch()?;
                Ok(applied)
            }
            Ok((applied, state)) => {
                self.set.keep()?;
                self.state = state;
                self.state.growth.settle();
                self.mark = applied.mark.map_or(self.mark, Mark::next);
                Ok(applied)
            }
            Err(Halt::Refused(refusal)) => {
                self.drop_batch()?;
                Err(refusal.into())
            }
            Err(failed) => Err(failed),
        }
    }

    fn drop_batch(&self) -> Result<(), StoreError> {
        self.records.borrow_mut().drop_own();
        self.set.drop_batch()
    }
}
