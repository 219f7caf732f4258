//! What one pair of coordinates shows, and until when.

use super::{History, Piece, Version};
use crate::time::{Coordinates, Mark, Timestamp};

impl<'a, V> History<'a, V> {
    /// The piece that covers the instant, as known at the mark.
    pub fn at(&self, at: Coordinates) -> Option<Piece<'a, V>> {
        self.pieces_unordered(at.system)
            .find(|piece| piece.valid.contains(at.valid))
    }

    /// The first boundary after the instant of the pieces known at the mark: until then the
    /// answer at this mark stays the same as the instant moves on.
    pub fn boundary_after(&self, at: Coordinates) -> Option<Timestamp> {
        self.pieces_unordered(at.system)
            .filter_map(|piece| piece.valid.boundary_after(at.valid))
            .min()
    }

    /// The mark of the last commit that changed the row in any way. The versions must include
    /// those that are gone.
    pub fn last_change(&self) -> Option<Mark> {
        let marks = self.versions.iter().filter_map(|v| v.marks().last());
        marks.max()
    }

    /// Whether the commit of this mark changed the row: a rectangle begins or ends at it.
    pub fn is_changed_at(&self, mark: Mark) -> bool {
        let mut marks = self.versions.iter().flat_map(Version::marks);
        marks.any(|changed| changed == mark)
    }

    pub(super) fn pieces_unordered(&self, mark: Mark) -> impl Iterator<Item = Piece<'a, V>> {
        let versions = self.versions.iter();
        versions.filter_map(move |version| version.piece_at(mark))
    }
}
