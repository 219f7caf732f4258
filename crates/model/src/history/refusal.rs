//! Why an operation is refused.

use std::fmt;

use crate::error::ModelError;
use crate::period::Period;
use crate::time::Timestamp;

/// Why an operation, and so its batch, is refused.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteRefusal {
    /// No instant lies in the range.
    EmptyRange {
        /// Its first instant.
        from: Timestamp,
        /// The first instant after it.
        to: Timestamp,
    },
    /// An insert where the row is there already.
    Exists {
        /// The first piece it meets is valid over this.
        valid: Period,
    },
    /// A claim does not hold.
    AssertFailed,
    /// A merge gives a value that its column does not take.
    Invalid(ModelError),
}

impl fmt::Display for WriteRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteRefusal::EmptyRange { from, to } => {
                let (from, to) = (*from, *to);
                ModelError::EmptyPeriod { from, to }.fmt(f)
            }
            WriteRefusal::Exists { valid } => {
                write!(f, "The row is valid over {valid:?} already.")
            }
            WriteRefusal::AssertFailed => f.write_str("What the batch asserts does not hold."),
            WriteRefusal::Invalid(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for WriteRefusal {}

impl From<ModelError> for WriteRefusal {
    fn from(error: ModelError) -> WriteRefusal {
        WriteRefusal::Invalid(error)
    }
}
