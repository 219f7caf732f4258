//! Reading what must hold over valid time.

use model::TableNumber;

use super::Readers;
use crate::StoreError;
use crate::batch::TableConstraints;
use crate::stored::constraints;

impl Readers {
    /// What [`crate::StoreConstraints::constraints`] promises.
    pub(in crate::sqlite) fn constraints(
        &self,
        table: TableNumber,
    ) -> Result<TableConstraints, StoreError> {
        let found = self.all(&constraints::of_table(table))?;
        Ok(constraints::together(found))
    }

    /// What [`crate::StoreConstraints::referring`] promises.
    pub(in crate::sqlite) fn referring(
        &self,
        table: TableNumber,
    ) -> Result<Vec<TableNumber>, StoreError> {
        self.all(&constraints::referring(table))
    }
}
