//! One tier, asked by a call for its value and given one to store.

use std::borrow::Cow;

use super::{NewValue, StackHit, StoreRight, TierCall};
use crate::host::Host;
use crate::listing::{GuardedValue, ListingTier, TokenGuard};
use crate::narrow::NarrowStore;
use crate::tier::{JointHit, Lookup, MissTicket, Stored, Tier, TierError};
use crate::tokens::{self, TagWatch};

/// What a look into a tier gives.
pub enum Looked {
    Hit(StackHit),
    Miss(StoreRight),
}

impl TierCall {
    /// What to store a value with that replaces whatever the tier has.
    pub(super) fn right_in(&self, tier: &dyn Tier, host: &Host) -> Result<StoreRight, TierError> {
        let watch = self.has_own_tags.then(|| TagWatch::begin(tier, host));
        let key = tokens::key_with(tier, &self.key, &self.names, host)?;
        let ticket = if self.has_value {
            None
        } else {
            Some(tier.ticket(&key)?)
        };
        let watch = watch.transpose()?;
        self.right(tier, host, key, ticket, watch)
    }

    fn right(
        &self,
        tier: &dyn Tier,
        host: &Host,
        key: Vec<u8>,
        ticket: Option<MissTicket>,
        watch: Option<TagWatch>,
    ) -> Result<StoreRight, TierError> {
        let guard = match self.guard {
            Some(name) => {
                let token = tokens::token(tier, &name, host)?;
                Some(TokenGuard { name, token })
            }
            None => None,
        };
        Ok(StoreRight {
            key,
            ticket,
            watch,
            guard,
        })
    }

    fn find(&self, tier: &dyn Tier, host: &Host) -> Result<JointHit, TierError> {
        if let Some(joint) = tier.joint_reads()
            && let Some(found) = joint.get_under(&self.key, &self.names)?
        {
            return Ok(found);
        }
        let key = tokens::key_with(tier, &self.key, &self.names, host)?;
        let found = tier.get(&key)?;
        Ok((key, found))
    }

    pub(super) fn look(&self, tier: &dyn Tier, host: &Host) -> Result<Looked, TierError> {
        if self.is_forced {
            return self.right_in(tier, host).map(Looked::Miss);
        }
        let watch = self.has_own_tags.then(|| TagWatch::begin(tier, host));
        let watch = watch.transpose()?;
        let (key, found) = self.find(tier, host)?;
        let ticket = match found {
            Lookup::Miss(ticket) => Some(ticket),
            Lookup::Hit(hit) if !self.has_own_tags => {
                let tags = Vec::new();
                return Ok(Looked::Hit(StackHit { hit, tags }));
            }
            Lookup::Hit(hit) => match tokens::own_tags(tier, hit.value())? {
                Some((tags, bytes)) => {
                    let hit = hit.without_first(bytes);
                    return Ok(Looked::Hit(StackHit { hit, tags }));
                }
                None => Some(tier.ticket(&key)?),
            },
        };
        (self.right(tier, host, key, ticket, watch)).map(Looked::Miss)
    }

    /// Whether a tier has the value, and nothing it depends on was forgotten until now.
    pub(super) fn store_in(
        &self,
        tier: &dyn Tier,
        listing: Option<&dyn ListingTier>,
        narrow: Option<NarrowStore<'_>>,
        right: &StoreRight,
        value: &NewValue<'_>,
        host: &Host,
    ) -> Result<bool, TierError> {
        let mut bytes = Cow::from(value.bytes);
        if let Some(watch) = &right.watch {
            bytes = tokens::with_own_tags(tier, value.bytes, value.tags, host)?.into();
            // One of its tags may have been forgotten while the value was computed. After the
            // tokens were read: what is forgotten later finds them in the stored value.
            if !watch.is_current(tier)? {
                return Ok(false);
            }
        }
        let (key, lifetime_ms, ticket) = (&right.key, value.lifetime_ms, right.ticket);
        let guarded = right.guard.zip(ticket).zip(listing);
        let stored = match (guarded, narrow) {
            (Some(((guard, ticket), listing)), _) => listing.set_guarded(&GuardedValue {
                key,
                value: &bytes,
                lifetime_ms,
                ticket,
                known_ms: narrow.map(|narrow| narrow.known_ms),
                notice: &self.notice,
                guard,
            })?,
            (None, Some(narrow)) => narrow.set(key, &bytes, lifetime_ms, ticket)?,
            (None, None) => tier.set_noted(key, &bytes, lifetime_ms, ticket, &self.notice)?,
        };
        if stored == Stored::Overtaken {
            return Ok(false);
        }
        if let Some(watch) = &right.watch
            && !watch.is_current(tier)?
        {
            return Ok(false);
        }
        if self.has_value {
            // It is no older than this call: the caller may keep it as long as any answer.
            return Ok(true);
        }
        // No later call asks for this key if a name has another token, and the caller may not keep
        // the value either.
        tokens::is_current(tier, &self.key, &self.names, &right.key)
    }
}
