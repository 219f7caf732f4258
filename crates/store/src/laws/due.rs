//! Rows that are due: which of them are shown at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{RowId, Table, TableNumber, Timestamp};

use super::halt::{Halt, Step};
use super::present::Stale;
use super::row_search::DueWanted;
use super::run::{RowStore, Run};
use super::slices::{SLICE_BYTES_MAX, STEP_ROWS};
use crate::StoreError;
use crate::error::corrupt;

/// Which rows that are due are shown.
#[derive(Clone, Copy)]
pub(crate) enum DueRows<'a> {
    /// Those of these that are.
    Named(&'a BTreeMap<TableNumber, BTreeSet<RowId>>),
    /// At most so many, of `only` these tables if some are named.
    First {
        count_max: usize,
        only: Option<&'a BTreeSet<TableNumber>>,
    },
}

impl<D: RowStore> Run<'_, D> {
    /// Shows rows as they are at the instant, by which they are due; how many.
    ///
    /// # Errors
    /// What the database says; [`StoreError::Corrupt`] when a law is against it.
    pub(crate) fn show_due(
        &mut self,
        instant: Timestamp,
        which: DueRows<'_>,
    ) -> Result<usize, StoreError> {
        let shown = match which {
            DueRows::Named(rows) => self.import_named(rows, instant),
            DueRows::First { count_max, only } => self.import_rows(instant, count_max, only),
        };
        shown.map_err(|halt| match halt {
            Halt::Failed(error) => error,
            // What is due was checked when it was written.
            Halt::Refused(refusal) => corrupt(format!("what is due cannot be shown: {refusal:?}")),
        })
    }

    fn import_named(
        &mut self,
        rows: &BTreeMap<TableNumber, BTreeSet<RowId>>,
        instant: Timestamp,
    ) -> Step<usize> {
        let mut stale = Vec::new();
        for (number, ids) in rows {
            let table = self.state.catalogue.table_by_number(*number).cloned();
            if let Some(table) = table {
                stale.extend(self.due_among(&table, ids, instant)?);
            }
        }
        let count = stale.len();
        self.refresh(stale, instant, None)?;
        Ok(count)
    }

    /// Those of the rows that are due.
    fn due_among(
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
    fn import_rows(
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
