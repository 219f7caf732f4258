//! Changes of a table's columns and indexes. A column comes, goes or is renamed in the catalogue
//! alone, whatever the table's size: rows are converted by the upkeep, in slices.

use std::sync::Arc;

use model::{
    Column, ColumnNumber, Field, Index, IndexKind, IndexStatus, Mark, Storage, Table, TableNumber,
};
use query::names;
use rusqlite::params;

use super::run::SqliteRun;
use crate::batch::{COLUMNS_EVER_MAX, INDEXED_AT_ONCE_MAX, SchemaChange};
use crate::laws::halt::Step;
use crate::refusal::{Container, Refusal};
use crate::sqlite::disk::connection::WRITER_CACHE_KIB;
use crate::sqlite::disk::fault::is_unique_violation;
use crate::sqlite::schema::catalogue_rows::{insert_column, insert_index};
use crate::sqlite::schema::fulltext;
use crate::sqlite::schema::links;
use crate::sqlite::schema::tables::{add_column, create_index, create_versions_index, drop_index};
use crate::sqlite::schema::tasks::Task;

/// The page cache while an index is built, in KiB; negative is how the pragma says KiB. Over rows
/// of 1,500 bytes a build took a quarter longer with the writer's own 64 MiB.
const BUILD_CACHE_KIB: i64 = -2 * 1_024;
/// What the status of a unique index says that cannot be.
const NOT_UNIQUE: &str = "Rows have equal values in the columns of this unique index. Make them \
                          differ, delete the index, and create it again.";

impl SqliteRun<'_, '_> {
    pub(crate) fn change_schema(&mut self, checked: &Table, change: &SchemaChange) -> Step<()> {
        let table = Table::clone(&*self.unchanged(checked)?);
        match change {
            SchemaChange::AddColumn(column) => self.add_column(table, column),
            SchemaChange::UpdateColumn(column) => self.update_column(table, column, None),
            SchemaChange::ShortenColumn { column, since } => {
                self.update_column(table, column, Some(*since))
            }
            SchemaChange::AddRelationship {
                related,
                column,
                partner,
            } => self.add_relationship(table, related, column, partner),
            SchemaChange::UpdateRelationship {
                number,
                key,
                on_delete,
            } => self.update_relationship(table, *number, key, *on_delete),
            SchemaChange::DropColumn(number) => self.drop_column(table, *number),
            SchemaChange::AddIndex(index) => self.add_index(table, index),
            SchemaChange::BuildIndex(number) => self.build_index(table, *number),
            SchemaChange::DropIndex(number) => self.drop_index(table, *number),
        }
    }

    /// The table as it is, if its columns and indexes are those the change was checked against.
    pub(crate) fn unchanged(&self, checked: &Table) -> Result<Arc<Table>, Refusal> {
        let database = self.database(&checked.project, &checked.database)?;
        let table = database.tables.get(&checked.id);
        let gone = || Refusal::NotFound(Container::Table, checked.id.to_string());
        let table = table.ok_or_else(gone)?;
        let is_same = table.number == checked.number
            && table.columns == checked.columns
            && table.indexes == checked.indexes;
        if is_same {
            Ok(table.clone())
        } else {
            Err(Refusal::CatalogueMoved)
        }
    }

    fn add_column(&mut self, mut table: Table, definition: &Column) -> Step<()> {
        let column = Column {
            number: ColumnNumber(self.next_column_number(table.number)?),
            created: self.now(),
            updated: self.now(),
            ..definition.clone()
        };
        self.add_physical_column(&table, &column)?;
        table.columns.push(column);
        self.put_reshaped(table)
    }

    /// Sees to it that the key is there, and is known to be needed, where a column is encrypted.
    pub(crate) fn need_key(&mut self, table: &Table, columns: &[Column]) -> Step<()> {
        if !columns.iter().any(|column| column.encrypt) {
            return Ok(());
        }
        if !self.state.is_sealing {
            let id = self.rows.coding.vault.ready()?;
            self.statement("UPDATE meta SET key_id = ?1")?
                .execute(params![id])?;
            self.state.is_sealing = true;
        }
        self.fail_plain_transactions(table)
    }

