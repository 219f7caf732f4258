//! The tables of rows, which each database makes in its own way, for the laws of containers. What
//! stands beside them has one text for all ([`super::stored_tables`]).

use model::{Column, ColumnNumber, Index, Table, TableNumber};
use query::Dialect;

use crate::StoreError;

/// A database that makes them.
pub(crate) trait TableLayout {
    /// In which it takes statements.
    const DIALECT: Dialect;

    /// Whether an index of words over any number of rows is begun by the batch that adds it, which
    /// takes in the first of them.
    const BEGINS_WORDS: bool;

    /// Changes the tables of rows.
    ///
    /// # Errors
    /// What the database says; so it is with each call.
    fn reshape(&self, change: TablesChange<'_>) -> Result<(), StoreError>;

    /// Builds an index, or a part of one. Equal values are found over the rows of now; then
    /// nothing of it stays, but what an earlier part has built.
    fn build_index(
        &self,
        table: &Table,
        index: &Index,
        pace: IndexPace,
    ) -> Result<IndexBuilt, StoreError>;

    /// Runs a search that may have to sort a whole table.
    fn sorting<T>(&self, search: impl FnOnce() -> T) -> Result<T, StoreError>;

    /// Sees to it that values can be sealed: by the key of this name.
    fn sealing_key(&self) -> Result<String, StoreError>;
}

/// A change of the tables of rows.
#[derive(Clone, Copy)]
pub(crate) enum TablesChange<'a> {
    /// A table comes, with the indexes that it has.
    Make(&'a Table),
    /// A table goes with its rows: they may be removed later, in slices.
    Drop(TableNumber),
    /// Room for one more column, which is null in each row.
    AddColumn(TableNumber, &'a Column),
    /// What finds the rows by the link in the column at this position, which no row has yet. It
    /// stands in for an index that is not built.
    AddLinks(&'a Table, usize),
    /// That goes, if it stands.
    DropLinks(TableNumber, ColumnNumber),
    /// The index behind a constraint over valid time comes, over the columns at these positions …
    AddConstraint(&'a Table, &'a [usize], i64),
    /// … or goes; each is told by its place among those of the table.
    DropConstraint(TableNumber, i64),
    /// An index goes, if it stands or is begun.
    DropIndex(TableNumber, &'a Index),
}

/// How an index is built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexPace {
    /// Over few rows: in this batch, as far as it goes.
    AtOnce,
    /// Over any number of rows, as far as this batch may take.
    InParts,
}

/// What the building of an index came to.
pub(crate) enum IndexBuilt {
    /// It is there.
    Whole,
    /// A further part is to be built by another batch.
    Part,
    /// It is unique, and rows of now have equal values.
    NotUnique,
}
