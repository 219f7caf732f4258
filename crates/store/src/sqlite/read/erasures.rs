//! When rows of tables were erased last.

use model::{Mark, TableNumber};
use query::Dialect;

use super::Readers;
use crate::StoreError;
use crate::stored::constraints;

impl Readers {
    /// What [`crate::StoreReads::last_erasure`] promises: a few look-ups, so it is short.
    pub(in crate::sqlite) fn last_erasure(
        &self,
        tables: &[TableNumber],
    ) -> Result<Option<Mark>, StoreError> {
        let found = self.first(&constraints::last_erasure(Dialect::Sqlite, tables))?;
        Ok(found.flatten())
    }
}
