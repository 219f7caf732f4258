//! Tables beside rows as SQLite has them.

use super::stored_rows::SqliteRows;
use crate::StoreError;
use crate::laws::stored_tables::StoredTables;
use crate::sqlite::schema::stored_reads;
use crate::stored::change::StoredChange;
use crate::stored::read::StoredRead;
use crate::vault::Vault;

impl StoredTables for SqliteRows<'_> {
    fn read_stored<T>(&self, read: &StoredRead<T>) -> Result<Vec<T>, StoreError> {
        stored_reads::all(self.connection, read)
    }

    fn change_stored(&self, change: &StoredChange) -> Result<usize, StoreError> {
        stored_reads::change(self.connection, change)
    }

    fn change_in_order(
        &self,
        changes: impl IntoIterator<Item = StoredChange>,
    ) -> Result<(), StoreError> {
        let mut changes = changes.into_iter();
        changes.try_for_each(|change| self.change_stored(&change).map(drop))
    }

    fn vault_of_functions(&self) -> &Vault {
        &self.coding.variables
    }
}
