//! Constraints over valid time as they are stored, and how they are looked for.

use model::{Table, TableNumber};
use rusqlite::Connection;

use crate::StoreError;
use crate::batch::Constraint;
use crate::laws::constraints::Constraints;
use crate::stored::keys_over_time;
use crate::stored_constraint;

/// Tests that the columns of a key equal the parameters from the one of number `first` on. An index
/// that an earlier version has made holds whole texts, and is found by those.
pub(crate) fn key_tests(table: &Table, key: &[usize], first: usize) -> String {
    keys_over_time::tests(table, key, |nth| format!("?{}", first + nth))
}

/// All constraints, as they are stored.
pub(crate) fn load(connection: &Connection) -> Result<Constraints, StoreError> {
    let mut found = Constraints::default();
    for (table, _, constraint) in stored(connection, None)? {
        found.add(table, constraint);
    }
    Ok(found)
}

/// Constraints with their tables, and their places there, in the order of both.
pub(crate) fn stored(
    connection: &Connection,
    table: Option<TableNumber>,
) -> Result<Vec<(TableNumber, i64, Constraint)>, StoreError> {
    let sql = "SELECT tab, kind, place, columns, related FROM over_time \
               WHERE tab = coalesce(?1, tab) ORDER BY tab, place";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([table.map(|table| table.0)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (kind, columns): (String, String) = (row.get(1)?, row.get(3)?);
        let constraint = stored_constraint::read(&kind, &columns, row.get(4)?)?;
        found.push((TableNumber(row.get(0)?), row.get(2)?, constraint));
    }
    Ok(found)
}
