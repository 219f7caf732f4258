//! How a working set reads rows from the database behind it, and sends what was done to them.

use std::sync::Arc;

use model::{Index, Mark, RowId, Table, Timestamp, Value};

use super::damaged::Damaged;
use super::held_row::HeldRow;
use super::ledger::{RowAmends, SingleRows};
use super::period_search::PeriodSearch;
use super::row_search::RowSearch;
use super::unsent::UnsentTable;
use crate::StoreError;

/// A database that answers for many rows at once.
pub(crate) trait BulkRows: SingleRows + RowAmends + RowSearch + PeriodSearch {
    /// Reads rows of tables, and how these stand.
    ///
    /// # Errors
    /// What the database says; so it is with each call.
    fn read(&self, wanted: &[RowsWanted<'_>]) -> Result<Vec<RowsRead>, StoreError>;

    /// Writes what is left of a group, or of a part of one, in the order of the tables.
    fn send(&self, unsent: &[UnsentTable]) -> Result<(), StoreError>;

    /// Begins what may be taken back.
    fn save(&self) -> Result<(), StoreError>;

    /// Takes back what was sent since, or keeps it.
    fn settle(&self, keeps: bool) -> Result<(), StoreError>;

    /// Rows of now that hold links to these rows in the column at this position, each with the row
    /// that its link leads to: at most so many of one, and at most so many in all.
    fn link_holders_of(
        &self,
        table: &Table,
        column: usize,
        ids: &[&str],
        bounds: (usize, usize),
    ) -> Result<Vec<(String, RowId)>, StoreError>;

    /// Rows of which a piece that begins after the mark holds a link to these rows, each behind the
    /// row that its link leads to: at most so many in all.
    fn holders_to_come_of(
        &self,
        table: &Table,
        column: usize,
        ids: &[&str],
        wanted: (Mark, usize),
    ) -> Result<Vec<(String, RowId)>, StoreError>;

    /// How many bytes values take as they are stored, with what stays as it is sealed.
    fn value_bytes(&self, table: &Table, values: &[Value], left: &Damaged) -> usize;
}

/// What is wanted of a table.
pub(crate) struct RowsWanted<'a> {
    pub(crate) table: &'a Table,
    /// The rows of these ids …
    pub(crate) ids: Vec<&'a str>,
    /// … and the row of now, if there is one, that has these values in a unique index.
    pub(crate) holders: Vec<(&'a Index, Vec<Value>)>,
    /// Grants that ended before this mark need not be held, whatever else is.
    pub(crate) since: Mark,
    /// Whether it is asked when each row was changed last.
    pub(crate) asks_changes: bool,
}

/// What was found of a table.
pub(crate) struct RowsRead {
    pub(crate) counts: TableCounts,
    /// Each row of the ids, also where nothing is kept of it, and each holder.
    pub(crate) rows: Vec<(Box<str>, HeldRow)>,
}

/// How a table stands.
#[derive(Clone, Default)]
pub(crate) struct TableCounts {
    /// The highest `$sequence` of a row of now, or of a version without a twin.
    pub(crate) highest_seq: i64,
    /// The highest number that was given to a version …
    pub(crate) highest_version: i64,
    /// … and to a grant.
    pub(crate) highest_grant: i64,
    /// The row that begins or ends by itself first, and when.
    pub(crate) first_due: Option<(Timestamp, RowId)>,
}

/// A table as a working set keeps it.
pub(crate) fn kept(table: &Table) -> Arc<Table> {
    Arc::new(table.clone())
}
