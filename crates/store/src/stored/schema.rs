//! What changes of a table look for: numbers that were never given, and texts that are too long.

use model::{Column, Mark, TableNumber};
use query::{Dialect, names};

use super::read::{StoredRead, join_of};
use super::row::{count, int};

/// A number that no column, or no index, of the table ever had, by the table of the catalogue that
/// has these: one row.
pub(crate) fn next_number(of: &str, table: TableNumber) -> StoredRead<u32> {
    StoredRead {
        sql: format!("SELECT coalesce(max(number), 0) + 1 FROM {of} WHERE tab = $1"),
        parameters: vec![table.0.into()],
        read: |row| count(row, 0),
    }
}

/// The table has no more versions than this: one row.
pub(crate) fn versions_at_most(table: TableNumber) -> StoredRead<i64> {
    StoredRead {
        sql: format!(
            "SELECT coalesce(max(rid), 0) FROM {}",
            names::versions(table)
        ),
        parameters: Vec::new(),
        read: |row| int(row, 0),
    }
}

/// A row if a row of now has a longer text in the column than of so many characters: any row, or
/// one that a commit after the mark has changed.
pub(crate) fn any_longer(
    dialect: Dialect,
    table: TableNumber,
    column: &Column,
    (chars_max, since): (u32, Option<Mark>),
) -> StoredRead<i64> {
    let (now, name) = (names::now(table), names::column(column.number));
    let (elements, text) = match (column.array, dialect) {
        (false, _) => (String::new(), format!("t.{name}")),
        (true, Dialect::Sqlite) => (format!(", json_each(t.{name}) AS e"), "e.value".to_owned()),
        (true, Dialect::Postgres) => (
            format!(" CROSS JOIN LATERAL unnest(t.{name}) AS e(value)"),
            "e.value".to_owned(),
        ),
    };
    let mut parameters = vec![i64::from(chars_max).into()];
    let (rows, changed) = match since {
        None => (format!("{now} AS t"), ""),
        Some(Mark(since)) => {
            parameters.extend([since.into(), table.0.into()]);
            // The few rows that were changed are to lead to the others.
            let join = join_of(dialect);
            (
                format!("tx_row AS x {join} {now} AS t ON t.id = x.id"),
                " AND x.tt > $2 AND x.tab = $3",
            )
        }
    };
    StoredRead {
        sql: format!(
            "SELECT CAST(1 AS bigint) FROM {rows}{elements} \
             WHERE length({text}) > CAST($1 AS bigint){changed} LIMIT 1"
        ),
        parameters,
        read: |row| int(row, 0),
    }
}
