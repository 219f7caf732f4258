//! What the table of now shows of a row, and when that changes by itself.

use super::{History, Piece, Version, VersionNumber};
use crate::period::Period;
use crate::time::{Coordinates, Mark, Timestamp};

/// A row as known now, at one instant.
#[derive(Debug, PartialEq)]
pub struct Present<'a, V> {
    /// The piece that covers the instant.
    pub piece: Option<Piece<'a, V>>,
    /// The first boundary after the instant: there the row changes without a commit.
    pub boundary: Option<Timestamp>,
}

/// The version that the table of now shows of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The version.
    pub number: VersionNumber,
    /// As the table shows it.
    pub valid: Period,
    /// As the table shows it.
    pub sys_from: Mark,
}

/// What becomes of a row in the table of now.
#[derive(Debug, PartialEq)]
pub enum Refresh<'a, V> {
    /// It is right as it is.
    Keep,
    /// It is to show this piece.
    Show(Piece<'a, V>),
    /// It is to be absent.
    Withdraw,
}

impl<'a, V> Present<'a, V> {
    /// The row at `instant`. Of the versions only those matter that are not gone and are believed
    /// to be valid at or after the instant.
    pub fn new(versions: &'a [Version<V>], instant: Timestamp) -> Present<'a, V> {
        // At the last mark there can be, every step so far is known.
        let at = Coordinates {
            valid: instant,
            system: Mark(i64::MAX),
        };
        let history = History::new(versions);
        Present {
            piece: history.at(at),
            boundary: history.boundary_after(at),
        }
    }

    /// What is to be done to a row of which the table shows `shown`, at the end of a batch of
    /// this mark; `None` when no batch runs, because a boundary has passed.
    ///
    /// What became known in the batch is always shown again: it may have removed a version of its
    /// own and given its number to another.
    pub fn refresh(&self, batch: Option<Mark>, shown: Option<Shown>) -> Refresh<'a, V> {
        match (self.piece, shown) {
            (Some(piece), Some(shown))
                if Some(piece.sys_from) != batch && shown == Shown::of(&piece) =>
            {
                Refresh::Keep
            }
            (Some(piece), _) => Refresh::Show(piece),
            (None, Some(_)) => Refresh::Withdraw,
            (None, None) => Refresh::Keep,
        }
    }
}

impl Shown {
    /// What the table of now keeps of the piece it shows.
    pub fn of<V>(piece: &Piece<'_, V>) -> Shown {
        Shown {
            number: piece.number,
            valid: piece.valid,
            sys_from: piece.sys_from,
        }
    }
}
