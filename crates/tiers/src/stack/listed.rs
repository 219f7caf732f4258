//! Invalidations that look at each entry of a function.

use std::sync::Arc;

use super::{StackShared, TierStack};
use crate::listing::{ListedSlice, ListingTier};
use crate::tier::{TierError, TierFault};

impl StackShared {
    pub(super) fn listing_of(&self, tier: usize) -> Option<&dyn ListingTier> {
        self.listing.get(tier)?.as_deref()
    }
}

impl TierStack {
    /// The same stack, for each tier of which, nearest first, this says what lists its entries.
    ///
    /// # Panics
    /// When it is in use already.
    #[must_use]
    pub fn listed_by(mut self, listing: Vec<Option<Arc<dyn ListingTier>>>) -> TierStack {
        let shared = Arc::get_mut(&mut self.shared);
        shared.expect("nothing else has the stack yet").listing = listing;
        self
    }

    fn listing(&self, tier: usize) -> Result<&dyn ListingTier, TierError> {
        let listing = self.shared.listing_of(tier);
        listing.ok_or_else(|| TierError::new(TierFault::Off, "the tier cannot list its entries"))
    }

    /// As [`ListingTier::list`], of one tier. A breaker keeps no invalidation from it.
    ///
    /// # Errors
    /// Those of the tier, and that it lists nothing.
    pub fn list(
        &self,
        tier: usize,
        start: &[u8],
        value_bytes: usize,
        cursor: u64,
    ) -> Result<ListedSlice, TierError> {
        self.listing(tier)?.list(start, value_bytes, cursor)
    }

    /// As [`ListingTier::delete_all`], of one tier.
    ///
    /// # Errors
    /// As there.
    pub fn delete_listed(&self, tier: usize, keys: &[Vec<u8>]) -> Result<(), TierError> {
        self.listing(tier)?.delete_all(keys)
    }
}
