//! The history of a row along either axis, or both.

use super::{History, Piece, Rectangle};
use crate::period::Period;
use crate::time::{Coordinates, Mark};

/// Touching pieces of equal value as one.
#[derive(Debug, PartialEq)]
pub struct Stretch<'a, V> {
    /// Valid over.
    pub valid: Period,
    /// The value.
    pub value: &'a V,
}

/// What was believed of one valid instant, and when.
#[derive(Debug, PartialEq)]
pub struct Held<'a, V> {
    /// Believed from.
    pub sys_from: Mark,
    /// Believed to, if that was over at the mark asked for.
    pub sys_to: Option<Mark>,
    /// The mark of the commit that asserted the value.
    pub origin: Mark,
    /// The value.
    pub value: &'a V,
}

impl<'a, V> History<'a, V> {
    /// Along valid time: the pieces known at `mark`, from left to right.
    pub fn along_valid(&self, mark: Mark) -> Vec<Piece<'a, V>> {
        let mut pieces: Vec<Piece<'a, V>> = self.pieces_unordered(mark).collect();
        pieces.sort_by_key(|piece| piece.valid.from());
        pieces
    }

    /// The same with touching pieces joined where their values are equal.
    pub fn along_valid_joined(&self, mark: Mark) -> Vec<Stretch<'a, V>>
    where
        V: PartialEq,
    {
        let mut stretches: Vec<Stretch<'a, V>> = Vec::new();
        for piece in self.along_valid(mark) {
            let (valid, value) = (piece.valid, piece.value);
            let joined = stretches
                .last_mut()
                .filter(|last| last.value == value)
                .and_then(|last| last.valid.extend(&valid).map(|whole| (last, whole)));
            match joined {
                Some((last, whole)) => last.valid = whole,
                None => stretches.push(Stretch { valid, value }),
            }
        }
        stretches
    }

    /// Along system time: what was believed of the valid instant up to the mark, earliest first.
    /// Neighbours of the same origin are one entry, so that a split elsewhere is no change here.
    pub fn along_system(&self, at: Coordinates) -> Vec<Held<'a, V>> {
        let mut entries: Vec<Held<'a, V>> = Vec::new();
        let covers = |rectangle: &Rectangle<'_, V>| rectangle.valid.contains(at.valid);
        for rectangle in self.rectangles_where(at.system, covers) {
            let (sys_from, sys_to) = (rectangle.sys_from, rectangle.sys_to);
            let origin = rectangle.origin;
            match entries.last_mut() {
                Some(last) if last.origin == origin && last.sys_to == Some(sys_from) => {
                    last.sys_to = sys_to;
                }
                _ => entries.push(Held {
                    sys_from,
                    sys_to,
                    origin,
                    value: rectangle.value,
                }),
            }
        }
        entries
    }

    /// Along both: every rectangle known at `mark`, by the beginnings of their system periods,
    /// then of their valid ones. What was closed after the mark is open.
    pub fn rectangles(&self, mark: Mark) -> Vec<Rectangle<'a, V>> {
        self.rectangles_where(mark, |_| true)
    }

    fn rectangles_where(
        &self,
        mark: Mark,
        test: impl Fn(&Rectangle<'_, V>) -> bool,
    ) -> Vec<Rectangle<'a, V>> {
        let versions = self.versions.iter();
        let mut rectangles: Vec<Rectangle<'a, V>> = versions
            .flat_map(|version| version.rectangles_at(mark))
            .filter(test)
            .collect();
        rectangles.sort_by_key(|rectangle| (rectangle.sys_from, rectangle.valid.from()));
        rectangles
    }
}
