//! What the writer knows of the database, as it is stored.

use rusqlite::{Connection, params};

use crate::laws::state::State;

/// Stamps snapshots from this transaction on.
pub(crate) fn write(connection: &Connection, state: &State) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE meta SET mark = ?1, x_at = max(x_at, ?1), horizon = ?2, \
             catalogue_epoch = ?3, next_table = ?4, next_database = ?5",
        )?
        .execute(params![
            state.mark.0,
            state.horizon.0,
            state.catalogue.epoch as i64,
            state.next_table,
            state.next_database,
        ])?;
    Ok(())
}
