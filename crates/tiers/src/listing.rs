//! Tiers that list what they have, for invalidations that must look at each entry.
//!
//! A value may be on its way while the entries are listed. So it is stored under a guard, a token
//! that its call has read before the value was computed: who invalidates deletes that token first,
//! and then finds every value that was stored under it.

use super::tier::{MissTicket, Stored, Tier, TierError, TokenName};
use super::tokens::Token;

/// A token as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenGuard {
    /// Whose it is.
    pub name: TokenName,
    /// What it was.
    pub token: Token,
}

/// A value that is stored only if nothing has happened to its key, nor to its guard.
#[derive(Clone, Copy)]
pub struct GuardedValue<'a> {
    /// Where it is stored.
    pub key: &'a [u8],
    /// Its bytes.
    pub value: &'a [u8],
    /// As for [`Tier::set`].
    pub lifetime_ms: Option<u64>,
    /// As for [`Tier::set`].
    pub ticket: MissTicket,
    /// As for [`NarrowTier::set_known_at`](super::NarrowTier::set_known_at), of a narrow tier.
    pub known_ms: Option<u64>,
    /// As for [`NotingTier::set_noted`](super::tier::NotingTier::set_noted).
    pub notice: &'a [u8],
    /// What was read before the value was computed.
    pub guard: TokenGuard,
}

/// A tier that lists its entries.
pub trait ListingTier: Tier {
    /// As [`Tier::set`] with a ticket, and [`Stored::Overtaken`] if the token of the guard is gone
    /// or another one. Both are looked at and the value is stored at one moment: of a token that is
    /// deleted, no value is stored that [`ListingTier::list`] from then on might miss.
    fn set_guarded(&self, value: &GuardedValue<'_>) -> Result<Stored, TierError>;

    /// Some of the entries whose keys begin with `start`. The first slice has `cursor` 0, and the
    /// others what the one before says. Together they have each entry that is there from the first
    /// slice to the last one, some perhaps twice.
    fn list(&self, start: &[u8], value_bytes: usize, cursor: u64)
    -> Result<ListedSlice, TierError>;

    /// As [`Tier::delete`], of several keys.
    ///
    /// # Errors
    /// After the first one that is not deleted.
    fn delete_all(&self, keys: &[Vec<u8>]) -> Result<(), TierError> {
        keys.iter().try_for_each(|key| self.delete(key).map(drop))
    }
}

/// Entries of a bounded part of a tier.
#[derive(Debug, Default)]
pub struct ListedSlice {
    /// Those that are there.
    pub entries: Vec<ListedEntry>,
    /// Where the next slice begins; `None` after the last one.
    pub next: Option<u64>,
}

/// One entry.
#[derive(Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// Its key in the tier.
    pub key: Vec<u8>,
    /// What begins its value, as many bytes as were asked for.
    pub value_start: Vec<u8>,
}
