//! Operations on rows at the other ends of relationships: links given and taken, and what the
//! deletion of a row does to the rows that it has one with.
//!
//! No link leads to a row that is not there: it is asked for inside the transaction when the link
//! is made, and the deletion of a row takes the links to it away.

use std::collections::HashSet;
use std::sync::Arc;

use model::check::ARRAY_ELEMENTS_MAX;
use model::{
    Column, ColumnNumber, Edit, ModelError, OnDelete, Patch, Period, Relation, RelationKind, RowId,
    Table, Value,
};

use super::halt::Step;
use super::row_search::LinkHolders;
use super::row_write::{Current, Target};
use super::run::{RowStore, Run};
use crate::batch::{BATCH_ROWS_MAX, HoldOp, LinkOp, RelatedOp};
use crate::error::corrupt;
use crate::refusal::Refusal;
use crate::row_op::{Guard, RowAct, Stamps};

/// The rows that one row is related to through one of its table's columns.
pub(crate) struct Tie {
    relation: Relation,
    pub(crate) related: Arc<Table>,
    /// The position of the partner in `related`.
    pub(crate) partner: usize,
    ids: Vec<RowId>,
    /// Those that will be: a piece of theirs that is yet to begin holds a link to the row.
    pub(crate) to_come: Vec<RowId>,
}

impl Tie {
    fn is_any(&self) -> bool {
        !self.ids.is_empty() || !self.to_come.is_empty()
    }
}

