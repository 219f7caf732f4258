//! What a batch leaves open until its end: values that rows of now lack, and rows that links need.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{RowId, Table, TableNumber, Value};

use crate::row_op::Guard;

/// The rows of now that lack values, by their table and `$sequence`.
#[derive(Default)]
pub(crate) struct ParkedRows(BTreeMap<(TableNumber, i64), Parked>);

/// What a row of now lacks.
pub(crate) struct Parked {
    pub(crate) id: RowId,
    /// The positions of columns, and what the row has in them.
    pub(crate) values: Vec<(usize, Value)>,
}

impl ParkedRows {
    pub(crate) fn is_any_of(&self, table: TableNumber) -> bool {
        let mut of_table = self.0.range((table, i64::MIN)..=(table, i64::MAX));
        of_table.next().is_some()
    }

    /// Gives the values of a row of now those that it lacks.
    pub(crate) fn complete(&self, table: TableNumber, seq: i64, values: &mut [Value]) {
        if let Some(parked) = self.0.get(&(table, seq)) {
            parked.complete(values);
        }
    }

    pub(crate) fn holds(&self, table: TableNumber, seq: i64) -> bool {
        self.0.contains_key(&(table, seq))
    }

    pub(crate) fn park(&mut self, table: TableNumber, seq: i64, parked: Parked) {
        self.0.insert((table, seq), parked);
    }

    /// All of them, which have what they lack from now on.
    pub(crate) fn take(&mut self) -> BTreeMap<(TableNumber, i64), Parked> {
        std::mem::take(&mut self.0)
    }

    /// The row has all its values, or is shown no more.
    pub(crate) fn forget(&mut self, table: TableNumber, seq: i64) {
        self.0.remove(&(table, seq));
    }
}

impl Parked {
    pub(crate) fn complete(&self, values: &mut [Value]) {
        for (position, value) in &self.values {
            values[*position] = value.clone();
        }
    }
}

/// A row that a link leads to and that was not there, or not to be read, when it was made.
pub(crate) struct NeededRow {
    /// The operation that needs it, by its place in the batch.
    pub(crate) nth: usize,
    pub(crate) table: Arc<Table>,
    pub(crate) id: RowId,
    pub(crate) guard: Guard,
    pub(crate) column: String,
    pub(crate) at_any_time: bool,
}
