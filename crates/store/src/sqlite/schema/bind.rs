//! Values on their way into the database.

use model::Value;
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, Value as SqlValue, ValueRef};

use crate::json_value::json_text;

/// A value as a parameter: text as TEXT, booleans as 0 and 1, instants as microseconds, lists as
/// JSON text.
pub(crate) struct Bound<'a>(pub(crate) &'a Value);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Value::Null => ToSqlOutput::Borrowed(ValueRef::Null),
            Value::Bool(truth) => ToSqlOutput::Borrowed(ValueRef::Integer(i64::from(*truth))),
            Value::Int(number) => ToSqlOutput::Borrowed(ValueRef::Integer(*number)),
            Value::Float(number) => ToSqlOutput::Borrowed(ValueRef::Real(*number)),
            Value::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Value::Instant(instant) => ToSqlOutput::Borrowed(ValueRef::Integer(instant.0)),
            Value::List(_) => ToSqlOutput::Owned(SqlValue::Text(json_text(self.0))),
        })
    }
}
