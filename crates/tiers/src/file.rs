//! One file of a fixed size, shared by all processes of a host.
//!
//! Values survive the death of any process. They do not survive the host: nothing is flushed, so
//! after another start of it the file is discarded whole, since a deletion may have been lost.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::host::{ByProcess, FORKS_MAX, Host};
use crate::listing::{GuardedValue, ListedSlice, ListingTier};
use crate::narrow::NarrowTier;
use crate::tier::{
    JointHit, JointReads, LeaseAct, LeaseAnswer, LeaseHolder, LeasingTier, Lookup, MissTicket,
    Stored, Tier, TierError, TierFault, TokenName,
};
use opened::{OpenWay, OpenedFile};
use ring::NewRecord;

mod buckets;
mod clean;
mod failed;
mod fresh;
mod joint;
mod layout;
mod lease;
mod listing;
mod lock;
mod map;
mod mapped;
mod notices;
mod opened;
mod place;
mod ring;
mod sigbus;
mod survey;

pub use map::SharedBytes;
pub use mapped::{
    KnownKey, MappedEntry, MappedHit, MappedLookup, MappedStored, MappedTicket, MappedTier,
    MappedWhen, MissedKeys,
};
pub use notices::FILE_NOTICE_BYTES_MAX;
pub use survey::FileSurvey;

/// An entry may take one of this many parts of a ring, which is one stripe's share of the file.
pub const VALUE_SHARE: u64 = 4;

/// How often it is checked that the file still has its name and size, and how soon one that was
/// refused or damaged is tried again.
const CHECK_MS: u64 = 1_000;
/// How often a deletion begins again because its file was replaced.
const REPLACED_MAX: u32 = 3;

/// Where a file is, and what it is made with. One that is there keeps its own size.
#[derive(Clone, Debug)]
pub struct FileSettings {
    /// The file. Its folder is made if need be, with rights for this user alone.
    pub path: PathBuf,
    /// Size of the whole file.
    pub bytes: u64,
    /// Parts with a lock each. More let more processes write at once, fewer make room for larger
    /// entries: see [`VALUE_SHARE`].
    pub stripes: u32,
    /// Which language and which version of its codec wrote the values. A file of another one is
    /// left alone.
    pub codec: [u8; 8],
}

/// The file tier of this process and of the children it forks.
///
/// A child inherits open files and locks of its parent, and of threads that it does not have. So
/// each generation of processes opens the file for itself and has locks of its own.
pub struct FileTier {
    settings: FileSettings,
    host: Host,
    generations: ByProcess<Generation>,
}

/// What one process knows of the file.
#[derive(Default)]
struct Generation {
    state: RwLock<FileState>,
    /// When the file was last found to be current.
    checked_ms: AtomicU64,
}

#[derive(Clone, Default)]
enum FileState {
    #[default]
    Closed,
    Open(Arc<OpenedFile>),
    /// Not to be used before `until_ms`. `condemned` is the inode of a damaged file.
    Refused {
        until_ms: u64,
        why: TierError,
        condemned: Option<u64>,
    },
}

impl FileTier {
    /// A tier that opens or makes its file at the first use in each process.
    pub fn new(settings: FileSettings, host: Host) -> FileTier {
        FileTier {
            settings,
            generations: ByProcess::new(&host),
            host,
        }
    }

    fn generation(&self) -> Result<&Generation, TierError> {
        self.generations.own().ok_or_else(|| {
            let text = format!("this process is a fork of more than {FORKS_MAX} others in a row");
            TierError::new(TierFault::Off, text)
        })
    }

    /// The open file, and what time it is.
    fn opened(&self) -> Result<(Arc<OpenedFile>, u64), TierError> {
        let now_ms = (self.host.now_ms)();
        let generation = self.generation()?;
        let checked_ms = generation.checked_ms.load(Ordering::Relaxed);
        let is_fresh = checked_ms != 0 && now_ms < checked_ms.saturating_add(CHECK_MS);
        let state = generation.state.read();
        match &*state.unwrap_or_else(PoisonError::into_inner) {
            FileState::Open(opened) if is_fresh => return Ok((opened.clone(), now_ms)),
            FileState::Refused { until_ms, why, .. } if now_ms < *until_ms => {
                return Err(why.clone());
            }
            _ => {}
        }
        let opened = self.reopen(generation, now_ms)?;
        // Another process may have been waited for that makes it.
        Ok((opened, (self.host.now_ms)()))
    }

    fn reopen(&self, generation: &Generation, now_ms: u64) -> Result<Arc<OpenedFile>, TierError> {
        let state = generation.state.write();
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        let condemned = match &*state {
            FileState::Open(opened) if opened.is_current() => {
                generation.checked_ms.store(now_ms, Ordering::Relaxed);
                return Ok(opened.clone());
            }
            FileState::Refused { until_ms, why, .. } if now_ms < *until_ms => {
                return Err(why.clone());
            }
            FileState::Refused { condemned, .. } => *condemned,
            FileState::Open(_) | FileState::Closed => None,
        };
        self.close_inherited();
        match OpenedFile::open(&self.settings, OpenWay::Copying, &self.host, condemned) {
            Ok(opened) => {
                let opened = Arc::new(opened);
                *state = FileState::Open(opened.clone());
                generation.checked_ms.store(now_ms, Ordering::Relaxed);
                Ok(opened)
            }
            Err(why) => {
                *state = FileState::Refused {
                    until_ms: now_ms.saturating_add(CHECK_MS),
                    why: why.clone(),
                    condemned,
                };
                Err(why)
            }
        }
    }

