//! What a batch may claim of a row before it writes.

use std::fmt;

use super::{Known, Version, WriteRefusal};
use crate::time::{Mark, Timestamp};

/// A claim about a row as known now, the earlier operations of the batch included. The batch is
/// refused if it does not hold.
pub enum Claim<'a, V> {
    /// The row is there at a valid instant, or it is not.
    Exists {
        /// Whether it is.
        expected: bool,
        /// When; `None` is the mark of the write.
        at: Option<Timestamp>,
    },
    /// The row is there at a valid instant, with a value of which this is true.
    Matches {
        /// The test.
        test: &'a dyn Fn(&V) -> bool,
        /// When; `None` is the mark of the write.
        at: Option<Timestamp>,
    },
    /// Nothing of the row, at any valid instant, was changed by a later commit than this one, nor
    /// by the batch itself.
    UnchangedSince(Mark),
}

impl<V> Claim<'_, V> {
    pub(super) fn check(&self, mark: Mark, known: &Known<'_, V>) -> Result<(), WriteRefusal> {
        let value_at = |at: Option<Timestamp>| {
            let at = at.unwrap_or(mark.timestamp());
            let mut pieces = known.versions.iter().filter_map(Version::piece_now);
            let piece = pieces.find(|piece| piece.valid.contains(at));
            piece.map(|piece| piece.value)
        };
        let holds = match *self {
            Claim::Exists { expected, at } => value_at(at).is_some() == expected,
            Claim::Matches { test, at } => value_at(at).is_some_and(test),
            Claim::UnchangedSince(since) => known.last_change.is_none_or(|last| last <= since),
        };
        if holds {
            Ok(())
        } else {
            Err(WriteRefusal::AssertFailed)
        }
    }
}

impl<V> fmt::Debug for Claim<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Claim::Exists { expected, at } => write!(f, "Exists({expected}, {at:?})"),
            Claim::Matches { at, .. } => write!(f, "Matches({at:?})"),
            Claim::UnchangedSince(mark) => write!(f, "UnchangedSince({})", mark.0),
        }
    }
}
