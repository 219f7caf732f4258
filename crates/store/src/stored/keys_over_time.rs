//! The indexes behind what must hold over valid time, which have one text for every database.

use model::{Column, Storage, Table, TableNumber, Timestamp};
use query::names;

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

/// The columns of a key in the order of its index: the beginnings of texts first, so that no more
/// is sorted than has one beginning.
pub(crate) fn in_order(table: &Table, key: &[usize]) -> Vec<String> {
    let held = held(table, key);
    let beginning = |(name, held): &(String, Option<u32>)| Some(names::beginning(name, (*held)?));
    let beginnings: Vec<String> = held.iter().filter_map(beginning).collect();
    let whole = held.into_iter().map(|(name, _)| name);
    beginnings.into_iter().chain(whole).collect()
}

/// Tests that the columns of a key equal values, of which each is written as `value` says. A text
/// is tested twice: its beginning finds the entries of the index, and all of it decides.
pub(crate) fn tests(table: &Table, key: &[usize], value: impl Fn(usize) -> String) -> String {
    let test = |(nth, (name, held)): (usize, (String, Option<u32>))| {
        let value = value(nth);
        let whole = format!(" AND {name} = {value}");
        let Some(chars) = held else {
            return whole;
        };
        let [of_column, of_value] = [&name, &value].map(|of| names::beginning(of, chars));
        format!(" AND {of_column} = {of_value}{whole}")
    };
    held(table, key).into_iter().enumerate().map(test).collect()
}

/// The statement that makes the index behind the constraint at this place.
pub(crate) fn create_index(table: &Table, key: &[usize], place: i64) -> String {
    let terms = held(table, key).into_iter().map(|(name, held)| match held {
        None => name,
        Some(chars) => names::beginning(&name, chars),
    });
    format!(
        "CREATE INDEX {} ON {} ({}, vf) WHERE st = {};",
        names::constraint_index(table.number, place),
        names::versions(table.number),
        terms.collect::<Vec<_>>().join(", "),
        Timestamp::END.0
    )
}

/// The statement that drops it.
pub(crate) fn drop_index(table: TableNumber, place: i64) -> String {
    format!(
        "DROP INDEX IF EXISTS {};",
        names::constraint_index(table, place)
    )
}
