//! The one writer of a store in a schema: groups of batches, and how their commits end.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use model::{Catalogue, Mark, TableNumber, Timestamp};
use query::names;

use super::bulk_send::calls_of;
use super::group_requests::GroupRequests;
use super::group_stamp::GroupStamp;
use super::group_tally::GroupEffort;
use super::records::{UnsentRecords, growth, stamp};
use super::rows::{ByteTexts, PostgresRows};
use super::session::{BurstEnd, SqlCall, WriterSession};
use crate::batch::{Applied, Changes, Op, Outcome, WriteBatch};
use crate::laws::due::DueRows;
use crate::laws::group_bytes::GroupBytes;
use crate::laws::growth::Totals;
use crate::laws::halt::{Halt, Step};
use crate::laws::named::named;
use crate::laws::run::{Run, RunManner};
use crate::laws::settled::{BatchEnd, SettledGroup, run_settled};
use crate::laws::state::State;
use crate::laws::touched::Touched;
use crate::laws::trying::{TriedGroup, try_all};
use crate::laws::working_set::WorkingSet;
use crate::postgres::cells::SqlParameter;
use crate::postgres::primary::Primary;
use crate::refusal::Refusal;
use crate::vault::StoreKeys;
use crate::{Boundaries, DUE_ROWS_MAX, EncodeRow, StoreError, Trial};

/// The connection that writes, and what it knows.
pub(crate) struct DatabaseWriter {
    session: WriterSession,
    /// Where the store stood when it was taken.
    primary: Primary,
    /// The group that was committed last.
    group: GroupStamp,
    encode_row: EncodeRow,
    keys: StoreKeys,
    /// As of the latest commit.
    committed: State,
    totals: Totals,
    bytes: RefCell<ByteTexts>,
}

/// A group that ran in memory: nothing of it was sent that cannot be taken back.
pub(crate) struct AppliedGroup {
    pub(crate) outcomes: Vec<Outcome>,
    /// What became due before, or between, the batches.
    pub(crate) due: Vec<Changes>,
    state: State,
    /// The last instant of which rows are shown that became due; `None` of upkeep, which changes
    /// nothing that is shown.
    shown: Option<Timestamp>,
    left: Vec<SqlCall>,
    effort: GroupEffort,
}

impl AppliedGroup {
    /// What was done between commits, which leaves this.
    pub(super) fn of_upkeep(state: State) -> AppliedGroup {
        AppliedGroup {
            outcomes: Vec::new(),
            due: Vec::new(),
            state,
            shown: None,
            left: Vec::new(),
            effort: GroupEffort::default(),
        }
    }

    /// What it has taken so far.
    pub(super) fn effort(&self) -> GroupEffort {
        self.effort
    }

    /// The next valid-time boundary of each table that has one, once this is committed.
    pub(super) fn boundaries(&self) -> Boundaries {
        Arc::clone(&self.state.boundaries)
    }
}

/// How the commit of a group ended.
#[derive(Debug)]
pub(crate) enum GroupEnd {
    /// It is durable and visible.
    Done(Vec<Outcome>),
    /// Nothing of it is, nor will be: why.
    Nothing(StoreError),
    /// It is there whole or not at all.
    Unknown(UnknownEnd),
}

/// Where a store stood, as far as one of its writers knew.
#[derive(Clone)]
pub(super) struct StoreSeen {
    pub(super) primary: Primary,
    pub(super) group: GroupStamp,
}

/// A commit that is there whole or not at all.
#[derive(Debug)]
pub(crate) struct UnknownEnd {
    /// What came in place of an answer.
    pub(crate) cause: StoreError,
    /// What became of the batches, if it is there.
    pub(crate) outcomes: Vec<Outcome>,
    /// The last group of the store then.
    pub(super) group: GroupStamp,
}

/// What one pass over the batches of a group came to.
enum GroupRound {
    Ran(AppliedGroup),
    /// The transaction has ended over the batch at this place.
    Ended(usize, StoreError),
}

