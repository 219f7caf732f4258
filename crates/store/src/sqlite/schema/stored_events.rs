//! Changes of rows behind the cursors of events, as they are stored.

use model::{Mark, ProjectId, TableNumber};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::StoreError;
use crate::error::corrupt;
use crate::execution_queue::{ChangedRow, ChangedRows, EventCursor};

type Read<T> = Result<T, StoreError>;

/// What [`crate::StoreExecutions::changed_rows`] promises.
pub(crate) fn changed_rows(
    connection: &Connection,
    of: Option<&ProjectId>,
    limit: usize,
) -> Read<Option<ChangedRows>> {
    let mut front = connection.prepare_cached("SELECT tt, tab, id FROM event_cursor")?;
    let Some(front) = front.query_row((), cursor).optional()? else {
        return Ok(None);
    };
    let (from, until) = match of {
        None => (front, None),
        Some(project) => {
            let own = "SELECT tt, tab, id FROM event_apart WHERE project = ?1";
            let mut own = connection.prepare_cached(own)?;
            match own.query_row([project.as_str()], cursor).optional()? {
                Some(own) => (own, Some(front)),
                None => return Ok(None),
            }
        }
    };
    let rows = rows_between(connection, (&from, until.as_ref()), limit)?;
    let last = rows.last().map(|row| EventCursor {
        mark: row.mark,
        table: row.table,
        row: row.id.clone(),
    });
    let end = match until {
        Some(until) if rows.len() < limit => until,
        _ => last.unwrap_or_else(|| from.clone()),
    };
    let mut listening = connection.prepare_cached("SELECT function, tt FROM listening")?;
    let listening = listening.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Some(ChangedRows {
        cursor: from,
        rows,
        end,
        apart: apart(connection)?,
        listening: listening.collect::<Result<Vec<_>, _>>()?,
    }))
}

/// The projects that have cursors of their own, in the order of their ids.
pub(crate) fn apart(connection: &Connection) -> Read<Vec<ProjectId>> {
    let all = "SELECT project FROM event_apart ORDER BY project";
    let mut all = connection.prepare_cached(all)?;
    let mut rows = all.query(())?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        let broken = || corrupt(format!("`{id}` is no id of a project whose events wait"));
        found.push(ProjectId::new(&id).map_err(|_| broken())?);
    }
    Ok(found)
}

fn cursor(row: &Row<'_>) -> rusqlite::Result<EventCursor> {
    Ok(EventCursor {
        mark: Mark(row.get(0)?),
        table: TableNumber(row.get(1)?),
        row: row.get(2)?,
    })
}

/// The first changes behind one cursor, and not behind the other.
fn rows_between(
    connection: &Connection,
    (from, until): (&EventCursor, Option<&EventCursor>),
    limit: usize,
) -> Read<Vec<ChangedRow>> {
    let upto = match until {
        Some(_) => "AND (tt, tab, id) <= (?5, ?6, ?7)",
        None => "",
    };
    let sql = format!(
        "SELECT tt, tab, id, user FROM tx_row CROSS JOIN tx USING (tt) \
         WHERE (tt, tab, id) > (?1, ?2, ?3) {upto} ORDER BY tt, tab, id LIMIT ?4"
    );
    let mut next = connection.prepare_cached(&sql)?;
    let read = |row: &Row<'_>| {
        Ok(ChangedRow {
            mark: Mark(row.get(0)?),
            table: TableNumber(row.get(1)?),
            id: row.get(2)?,
            author: row.get(3)?,
        })
    };
    let (mark, table, count) = (from.mark.0, from.table.0, limit as i64);
    let rows = match until {
        None => next.query_map(params![mark, table, from.row, count], read)?,
        Some(until) => {
            let (last, last_table) = (until.mark.0, until.table.0);
            let bounds = params![mark, table, from.row, count, last, last_table, until.row];
            next.query_map(bounds, read)?
        }
    };
    Ok(rows.collect::<Result<Vec<_>, _>>()?)
}
