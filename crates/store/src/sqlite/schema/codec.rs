//! Columns on their way out of the database.

use model::{Column, Storage, Timestamp, Value};
use rusqlite::types::ValueRef;

use crate::StoreError;
use crate::error::corrupt;
use crate::json_list;

/// What a user column holds.
///
/// # Errors
/// [`StoreError::Corrupt`] when the database holds what the column cannot have been given.
pub(crate) fn value(stored: ValueRef<'_>, column: &Column) -> Result<Value, StoreError> {
    let storage = column.kind.storage();
    let read = if column.array {
        list(stored, storage)
    } else {
        single(stored, storage)
    };
    read.ok_or_else(|| {
        corrupt(format!(
            "column `{}` ({storage:?}) holds {}",
            column.key,
            stored.data_type()
        ))
    })
}

/// What a field of this storage holds; `None` when that is something else.
pub(crate) fn single(stored: ValueRef<'_>, storage: Storage) -> Option<Value> {
    Some(match (storage, stored) {
        (_, ValueRef::Null) => Value::Null,
        (Storage::Text, ValueRef::Text(bytes)) => {
            Value::Text(std::str::from_utf8(bytes).ok()?.to_owned())
        }
        (Storage::Int, ValueRef::Integer(number)) => Value::Int(number),
        (Storage::Float, ValueRef::Real(number)) => Value::Float(number),
        (Storage::Bool, ValueRef::Integer(truth @ (0 | 1))) => Value::Bool(truth == 1),
        (Storage::Instant, ValueRef::Integer(us)) => Value::Instant(Timestamp(us)),
        _ => return None,
    })
}

/// The elements of an array column.
fn list(stored: ValueRef<'_>, storage: Storage) -> Option<Value> {
    match stored {
        ValueRef::Null => Some(Value::Null),
        ValueRef::Text(text) => json_list::read(text, storage),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use model::{ColumnKey, ColumnKind, ColumnNumber};

    use super::*;
    use crate::json_value::json_text;

    fn column(kind: ColumnKind, array: bool) -> Column {
        Column {
            number: ColumnNumber(1),
            key: ColumnKey::new("c").unwrap(),
            kind,
            required: false,
            array,
            encrypt: false,
            default: None,
            created: Timestamp(0),
            updated: Timestamp(0),
        }
    }

    #[test]
    fn lists_come_back_as_they_were_written() {
        let float = ColumnKind::Float {
            min: f64::MIN,
            max: f64::MAX,
        };
        let int = ColumnKind::Bigint {
            min: i64::MIN,
            max: i64::MAX,
        };
        for (kind, values) in [
            (ColumnKind::Text, vec![Value::Text("a\"\u{1f600}\n".into())]),
            (int, vec![Value::Int(i64::MIN), Value::Int(i64::MAX)]),
            (
                float,
                vec![Value::Float(1.0), Value::Float(5e-324), Value::Float(1e300)],
            ),
            (
                ColumnKind::Boolean,
                vec![Value::Bool(true), Value::Bool(false)],
            ),
            (
                ColumnKind::Datetime,
                vec![Value::Instant(Timestamp(-1_000))],
            ),
            (ColumnKind::Text, vec![]),
        ] {
            let list = Value::List(values);
            let text = json_text(&list);
            let read = value(ValueRef::Text(text.as_bytes()), &column(kind, true));
            assert_eq!(read, Ok(list));
        }
    }

    #[test]
    fn values_a_column_cannot_hold_are_called_damage() {
        for (stored, kind, array) in [
            (ValueRef::Integer(2), ColumnKind::Boolean, false),
            (ValueRef::Integer(1), ColumnKind::Text, false),
            (ValueRef::Text(b"\xff"), ColumnKind::Text, false),
            (ValueRef::Text(b"{}"), ColumnKind::Text, true),
            (ValueRef::Text(b"[1"), ColumnKind::Datetime, true),
            (ValueRef::Text(b"[1]"), ColumnKind::Text, true),
        ] {
            let read = value(stored, &column(kind, array));
            assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
        }
    }
}
