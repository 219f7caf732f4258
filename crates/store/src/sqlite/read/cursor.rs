//! Where in an order a cursor's row stands.

use model::Value;
use query::{Dialect, Query, emit, field};
use rusqlite::Connection;

use crate::StoreError;
use crate::error::corrupt;
use crate::list_read;
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
    let mut prepared = connection.prepare_cached(&statement.sql)?;
    let bound = rusqlite::params_from_iter(statement.parameters.iter().map(Bound));
    let mut found = prepared.query(bound)?;
    let row = found.next()?.ok_or_else(|| StoreError::CursorNotFound {
        id: cursor.row.clone(),
    })?;
    let values = list_read::cursor_place(query, cursor, |position, of| {
        let Some(of) = of else {
            return Ok::<_, E>(Value::Int(row.get(position)?));
        };
        let value = codec::single(row.get_ref(position)?, field::storage(&query.table, of));
        Ok(value.ok_or_else(|| corrupt("an order column holds another type"))?)
    })?;
    Ok(Some(values))
}