impl DatabaseWriter {
    /// A writer that goes on from this state.
    pub(super) fn new(
        (session, primary, group): (WriterSession, Primary, GroupStamp),
        (encode_row, keys): (EncodeRow, StoreKeys),
        state: State,
        totals: Totals,
    ) -> DatabaseWriter {
        DatabaseWriter {
            session,
            primary,
            group,
            encode_row,
            keys,
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
        let trips_before = self.session.round_trips();
        loop {
            match self.round(batches, first, &failed) {
                Ok(GroupRound::Ran(mut group)) => {
                    group.effort.trips_before = trips_before;
                    return Ok(group);
                }
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

    /// Shows what has become due at the instant, inside a transaction that stays open: at most
    /// [`DUE_ROWS_MAX`] rows.
    ///
    /// # Errors
    /// What the database says; then no transaction is open.
    pub(crate) fn activate_due(&mut self, instant: Timestamp) -> Result<AppliedGroup, StoreError> {
        let activated = self.activated(instant);
        activated.inspect_err(|_| {
            // What was said first tells more.
            let _ = self.session.rollback();
        })
    }

    fn activated(&self, instant: Timestamp) -> Result<AppliedGroup, StoreError> {
        let beside = BesideRows::default();
        let mut group = self.begin(Mark(instant.0), &beside, &[])?;
        if group.state.is_due(instant) {
            let (count_max, only) = (DUE_ROWS_MAX, None);
            group.show_due(instant, DueRows::First { count_max, only })?;
        }
        group.shows(instant);
        group.into_applied(Vec::new())
    }

    /// The rows of the open transaction.
    pub(super) fn rows<'g>(&'g self, beside: &'g BesideRows) -> PostgresRows<'g> {
        PostgresRows {
            session: &self.session,
            records: &beside.records,
            requests: &beside.requests,
            bytes: &self.bytes,
            keys: &self.keys,
        }
    }

    pub(super) fn session(&self) -> &WriterSession {
        &self.session
    }

    pub(super) fn encode_row(&self) -> EncodeRow {
        self.encode_row
    }

    /// A group that begins at the mark, with what its batches name.
    fn begin<'g>(
        &'g self,
        first: Mark,
        beside: &'g BesideRows,
        batches: &[WriteBatch],
    ) -> Result<OpenGroup<'g>, StoreError> {
        let rows = self.rows(beside);
        let reads = GroupRequests::reads(batches);
        self.begin_with(reads);
        let set = WorkingSet::new(rows, first);
        set.read_ahead(named(batches))?;
        let found = self.session.take_opened();
        beside.requests.borrow_mut().take_in(&found)?;
        Ok(OpenGroup {
            set,
            until: None,
            beside,
            parts: (self.encode_row, &self.totals),
            state: self.committed.clone(),
            due: Vec::new(),
            shown: Timestamp(i64::MIN),
            written_bytes: 0,
        })
    }

    /// One pass over the batches that have not failed.
    fn round(
        &self,
        batches: &[WriteBatch],
        first: Mark,
        failed: &[Option<StoreError>],
    ) -> Result<GroupRound, StoreError> {
        let beside = BesideRows::default();
        let mut group = self.begin(first, &beside, batches)?;
        let (mut mark, mut due_left) = (first, DUE_ROWS_MAX);
        let mut written = GroupBytes::default();
        let mut outcomes = Vec::with_capacity(batches.len());
        for (nth, (batch, failed)) in batches.iter().zip(failed).enumerate() {
            if let Some(error) = failed {
                outcomes.push(Err(Refusal::Failed(error.clone())));
                continue;
            }
            if written.is_enough(batch) {
                outcomes.push(Err(Refusal::Deferred));
                continue;
            }
            let before = group.written_bytes;
            // Every operation looks at what is valid at its mark.
            let ran = run_settled(&mut group, batch, mark, &mut due_left);
            written.add(batch, group.written_bytes - before);
            match ran {
                Ok(applied) => {
                    mark = applied.mark.map_or(mark, Mark::next);
                    outcomes.push(Ok(applied));
                }
                Err(BatchEnd::Alone(refusal)) => outcomes.push(Err(refusal)),
                Err(BatchEnd::WithAll(error)) => return Ok(GroupRound::Ended(nth, error)),
            }
        }
        Ok(GroupRound::Ran(group.into_applied(outcomes)?))
    }

    /// Runs batches to look at what would be, inside a transaction that stays open: what became of
    /// them, and the catalogue that they leave.
    ///
    /// # Errors
    /// [`StoreError::Interrupted`] when the time is over; what the database says. A transaction may
    /// be open then.
    pub(super) fn try_batches(
        &self,
        trials: &[Trial],
        first: Mark,
        until: Instant,
    ) -> Result<(Vec<Outcome>, Arc<Catalogue>), StoreError> {
        let beside = BesideRows::default();
        let batches = trials.iter().flat_map(|trial| trial.batches.clone());
        let batches: Vec<WriteBatch> = batches.collect();
        let mut group = self.begin(first, &beside, &batches)?;
        group.until = Some(until);
        group.need_time()?;
        self.session.limit_statements(until)?;
        let outcomes = try_all(&mut group, trials, first)?;
        let mut left = Vec::new();
        for table in group.set.take_unsent()? {
            left.extend(calls_of(&table, &self.keys.values)?);
        }
        self.session.burst(&left)?;
        Ok((outcomes, group.state.catalogue))
    }

    /// Sends what is left of a group, and its commit.
    pub(crate) fn commit(&mut self, group: AppliedGroup) -> GroupEnd {
        let AppliedGroup {
            outcomes,
            mut state,
            shown,
            mut left,
            ..
        } = group;
        left.extend(growth(&state.growth));
        let mut group = self.group.clone();
        if let Some(shown) = shown {
            group = group.followed_by(self.session.group_name());
            left.push(stamp(&state, shown, &group));
        }
        match self.session.commit(left) {
            BurstEnd::Done => {
                self.group = group;
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
                GroupEnd::Nothing(by_key(error, &state.catalogue))
            }
            BurstEnd::Unknown(cause) => GroupEnd::Unknown(UnknownEnd {
                cause,
                outcomes,
                group,
            }),
        }
    }
}

impl DatabaseWriter {
    /// Ends the transaction of a group that comes to nothing.
    pub(super) fn give_up_group(&mut self) {
        // Where that fails, the next one to begin finds it open, or the session gone.
        let _ = self.session.rollback();
    }

    /// Stores the horizon, durably.
    pub(super) fn store_horizon(&mut self, horizon: Mark) -> Result<(), StoreError> {
        let horizon = horizon.max(self.committed.mark);
        let all: Vec<SqlParameter> = vec![Box::new(horizon.0)];
        let store = SqlCall::new("UPDATE meta SET horizon = $1", all);
        self.in_own_transaction(vec![store])?;
        self.committed.horizon = horizon;
        Ok(())
    }

    /// See [`crate::WriteTurn::rewind`].
    pub(super) fn rewind(&mut self) -> Result<(), StoreError> {
        let all = [
            "DELETE FROM tx",
            "DELETE FROM tx_row",
            "DELETE FROM tx_schema",
            "DELETE FROM erasure",
            "UPDATE meta SET mark = 0, x_at = 0, horizon = 0",
        ];
        self.in_own_transaction(all.map(SqlCall::plain).into())?;
        self.committed.mark = Mark::ZERO;
        self.committed.horizon = Mark::ZERO;
        self.committed.number = 0;
        Ok(())
    }

    /// Begins a transaction that takes no mark.
    pub(super) fn begin_alone(&self) -> Result<(), StoreError> {
        self.begin_with(Vec::new());
        self.session.burst(&[]).map(drop)
    }

    /// The next burst begins a transaction behind the latest commit.
    fn begin_with(&self, calls: Vec<SqlCall>) {
        let group = self.group.clone();
        self.session.begin_after(group, self.committed.mark, calls);
    }

    /// Runs statements in a transaction that takes no mark. Done twice, they do the same.
    fn in_own_transaction(&mut self, calls: Vec<SqlCall>) -> Result<(), StoreError> {
        let begun = self.begin_alone();
        let ended = begun.map(|()| self.session.commit(calls));
        match ended {
            Ok(BurstEnd::Done) => Ok(()),
            Ok(BurstEnd::Unknown(error)) => {
                self.session.give_up(&error);
                Err(error)
            }
            Ok(BurstEnd::Nothing(error)) | Err(error) => {
                self.give_up_group();
                Err(error)
            }
        }
    }

    /// The group that was committed last.
    pub(super) fn group(&self) -> &GroupStamp {
        &self.group
    }

    /// Whether its session takes no more.
    pub(super) fn has_ended(&self) -> bool {
        self.session.has_ended()
    }

    /// Which tables others used since this was asked, so that a change of them was put aside.
    pub(super) fn take_busy_tables(&self) -> BTreeSet<TableNumber> {
        self.session.take_busy_tables()
    }

    /// Why its session was given up, if it was.
    pub(super) fn given_up(&self) -> Option<StoreError> {
        self.session.given_up()
    }

    /// Where the store stood when it was taken.
    pub(in crate::postgres) fn primary(&self) -> &Primary {
        &self.primary
    }

    /// Where the store stands, as far as it knows.
    pub(super) fn last_seen(&self) -> StoreSeen {
        let primary = Primary {
            mark: self.committed.mark,
            ..self.primary.clone()
        };
        StoreSeen {
            primary,
            group: self.group.clone(),
        }
    }

    /// Lets another process own the store. Unlike a drop, it waits until the server knows.
    pub(super) fn give_up_store(self) {
        self.session.end();
    }
}

/// An error that names an index as the database does, by the index's key.
fn by_key(error: StoreError, catalogue: &Catalogue) -> StoreError {
    let StoreError::NotUnique { index } = error else {
        return error;
    };
    let key = names::parse_index(&index).and_then(|(table, number)| {
        let mut indexes = catalogue.table_by_number(table)?.indexes.iter();
        let found = indexes.find(|one| one.number == number)?;
        Some(found.key.to_string())
    });
    let index = key.unwrap_or(index);
    StoreError::NotUnique { index }
}

/// What a group writes beside rows, until it is sent.
#[derive(Default)]
pub(super) struct BesideRows {
    records: RefCell<UnsentRecords>,
    requests: RefCell<GroupRequests>,
}

/// A group while its batches run.
struct OpenGroup<'g> {
    set: WorkingSet<PostgresRows<'g>>,
    /// When its time is over, if it has little.
    until: Option<Instant>,
    beside: &'g BesideRows,
    parts: (EncodeRow, &'g Totals),
    state: State,
    due: Vec<Changes>,
    shown: Timestamp,
    /// Of the images of all rows, also of those that were taken back.
    written_bytes: usize,
}

impl SettledGroup for OpenGroup<'_> {
    fn state(&self) -> &State {
        &self.state
    }

    fn run(&mut self, batch: &WriteBatch, mark: Mark) -> Result<Applied, BatchEnd> {
        let manner = RunManner {
            blames: batch.noted_in.is_some(),
            judges_end: true,
        };
        self.run_so(batch, mark, manner)
    }

    fn show_due(&mut self, instant: Timestamp, which: DueRows<'_>) -> Result<usize, StoreError> {
        let manner = RunManner {
            blames: false,
            judges_end: true,
        };
        let mut run = self.fresh_run(Mark(instant.0), manner);
        let count = run.show_due(instant, which)?;
        let (state, touched) = (run.state, run.touched);
        self.set.keep()?;
        self.go_on_from(state);
        if touched.len() > 0 {
            self.due.push(touched.into_changes());
        }
        if count > 0 {
            // Whether or not a batch takes the mark of this instant.
            self.shows(instant);
        }
        Ok(count)
    }
}

impl TriedGroup for OpenGroup<'_> {
    fn need_time(&self) -> Result<(), StoreError> {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return Err(StoreError::Interrupted);
        }
        Ok(())
    }

    fn show_all_due(&mut self, instant: Timestamp) -> Result<(), StoreError> {
        let all = DueRows::First {
            count_max: DUE_ROWS_MAX,
            only: None,
        };
        while self.state.is_due(instant) {
            self.need_time()?;
            self.show_due(instant, all)?;
        }
        Ok(())
    }

    fn run_so(
        &mut self,
        batch: &WriteBatch,
        mark: Mark,
        manner: RunManner,
    ) -> Result<Applied, BatchEnd> {
        let needs_catalogue = batch.ops.iter().any(Op::needs_catalogue);
        if needs_catalogue && batch.catalogue_epoch != self.state.catalogue.epoch {
            return Err(BatchEnd::Alone(Refusal::CatalogueMoved));
        }
        let mut run = self.fresh_run(mark, manner);
        run.touched = Touched::new(batch.ops.len(), batch.meets_rows_again());
        run.unchanged_since = batch.unchanged_since;
        let (ran, bytes) = run.run(batch);
        self.written_bytes += bytes;
        self.settle(ran).map_err(|halt| match halt {
            Halt::Refused(refusal) => BatchEnd::Alone(refusal),
            Halt::Failed(error) => BatchEnd::WithAll(error),
        })
    }
}

