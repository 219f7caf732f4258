//! What differs between two points of the plane.

use super::History;
use crate::time::Coordinates;

/// A row that differs between two coordinates.
#[derive(Debug, PartialEq)]
pub struct Difference<'a, V> {
    /// The value at the first ones; `None` when the row is absent there.
    pub before: Option<&'a V>,
    /// The value at the second ones.
    pub after: Option<&'a V>,
}

impl<'a, V: PartialEq> History<'a, V> {
    /// What differs, by value: a row that was written again as it was does not differ.
    pub fn difference(&self, from: Coordinates, to: Coordinates) -> Option<Difference<'a, V>> {
        let value = |at| self.at(at).map(|piece| piece.value);
        let (before, after) = (value(from), value(to));
        (before != after).then_some(Difference { before, after })
    }
}
