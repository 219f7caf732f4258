//! A tier over any store that reads, writes and removes whole records, one at a time.
//!
//! Such a store compares nothing, so it cannot refuse a value whose key was deleted meanwhile.
//! Therefore each key has a second record, its generation: random bytes, which a miss makes. An
//! entry holds the generation its value was computed under, and counts only while the key still
//! has it. To delete a key is to remove its generation, and the next one is another.

use super::host::Host;
use super::tier::{Lookup, MissTicket, NEVER_MS, Stored, Tier, TierError, TierFault, TierHit};
use super::tokens;

/// A store of records, used from any thread, and shared by any processes.
///
/// A read sees every write and removal that had returned before it began, in whichever process. It
/// may lose any record at any time, and need not remove those whose time is over.
pub trait RecordStore: Send + Sync {
    /// As [`Tier::check`].
    fn check(&self) -> Result<(), TierError>;

    /// The record of a key, if there is one.
    fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>, TierError>;

    /// Writes a record that no reader needs after so many milliseconds.
    fn write(&self, key: &[u8], record: &[u8], lifetime_ms: u64) -> Result<(), TierError>;

    /// Removes a record; whether there was one.
    fn remove(&self, key: &[u8]) -> Result<bool, TierError>;
}

/// What begins the key of each kind of record.
const ENTRY: u8 = b'e';
const GENERATION: u8 = b'g';
const TOKEN: u8 = b't';

/// The generation, when the value was written, and when it expires: milliseconds since 1970.
const HEADER_BYTES: usize = GENERATION_BYTES + 8 + 8;
const GENERATION_BYTES: usize = 16;
/// No record is needed for longer, so that a store can remove all that are older: thirty days, the
/// longest that Memcached counts (its protocol, "Expiration times").
pub const RECORD_MS_MAX: u64 = 30 * 86_400_000;
/// A deletion may take a generation away as soon as it is made; so many do not follow each other
/// by chance.
const TRIES: u32 = 16;

/// A tier of these records. It gives no leases, since to take one is to compare.
pub struct RecordTier<S> {
    store: S,
    host: Host,
}

fn key_of(kind: u8, key: &[u8]) -> Vec<u8> {
    [&[kind], key].concat()
}

