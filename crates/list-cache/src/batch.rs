//! What a commit alters.

use std::sync::Arc;

use model::{Change, TableNumber};

use crate::boundaries::Next;

/// What one group commit alters, as it is announced before it is visible.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Rows before and after, where the commit says so much.
    pub images: Vec<Arc<Vec<Change>>>,
    /// Tables of which anything may be altered, but no row is taken from any caller's sight: their
    /// definition is another.
    pub tables: Vec<TableNumber>,
    /// Tables of which anything may be altered, and any row taken from any caller's sight: more of
    /// them than images were kept of, or all, with their table.
    pub unseen: Vec<TableNumber>,
    /// Tables whose past looks otherwise from now on: a row was erased, or other grants judge what
    /// it once was.
    pub past_changed: Vec<TableNumber>,
    /// Rows that a boundary has passed, before and after.
    pub due: Vec<Arc<Vec<Change>>>,
    /// Tables of which more rows became due than images were kept of.
    pub due_tables: Vec<TableNumber>,
    /// When each table changes next by itself, once the commit is visible.
    pub next: Next,
}

impl Batch {
    /// Makes what became due a change like any other, if `counts`.
    pub(crate) fn include_due(&mut self, counts: bool) {
        let (due, tables) = (
            std::mem::take(&mut self.due),
            std::mem::take(&mut self.due_tables),
        );
        if counts {
            self.images.extend(due);
            self.unseen.extend(tables);
        }
    }

    /// The tables that are named instead of their rows.
    pub(crate) fn whole_tables(&self) -> impl Iterator<Item = &TableNumber> {
        self.tables.iter().chain(&self.unseen)
    }

    /// The changes of rows of one table.
    pub(crate) fn changes_of(&self, table: TableNumber) -> impl Iterator<Item = &Change> {
        let changes = self.images.iter().flat_map(|changes| changes.iter());
        changes.filter(move |change| change.table == table)
    }
}
