//! What every tier can do, and how it fails.

use std::fmt;
use std::ops::Range;

use super::releases::ReleaseWait;

/// The end of an entry that has none, in milliseconds of the host's clock.
pub const NEVER_MS: u64 = u64::MAX;

/// A store of bytes below memory, used from any thread.
pub trait Tier: Send + Sync {
    /// Whether it can be used, and why not. Changes nothing that is stored.
    ///
    /// # Errors
    /// The reason, with the kind [`TierFault::Off`] if nothing but a change of the settings or of
    /// the machine helps.
    fn check(&self) -> Result<(), TierError>;

    /// The value of `key`, or a ticket with which the one computed instead is stored.
    fn get(&self, key: &[u8]) -> Result<Lookup, TierError>;

    /// A ticket for `key` whether or not there is a value, for a run that replaces it.
    fn ticket(&self, key: &[u8]) -> Result<MissTicket, TierError>;

    /// Stores a value for `lifetime_ms`; for ever if `None`.
    ///
    /// With a ticket it is stored only if nothing has deleted the key since: a value
    /// read from a source before a change would otherwise outlive the deletion for that change.
    fn set(
        &self,
        key: &[u8],
        value: &[u8],
        lifetime_ms: Option<u64>,
        ticket: Option<MissTicket>,
    ) -> Result<Stored, TierError>;

    /// What reads an entry at once with the tokens that it depends on; `None` if nothing does.
    fn joint_reads(&self) -> Option<&dyn JointReads> {
        None
    }

    /// What gives its leases; `None` if it has none.
    fn leases(&self) -> Option<&dyn LeasingTier> {
        None
    }

    /// Removes the value of `key` and makes older tickets for it void, of all processes. Whether
    /// there was a value, expired ones included.
    ///
    /// No read that begins after this has returned `Ok` gives a value that was stored before.
    fn delete(&self, key: &[u8]) -> Result<bool, TierError>;

    /// Deletes every key.
    fn clear(&self) -> Result<(), TierError>;
}

/// A tier that numbers what is invalidated, and passes notices of it on to all that listen, in the
/// step that invalidates. Without bytes there is no notice and no number.
pub trait NotingTier: Send + Sync {
    /// As [`Tier::set`], of a value that replaces one that other processes may have in memory.
    fn set_noted(
        &self,
        key: &[u8],
        value: &[u8],
        lifetime_ms: Option<u64>,
        ticket: Option<MissTicket>,
        notice: &[u8],
    ) -> Result<Stored, TierError>;

    /// As [`Tier::delete`].
    fn delete_noted(&self, key: &[u8], notice: &[u8]) -> Result<bool, TierError>;
}

impl dyn Tier + '_ {
    fn noting(&self) -> Option<&dyn NotingTier> {
        self.leases().and_then(LeasingTier::noting)
    }

    /// As [`Tier::set`], with a notice if the tier passes some on ([`NotingTier`]).
    pub fn set_noted(
        &self,
        key: &[u8],
        value: &[u8],
        lifetime_ms: Option<u64>,
        ticket: Option<MissTicket>,
        notice: &[u8],
    ) -> Result<Stored, TierError> {
        match self.noting() {
            Some(tier) => tier.set_noted(key, value, lifetime_ms, ticket, notice),
            None => self.set(key, value, lifetime_ms, ticket),
        }
    }

    /// As [`Tier::delete`], with a notice if the tier passes some on ([`NotingTier`]).
    pub fn delete_noted(&self, key: &[u8], notice: &[u8]) -> Result<bool, TierError> {
        match self.noting() {
            Some(tier) => tier.delete_noted(key, notice),
            None => self.delete(key),
        }
    }
}

/// How long a name is.
pub const NAME_BYTES: usize = 32;

/// A digest of what a tag is called, and in which sense.
pub type TokenName = [u8; NAME_BYTES];

/// A tier that reads tokens and entry at once, because it remembers what the tokens were.
pub trait JointReads: Send + Sync {
    /// What is stored for `key` under the present tokens of `names`, and under which key of the
    /// tier. `None` if it does not know one of them, or one is another by now: then they are read
    /// first.
    fn get_under(&self, key: &[u8], names: &[TokenName]) -> Result<Option<JointHit>, TierError>;

    /// The key of the tier alone, where that costs less than to read the tokens. `None` as above.
    fn key_under(&self, _key: &[u8], _names: &[TokenName]) -> Result<Option<Vec<u8>>, TierError> {
        Ok(None)
    }
}

/// The key of an entry in the tier, tokens included, and what is stored under it.
pub type JointHit = (Vec<u8>, Lookup);

