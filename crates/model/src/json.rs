//! A JSON value as a client sent it, before a schema has judged it.

use std::fmt::{self, Write as _};

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

    /// How a message shows it where an integer is expected: a number that 64 bits do not hold with
    /// the limit that it breaks, of anything else the kind.
    pub fn shown_for_integer(&self) -> String {
        // 2^63: doubles this large have no fraction, and were mostly written as integers.
        const BEYOND: f64 = 9_223_372_036_854_775_808.0;
        match self {
            Json::Wide(number) => format!("{number}, which is above {}", i64::MAX),
            Json::Float(number) if *number >= BEYOND => {
                format!("a number above {}", i64::MAX)
            }
            Json::Float(number) if *number <= -BEYOND => {
                format!("a number below {}", i64::MIN)
            }
            other => other.kind().to_owned(),
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

/// As JSON text, without white space. Read again it is the same value.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(truth) => truth.fmt(f),
            Json::Int(number) => number.fmt(f),
            Json::Wide(number) => number.fmt(f),
            // With a point or an exponent, so that it stays a float; what was read is finite.
            Json::Float(number) => write!(f, "{number:?}"),
            Json::Text(text) => write_text(f, text),
            Json::List(elements) => {
                f.write_char('[')?;
                for (position, element) in elements.iter().enumerate() {
                    if position > 0 {
                        f.write_char(',')?;
                    }
                    element.fmt(f)?;
                }
                f.write_char(']')
            }
            Json::Object(members) => {
                f.write_char('{')?;
                for (position, (key, value)) in members.iter().enumerate() {
                    if position > 0 {
                        f.write_char(',')?;
                    }
                    write_text(f, key)?;
                    f.write_char(':')?;
                    value.fmt(f)?;
                }
                f.write_char('}')
            }
        }
    }
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    let mut rest = text;
    while let Some(position) = rest.find(|c: char| c == '"' || c == '\\' || c < ' ') {
        let (plain, from) = rest.split_at(position);
        f.write_str(plain)?;
        match from.as_bytes()[0] {
            b'"' => f.write_str("\\\"")?,
            b'\\' => f.write_str("\\\\")?,
            control => write!(f, "\\u{control:04x}")?,
        }
        rest = &from[1..];
    }
    f.write_str(rest)?;
    f.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_json() {
        let text = |text: &str| Json::Text(text.to_owned());
        for (json, wanted) in [
            (Json::Null, "null"),
            (Json::Int(i64::MIN), "-9223372036854775808"),
            (Json::Wide(u64::MAX), "18446744073709551615"),
            (Json::Float(1.0), "1.0"),
            (Json::Float(1e300), "1e300"),
            (text("a\"b\\c\n\u{1}é"), r#""a\"b\\c\u000a\u0001é""#),
            (Json::List(vec![]), "[]"),
            (
                Json::Object(vec![
                    ("a".into(), Json::List(vec![Json::Bool(true), Json::Null])),
                    ("b".into(), Json::Object(vec![])),
                ]),
                r#"{"a":[true,null],"b":{}}"#,
            ),
        ] {
            assert_eq!(json.to_string(), wanted);
        }
    }
}
