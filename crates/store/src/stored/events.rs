//! Changes of rows behind the cursors of events, as they are stored. What they are read by stands
//! here one by one: a database reads all of it on one snapshot.

use model::{Mark, ProjectId, TableNumber};
use query::Dialect;

use super::change::StoredChange;
use super::parameter::StoredParameter;
use super::read::{StoredRead, join_of};
use super::row::{Read, StoredCell, StoredRow, int, other, string, text};
use crate::error::corrupt;
use crate::execution_queue::{ChangedRow, ChangedRows, EventCursor};

/// The cursor of all projects that have none of their own; absent while no function listens.
pub(crate) fn front() -> StoredRead<EventCursor> {
    StoredRead {
        sql: "SELECT tt, tab, id FROM event_cursor".to_owned(),
        parameters: Vec::new(),
        read: cursor,
    }
}

/// The cursor of a project's own.
pub(crate) fn own(project: &ProjectId) -> StoredRead<EventCursor> {
    StoredRead {
        sql: "SELECT tt, tab, id FROM event_apart WHERE project = $1".to_owned(),
        parameters: vec![project.as_str().into()],
        read: cursor,
    }
}

/// The projects that have cursors of their own, in the order of their ids.
pub(crate) fn apart() -> StoredRead<ProjectId> {
    StoredRead {
        sql: "SELECT project FROM event_apart ORDER BY project".to_owned(),
        parameters: Vec::new(),
        read: |row| {
            let id = text(row, 0)?;
            let broken = || corrupt(format!("`{id}` is no id of a project whose events wait"));
            ProjectId::new(id).map_err(|_| broken())
        },
    }
}

/// The functions that listen, by their numbers, and the marks behind which they do.
pub(crate) fn listening() -> StoredRead<(i64, i64)> {
    StoredRead {
        sql: "SELECT function, tt FROM listening ORDER BY function".to_owned(),
        parameters: Vec::new(),
        read: |row| Ok((int(row, 0)?, int(row, 1)?)),
    }
}

fn cursor(row: &dyn StoredRow) -> Read<EventCursor> {
    Ok(EventCursor {
        mark: Mark(int(row, 0)?),
        table: TableNumber(int(row, 1)?),
        row: string(row, 2)?,
    })
}

/// Which changes are looked at: the first ones behind one cursor, and not behind the other.
pub(crate) struct ChangesBetween {
    pub(crate) from: EventCursor,
    pub(crate) until: Option<EventCursor>,
    pub(crate) limit: usize,
}

impl ChangesBetween {
    pub(crate) fn rows(&self, dialect: Dialect) -> StoredRead<ChangedRow> {
        let (upto, limit) = match &self.until {
            Some(_) => ("AND (tt, tab, id) <= ($4, $5, $6)", 7),
            None => ("", 4),
        };
        let sql = format!(
            "SELECT tt, tab, id, \"user\" FROM tx_row {} tx USING (tt) \
             WHERE (tt, tab, id) > ($1, $2, $3) {upto} ORDER BY tt, tab, id LIMIT ${limit}",
            join_of(dialect)
        );
        let bounds = std::iter::once(&self.from).chain(&self.until);
        let mut parameters: Vec<StoredParameter> = bounds.flat_map(place).collect();
        parameters.push((self.limit as i64).into());
        StoredRead {
            sql,
            parameters,
            read: changed_row,
        }
    }

    /// The answer, from the rows that were found.
    pub(crate) fn changed(
        self,
        rows: Vec<ChangedRow>,
        apart: Vec<ProjectId>,
        listening: Vec<(i64, i64)>,
    ) -> ChangedRows {
        let last = rows.last().map(|row| EventCursor {
            mark: row.mark,
            table: row.table,
            row: row.id.clone(),
        });
        let end = match self.until {
            Some(until) if rows.len() < self.limit => until,
            _ => last.unwrap_or_else(|| self.from.clone()),
        };
        ChangedRows {
            cursor: self.from,
            rows,
            end,
            apart,
            listening,
        }
    }
}

