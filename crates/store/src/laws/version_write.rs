//! Operations over a valid period: which versions they end and write, the model says.
//!
//! The row's versions are read, the plan is made, and its steps are done one by one. Where a
//! piece had a twin among the rows of now, the two are parted first: so every version that is not
//! gone stands in the index by which they are found. What is shown now follows at the end of
//! the batch (`present.rs`), because two rows may swap a unique value inside it.

use std::sync::Arc;

use model::history::{
    Act, Ending, Known, NewVersion, Operation, Piece, Plan, Range, Until, VersionNumber,
    WriteRefusal,
};
use model::{HistoryGone, Mark, Patch, Period, Row, Span, Table, Timestamp};

use super::damaged::Damaged;
use super::grants_over_time::grants_of;
use super::halt::{Halt, Step};
use super::ledger::{RowChange, VersionEnding, VersionToAppend, known_within};
use super::resize::{Resized, Resizing};
use super::row_search::MarkOf;
use super::row_write::{Current, Target};
use super::run::{RowStore, Run};
use super::versions::{Asserted, PIECES_MET_MAX, Stored, VersionsWanted};
use crate::batch::BATCH_ROWS_MAX;
use crate::error::corrupt;
use crate::refusal::Refusal;
use crate::row_op::{Guard, RowAct, RowAssertion, RowOp, Stamps};
use crate::written::TimedDone;

/// Versions that a range up to the next boundary looks at: the one before it, the one it begins
/// in, and the next.
pub(crate) const VERSIONS_TO_NEXT: usize = 3;

/// Most versions that one batch ends and writes: of each of as many rows as it may change, one
/// that it ends, what remains of it on both sides, and one that is new.
const STEPS_MAX: usize = 4 * BATCH_ROWS_MAX;

/// A merge as the model calls it.
type Merging<'a> =
    dyn FnMut(Option<&Arc<Asserted>>) -> Result<Option<Arc<Asserted>>, model::ModelError> + 'a;

