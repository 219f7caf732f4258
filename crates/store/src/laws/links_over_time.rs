//! Links over valid periods: given, taken, and judged.
//!
//! A link is a value of a piece, and holds while the piece does. That the row it leads to is there
//! throughout is judged at the end of the batch, where anything of either table is known to come
//! or to end; of rows that are there until further notice it is so by the rules of now.

use std::sync::Arc;

use model::history::Range;
use model::{Edit, Patch, Period, Relation, RelationKind, RowId, Table, Timestamp, Value};

use super::halt::Step;
use super::ledger::known_within;
use super::related::{Tie, linked, need_few, relinked};
use super::row_search::LinkHolders;
use super::row_write::Target;
use super::run::{RowStore, Run};
use super::version_write::VERSIONS_TO_NEXT;
use super::versions::{Stored, VersionsWanted};
use crate::batch::{BATCH_ROWS_MAX, LinkOp};
use crate::error::corrupt;
use crate::refusal::Refusal;
use crate::row_op::{Guard, Stamps};
use crate::row_op::{RowAct, RowOp};

impl<D: RowStore> Run<'_, D> {
    /// As `link`, over a period.
    pub(crate) fn link_over(&mut self, op: &LinkOp, range: Range) -> Step<()> {
        let valid = self.period_of(op, range)?;
        let held = self.holders_within(&op.table, op.column, &op.target, valid)?;
        need_few(held.len() + op.holders.len())?;
        for id in held.iter().filter(|id| !op.holders.contains(id)) {
            self.relink_over(op, id, valid, false)?;
        }
        for id in &op.holders {
            self.relink_over(op, id, valid, true)?;
        }
        Ok(())
    }

    /// The period of a write that names the range; its row has been written.
    fn period_of(&mut self, op: &LinkOp, range: Range) -> Step<Period> {
        let column = &op.table.columns[op.column];
        let relation = column.relation();
        let relation = relation.ok_or_else(|| corrupt("links are in a column of another kind"))?;
        let table = self.table_beside(&op.table, relation.related.as_str())?;
        let (id, within) = (
            op.target.as_str(),
            (range.from_at(self.mark), Timestamp::END),
        );
        let known = VersionsWanted::Known {
            low: within.0,
            high: within.1,
            count_max: VERSIONS_TO_NEXT,
        };
        let known = self.rows().versions(&table, id, known)?;
        let pieces = known.iter().filter_map(Stored::piece_now);
        let next = |from| {
            let boundaries = pieces.filter_map(|piece| piece.valid.boundary_after(from));
            boundaries.min()
        };
        let resolved = range.resolve(self.mark, next);
        Ok(resolved.map_err(|refusal| Refusal::of_write(refusal, &op.target))?)
    }

    /// Gives each piece of the row `id` in the period a link to the target of `op`, or takes it
    /// away.
    pub(crate) fn relink_over(
        &mut self,
        op: &LinkOp,
        id: &RowId,
        valid: Period,
        gives: bool,
    ) -> Step<()> {
        let column = &op.table.columns[op.column];
        let exclusive = |relation: &Relation| relation.kind == RelationKind::OneToOne;
        let is_exclusive = column.relation().is_some_and(exclusive);
        let (mut changes, mut is_met) = (Vec::new(), false);
        for (piece, value) in self.links_within(&op.table, op.column, id, valid)? {
            is_met = true;
            let holds = linked(&value)?.contains(&op.target);
            if holds == gives {
                continue;
            }
            if gives && is_exclusive && value != Value::Null {
                return Err(Refusal::unique(column.key.as_str(), None).into());
            }
            changes.push((piece, relinked(column, &value, &op.target, gives)?));
        }
        if gives && !is_met {
            return Err(self.link_missing(&op.table, op.column, id).into());
        }
        for (piece, value) in changes {
            let mut patch = Patch::default();
            patch.put(op.column, Edit::Set(value));
            let act = RowAct::Update {
                patch,
                permissions: None,
                stamps: Stamps::default(),
                guard: op.guard.clone(),
            };
            self.timed_op_alone(&over(&op.table, id, piece, act))?;
        }
        self.catch_up()
    }

    /// Ends what is yet to begin and holds a link to the row `id`, which is gone.
    pub(crate) fn end_to_come(&mut self, tie: &Tie, id: &RowId) -> Step<()> {
        let now = self.mark.timestamp();
        let from_now_on = Period::new(now, None).map_err(Refusal::Invalid)?;
        for holder in &tie.to_come {
            let pieces = self.links_within(&tie.related, tie.partner, holder, from_now_on)?;
            for (piece, value) in pieces {
                // What is there now goes whole, and takes its own ties along.
                if !piece.contains(now) && linked(&value)?.contains(id) {
                    let guard = Guard::Open;
                    let act = RowAct::Delete { guard };
                    self.timed_op_alone(&over(&tie.related, holder, piece, act))?;
                }
            }
        }
        self.catch_up()
    }

    /// What a row holds in a column of links, piece by piece within the period.
    pub(crate) fn links_within(
        &mut self,
        table: &Table,
        column: usize,
        id: &RowId,
        valid: Period,
    ) -> Step<Vec<(Period, Value)>> {
        let target = Target::new(table, id);
        self.part_twin(&target)?;
        let within = (valid.from(), valid.end());
        let known = known_within(self.rows(), table, id.as_str(), within)?;
        let pieces = known.iter().filter_map(Stored::piece_now);
        let shared = pieces.filter_map(|piece| {
            let shared = piece.valid.intersect(&valid)?;
            Some((shared, piece.value.values[column].clone()))
        });
        Ok(shared.collect())
    }

    /// Whether rows of the table begin or end at an instant to come.
    pub(crate) fn may_change_by_itself(&self, table: &Table) -> bool {
        self.state.boundaries.contains_key(&table.number)
    }

    /// The rows of which a piece that is yet to begin holds a link to `id` in this column.
    pub(crate) fn holders_to_come(
        &self,
        table: &Table,
        column: usize,
        id: &RowId,
    ) -> Step<Vec<RowId>> {
        if !self.may_change_by_itself(table) {
            return Ok(Vec::new());
        }
        let to_come = LinkHolders::ToCome {
            after: self.mark,
            count_max: BATCH_ROWS_MAX + 1,
        };
        let rows = self.rows();
        Ok(rows.link_holders(table, column, id.as_str(), to_come)?)
    }

    /// The rows of which a piece within the period, as known now, holds a link to `id`.
    pub(crate) fn holders_within(
        &self,
        table: &Table,
        column: usize,
        id: &RowId,
        valid: Period,
    ) -> Step<Vec<RowId>> {
        let within = LinkHolders::Within {
            valid,
            count_max: BATCH_ROWS_MAX + 1,
            time_max: self.search_left,
        };
        let rows = self.rows();
        Ok(rows.link_holders(table, column, id.as_str(), within)?)
    }

    /// Judges the links that the batch wrote into pieces of a row.
    ///
    /// # Errors
    /// [`Refusal::ReferenceOverTime`] for one that leads to a row that is not there throughout.
    pub(crate) fn check_links(&self, table: &Table, pieces: &[Stored]) -> Step<()> {
        for (position, relation) in table.relations().filter(|(_, r)| r.holds_links()) {
            let related = self.table_beside(table, relation.related.as_str())?;
            for piece in pieces {
                let targets = linked(&piece.value.values[position])?.into_iter();
                let targets = targets.map(|target| (target.to_string(), piece.valid));
                let targets: Vec<(String, Period)> = targets.collect();
                self.need_covered(&related, &targets, (table, position))?;
            }
        }
        Ok(())
    }

    /// Whether links of this table may lead to rows that come or go by themselves.
    pub(crate) fn watches_links(&self, table: &Table) -> bool {
        let changes = |(_, relation): (usize, &Relation)| {
            let related = self.table_beside(table, relation.related.as_str());
            relation.holds_links() && related.is_ok_and(|to| self.may_change_by_itself(&to))
        };
        table.relations().any(changes)
    }
}

pub(crate) fn over(table: &Arc<Table>, id: &RowId, valid: Period, act: RowAct) -> RowOp {
    RowOp::over(Arc::clone(table), id.clone(), valid.into(), act)
}
