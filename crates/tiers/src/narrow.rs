//! Tiers of one host in a stack with servers of several: what other hosts invalidate does not reach
//! them, so what they have is an answer for a bounded time only.

use std::sync::Arc;

use super::tier::{MissTicket, Stored, Tier, TierError};

/// A tier whose values are as old as it is told.
pub trait NarrowTier: Tier {
    /// As [`Tier::set`], of a value that nothing had invalidated at `known_ms`, in milliseconds of
    /// the host's clock: its age counts from then on, however long it takes to store it.
    fn set_known_at(
        &self,
        key: &[u8],
        value: &[u8],
        lifetime_ms: Option<u64>,
        ticket: Option<MissTicket>,
        known_ms: u64,
    ) -> Result<Stored, TierError>;
}

/// Which tiers of a stack are narrow, and for how long their values are answers. The default is
/// none.
#[derive(Default)]
pub struct NarrowTiers {
    /// By the number of the tier.
    tiers: Vec<Option<Arc<dyn NarrowTier>>>,
    span_ms: u64,
}

impl NarrowTiers {
    /// For each tier of a stack, nearest first, itself if it is narrow. What these have is an
    /// answer for `span_ms`.
    pub fn new(tiers: Vec<Option<Arc<dyn NarrowTier>>>, span_ms: u64) -> NarrowTiers {
        NarrowTiers { tiers, span_ms }
    }

    pub(crate) fn has(&self, tier: usize) -> bool {
        matches!(self.tiers.get(tier), Some(Some(_)))
    }

    /// What stores in this tier a value that nothing had invalidated at `known_ms`; `None` if the
    /// tier is not narrow.
    pub(crate) fn store_of(&self, tier: usize, known_ms: u64) -> Option<NarrowStore<'_>> {
        let tier = self.tiers.get(tier)?.as_deref()?;
        Some(NarrowStore { tier, known_ms })
    }

    /// Whether what is so old is an answer.
    pub(crate) fn is_within_span(&self, age_ms: u64) -> bool {
        age_ms < self.span_ms
    }
}

/// How a value gets into a narrow tier.
#[derive(Clone, Copy)]
pub(crate) struct NarrowStore<'a> {
    tier: &'a dyn NarrowTier,
    pub(crate) known_ms: u64,
}

impl NarrowStore<'_> {
    /// As [`Tier::set`].
    pub fn set(
        self,
        key: &[u8],
        value: &[u8],
        lifetime_ms: Option<u64>,
        ticket: Option<MissTicket>,
    ) -> Result<Stored, TierError> {
        let known_ms = self.known_ms;
        (self.tier).set_known_at(key, value, lifetime_ms, ticket, known_ms)
    }
}
