//! How SQLite looks for rows, for the laws of writing.

use model::{ColumnNumber, Index, Mark, RowId, Table, Timestamp, Value};
use query::names;
use rusqlite::{params, params_from_iter};

use super::stored_rows::{SqliteRows, stored_period};
use crate::StoreError;
use crate::error::corrupt;
use crate::laws::row_search::{DueRow, DueWanted, HoldersWanted, MarkOf, RowSearch, ValueHolder};
use crate::sqlite::schema::bind::Bound;
use crate::sqlite::schema::columns::physical_field;
use crate::sqlite::schema::tables::END;

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
}

fn row_id(stored: &str) -> Result<RowId, StoreError> {
    RowId::new(stored).map_err(|error| corrupt(error.to_string()))
}

/// The bounds come first, then the values.
fn holders_sql(table: &Table, index: &Index, which: HoldersWanted) -> String {
    let now = names::now(table.number);
    let names = index.columns.iter();
    let names = names.map(|part| physical_field(table, part.field));
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
