//! Operations on all rows that match: the rows are found first, then changed one by one.

use std::sync::Arc;
use std::time::Instant;

use model::history::Range;
use model::{Coordinates, Row, RowId, Selection};
use query::Query;

use super::halt::{Halt, Step};
use super::row_write::{Current, Target, row};
use super::run::{RowStore, Run};
use crate::StoreError;
use crate::batch::{BATCH_ROWS_MAX, MatchingAct, MatchingOp};
use crate::error::corrupt;
use crate::refusal::Refusal;
use crate::row_op::Guard;
use crate::row_op::{RowAct, RowOp};
use crate::written::Matched;

impl<D: RowStore> Run<'_, D> {
    /// Runs one operation on all rows that match.
    pub(crate) fn matching_op(&mut self, op: &MatchingOp) -> Step<Matched> {
        let began = Instant::now();
        let found = self.find(op)?;
        self.search_left = self.search_left.saturating_sub(began.elapsed());
        self.finds_left -= found.len();
        let mut matched = Matched {
            seen: Some(self.state.mark),
            ..Matched::default()
        };
        if op.tells_end {
            matched.end = Some(self.rows().last_shown(&op.query.table)?);
        }
        if let MatchingAct::Delete { range: None } = op.act {
            let ids: Vec<&str> = found.iter().map(|(_, id)| id.as_str()).collect();
            self.expect_ties(&op.query.table, &ids)?;
        }
        let written_before = self.touched.bytes();
        for (seq, id) in &found {
            let written = self.touched.bytes() - written_before;
            if op.bytes_max.is_some_and(|bytes_max| written >= bytes_max) {
                matched.is_cut = true;
                break;
            }
            matched.count += 1;
            matched.last_seq = matched.last_seq.max(Some(*seq));
            if let Some(row) = self.change(op, id)?
                && matched.rows.len() < op.rows_returned_max
            {
                matched.rows.push(row);
            }
            self.need_room()?;
        }
        Ok(matched)
    }

    /// `$sequence` and id of each row that matches, in the order asked for.
    fn find(&self, op: &MatchingOp) -> Step<Vec<(i64, RowId)>> {
        let wanted_max = (op.query.limit as usize).min(BATCH_ROWS_MAX);
        let found_max = wanted_max.min(self.finds_left);
        let may_leave_rows = op.may_leave_rows && found_max == wanted_max;
        // Some rows of now lack values; their pieces have them.
        let as_pieces = || Coordinates {
            valid: self.mark.timestamp(),
            system: self.mark,
        };
        let lacks_values = self.parked.is_any_of(op.query.table.number);
        let query = Query {
            at: lacks_values.then(as_pieces).or(op.query.at),
            // One more row tells whether that is all.
            limit: found_max as u32 + u32::from(!may_leave_rows),
            selection: Selection::Some {
                columns: Vec::new(),
                fields: Vec::new(),
                permissions: false,
            },
            ..op.query.clone()
        };
        let found = self.rows().matching(&query, op.walks, self.search_left);
        let found = found.map_err(explain)?;
        if found.len() > found_max {
            let is_used_up = found_max < wanted_max;
            let rows_max = if is_used_up {
                BATCH_ROWS_MAX
            } else {
                wanted_max
            };
            return Err(Refusal::TooManyRows { rows_max }.into());
        }
        Ok(found)
    }

    /// What goes is not looked at, nor what is damaged and replaced.
    fn found_to_change(&mut self, target: &Target<'_>, act: &MatchingAct) -> Step<Option<Current>> {
        match act {
            MatchingAct::Delete { range: None } => self.current_to_go(target),
            MatchingAct::Update {
                patch, range: None, ..
            } => {
                let found = self.current_found(target)?;
                found.map(|row| row.mended_by(patch)).transpose()
            }
            MatchingAct::Update { .. }
            | MatchingAct::Resize { .. }
            | MatchingAct::Delete { .. } => self.current(target),
        }
    }

    /// Changes one row, and shows it; `None` if the deletion of one before it took it along, or if
    /// a value of one that goes is damaged.
    fn change(&mut self, op: &MatchingOp, id: &RowId) -> Step<Option<Row>> {
        let target = Target::new(&op.query.table, id);
        let has_ties = op.query.table.relations().next().is_some();
        let found = self.found_to_change(&target, &op.act)?;
        let current = match found {
            Some(current) => current,
            None if has_ties => return Ok(None),
            None => return Err(corrupt(format!("row `{id}` was found and is not there")).into()),
        };
        self.judge_age(&target, &current)?;
        if let Some((range, act)) = over_period(&op.act) {
            let op = RowOp::over(Arc::clone(&op.query.table), id.clone(), range, act);
            let shown = row(id, current.seq, &current.image, None);
            return match self.timed_op(&op) {
                Ok(done) => Ok(Some(done.row.unwrap_or(shown))),
                // A row that matches now need not be there in the period.
                Err(Halt::Refused(Refusal::RowNotFound(_))) => Ok(Some(shown)),
                Err(halt) => Err(halt),
            };
        }
        match &op.act {
            MatchingAct::Update {
                patch,
                permissions,
                stamps,
                ..
            } => self
                .update(&target, current, patch, permissions.as_deref(), *stamps)
                .map(Some),
            MatchingAct::Resize { .. } | MatchingAct::Delete { .. } => {
                // A row that lacks a value is not shown as one that never had it.
                let is_shown = !current.is_damaged();
                let last = is_shown.then(|| row(id, current.seq, &current.image, None));
                if has_ties {
                    self.delete_with_ties(&op.query.table, id)?;
                } else {
                    self.delete(&target, current)?;
                }
                Ok(last)
            }
        }
    }
}

/// The operation on each row that matches, if it is over a valid period.
fn over_period(act: &MatchingAct) -> Option<(Range, RowAct)> {
    let guard = Guard::Open;
    match act {
        MatchingAct::Update { range: None, .. } | MatchingAct::Delete { range: None } => None,
        MatchingAct::Update {
            patch,
            permissions,
            stamps,
            range: Some(range),
        } => {
            let act = RowAct::Update {
                patch: patch.clone(),
                permissions: permissions.clone(),
                stamps: *stamps,
                guard,
            };
            Some((*range, act))
        }
        MatchingAct::Resize { edge, permissions } => {
            let act = RowAct::Resize {
                edge: *edge,
                permissions: permissions.clone(),
                guard,
                deletion_guard: Guard::Open,
            };
            Some((Range::default(), act))
        }
        MatchingAct::Delete { range: Some(range) } => Some((*range, RowAct::Delete { guard })),
    }
}

/// What a search that failed means to its caller.
fn explain(error: StoreError) -> Halt {
    match error {
        StoreError::CursorNotFound { id } => Refusal::CursorNotFound(id).into(),
        StoreError::CursorNull { id } => Refusal::CursorNull(id).into(),
        other => other.into(),
    }
}
