//! A JSON value as a client sent it, before a schema has judged it.

/// What a client may send. [`crate::Value`] is what a column holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// An integer that fits 64 bits with sign.
    Int(i64),
    /// An integer beyond [`Json::Int`]; kept apart so that it is never rounded unnoticed.
    Wide(u64),
    /// Any other number. Integers beyond 64 bits without sign arrive here, too.
    Float(f64),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object; of equal keys the last one counts.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The word a message uses for this kind of value.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Int(_) | Json::Wide(_) => "integer",
            Json::Float(_) => "float",
            Json::Text(_) => "string",
            Json::List(_) => "array",
            Json::Object(_) => "object",
        }
    }

    /// The member `key` of an object. `None` when there is none, or this is no object.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members
                .iter()
                .rev()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }
}
