//! Values as parameters of statements, by the types that the emitter casts them to.

use model::Value;
use tokio_postgres::types::{ToSql, Type};

const ONE_TYPE: &str = "a list that was resolved has elements of one type";

/// The value, as the driver sends it.
pub(super) fn parameter(value: &Value) -> Box<dyn ToSql + Sync + Send + '_> {
    match value {
        Value::Null => Box::new(None::<&str>),
        Value::Bool(truth) => Box::new(*truth),
        Value::Int(number) => Box::new(*number),
        Value::Float(number) => Box::new(*number),
        Value::Text(text) => Box::new(text.as_str()),
        Value::Instant(instant) => Box::new(instant.0),
        Value::List(elements) => match elements.first() {
            Some(Value::Int(_) | Value::Instant(_)) => Box::new(all(elements, |one| match one {
                Value::Int(number) => Some(*number),
                Value::Instant(instant) => Some(instant.0),
                _ => None,
            })),
            Some(Value::Float(_)) => Box::new(all(elements, |one| match one {
                Value::Float(number) => Some(*number),
                _ => None,
            })),
            Some(Value::Bool(_)) => Box::new(all(elements, |one| match one {
                Value::Bool(truth) => Some(*truth),
                _ => None,
            })),
            _ => Box::new(all(elements, |one| match one {
                Value::Text(text) => Some(text.as_str()),
                _ => None,
            })),
        },
    }
}

fn all<'v, T>(elements: &'v [Value], one: impl Fn(&'v Value) -> Option<T>) -> Vec<T> {
    let all = elements.iter().map(|element| one(element).expect(ONE_TYPE));
    all.collect()
}

/// Its type.
pub(super) fn type_of(value: &Value) -> Type {
    match value {
        Value::Null | Value::Text(_) => Type::TEXT,
        Value::Bool(_) => Type::BOOL,
        Value::Int(_) | Value::Instant(_) => Type::INT8,
        Value::Float(_) => Type::FLOAT8,
        Value::List(elements) => match elements.first() {
            Some(Value::Int(_) | Value::Instant(_)) => Type::INT8_ARRAY,
            Some(Value::Float(_)) => Type::FLOAT8_ARRAY,
            Some(Value::Bool(_)) => Type::BOOL_ARRAY,
            _ => Type::TEXT_ARRAY,
        },
    }
}
