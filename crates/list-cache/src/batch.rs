//! What a commit alters.

use std::sync::Arc;

use model::{Change, TableNumber};

/// What one group commit alters, as it is told before it is visible.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Rows before and after, where the commit says so much.
    pub images: Vec<Arc<Vec<Change>>>,
    /// Tables of which anything may be altered: more rows than images were kept of, another
    /// definition, or gone with all they held.
    pub tables: Vec<TableNumber>,
}

impl Batch {
    /// The changes of rows of one table.
    pub(crate) fn changes_of(&self, table: TableNumber) -> impl Iterator<Item = &Change> {
        let changes = self.images.iter().flat_map(|changes| changes.iter());
        changes.filter(move |change| change.table == table)
    }
}
