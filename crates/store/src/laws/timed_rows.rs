//! The rows that a batch has written over valid periods, and what it did to them.

use std::collections::HashMap;
use std::sync::Arc;

use model::{RowId, Table, TableNumber};

/// The rows that a batch has written over valid periods.
#[derive(Default)]
pub(crate) struct Timed {
    rows: Vec<TimedRow>,
    positions: HashMap<(TableNumber, RowId), usize>,
    /// Whether what is shown now may be behind.
    pub(crate) is_behind: bool,
    /// Versions that were ended or written so far.
    pub(crate) steps: usize,
}

/// One row.
pub(crate) struct TimedRow {
    pub(crate) table: Arc<Table>,
    pub(crate) id: RowId,
    pub(crate) seq: i64,
    /// Whether what is shown of it now may be behind.
    pub(crate) is_behind: bool,
    /// Versions that the batch wrote and has not removed since.
    pub(crate) written: usize,
    /// Versions of earlier commits that it ended.
    pub(crate) ended: usize,
    /// Whether it gave the row grants.
    pub(crate) is_granted: bool,
    /// Whether it changed those of a row that is not there now, but was or will be.
    pub(crate) is_regranted: bool,
}

impl TimedRow {
    /// Whether the batch leaves a trace of the row on either axis.
    pub(crate) fn is_changed(&self) -> bool {
        self.written > 0 || self.ended > 0
    }

    /// Whether it leaves other grants, and no other trace that is shown now. Those that it gave a
    /// row which came and went are taken back.
    pub(crate) fn is_only_regranted(&self) -> bool {
        self.is_regranted && !self.is_granted
    }
}

impl Timed {
    pub(crate) fn rows(&self) -> &[TimedRow] {
        &self.rows
    }

    pub(crate) fn rows_mut(&mut self) -> &mut [TimedRow] {
        &mut self.rows
    }

    /// Forgets a row that was erased: nothing that the batch did to it before has a trace.
    pub(crate) fn forget(&mut self, table: TableNumber, id: &RowId) {
        if let Some(position) = self.positions.remove(&(table, id.clone())) {
            let row = &mut self.rows[position];
            (row.written, row.ended) = (0, 0);
            (row.is_behind, row.is_granted, row.is_regranted) = (false, false, false);
        }
    }

    pub(crate) fn find(&self, table: TableNumber, id: &RowId) -> Option<&TimedRow> {
        let position = self.positions.get(&(table, id.clone()))?;
        Some(&self.rows[*position])
    }

    pub(crate) fn row(&mut self, table: &Arc<Table>, id: &RowId, seq: i64) -> &mut TimedRow {
        let next = self.rows.len();
        let key = (table.number, id.clone());
        let position = *self.positions.entry(key).or_insert(next);
        if position == next {
            self.rows.push(TimedRow {
                table: Arc::clone(table),
                id: id.clone(),
                seq,
                is_behind: false,
                written: 0,
                ended: 0,
                is_granted: false,
                is_regranted: false,
            });
        }
        &mut self.rows[position]
    }
}
