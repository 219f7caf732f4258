//! Tables beside rows that every database has by the same names and columns (`store/stored`), for
//! the laws of what is in them.

use crate::StoreError;
use crate::stored::change::StoredChange;
use crate::stored::read::StoredRead;
use crate::vault::Vault;

/// A database that has them.
pub(crate) trait StoredTables {
    /// What the rows of a statement are, in their order.
    ///
    /// # Errors
    /// What the database says; so it is with each call.
    fn read_stored<T>(&self, read: &StoredRead<T>) -> Result<Vec<T>, StoreError>;

    /// Changes rows; how many.
    fn change_stored(&self, change: &StoredChange) -> Result<usize, StoreError>;

    /// Changes rows by several statements, one after the other.
    fn change_in_order(
        &self,
        changes: impl IntoIterator<Item = StoredChange>,
    ) -> Result<(), StoreError>;

    /// What seals the variables of functions, and what handlers are given.
    fn vault_of_functions(&self) -> &Vault;

    /// What the first row of a statement is, if there is one.
    fn first_stored<T>(&self, read: &StoredRead<T>) -> Result<Option<T>, StoreError> {
        Ok(self.read_stored(read)?.into_iter().next())
    }
}
