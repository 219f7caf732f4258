//! Erasure: no change of a belief, but the end of every version at every mark.
//!
//! Open transactions of clients may hold what the row was, or is to be: they fail.

use std::sync::Arc;

use model::{RowId, Table};

use super::halt::Step;
use super::row_write::Target;
use super::run::{RowStore, Run};
use crate::written::TimedDone;

impl<D: RowStore> Run<'_, D> {
    /// Erases a row: versions, grants, schedule, and its place in the records of commits.
    pub(crate) fn erase(&mut self, table: &Arc<Table>, id: &RowId) -> Step<TimedDone> {
        let target = Target::new(table, id);
        self.part_twin(&target)?;
        let seq = self.known_seq(&target)?;
        if let Some(row) = self.current_to_go(&target)? {
            self.withdraw_now(&target, row.seq)?;
            self.touched
                .record(table, id, row.seq, Some(row.image), None);
        }
        let number = table.number;
        let erased = self.rows().erase(table, (id, seq), self.mark)?;
        for (version, bytes) in &erased {
            self.state.growth.removed(number, version.0, *bytes);
        }
        self.timed.forget(number, id);
        self.touched.erase(table, id);
        self.past_changed.add(number);
        self.take_in_boundary(number)?;
        if !erased.is_empty() {
            self.erased_in.add(number);
            self.erased.push((Arc::clone(table), id.clone()));
        }
        Ok(TimedDone {
            is_affected: !erased.is_empty(),
            row: None,
        })
    }
}
