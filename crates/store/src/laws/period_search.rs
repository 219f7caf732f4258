//! What the laws of writing look for over valid time, as known now.

use std::time::Duration;

use model::history::VersionNumber;
use model::{Index, Period, RowId, Table, Value};

use crate::StoreError;

/// Searches among what is known now to be valid, each along an index.
pub(crate) trait PeriodSearch {
    /// Another row than this one that has these values in a key at an instant within the period,
    /// and what its piece is valid over.
    ///
    /// # Errors
    /// What the database says; so it is with each call.
    fn sharer(
        &self,
        table: &Table,
        key: SharedKey<'_>,
        values: &[Value],
        but: &str,
        within: Period,
    ) -> Result<Option<(RowId, Period)>, StoreError>;

    /// Where each of these rows is there, piece by piece, by their beginnings: those that meet the
    /// period, and perhaps some before and after it.
    fn valid_periods(
        &self,
        table: &Table,
        wanted: &[(&str, Period)],
    ) -> Result<Vec<Vec<Period>>, StoreError>;

    /// Pieces of rows that share values in the columns of a key over valid time, and an instant,
    /// with another row, as known now: `few` of them, and those that were found by then where the
    /// search has little time.
    fn overlaps(
        &self,
        table: &Table,
        key: &[usize],
        few: usize,
        time_max: Option<Duration>,
    ) -> Result<FoundOverlaps, StoreError>;

    /// What is valid with this link in the column at this position, over which a reference holds.
    fn periods_referring(
        &self,
        table: &Table,
        column: usize,
        id: &str,
    ) -> Result<Vec<Period>, StoreError>;
}

/// A piece, by its number and its row.
pub(crate) type FoundPiece = (VersionNumber, RowId);

/// What a search for overlaps came to.
pub(crate) struct FoundOverlaps {
    pub(crate) pieces: Vec<FoundPiece>,
    /// Whether its time was over before its end.
    pub(crate) is_cut: bool,
}

/// The fields in which rows must not have equal values at one instant.
#[derive(Clone, Copy)]
pub(crate) enum SharedKey<'a> {
    /// Those of a unique index.
    Index(&'a Index),
    /// The columns of a key over valid time, by their positions.
    OverTime(&'a [usize]),
}
