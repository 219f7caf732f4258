//! Values as JSON.

use model::Value;

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
