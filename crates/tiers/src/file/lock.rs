//! Locks of parts of the file, against other threads and other processes.
//!
//! An OFD byte lock belongs to the open file: it knows no process numbers, so that containers
//! cannot mistake each other's, and the kernel frees it when its process dies. Threads share the
//! open file, so a mutex stands in front.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::super::tier::{TierError, TierFault};

/// How long a writer waits.
pub const WAIT_MS: u64 = 50;
/// How long who opens a file waits for another process that makes it: a disk may be slow.
const MAKE_WAIT_MS: u64 = 2_000;
/// How long sets wait only [`BUSY_WAIT_MS`] for a part that one of them has waited for in vain.
/// Its owner may be stopped, and each set would cost its caller [`WAIT_MS`].
const BUSY_MS: u64 = 1_000;
/// Longer than many writers in a row take, so that a part in much use is not taken for one whose
/// owner is stopped.
const BUSY_WAIT_MS: u64 = 2;
/// Tries before a waiter sleeps: a lock is held for some microseconds.
const TRIES_AWAKE: u32 = 32;
/// Nothing wakes a waiter, so one that slept long would hardly ever find a busy lock free.
const SLEEP: Duration = Duration::from_micros(50);

/// How a caller waits for a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Up to [`WAIT_MS`], or [`BUSY_WAIT_MS`] if that was lately in vain.
    Set,
    /// Up to [`WAIT_MS`]: a value that should be gone may not stay for the sake of speed.
    Delete,
    /// Up to [`MAKE_WAIT_MS`].
    Make,
}

/// Bytes of the file that stand for a part of it.
#[derive(Clone, Copy, Debug)]
pub struct LockedBytes {
    pub at: u64,
    pub length: u64,
}

impl LockedBytes {
    /// The one at `at`.
    pub fn one(at: u64) -> LockedBytes {
        LockedBytes { at, length: 1 }
    }
}

/// A lock in this process: of one part of a file, or of a few.
#[derive(Default)]
pub struct PartLock {
    threads: Mutex<()>,
    busy_until_ms: AtomicU64,
}

/// A part is locked while this lives.
pub struct PartGuard<'a> {
    file: &'a File,
    bytes: LockedBytes,
    _threads: MutexGuard<'a, ()>,
}

impl PartLock {
    /// Locks these bytes.
    ///
    /// # Errors
    /// `Busy` after the time of `patience`, `Io` if the kernel has no locks left.
    pub fn lock<'a>(
        &'a self,
        file: &'a File,
        bytes: LockedBytes,
        patience: Patience,
        now_ms: fn() -> u64,
    ) -> Result<PartGuard<'a>, TierError> {
        let begin = now_ms();
        let is_busy = begin < self.busy_until_ms.load(Ordering::Relaxed);
        let wait_ms = match patience {
            Patience::Set if is_busy => BUSY_WAIT_MS,
            Patience::Set | Patience::Delete => WAIT_MS,
            Patience::Make => MAKE_WAIT_MS,
        };
        let mut tries = 0;
        loop {
            if let Some(guard) = self.try_lock(file, bytes)? {
                return Ok(guard);
            }
            tries += 1;
            if now_ms().saturating_sub(begin) >= wait_ms {
                if wait_ms == WAIT_MS {
                    let until = now_ms().saturating_add(BUSY_MS);
                    self.busy_until_ms.store(until, Ordering::Relaxed);
                }
                let text = format!("a part of the cache file was locked for {wait_ms} ms");
                return Err(TierError::new(TierFault::Busy, text));
            }
            pause(tries);
        }
    }

    /// As [`PartLock::lock`]; `None` at once if another has it.
    pub fn try_lock<'a>(
        &'a self,
        file: &'a File,
        bytes: LockedBytes,
    ) -> Result<Option<PartGuard<'a>>, TierError> {
        let threads = match self.threads.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        match fcntl(file, FcntlArg::F_OFD_SETLK(&range(bytes, libc::F_WRLCK))) {
            Ok(_) => Ok(Some(PartGuard {
                file,
                bytes,
                _threads: threads,
            })),
            Err(Errno::EAGAIN | Errno::EACCES | Errno::EINTR) => Ok(None),
            Err(error) => {
                let text = format!("the cache file cannot be locked: {error}");
                Err(TierError::new(TierFault::Io, text))
            }
        }
    }
}

impl Drop for PartGuard<'_> {
    fn drop(&mut self) {
        // Unlocking a byte of an open file cannot fail.
        let _ = fcntl(
            self.file,
            FcntlArg::F_OFD_SETLK(&range(self.bytes, libc::F_UNLCK)),
        );
    }
}

/// Buckets in a row that threads of a process lock together.
pub const BUCKETS_AT_ONCE: u32 = 64;
/// Locks of a process for the buckets of one stripe.
const LOCKS_OF_STRIPE: u32 = 64;

/// The locks of a process for all buckets. Between processes each bucket has a lock of its own:
/// where processes are many, most of those that have a lock are not running, and a caller that
/// needs it waits until they are.
pub struct BucketLocks(Box<[PartLock]>);

impl BucketLocks {
    pub fn new(stripes: u32) -> BucketLocks {
        let locks = 0..stripes as usize * LOCKS_OF_STRIPE as usize;
        BucketLocks(locks.map(|_| PartLock::default()).collect())
    }

    /// That of a bucket of a stripe.
    pub fn of(&self, stripe: u32, bucket: u32) -> &PartLock {
        &self.0[(stripe * LOCKS_OF_STRIPE + bucket / BUCKETS_AT_ONCE % LOCKS_OF_STRIPE) as usize]
    }
}

fn range(bytes: LockedBytes, kind: i32) -> libc::flock {
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: bytes.at as i64,
        l_len: bytes.length as i64,
        l_pid: 0,
    }
}

fn pause(tries: u32) {
    if tries < TRIES_AWAKE {
        thread::yield_now();
    } else {
        thread::sleep(SLEEP);
    }
}
