//! Constraints over valid time as they are stored, and the indexes behind them.

use model::{Column, Storage, Table, TableNumber};
use query::names;
use rusqlite::Connection;

use crate::StoreError;
use crate::batch::Constraint;
use crate::laws::constraints::Constraints;
use crate::stored_constraint;

/// Characters that the index behind a key holds of its texts, all together. At four bytes each an
/// entry is no longer than what SQLite keeps beside others in a page (decision 0016).
const HELD_CHARS: u32 = 240;

/// Each column of a key, and of a text how many characters the index behind the key holds.
pub(crate) fn held(table: &Table, key: &[usize]) -> Vec<(String, Option<u32>)> {
    let columns = || key.iter().map(|position| &table.columns[*position]);
    let is_text = |column: &&Column| column.kind.storage() == Storage::Text;
    let chars = HELD_CHARS / (columns().filter(is_text).count() as u32).max(1);
    let held = |column: &Column| {
        let held = is_text(&column).then_some(chars);
        (names::column(column.number), held)
    };
    columns().map(held).collect()
}

/// The beginnings of the texts of a key, as its index holds them.
pub(crate) fn beginnings(table: &Table, key: &[usize]) -> Vec<String> {
    let columns = held(table, key).into_iter();
    let beginning = |(name, held): (String, Option<u32>)| Some(names::beginning(&name, held?));
    columns.filter_map(beginning).collect()
}

/// Tests that the columns of a key equal the parameters from the one of number `first` on. A text
/// is tested twice: its beginning finds the entries of the index, and all of it decides. An index
/// that an earlier version has made holds whole texts, and is found by those.
pub(crate) fn key_tests(table: &Table, key: &[usize], first: usize) -> String {
    let tests = held(table, key).into_iter().zip(first..);
    let test = |((name, held), number): ((String, Option<u32>), usize)| {
        let value = format!("?{number}");
        let whole = format!(" AND {name} = {value}");
        let Some(chars) = held else {
            return whole;
        };
        let [of_column, of_value] = [&name, &value].map(|of| names::beginning(of, chars));
        format!(" AND {of_column} = {of_value}{whole}")
    };
    tests.map(test).collect()
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