    /// A lock of the parent would stay as long as one process has its open file. What a thread was
    /// using at the moment of the fork stays open: its locks cannot be waited for.
    fn close_inherited(&self) {
        for generation in self.generations.inherited() {
            if let Ok(mut state) = generation.state.try_write() {
                *state = FileState::Closed;
            }
        }
    }

    /// Does something with the open file, which is told the time. Damage closes it, and after
    /// [`CHECK_MS`] a new one takes its place.
    fn with<T>(
        &self,
        act: impl FnOnce(&OpenedFile, u64) -> Result<T, TierError>,
    ) -> Result<T, TierError> {
        let (opened, now_ms) = self.opened()?;
        let done = act(&opened, now_ms);
        if let Err(error) = &done
            && error.fault == TierFault::Damaged
        {
            self.condemn(&opened, error)?;
        }
        done
    }

    /// As [`FileTier::with`], and again if the file lost its name meanwhile: others may use the new
    /// one already, and what is deleted must be gone from that.
    fn with_current<T>(
        &self,
        act: impl Fn(&OpenedFile) -> Result<T, TierError>,
    ) -> Result<T, TierError> {
        for _ in 0..REPLACED_MAX {
            let mut is_current = true;
            let done = self.with(|opened, _| {
                let done = act(opened)?;
                is_current = opened.is_current();
                Ok(done)
            });
            if done.is_err() || is_current {
                return done;
            }
            self.generation()?.checked_ms.store(0, Ordering::Relaxed);
        }
        let text = "the cache file is replaced again and again";
        Err(TierError::new(TierFault::Damaged, text))
    }

    fn set_record(
        &self,
        record: NewRecord<'_>,
        ticket: Option<MissTicket>,
    ) -> Result<Stored, TierError> {
        self.with(|opened, _| opened.set(record, ticket, None, &self.host))
    }

    fn condemn(&self, opened: &Arc<OpenedFile>, why: &TierError) -> Result<(), TierError> {
        let state = self.generation()?.state.write();
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        // Another thread may have opened a new one meanwhile.
        if matches!(&*state, FileState::Open(current) if Arc::ptr_eq(current, opened)) {
            *state = FileState::Refused {
                until_ms: (self.host.now_ms)().saturating_add(CHECK_MS),
                why: why.clone(),
                condemned: Some(opened.inode),
            };
        }
        Ok(())
    }
}

impl JointReads for FileTier {
    fn get_under(&self, key: &[u8], names: &[TokenName]) -> Result<Option<JointHit>, TierError> {
        self.with(|opened, now_ms| opened.get_under(key, names, now_ms))
    }

    fn key_under(&self, key: &[u8], names: &[TokenName]) -> Result<Option<Vec<u8>>, TierError> {
        self.with(|opened, now_ms| opened.key_under(key, names, now_ms))
    }
}

impl LeasingTier for FileTier {
    fn lease(
        &self,
        key: &[u8],
        holder: &LeaseHolder,
        act: LeaseAct,
    ) -> Result<LeaseAnswer, TierError> {
        self.with(|opened, _| opened.lease(key, holder, act, &self.host))
    }
}

impl ListingTier for FileTier {
    fn set_guarded(&self, value: &GuardedValue<'_>) -> Result<Stored, TierError> {
        let record = NewRecord {
            key: value.key,
            value: value.value,
            lifetime_ms: value.lifetime_ms,
            known_ms: value.known_ms,
        };
        let (ticket, guard) = (Some(value.ticket), Some(&value.guard));
        self.with(|opened, _| opened.set(record, ticket, guard, &self.host))
    }

    fn list(
        &self,
        start: &[u8],
        value_bytes: usize,
        cursor: u64,
    ) -> Result<ListedSlice, TierError> {
        self.with_current(|opened| opened.list(start, value_bytes, cursor, &self.host))
    }
}

impl NarrowTier for FileTier {
    fn set_known_at(
        &self,
        key: &[u8],
        value: &[u8],
        lifetime_ms: Option<u64>,
        ticket: Option<MissTicket>,
        known_ms: u64,
    ) -> Result<Stored, TierError> {
        let record = NewRecord {
            key,
            value,
            lifetime_ms,
            known_ms: Some(known_ms),
        };
        self.set_record(record, ticket)
    }
}

impl Tier for FileTier {
    fn check(&self) -> Result<(), TierError> {
        self.opened().map(drop)
    }

    fn get(&self, key: &[u8]) -> Result<Lookup, TierError> {
        self.with(|opened, now_ms| opened.get(key, now_ms))
    }

    fn ticket(&self, key: &[u8]) -> Result<MissTicket, TierError> {
        self.with(|opened, _| opened.ticket(key))
    }

    fn set(
        &self,
        key: &[u8],
        value: &[u8],
        lifetime_ms: Option<u64>,
        ticket: Option<MissTicket>,
    ) -> Result<Stored, TierError> {
        let record = NewRecord {
            key,
            value,
            lifetime_ms,
            known_ms: None,
        };
        self.set_record(record, ticket)
    }

    fn joint_reads(&self) -> Option<&dyn JointReads> {
        Some(self)
    }

    fn leases(&self) -> Option<&dyn LeasingTier> {
        Some(self)
    }

    fn delete(&self, key: &[u8]) -> Result<bool, TierError> {
        self.with_current(|opened| opened.delete(key, &self.host))
    }

    fn clear(&self) -> Result<(), TierError> {
        self.with_current(|opened| opened.clear(&self.host))
    }
}
