//! Letting go of what a batch has made past in tables that keep none of it.

use std::collections::BTreeMap;

use model::{Retention, RowId, Table, TableNumber, Timestamp};

use super::growth::Growth;
use super::halt::Step;
use super::run::Run;
use crate::StoreError;

/// A database that can let go of the past of rows.
pub(crate) trait PastRows {
    /// Lets go of what lies below the line among the versions of these rows: what a read at the
    /// line or above it does not see. With the last version of a row its grants go, for its number
    /// may be given to another one. A row that is due and was not activated is left alone.
    ///
    /// # Errors
    /// What the database says.
    fn forget_below(
        &self,
        table: &Table,
        ids: &[&RowId],
        line: Timestamp,
        growth: &Growth,
    ) -> Result<(), StoreError>;
}

impl<D: PastRows> Run<'_, D> {
    /// Lets go of what the batch has made past in tables that keep none of it.
    pub(crate) fn forget_past(&self) -> Step<()> {
        let mut rows: BTreeMap<TableNumber, (&Table, Vec<&RowId>)> = BTreeMap::new();
        for (number, id) in self.touched.ids() {
            let table = self.state.catalogue.table_by_number(number);
            if let Some(table) = table
                && table.options.history == Retention::None
            {
                let of_table = rows.entry(number).or_insert_with(|| (table, Vec::new()));
                of_table.1.push(id);
            }
        }
        let line = self.mark.timestamp();
        for (table, ids) in rows.into_values() {
            let growth = &self.state.growth;
            self.rows().forget_below(table, &ids, line, growth)?;
        }
        Ok(())
    }
}
