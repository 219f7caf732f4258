//! Changes of relationships: two columns of two tables come, change and go together.

use std::sync::Arc;

use model::{
    Column, ColumnKey, ColumnKind, ColumnNumber, Direction, Field, Index, IndexColumn, IndexKey,
    IndexKind, IndexStatus, OnDelete, Relation, RelationKind, Table,
};

use super::halt::Step;
use super::perform::BatchStore;
use super::run::Run;
use super::schema::position_of;
use super::table_layout::{IndexPace, TablesChange};
use crate::batch::INDEXED_AT_ONCE_MAX;
use crate::stored_catalogue::rows;

impl<D: BatchStore> Run<'_, D> {
    /// Adds a column to `table` and its partner to `related`; see
    /// [`crate::SchemaChange::AddRelationship`].
    pub(super) fn add_relationship(
        &mut self,
        table: Table,
        related: &Table,
        column: &Column,
        partner: &Column,
    ) -> Step<()> {
        let related = self.unchanged(related)?;
        let is_own = related.number == table.number;
        let first = self.next_column_number(table.number)?;
        let second = if is_own {
            self.next_column_number(table.number)?.max(first + 1)
        } else {
            self.next_column_number(related.number)?
        };
        let column = numbered(column, first, second);
        let partner = numbered(partner, second, first);
        let table = Arc::new(table);
        self.add_end(Table::clone(&table), column)?;
        let related = self.table_beside(&table, related.id.as_str())?;
        self.add_end(Table::clone(&related), partner)
    }

    fn add_end(&mut self, mut table: Table, mut column: Column) -> Step<()> {
        (column.created, column.updated) = (self.now(), self.now());
        self.add_physical_column(&table, &column)?;
        let relation = relation_of(&column).clone();
        table.columns.push(column);
        let position = table.columns.len() - 1;
        if relation.holds_links() {
            self.index_links(&mut table, position, &relation)?;
        }
        self.put_reshaped(table)
    }

    /// Makes what finds the rows that hold a link: something of its own for lists; else an index,
    /// for which that stands in until it is built, if the table has many rows.
    fn index_links(&mut self, table: &mut Table, position: usize, relation: &Relation) -> Step<()> {
        let is_large = self.versions_at_most(table.number)? > INDEXED_AT_ONCE_MAX;
        if relation.is_list() || is_large {
            let links = TablesChange::AddLinks(table, position);
            self.rows().reshape(links)?;
        }
        if relation.is_list() {
            return Ok(());
        }
        let index = Index {
            number: self.next_number("index_", table.number)?,
            key: IndexKey::new(table.columns[position].key.as_str())
                .expect("the rule for keys of columns and of indexes is one"),
            kind: match relation.kind {
                RelationKind::OneToOne => IndexKind::Unique,
                _ => IndexKind::Key,
            },
            columns: vec![IndexColumn {
                field: Field::Column(position),
                direction: Direction::Asc,
                length: None,
                held: None,
            }],
            status: if is_large {
                IndexStatus::Processing
            } else {
                IndexStatus::Available
            },
            created: self.now(),
            updated: self.now(),
        };
        if !is_large {
            self.build(table, &index, IndexPace::AtOnce)?;
        }
        self.write(&rows::index(table, &index, self.mark))?;
        table.indexes.push(index);
        Ok(())
    }

    /// Changes the key of one end, and the behaviour of both.
    pub(super) fn update_relationship(
        &mut self,
        table: Table,
        number: ColumnNumber,
        key: &ColumnKey,
        on_delete: OnDelete,
    ) -> Step<()> {
        let before = table.columns[position_of(&table, number)].clone();
        let relation = relation_of(&before);
        if before.key == *key && relation.on_delete == on_delete {
            return Ok(());
        }
        let (place, partner) = (Arc::new(table), relation.partner);
        let related = relation.related.clone();
        self.change_end(&place, number, |column, relation| {
            column.key = key.clone();
            relation.on_delete = on_delete;
        })?;
        let related = self.table_beside(&place, related.as_str())?;
        self.change_end(&related, partner, |_, relation| {
            relation.partner_key = key.clone();
            relation.on_delete = on_delete;
        })
    }

    fn change_end(
        &mut self,
        table: &Table,
        number: ColumnNumber,
        change: impl FnOnce(&mut Column, &mut Relation),
    ) -> Step<()> {
        let mut table = table.clone();
        let position = position_of(&table, number);
        let mut column = table.columns[position].clone();
        let mut relation = relation_of(&column).clone();
        change(&mut column, &mut relation);
        column.kind = ColumnKind::Relationship(relation);
        column.updated = self.now();
        self.close_numbered("column_", table.number, number.0)?;
        self.write(&rows::column(table.number, &column, self.mark))?;
        table.columns[position] = column;
        self.put_reshaped(table)
    }

    /// Removes both ends of the relationship that `number` is an end of.
    pub(super) fn drop_relationship(&mut self, table: Table, number: ColumnNumber) -> Step<()> {
        let relation = relation_of(&table.columns[position_of(&table, number)]).clone();
        let place = Arc::new(table);
        self.drop_end(Table::clone(&place), number)?;
        let related = self.table_beside(&place, relation.related.as_str())?;
        self.drop_end(Table::clone(&related), relation.partner)
    }

    fn drop_end(&mut self, mut table: Table, number: ColumnNumber) -> Step<()> {
        let position = position_of(&table, number);
        let is_over = |part: &IndexColumn| part.field == Field::Column(position);
        let over = |index: &Index| index.columns.iter().any(is_over);
        while let Some(at) = table.indexes.iter().position(over) {
            let index = table.indexes.remove(at);
            self.close_numbered("index_", table.number, index.number)?;
            let gone = TablesChange::DropIndex(table.number, &index);
            self.rows().reshape(gone)?;
        }
        let gone = TablesChange::DropLinks(table.number, number);
        self.rows().reshape(gone)?;
        self.drop_plain_column(table, number)
    }

    /// Takes the other ends of a table's relationships from the tables they are in, because the
    /// table goes.
    pub(super) fn leave_relationships(&mut self, table: &Table) -> Step<()> {
        for (_, relation) in table.relations() {
            if relation.related == table.id {
                continue;
            }
            let related = self.table_beside(table, relation.related.as_str())?;
            self.drop_end(Table::clone(&related), relation.partner)?;
        }
        Ok(())
    }
}

fn relation_of(column: &Column) -> &Relation {
    column
        .relation()
        .expect("the change was checked to be about a relationship")
}

/// The definition of one end with the numbers that the commit gives.
fn numbered(definition: &Column, number: u32, partner: u32) -> Column {
    let relation = Relation {
        partner: ColumnNumber(partner),
        ..relation_of(definition).clone()
    };
    Column {
        number: ColumnNumber(number),
        kind: ColumnKind::Relationship(relation),
        ..definition.clone()
    }
}
