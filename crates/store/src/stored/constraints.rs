//! What is stored of tables beside their rows: what must hold over valid time, and when rows were
//! erased.

use model::{Mark, TableNumber};
use query::Dialect;

use super::change::StoredChange;
use super::read::{StoredRead, numbers_of};
use super::row::{int, maybe_int, text};
use crate::batch::{Constraint, TableConstraints};
use crate::stored_constraint;

/// The constraints of a table, in their order.
pub(crate) fn of_table(table: TableNumber) -> StoredRead<Constraint> {
    StoredRead {
        sql: "SELECT kind, columns, related FROM over_time WHERE tab = $1 ORDER BY place"
            .to_owned(),
        parameters: vec![table.0.into()],
        read: |row| stored_constraint::read(text(row, 0)?, text(row, 1)?, maybe_int(row, 2)?),
    }
}

/// The same, each with its place.
pub(crate) fn placed(table: TableNumber) -> StoredRead<(i64, Constraint)> {
    StoredRead {
        sql: "SELECT place, kind, columns, related FROM over_time WHERE tab = $1 ORDER BY place"
            .to_owned(),
        parameters: vec![table.0.into()],
        read: |row| {
            let (kind, columns) = (text(row, 1)?, text(row, 2)?);
            let constraint = stored_constraint::read(kind, columns, maybe_int(row, 3)?)?;
            Ok((int(row, 0)?, constraint))
        },
    }
}

/// The place of a further constraint of the table: one row.
pub(crate) fn next_place(table: TableNumber) -> StoredRead<i64> {
    StoredRead {
        sql: "SELECT coalesce(max(place) + 1, 0) FROM over_time WHERE tab = $1".to_owned(),
        parameters: vec![table.0.into()],
        read: |row| int(row, 0),
    }
}

/// Gives the table a constraint at this place.
pub(crate) fn add(table: TableNumber, place: i64, constraint: &Constraint) -> StoredChange {
    let (kind, columns, related) = match constraint {
        Constraint::Unique(columns) => ("unique", columns.clone(), None),
        Constraint::Ref(column, to) => ("ref", vec![*column], Some(to.0)),
    };
    let numbers: Vec<String> = columns.iter().map(|column| column.0.to_string()).collect();
    StoredChange::new(
        "INSERT INTO over_time (tab, kind, place, columns, related) VALUES ($1, $2, $3, $4, $5)",
        vec![
            table.0.into(),
            kind.into(),
            place.into(),
            numbers.join(",").into(),
            related.into(),
        ],
    )
}

/// Takes the one at this place away.
pub(crate) fn remove(table: TableNumber, place: i64) -> StoredChange {
    StoredChange::new(
        "DELETE FROM over_time WHERE tab = $1 AND place = $2",
        vec![table.0.into(), place.into()],
    )
}

/// The constraints, all together.
pub(crate) fn together(found: Vec<Constraint>) -> TableConstraints {
    let mut all = TableConstraints::default();
    for constraint in found {
        all.add(constraint);
    }
    all
}

/// The tables that references join with one: from table to table, in either direction.
pub(crate) fn referring(table: TableNumber) -> StoredRead<TableNumber> {
    let sql = "WITH RECURSIVE joined(tab) AS (SELECT CAST($1 AS bigint) UNION \
               SELECT CASE o.tab WHEN joined.tab THEN o.related ELSE o.tab END \
               FROM joined JOIN over_time AS o ON o.related = joined.tab OR o.tab = joined.tab \
               WHERE o.related IS NOT NULL) SELECT tab FROM joined";
    StoredRead {
        sql: sql.to_owned(),
        parameters: vec![table.0.into()],
        read: |row| Ok(TableNumber(int(row, 0)?)),
    }
}

/// The mark of the last commit that erased a row of one of these tables, if any did: one row.
pub(crate) fn last_erasure(dialect: Dialect, tables: &[TableNumber]) -> StoredRead<Option<Mark>> {
    let numbers: Vec<i64> = tables.iter().map(|table| table.0).collect();
    let numbers = serde_json::json!(numbers).to_string();
    StoredRead {
        sql: format!(
            "SELECT max(tt) FROM erasure WHERE tab IN {}",
            numbers_of(dialect, 1)
        ),
        parameters: vec![numbers.as_str().into()],
        read: |row| Ok(maybe_int(row, 0)?.map(Mark)),
    }
}