impl<'g> OpenGroup<'g> {
    /// A run that has done nothing yet, of which all can be taken back.
    fn fresh_run(&self, mark: Mark, manner: RunManner) -> Run<'g, WorkingSet<PostgresRows<'g>>> {
        self.set.begin();
        self.beside.records.borrow_mut().begin();
        self.beside.requests.borrow_mut().begin();
        let state = self.state.clone();
        let mut run = Run::new(self.set.clone(), self.parts, state, mark, manner);
        if let Some(until) = self.until {
            let left = until.saturating_duration_since(Instant::now());
            run.search_left = run.search_left.min(left);
        }
        run
    }

    fn settle(&mut self, ran: Step<(Applied, State)>) -> Step<Applied> {
        match ran {
            Ok((applied, _)) if applied.mark.is_none() && !applied.keeps => {
                // What it wrote, if anything, it took back itself; nothing of that shall stay.
                self.drop_batch()?;
                Ok(applied)
            }
            Ok((applied, state)) => {
                self.set.keep()?;
                self.go_on_from(state);
                Ok(applied)
            }
            Err(Halt::Refused(refusal)) => {
                self.drop_batch()?;
                Err(refusal.into())
            }
            Err(Halt::Failed(error)) if self.outlives(&error) => {
                self.drop_batch()?;
                let session = self.set.database().session;
                // Others may write before it tries again.
                let refusal = if session.take_tables_busy() {
                    Refusal::TablesBusy
                } else {
                    Refusal::Failed(by_key(error, &self.state.catalogue))
                };
                Err(refusal.into())
            }
            Err(Halt::Failed(error)) => Err(by_key(error, &self.state.catalogue).into()),
        }
    }

