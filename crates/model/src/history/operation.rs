//! The seven operations, and why one may be refused.

use std::fmt;

use super::{Claim, Range, Version};
use crate::error::ModelError;
use crate::period::Period;
use crate::time::{Mark, Timestamp};

/// One operation on a row.
#[derive(Debug)]
pub enum Operation<'a, V> {
    /// Changes what is believed over a range.
    Write(Act<'a, V>, Range),
    /// Takes every version away, at every mark. It is no change of a belief.
    Erase,
    /// Changes nothing; refuses the batch unless the claim holds.
    Assert(Claim<'a, V>),
}

/// What a write does over its range.
pub enum Act<'a, V> {
    /// The row has this value; refused if it is there at any instant of the range.
    Insert(V),
    /// The row has exactly this value.
    Put(V),
    /// Merges into every piece, and makes the row in the gaps.
    Patch(Merge<'a, V>),
    /// Merges into every piece; nothing in the gaps.
    Update(Merge<'a, V>),
    /// The row is absent.
    Delete,
}

/// The value that a piece, or for a patch a gap (`None`), gets from a merge. `None` leaves it as
/// it is, without a new version. Called once for each piece and gap in the range.
pub type Merge<'a, V> = &'a mut dyn FnMut(Option<&V>) -> Result<Option<V>, ModelError>;

/// What an operation may look at.
#[derive(Debug)]
pub struct Known<'a, V> {
    /// Versions of the row that are not gone, in any order: at least those whose pieces share an
    /// instant with the range or hold the instant of a claim and, for [`super::Until::Next`], the
    /// one that begins next after the range does. More do not matter, nor do versions that are
    /// gone.
    pub versions: &'a [Version<V>],
    /// [`super::History::last_change`] of the whole row. Only [`Claim::UnchangedSince`] looks at
    /// it.
    pub last_change: Option<Mark>,
}

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

impl<V> fmt::Debug for Act<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Act::Insert(_) => "Insert",
            Act::Put(_) => "Put",
            Act::Patch(_) => "Patch",
            Act::Update(_) => "Update",
            Act::Delete => "Delete",
        })
    }
}
