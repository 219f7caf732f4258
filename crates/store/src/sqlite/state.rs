//! What the writer knows of the database, as of a commit or of the open transaction.

use std::sync::Arc;

use model::{Catalogue, Mark};
use rusqlite::{Connection, params};

use super::constraints::Constraints;
use super::sizes::Growth;
use crate::Boundaries;

/// What the writer goes on from. Cloned for each batch: what one did that halts is forgotten
/// by dropping its copy, so the copy cannot drift from what the database rolled back.
#[derive(Clone)]
pub(super) struct State {
    /// All containers.
    pub(super) catalogue: Arc<Catalogue>,
    /// The mark of the latest commit.
    pub(super) mark: Mark,
    /// The highest mark that may have been read, as far as it is on disk.
    pub(super) horizon: Mark,
    /// The dense number of the latest commit.
    pub(super) number: i64,
    /// The number of the next table.
    pub(super) next_table: i64,
    /// The position of the next database.
    pub(super) next_database: i64,
    /// How many rows, and transactions whose operations must not rest readable, have been erased
    /// since the store was opened.
    pub(super) erased: u64,
    /// The next valid-time boundary of each table that has one.
    pub(super) boundaries: Boundaries,
    /// What must hold over valid time.
    pub(super) constraints: Arc<Constraints>,
    /// Whether the database names a key, so that what may hold encrypted values is sealed by it.
    pub(super) is_sealing: bool,
    /// What the open transaction adds to the counters of tables.
    pub(super) growth: Growth,
}

impl State {
    /// The catalogue, to be changed.
    pub(super) fn catalogue_mut(&mut self) -> &mut Catalogue {
        Arc::make_mut(&mut self.catalogue)
    }

    /// Stamps snapshots from this transaction on.
    pub(super) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection
            .prepare_cached(
                "UPDATE meta SET mark = ?1, x_at = max(x_at, ?1), horizon = ?2, \
                 catalogue_epoch = ?3, next_table = ?4, next_database = ?5",
            )?
            .execute(params![
                self.mark.0,
                self.horizon.0,
                self.catalogue.epoch as i64,
                self.next_table,
                self.next_database,
            ])?;
        Ok(())
    }
}
