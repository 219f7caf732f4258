//! Values between two databases, and one hash of them for both.

use model::{Storage, Value};
use ring::digest::{Context, SHA256};
use rusqlite::types::{ToSqlOutput, Value as Stored, ValueRef};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::StoreError;
use crate::error::corrupt;
use crate::json_list;
use crate::json_value::json_text;
use crate::vault::StoredText;

/// What a row has in one column, by the column's type in PostgreSQL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MovedCell {
    Int(Option<i64>),
    Float(Option<f64>),
    Bool(Option<bool>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
    Ints(Option<Vec<i64>>),
    Floats(Option<Vec<f64>>),
    Bools(Option<Vec<bool>>),
    Texts(Option<Vec<String>>),
}

impl MovedCell {
    /// What SQLite has there; `None` where that is nothing of this type.
    pub(crate) fn of_sqlite(kind: &Type, stored: ValueRef<'_>) -> Option<MovedCell> {
        let is_null = stored == ValueRef::Null;
        Some(match (kind, stored) {
            (&Type::INT8, ValueRef::Integer(number)) => MovedCell::Int(Some(number)),
            (&Type::FLOAT8, ValueRef::Real(number)) => MovedCell::Float(Some(number)),
            (&Type::BOOL, ValueRef::Integer(truth @ (0 | 1))) => MovedCell::Bool(Some(truth == 1)),
            (&Type::TEXT, ValueRef::Text(text)) => MovedCell::Text(Some(text_of(text)?)),
            // The bounds of a column of numbers, which are JSON there.
            (&Type::TEXT, ValueRef::Integer(number)) => MovedCell::Text(Some(number.to_string())),
            (&Type::TEXT, ValueRef::Real(number)) => MovedCell::Text(Some(format!("{number:?}"))),
            // A text in an encrypted column was never sealed, and stays as little to be opened.
            (&Type::BYTEA, ValueRef::Blob(bytes) | ValueRef::Text(bytes)) => {
                MovedCell::Bytes(Some(bytes.to_vec()))
            }
            (kind, ValueRef::Text(text)) => return list(kind, text),
            (&Type::INT8, _) if is_null => MovedCell::Int(None),
            (&Type::FLOAT8, _) if is_null => MovedCell::Float(None),
            (&Type::BOOL, _) if is_null => MovedCell::Bool(None),
            (&Type::TEXT, _) if is_null => MovedCell::Text(None),
            (&Type::BYTEA, _) if is_null => MovedCell::Bytes(None),
            (&Type::INT8_ARRAY, _) if is_null => MovedCell::Ints(None),
            (&Type::FLOAT8_ARRAY, _) if is_null => MovedCell::Floats(None),
            (&Type::BOOL_ARRAY, _) if is_null => MovedCell::Bools(None),
            (&Type::TEXT_ARRAY, _) if is_null => MovedCell::Texts(None),
            _ => return None,
        })
    }

    /// What SQLite has in a column of texts that may be sealed, as a column of texts holds it.
    pub(crate) fn of_sealed(stored: ValueRef<'_>) -> Option<MovedCell> {
        let text = match stored {
            ValueRef::Null => return Some(MovedCell::Text(None)),
            ValueRef::Text(text) => StoredText::Plain(text_of(text)?),
            ValueRef::Blob(sealed) => StoredText::Sealed(sealed.to_vec()),
            ValueRef::Integer(_) | ValueRef::Real(_) => return None,
        };
        Some(MovedCell::Text(Some(text.column_text()?)))
    }

    /// What PostgreSQL has there.
    pub(crate) fn of_postgres(
        kind: &Type,
        row: &Row,
        position: usize,
    ) -> Result<MovedCell, StoreError> {
        Ok(match *kind {
            Type::INT8 => MovedCell::Int(row.try_get(position)?),
            Type::FLOAT8 => MovedCell::Float(row.try_get(position)?),
            Type::BOOL => MovedCell::Bool(row.try_get(position)?),
            Type::TEXT => MovedCell::Text(row.try_get(position)?),
            Type::BYTEA => MovedCell::Bytes(row.try_get(position)?),
            Type::INT8_ARRAY => MovedCell::Ints(row.try_get(position)?),
            Type::FLOAT8_ARRAY => MovedCell::Floats(row.try_get(position)?),
            Type::BOOL_ARRAY => MovedCell::Bools(row.try_get(position)?),
            Type::TEXT_ARRAY => MovedCell::Texts(row.try_get(position)?),
            _ => return Err(corrupt(format!("a table has a column of {kind}"))),
        })
    }