impl<D: RowStore> Run<'_, D> {
    /// Runs one operation.
    pub(crate) fn related_op(&mut self, op: &RelatedOp) -> Step<()> {
        match op {
            RelatedOp::Need {
                table,
                id,
                guard,
                column,
                at_any_time,
            } => self.need(table, id, guard, column, *at_any_time),
            RelatedOp::Write(op) => match op.range {
                Some(_) => self.timed_op(op).map(drop),
                None => self.row_op(op).map(drop),
            },
            RelatedOp::Alone(op) => self.timed_op_alone(op).map(drop),
            RelatedOp::NeedUnlinked { table, id, valid } => self.need_unlinked(table, id, *valid),
            RelatedOp::Link(op) => self.link(op),
            RelatedOp::Free(op) => self.free(op),
            RelatedOp::Hold(op) => self.hold(op),
        }
    }

    fn hold(&mut self, op: &HoldOp) -> Step<()> {
        let row = self.holder(op)?;
        let column = &op.table.columns[op.column];
        for id in &op.links {
            self.need(&op.related, id, &Guard::Open, column.key.as_str(), false)?;
        }
        need_room(column, op.links.len())?;
        self.set_links(op, row, wanted(op))
    }

    /// A row that must give a link up, so that another can have it, does so first.
    fn free(&mut self, op: &HoldOp) -> Step<()> {
        let row = self.holder(op)?;
        if row.image.values[op.column] == wanted(op) {
            return Ok(());
        }
        self.set_links(op, row, Value::Null)
    }

    fn holder(&mut self, op: &HoldOp) -> Step<Current> {
        let target = Target::new(&op.table, &op.id);
        let row = self.current(&target)?;
        Ok(row.ok_or_else(|| Refusal::RowNotFound(op.id.clone()))?)
    }

    fn set_links(&mut self, op: &HoldOp, row: Current, value: Value) -> Step<()> {
        let mut patch = Patch::default();
        patch.put(op.column, Edit::Set(value));
        let stamps = Stamps {
            updated: Some(row.image.updated),
            ..Stamps::default()
        };
        let target = Target::new(&op.table, &op.id);
        self.update(&target, row, &patch, None, stamps).map(drop)
    }

    /// Takes links away before it gives any: a unique link may move from one row to another.
    /// Encrypted values of holders stay as they are sealed, whether or not they can be opened.
    fn link(&mut self, op: &LinkOp) -> Step<()> {
        self.showing_no_row(|run| run.link_all(op))
    }

    pub(crate) fn showing_no_row(
        &mut self,
        change: impl FnOnce(&mut Self) -> Step<()>,
    ) -> Step<()> {
        let before = std::mem::replace(&mut self.shows_no_row, true);
        let done = change(self);
        self.shows_no_row = before;
        done
    }

    fn link_all(&mut self, op: &LinkOp) -> Step<()> {
        if let Some(range) = op.range {
            return self.link_over(op, range);
        }
        let mut held = self.holders(&op.table, op.column, &op.target, BATCH_ROWS_MAX)?;
        for id in self.holders_to_come(&op.table, op.column, &op.target)? {
            if !held.contains(&id) {
                held.push(id);
            }
        }
        need_few(held.len())?;
        let (had, wanted): (HashSet<&RowId>, HashSet<&RowId>) =
            (held.iter().collect(), op.holders.iter().collect());
        for id in held.iter().filter(|id| !wanted.contains(id)) {
            self.relink(op, id, false)?;
        }
        for id in op.holders.iter().filter(|id| !had.contains(id)) {
            self.relink(op, id, true)?;
        }
        Ok(())
    }

    /// Gives the row `id` a link to the target of `op`, or takes it away.
    fn relink(&mut self, op: &LinkOp, id: &RowId, gives: bool) -> Step<()> {
        let target = Target::new(&op.table, id);
        let column = &op.table.columns[op.column];
        if self.may_change_by_itself(&op.table) && self.is_scheduled(&target)? {
            // Each of the pieces to come has links of its own.
            let from_now_on = Period::new(self.mark.timestamp(), None).map_err(Refusal::Invalid)?;
            return self.relink_over(op, id, from_now_on, gives);
        }
        let row = self.current_found(&target)?;
        let row = row.ok_or_else(|| self.link_missing(&op.table, op.column, id))?;
        if !self.permits(&target, &row, &op.guard)? {
            return Err(Refusal::RowForbidden(id.clone()).into());
        }
        let value = &row.image.values[op.column];
        let is_exclusive = |relation: &Relation| relation.kind == RelationKind::OneToOne;
        if gives && *value != Value::Null && column.relation().is_some_and(is_exclusive) {
            return Err(Refusal::unique(column.key.as_str(), None).into());
        }
        let value = relinked(column, value, &op.target, gives)?;
        let mut patch = Patch::default();
        patch.put(op.column, Edit::Set(value));
        self.update(&target, row, &patch, None, Stamps::default())
            .map(drop)
    }

    /// The rows of now that hold a link to `id` in this column: `few` of them, and one more if
    /// there are more.
    fn holders(&self, table: &Table, column: usize, id: &RowId, few: usize) -> Step<Vec<RowId>> {
        let count_max = few + 1;
        let now = LinkHolders::Now { count_max };
        let rows = self.rows();
        Ok(rows.link_holders(table, column, id.as_str(), now)?)
    }

    /// Deletes a row, and does to its related rows what their relationships say. What follows is
    /// kept in a list, not on the stack: a chain of rows may be as long as a commit may be.
    pub(crate) fn delete_with_ties(&mut self, table: &Arc<Table>, id: &RowId) -> Step<()> {
        let mut waiting = vec![(Arc::clone(table), id.clone())];
        while let Some((table, id)) = waiting.pop() {
            let target = Target::new(&table, &id);
            // It may have gone on another way.
            let row = self.current_to_go(&target)?;
            if row.is_none() && !self.is_scheduled(&target)? {
                continue;
            }
            let ties = self.ties(&table, &id, row.as_ref())?;
            let guard = Guard::Open;
            match row {
                Some(row) => self.delete(&target, row)?,
                None => self.detour(&target, RowAct::Delete { guard }).map(drop)?,
            }
            for tie in ties {
                match tie.relation.deletion() {
                    OnDelete::Restrict if tie.is_any() => {
                        let related = tie.related.id.clone();
                        return Err(Refusal::DeleteRestricted { id, related }.into());
                    }
                    OnDelete::Cascade => {
                        self.end_to_come(&tie, &id)?;
                        let ids: Vec<&str> = tie.ids.iter().map(RowId::as_str).collect();
                        self.expect_ties(&tie.related, &ids)?;
                        let further = tie.ids.into_iter();
                        waiting.extend(further.map(|id| (Arc::clone(&tie.related), id)));
                    }
                    OnDelete::SetNull | OnDelete::Restrict => self.untie(&tie, &id)?,
                }
            }
            need_few(self.touched.len() + waiting.len())?;
        }
        Ok(())
    }

    /// Takes the links to the row `id`, which is gone, from those that hold one.
    fn untie(&mut self, tie: &Tie, id: &RowId) -> Step<()> {
        if tie.relation.holds_links() {
            return Ok(()); // They went with the row.
        }
        let op = LinkOp {
            table: Arc::clone(&tie.related),
            column: tie.partner,
            target: id.clone(),
            holders: Vec::new(),
            guard: Guard::Open,
            range: None,
        };
        self.link(&op)
    }

    /// These rows are about to be deleted one after the other.
    pub(crate) fn expect_ties(&self, table: &Table, ids: &[&str]) -> Step<()> {
        for (_, relation) in table.relations().filter(|(_, one)| !one.holds_links()) {
            let related = self.table_beside(table, relation.related.as_str())?;
            let partner = partner(&related, relation.partner)?;
            let each_max = few_of(relation) + 1;
            let to_come = self.may_change_by_itself(&related).then_some(self.mark);
            let rows = self.rows();
            rows.expect_links(&related, partner, ids, (each_max, to_come))?;
        }
        Ok(())
    }

    fn ties(&self, table: &Table, id: &RowId, row: Option<&Current>) -> Step<Vec<Tie>> {
        let mut ties = Vec::new();
        for (position, relation) in table.relations() {
            let related = self.table_beside(table, relation.related.as_str())?;
            let partner = partner(&related, relation.partner)?;
            let mut to_come = Vec::new();
            let ids = if relation.holds_links() {
                match row {
                    Some(row) => linked(&row.image.values[position])?,
                    None => Vec::new(),
                }
            } else {
                to_come = self.holders_to_come(&related, partner, id)?;
                self.holders(&related, partner, id, few_of(relation))?
            };
            ties.push(Tie {
                relation: relation.clone(),
                related,
                partner,
                ids,
                to_come,
            });
        }
        Ok(ties)
    }
}

