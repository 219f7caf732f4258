//! The versions of one row, and how many of them one operation may hold.
//!
//! Never all of them: a counter has millions of pieces in the valid past. Pieces known now never
//! overlap, so those that meet a period are the one that begins last before it, and those that
//! begin inside it: two seeks on one index.

use std::sync::Arc;

use model::history::VersionNumber;
use model::{Mark, Timestamp, Value, Version};

use super::damaged::Damaged;
use super::halt::Step;
use crate::refusal::Refusal;

/// What a piece says: all of a row but its permissions, which live on system time only.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asserted {
    pub(crate) created: Timestamp,
    pub(crate) updated: Timestamp,
    /// One for each of the table's columns.
    pub(crate) values: Vec<Value>,
    /// What is null among them because it cannot be opened.
    pub(crate) damaged: Damaged,
}

/// A version as the store keeps it.
pub(crate) type Stored = Version<Arc<Asserted>>;

/// Which versions of a row are read.
#[derive(Clone, Copy)]
pub(crate) enum VersionsWanted {
    /// Those that are not gone, have no twin, and are valid somewhere from `low` to before `high`;
    /// perhaps the one before them, too.
    Known {
        low: Timestamp,
        high: Timestamp,
        count_max: usize,
    },
    /// What is known now and was not before the mark, with a twin or without.
    WrittenAt(Mark),
    /// The one of this number.
    Numbered(VersionNumber),
}

/// Most pieces of its row that one operation meets.
pub(crate) const PIECES_MET_MAX: usize = 10_000;
/// Most bytes of values that one operation holds of a row's versions, beside as much again for
/// what it writes …
const PIECES_BYTES_MAX: usize = 64 << 20;
/// … unless they are so few: the most that are read to show a row, or to find a next boundary.
const PIECES_OF_ANY_SIZE: usize = 3;

/// Versions of a row that are read one by one.
pub(crate) struct VersionsRead {
    which: VersionsWanted,
    found: Vec<Stored>,
    bytes: usize,
}

impl VersionsRead {
    pub(crate) fn new(which: VersionsWanted) -> VersionsRead {
        VersionsRead {
            which,
            found: Vec::new(),
            bytes: 0,
        }
    }

    /// # Errors
    /// [`Refusal::PiecesTooLarge`] when they take too much memory together.
    pub(crate) fn add(&mut self, version: Stored) -> Step<()> {
        let values = version.value.values.iter();
        self.bytes += values.map(Value::size_bytes).sum::<usize>();
        let is_bounded = matches!(self.which, VersionsWanted::Known { .. });
        // One row of any size can be changed, with what stands beside it.
        if is_bounded && self.bytes > PIECES_BYTES_MAX && self.found.len() > PIECES_OF_ANY_SIZE {
            let bytes_max = PIECES_BYTES_MAX;
            return Err(Refusal::PiecesTooLarge { bytes_max }.into());
        }
        self.found.push(version);
        Ok(())
    }

    /// All of them, by their beginnings.
    pub(crate) fn all(mut self) -> Vec<Stored> {
        if let VersionsWanted::WrittenAt(_) = self.which {
            // Those with a twin are found apart.
            self.found.sort_by_key(|version| version.valid.from());
        }
        self.found
    }
}