    /// What SQLite keeps of it.
    pub(crate) fn as_sqlite(&self) -> ToSqlOutput<'_> {
        let borrowed = match self {
            MovedCell::Int(value) => value.map(ValueRef::Integer),
            MovedCell::Float(value) => value.map(ValueRef::Real),
            MovedCell::Bool(value) => value.map(|truth| ValueRef::Integer(i64::from(truth))),
            MovedCell::Text(value) => value.as_ref().map(|text| ValueRef::Text(text.as_bytes())),
            MovedCell::Bytes(value) => value.as_deref().map(ValueRef::Blob),
            MovedCell::Ints(values) => return json(values.as_deref(), |one| Value::Int(*one)),
            MovedCell::Floats(values) => return json(values.as_deref(), |one| Value::Float(*one)),
            MovedCell::Bools(values) => return json(values.as_deref(), |one| Value::Bool(*one)),
            MovedCell::Texts(values) => {
                return json(values.as_deref(), |one| Value::Text(one.as_str().into()));
            }
        };
        ToSqlOutput::Borrowed(borrowed.unwrap_or(ValueRef::Null))
    }

    /// The same of a column of texts that SQLite keeps sealed as bytes.
    pub(crate) fn as_sealed(&self) -> ToSqlOutput<'_> {
        let MovedCell::Text(Some(text)) = self else {
            return self.as_sqlite();
        };
        match StoredText::of_column_text(text) {
            StoredText::Plain(_) => self.as_sqlite(),
            StoredText::Sealed(sealed) => ToSqlOutput::Owned(Stored::Blob(sealed)),
        }
    }

    /// The same of a bound, which is a number there.
    pub(crate) fn as_bound(&self) -> Option<ToSqlOutput<'_>> {
        let MovedCell::Text(Some(text)) = self else {
            return Some(self.as_sqlite());
        };
        let whole = text.parse().map(Stored::Integer);
        let bound = whole.or_else(|_| text.parse().map(Stored::Real));
        bound.ok().map(ToSqlOutput::Owned)
    }

    /// The same of bytes that are a text there.
    pub(crate) fn as_text(&self) -> Option<ToSqlOutput<'_>> {
        let MovedCell::Bytes(Some(bytes)) = self else {
            return Some(self.as_sqlite());
        };
        std::str::from_utf8(bytes).ok()?;
        Some(ToSqlOutput::Borrowed(ValueRef::Text(bytes)))
    }

    /// As a parameter.
    pub(crate) fn as_sql(&self) -> &(dyn ToSql + Sync) {
        match self {
            MovedCell::Int(value) => value,
            MovedCell::Float(value) => value,
            MovedCell::Bool(value) => value,
            MovedCell::Text(value) => value,
            MovedCell::Bytes(value) => value,
            MovedCell::Ints(value) => value,
            MovedCell::Floats(value) => value,
            MovedCell::Bools(value) => value,
            MovedCell::Texts(value) => value,
        }
    }

    fn hash(&self, context: &mut Context) {
        match self {
            MovedCell::Int(value) => one(context, *value, i64::to_be_bytes),
            MovedCell::Float(value) => {
                one(context, *value, |number| number.to_bits().to_be_bytes());
            }
            MovedCell::Bool(value) => one(context, *value, |truth| [u8::from(truth)]),
            MovedCell::Text(value) => one(context, value.as_deref(), str::as_bytes),
            MovedCell::Bytes(value) => one(context, value.as_deref(), |bytes| bytes),
            MovedCell::Ints(value) => all(context, value.as_deref(), |number| number.to_be_bytes()),
            MovedCell::Floats(value) => {
                all(context, value.as_deref(), |number| {
                    number.to_bits().to_be_bytes()
                });
            }
            MovedCell::Bools(value) => all(context, value.as_deref(), |truth| [u8::from(*truth)]),
            MovedCell::Texts(value) => all(context, value.as_deref(), String::as_bytes),
        }
    }
}