impl<D: RowStore> Run<'_, D> {
    /// Runs one operation, which has no effect on other rows.
    pub(crate) fn timed_op_alone(&mut self, op: &RowOp) -> Step<TimedDone> {
        if let RowAct::Erase = op.act {
            return self.erase(&op.table, &op.id);
        }
        let target = Target::new(&op.table, &op.id);
        self.need_kept_past(op)?;
        self.part_twin(&target)?;
        if let RowAct::Assert(claim) = &op.act {
            self.assert_claim(&target, claim)?;
            return Ok(TimedDone {
                is_affected: false,
                row: None,
            });
        }
        let (known, resized) = self.known_of(&target, op)?;
        let range = match &resized {
            Some(resized) => resized.period().into(),
            None => op.period(),
        };
        let seq = self.known_seq(&target)?;
        let is_again = self.creates_again(&target, op, seq)?;
        if !is_again {
            self.judge_timed(&target, op, seq, (range, &known))?;
            self.judge_deletion(&target, op, seq, resized.as_ref())?;
        }
        self.need_plain_values(op, &known)?;
        let plan = self.plan(&target, op, &known, resized.as_ref())?;
        let needs_piece = matches!(op.act, RowAct::Update { .. } | RowAct::Delete { .. });
        if needs_piece && !op.is_literal && !self.meets_any(op.period(), &known) {
            return Err(Refusal::RowNotFound(op.id.clone()).into());
        }
        let mut grants = grants_of(&op.act);
        // A row that is met as it is was there before.
        grants.comes_with_row &= !plan.is_empty();
        if plan.is_empty() && grants.new.is_none() {
            return Ok(TimedDone {
                is_affected: false,
                row: self.row_met(&target, seq, op, &known, resized.as_ref())?,
            });
        }
        let seq = match seq {
            Some(seq) => seq,
            None => self.free_seq(&target)?,
        };
        let was_granted = self.has_grants(&target, seq)?;
        if is_again {
            self.end_life(&target, seq)?;
        }
        self.run_plan(&op.table, &target, seq, &plan)?;
        self.regrant(&op.table, &target, seq, &grants, was_granted)?;
        let row = match self.row_written(&target, seq, &plan)? {
            Some(row) => Some(row),
            None => self.row_met(&target, Some(seq), op, &known, resized.as_ref())?,
        };
        Ok(TimedDone {
            is_affected: true,
            row,
        })
    }

    /// Ends what the batch did over valid periods: what is shown follows, and rows that came and
    /// went leave no grants behind.
    pub(crate) fn end_timed(&mut self) -> Step<()> {
        self.catch_up()?;
        let timed = std::mem::take(&mut self.timed);
        for row in timed.rows() {
            let target = Target::new(&row.table, &row.id);
            if row.is_changed() || row.is_only_regranted() {
                self.touched.record_elsewhere(&row.table, &row.id, row.seq);
            } else if row.is_granted {
                self.take_grants_back(&target, row.seq)?;
            }
        }
        self.timed = timed;
        Ok(())
    }

    /// Does an ordinary operation, valid from the mark on, to a row of which more is known than
    /// that it is there until further notice; the row as it became, `None` if it is not there.
    pub(crate) fn detour(&mut self, target: &Target<'_>, act: RowAct) -> Step<Option<Current>> {
        let table = self.state.catalogue.table_by_number(target.table.number);
        let table = table.ok_or(Refusal::CatalogueMoved)?;
        let op = RowOp::over(Arc::clone(table), target.id.clone(), Range::default(), act);
        self.timed_op_alone(&op)?;
        self.catch_up()?;
        self.current_found(target)
    }

    /// Parts a row of now from the piece it is an exact copy of, so that the piece stands in the
    /// indexes of versions.
    pub(crate) fn part_twin(&self, target: &Target<'_>) -> Step<()> {
        let (rows, table, id) = (self.rows(), target.table, target.id.as_str());
        if let Some(shown) = rows.shown(table, id)?.filter(|shown| shown.is_twin) {
            rows.change(table, RowChange::PartRow(id))?;
            rows.change(table, RowChange::PartVersion(shown.number))?;
        }
        Ok(())
    }

    /// # Errors
    /// [`Refusal::HistoryGone`] for what would be forgotten at once, or is forgotten already.
    fn need_kept_past(&self, op: &RowOp) -> Step<()> {
        let kept_from = op.table.options.line(self.mark.timestamp());
        let is_gone = match &op.act {
            RowAct::Assert(RowAssertion::Exists(_, at) | RowAssertion::Equals(_, at)) => {
                at.is_some_and(|at| at < kept_from)
            }
            RowAct::Assert(RowAssertion::UnchangedSince(_)) => false,
            // An end before the beginning is refused by the plan, as a period without an instant.
            _ => {
                let period = op.period();
                let from = period.from_at(self.mark);
                matches!(period.until, Until::At(end) if from < end && end <= kept_from)
            }
        };
        if is_gone {
            return Err(Refusal::HistoryGone(HistoryGone { kept_from }).into());
        }
        Ok(())
    }

    pub(crate) fn known_for(&self, target: &Target<'_>, range: Range) -> Step<Vec<Stored>> {
        let low = range.from_at(self.mark);
        let (rows, table, id) = (self.rows(), target.table, target.id.as_str());
        match range.until {
            Until::Next => {
                let known = VersionsWanted::Known {
                    low,
                    high: Timestamp::END,
                    count_max: VERSIONS_TO_NEXT,
                };
                rows.versions(table, id, known)
            }
            Until::Open => known_within(rows, table, id, (low, Timestamp::END)),
            // An end before the beginning is refused by the plan; nothing lies between.
            Until::At(high) => known_within(rows, table, id, (low, high)),
        }
    }

    /// The `$sequence` of a row of which anything was ever known. The piece of a row of now has
    /// been parted from it.
    pub(crate) fn known_seq(&self, target: &Target<'_>) -> Step<Option<i64>> {
        if let Some(row) = self.timed.find(target.table.number, target.id) {
            return Ok(Some(row.seq));
        }
        Ok(self.rows().known_seq(target.table, target.id.as_str())?)
    }

    /// The next free `$sequence`. Rows that this batch has removed again keep theirs until it ends.
    fn free_seq(&self, target: &Target<'_>) -> Step<i64> {
        let number = target.table.number;
        let identity = self.rows().identity(target.table, target.id.as_str())?;
        let own = self.timed.rows().iter();
        let own = own.filter(|row| row.table.number == number);
        let own = own.map(|row| row.seq).max().unwrap_or(0);
        Ok(identity.highest.max(own) + 1)
    }

    fn judge_timed(
        &self,
        target: &Target<'_>,
        op: &RowOp,
        seq: Option<i64>,
        (range, known): (Range, &[Stored]),
    ) -> Step<()> {
        let guard = match &op.act {
            RowAct::Insert { guard, .. }
            | RowAct::Replace { guard, .. }
            | RowAct::Put { guard, .. }
            | RowAct::Update { guard, .. }
            | RowAct::Resize { guard, .. }
            | RowAct::Delete { guard } => guard,
            RowAct::Erase | RowAct::Assert(_) => return Ok(()),
        };
        let Some(seq) = seq else { return Ok(()) };
        if !self.permits_seq(target, seq, guard)?
            || self.meets_former_life(target, range, (seq, guard), known)?
        {
            return Err(match op.act {
                RowAct::Insert { .. } => Refusal::RowExists(target.id.clone()),
                _ => Refusal::RowForbidden(target.id.clone()),
            }
            .into());
        }
        if let RowAct::Insert { .. } = op.act {
            return Ok(());
        }
        self.need_unmoved(target, seq)?;
        let moved = |since: Timestamp| {
            let mut met = known.iter().filter(|version| version.sys_from < self.mark);
            met.any(|version| version.value.updated > since.cut_to_ms())
        };
        if self.unchanged_since.is_some_and(moved) {
            return Err(Refusal::RowMoved(target.id.clone()).into());
        }
        Ok(())
    }

    /// What is cut off a row must be granted as a deletion, too.
    fn judge_deletion(
        &self,
        target: &Target<'_>,
        op: &RowOp,
        seq: Option<i64>,
        resized: Option<&Resized>,
    ) -> Step<()> {
        let (RowAct::Resize { deletion_guard, .. }, Some(seq)) = (&op.act, seq) else {
            return Ok(());
        };
        let deletes = resized.is_some_and(|it| matches!(it.change, Resizing::Delete(_)));
        if deletes && !self.permits_seq(target, seq, deletion_guard)? {
            return Err(Refusal::RowForbidden(target.id.clone()).into());
        }
        Ok(())
    }

    /// The pieces that the operation meets, and where it moves an end of them.
    fn known_of(&self, target: &Target<'_>, op: &RowOp) -> Step<(Vec<Stored>, Option<Resized>)> {
        let RowAct::Resize { edge, .. } = op.act else {
            return Ok((self.known_for(target, op.period())?, None));
        };
        let known = self.known_to_resize(target, edge)?;
        let resized = self.resized(target, edge, &known)?;
        Ok((known, Some(resized)))
    }

    /// Over which period the row goes; `None` if it does not, or the operation will be refused.
    pub(crate) fn period_of_going(&mut self, op: &RowOp) -> Step<Option<Period>> {
        if let RowAct::Erase = op.act {
            return Ok(Some(Period::ALWAYS));
        }
        let target = Target::new(&op.table, &op.id);
        self.part_twin(&target)?;
        Ok(match self.known_of(&target, op) {
            Ok((known, None)) => self.resolved(op.period(), &known).ok(),
            Ok((_, Some(resized))) => match resized.change {
                Resizing::Delete(period) => Some(period),
                Resizing::None | Resizing::Write(..) => None,
            },
            Err(Halt::Refused(_)) => None,
            Err(halt) => return Err(halt),
        })
    }

    /// Whether the operation creates a row again that was known before: one that is not there, and
    /// will not be, from the mark on.
    fn creates_again(&self, target: &Target<'_>, op: &RowOp, seq: Option<i64>) -> Step<bool> {
        let begins_now = op.period().from_at(self.mark) >= self.mark.timestamp();
        Ok(matches!(op.act, RowAct::Insert { .. })
            && begins_now
            && seq.is_some()
            && self.timed.find(target.table.number, target.id).is_none()
            && self.current_found(target)?.is_none()
            && !self.is_scheduled(target)?)
    }

    /// Whether an operation of a caller that has grants on the row itself would change what was
    /// known before it was last created again: those grants are of its present life.
    fn meets_former_life(
        &self,
        target: &Target<'_>,
        range: Range,
        (seq, guard): (i64, &Guard),
        known: &[Stored],
    ) -> Step<bool> {
        let (Guard::Granted { .. }, Ok(range)) = (guard, self.resolved(range, known)) else {
            return Ok(false);
        };
        let rebirth = MarkOf::Rebirth(seq);
        let Some(reborn) = self.rows().last_mark(target.table, rebirth)? else {
            return Ok(false);
        };
        let pieces = known.iter().filter_map(Stored::piece_now);
        let mut former = pieces.filter(|piece| piece.origin < reborn);
        Ok(former.any(|piece| piece.valid.intersect(&range).is_some()))
    }

    /// What changes a part of a piece needs the rest of it, unless it replaces what is damaged, or
    /// does not show it: the deletion of a row must not wait for the repair of those that hold a
    /// link to it.
    /// Whatever ends pieces, or writes others in their place, needs nothing: what remains of a
    /// piece is copied as it is sealed.
    fn need_plain_values(&self, op: &RowOp, known: &[Stored]) -> Step<()> {
        let (RowAct::Update { patch, .. } | RowAct::Put { patch, .. }, Ok(range)) =
            (&op.act, self.resolved(op.period(), known))
        else {
            return Ok(());
        };
        let pieces = known.iter().filter_map(Stored::piece_now);
        for piece in pieces.filter(|piece| piece.valid.intersect(&range).is_some()) {
            let left = piece.value.damaged.left_by(patch)?;
            if !self.shows_no_row {
                left.need_none()?;
            }
        }
        Ok(())
    }

    fn plan(
        &self,
        target: &Target<'_>,
        op: &RowOp,
        known: &[Stored],
        resized: Option<&Resized>,
    ) -> Step<Plan<Arc<Asserted>>> {
        let created = known.first().map(|version| version.value.created);
        let fresh = |values: &[model::Value], stamps: Stamps, created: Option<Timestamp>| {
            let now = self.mark.timestamp();
            Arc::new(Asserted {
                created: stamps.created.or(created).unwrap_or(now).cut_to_ms(),
                updated: stamps.updated.unwrap_or(now).cut_to_ms(),
                values: values.to_vec(),
                damaged: Damaged::default(),
            })
        };
        let run_over = |act: Act<'_, Arc<Asserted>>, range: Range| {
            let operation = Operation::Write(act, range);
            let known = Known {
                versions: known,
                last_change: None,
            };
            let plan = Plan::new(operation, self.mark, known);
            plan.map_err(|refusal| Halt::Refused(Refusal::of_write(refusal, target.id)))
        };
        let run = |act: Act<'_, Arc<Asserted>>| run_over(act, op.period());
        let plan = match &op.act {
            RowAct::Insert { values, stamps, .. } => {
                run(Act::Insert(fresh(values, *stamps, None)))?
            }
            RowAct::Replace { values, .. } => {
                run(Act::Put(fresh(values, Stamps::default(), created)))?
            }
            RowAct::Delete { .. } => run(Act::Delete)?,
            RowAct::Resize { .. } => match resized.map(|resized| &resized.change) {
                Some(Resizing::Delete(period)) => run_over(Act::Delete, (*period).into())?,
                Some(Resizing::Write(period, value)) => {
                    run_over(Act::Put(Arc::clone(value)), (*period).into())?
                }
                Some(Resizing::None) | None => Plan::default(),
            },
            RowAct::Update { patch, stamps, .. } => {
                let mut merge = self.merge(target, op, patch, *stamps, None);
                run(Act::Update(&mut *merge))?
            }
            RowAct::Put {
                patch,
                insert,
                stamps,
                ..
            } => {
                if let (Err(refusal), false) = (insert, self.covers(op.period(), known)) {
                    return Err(Refusal::clone(refusal).into());
                }
                let gap = insert.as_ref().ok();
                let gap = gap.map(|values| fresh(values, *stamps, created));
                let mut merge = self.merge(target, op, patch, *stamps, gap);
                run(Act::Patch(&mut *merge))?
            }
            RowAct::Erase | RowAct::Assert(_) => unreachable!("they make no plan"),
        };
        if plan.endings.len() + plan.writes.len() > 2 * PIECES_MET_MAX {
            let pieces_max = PIECES_MET_MAX;
            return Err(Refusal::TooManyPieces { pieces_max }.into());
        }
        Ok(plan)
    }

    fn merge<'a>(
        &'a self,
        target: &'a Target<'_>,
        op: &'a RowOp,
        patch: &'a Patch,
        stamps: Stamps,
        gap: Option<Arc<Asserted>>,
    ) -> Box<Merging<'a>> {
        let now = self.mark.timestamp();
        Box::new(move |piece| {
            let Some(piece) = piece else {
                let Some(gap) = &gap else { return Ok(None) };
                let values = patch.operate(target.table, gap.values.clone(), now)?;
                return Ok(Some(Arc::new(Asserted {
                    values,
                    ..Asserted::clone(gap)
                })));
            };
            let values = patch.apply(target.table, &piece.values, now)?;
            let mut damaged = piece.damaged.clone();
            damaged.replace_by(patch);
            let merged = Asserted {
                created: stamps.created.unwrap_or(piece.created).cut_to_ms(),
                updated: stamps.updated.unwrap_or(now).cut_to_ms(),
                values,
                damaged,
            };
            let is_same = merged.values == piece.values
                && merged.damaged == piece.damaged
                && merged.created == piece.created
                && stamps.updated.is_none();
            Ok((op.is_literal || !is_same).then(|| Arc::new(merged)))
        })
    }

    /// Whether pieces known now leave nothing of the range open.
    fn covers(&self, range: Range, known: &[Stored]) -> bool {
        let Ok(range) = self.resolved(range, known) else {
            return true; // The plan says why it is refused.
        };
        let mut pieces: Vec<_> = valid_now(known).collect();
        pieces.sort_by_key(Period::from);
        range.uncovered(&pieces).is_empty()
    }

    fn meets_any(&self, range: Range, known: &[Stored]) -> bool {
        let range = self.resolved(range, known);
        range.is_ok_and(|range| valid_now(known).any(|valid| valid.intersect(&range).is_some()))
    }

    pub(crate) fn resolved(&self, range: Range, known: &[Stored]) -> Result<Period, WriteRefusal> {
        let next = |from| {
            let boundaries = valid_now(known).filter_map(|valid| valid.boundary_after(from));
            boundaries.min()
        };
        range.resolve(self.mark, next)
    }

    fn run_plan(
        &mut self,
        table: &Arc<Table>,
        target: &Target<'_>,
        seq: i64,
        plan: &Plan<Arc<Asserted>>,
    ) -> Step<()> {
        for (version, ending) in &plan.endings {
            self.end_version(target, *version, *ending)?;
        }
        for new in &plan.writes {
            self.write_version(target, seq, new)?;
        }
        let is_removed = |(_, ending): &&(_, Ending)| *ending == Ending::Remove;
        let removed = plan.endings.iter().filter(is_removed).count();
        self.timed.steps += plan.endings.len() + plan.writes.len();
        if self.timed.steps > STEPS_MAX {
            let pieces_max = STEPS_MAX;
            return Err(Refusal::TooManySteps { pieces_max }.into());
        }
        let row = self.timed.row(table, target.id, seq);
        row.is_behind = true;
        row.written = (row.written + plan.writes.len()).saturating_sub(removed);
        row.ended += plan.endings.len() - removed;
        self.timed.is_behind = true;
        Ok(())
    }

    fn end_version(&self, target: &Target<'_>, number: VersionNumber, ending: Ending) -> Step<()> {
        if self.end(target, number, VersionEnding::Planned(ending))? {
            return Ok(());
        }
        let (id, rid) = (target.id, number.0);
        let what = format!("version {rid} of row `{id}` was read and cannot be ended");
        Err(corrupt(what).into())
    }

    fn write_version(
        &self,
        target: &Target<'_>,
        seq: i64,
        new: &NewVersion<Arc<Asserted>>,
    ) -> Step<()> {
        let version = VersionToAppend {
            seq,
            valid: new.valid,
            mark: self.mark,
            origin: new.origin,
            created: new.value.created,
            updated: new.value.updated,
            values: &new.value.values,
            left: &new.value.damaged,
            is_twin: false,
        };
        self.append(target, &version).map(drop)
    }

    /// The first piece that the plan asserts, as the reply shows it.
    fn row_written(
        &self,
        target: &Target<'_>,
        seq: i64,
        plan: &Plan<Arc<Asserted>>,
    ) -> Step<Option<Row>> {
        let asserted = plan.writes.iter().filter(|new| new.origin == self.mark);
        let first = asserted.min_by_key(|new| new.valid.from());
        let row = |new: &NewVersion<Arc<Asserted>>| {
            let known = (self.mark, new.origin);
            self.row_over(target, seq, new.valid, known, &new.value)
        };
        first.map(row).transpose()
    }

    /// The first piece that an operation met and left as it was, as the reply shows it.
    fn row_met(
        &self,
        target: &Target<'_>,
        seq: Option<i64>,
        op: &RowOp,
        known: &[Stored],
        resized: Option<&Resized>,
    ) -> Step<Option<Row>> {
        let shows = !op.is_literal && !matches!(op.act, RowAct::Delete { .. });
        let Some(seq) = seq.filter(|_| shows) else {
            return Ok(None);
        };
        if let Some(Resized { shown, .. }) = resized {
            let row = self.row_over(target, seq, shown.valid, shown.known, &shown.value)?;
            return Ok(Some(row));
        }
        let Ok(range) = self.resolved(op.period(), known) else {
            return Ok(None);
        };
        let pieces = known.iter().filter_map(Stored::piece_now);
        let met = pieces.filter(|piece| piece.valid.intersect(&range).is_some());
        let first = met.min_by_key(|piece| piece.valid.from());
        let row = |piece: Piece<'_, Arc<Asserted>>| {
            let known = (piece.sys_from, piece.origin);
            self.row_over(target, seq, piece.valid, known, piece.value)
        };
        first.map(row).transpose()
    }

    /// A row with where it stands; `known` is since when, and since when with this value.
    fn row_over(
        &self,
        target: &Target<'_>,
        seq: i64,
        valid: Period,
        known: (Mark, Mark),
        asserted: &Asserted,
    ) -> Step<Row> {
        if !self.shows_no_row {
            asserted.damaged.need_none()?;
        }
        let body = self.body(target.table, &asserted.values);
        let content = match body {
            Some(body) => model::Content::Body(body),
            None => model::Content::Values(asserted.values.clone()),
        };
        Ok(Row {
            seq,
            id: target.id.clone(),
            created: asserted.created,
            updated: asserted.updated,
            permissions: self.permissions_of(target.table, seq)?.into(),
            content,
            span: Some(Box::new(Span {
                valid,
                system_from: known.0,
                system_to: None,
                shows_end: false,
                origin: known.1,
                damaged: Vec::new(),
            })),
        })
    }
}

/// What pieces known now are valid over.
fn valid_now(known: &[Stored]) -> impl Iterator<Item = Period> {
    let pieces = known.iter().filter_map(Stored::piece_now);
    pieces.map(|piece| piece.valid)
}
