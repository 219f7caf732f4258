//! Statements that every database runs (`store/stored`), run here.

use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, ToSql, params_from_iter};

use crate::StoreError;
use crate::stored::read::{ReadParameter, StoredRead};

impl ToSql for ReadParameter {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            ReadParameter::Int(number) => number.to_sql(),
            ReadParameter::Text(text) => text.to_sql(),
        }
    }
}

/// What all rows are.
pub(crate) fn all<T>(connection: &Connection, read: &StoredRead<T>) -> Result<Vec<T>, StoreError> {
    let mut statement = connection.prepare_cached(&read.sql)?;
    let mut rows = statement.query(params_from_iter(&read.parameters))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push((read.read)(row)?);
    }
    Ok(found)
}

/// What the first row is, if there is one.
pub(crate) fn first<T>(
    connection: &Connection,
    read: &StoredRead<T>,
) -> Result<Option<T>, StoreError> {
    let mut statement = connection.prepare_cached(&read.sql)?;
    let mut rows = statement.query(params_from_iter(&read.parameters))?;
    rows.next()?.map(|row| (read.read)(row)).transpose()
}