/// A text that PostgreSQL can keep.
fn text_of(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then(|| text.to_owned())
}

fn list(kind: &Type, json: &[u8]) -> Option<MovedCell> {
    let storage = match *kind {
        Type::INT8_ARRAY => Storage::Int,
        Type::FLOAT8_ARRAY => Storage::Float,
        Type::BOOL_ARRAY => Storage::Bool,
        Type::TEXT_ARRAY => Storage::Text,
        _ => return None,
    };
    let Some(Value::List(values)) = json_list::read(json, storage) else {
        return None;
    };
    Some(match storage {
        Storage::Int | Storage::Instant => {
            MovedCell::Ints(Some(each(values, |value| match value {
                Value::Int(number) => Some(number),
                _ => None,
            })?))
        }
        Storage::Float => MovedCell::Floats(Some(each(values, |value| match value {
            Value::Float(number) => Some(number),
            _ => None,
        })?)),
        Storage::Bool => MovedCell::Bools(Some(each(values, |value| match value {
            Value::Bool(truth) => Some(truth),
            _ => None,
        })?)),
        Storage::Text => MovedCell::Texts(Some(each(values, |value| match value {
            Value::Text(text) => text_of(text.as_bytes()),
            _ => None,
        })?)),
    })
}

fn json<T>(values: Option<&[T]>, value: impl Fn(&T) -> Value) -> ToSqlOutput<'static> {
    ToSqlOutput::Owned(values.map_or(Stored::Null, |values| {
        Stored::Text(json_text(&Value::List(values.iter().map(value).collect())))
    }))
}

fn each<T>(values: Vec<Value>, one: impl Fn(Value) -> Option<T>) -> Option<Vec<T>> {
    values.into_iter().map(one).collect()
}

/// Each value with its length, so that no two rows have the same bytes.
fn one<T, B: AsRef<[u8]>>(context: &mut Context, value: Option<T>, bytes: impl Fn(T) -> B) {
    let Some(value) = value else {
        return context.update(&[0]);
    };
    let bytes = bytes(value);
    context.update(&[1]);
    context.update(&(bytes.as_ref().len() as u64).to_be_bytes());
    context.update(bytes.as_ref());
}

fn all<'v, T, B: AsRef<[u8]>>(
    context: &mut Context,
    values: Option<&'v [T]>,
    bytes: impl Fn(&'v T) -> B,
) {
    let Some(values) = values else {
        return context.update(&[0]);
    };
    context.update(&[2]);
    context.update(&(values.len() as u64).to_be_bytes());
    for value in values {
        one(context, Some(value), &bytes);
    }
}

/// What a table holds, whatever the order of its rows: how many there are, and the sum of their
/// hashes (SHA-256, in four numbers that wrap).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowsDigest {
    pub(crate) rows: u64,
    sum: [u64; 4],
}

