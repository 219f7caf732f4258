//! The tables of rows as SQLite has them.

use model::{Index, IndexKind, Table};
use query::{Dialect, names};

use super::stored_rows::SqliteRows;
use crate::StoreError;
use crate::laws::stored_tables::StoredTables as _;
use crate::laws::table_layout::{IndexBuilt, IndexPace, TableLayout, TablesChange};
use crate::laws::tasks::Task;
use crate::sqlite::disk::connection::WRITER_CACHE_KIB;
use crate::sqlite::disk::fault::is_unique_violation;
use crate::sqlite::schema::tables::{
    add_column, create_index, create_table, create_versions_index,
};
use crate::sqlite::schema::{fulltext, links, tables};
use crate::stored::keys_over_time;

/// The page cache while an index is built, in KiB; negative is how the pragma says KiB. Over rows
/// of 1,500 bytes a build took a quarter longer with the writer's own 64 MiB.
const BUILD_CACHE_KIB: i64 = -2 * 1_024;

impl TableLayout for SqliteRows<'_> {
    const DIALECT: Dialect = Dialect::Sqlite;
    const BEGINS_WORDS: bool = true;

    fn reshape(&self, change: TablesChange<'_>) -> Result<(), StoreError> {
        let statements = match change {
            TablesChange::Make(table) => create_table(table),
            TablesChange::Drop(number) => {
                self.texts.forget(number);
                // Dropping a large table at once would hold up every commit.
                return self.change_stored(&Task::Drop.leave(number)).map(drop);
            }
            TablesChange::AddColumn(table, column) => add_column(table, column),
            TablesChange::AddLinks(table, position) => {
                let column = &table.columns[position];
                let relation = column.relation().expect("only relationships have links");
                links::create(table.number, column.number, relation)
            }
            TablesChange::DropLinks(table, column) => links::drop(table, column),
            TablesChange::AddConstraint(table, key, place) => {
                keys_over_time::create_index(table, key, place)
            }
            TablesChange::DropConstraint(table, place) => keys_over_time::drop_index(table, place),
            TablesChange::DropIndex(table, index) => {
                tables::drop_index(table, index.number, index.kind)
            }
        };
        Ok(self.connection.execute_batch(&statements)?)
    }

    fn build_index(
        &self,
        table: &Table,
        index: &Index,
        pace: IndexPace,
    ) -> Result<IndexBuilt, StoreError> {
        match (index.kind, pace) {
            (IndexKind::Fulltext, _) => {
                let is_whole = fulltext::fill(self.connection, table, index)?;
                Ok(if is_whole {
                    IndexBuilt::Whole
                } else {
                    IndexBuilt::Part
                })
            }
            (_, IndexPace::AtOnce) => self.build(table, index),
            (_, IndexPace::InParts) => self.build_with_files(table, index),
        }
    }

    /// In files: a table need not fit in memory.
    fn sorting<T>(&self, search: impl FnOnce() -> T) -> Result<T, StoreError> {
        let keep = |store: &str, kib: i64| {
            let sql = format!("PRAGMA temp_store = {store}; PRAGMA cache_size = {kib};");
            self.connection.execute_batch(&sql)
        };
        keep("FILE", BUILD_CACHE_KIB)?;
        let found = search();
        keep("MEMORY", WRITER_CACHE_KIB)?;
        Ok(found)
    }

    fn sealing_key(&self) -> Result<String, StoreError> {
        self.coding.vault.ready().map(str::to_owned)
    }
}

impl SqliteRows<'_> {
    /// Builds an index of any size, in two commits, because SQLite builds one at once and others
    /// wait so long: first over versions, then over the rows of now. What SQLite sorts for it goes
    /// through unnamed files in slices as large as the page cache; in memory, where the writer
    /// keeps it otherwise, all of it would have to fit. The page cache is small meanwhile: each
    /// page is read once, into one that the processor still has at hand.
    fn build_with_files(&self, table: &Table, index: &Index) -> Result<IndexBuilt, StoreError> {
        self.sorting(|| self.build_half(table, index))?
    }

    fn build_half(&self, table: &Table, index: &Index) -> Result<IndexBuilt, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?1)";
        let of_versions = names::versions_index(table.number, index.number);
        let is_begun: bool = self
            .connection
            .query_row(sql, [&of_versions], |row| row.get(0))?;
        if is_begun {
            return self.build(table, index);
        }
        let create = create_versions_index(table, index);
        self.connection.execute_batch(&create)?;
        Ok(IndexBuilt::Part)
    }

    /// Builds an index over rows of now and over versions: the former come first, so that equal
    /// values are found before anything is there.
    fn build(&self, table: &Table, index: &Index) -> Result<IndexBuilt, StoreError> {
        match self.connection.execute_batch(&create_index(table, index)) {
            Ok(()) => Ok(IndexBuilt::Whole),
            Err(error) if is_unique_violation(&error) => Ok(IndexBuilt::NotUnique),
            Err(error) => Err(error.into()),
        }
    }
}
