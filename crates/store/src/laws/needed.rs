//! Rows that links lead to, and that come later in the batch: whether they did, is judged at its
//! end.

use std::sync::Arc;

use model::{RowId, Table};

use super::awaited::NeededRow;
use super::halt::{Halt, Step};
use super::row_write::Target;
use super::run::{RowStore, Run};
use crate::refusal::Refusal;
use crate::row_op::Guard;

impl<D: RowStore> Run<'_, D> {
    /// Needs a row to be there at the end of the batch, if it is not there now. The
    /// caller that links to it must be permitted to read it.
    pub(crate) fn need(
        &mut self,
        table: &Arc<Table>,
        id: &RowId,
        guard: &Guard,
        column: &str,
        at_any_time: bool,
    ) -> Step<()> {
        let needed = NeededRow {
            nth: self.nth,
            table: Arc::clone(table),
            id: id.clone(),
            guard: guard.clone(),
            column: column.to_owned(),
            at_any_time,
        };
        if !self.is_met(&needed)? {
            self.needed.push(needed);
        }
        Ok(())
    }

    fn is_met(&mut self, needed: &NeededRow) -> Step<bool> {
        let target = Target::new(&needed.table, &needed.id);
        if needed.at_any_time {
            self.part_twin(&target)?;
            return match self.known_seq(&target)? {
                Some(seq) => self.permits_seq(&target, seq, &needed.guard),
                None => Ok(false),
            };
        }
        match self.current_found(&target)? {
            Some(row) => self.permits(&target, &row, &needed.guard),
            None => Ok(false),
        }
    }

    /// The refusal of a link by a row that is not there, in the column through which it was asked
    /// for.
    pub(crate) fn link_missing(&self, table: &Table, column: usize, id: &RowId) -> Refusal {
        let is_it = |row: &&NeededRow| row.table.number == table.number && row.id == *id;
        let column = match self.needed.iter().find(is_it) {
            Some(needed) => needed.column.clone(),
            None => table.columns[column].key.to_string(),
        };
        let id = id.clone();
        Refusal::LinkMissing { column, id }
    }

    /// Judges those that were not there.
    ///
    /// # Errors
    /// [`Refusal::LinkMissing`], and the operation that needs the row.
    pub(crate) fn check_needed(&mut self) -> Result<(), (usize, Halt)> {
        for needed in std::mem::take(&mut self.needed) {
            let nth = needed.nth;
            if !self.is_met(&needed).map_err(|halt| (nth, halt))? {
                let NeededRow { column, id, .. } = needed;
                return Err((nth, Refusal::LinkMissing { column, id }.into()));
            }
        }
        Ok(())
    }
}