impl RowsDigest {
    pub(crate) fn take(&mut self, cells: &[MovedCell]) {
        let mut context = Context::new(&SHA256);
        for cell in cells {
            cell.hash(&mut context);
        }
        self.rows += 1;
        let hash = context.finish();
        for (sum, part) in self.sum.iter_mut().zip(hash.as_ref().chunks_exact(8)) {
            let number = part
                .iter()
                .fold(0, |number, byte| number << 8 | u64::from(*byte));
            *sum = sum.wrapping_add(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(rows: &[&[MovedCell]]) -> RowsDigest {
        let mut digest = RowsDigest::default();
        for cells in rows {
            digest.take(cells);
        }
        digest
    }

    #[test]
    fn a_digest_knows_rows_and_not_their_order() {
        let text = |text: &str| MovedCell::Text(Some(text.to_owned()));
        let rows: [&[MovedCell]; 2] = [&[text("a"), text("bc")], &[text("ab"), text("c")]];
        assert_eq!(digest(&rows), digest(&[rows[1], rows[0]]));
        assert_ne!(digest(&rows), digest(&[rows[0], rows[0]]));
        assert_ne!(digest(&[rows[0]]), digest(&[rows[1]]));
        let none = [MovedCell::Texts(None)];
        let empty = [MovedCell::Texts(Some(Vec::new()))];
        assert_ne!(digest(&[&none]), digest(&[&empty]));
        let floats = [0.1 + 0.2, 0.3].map(|number| [MovedCell::Float(Some(number))]);
        assert_ne!(digest(&[&floats[0]]), digest(&[&floats[1]]));
    }

    #[test]
    fn a_sealed_text_is_known_by_its_first_character() {
        let of = |stored| MovedCell::of_sealed(stored);
        let text = |text: &str| Some(MovedCell::Text(Some(text.to_owned())));
        assert_eq!(of(ValueRef::Text(b"{}")), text("{}"));
        assert_eq!(of(ValueRef::Blob(b"\x01{")), text("\u{1}017b"));
        assert_eq!(of(ValueRef::Null), Some(MovedCell::Text(None)));
        for stored in [
            ValueRef::Text(b"\x01017b"),
            ValueRef::Text(b"a\0"),
            ValueRef::Integer(1),
        ] {
            assert_eq!(of(stored), None, "{stored:?}");
        }
    }

    #[test]
    fn values_come_back_to_sqlite_as_they_were() {
        let list = |json: &'static [u8]| ValueRef::Text(json);
        for (kind, stored) in [
            (Type::INT8, ValueRef::Integer(i64::MIN)),
            (Type::FLOAT8, ValueRef::Real(5e-324)),
            (Type::BOOL, ValueRef::Integer(1)),
            (Type::TEXT, ValueRef::Text("é\"".as_bytes())),
            (Type::BYTEA, ValueRef::Blob(b"\x00\xff")),
            (Type::INT8_ARRAY, list(b"[1,-2]")),
            (Type::FLOAT8_ARRAY, list(b"[1.0,1e+300]")),
            (Type::BOOL_ARRAY, list(b"[true]")),
            (Type::TEXT_ARRAY, list(b"[\"a\\\"b\",\"\"]")),
            (Type::TEXT_ARRAY, list(b"[]")),
            (Type::TEXT_ARRAY, ValueRef::Null),
            (Type::INT8, ValueRef::Null),
        ] {
            let cell = MovedCell::of_sqlite(&kind, stored).unwrap();
            assert_eq!(as_ref(&cell.as_sqlite()), stored, "{kind}");
        }
        for stored in [
            ValueRef::Blob(b"\x01{"),
            ValueRef::Text(b"{}"),
            ValueRef::Null,
        ] {
            let cell = MovedCell::of_sealed(stored).unwrap();
            assert_eq!(as_ref(&cell.as_sealed()), stored);
        }
        for bound in [
            ValueRef::Integer(7),
            ValueRef::Real(7.0),
            ValueRef::Real(-1e300),
        ] {
            let cell = MovedCell::of_sqlite(&Type::TEXT, bound).unwrap();
            assert_eq!(as_ref(&cell.as_bound().unwrap()), bound);
        }
        let printed = MovedCell::of_sqlite(&Type::BYTEA, ValueRef::Text(b"a\0")).unwrap();
        assert_eq!(as_ref(&printed.as_text().unwrap()), ValueRef::Text(b"a\0"));
        let none = MovedCell::Bytes(Some(vec![0xff]));
        assert_eq!(none.as_text(), None);
    }

    fn as_ref<'v>(value: &'v ToSqlOutput<'v>) -> ValueRef<'v> {
        match value {
            ToSqlOutput::Borrowed(value) => *value,
            ToSqlOutput::Owned(value) => value.into(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_value_of_another_type_is_no_value_of_the_column() {
        for (kind, stored) in [
            (Type::BOOL, ValueRef::Integer(2)),
            (Type::INT8, ValueRef::Real(1.0)),
            (Type::TEXT, ValueRef::Text(b"a\0b")),
            (Type::TEXT, ValueRef::Text(b"\xff")),
            (Type::INT8_ARRAY, ValueRef::Text(b"[1.5]")),
            (Type::TEXT_ARRAY, ValueRef::Text(b"[\"a\\u0000\"]")),
            (Type::TEXT_ARRAY, ValueRef::Integer(1)),
        ] {
            assert_eq!(
                MovedCell::of_sqlite(&kind, stored),
                None,
                "{kind} {stored:?}"
            );
        }
    }
}
