//! Rows that get their values in unique indexes at the end of the batch.
//!
//! SQLite judges a unique index with each row that is written, and a batch is judged at its end:
//! two rows may swap their values in it, and one may take what another gives up after it. A row
//! that meets another one with its values is therefore shown without them, as null, which equals
//! nothing, and gets them after the last operation. Its piece has them at once, and is not its
//! twin any more. Whatever meets no such row pays nothing for this.

use model::{Field, Image, Index, IndexKind, Period, RelationKind, RowId, TableNumber, Value};

use super::awaited::Parked;
use super::halt::{Halt, Step};
use super::row_search::{HoldersWanted, ValueHolder};
use super::row_write::{Target, field_value};
use super::run::{RowStore, Run};
use crate::error::corrupt;
use crate::refusal::Refusal;

/// What the row has in the columns of an index.
pub(crate) fn values_in(target: &Target<'_>, index: &Index, seq: i64, image: &Image) -> Vec<Value> {
    let fields = index.columns.iter().map(|part| part.field);
    fields
        .map(|field| field_value(target, seq, image, field))
        .collect()
}

impl<D: RowStore> Run<'_, D> {
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
        for (index, _) in self.holders_of_values(target, seq, image)? {
            let plain = index.columns.iter().find_map(|part| match part.field {
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
        if self.rows().fill(&table, seq, &parked.values)? {
            return Ok(());
        }
        let target = Target::new(&table, &parked.id);
        let row = self.current_found(&target)?;
        let mut row = row.ok_or_else(|| corrupt("a row that was shown is not there"))?;
        parked.complete(&mut row.image.values);
        let refusal = self.unique_refusal(&target, seq, (&row.image, row.valid))?;
        Err(refusal.into())
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
        let Some((index, held)) = held.into_iter().next() else {
            let index = self.link_held_twice(target, seq, image)?;
            return Ok(Refusal::Unique { index, clash: None });
        };
        let shared = held.valid.intersect(&valid);
        Ok(Refusal::Unique {
            index: Some(index.key.to_string()),
            clash: shared.map(|shared| (held.id, shared)),
        })
    }

    /// One row for each unique index in which it has the same values.
    fn holders_of_values<'t>(
        &self,
        target: &Target<'t>,
        seq: i64,
        image: &Image,
    ) -> Step<Vec<(&'t Index, ValueHolder)>> {
        let unique = |index: &&Index| index.kind == IndexKind::Unique && index.is_available();
        let mut found = Vec::new();
        for index in target.table.indexes.iter().filter(unique) {
            let values = values_in(target, index, seq, image);
            let any = HoldersWanted::Any { but: seq };
            let held = self
                .rows()
                .value_holders(target.table, index, &values, any)?;
            found.extend(held.into_iter().map(|holder| (index, holder)));
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
            let link = &image.values[position];
            if self.rows().is_link_held(table, column.number, link, seq)? {
                return Ok(Some(column.key.to_string()));
            }
        }
        Ok(None)
    }
}