    /// Whether the transaction goes on behind this error: a search that took too long, say, has
    /// been taken back. Behind a statement that failed it takes no more; and where the database
    /// holds what no store has written, what was done before need not be whole.
    fn outlives(&self, error: &StoreError) -> bool {
        let is_corrupt = matches!(error, StoreError::Corrupt { .. });
        !is_corrupt && !self.set.database().session.has_failed()
    }

    fn go_on_from(&mut self, state: State) {
        self.state = state;
        self.state.growth.settle();
    }

    fn drop_batch(&self) -> Result<(), StoreError> {
        self.beside.records.borrow_mut().drop_own();
        self.beside.requests.borrow_mut().drop_own();
        self.set.drop_batch()
    }

    /// Takes in of which instant rows are shown.
    fn shows(&mut self, instant: Timestamp) {
        self.shown = self.shown.max(instant);
        self.state.shows(instant);
    }

    fn into_applied(self, outcomes: Vec<Outcome>) -> Result<AppliedGroup, StoreError> {
        let effort = GroupEffort {
            held: self.set.size(),
            ..GroupEffort::default()
        };
        let mut left = Vec::new();
        let vault = &self.set.database().keys.values;
        for table in self.set.take_unsent()? {
            left.extend(calls_of(&table, vault)?);
        }
        left.extend(self.beside.records.borrow_mut().take_all());
        left.extend(self.beside.requests.borrow_mut().take_all());
        Ok(AppliedGroup {
            outcomes,
            due: self.due,
            state: self.state,
            shown: Some(self.shown),
            left,
            effort,
        })
    }
}
