//! How many bytes the versions of each table hold, in a counter that each commit keeps.
//!
//! A version counts its values as they are stored, also those of columns that were dropped since,
//! and a fixed number for what stands beside them. Rows of now are copies and do not count, nor do
//! indexes and grants.
//!
//! Tables that were made before there was a counter are counted by the upkeep, in slices, in the
//! order of `rid`. Until that is over a write counts where the slices have been, and what lies
//! beyond is left to them: so each version counts once, whatever happens between two slices.

use model::{Table, TableNumber};
use query::names;
use rusqlite::{Connection, ToSql, params};

use super::columns::column_type;
use super::stored_reads;
use crate::StoreError;
use crate::laws::growth::{Growth, NUMBER_BYTES, VERSION_BYTES};
use crate::laws::slices::{SLICE_BYTES_MAX, SLICE_ROWS_MAX};
use crate::stored::usage;

/// Terms of a sum in one pair of parentheses: SQLite bounds how deep an expression may be (its
/// manual, "Limits"), and a table may have had 1,500 columns.
const TERMS_MAX: usize = 64;

/// The format that introduced them.
pub(crate) const FIRST_FORMAT: i64 = 12;

/// What the open transaction adds, of a database with these tasks left: nothing yet.
pub(crate) fn load_growth(connection: &Connection) -> Result<Growth, StoreError> {
    let mut statement = connection.prepare("SELECT tab, seq FROM upkeep WHERE task = 'count'")?;
    let left = statement.query_map((), |row| Ok((TableNumber(row.get(0)?), row.get(1)?)))?;
    Ok(Growth::of(left.collect::<Result<_, _>>()?))
}

/// Writes the counters, at the end of the transaction.
pub(crate) fn write_growth(connection: &Connection, growth: &Growth) -> Result<(), StoreError> {
    for (table, bytes) in growth.settled().filter(|(_, bytes)| *bytes != 0) {
        connection
            .prepare_cached("UPDATE table_bytes SET bytes = bytes + ?2 WHERE tab = ?1")?
            .execute(params![table.0, bytes])?;
    }
    Ok(())
}

/// Every counter.
pub(crate) fn read(
    connection: &Connection,
) -> Result<impl Iterator<Item = (TableNumber, i64)> + use<>, StoreError> {
    let found = stored_reads::all(connection, &usage::table_bytes())?;
    Ok(found.into_iter())
}

/// What a version counts, as SQL over its columns: their names, and whether each holds texts.
fn expression(columns: impl Iterator<Item = (String, bool)>) -> String {
    let terms: Vec<String> = columns
        .map(|(name, is_text)| {
            if is_text {
                format!("coalesce(octet_length({name}), 0)")
            } else {
                format!("{NUMBER_BYTES} * ({name} IS NOT NULL)")
            }
        })
        .collect();
    let sums = terms.chunks(TERMS_MAX).map(|sum| sum.join(" + "));
    let mut whole = VERSION_BYTES.to_string();
    for sum in sums {
        whole = format!("{whole} + ({sum})");
    }
    whole
}

/// What a version counts that has values in the columns of this schema alone.
pub(crate) fn of_schema(table: &Table) -> String {
    expression(table.columns.iter().map(|column| {
        let is_text = column_type(column.array, &column.kind) == "TEXT";
        (names::column(column.number), is_text)
    }))
}

/// What any version of the table counts.
pub(crate) fn of_all(connection: &Connection, table: TableNumber) -> Result<String, StoreError> {
    let sql = "SELECT name, type = 'TEXT' FROM pragma_table_info(?1) WHERE name GLOB 'c[0-9]*'";
    let mut statement = connection.prepare_cached(sql)?;
    let columns = statement.query_map([names::versions(table)], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    let columns: Vec<(String, bool)> = columns.collect::<Result<_, _>>()?;
    Ok(expression(columns.into_iter()))
}

/// What a statement says at its end that removes versions.
pub(crate) fn returning(bytes: &str) -> String {
    format!(" RETURNING rid, {bytes}, seq")
}

/// Removes versions by a statement that ends with [`returning`]; the `$sequence` of each.
pub(crate) fn remove(
    connection: &Connection,
    growth: &Growth,
    (table, sql): (TableNumber, &str),
    parameters: &[&dyn ToSql],
) -> Result<Vec<i64>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(parameters)?;
    let mut removed = Vec::new();
    while let Some(row) = rows.next()? {
        growth.removed(table, row.get(0)?, row.get(1)?);
        removed.push(row.get(2)?);
    }
    Ok(removed)
}

/// Some versions that follow each other.
pub(crate) struct Slice {
    pub(crate) last: i64,
    /// Whether there may be more behind them.
    pub(crate) is_more: bool,
    pub(crate) bytes: i64,
}

/// The next versions after `from`.
pub(crate) fn slice(
    connection: &Connection,
    table: TableNumber,
    from: i64,
) -> Result<Option<Slice>, StoreError> {
    let sql = format!(
        "SELECT rid, {} FROM {} WHERE rid > ?1 ORDER BY rid LIMIT {SLICE_ROWS_MAX}",
        of_all(connection, table)?,
        names::versions(table)
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([from])?;
    let (mut last, mut count, mut bytes) = (None, 0, 0);
    while bytes < SLICE_BYTES_MAX as i64
        && let Some(row) = rows.next()?
    {
        last = Some(row.get(0)?);
        count += 1;
        bytes += row.get::<_, i64>(1)?;
    }
    let is_more = count == SLICE_ROWS_MAX || bytes >= SLICE_BYTES_MAX as i64;
    Ok(last.map(|last| Slice {
        last,
        is_more,
        bytes,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::COLUMNS_EVER_MAX;

    #[test]
    fn versions_with_as_many_columns_as_there_may_be_are_counted() {
        let connection = Connection::open_in_memory().unwrap();
        let columns: Vec<String> = (1..=COLUMNS_EVER_MAX)
            .map(|n| format!("c{n} {}", ["TEXT", "INTEGER", "REAL"][n as usize % 3]))
            .collect();
        let make = format!(
            "CREATE TABLE t1_v (rid INTEGER PRIMARY KEY, {});
             INSERT INTO t1_v (c1, c1500, c3, c6, c9) VALUES (1, 'ab', 'ü', x'00', NULL)",
            columns.join(", ")
        );
        connection.execute_batch(&make).unwrap();
        let slice = slice(&connection, TableNumber(1), 0).unwrap().unwrap();
        let values = NUMBER_BYTES as i64 + 2 + 2 + 1;
        assert_eq!((slice.last, slice.is_more), (1, false));
        assert_eq!(slice.bytes, VERSION_BYTES + values);
    }
}
