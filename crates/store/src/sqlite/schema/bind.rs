//! Values on their way into the database.

use model::Value;
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, Value as SqlValue, ValueRef};

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

/// A value as JSON text: instants as integers, so that they compare as they do in their columns.
pub(crate) fn json_text(value: &Value) -> String {
    json(value).to_string()
}

/// A value as JSON.
pub(crate) fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(truth) => (*truth).into(),
        Value::Int(number) => (*number).into(),
        // Finite by the law of `Value::Float`, so never null.
        Value::Float(number) => (*number).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Instant(instant) => instant.0.into(),
        Value::List(values) => values.iter().map(json).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Timestamp;

    #[test]
    fn lists_become_json() {
        let list = Value::List(vec![
            Value::Text("a\"b".into()),
            Value::Float(1.0),
            Value::Bool(true),
            Value::Instant(Timestamp(7)),
        ]);
        assert_eq!(json_text(&list), r#"["a\"b",1.0,true,7]"#);
    }
}
