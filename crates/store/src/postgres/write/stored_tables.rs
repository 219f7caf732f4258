//! Tables beside rows as PostgreSQL has them.

use super::rows::PostgresRows;
use super::session::SqlCall;
use crate::StoreError;
use crate::laws::stored_tables::StoredTables;
use crate::postgres::stored_parameters;
use crate::stored::change::StoredChange;
use crate::stored::read::StoredRead;
use crate::vault::Vault;

impl StoredTables for PostgresRows<'_> {
    fn read_stored<T>(&self, read: &StoredRead<T>) -> Result<Vec<T>, StoreError> {
        let parameters = stored_parameters::all(&read.parameters);
        let found = self.session.call(SqlCall::new(&*read.sql, parameters))?;
        found.iter().map(|row| (read.read)(row)).collect()
    }

    fn change_stored(&self, change: &StoredChange) -> Result<usize, StoreError> {
        let parameters = stored_parameters::all(&change.parameters);
        let counted = format!("{} RETURNING 1", change.sql);
        Ok(self.session.call(SqlCall::new(counted, parameters))?.len())
    }

    /// In one round trip.
    fn change_in_order(
        &self,
        changes: impl IntoIterator<Item = StoredChange>,
    ) -> Result<(), StoreError> {
        let changes = changes.into_iter();
        let calls = changes.map(|change| {
            let parameters = stored_parameters::all(&change.parameters);
            SqlCall::new(change.sql, parameters)
        });
        self.session.burst(&calls.collect::<Vec<_>>()).map(drop)
    }

    fn vault_of_functions(&self) -> &Vault {
        &self.keys.variables
    }
}
