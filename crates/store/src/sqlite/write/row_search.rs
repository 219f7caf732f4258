//! How SQLite looks for rows, for the laws of writing.

use std::time::Duration;

use model::{ColumnNumber, Index, Mark, RowId, Table, Timestamp, Value};
use query::{Dialect, Query, Side, emit, names};
use rusqlite::{ToSql, params, params_from_iter};

use super::stored_rows::{SqliteRows, stored_period};
use crate::StoreError;
use crate::error::corrupt;
use crate::laws::row_search::{
    DueRow, DueWanted, HoldersWanted, LinkHolders, LinksAhead, MarkOf, RowSearch, ValueHolder,
};
use crate::laws::search_time::SEARCH_MAX;
use crate::sqlite::disk::sorts;
use crate::sqlite::read::cursor::cursor_values;
use crate::sqlite::schema::bind::Bound;
use crate::sqlite::schema::tables::END;
use crate::stored::overlaps::BELIEVED_END;

impl LinksAhead for SqliteRows<'_> {
    /// It is in the same process: one search costs what it costs among many.
    fn expect_links(
        &self,
        _table: &Table,
        _column: usize,
        _ids: &[&str],
        _wanted: (usize, Option<Mark>),
    ) -> Result<(), StoreError> {
        Ok(())
    }
}

impl RowSearch for SqliteRows<'_> {
    fn value_holders(
        &self,
        table: &Table,
        index: &Index,
        values: &[Value],
        which: HoldersWanted,
    ) -> Result<Vec<ValueHolder>, StoreError> {
        let sql = holders_sql(table, index, which);
        let bounds = match which {
            HoldersWanted::Any { but } => vec![Value::Int(but)],
            HoldersWanted::DueBy { instant, but } => {
                vec![Value::Int(instant.0), Value::Int(but)]
            }
        };
        let bound = bounds.iter().chain(values).map(Bound);
        let mut statement = self.statement(&sql)?;
        let mut rows = statement.query(params_from_iter(bound))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(ValueHolder {
                id: row_id(&row.get::<_, String>(0)?)?,
                seq: row.get(1)?,
                valid: stored_period(row.get(2)?, row.get(3)?)?,
            });
        }
        Ok(found)
    }

    fn is_link_held(
        &self,
        table: &Table,
        column: ColumnNumber,
        link: &Value,
        seq: i64,
    ) -> Result<bool, StoreError> {
        let links = names::links(table.number, column);
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {links} WHERE target = ? AND seq <> ?)");
        let mut statement = self.statement(&sql)?;
        Ok(statement.query_row(params![Bound(link), seq], |row| row.get(0))?)
    }

    fn due_rows(
        &self,
        table: &Table,
        instant: Timestamp,
        which: DueWanted<'_>,
    ) -> Result<Vec<DueRow>, StoreError> {
        let mut statement = self.statement(&due_sql(table, which))?;
        let mut rows = match which {
            DueWanted::Row(id) => statement.query(params![instant.0, id])?,
            DueWanted::First(count) => {
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                statement.query(params![instant.0, count])?
            }
        };
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(DueRow {
                id: row_id(&row.get::<_, String>(0)?)?,
                seq: row.get(1)?,
            });
        }
        Ok(found)
    }

    fn last_mark(&self, table: &Table, of: MarkOf<'_>) -> Result<Option<Mark>, StoreError> {
        let texts = self.texts.of(table);
        let found: Option<i64> = match of {
            MarkOf::Versions(id) => {
                let mut statement = self.statement(&last_version_sql(table))?;
                statement.query_row(params![id], |row| row.get(0))?
            }
            MarkOf::Grants(seq) => {
                let mut statement = self.statement(&texts.grants_from)?;
                statement.query_row(params![seq], |row| row.get(0))?
            }
            MarkOf::Rebirth(seq) => {
                let mut statement = self.statement(&texts.reborn_at)?;
                statement.query_row(params![seq], |row| row.get(0))?
            }
        };
        Ok(found.map(Mark))
    }

    fn has_changed(
        &self,
        table: &Table,
        (id, seq): (&str, i64),
        (after, before): (Mark, Mark),
    ) -> Result<bool, StoreError> {
        let mut statement = self.statement(&has_changed_sql(table))?;
        let parameters = params![id, after.0, before.0, seq];
        Ok(statement.query_row(parameters, |row| row.get(0))?)
    }

    fn link_holders(
        &self,
        table: &Table,
        column: usize,
        id: &str,
        which: LinkHolders,
    ) -> Result<Vec<RowId>, StoreError> {
        let sql = link_holders_sql(table, column, which);
        match which {
            LinkHolders::Now { count_max } => self.ids(&sql, params![id, count_max as i64]),
            LinkHolders::ToCome { after, count_max } => {
                self.ids(&sql, params![id, count_max as i64, after.0])
            }
            LinkHolders::Within {
                valid,
                count_max,
                time_max,
            } => {
                let (from, end) = (valid.from().0, valid.end().0);
                let parameters = params![id, count_max as i64, from, end];
                let found = self
                    .deadline
                    .within(time_max, || self.ids(&sql, parameters));
                found.map_err(stopped)
            }
        }
    }

    fn matching(
        &self,
        query: &Query,
        walks: bool,
        time_max: Duration,
    ) -> Result<Vec<(i64, RowId)>, StoreError> {
        let search = || sorts::bounded(self.connection, || self.search(query, walks))?;
        self.deadline.within(time_max, search).map_err(stopped)
    }

    fn last_shown(&self, table: &Table) -> Result<i64, StoreError> {
        let now = names::now(table.number);
        let sql = format!("SELECT coalesce(max(seq), 0) FROM {now}");
        let mut statement = self.statement(&sql)?;
        Ok(statement.query_row((), |row| row.get(0))?)
    }
}

