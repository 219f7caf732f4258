//! What the deletion or erasure of a row over a period does to the rows that it is related to:
//! what their relationships say, over that period.

use std::sync::Arc;

use model::{OnDelete, Period, RowId, Table, Value};

use super::halt::{Halt, Step};
use super::links_over_time::over;
use super::related::{linked, need_few, partner};
use super::run::{RowStore, Run};
use crate::batch::LinkOp;
use crate::refusal::Refusal;
use crate::row_op::Guard;
use crate::row_op::{RowAct, RowOp};
use crate::written::TimedDone;

/// What is left to do when a row has gone over a period.
enum Left {
    /// A related row goes as well, over this piece.
    End(Arc<Table>, RowId, Period),
    /// A row loses its link to the row of the operation, over the period.
    Untie(LinkOp, RowId, Period),
}

impl<D: RowStore> Run<'_, D> {
    /// Runs one operation over a valid period. What takes the row away does what the row's
    /// relationships say.
    pub(crate) fn timed_op(&mut self, op: &RowOp) -> Step<TimedDone> {
        let goes = matches!(
            op.act,
            RowAct::Resize { .. } | RowAct::Delete { .. } | RowAct::Erase
        );
        if !goes || op.table.relations().next().is_none() {
            return self.timed_op_alone(op);
        }
        let left = match self.period_of_going(op)? {
            Some(valid) => self.left_by(&op.table, &op.id, valid)?,
            None => Vec::new(),
        };
        let done = self.timed_op_alone(op)?;
        self.do_what_is_left(left)?;
        Ok(done)
    }

    /// What is left to do when the row goes over the period; to be asked while it is there.
    ///
    /// # Errors
    /// [`Refusal::DeleteRestricted`]
    fn left_by(&mut self, table: &Arc<Table>, id: &RowId, valid: Period) -> Step<Vec<Left>> {
        let mut left = Vec::new();
        for (position, relation) in table.relations() {
            let related = self.table_beside(table, relation.related.as_str())?;
            // What lies below its line is not shown.
            let line = related.options.line(self.mark.timestamp());
            let Ok(valid) = Period::new(valid.from().max(line), valid.to()) else {
                continue;
            };
            let deletion = relation.deletion();
            if relation.holds_links() {
                // Its links go with it. Those they lead to go only where either takes the other.
                if deletion == OnDelete::Cascade {
                    for (piece, value) in self.links_within(table, position, id, valid)? {
                        let further = linked(&value)?.into_iter();
                        left.extend(further.map(|to| Left::End(Arc::clone(&related), to, piece)));
                    }
                }
                continue;
            }
            let column = partner(&related, relation.partner)?;
            for holder in self.holders_within(&related, column, id, valid)? {
                match deletion {
                    OnDelete::Restrict => {
                        let (id, related) = (id.clone(), related.id.clone());
                        return Err(Refusal::DeleteRestricted { id, related }.into());
                    }
                    OnDelete::SetNull => {
                        let op = untied(&related, column, id);
                        left.push(Left::Untie(op, holder, valid));
                    }
                    OnDelete::Cascade => {
                        let pieces = self.links_within(&related, column, &holder, valid)?;
                        left.extend(ends(&related, &holder, pieces, id)?);
                    }
                }
            }
        }
        Ok(left)
    }

    /// # Errors
    /// [`Refusal::DeleteRestricted`] where any row holds a link to this one within the period.
    pub(crate) fn need_unlinked(&mut self, table: &Table, id: &RowId, valid: Period) -> Step<()> {
        for (_, relation) in table.relations().filter(|(_, one)| !one.holds_links()) {
            let related = self.table_beside(table, relation.related.as_str())?;
            // What lies below its line is not shown.
            let line = related.options.line(self.mark.timestamp());
            let Ok(valid) = Period::new(valid.from().max(line), valid.to()) else {
                continue;
            };
            let column = partner(&related, relation.partner)?;
            if !self.holders_within(&related, column, id, valid)?.is_empty() {
                let (id, related) = (id.clone(), related.id.clone());
                return Err(Refusal::DeleteRestricted { id, related }.into());
            }
        }
        Ok(())
    }

    /// Does what is left, and what that leaves. It is kept in a list, not on the stack: a chain of
    /// rows may be as long as a commit may be.
    fn do_what_is_left(&mut self, mut left: Vec<Left>) -> Step<()> {
        while let Some(next) = left.pop() {
            match next {
                Left::Untie(op, holder, valid) => {
                    self.showing_no_row(|run| run.relink_over(&op, &holder, valid, false))?;
                }
                Left::End(table, id, valid) => {
                    let further = self.left_by(&table, &id, valid)?;
                    let guard = Guard::Open;
                    let op = over(&table, &id, valid, RowAct::Delete { guard });
                    match self.timed_op_alone(&op) {
                        Ok(_) => left.extend(further),
                        // It has gone on another way, and what it left with it.
                        Err(Halt::Refused(Refusal::RowNotFound(_))) => {}
                        Err(halt) => return Err(halt),
                    }
                }
            }
            need_few(self.timed.rows().len() + left.len())?;
        }
        Ok(())
    }
}

/// The pieces of a row that hold a link to the row `id`, as they go with it.
fn ends(
    table: &Arc<Table>,
    holder: &RowId,
    pieces: Vec<(Period, Value)>,
    id: &RowId,
) -> Step<Vec<Left>> {
    let mut ends = Vec::new();
    for (piece, value) in pieces {
        if linked(&value)?.contains(id) {
            ends.push(Left::End(Arc::clone(table), holder.clone(), piece));
        }
    }
    Ok(ends)
}

fn untied(table: &Arc<Table>, column: usize, target: &RowId) -> LinkOp {
    LinkOp {
        table: Arc::clone(table),
        column,
        target: target.clone(),
        holders: Vec::new(),
        guard: Guard::Open,
        range: None,
    }
}
