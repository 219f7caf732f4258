//! Lists as JSON text.

use model::{Json, Storage, Timestamp, Value};

/// The elements of a list, with instants as integers; `None` when it is no list of this storage.
pub(crate) fn read(text: &[u8], storage: Storage) -> Option<Value> {
    let Ok(Json::List(elements)) = query::json::read(text) else {
        return None;
    };
    let element = |json: Json| {
        Some(match (storage, json) {
            (Storage::Text, Json::Text(text)) => Value::Text(text),
            (Storage::Int, Json::Int(number)) => Value::Int(number),
            (Storage::Float, Json::Float(number)) => Value::Float(number),
            (Storage::Bool, Json::Bool(truth)) => Value::Bool(truth),
            (Storage::Instant, Json::Int(us)) => Value::Instant(Timestamp(us)),
            _ => return None,
        })
    };
    let values: Option<Vec<Value>> = elements.into_iter().map(element).collect();
    values.map(Value::List)
}
