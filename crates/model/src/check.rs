//! Whether a value fits its column, and row content its table.

use crate::calendar::parse_iso;
use crate::count::counted;
use crate::error::ModelError;
use crate::json::Json;
use crate::schema::{Column, ColumnKind, Table};
use crate::text::{is_email, is_ip, is_url};
use crate::value::Value;

/// Most elements of one array value. The wire protocol states none; without one a single value
/// could make each read of its row arbitrarily slow.
pub const ARRAY_ELEMENTS_MAX: usize = 10_000;

impl Column {
    /// What the column holds for `json`.
    ///
    /// # Errors
    /// [`ModelError::InvalidValue`] when the value does not fit, [`ModelError::MissingColumn`]
    /// for null in a required column, [`ModelError::NulCharacter`] for U+0000 in text.
    pub fn check(&self, json: &Json) -> Result<Value, ModelError> {
        match json {
            Json::Null if self.required => Err(ModelError::MissingColumn {
                column: self.key.to_string(),
            }),
            Json::Null => Ok(Value::Null),
            Json::List(elements) if self.array => self.check_list(elements),
            other if self.array => {
                Err(self.refuse(format!("expected an array, got {}", other.kind())))
            }
            other => self.check_single(other),
        }
    }

    fn check_list(&self, elements: &[Json]) -> Result<Value, ModelError> {
        if elements.len() > ARRAY_ELEMENTS_MAX {
            return Err(self.refuse(format!("more than {ARRAY_ELEMENTS_MAX} elements")));
        }
        elements
            .iter()
            .map(|element| self.check_single(element))
            .collect::<Result<_, _>>()
            .map(Value::List)
    }

    /// One value of the column's kind, whether or not the column is an array.
    pub fn check_single(&self, json: &Json) -> Result<Value, ModelError> {
        let fits = match (&self.kind, json) {
            (ColumnKind::Integer { min, max } | ColumnKind::Bigint { min, max }, Json::Int(n)) => {
                let min = self.effective_min(*min, *max);
                check_range(*n, min, *max).map(|()| Value::Int(*n))
            }
            (ColumnKind::Float { min, max }, Json::Int(_) | Json::Wide(_) | Json::Float(_)) => {
                let number = as_float(json);
                check_range(number, *min, *max).map(|()| Value::Float(number))
            }
            (ColumnKind::Boolean, Json::Bool(truth)) => Ok(Value::Bool(*truth)),
            (ColumnKind::Datetime, Json::Text(text)) => parse_iso(text)
                .map(|instant| Value::Instant(instant.cut_to_ms()))
                .ok_or_else(|| "expected a date and time such as 2026-01-31T10:00:00Z".into()),
            (kind, Json::Text(text)) if is_textual(kind) => {
                if text.contains('\0') {
                    return Err(ModelError::NulCharacter);
                }
                check_text(kind, text).map(|()| Value::Text(text.clone()))
            }
            (ColumnKind::Integer { .. } | ColumnKind::Bigint { .. }, other) => Err(format!(
                "expected a 64-bit integer, got {}",
                other.shown_for_integer()
            )),
            (kind, other) => Err(format!("expected {}, got {}", expected(kind), other.kind())),
        };
        fits.map_err(|why| self.refuse(why))
    }

    /// An `integer` whose greatest value fits 32 bits holds 32-bit values only (wire protocol,
    /// columns of kind `integer`).
    fn effective_min(&self, min: i64, max: i64) -> i64 {
        match self.kind {
            ColumnKind::Integer { .. } if max <= i64::from(i32::MAX) => {
                min.max(i64::from(i32::MIN))
            }
            _ => min,
        }
    }

    /// The refusal of a value for this column; `why` is no sentence yet.
    pub(crate) fn refuse(&self, why: String) -> ModelError {
        ModelError::InvalidValue {
            column: self.key.to_string(),
            why,
        }
    }
}

/// A JSON number as a double. Negative zero becomes zero, because SQLite would make it so.
pub(crate) fn as_float(json: &Json) -> f64 {
    match json {
        Json::Int(n) => *n as f64,
        Json::Wide(n) => *n as f64,
        Json::Float(x) => x + 0.0,
        _ => unreachable!("only numbers are asked"),
    }
}

fn is_textual(kind: &ColumnKind) -> bool {
    kind.storage() == crate::schema::Storage::Text
}

fn check_range<T: PartialOrd + std::fmt::Display>(n: T, min: T, max: T) -> Result<(), String> {
    if n < min || n > max {
        return Err(format!("expected a number from {min} to {max}, got {n}"));
    }
    Ok(())
}

fn check_text(kind: &ColumnKind, text: &str) -> Result<(), String> {
    if let Some(chars_max) = kind.chars_max() {
        let fits = text.len() <= chars_max as usize || text.chars().count() <= chars_max as usize;
        if !fits {
            let limit = counted(u64::from(chars_max), "character");
            return Err(format!("longer than {limit}"));
        }
    }
    let bytes_max = match kind {
        ColumnKind::Text => 65_535,
        ColumnKind::Mediumtext => 16_777_215,
        _ => i32::MAX as usize,
    };
    if text.len() > bytes_max {
        return Err(format!("longer than {bytes_max} bytes"));
    }
    let fits = match kind {
        ColumnKind::Email => is_email(text),
        ColumnKind::Url => is_url(text),
        ColumnKind::Ip => is_ip(text),
        ColumnKind::Enum { elements } => elements.iter().any(|element| element == text),
        _ => true,
    };
    if fits {
        Ok(())
    } else {
        Err(format!("expected {}", expected(kind)))
    }
}

/// What a kind takes, as messages say it.
fn expected(kind: &ColumnKind) -> String {
    match kind {
        ColumnKind::Integer { .. } | ColumnKind::Bigint { .. } => "a 64-bit integer".into(),
        ColumnKind::Float { .. } => "a number".into(),
        ColumnKind::Boolean => "true or false".into(),
        ColumnKind::Email => "an e-mail address".into(),
        ColumnKind::Url => "a URL such as https://example.com/".into(),
        ColumnKind::Ip => "an IPv4 or IPv6 address".into(),
        ColumnKind::Enum { elements } => {
            let listed: Vec<&str> = elements.iter().map(String::as_str).collect();
            format!("one of {}", listed.join(", "))
        }
        ColumnKind::Datetime => "a date and time as text".into(),
        _ => "a string".into(),
    }
}

impl Table {
    /// The position of the column that row content calls `key`.
    ///
    /// # Errors
    /// [`ModelError::UnknownColumn`].
    pub fn named(&self, key: &str) -> Result<usize, ModelError> {
        self.position(key).ok_or_else(|| ModelError::UnknownColumn {
            key: key.chars().take(100).collect(),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
