//! What the versions of a row and its last change say to an operation.

use super::Version;
use crate::time::Mark;

/// What an operation may look at.
#[derive(Debug)]
pub struct Known<'a, V> {
    /// Versions of the row that are not gone, in any order: at least those whose pieces share an
    /// instant with the range or hold the instant of a claim and, for [`super::Until::Next`], the
    /// one that begins next after the range does. More do not matter, nor do versions that are
    /// gone.
    pub versions: &'a [Version<V>],
    /// [`super::History::last_change`] of the whole row. Only
    /// [`super::Claim::UnchangedSince`] looks at it.
    pub last_change: Option<Mark>,
}
