//! Changes of rows behind the cursor of events, as they are stored.

use model::{Mark, TableNumber};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::StoreError;
use crate::execution_queue::{ChangedRow, ChangedRows, EventCursor};

type Read<T> = Result<T, StoreError>;

/// The next changes, at most `limit`; `None` while no function listens.
pub(crate) fn changed_rows(connection: &Connection, limit: usize) -> Read<Option<ChangedRows>> {
    let mut cursor = connection.prepare_cached("SELECT tt, tab, id FROM event_cursor")?;
    let cursor = cursor.query_row((), |row| {
        Ok(EventCursor {
            mark: Mark(row.get(0)?),
            table: TableNumber(row.get(1)?),
            row: row.get(2)?,
        })
    });
    let Some(cursor) = cursor.optional()? else {
        return Ok(None);
    };
    let mut next = connection.prepare_cached(
        "SELECT tt, tab, id, user FROM tx_row CROSS JOIN tx USING (tt) \
         WHERE (tt, tab, id) > (?1, ?2, ?3) ORDER BY tt, tab, id LIMIT ?4",
    )?;
    let (mark, table) = (cursor.mark.0, cursor.table.0);
    let next = next.query_map(params![mark, table, cursor.row, limit as i64], |row| {
        Ok(ChangedRow {
            mark: Mark(row.get(0)?),
            table: TableNumber(row.get(1)?),
            id: row.get(2)?,
            author: row.get(3)?,
        })
    })?;
    let rows = next.collect::<Result<Vec<_>, _>>()?;
    let mut listening = connection.prepare_cached("SELECT function, tt FROM listening")?;
    let listening = listening.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Some(ChangedRows {
        cursor,
        rows,
        listening: listening.collect::<Result<Vec<_>, _>>()?,
    }))
}
