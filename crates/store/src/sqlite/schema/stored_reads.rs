//! Statements that every database runs (`store/stored`), run here.

use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, ToSql, params_from_iter};

use crate::StoreError;
use crate::stored::change::StoredChange;
use crate::stored::parameter::StoredParameter;
use crate::stored::read::StoredRead;

impl ToSql for StoredParameter {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            StoredParameter::Int(number) => number.to_sql(),
            StoredParameter::Text(text) => text.to_sql(),
            StoredParameter::Bytes(bytes) => bytes.to_sql(),
            StoredParameter::Printed(text) => text.to_sql(),
            StoredParameter::WholeBound(number) => number.to_sql(),
            StoredParameter::RealBound(number) => number.to_sql(),
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

/// Runs a change; how many rows it has changed.
pub(crate) fn change(connection: &Connection, change: &StoredChange) -> Result<usize, StoreError> {
    let mut statement = connection.prepare_cached(&change.sql)?;
    Ok(statement.execute(params_from_iter(&change.parameters))?)
}
