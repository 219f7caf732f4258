//! The seven operations.

use std::fmt;

use super::{Claim, Range};
use crate::error::ModelError;

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
