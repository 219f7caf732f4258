//! How the values of columns are written and read: as they are, or sealed where the column is
//! encrypted. Rows of a table with an encrypted column keep no body, which would hold its values.

use std::borrow::Cow;
use std::sync::Arc;

use model::{Column, Table, TableNumber, Value};
use rusqlite::types::{Null, ValueRef};
use rusqlite::{Row, Statement};

use super::bind::Bound;
use super::codec;
use super::row_sql::UnchangedColumns;
use crate::json_value::json_text;
use crate::laws::body::body_to_keep;
use crate::laws::damaged::{Damaged, SealedValue};
use crate::laws::growth::NUMBER_BYTES;
use crate::vault::{Place, Vault};
use crate::{EncodeRow, StoreError};

/// Binds what cannot be opened in the place of the nulls that stood for it; `first`, and what is
/// returned, are as in [`Coding::bind`].
pub(crate) fn bind_damaged(
    damaged: &Damaged,
    statement: &mut Statement<'_>,
    first: usize,
) -> rusqlite::Result<usize> {
    let mut bytes = 0;
    for (position, sealed) in damaged.sealed() {
        bytes += sealed.bytes().len();
        match sealed {
            SealedValue::Bytes(sealed) => statement.raw_bind_parameter(first + position, sealed)?,
            SealedValue::Text(text) => statement.raw_bind_parameter(first + position, text)?,
        }
    }
    Ok(bytes)
}

/// As it stands there. A column of texts keeps no numbers, and a text that is none was never
/// sealed, as an empty blob was not.
fn kept_as_it_is(stored: ValueRef<'_>) -> SealedValue {
    match stored {
        ValueRef::Blob(bytes) => SealedValue::Bytes(bytes.to_vec()),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => SealedValue::Text(text.to_owned()),
            Err(_) => SealedValue::Bytes(Vec::new()),
        },
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => SealedValue::Bytes(Vec::new()),
    }
}

/// See [`Coding::value`].
pub(crate) fn open_value(
    vault: &Vault,
    stored: ValueRef<'_>,
    (table, column, row): (TableNumber, &Column, &str),
) -> Result<Value, StoreError> {
    if !column.encrypt || stored == ValueRef::Null {
        return codec::value(stored, column);
    }
    let sealed = match stored {
        ValueRef::Blob(sealed) => sealed,
        // Not empty text: a value that was never sealed is none of ours.
        _ => &[],
    };
    vault.open_value(sealed, (table, column, row))
}

/// What is needed for writing and reading values.
#[derive(Clone)]
pub(crate) struct Coding {
    pub(crate) encode_row: EncodeRow,
    pub(crate) vault: Arc<Vault>,
    /// The key of variables of functions.
    pub(crate) variables: Arc<Vault>,
}

impl Coding {
    /// What the column holds in the row of this id.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when the database holds what the column cannot have been given;
    /// [`StoreError::SealBroken`] when it holds what was not sealed there.
    pub(crate) fn value(
        &self,
        stored: ValueRef<'_>,
        (table, column, row): (TableNumber, &Column, &str),
    ) -> Result<Value, StoreError> {
        open_value(&self.vault, stored, (table, column, row))
    }

    /// The values of all columns, which stand side by side from `first` on.
    pub(crate) fn values(
        &self,
        found: &Row<'_>,
        first: usize,
        (table, row): (&Table, &str),
    ) -> Result<Vec<Value>, StoreError> {
        let (values, damaged) = self.values_found(found, first, (table, row))?;
        damaged.need_none()?;
        Ok(values)
    }

    /// The same for what moves or removes rows without looking at what is encrypted: a value that
    /// cannot be opened is null here, and stands beside.
    pub(crate) fn values_found(
        &self,
        found: &Row<'_>,
        first: usize,
        (table, row): (&Table, &str),
    ) -> Result<(Vec<Value>, Damaged), StoreError> {
        let mut values = Vec::with_capacity(table.columns.len());
        let mut damaged = Damaged::default();
        for (position, column) in table.columns.iter().enumerate() {
            let stored = found.get_ref(first + position)?;
            let value = self.value(stored, (table.number, column, row));
            values.push(match value {
                Err(error @ StoreError::SealBroken { .. }) => {
                    damaged.add(position, kept_as_it_is(stored), error);
                    Value::Null
                }
                value => value?,
            });
        }
        Ok((values, damaged))
    }

    /// Binds the values of all columns, from the parameter `first` on; how many bytes they are, as
    /// the counters of tables have it (`sizes.rs`).
    pub(crate) fn bind(
        &self,
        statement: &mut Statement<'_>,
        first: usize,
        (table, row): (&Table, &str),
        values: &[Value],
    ) -> Result<usize, StoreError> {
        self.bind_without(
            UnchangedColumns::NONE,
            statement,
            first,
            (table, row),
            values,
        )
    }

    /// The same, of a statement that lacks some columns.
    pub(crate) fn bind_without(
        &self,
        left_out: UnchangedColumns,
        statement: &mut Statement<'_>,
        first: usize,
        (table, row): (&Table, &str),
        values: &[Value],
    ) -> Result<usize, StoreError> {
        let mut bytes = 0;
        for (position, (column, value)) in table.columns.iter().zip(values).enumerate() {
            if left_out.has(position) {
                continue;
            }
            let at = first + position;
            let plain = match value {
                Value::Text(text) => Cow::Borrowed(&**text),
                Value::List(_) => Cow::Owned(json_text(value)),
                Value::Null => {
                    statement.raw_bind_parameter(at, Null)?;
                    continue;
                }
                number => {
                    bytes += NUMBER_BYTES;
                    statement.raw_bind_parameter(at, Bound(number))?;
                    continue;
                }
            };
            if !column.encrypt {
                bytes += plain.len();
                statement.raw_bind_parameter(at, &*plain)?;
                continue;
            }
            let place = Place::Value {
                table: table.number,
                column: column.number,
                row,
            };
            let sealed = self.vault.seal(place, plain.as_bytes())?;
            bytes += sealed.len();
            statement.raw_bind_parameter(at, sealed)?;
        }
        Ok(bytes)
    }

    /// The row's columns as readers copy them, unless that is too large to be kept, or must not be.
    pub(crate) fn body(&self, table: &Table, values: &[Value]) -> Option<Box<[u8]>> {
        body_to_keep(self.encode_row, table, values)
    }
}
