//! The entries of a server, by `SCAN`: it gives each key that is there from its begin to its end
//! (redis.io, "SCAN", "Scan guarantees").

use super::stream::numbering;
use super::{ENTRY, HEADER_BYTES, LIFETIME_MS_MAX, Record, RedisTier, SCAN_COUNT, record_bytes};
use crate::listing::{GuardedValue, ListedEntry, ListedSlice, ListingTier};
use crate::protocol;
use crate::tier::{NotingTier as _, Stored, TierError};
use crate::tokens;

/// Stores a record if the one there has its token and that of the guard is the given one, which
/// stands behind the header of its own record; for ever if the lifetime is 0.
pub const STORE_GUARDED: &str = concat!(
    "
    local found = redis.call('GETRANGE', KEYS[1], 1, 16)
    if found ~= string.sub(ARGV[1], 2, 17) then return 0 end
    if redis.call('GETRANGE', KEYS[2], 25, -1) ~= ARGV[3] then return 0 end
    if ARGV[2] == '0' then redis.call('SET', KEYS[1], ARGV[1])
    else redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
",
    numbering!(3),
    "
    return 1
"
);
/// Keys whose records are asked for, or deleted, at once.
const AT_ONCE: usize = 100;

impl RedisTier {
    /// What `SCAN` matches with the keys that begin so.
    pub fn pattern(&self, start: &[u8]) -> String {
        // What is special in a pattern stands for itself.
        let special = |letter: char| "*?[]\\^".contains(letter);
        let escaped: String = (self.key_prefix.chars())
            .flat_map(|letter| special(letter).then_some('\\').into_iter().chain([letter]))
            .collect();
        [&escaped, "{", &protocol::digits(start), "*"].concat()
    }

    /// The key of this tier that stands under this name in the server.
    fn key_in(&self, name: &[u8]) -> Option<Vec<u8>> {
        let digits = name.strip_prefix(self.key_prefix.as_bytes())?;
        // What stands beside an entry, such as its lease, has more behind the brace.
        let digits = digits.strip_prefix(b"{")?.strip_suffix(b"}")?;
        protocol::of_digits(digits)
    }
}

impl ListingTier for RedisTier {
    fn set_guarded(&self, value: &GuardedValue<'_>) -> Result<Stored, TierError> {
        if value.lifetime_ms == Some(0) {
            self.delete_noted(value.key, value.notice)?;
            return Ok(Stored::Kept);
        }
        let key = self.key(value.key);
        let guard = self.key(&tokens::key_of(&value.guard.name));
        let life_ms = (value.lifetime_ms).map_or(0, |life_ms| life_ms.min(LIFETIME_MS_MAX));
        let record = record_bytes(ENTRY, value.ticket.number(), life_ms, value.value);
        let mut call = self.scripts.store_guarded.key(&key);
        call.key(guard).arg(record.as_slice()).arg(life_ms);
        call.arg(value.guard.token.as_slice());
        if !value.notice.is_empty() {
            self.announce_by(&mut call, value.notice)?;
        }
        let is_kept: bool = self.with(|connection| call.invoke(connection))?;
        Ok(if is_kept {
            Stored::Kept
        } else {
            Stored::Overtaken
        })
    }

    fn list(
        &self,
        start: &[u8],
        value_bytes: usize,
        cursor: u64,
    ) -> Result<ListedSlice, TierError> {
        self.with(|connection| {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(self.pattern(start));
            let (next, names): (u64, Vec<Vec<u8>>) =
                scan.arg("COUNT").arg(SCAN_COUNT).query(connection)?;
            let keys = names.iter().filter_map(|name| {
                let key = self.key_in(name)?;
                Some((name, key))
            });
            let keys: Vec<_> = keys.collect();
            let mut slice = ListedSlice {
                next: (next != 0).then_some(next),
                ..ListedSlice::default()
            };
            for part in keys.chunks(AT_ONCE) {
                let mut read = redis::pipe();
                for (name, _) in part {
                    read.cmd("GETRANGE").arg(name.as_slice()).arg(0);
                    read.arg(HEADER_BYTES + value_bytes - 1);
                }
                let records: Vec<Vec<u8>> = read.query(connection)?;
                for ((_, key), record) in part.iter().zip(records) {
                    if matches!(Record::of(&record), Some(Record::Entry { .. })) {
                        slice.entries.push(ListedEntry {
                            key: key.clone(),
                            value_start: Record::value_in(&record).to_vec(),
                        });
                    }
                }
            }
            Ok(slice)
        })
    }

    fn delete_all(&self, keys: &[Vec<u8>]) -> Result<(), TierError> {
        keys.chunks(AT_ONCE).try_for_each(|part| {
            let mut delete = redis::cmd("DEL");
            delete.arg(part.iter().map(|key| self.key(key)).collect::<Vec<_>>());
            self.with(|connection| delete.exec(connection))
        })
    }
}
