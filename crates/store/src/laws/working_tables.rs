//! Containers over a working set. They change seldom, and whatever a working set holds of a table
//! is another one's once it has changed: so each change is done at once, behind what can be taken
//! back, and nothing is held any more.

use model::{Index, Table};
use query::Dialect;

use super::bulk_rows::BulkRows;
use super::table_layout::{IndexBuilt, IndexPace, TableLayout, TablesChange};
use super::working_set::WorkingSet;
use crate::StoreError;

impl<B: BulkRows + TableLayout> TableLayout for WorkingSet<B> {
    const DIALECT: Dialect = B::DIALECT;
    const BEGINS_WORDS: bool = B::BEGINS_WORDS;

    fn reshape(&self, change: TablesChange<'_>) -> Result<(), StoreError> {
        self.directly()?.reshape(change)
    }

    fn build_index(
        &self,
        table: &Table,
        index: &Index,
        pace: IndexPace,
    ) -> Result<IndexBuilt, StoreError> {
        self.directly()?.build_index(table, index, pace)
    }

    fn sorting<T>(&self, search: impl FnOnce() -> T) -> Result<T, StoreError> {
        self.beside()?.sorting(search)
    }

    fn sealing_key(&self) -> Result<String, StoreError> {
        self.beside()?.sealing_key()
    }
}