    pub(crate) fn next_column_number(&self, table: TableNumber) -> Step<u32> {
        self.next_number("column_", table)
    }

    pub(crate) fn add_physical_column(&mut self, table: &Table, column: &Column) -> Step<()> {
        if column.number.0 > COLUMNS_EVER_MAX {
            let columns_max = COLUMNS_EVER_MAX;
            return Err(Refusal::ColumnsUsedUp { columns_max }.into());
        }
        self.need_key(table, std::slice::from_ref(column))?;
        insert_column(self.rows.connection, table.number, column, self.mark)?;
        self.rows
            .connection
            .execute_batch(&add_column(table.number, column))?;
        Ok(())
    }

    fn update_column(
        &mut self,
        mut table: Table,
        definition: &Column,
        looked_at: Option<Mark>,
    ) -> Step<()> {
        let position = position_of(&table, definition.number);
        let before = &table.columns[position];
        let after = Column {
            created: before.created,
            updated: before.updated,
            ..definition.clone()
        };
        if after == *before {
            return Ok(());
        }
        assert!(
            after.kind.storage() == before.kind.storage() && after.array == before.array,
            "what a column stores never changes: another type is another column"
        );
        if let (Some(least), Some(most)) = (after.kind.chars_max(), before.kind.chars_max())
            && least < most
        {
            self.need_short_values(table.number, &after, least, looked_at)?;
        }
        let is_renamed = after.key != before.key;
        self.close_numbered("column_", table.number, after.number.0)?;
        let updated = self.now();
        let after = Column { updated, ..after };
        insert_column(self.rows.connection, table.number, &after, self.mark)?;
        table.columns[position] = after;
        if is_renamed {
            self.put_reshaped(table)
        } else {
            self.put_table(table)
        }
    }

