//! Why a value, an id or a definition breaks a law of the model.

use std::fmt;

use crate::time::Timestamp;

/// A law of the model that an input breaks. The text is written for the person who sent it.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelError {
    /// An id or key is empty, too long, or holds a character it may not hold.
    InvalidId {
        /// Which id, as users call it.
        what: &'static str,
    },
    /// A period would hold no instant.
    EmptyPeriod {
        /// First instant of the period.
        from: Timestamp,
        /// First instant after the period.
        to: Timestamp,
    },
    /// A permission string cannot be read, or is not allowed where it stands.
    InvalidPermission {
        /// The string as sent.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// More permissions than a table or row may carry.
    TooManyPermissions {
        /// The limit.
        count_max: usize,
    },
    /// A value does not fit its column.
    InvalidValue {
        /// The column's key.
        column: String,
        /// What the column takes.
        why: String,
    },
    /// Row content names a column that the table does not have.
    UnknownColumn {
        /// The name as sent.
        key: String,
    },
    /// A required column has no value.
    MissingColumn {
        /// The column's key.
        column: String,
    },
    /// A text holds U+0000, which PostgreSQL cannot store.
    NulCharacter,
    /// A column would pass a bound that it may not pass.
    BoundExceeded {
        /// The column's key.
        column: String,
        /// The bound, as a number.
        bound: String,
        /// Whether the result would lie below it; else above.
        is_below: bool,
    },
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelError::InvalidId { what } => write!(
                f,
                "The {what} must be 1 to 36 characters of a-z, A-Z, 0-9, underscore, period and \
                 hyphen, and may not start with one of the last three."
            ),
            ModelError::EmptyPeriod { from, to } => {
                write!(f, "A period from {from} to {to} holds no instant.")
            }
            ModelError::InvalidPermission { text, why } => {
                write!(f, "Permission `{text}` is invalid: {why}.")
            }
            ModelError::TooManyPermissions { count_max } => {
                write!(f, "At most {count_max} permissions are allowed.")
            }
            ModelError::InvalidValue { column, why } => {
                write!(f, "Attribute \"{column}\" has invalid value: {why}.")
            }
            ModelError::UnknownColumn { key } => write!(f, "Unknown attribute: \"{key}\"."),
            ModelError::MissingColumn { column } => {
                write!(f, "Missing required attribute \"{column}\".")
            }
            ModelError::BoundExceeded {
                column,
                bound,
                is_below,
            } => {
                let (way, end) = if *is_below {
                    ("below", "minimum")
                } else {
                    ("above", "maximum")
                };
                write!(
                    f,
                    "Attribute \"{column}\" would go {way} the {end} of {bound}."
                )
            }
            ModelError::NulCharacter => f.write_str("Text may not hold the character U+0000."),
        }
    }
}

impl std::error::Error for ModelError {}

/// What is asked for, written or asserted lies before the line from which its table keeps its past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryGone {
    /// The line.
    pub kept_from: Timestamp,
}

impl fmt::Display for HistoryGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "The table keeps what was known and valid from {} on. Ask for nothing before that: \
             `valid` bounds a history, `validBetween` a list of versions.",
            self.kept_from
        )
    }
}

impl std::error::Error for HistoryGone {}