/// The number that begins these bytes.
fn number(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

impl<S: RecordStore> RecordTier<S> {
    /// A tier in this store. The clocks of the hosts that share it must agree: how old an entry is
    /// and when it ends is counted by them.
    pub fn new(store: S, host: Host) -> RecordTier<S> {
        RecordTier { store, host }
    }

    fn found_generation(&self, key: &[u8]) -> Result<Option<u128>, TierError> {
        let found = self.store.read(&key_of(GENERATION, key))?;
        // Other bytes are nothing of ours, and replaced.
        let found = found.and_then(|bytes| bytes.try_into().ok());
        Ok(found.map(u128::from_be_bytes))
    }

    /// The generation of a key; one that is missing is made. Of two processes that make one, both
    /// have what was written last.
    fn generation(&self, key: &[u8]) -> Result<u128, TierError> {
        for _ in 0..TRIES {
            if let Some(found) = self.found_generation(key)? {
                return Ok(found);
            }
            let mut made = [0; GENERATION_BYTES];
            (self.host.random)(&mut made);
            let key = key_of(GENERATION, key);
            self.store.write(&key, &made, RECORD_MS_MAX)?;
        }
        Err(TierError::new(TierFault::Busy, "the key is being deleted"))
    }

    /// The entry in these bytes, if it is of this generation and its time is not over.
    fn hit(&self, bytes: Vec<u8>, generation: u128) -> Option<TierHit> {
        let header = bytes.get(..HEADER_BYTES)?;
        let (held, times) = header.split_at(GENERATION_BYTES);
        if held != generation.to_be_bytes() {
            return None;
        }
        let (written, until) = (number(times)?, number(&times[8..])?);
        let (wall_ms, now_ms) = ((self.host.wall_ms)(), (self.host.now_ms)());
        let left_ms = until.checked_sub(wall_ms).filter(|left_ms| *left_ms > 0)?;
        // A clock that was set back must not make an entry younger or longer than it may be.
        let left_ms = left_ms.min(RECORD_MS_MAX);
        let written_ms = now_ms.saturating_sub(wall_ms.saturating_sub(written));
        let value = HEADER_BYTES..bytes.len();
        let until_ms = now_ms.saturating_add(left_ms);
        Some(TierHit::new(bytes, value, written_ms, until_ms))
    }
}

impl<S: RecordStore> Tier for RecordTier<S> {
    fn check(&self) -> Result<(), TierError> {
        self.store.check()
    }

    fn get(&self, key: &[u8]) -> Result<Lookup, TierError> {
        if tokens::is_key(key) {
            // A token is random itself, and needs no generation beside it.
            let found = self.store.read(&key_of(TOKEN, key))?;
            return Ok(found.map_or(Lookup::Miss(MissTicket::of(0)), |bytes| {
                let all = 0..bytes.len();
                // As written now: nothing here grows old by the writes of others.
                Lookup::Hit(TierHit::new(bytes, all, (self.host.now_ms)(), NEVER_MS))
            }));
        }
        let Some(generation) = self.found_generation(key)? else {
            return self.ticket(key).map(Lookup::Miss);
        };
        let found = self.store.read(&key_of(ENTRY, key))?;
        let hit = found.and_then(|bytes| self.hit(bytes, generation));
        Ok(hit.map_or(Lookup::Miss(MissTicket::of(generation)), Lookup::Hit))
    }

    fn ticket(&self, key: &[u8]) -> Result<MissTicket, TierError> {
        if tokens::is_key(key) {
            return Ok(MissTicket::of(0));
        }
        self.generation(key).map(MissTicket::of)
    }

    fn set(
        &self,
        key: &[u8],
        value: &[u8],
        lifetime_ms: Option<u64>,
        ticket: Option<MissTicket>,
    ) -> Result<Stored, TierError> {
        if tokens::is_key(key) {
            self.store
                .write(&key_of(TOKEN, key), value, RECORD_MS_MAX)?;
            return Ok(Stored::Kept);
        }
        if lifetime_ms == Some(0) {
            self.delete(key)?;
            return Ok(Stored::Kept);
        }
        let generation = match ticket {
            Some(ticket) => ticket.number(),
            None => self.generation(key)?,
        };
        let lifetime_ms = lifetime_ms.map_or(RECORD_MS_MAX, |some_ms| some_ms.min(RECORD_MS_MAX));
        let wall_ms = (self.host.wall_ms)();
        let mut record = Vec::with_capacity(HEADER_BYTES + value.len());
        record.extend(generation.to_be_bytes());
        record.extend(wall_ms.to_be_bytes());
        record.extend(wall_ms.saturating_add(lifetime_ms).to_be_bytes());
        record.extend(value);
        self.store
            .write(&key_of(ENTRY, key), &record, lifetime_ms)?;
        // After the write: a deletion before this has made the entry one that no read gives.
        Ok(match self.found_generation(key)? {
            Some(found) if found == generation => Stored::Kept,
            _ => Stored::Overtaken,
        })
    }

    fn delete(&self, key: &[u8]) -> Result<bool, TierError> {
        if tokens::is_key(key) {
            return self.store.remove(&key_of(TOKEN, key));
        }
        self.store.remove(&key_of(GENERATION, key))?;
        // It is deleted already; this gives its space back.
        Ok(self.store.remove(&key_of(ENTRY, key)).unwrap_or(true))
    }

    fn clear(&self) -> Result<(), TierError> {
        let text = "a store of records cannot be cleared as a whole";
        Err(TierError::new(TierFault::Off, text))
    }
}
