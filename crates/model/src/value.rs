//! What a column of a row holds.

use crate::time::Timestamp;

/// A value that fits its column. Both databases give it back bit for bit.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// A boolean.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// A finite double, never negative zero: SQLite stores `-0.0` as the integer 0.
    Float(f64),
    /// Text without U+0000.
    Text(String),
    /// An instant with millisecond precision.
    Instant(Timestamp),
    /// The elements of an array column, in order, none of them null or a list.
    List(Vec<Value>),
}

impl Value {
    /// Bytes this value takes in memory, about; used where images are bounded.
    pub fn size_bytes(&self) -> usize {
        let inner = match self {
            Value::Text(text) => text.len(),
            Value::List(values) => values.iter().map(Value::size_bytes).sum(),
            _ => 0,
        };
        size_of::<Value>() + inner
    }
}
