//! What is stored of tables beside their rows: what must hold over valid time, and when rows were
//! erased.

use model::{Mark, TableNumber};
use query::Dialect;

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
