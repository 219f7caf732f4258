//! Changes of a table's columns and indexes. A column comes, goes or is renamed in the catalogue
//! alone, whatever the table's size: rows are converted by the upkeep, in slices.

use std::sync::Arc;

use model::{
    Column, ColumnNumber, Field, Index, IndexKind, IndexStatus, Mark, Storage, Table, TableNumber,
};
use query::names;

use super::halt::Step;
use super::perform::BatchStore;
use super::run::Run;
use super::table_layout::{IndexBuilt, IndexPace, TablesChange};
use super::tasks::Task;
use crate::batch::{COLUMNS_EVER_MAX, INDEXED_AT_ONCE_MAX, SchemaChange};
use crate::error::corrupt;
use crate::refusal::{Container, Refusal};
use crate::staged::TransactionStatus;
use crate::stored::change::StoredChange;
use crate::stored::overlaps::any_overlap;
use crate::stored::schema::{any_longer, next_number, versions_at_most};
use crate::stored::transactions;
use crate::stored_catalogue::rows;

/// An index of words over at most so many versions is built by the batch that adds it: the words of
/// the longest texts take a database 0.2 s for each.
const WORDS_AT_ONCE_MAX: i64 = 10;
/// What the status of a unique index says that cannot be.
const NOT_UNIQUE: &str = "Rows have equal values in the columns of this unique index. Make them \
                          differ, delete the index, and create it again.";

