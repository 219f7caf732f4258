//! Rows that are due: which of them are shown at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{RowId, Table, TableNumber, Timestamp};

use super::halt::Step;
use super::present::Stale;
use super::row_search::DueWanted;
use super::run::{RowStore, Run};
use super::slices::{SLICE_BYTES_MAX, STEP_ROWS};

impl<D: RowStore> Run<'_, D> {
    /// Those of the rows that are due.
    pub(crate) fn due_among(
        &self,
        table: &Arc<Table>,
        ids: &BTreeSet<RowId>,
        instant: Timestamp,
    ) -> Step<Vec<Stale>> {
        let mut found = Vec::new();
        for id in ids {
            found.extend(self.due_rows(table, instant, DueWanted::Row(id.as_str()))?);
        }
        Ok(found)
    }

    /// Shows at most `count_max` rows of which a boundary lies at or before `instant`, of `only`
    /// these tables if some are named; how many. The table that waits longest comes first, so
    /// that none waits for ever behind others. Where their number is bounded their bytes are, too:
    /// when those are used up, so is the number.
    pub(crate) fn import_rows(
        &mut self,
        instant: Timestamp,
        count_max: usize,
        only: Option<&BTreeSet<TableNumber>>,
    ) -> Step<usize> {
        let due = self.state.boundaries.iter();
        let due = due
            .filter(|(table, at)| **at <= instant && only.is_none_or(|only| only.contains(table)));
        let mut tables: Vec<(Timestamp, TableNumber)> =
            due.map(|(table, at)| (*at, *table)).collect();
        tables.sort_unstable();
        let mut stale = Vec::new();
        for (_, number) in tables {
            let Some(table) = self.state.catalogue.table_by_number(number).cloned() else {
                Arc::make_mut(&mut self.state.boundaries).remove(&number);
                continue;
            };
            let left = count_max - stale.len();
            stale.extend(self.due_rows(&table, instant, DueWanted::First(left))?);
            if stale.len() == count_max {
                break;
            }
        }
        let (count, mut stale) = (stale.len(), stale.into_iter());
        while stale.len() > 0 {
            let step = stale.by_ref().take(STEP_ROWS).collect();
            self.refresh(step, instant, None)?;
            if count_max < usize::MAX && self.touched.bytes() >= SLICE_BYTES_MAX {
                return Ok(count_max);
            }
        }
        Ok(count)
    }
}