impl SqliteRows<'_> {
    fn search(&self, query: &Query, walks: bool) -> Result<Vec<(i64, RowId)>, StoreError> {
        let statement = if walks {
            emit::walk(query, Dialect::Sqlite)
        } else {
            let cursor = cursor_values::<StoreError>(self.connection, query)?;
            emit::rows(query, cursor.as_deref(), Dialect::Sqlite)
        };
        // Not kept: the writer keeps statements by their number, and this text is a client's.
        let mut prepared = self.connection.prepare(&statement.sql)?;
        let bound = rusqlite::params_from_iter(statement.parameters.iter().map(Bound));
        let mut rows = prepared.query(bound)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let id: String = row.get(1)?;
            let id = row_id(&id)?;
            found.push((row.get(0)?, id));
        }
        let is_reversed = |cursor: &query::Cursor| cursor.side == Side::Before;
        if query.cursor.as_ref().is_some_and(is_reversed) {
            found.reverse();
        }
        Ok(found)
    }

    fn ids(&self, sql: &str, parameters: &[&dyn ToSql]) -> Result<Vec<RowId>, StoreError> {
        let mut statement = self.statement(sql)?;
        let mut rows = statement.query(parameters)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(row_id(&row.get::<_, String>(0)?)?);
        }
        Ok(found)
    }
}

/// What a search that failed means: only the deadline interrupts the connection that writes.
fn stopped(error: StoreError) -> StoreError {
    match error {
        StoreError::Interrupted => StoreError::Timeout {
            limit_ms: SEARCH_MAX.as_millis() as u64,
        },
        other => other,
    }
}

pub(super) fn row_id(stored: &str) -> Result<RowId, StoreError> {
    RowId::new(stored).map_err(|error| corrupt(error.to_string()))
}

