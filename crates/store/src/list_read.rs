//! What reading a list is to every database: when one key decides it, and how large it may be.

use model::Row;
use query::{Query, UniqueKey};

use crate::{Listing, StoreError, TotalCap};

/// A [`Listing`] to be handed over.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that is wanted, or not"
)]
pub(crate) struct OwnedListing {
    query: Query,
    rows: bool,
    total: Option<TotalCap>,
    place: bool,
    bytes_max: usize,
    catalogue_epoch: u64,
    of_guest: bool,
    shows_damaged: bool,
}

impl OwnedListing {
    pub(crate) fn new(listing: Listing<'_>) -> OwnedListing {
        OwnedListing {
            query: listing.query.clone(),
            rows: listing.rows,
            total: listing.total,
            place: listing.place,
            bytes_max: listing.bytes_max,
            catalogue_epoch: listing.catalogue_epoch,
            of_guest: listing.of_guest,
            shows_damaged: listing.shows_damaged,
        }
    }

    pub(crate) fn listing(&self) -> Listing<'_> {
        Listing {
            query: &self.query,
            rows: self.rows,
            total: self.total,
            place: self.place,
            bytes_max: self.bytes_max,
            catalogue_epoch: self.catalogue_epoch,
            of_guest: self.of_guest,
            shows_damaged: self.shows_damaged,
        }
    }
}

/// The key that decides what is read, where that is one. Where the row stands in the order is
/// wanted of a full page, and no key says it.
pub(crate) fn unique_key<'a>(listing: &Listing<'a>) -> Option<UniqueKey<'a>> {
    let is_placed = listing.place && listing.query.limit == 1;
    if !listing.rows || is_placed || listing.shows_damaged {
        return None;
    }
    query::unique_key(listing.query)
}

/// How many bytes the rows of a list may still take.
pub(crate) struct ListingBudget {
    bytes_max: usize,
    left: usize,
}

impl ListingBudget {
    pub(crate) fn of(listing: Listing<'_>) -> ListingBudget {
        ListingBudget {
            bytes_max: listing.bytes_max,
            left: listing.bytes_max,
        }
    }

    /// Makes room for a row, which is of so many bytes.
    ///
    /// # Errors
    /// [`StoreError::AnswerTooLarge`].
    pub(crate) fn take(&mut self, row: &Row) -> Result<usize, StoreError> {
        let (bytes, bytes_max) = (row.size_bytes(), self.bytes_max);
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or(StoreError::AnswerTooLarge { bytes_max })?;
        Ok(bytes)
    }
}
