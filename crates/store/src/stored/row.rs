//! Rows of tables that every database has, as each gives them in its own way.

use model::{ModelError, Timestamp};

use crate::StoreError;
use crate::error::corrupt;

pub(crate) type Read<T> = Result<T, StoreError>;

/// What a row has in one column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum StoredCell<'r> {
    Null,
    Int(i64),
    Float(f64),
    Text(&'r str),
    Bytes(&'r [u8]),
}

/// A row of a table that both databases have, as one of them gives it.
pub(crate) trait StoredRow {
    /// # Errors
    /// When it has something else there, or not so many columns.
    fn cell(&self, position: usize) -> Read<StoredCell<'_>>;
}

pub(crate) fn id<T>(
    row: &dyn StoredRow,
    position: usize,
    new: impl Fn(&str) -> Result<T, ModelError>,
) -> Read<T> {
    new(text(row, position)?).map_err(|error| corrupt(error.to_string()))
}

pub(crate) fn other(cell: StoredCell<'_>) -> StoreError {
    corrupt(format!("a table of the store holds {cell:?}"))
}

pub(crate) fn maybe_int(row: &dyn StoredRow, position: usize) -> Read<Option<i64>> {
    match row.cell(position)? {
        StoredCell::Null => Ok(None),
        StoredCell::Int(number) => Ok(Some(number)),
        cell => Err(other(cell)),
    }
}

pub(crate) fn int(row: &dyn StoredRow, position: usize) -> Read<i64> {
    maybe_int(row, position)?.ok_or_else(|| other(StoredCell::Null))
}

pub(crate) fn count(row: &dyn StoredRow, position: usize) -> Read<u32> {
    let number = int(row, position)?;
    u32::try_from(number).map_err(|_| other(StoredCell::Int(number)))
}

pub(crate) fn flag(row: &dyn StoredRow, position: usize) -> Read<bool> {
    Ok(int(row, position)? != 0)
}

pub(crate) fn instant(row: &dyn StoredRow, position: usize) -> Read<Timestamp> {
    int(row, position).map(Timestamp)
}

pub(crate) fn text(row: &dyn StoredRow, position: usize) -> Read<&str> {
    match row.cell(position)? {
        StoredCell::Text(text) => Ok(text),
        cell => Err(other(cell)),
    }
}

pub(crate) fn string(row: &dyn StoredRow, position: usize) -> Read<String> {
    text(row, position).map(str::to_owned)
}