    /// Looks at rows of now, while no other writer runs: shorter texts only are to follow. Every
    /// row is, or every one that a commit after `since` has changed.
    fn need_short_values(
        &self,
        table: TableNumber,
        column: &Column,
        chars_max: u32,
        since: Option<Mark>,
    ) -> Step<()> {
        assert_eq!(
            column.kind.storage(),
            Storage::Text,
            "only texts have characters"
        );
        if column.encrypt {
            let column = column.key.to_string();
            return Err(Refusal::ValuesTooLong { column, chars_max }.into());
        }
        let (now, name) = (names::now(table), names::column(column.number));
        // CROSS JOIN, because the few rows that were changed are to lead to the others.
        let rows = match since {
            None => format!("{now} AS t"),
            Some(_) => format!("tx_row AS x CROSS JOIN {now} AS t ON t.id = x.id"),
        };
        let (elements, text) = if column.array {
            (format!(", json_each(t.{name}) AS e"), "e.value".to_owned())
        } else {
            (String::new(), format!("t.{name}"))
        };
        let changed = match since {
            None => "",
            Some(_) => " AND x.tt > ?2 AND x.tab = ?3",
        };
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM {rows}{elements} WHERE length({text}) > ?1{changed})"
        );
        let read = |row: &rusqlite::Row<'_>| row.get(0);
        let is_long: bool = match since {
            None => self
                .rows
                .connection
                .query_row(&sql, params![chars_max], read)?,
            Some(Mark(since)) => {
                let bound = params![chars_max, since, table.0];
                self.rows.connection.query_row(&sql, bound, read)?
            }
        };
        if !is_long {
            return Ok(());
        }
        let column = column.key.to_string();
        Err(Refusal::ValuesTooLong { column, chars_max }.into())
    }

    fn drop_column(&mut self, table: Table, number: ColumnNumber) -> Step<()> {
        if table.columns[position_of(&table, number)]
            .relation()
            .is_some()
        {
            return self.drop_relationship(table, number);
        }
        self.drop_plain_column(table, number)
    }

    pub(crate) fn drop_plain_column(&mut self, mut table: Table, number: ColumnNumber) -> Step<()> {
        let position = position_of(&table, number);
        self.close_numbered("column_", table.number, number.0)?;
        table.columns.remove(position);
        let parts = table
            .indexes
            .iter_mut()
            .flat_map(|index| &mut index.columns);
        for part in parts {
            if let Field::Column(at) = &mut part.field {
                assert_ne!(*at, position, "a column that an index names is kept");
                *at -= usize::from(*at > position);
            }
        }
        self.put_reshaped(table)
    }

    fn add_index(&mut self, mut table: Table, definition: &Index) -> Step<()> {
        let number = self.next_number("index_", table.number)?;
        let mut index = Index {
            number,
            status: IndexStatus::Processing,
            created: self.now(),
            updated: self.now(),
            ..definition.clone()
        };
        if index.kind == IndexKind::Fulltext {
            index.status = self.fill_words(&table, &index)?;
        } else if self.versions_at_most(table.number)? <= INDEXED_AT_ONCE_MAX {
            index.status = self.build(&table, &index)?;
        }
        insert_index(self.rows.connection, &table, &index, self.mark)?;
        table.indexes.push(index);
        self.put_table(table)
    }

    fn build_index(&mut self, mut table: Table, number: u32) -> Step<()> {
        let position = index_position(&table, number);
        let index = &table.indexes[position];
        assert_eq!(
            index.status,
            IndexStatus::Processing,
            "an index is built once"
        );
        let status = match index.kind {
            IndexKind::Fulltext => self.fill_words(&table, index)?,
            IndexKind::Key | IndexKind::Unique => self.build_with_files(&table, index)?,
        };
        if status == IndexStatus::Processing {
            self.is_begun = true;
            return Ok(());
        }
        let index = Index {
            status,
            updated: self.now(),
            ..index.clone()
        };
        if table.is_of_relation(&index) {
            self.drop_stand_in(&table, &index)?;
        }
        self.close_numbered("index_", table.number, number)?;
        insert_index(self.rows.connection, &table, &index, self.mark)?;
        table.indexes[position] = index;
        self.put_table(table)
    }

    /// Drops the table of links that stood in for an index over links.
    fn drop_stand_in(&self, table: &Table, index: &Index) -> Step<()> {
        for part in &index.columns {
            if let Field::Column(position) = part.field {
                let column = table.columns[position].number;
                self.rows
                    .connection
                    .execute_batch(&links::drop(table.number, column))?;
            }
        }
        Ok(())
    }

    /// Takes a slice of rows into an index of words.
    fn fill_words(&self, table: &Table, index: &Index) -> Step<IndexStatus> {
        let is_whole = fulltext::fill(self.rows.connection, table, index)?;
        Ok(if is_whole {
            IndexStatus::Available
        } else {
            IndexStatus::Processing
        })
    }

    /// Builds an index of any size, in two commits, because SQLite builds one at once and others
    /// wait so long: first over versions, then over the rows of now. What SQLite sorts for it goes
    /// through unnamed files in slices as large as the page cache; in memory, where the writer
    /// keeps it otherwise, all of it would have to fit. The page cache is small meanwhile: each
    /// page is read once, into one that the processor still has at hand.
    fn build_with_files(&self, table: &Table, index: &Index) -> Step<IndexStatus> {
        let keep = |store: &str, kib: i64| {
            let sql = format!("PRAGMA temp_store = {store}; PRAGMA cache_size = {kib};");
            self.rows.connection.execute_batch(&sql)
        };
        keep("FILE", BUILD_CACHE_KIB)?;
        let built = self.build_half(table, index);
        keep("MEMORY", WRITER_CACHE_KIB)?;
        built
    }

    fn build_half(&self, table: &Table, index: &Index) -> Step<IndexStatus> {
        let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?1)";
        let of_versions = names::versions_index(table.number, index.number);
        let is_begun: bool = self
            .rows
            .connection
            .query_row(sql, [&of_versions], |row| row.get(0))?;
        if !is_begun {
            let create = create_versions_index(table, index);
            self.rows.connection.execute_batch(&create)?;
            return Ok(IndexStatus::Processing);
        }
        let status = self.build(table, index)?;
        if matches!(status, IndexStatus::Failed(_)) {
            let drop = drop_index(table.number, index.number, index.kind);
            self.rows.connection.execute_batch(&drop)?;
        }
        Ok(status)
    }

    /// Builds the index over rows of now and over versions. Equal values are found over the rows
    /// of now, which come first, so that an index that fails leaves nothing behind.
    pub(crate) fn build(&self, table: &Table, index: &Index) -> Step<IndexStatus> {
        let is_scheduled = self.state.boundaries.contains_key(&table.number);
        if is_scheduled && index.kind == IndexKind::Unique {
            // What the rows of now cannot tell: whether two will be equal when one begins.
            let columns = index.columns.iter();
            let columns = columns.map(|part| names::field(table, part.field));
            let columns: Vec<String> = columns.collect();
            if self.overlaps(table.number, &columns)? {
                return Ok(IndexStatus::Failed(NOT_UNIQUE.to_owned()));
            }
        }
        match self
            .rows
            .connection
            .execute_batch(&create_index(table, index))
        {
            Ok(()) => Ok(IndexStatus::Available),
            Err(error) if is_unique_violation(&error) => {
                Ok(IndexStatus::Failed(NOT_UNIQUE.to_owned()))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn drop_index(&mut self, mut table: Table, number: u32) -> Step<()> {
        let position = index_position(&table, number);
        self.close_numbered("index_", table.number, number)?;
        let index = table.indexes.remove(position);
        self.rows
            .connection
            .execute_batch(&drop_index(table.number, number, index.kind))?;
        self.put_table(table)
    }

    /// Reports a table whose rows are to be encoded otherwise from now on.
    pub(crate) fn put_reshaped(&mut self, mut table: Table) -> Step<()> {
        table.schema_epoch = self.next_epoch();
        self.leave(table.number, Task::Bodies)?;
        self.put_table(table)
    }

    /// A number that no column, or no index, of the table ever had.
    pub(crate) fn next_number(&self, catalogue_table: &str, table: TableNumber) -> Step<u32> {
        let sql =
            format!("SELECT coalesce(max(number), 0) + 1 FROM {catalogue_table} WHERE tab = ?1");
        let mut statement = self.statement(&sql)?;
        Ok(statement.query_row(params![table.0], |row| row.get(0))?)
    }

    /// The table has no more versions than this. They are numbered in the order of their
    /// arrival, and hardly one is ever taken back.
    pub(crate) fn versions_at_most(&self, table: TableNumber) -> Step<i64> {
        let sql = format!(
            "SELECT coalesce(max(rid), 0) FROM {}",
            names::versions(table)
        );
        Ok(self.rows.connection.query_row(&sql, (), |row| row.get(0))?)
    }

    pub(crate) fn close_numbered(
        &self,
        catalogue_table: &str,
        table: TableNumber,
        number: u32,
    ) -> Step<()> {
        let of_table = "tab = ?2 AND number = ?3";
        self.close(
            catalogue_table,
            of_table,
            params![self.mark.0, table.0, number],
        )
    }
}

pub(crate) fn position_of(table: &Table, number: ColumnNumber) -> usize {
    let mut columns = table.columns.iter();
    columns
        .position(|column| column.number == number)
        .expect("the change was checked against these columns")
}

fn index_position(table: &Table, number: u32) -> usize {
    let mut indexes = table.indexes.iter();
    indexes
        .position(|index| index.number == number)
        .expect("the change was checked against these indexes")
}
