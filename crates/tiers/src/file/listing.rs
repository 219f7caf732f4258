//! The entries of a copying file, bucket by bucket.

use std::os::unix::fs::FileExt;

use super::super::host::Host;
use super::super::listing::{ListedEntry, ListedSlice, TokenGuard};
use super::super::tier::{Lookup, TierError};
use super::super::tokens;
use super::failed::io;
use super::layout::{self, BUCKET_BYTES, Bucket, RECORD_HEADER_BYTES, RecordPlace, UNIT};
use super::lock::{BUCKETS_AT_ONCE, LockedBytes, Patience};
use super::opened::OpenedFile;

/// Groups of buckets that are looked through for one slice.
const GROUPS_MAX: u32 = 32;
/// Entries after which a slice ends.
const ENTRIES_MAX: usize = 1_000;

impl OpenedFile {
    /// Whether the token is still the one that was read.
    pub fn is_guarded(&self, guard: &TokenGuard, now_ms: u64) -> Result<bool, TierError> {
        let found = self.get(&tokens::key_of(&guard.name), now_ms)?;
        Ok(matches!(found, Lookup::Hit(hit) if hit.value() == guard.token))
    }

    /// As `ListingTier::list`. The cursor is the number of a bucket in the whole file.
    pub fn list(
        &self,
        start: &[u8],
        value_bytes: usize,
        cursor: u64,
        host: &Host,
    ) -> Result<ListedSlice, TierError> {
        let in_stripe = u64::from(self.layout.buckets);
        let all = in_stripe * u64::from(self.layout.stripes);
        let mut slice = ListedSlice::default();
        let mut next = cursor;
        for _ in 0..GROUPS_MAX {
            if next >= all || slice.entries.len() >= ENTRIES_MAX {
                break;
            }
            let (stripe, first) = ((next / in_stripe) as u32, (next % in_stripe) as u32);
            let count = (self.layout.buckets - first).min(BUCKETS_AT_ONCE);
            for place in self.records_of(stripe, first, count, host)? {
                let found = self.listed(place, start, value_bytes, (host.now_ms)())?;
                slice.entries.extend(found);
            }
            next += u64::from(count);
        }
        slice.next = (next < all).then_some(next);
        Ok(slice)
    }

    /// What some buckets name. Under their lock: a writer that looked at its guard before it was
    /// deleted has then written its bucket, or looks again.
    fn records_of(
        &self,
        stripe: u32,
        first: u32,
        count: u32,
        host: &Host,
    ) -> Result<Vec<RecordPlace>, TierError> {
        let start = self.layout.bucket_at(stripe, first);
        let mut bytes = vec![0; count as usize * BUCKET_BYTES];
        let locked = LockedBytes {
            at: start,
            length: bytes.len() as u64,
        };
        let lock = self.buckets.of(stripe, first);
        let guard = lock.lock(&self.file, locked, Patience::Delete, host.now_ms)?;
        self.file.read_exact_at(&mut bytes, start).map_err(io)?;
        drop(guard);
        let (buckets, _) = bytes.as_chunks::<BUCKET_BYTES>();
        let buckets = buckets.iter().enumerate().flat_map(|(place, bytes)| {
            let at = start + (place * BUCKET_BYTES) as u64;
            Bucket::new(*bytes, at, self.seed)
                .records()
                .collect::<Vec<_>>()
        });
        Ok(buckets.collect())
    }

    /// The entry at this place, if it is one whose key begins so. What was written over is none.
    fn listed(
        &self,
        place: RecordPlace,
        start: &[u8],
        value_bytes: usize,
        now_ms: u64,
    ) -> Result<Option<ListedEntry>, TierError> {
        let length = (place.units * UNIT) as usize;
        if length > self.layout.record_bytes_max {
            return Ok(None);
        }
        let at = self.record_at(place.position);
        let mut front = vec![0; (RECORD_HEADER_BYTES + start.len()).min(length)];
        self.file.read_exact_at(&mut front, at).map_err(io)?;
        // Most are of other functions, and may be long.
        if front.get(RECORD_HEADER_BYTES..) != Some(start) {
            return Ok(None);
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, at).map_err(io)?;
        let Some((head, key_length, value_length)) = layout::read_record(&bytes, self.seed) else {
            return Ok(None);
        };
        let (key, rest) = bytes[RECORD_HEADER_BYTES..].split_at(key_length);
        if head.position != place.position || now_ms >= head.until_ms || !key.starts_with(start) {
            return Ok(None);
        }
        Ok(Some(ListedEntry {
            key: key.to_vec(),
            value_start: rest[..value_length.min(value_bytes)].to_vec(),
        }))
    }
}