/// The bounds come first, then the values.
fn holders_sql(table: &Table, index: &Index, which: HoldersWanted) -> String {
    let now = names::now(table.number);
    let names = index.columns.iter();
    let names = names.map(|part| names::field(table, part.field));
    let test: String = names
        .flat_map(|name| [" AND n.".to_owned(), name, " = ?".to_owned()])
        .collect();
    let row = "SELECT n.id, n.seq, n.vf, n.vt";
    match which {
        HoldersWanted::Any { .. } => {
            format!("{row} FROM {now} AS n WHERE n.seq <> ?{test} LIMIT 1")
        }
        HoldersWanted::DueBy { .. } => {
            let schedule = names::schedule(table.number);
            format!(
                "{row} FROM {now} AS n JOIN {schedule} AS s ON s.id = n.id \
                 WHERE s.at <= ? AND n.seq <> ?{test}"
            )
        }
    }
}

/// `?1` is the instant, `?2` what bounds them.
fn due_sql(table: &Table, which: DueWanted<'_>) -> String {
    let which = match which {
        DueWanted::Row(_) => "AND s.id = ?2",
        DueWanted::First(_) => "ORDER BY s.at LIMIT ?2",
    };
    format!(
        "SELECT s.id, (SELECT seq FROM {versions} AS v INDEXED BY {known} \
           WHERE v.id = s.id AND v.st = {END} AND v.twin = 0 LIMIT 1) \
         FROM {schedule} AS s WHERE s.at <= ?1 {which}",
        versions = names::versions(table.number),
        known = names::known_index(table.number),
        schedule = names::schedule(table.number),
    )
}

/// `?1` is the id.
fn last_version_sql(table: &Table) -> String {
    let versions = names::versions(table.number);
    let known = |column: &str| format!("CASE {column} WHEN {END} THEN sf ELSE {column} END");
    format!(
        "SELECT max(max(sf, {}, {})) FROM {versions} WHERE id = ?1 AND twin = 0",
        known("cut_tt"),
        known("st")
    )
}

/// `?1` is the id, `?4` the `$sequence`; `?2` and `?3` are the marks.
fn has_changed_sql(table: &Table) -> String {
    let since = |column: &str| format!("({column} > ?2 AND {column} < ?3)");
    format!(
        "SELECT EXISTS (SELECT 1 FROM {} WHERE id = ?1 AND twin = 0 AND ({} OR {} OR {})) \
         OR EXISTS (SELECT 1 FROM {} WHERE seq = ?4 AND ({} OR {}))",
        names::versions(table.number),
        since("sf"),
        since("cut_tt"),
        since("st"),
        names::grants(table.number),
        since("sf"),
        since("st"),
    )
}

/// `?1` is the id of the row that links lead to, `?2` how many are wanted; then what bounds them.
fn link_holders_sql(table: &Table, column: usize, which: LinkHolders) -> String {
    let number = table.number;
    let (now, versions) = (names::now(number), names::versions(number));
    let definition = &table.columns[column];
    let name = names::column(definition.number);
    let holds = if definition.array {
        format!("EXISTS (SELECT 1 FROM json_each(t.{name}) WHERE value = ?1)")
    } else {
        format!("t.{name} = ?1")
    };
    match which {
        LinkHolders::Now { .. } if table.has_links_table(column) => {
            let links = names::links(number, definition.number);
            format!(
                "SELECT id FROM {now} WHERE seq IN (SELECT seq FROM {links} WHERE target = ?1) \
                 LIMIT ?2"
            )
        }
        LinkHolders::Now { .. } => format!("SELECT id FROM {now} WHERE {name} = ?1 LIMIT ?2"),
        LinkHolders::ToCome { .. } => {
            let schedule = names::schedule(number);
            format!(
                "SELECT DISTINCT t.id FROM {schedule} AS s JOIN {versions} AS t ON t.id = s.id \
                 WHERE t.st = {END} AND t.twin = 0 AND t.vf > ?3 AND {holds} LIMIT ?2"
            )
        }
        LinkHolders::Within { .. } => format!(
            "SELECT t.id FROM {versions} AS t WHERE t.twin = 0 AND t.st = {END} AND t.vf < ?4 \
             AND {BELIEVED_END} > ?3 AND {holds} \
             UNION SELECT t.id FROM {now} AS t WHERE t.twin = 1 AND t.vf < ?4 AND {holds} \
             LIMIT ?2"
        ),
    }
}
