//! Reading what belongs to functions.

use super::Readers;
use crate::sqlite::schema::stored_functions;
use crate::{StoreError, Variable};

impl Readers {
    /// What [`crate::StoreFunctions::variables`] promises. A function has few.
    pub(in crate::sqlite) fn variables(&self, function: i64) -> Result<Vec<Variable>, StoreError> {
        let vault = &self.shared.coding.variables;
        self.look(|connection| Ok(stored_functions::variables(connection, vault, function)?))
    }
}
