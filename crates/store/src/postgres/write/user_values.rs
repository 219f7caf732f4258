//! The values of columns of users, as the writer reads and writes them: those of encrypted columns
//! are sealed in the database alone.

use std::borrow::Cow;

use model::{Column, Table, TableNumber, Value};
use tokio_postgres::Row;

use crate::StoreError;
use crate::json_value::json_text;
use crate::laws::damaged::{Damaged, SealedValue};
use crate::postgres::cells;
use crate::vault::{Place, SEAL_BYTES, Vault};

/// What is written of one row.
pub(super) struct ValuesOfRow<'a> {
    pub(super) id: &'a str,
    /// Of all columns.
    pub(super) values: &'a [Value],
    /// What stays as it is sealed.
    pub(super) left: &'a Damaged,
}

/// The values of all columns, which stand side by side from a column of a result on. One that
/// cannot be opened is null among them, and stands beside.
pub(super) fn values_found(
    vault: &Vault,
    (row, first): (&Row, usize),
    (table, id): (&Table, &str),
) -> Result<(Vec<Value>, Damaged), StoreError> {
    let mut values = Vec::with_capacity(table.columns.len());
    let mut damaged = Damaged::default();
    for (position, column) in table.columns.iter().enumerate() {
        let at = first + position;
        if !column.encrypt {
            values.push(cells::value(row, at, column)?);
            continue;
        }
        let Some(sealed) = row.try_get::<_, Option<&[u8]>>(at)? else {
            values.push(Value::Null);
            continue;
        };
        match vault.open_value(sealed, (table.number, column, id)) {
            Err(error @ StoreError::SealBroken { .. }) => {
                damaged.add(position, SealedValue::Bytes(sealed.to_vec()), error);
                values.push(Value::Null);
            }
            value => values.push(value?),
        }
    }
    Ok((values, damaged))
}

/// What stands in an encrypted column for the values of rows.
pub(super) fn sealed_values(
    vault: &Vault,
    (table, column, position): (TableNumber, &Column, usize),
    rows: &[ValuesOfRow<'_>],
) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
    let sealed = |row: &ValuesOfRow<'_>| {
        let mut left = row.left.sealed().iter();
        if let Some((_, left)) = left.find(|(at, _)| *at == position) {
            return Ok(Some(left.bytes().to_vec()));
        }
        let place = Place::Value {
            table,
            column: column.number,
            row: row.id,
        };
        let plain = plain(&row.values[position]);
        let sealed = plain.map(|plain| vault.seal(place, plain.as_bytes()));
        sealed.transpose()
    };
    rows.iter().map(sealed).collect()
}

/// How many bytes values take as they are stored, with what stays as it is sealed.
pub(super) fn bytes_of_values(table: &Table, values: &[Value], left: &Damaged) -> usize {
    let stored = table.columns.iter().zip(values);
    let stored = stored.map(|(column, value)| {
        if column.encrypt {
            plain(value).map_or(0, |plain| plain.len() + SEAL_BYTES)
        } else {
            cells::bytes_of(value)
        }
    });
    let left = left.sealed().iter().map(|(_, sealed)| sealed.bytes().len());
    stored.chain(left).sum()
}

/// What is sealed of a value: a text, or texts.
fn plain(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::Null => None,
        Value::Text(text) => Some(Cow::Borrowed(text)),
        other => Some(Cow::Owned(json_text(other))),
    }
}
