//! What applications' caches keep below memory: values of other processes and of earlier ones.
//!
//! [`FileTier`] is one file of a fixed size, shared by all processes of a host, and [`MappedTier`]
//! one whose values are read in place; [`RedisTier`] is a
//! server that those of many hosts share, and [`RecordTier`] any store of whole records, such as
//! [`MemcachedStore`].
//! [`envelope`] is the frame around a value in any tier.
//! Values are bytes here: what they mean is the business of the binding for one language, which
//! also says when a process was forked ([`Host`]).
//! [`TierStack`] drives the calls of a function through several tiers, by the rules of [`policy`].
//!
//! A tier may lose any value at any time; it never gives a wrong one, and none after a
//! [`Tier::delete`] of its key that returned `Ok`.

pub mod breaker;
pub mod envelope;
mod file;
mod host;
mod idle;
mod known;
mod leases;
mod listing;
mod memcached;
mod narrow;
mod paced;
pub mod policy;
mod protocol;
mod records;
mod redis;
mod releases;
mod server;
mod stack;
mod tier;
mod tls;
mod tokens;

pub use leases::LEASE_MS;

pub use file::{
    FILE_NOTICE_BYTES_MAX, FileSettings, FileSurvey, FileTier, KnownKey, MappedEntry, MappedHit,
    MappedLookup, MappedStored, MappedTicket, MappedTier, MappedWhen, MissedKeys, SharedBytes,
    VALUE_SHARE,
};
pub use host::Host;
pub use listing::{GuardedValue, ListedEntry, ListedSlice, ListingTier, TokenGuard};
pub use memcached::MemcachedStore;
pub use narrow::{NarrowTier, NarrowTiers};
pub use records::{RECORD_MS_MAX, RecordStore, RecordTier};
pub use redis::{LoopReads, NOTICE_BYTES_MAX, RedisTier, read_answer};
pub use releases::ReleaseWaker;
pub use server::TierServer;
pub use stack::{AskAnswer, Deleted, StackHit, StoredInTiers, TierCall, TierStack, TierState};
pub use tier::{
    JointHit, JointReads, LeaseAct, LeaseAnswer, LeaseHolder, LeasingTier, ListenEvent, Lookup,
    MissTicket, NAME_BYTES, NEVER_MS, NotingTier, Stored, Tier, TierError, TierFault, TierHit,
    TokenName,
};
pub use tls::TierTls;
pub use tokens::OWN_TAGS_MAX;
