//! Where in an order a cursor's row stands.

use model::Value;
use query::{Dialect, Query, emit, field};
use rusqlite::Connection;

use crate::StoreError;
use crate::error::corrupt;
use crate::sqlite::schema::bind::Bound;
use crate::sqlite::schema::codec;

/// The cursor row's value of each key of the order, then its `$sequence`; `None` when the query
/// has no cursor.
///
/// # Errors
/// [`StoreError::CursorNotFound`], [`StoreError::CursorNull`], or what the database says.
pub(crate) fn cursor_values<E: From<rusqlite::Error> + From<StoreError>>(
    connection: &Connection,
    query: &Query,
) -> Result<Option<Vec<Value>>, E> {
    let (Some(cursor), Some(statement)) = (&query.cursor, emit::cursor_row(query, Dialect::Sqlite))
    else {
        return Ok(None);
    };
    let id = || cursor.row.clone();
    let mut prepared = connection.prepare_cached(&statement.sql)?;
    let bound = rusqlite::params_from_iter(statement.parameters.iter().map(Bound));
    let mut found = prepared.query(bound)?;
    let row = found
        .next()?
        .ok_or_else(|| StoreError::CursorNotFound { id: id() })?;
    let mut values = Vec::with_capacity(query.order.len() + 1);
    for (position, key) in query.order.iter().enumerate() {
        let storage = field::storage(&query.table, key.field);
        match codec::single(row.get_ref(position)?, storage) {
            Some(Value::Null) => return Err(StoreError::CursorNull { id: id() }.into()),
            Some(value) => values.push(value),
            None => return Err(corrupt("an order column holds another type").into()),
        }
    }
    let after = query.order.len();
    values.push(Value::Int(row.get(after)?));
    if query.frame.is_wide() {
        values.push(Value::Int(row.get(after + 1)?));
        values.push(Value::Int(row.get(after + 2)?));
    }
    Ok(Some(values))
}