/// Of how many related rows a deletion looks: to be protected, one is as good as a million.
fn few_of(relation: &Relation) -> usize {
    match relation.deletion() {
        OnDelete::Restrict => 0,
        OnDelete::Cascade | OnDelete::SetNull => BATCH_ROWS_MAX,
    }
}

pub(crate) fn need_few(rows: usize) -> Result<(), Refusal> {
    let rows_max = BATCH_ROWS_MAX;
    if rows > rows_max {
        return Err(Refusal::TooManyRows { rows_max });
    }
    Ok(())
}

/// The value of a column that holds the links of `op`.
fn wanted(op: &HoldOp) -> Value {
    let mut links = op.links.iter().map(|id| Value::Text(id.to_string()));
    if op.table.columns[op.column].array && !op.links.is_empty() {
        Value::List(links.collect())
    } else {
        links.next().unwrap_or(Value::Null)
    }
}

/// A list of links has a limit, as every list has.
fn need_room(column: &Column, links: usize) -> Result<(), Refusal> {
    if links <= ARRAY_ELEMENTS_MAX {
        return Ok(());
    }
    Err(Refusal::Invalid(ModelError::InvalidValue {
        column: column.key.to_string(),
        why: format!("row holds {ARRAY_ELEMENTS_MAX} links already"),
    }))
}

pub(crate) fn partner(related: &Table, number: ColumnNumber) -> Step<usize> {
    let position = related.numbered(number);
    Ok(position.ok_or_else(|| corrupt("a relationship has one end only"))?)
}

/// The rows that a holder's value leads to.
pub(crate) fn linked(value: &Value) -> Step<Vec<RowId>> {
    let ids: &[Value] = match value {
        Value::Null => &[],
        Value::List(ids) => ids,
        single => std::slice::from_ref(single),
    };
    let id = |value: &Value| match value {
        Value::Text(id) => RowId::new(id).map_err(|error| corrupt(error.to_string())),
        other => Err(corrupt(format!("a link is {other:?}"))),
    };
    Ok(ids.iter().map(id).collect::<Result<_, _>>()?)
}

/// A holder's value with a link to `target`, or without it. An empty list is no value, so that
/// "has none" is the same for one link and for many.
pub(crate) fn relinked(
    column: &Column,
    value: &Value,
    target: &RowId,
    gives: bool,
) -> Result<Value, Refusal> {
    let link = Value::Text(target.to_string());
    if !column.array {
        return Ok(if gives { link } else { Value::Null });
    }
    let mut links = match value {
        Value::List(links) => links.clone(),
        _ => Vec::new(),
    };
    links.retain(|other| *other != link);
    if gives {
        links.push(link);
    }
    need_room(column, links.len())?;
    Ok(if links.is_empty() {
        Value::Null
    } else {
        Value::List(links)
    })
}