/// A tier by which processes know of each other: it gives leases.
pub trait LeasingTier: Send + Sync {
    /// Takes, renews or gives back the lease of `key`: the right to run the body for it, which one
    /// process at a time has. Who takes one that is overdue voids the tickets of its last holder.
    fn lease(
        &self,
        key: &[u8],
        holder: &LeaseHolder,
        act: LeaseAct,
    ) -> Result<LeaseAnswer, TierError>;

    /// What is notified when the lease of `key` is given back; `None` if nothing is.
    fn wait_for(&self, _key: &[u8]) -> Option<ReleaseWait> {
        None
    }

    /// What numbers its notices; `None` if nothing does.
    fn noting(&self) -> Option<&dyn NotingTier> {
        None
    }
}

/// What a read finds.
#[derive(Debug)]
pub enum Lookup {
    /// A value that has not expired.
    Hit(TierHit),
    /// No value.
    Miss(MissTicket),
}

/// A value as it was stored.
#[derive(Debug)]
pub struct TierHit {
    bytes: Vec<u8>,
    value: Range<usize>,
    /// When it was stored, or was last known not to be invalidated, in milliseconds of the host's
    /// clock.
    pub written_ms: u64,
    /// When it expires, in milliseconds of the host's clock, or [`NEVER_MS`].
    pub until_ms: u64,
}

impl TierHit {
    /// A hit whose value is `range` of `bytes`, which spares a copy.
    ///
    /// # Panics
    /// When the range is not inside the bytes.
    pub fn new(bytes: Vec<u8>, range: Range<usize>, written_ms: u64, until_ms: u64) -> Self {
        assert!(range.start <= range.end && range.end <= bytes.len());
        TierHit {
            bytes,
            value: range,
            written_ms,
            until_ms,
        }
    }

    /// The hit without what begins its value.
    ///
    /// # Panics
    /// When the value is shorter.
    #[must_use]
    pub fn without_first(mut self, bytes: usize) -> Self {
        assert!(bytes <= self.value.len());
        self.value.start += bytes;
        self
    }

    /// The value's bytes.
    pub fn value(&self) -> &[u8] {
        &self.bytes[self.value.clone()]
    }
}

/// What a tier knew of the deletions of a key before its value was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissTicket {
    /// Which store: a ticket of another one is void.
    pub epoch: u64,
    /// How many deletions it had seen that may have been of this key.
    pub deletions: u64,
}

impl MissTicket {
    /// The ticket of a tier that has a random number for each key in the place of counts.
    pub fn of(number: u128) -> MissTicket {
        MissTicket {
            epoch: (number >> 64) as u64,
            deletions: number as u64,
        }
    }

    /// The number it was made of.
    pub fn number(self) -> u128 {
        u128::from(self.epoch) << 64 | u128::from(self.deletions)
    }
}

/// Random bytes that one process calls itself.
pub type LeaseHolder = [u8; 16];

/// What a process does with a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAct {
    /// Takes it for so long, if no process has it or its time is over.
    Take {
        /// Milliseconds.
        lifetime_ms: u64,
    },
    /// Keeps it for so long from now, if it still has it.
    Renew {
        /// Milliseconds.
        lifetime_ms: u64,
    },
    /// Gives it back, if it still has it.
    Release,
}

/// Whose a lease is after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// It is, or until now was, this process's.
    Own,
    /// It is another process's, or free.
    Other,
}

/// What became of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is stored.
    Kept,
    /// A deletion came between the ticket and the value, so it is not.
    Overtaken,
}

/// What a listener is called with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenEvent<'a> {
    /// From now on it receives all. What was announced before it may have missed.
    Began,
    /// There was none for a moment.
    Quiet,
    /// What a client has announced: bytes that are not to be trusted.
    Notice(&'a [u8]),
}

/// Which kind of failure, so that a caller can tell what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierFault {
    /// This tier cannot be used here until the settings or the machine change.
    Off,
    /// A lock stayed taken for longer than a caller waits.
    Busy,
    /// The key and value are larger than one entry may be.
    TooLarge,
    /// The stored bytes are not what was written. The store begins again empty.
    Damaged,
    /// The operating system refused.
    Io,
}

/// Why a tier did not do what it should have done.
#[derive(Clone, Debug)]
pub struct TierError {
    /// The kind.
    pub fault: TierFault,
    /// For a person: what happened, to which file, and which limit.
    pub text: String,
}

impl TierError {
    /// An error of this kind.
    pub fn new(fault: TierFault, text: impl Into<String>) -> Self {
        TierError {
            fault,
            text: text.into(),
        }
    }
}

impl fmt::Display for TierError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)
    }
}

impl std::error::Error for TierError {}
