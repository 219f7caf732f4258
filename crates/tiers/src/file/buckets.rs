//! The buckets of a copying file: how they are read, locked and written.

use std::os::unix::fs::FileExt;

use super::super::host::Host;
use super::super::tier::TierError;
use super::failed::{damaged, io};
use super::layout::{BUCKET_BYTES, Bucket, KeyPlace};
use super::lock::{BUCKETS_AT_ONCE, LockedBytes, PartGuard, Patience};
use super::opened::OpenedFile;

const DAMAGED: &str = "a bucket of the cache file is damaged";

impl OpenedFile {
    /// The bucket, to be written again.
    pub fn sound_bucket(&self, place: KeyPlace) -> Result<Bucket, TierError> {
        let bucket = self.bucket(place)?;
        match bucket.deletions() {
            Some(_) => Ok(bucket),
            None => Err(damaged(DAMAGED)),
        }
    }

    pub fn bucket(&self, place: KeyPlace) -> Result<Bucket, TierError> {
        let at = self.layout.bucket_at(place.stripe, place.bucket);
        let mut bytes = [0; BUCKET_BYTES];
        self.file.read_exact_at(&mut bytes, at).map_err(io)?;
        Ok(Bucket::new(bytes, at, self.seed))
    }

    pub fn write_bucket(&self, place: KeyPlace, bucket: &Bucket) -> Result<(), TierError> {
        let at = self.layout.bucket_at(place.stripe, place.bucket);
        self.file.write_all_at(bucket.bytes(), at).map_err(io)
    }

    pub fn lock_bucket(
        &self,
        place: KeyPlace,
        patience: Patience,
        host: &Host,
    ) -> Result<PartGuard<'_>, TierError> {
        let bytes = LockedBytes::one(self.layout.bucket_at(place.stripe, place.bucket));
        let lock = self.buckets.of(place.stripe, place.bucket);
        lock.lock(&self.file, bytes, patience, host.now_ms)
    }

    pub fn delete(&self, key: &[u8], host: &Host) -> Result<bool, TierError> {
        let place = self.place(key);
        let _lock = self.lock_bucket(place, Patience::Delete, host)?;
        let mut bucket = self.sound_bucket(place)?;
        bucket.count_on();
        let was_there = bucket.remove(place.tag);
        self.write_bucket(place, &bucket)?;
        Ok(was_there)
    }

    pub fn clear(&self, host: &Host) -> Result<(), TierError> {
        for stripe in 0..self.layout.stripes {
            let mut first = 0;
            while first < self.layout.buckets {
                let rest = self.layout.buckets - first;
                first += self.clear_buckets(stripe, first, rest.min(BUCKETS_AT_ONCE), host)?;
            }
        }
        Ok(())
    }

    fn clear_buckets(
        &self,
        stripe: u32,
        first: u32,
        count: u32,
        host: &Host,
    ) -> Result<u32, TierError> {
        let start = self.layout.bucket_at(stripe, first);
        let mut bytes = vec![0; count as usize * BUCKET_BYTES];
        let locked = LockedBytes {
            at: start,
            length: bytes.len() as u64,
        };
        let lock = self.buckets.of(stripe, first);
        let _lock = lock.lock(&self.file, locked, Patience::Delete, host.now_ms)?;
        self.file.read_exact_at(&mut bytes, start).map_err(io)?;
        let (buckets, _) = bytes.as_chunks_mut::<BUCKET_BYTES>();
        for (place, bytes) in buckets.iter_mut().enumerate() {
            let at = start + (place * BUCKET_BYTES) as u64;
            let mut bucket = Bucket::new(*bytes, at, self.seed);
            if bucket.deletions().is_none() {
                return Err(damaged(DAMAGED));
            }
            bucket.empty();
            bucket.count_on();
            *bytes = *bucket.bytes();
        }
        self.file.write_all_at(&bytes, start).map_err(io)?;
        Ok(count)
    }
}