fn changed_row(row: &dyn StoredRow) -> Read<ChangedRow> {
    Ok(ChangedRow {
        mark: Mark(int(row, 0)?),
        table: TableNumber(int(row, 1)?),
        id: string(row, 2)?,
        author: match row.cell(3)? {
            StoredCell::Null => None,
            StoredCell::Text(author) => Some(author.to_owned()),
            cell => return Err(other(cell)),
        },
    })
}

/// Moves the cursor of all projects that have none of their own, if it is where it is thought.
pub(crate) fn move_front(from: &EventCursor, to: &EventCursor) -> StoredChange {
    StoredChange::new(
        "UPDATE event_cursor SET tt = $1, tab = $2, id = $3 WHERE tt = $4 AND tab = $5 AND id = $6",
        [place(to), place(from)].concat(),
    )
}

/// Moves the cursor of a project's own, if it is where it is thought.
pub(crate) fn move_own(of: &ProjectId, from: &EventCursor, to: &EventCursor) -> StoredChange {
    let mut parameters = [place(to), place(from)].concat();
    parameters.push(of.as_str().into());
    StoredChange::new(
        "UPDATE event_apart SET tt = $1, tab = $2, id = $3 \
         WHERE tt = $4 AND tab = $5 AND id = $6 AND project = $7",
        parameters,
    )
}

/// Ends the cursor of a project's own where it has reached that of the rest.
pub(crate) fn join(of: &ProjectId) -> StoredChange {
    StoredChange::new(
        "DELETE FROM event_apart WHERE project = $1 AND \
         (tt, tab, id) >= (SELECT tt, tab, id FROM event_cursor)",
        [of.as_str().into()],
    )
}

/// Gives a project a cursor of its own.
pub(crate) fn set_apart(of: &ProjectId, at: &EventCursor) -> StoredChange {
    let mut parameters = vec![of.as_str().into()];
    parameters.extend(place(at));
    let sql = "INSERT INTO event_apart (project, tt, tab, id) VALUES ($1, $2, $3, $4)";
    StoredChange::new(sql, parameters)
}

/// Lets the cursor of all projects begin behind this commit.
pub(crate) fn begin_front(mark: Mark) -> StoredChange {
    StoredChange::new(
        "INSERT INTO event_cursor (one, tt, tab, id) VALUES (1, $1, $2, '') \
         ON CONFLICT (one) DO UPDATE SET tt = excluded.tt, tab = excluded.tab, id = excluded.id",
        [mark.0.into(), i64::MAX.into()],
    )
}

/// Ends all cursors.
pub(crate) fn end_all() -> [StoredChange; 2] {
    ["DELETE FROM event_cursor", "DELETE FROM event_apart"]
        .map(|sql| StoredChange::new(sql, Vec::new()))
}

/// Lets a function listen from this commit on.
pub(crate) fn listen(function: i64, mark: Mark) -> StoredChange {
    StoredChange::new(
        "INSERT INTO listening (function, tt) VALUES ($1, $2) \
         ON CONFLICT (function) DO UPDATE SET tt = excluded.tt",
        [function.into(), mark.0.into()],
    )
}

/// Lets a function listen no more.
pub(crate) fn listen_no_more(function: i64) -> StoredChange {
    let sql = "DELETE FROM listening WHERE function = $1";
    StoredChange::new(sql, [function.into()])
}

/// One function that listens.
pub(crate) fn any_listening() -> StoredRead<i64> {
    StoredRead {
        sql: "SELECT function FROM listening LIMIT 1".to_owned(),
        parameters: Vec::new(),
        read: |row| int(row, 0),
    }
}

fn place(EventCursor { mark, table, row }: &EventCursor) -> [StoredParameter; 3] {
    [mark.0.into(), table.0.into(), row.as_str().into()]
}
