//! What reading a list is to every database: when one key decides it, and how large it may be.

use model::{Field, Row, Value};
use query::{Cursor, Query, UniqueKey};

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

/// Where a row stands, whose values of the keys of the order end a result of so many columns.
pub(crate) fn place_of<E>(
    query: &Query,
    columns: usize,
    mut value: impl FnMut(usize, Field) -> Result<Value, E>,
) -> Result<Vec<Value>, E> {
    let keys = query.read_order();
    let first = columns - keys.len();
    let keys = keys.iter().enumerate();
    keys.map(|(offset, key)| value(first + offset, key.field))
        .collect()
}

/// Where the row of a cursor stands, from that of [`query::emit::cursor_row`]: the value of each
/// key of the order, then its `$sequence`, then where a version begins. `value` gives what a column
/// holds, of a field or else a number.
///
/// # Errors
/// [`StoreError::CursorNull`], or what `value` says.
pub(crate) fn cursor_place<E: From<StoreError>>(
    query: &Query,
    cursor: &Cursor,
    mut value: impl FnMut(usize, Option<Field>) -> Result<Value, E>,
) -> Result<Vec<Value>, E> {
    let mut values = Vec::with_capacity(query.order.len() + 3);
    for (position, key) in query.order.iter().enumerate() {
        match value(position, Some(key.field))? {
            Value::Null => {
                let id = cursor.row.clone();
                return Err(StoreError::CursorNull { id }.into());
            }
            value => values.push(value),
        }
    }
    let numbers = if query.frame.is_wide() { 3 } else { 1 };
    for position in query.order.len()..query.order.len() + numbers {
        values.push(value(position, None)?);
    }
    Ok(values)
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
