//! Rows that get their values in unique indexes at the end of the batch.
//!
//! SQLite judges a unique index with each row that is written, and a batch is judged at its end:
//! two rows may swap their values in it, and one may take what another gives up after it. A row
//! that meets another one with its values is therefore shown without them, as null, which equals
//! nothing, and gets them after the last operation. Its piece has them at once, and is not its
//! twin any more. Whatever meets no such row pays nothing for this.

use model::{
    Field, Image, Index, IndexKind, Period, RelationKind, RowId, Table, TableNumber, Value,
};
use query::names;
use rusqlite::{OptionalExtension, params};

use super::row_write::{Target, field_value};
use super::run::Run;
use super::stored_rows::stored_period;
use crate::laws::awaited::Parked;
use crate::laws::halt::{Halt, Step};
use crate::refusal::Refusal;
use crate::sqlite::disk::fault::{corrupt, is_unique_violation};
use crate::sqlite::schema::bind::Bound;
use crate::sqlite::schema::columns::physical_field;

/// Another row of now with the same values in a unique index.
struct ValueHolder<'t> {
    index: &'t Index,
    id: RowId,
    valid: Period,
}

impl Run<'_> {
    /// Which values a row must be shown without, because other rows of now have them in unique
    /// indexes, and what is shown then. The row is valid over `valid`.
    ///
    /// # Errors
    /// [`Refusal::Unique`] where none can be left out: the index is over a link, which operations
    /// on other rows look for, or over nothing but fields that every row has.
    pub(crate) fn parked(
        &self,
        target: &Target<'_>,
        seq: i64,
        (image, valid): (&Image, Period),
    ) -> Step<(Parked, Vec<Value>)> {
        let mut shown = image.values.clone();
        let mut values = Vec::new();
        for held in self.holders_of_values(target, seq, image)? {
            let plain = held.index.columns.iter().find_map(|part| match part.field {
                Field::Column(at) if target.table.columns[at].relation().is_none() => Some(at),
                _ => None,
            });
            let Some(position) = plain else {
                return Err(self.unique_refusal(target, seq, (image, valid))?.into());
            };
            let value = std::mem::replace(&mut shown[position], Value::Null);
            if value != Value::Null {
                values.push((position, value));
            }
        }
        if values.is_empty() {
            return Err(self.unique_refusal(target, seq, (image, valid))?.into());
        }
        let id = target.id.clone();
        Ok((Parked { id, values }, shown))
    }

    /// Gives every row its values.
    ///
    /// # Errors
    /// The row over which it halts: another one has its values for good.
    pub(crate) fn show_parked(&mut self) -> Result<(), (TableNumber, RowId, Halt)> {
        for ((number, seq), parked) in self.parked.take() {
            let shown = self.show_whole(number, seq, &parked);
            shown.map_err(|halt| (number, parked.id, halt))?;
        }
        Ok(())
    }

    fn show_whole(&mut self, number: TableNumber, seq: i64, parked: &Parked) -> Step<()> {
        let table = self.table_numbered(number)?;
        match self.set_values(&table, seq, &parked.values) {
            Err(error) if is_unique_violation(&error) => {
                let target = Target::new(&table, &parked.id);
                let row = self.current_found(&target)?;
                let mut row = row.ok_or_else(|| corrupt("a row that was shown is not there"))?;
                parked.complete(&mut row.image.values);
                let refusal = self.unique_refusal(&target, seq, (&row.image, row.valid))?;
                Err(refusal.into())
            }
            result => Ok(result?),
        }
    }

    fn set_values(
        &self,
        table: &Table,
        seq: i64,
        parked: &[(usize, Value)],
    ) -> rusqlite::Result<()> {
        let set = parked.iter().zip(2..).map(|((position, _), number)| {
            let name = physical_field(table, Field::Column(*position));
            format!("{name} = ?{number}")
        });
        let set: Vec<String> = set.collect();
        let now = names::now(table.number);
        let sql = format!("UPDATE {now} SET {} WHERE seq = ?1", set.join(", "));
        let seq = Value::Int(seq);
        let values = parked.iter().map(|(_, value)| value);
        let bound = std::iter::once(&seq).chain(values).map(Bound);
        self.statement(&sql)?
            .execute(rusqlite::params_from_iter(bound))?;
        Ok(())
    }

    /// Which unique index another row stands in the way of. The failed statement is undone, so
    /// asking each index finds it; the driver's message would have to be taken apart.
    pub(crate) fn unique_refusal(
        &self,
        target: &Target<'_>,
        seq: i64,
        (image, valid): (&Image, Period),
    ) -> Step<Refusal> {
        let held = self.holders_of_values(target, seq, image)?;
        let Some(held) = held.into_iter().next() else {
            let index = self.link_held_twice(target, seq, image)?;
            return Ok(Refusal::Unique { index, clash: None });
        };
        let shared = held.valid.intersect(&valid);
        Ok(Refusal::Unique {
            index: Some(held.index.key.to_string()),
            clash: shared.map(|shared| (held.id, shared)),
        })
    }

    /// One row for each unique index in which it has the same values.
    fn holders_of_values<'t>(
        &self,
        target: &Target<'t>,
        seq: i64,
        image: &Image,
    ) -> Step<Vec<ValueHolder<'t>>> {
        let unique = |index: &&Index| index.kind == IndexKind::Unique && index.is_available();
        let mut found = Vec::new();
        for index in target.table.indexes.iter().filter(unique) {
            let fields = index.columns.iter().map(|part| part.field);
            let names = fields
                .clone()
                .map(|field| physical_field(target.table, field));
            let test: String = names
                .flat_map(|name| [" AND ".to_owned(), name, " = ?".to_owned()])
                .collect();
            let sql = format!(
                "SELECT id, vf, vt FROM {} WHERE seq <> ?{test} LIMIT 1",
                names::now(target.table.number)
            );
            let values: Vec<Value> = fields.map(|f| field_value(target, seq, image, f)).collect();
            let parameters = std::iter::once(Value::Int(seq)).chain(values);
            let parameters: Vec<Value> = parameters.collect();
            let bound = rusqlite::params_from_iter(parameters.iter().map(Bound));
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            let held = self.connection.query_row(&sql, bound, read).optional()?;
            if let Some::<(String, i64, i64)>((id, from, end)) = held {
                found.push(ValueHolder {
                    index,
                    id: RowId::new(&id).map_err(|error| corrupt(error.to_string()))?,
                    valid: stored_period(from, end)?,
                });
            }
        }
        Ok(found)
    }

    /// The key of a column whose one link another row holds, where a table of links guards it.
    fn link_held_twice(
        &self,
        target: &Target<'_>,
        seq: i64,
        image: &Image,
    ) -> Step<Option<String>> {
        let table = target.table;
        for (position, relation) in table.relations() {
            if relation.kind != RelationKind::OneToOne || !table.has_links_table(position) {
                continue;
            }
            let column = &table.columns[position];
            let links = names::links(table.number, column.number);
            let sql =
                format!("SELECT EXISTS (SELECT 1 FROM {links} WHERE target = ? AND seq <> ?)");
            let bound = params![Bound(&image.values[position]), seq];
            if self.connection.query_row(&sql, bound, |row| row.get(0))? {
                return Ok(Some(column.key.to_string()));
            }
        }
        Ok(None)
    }
}
