//! What the writer knows of the database, as of a commit or of the open transaction.

use std::sync::Arc;

use model::{Catalogue, Mark, TableNumber, Timestamp};

use super::constraints::Constraints;
use super::growth::Growth;
use crate::Boundaries;

/// What the writer goes on from. Cloned for each batch: what one did that halts is forgotten
/// by dropping its copy, so the copy cannot drift from what the database rolled back.
#[derive(Clone)]
pub(crate) struct State {
    /// All containers.
    pub(crate) catalogue: Arc<Catalogue>,
    /// The mark of the latest commit.
    pub(crate) mark: Mark,
    /// The highest mark that may have been read, as far as it is on disk.
    pub(crate) horizon: Mark,
    /// The dense number of the latest commit.
    pub(crate) number: i64,
    /// The number of the next table.
    pub(crate) next_table: i64,
    /// The position of the next database.
    pub(crate) next_database: i64,
    /// How many rows, and transactions whose operations must not rest readable, have been erased
    /// since the store was opened.
    pub(crate) erased: u64,
    /// The next valid-time boundary of each table that has one.
    pub(crate) boundaries: Boundaries,
    /// What must hold over valid time.
    pub(crate) constraints: Arc<Constraints>,
    /// Whether the database names a key, so that what may hold encrypted values is sealed by it.
    pub(crate) is_sealing: bool,
    /// What the open transaction adds to the counters of tables.
    pub(crate) growth: Growth,
}

impl State {
    /// The catalogue, to be changed.
    pub(crate) fn catalogue_mut(&mut self) -> &mut Catalogue {
        Arc::make_mut(&mut self.catalogue)
    }
    /// Whether any row begins or ends by itself at the instant, or before it.
    pub(crate) fn is_due(&self, instant: Timestamp) -> bool {
        self.boundaries.values().any(|at| *at <= instant)
    }

    /// The same of the rows of a table.
    pub(crate) fn is_overdue(&self, table: TableNumber, instant: Timestamp) -> bool {
        let boundary = self.boundaries.get(&table);
        boundary.is_some_and(|at| *at <= instant)
    }

    /// Goes on from rows that are shown as of the instant. No mark to come is below it: what was
    /// shown once is not taken back by a clock that steps.
    pub(crate) fn shows(&mut self, instant: Timestamp) {
        self.horizon = self.horizon.max(Mark(instant.0 - 1));
    }
}