impl<D: BatchStore> Run<'_, D> {
    pub(super) fn change_schema(&mut self, checked: &Table, change: &SchemaChange) -> Step<()> {
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
            SchemaChange::FailIndex(number) => self.fail_index(table, *number),
            SchemaChange::DropIndex(number) => self.drop_index(table, *number),
        }
    }

    /// The table as it is, if its columns and indexes are those the change was checked against.
    pub(super) fn unchanged(&self, checked: &Table) -> Result<Arc<Table>, Refusal> {
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
    pub(super) fn need_key(&mut self, table: &Table, columns: &[Column]) -> Step<()> {
        if !columns.iter().any(|column| column.encrypt) {
            return Ok(());
        }
        if !self.state.is_sealing {
            let name = self.rows().sealing_key()?;
            let known = StoredChange::new("UPDATE meta SET key_id = $1", vec![name.into()]);
            self.write(&known)?;
            self.state.is_sealing = true;
        }
        self.fail_plain_transactions(table)
    }

    pub(super) fn next_column_number(&self, table: TableNumber) -> Step<u32> {
        self.next_number("column_", table)
    }

    pub(super) fn add_physical_column(&mut self, table: &Table, column: &Column) -> Step<()> {
        if column.number.0 > COLUMNS_EVER_MAX {
            let columns_max = COLUMNS_EVER_MAX;
            return Err(Refusal::ColumnsUsedUp { columns_max }.into());
        }
        self.need_key(table, std::slice::from_ref(column))?;
        self.write(&rows::column(table.number, column, self.mark))?;
        let room = TablesChange::AddColumn(table.number, column);
        Ok(self.rows().reshape(room)?)
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
            self.need_short_values(table.number, &after, (least, looked_at))?;
        }
        let is_renamed = after.key != before.key;
        self.close_numbered("column_", table.number, after.number.0)?;
        let updated = self.now();
        let after = Column { updated, ..after };
        self.write(&rows::column(table.number, &after, self.mark))?;
        table.columns[position] = after;
        if is_renamed {
            self.put_reshaped(table)
        } else {
            self.put_table(table)
        }
    }

    /// Looks at rows of now, while no other writer runs: shorter texts only are to follow. Every
    /// row is, or every one that a commit after the mark has changed.
    fn need_short_values(
        &self,
        table: TableNumber,
        column: &Column,
        (chars_max, since): (u32, Option<Mark>),
    ) -> Step<()> {
        assert_eq!(
            column.kind.storage(),
            Storage::Text,
            "only texts have characters"
        );
        let is_long = column.encrypt || {
            let longer = any_longer(D::DIALECT, table, column, (chars_max, since));
            !self.rows().read_stored(&longer)?.is_empty()
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

    pub(super) fn drop_plain_column(&mut self, mut table: Table, number: ColumnNumber) -> Step<()> {
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
        let is_of_words = index.kind == IndexKind::Fulltext;
        let at_once_max = if is_of_words {
            WORDS_AT_ONCE_MAX
        } else {
            INDEXED_AT_ONCE_MAX
        };
        let begins = is_of_words && D::BEGINS_WORDS;
        if begins || self.versions_at_most(table.number)? <= at_once_max {
            index.status = self.build(&table, &index, IndexPace::AtOnce)?;
        }
        self.write(&rows::index(&table, &index, self.mark))?;
        table.indexes.push(index);
        self.put_table(table)
    }

    fn build_index(&mut self, table: Table, number: u32) -> Step<()> {
        let index = waiting_index(&table, number);
        let status = self.build(&table, index, IndexPace::InParts)?;
        if status == IndexStatus::Processing {
            self.is_begun = true;
            return Ok(());
        }
        self.end_index(table, number, status)
    }

    fn fail_index(&mut self, table: Table, number: u32) -> Step<()> {
        let status = self.not_unique(&table, waiting_index(&table, number))?;
        self.end_index(table, number, status)
    }

    fn end_index(&mut self, mut table: Table, number: u32, status: IndexStatus) -> Step<()> {
        let position = index_position(&table, number);
        let index = &table.indexes[position];
        let index = Index {
            status,
            updated: self.now(),
            ..index.clone()
        };
        if table.is_of_relation(&index) {
            self.drop_stand_in(&table, &index)?;
        }
        self.close_numbered("index_", table.number, number)?;
        self.write(&rows::index(&table, &index, self.mark))?;
        table.indexes[position] = index;
        self.put_table(table)
    }

    /// Drops what stood in for an index over links.
    fn drop_stand_in(&self, table: &Table, index: &Index) -> Step<()> {
        for part in &index.columns {
            if let Field::Column(position) = part.field {
                let column = table.columns[position].number;
                let gone = TablesChange::DropLinks(table.number, column);
                self.rows().reshape(gone)?;
            }
        }
        Ok(())
    }

    /// Builds an index as far as a batch may. One that fails leaves nothing behind.
    pub(super) fn build(&self, table: &Table, index: &Index, pace: IndexPace) -> Step<IndexStatus> {
        let is_unique = match self.rows().build_index(table, index, pace)? {
            IndexBuilt::Part => return Ok(IndexStatus::Processing),
            IndexBuilt::Whole => !self.shares_values_to_come(table, index)?,
            IndexBuilt::NotUnique => false,
        };
        if is_unique {
            return Ok(IndexStatus::Available);
        }
        self.not_unique(table, index)
    }

    /// The status of an index that is to be unique and is not, of which nothing stays.
    fn not_unique(&self, table: &Table, index: &Index) -> Step<IndexStatus> {
        let gone = TablesChange::DropIndex(table.number, index);
        self.rows().reshape(gone)?;
        Ok(IndexStatus::Failed(NOT_UNIQUE.to_owned()))
    }

    /// What the rows of now cannot tell of a unique index: whether two will be equal when one
    /// begins.
    fn shares_values_to_come(&self, table: &Table, index: &Index) -> Step<bool> {
        let is_scheduled = self.state.boundaries.contains_key(&table.number);
        if !is_scheduled || index.kind != IndexKind::Unique {
            return Ok(false);
        }
        let columns = index.columns.iter();
        let columns = columns.map(|part| names::field(table, part.field));
        let columns: Vec<String> = columns.collect();
        let shared = any_overlap(table.number, &columns);
        let rows = self.rows();
        let found = rows.sorting(|| rows.read_stored(&shared))??;
        Ok(!found.is_empty())
    }

    fn drop_index(&mut self, mut table: Table, number: u32) -> Step<()> {
        let position = index_position(&table, number);
        self.close_numbered("index_", table.number, number)?;
        let index = table.indexes.remove(position);
        let gone = TablesChange::DropIndex(table.number, &index);
        self.rows().reshape(gone)?;
        self.put_table(table)
    }

    /// Reports a table whose rows are to be encoded otherwise from now on.
    pub(super) fn put_reshaped(&mut self, mut table: Table) -> Step<()> {
        table.schema_epoch = self.next_epoch();
        self.leave(table.number, Task::Bodies)?;
        self.put_table(table)
    }

    /// A number that no column, or no index, of the table ever had.
    pub(super) fn next_number(&self, of: &str, table: TableNumber) -> Step<u32> {
        let found = self.rows().first_stored(&next_number(of, table))?;
        Ok(found.ok_or_else(|| corrupt("no number follows"))?)
    }

    /// The table has no more versions than this. They are numbered in the order of their
    /// arrival, and hardly one is ever taken back.
    pub(super) fn versions_at_most(&self, table: TableNumber) -> Step<i64> {
        let found = self.rows().first_stored(&versions_at_most(table))?;
        Ok(found.unwrap_or_default())
    }

    pub(super) fn close_numbered(
        &self,
        catalogue_table: &str,
        table: TableNumber,
        number: u32,
    ) -> Step<()> {
        let of_table = "tab = $2 AND number = $3";
        self.close(catalogue_table, of_table, [table.0.into(), number.into()])
    }

    /// Fails every open transaction with operations on the table's database that were staged while
    /// there was no key, and forgets their operations: content is judged by the commit, so they may
    /// hold values of a column that is only now created as an encrypted one.
    fn fail_plain_transactions(&mut self, table: &Table) -> Step<()> {
        let plain = transactions::open_and_plain(D::DIALECT, table);
        let found = self.rows().read_stored(&plain)?;
        for seq in &found {
            let now = self.mark.timestamp();
            self.rows()
                .end_transaction(*seq, TransactionStatus::Failed, now)?;
        }
        // So the log is cut, in which they stand, too.
        self.state.erased += found.len() as u64;
        Ok(())
    }
}

pub(super) fn position_of(table: &Table, number: ColumnNumber) -> usize {
    let mut columns = table.columns.iter();
    columns
        .position(|column| column.number == number)
        .expect("the change was checked against these columns")
}

fn waiting_index(table: &Table, number: u32) -> &Index {
    let index = &table.indexes[index_position(table, number)];
    let waits = index.status == IndexStatus::Processing;
    assert!(waits, "an index is built once");
    index
}

fn index_position(table: &Table, number: u32) -> usize {
    let mut indexes = table.indexes.iter();
    indexes
        .position(|index| index.number == number)
        .expect("the change was checked against these indexes")
}
