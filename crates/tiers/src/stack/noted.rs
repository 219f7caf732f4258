//! Invalidations with a notice to the processes that have an answer in memory
//! ([`NotingTier`](crate::tier::NotingTier)).

use super::{Deleted, TierCall, TierStack};
use crate::tier::TokenName;
use crate::tokens;

impl TierStack {
    /// As [`TierStack::delete`].
    pub fn delete_noted(&self, key: &[u8], names: &[TokenName], notice: &[u8]) -> Deleted {
        self.delete_each(|tier| {
            let full = tokens::key_with(tier, key, names, &self.shared.host)?;
            tier.delete_noted(&full, notice)
        })
    }

    /// As [`TierStack::forget`].
    pub fn forget_noted(&self, name: &TokenName, notice: &[u8]) -> Deleted {
        self.delete_each(|tier| tokens::forget(tier, name, notice))
    }

    /// As [`TierStack::forget_tag`].
    pub fn forget_tag_noted(&self, tag: &TokenName, notice: &[u8]) -> Deleted {
        self.delete_each(|tier| tokens::forget_tag(tier, tag, notice))
    }
}

impl TierCall {
    /// The value replaces one that other processes may have in memory, by this notice.
    pub fn replace_by(&mut self, notice: Vec<u8>) {
        self.notice = notice;
    }
}
