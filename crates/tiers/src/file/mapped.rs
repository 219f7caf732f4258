//! A cache file whose values are read in place, for one thread of a language that has many
//! processes and no time: PHP.
//!
//! It differs from [`super::FileTier`] in how the file is opened, and in what its callers need:
//! groups that are forgotten at once, values stored only if there is one or none, and values
//! changed under the lock. What is read often stays longer.

use std::cell::{Cell, OnceCell, RefCell};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use twox_hash::XxHash3_64;

use super::super::host::Host;
use super::super::tier::{TierError, TierFault};
use super::failed::{damaged, io};
use super::layout::{OVER_AT, PAGE};
use super::map::{FileMap, SharedBytes};
use super::opened::{OpenWay, OpenedFile};
use super::{CHECK_MS, FileSettings, FileSurvey, REPLACED_MAX, clean};
use keys::{Generations, LastGroup};
use reads::SeenRecords;

mod eviction;
mod index;
#[cfg(all(loom, test))]
mod interleavings;
mod keys;
mod missed;
mod reads;
mod survey;
#[cfg(test)]
mod tests;
mod writes;

pub use missed::{KnownKey, MissedKeys};
pub use reads::MappedHit;

/// What a read finds.
pub enum MappedLookup<'a> {
    /// A value that has not expired, still in its place.
    Hit(MappedHit<'a>),
    /// No value.
    Miss(MappedTicket),
}

/// What was known of the deletions of a key before its value was computed: which file it was, which
/// flushes it had seen, and how many deletions that may have been of this key. All in one word,
/// since a process may hold hundreds of thousands; its last bit is 0, for who remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedTicket(u64);

impl MappedTicket {
    fn new(seed: u64, generations: Generations, deletions: u64) -> MappedTicket {
        // Each step is one to one, and without the first bit, which the shift drops, tickets of
        // counts less than 2^31 apart still differ; those of other parts differ by chance, because
        // a seed and a generation are random.
        let parts = [generations.all, generations.group, deletions];
        let all = parts.into_iter().fold(seed, |word, part| {
            let mixed = (word ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^ mixed >> 32
        });
        MappedTicket(all << 1)
    }
}

/// A value to be stored.
#[derive(Clone, Copy, Debug)]
pub struct MappedEntry<'a> {
    /// What the key belongs to.
    pub group: &'a [u8],
    /// Which one of the group.
    pub key: &'a [u8],
    /// Its bytes.
    pub value: &'a [u8],
    /// Milliseconds from now; for ever if `None`.
    pub lifetime_ms: Option<u64>,
    /// If there is one: not after a deletion that it has not seen.
    pub ticket: Option<MappedTicket>,
    /// Whether it depends on the value before.
    pub when: MappedWhen,
}

/// Which state of a key lets a value be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappedWhen {
    /// Any.
    Always,
    /// It has no value.
    Absent,
    /// It has one.
    Present,
}

/// What became of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappedStored {
    /// It is stored.
    Kept,
    /// A deletion came between the ticket and the value, so it is not.
    Overtaken,
    /// The key was not in the state demanded, so it is not.
    Refused,
}

/// A mapped file of this thread, and of the processes forked from it: each opens it for itself.
///
/// A hit borrows this. Files that were replaced stay mapped until [`MappedTier::release`].
pub struct MappedTier {
    settings: FileSettings,
    host: Host,
    /// The first of a row of files, of which the last one is in use.
    first: OnceCell<Box<MapOpening>>,
    /// Until when it is not tried to open one, and why.
    refused: RefCell<Option<(u64, TierError)>>,
}

struct MapOpening {
    file: MappedFile,
    /// Which process of the line of forks has opened it.
    forks: u32,
    is_damaged: Cell<bool>,
    checked_ms: Cell<u64>,
    next: OnceCell<Box<MapOpening>>,
}

impl MappedTier {
    /// A tier that opens or makes its file at the first use in each process.
    pub fn new(settings: FileSettings, host: Host) -> MappedTier {
        MappedTier {
            settings,
            host,
            first: OnceCell::new(),
            refused: RefCell::new(None),
        }
    }

    /// Whether it can be used, and why not. Changes nothing that is stored.
    ///
    /// # Errors
    /// As those of [`super::FileTier`]: `Off` until the settings or the machine change.
    pub fn check(&self) -> Result<(), TierError> {
        self.opened((self.host.now_ms)()).map(drop)
    }

    /// The value of a key, in its place, or a ticket with which the one computed instead is stored.
    ///
    /// # Errors
    /// `Off`, or `Damaged`: after a second there is a new file.
    pub fn get(&self, group: &[u8], key: &[u8]) -> Result<MappedLookup<'_>, TierError> {
        let now_ms = (self.host.now_ms)();
        self.with_at(now_ms, |file| file.get(group, key, now_ms))
    }

    /// A ticket whether or not there is a value.
    ///
    /// # Errors
    /// As [`MappedTier::get`].
    pub fn ticket(&self, group: &[u8], key: &[u8]) -> Result<MappedTicket, TierError> {
        self.with(|file| Ok(file.ticket(group, key)))
    }

    /// Stores a value. One that fails leaves the value before it, or none.
    ///
    /// # Errors
    /// `Busy` after 50 ms of waiting for another process, `TooLarge`, and those of
    /// [`MappedTier::get`].
    pub fn set(&self, entry: &MappedEntry<'_>) -> Result<MappedStored, TierError> {
        self.with(|file| file.set(entry, &self.host))
    }

    /// Stores what `change` makes of the value, with the same end. `Refused` if there is no value,
    /// or if `change` makes nothing of it.
    ///
    /// `change` runs while a part of the file is locked for all processes: it may not wait, panic,
    /// or call into a language.
    ///
    /// # Errors
    /// As [`MappedTier::set`].
    pub fn update(
        &self,
        group: &[u8],
        key: &[u8],
        change: impl Fn(&[u8]) -> Option<Vec<u8>>,
    ) -> Result<MappedStored, TierError> {
        self.with_current(|file| file.update(group, key, &change, &self.host))
    }

    /// Removes a value, and makes older tickets for its key void. Whether there was one.
    ///
    /// No read that begins after this has returned `Ok` gives a value stored before, in any
    /// process.
    ///
    /// # Errors
    /// As [`MappedTier::set`].
    pub fn delete(&self, group: &[u8], key: &[u8]) -> Result<bool, TierError> {
        self.remove(group, key).map(|(was_there, _)| was_there)
    }

    /// As [`MappedTier::delete`], with a ticket that has seen this deletion and no later one.
    ///
    /// # Errors
    /// As [`MappedTier::set`].
    pub fn remove(&self, group: &[u8], key: &[u8]) -> Result<(bool, MappedTicket), TierError> {
        self.with_current(|file| file.delete(group, key, &self.host))
    }

    /// Deletes every key of a group, and seldom those of another one. Takes as long for a million
    /// keys as for none.
    ///
    /// # Errors
    /// As [`MappedTier::set`].
    pub fn flush_group(&self, group: &[u8]) -> Result<(), TierError> {
        self.flush_group_of(XxHash3_64::oneshot(group))
    }

    /// As [`MappedTier::flush_group`], of each group whose name has this hash (XXH3, seed 0).
    ///
    /// # Errors
    /// As [`MappedTier::set`].
    pub fn flush_group_of(&self, hash: u64) -> Result<(), TierError> {
        self.with_current(|file| file.flush_group(hash, &self.host))
    }

    /// As [`MappedTier::delete`], of each key whose group and name, one after the other, have this
    /// hash (XXH3, seed 0).
    ///
    /// # Errors
    /// As [`MappedTier::set`].
    pub fn forget(&self, hash: u64) -> Result<(), TierError> {
        self.with_current(|file| file.forget(hash, &self.host))
    }

    /// Looks through the whole file while others use it.
    ///
    /// # Errors
    /// As [`MappedTier::get`].
    pub fn survey(&self) -> Result<FileSurvey, TierError> {
        self.with(|file| file.survey(&self.host))
    }

    /// Deletes every key.
    ///
    /// # Errors
    /// As [`MappedTier::set`].
    pub fn flush(&self) -> Result<(), TierError> {
        self.with_current(|file| file.flush(&self.host))
    }

    /// Brings everything to the disk and marks the file as clean: until the next write, it outlives
    /// a new start of the host.
    ///
    /// # Errors
    /// As [`MappedTier::set`], and when the disk refuses.
    pub fn sync(&self) -> Result<(), TierError> {
        self.with(|file| file.sync(&self.host))
    }

    /// Unmaps files that were replaced. That no hit is left is what the exclusive borrow says.
    pub fn release(&mut self) {
        while let Some(opening) = self.first.get_mut()
            && opening.next.get().is_some()
        {
            self.first = opening
                .next
                .take()
                .map_or_else(OnceCell::new, OnceCell::from);
        }
    }

    fn last(&self) -> Option<&MapOpening> {
        let mut last: &MapOpening = self.first.get()?;
        while let Some(next) = last.next.get() {
            last = next;
        }
        Some(last)
    }

    fn opened(&self, now_ms: u64) -> Result<&MapOpening, TierError> {
        let last = self.last();
        if let Some(opening) = last
            && opening.is_usable(&self.settings.path, &self.host, now_ms)
        {
            return Ok(opening);
        }
        if let Some((until_ms, why)) = &*self.refused.borrow()
            && now_ms < *until_ms
        {
            return Err(why.clone());
        }
        self.reopen(last, now_ms)
    }

    fn reopen<'a>(
        &'a self,
        last: Option<&'a MapOpening>,
        now_ms: u64,
    ) -> Result<&'a MapOpening, TierError> {
        let forks = (self.host.forks)();
        let mut condemned = None;
        if let Some(opening) = last {
            if opening.forks != forks {
                opening.file.close_inherited();
            }
            if opening.is_damaged.get() {
                condemned = Some(opening.file.opened.inode);
            }
        }
        let opened = OpenedFile::open(&self.settings, OpenWay::Mapped, &self.host, condemned)
            .and_then(|opened| MappedFile::new(opened, &self.host));
        match opened {
            Ok(file) => {
                let opening = Box::new(MapOpening {
                    file,
                    forks,
                    is_damaged: Cell::new(false),
                    checked_ms: Cell::new(now_ms),
                    next: OnceCell::new(),
                });
                let place = last.map_or(&self.first, |last| &last.next);
                Ok(place.get_or_init(|| opening))
            }
            Err(why) => {
                self.refuse(now_ms, &why);
                Err(why)
            }
        }
    }

    fn refuse(&self, now_ms: u64, why: &TierError) {
        let until_ms = now_ms.saturating_add(CHECK_MS);
        *self.refused.borrow_mut() = Some((until_ms, why.clone()));
    }

    /// Does something with the file. Damage, and a page that was missing meanwhile, closes it.
    fn with<'a, T>(
        &'a self,
        act: impl FnOnce(&'a MappedFile) -> Result<T, TierError>,
    ) -> Result<T, TierError> {
        self.with_at((self.host.now_ms)(), act)
    }

    /// As [`MappedTier::with`], for who has read the host's clock.
    fn with_at<'a, T>(
        &'a self,
        now_ms: u64,
        act: impl FnOnce(&'a MappedFile) -> Result<T, TierError>,
    ) -> Result<T, TierError> {
        let opening = self.opened(now_ms)?;
        let mut done = act(&opening.file);
        if opening.file.map.is_lost() {
            done = Err(damaged("a page of the cache file is missing"));
        }
        if let Err(error) = &done
            && error.fault == TierFault::Damaged
        {
            opening.is_damaged.set(true);
            self.refuse((self.host.now_ms)(), error);
        }
        done
    }

    /// As [`MappedTier::with`], and again if another file took the place of this one meanwhile:
    /// others may use that one already, and what is deleted must be gone from it.
    fn with_current<'a, T>(
        &'a self,
        act: impl Fn(&'a MappedFile) -> Result<T, TierError>,
    ) -> Result<T, TierError> {
        for _ in 0..REPLACED_MAX {
            let mut is_current = true;
            let done = self.with(|file| {
                let done = act(file)?;
                is_current = !file.is_over() && file.opened.is_current();
                Ok(done)
            });
            if done.is_err() || is_current {
                return done;
            }
            if let Some(opening) = self.last() {
                opening.checked_ms.set(0);
            }
        }
        Err(damaged("the cache file is replaced again and again"))
    }
}

impl MapOpening {
    fn is_usable(&self, path: &Path, host: &Host, now_ms: u64) -> bool {
        let is_bad = self.is_damaged.get() || self.file.is_over() || self.file.map.is_lost();
        if is_bad || self.forks != (host.forks)() {
            return false;
        }
        let checked_ms = self.checked_ms.get();
        if checked_ms != 0 && now_ms < checked_ms.saturating_add(CHECK_MS) {
            return true;
        }
        // A folder that was moved takes its file along, which has a name still.
        let opened = &self.file.opened;
        if !opened.is_current() || !opened.is_named(path) {
            return false;
        }
        self.checked_ms.set(now_ms);
        true
    }
}

/// An open file and its map.
struct MappedFile {
    opened: OpenedFile,
    map: FileMap,
    /// What the file's clock shows more than the host's; see [`clean`].
    offset_ms: u64,
    seen: SeenRecords,
    /// The word of each head that was last found to be right.
    heads: Box<[Cell<u64>]>,
    last_group: RefCell<LastGroup>,
}

impl MappedFile {
    fn new(opened: OpenedFile, host: &Host) -> Result<MappedFile, TierError> {
        let map = FileMap::new(&opened.file, opened.bytes()).map_err(|error| {
            let text = format!("the cache file cannot be mapped: {error}");
            TierError::new(TierFault::Off, text)
        })?;
        let mut clock = [0; clean::CLOCK_BYTES];
        map.bytes(clean::CLOCK_AT, clock.len()).copy_to(&mut clock);
        let offset_ms = clean::read_clock(&clock, opened.seed, host);
        let offset_ms = offset_ms.ok_or_else(|| damaged("the clock of the file is damaged"));
        Ok(MappedFile {
            offset_ms: offset_ms?,
            heads: (0..opened.layout.stripes).map(|_| Cell::new(0)).collect(),
            opened,
            map,
            seen: SeenRecords::new(),
            last_group: RefCell::default(),
        })
    }

    /// What the file's clock shows.
    fn now_ms(&self, host: &Host) -> u64 {
        (host.now_ms)().wrapping_add(self.offset_ms)
    }

    /// Whether another file has taken its place.
    fn is_over(&self) -> bool {
        self.map.word(OVER_AT).load(Ordering::Acquire) != 0
    }

    /// Gives up the parent's open file, to which its locks belong. The map stays, since something
    /// may be reading in it.
    #[allow(unsafe_code)]
    fn close_inherited(&self) {
        if let Ok(null) = std::fs::File::open("/dev/null") {
            // SAFETY: both are open, and the number of the old one stays ours.
            unsafe { nix::libc::dup2(null.as_raw_fd(), self.opened.file.as_raw_fd()) };
        }
    }

    fn record_bytes(&self, stripe: u32, position: u64, length: usize) -> SharedBytes<'_> {
        let at = self.opened.layout.record_at(stripe, position);
        self.map.bytes(at, length)
    }

    fn head(&self, stripe: u32) -> Result<u64, TierError> {
        let at = self.opened.layout.head_at(stripe);
        let word = u64::from_le(self.map.word(at).load(Ordering::Acquire));
        let known = &self.heads[stripe as usize];
        if known.get() == word && word != 0 {
            return Ok(super::layout::head_in_word(word));
        }
        let head = super::layout::read_head_word(word, stripe, self.opened.seed);
        let head =
            head.ok_or_else(|| damaged("the head of a ring of the cache file is damaged"))?;
        known.set(word);
        Ok(head)
    }

    /// Raises the head. What is written afterwards over older records is seen by no reader
    /// that does not see this head as well.
    fn raise_head(&self, stripe: u32, head: u64) {
        let word = super::layout::head_word(head, stripe, self.opened.seed);
        let at = self.opened.layout.head_at(stripe);
        self.map.word(at).store(word.to_le(), Ordering::Release);
        // Bytes are written by the kernel, on this processor or after a barrier of its own.
        fence(Ordering::SeqCst);
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        self.map.word(at)
    }

    /// Brings everything written to the disk, and then the mark that says so.
    fn sync(&self, host: &Host) -> Result<(), TierError> {
        // Most of it while others go on: a writer waits for 50 ms, and a disk may take longer.
        self.opened.file.sync_all().map_err(io)?;
        let stripes = 0..self.opened.layout.stripes;
        let locks = stripes.map(|stripe| {
            let patience = super::lock::Patience::Delete;
            self.opened.lock(stripe, patience, host)
        });
        // Nothing is written until all of them are given back.
        let _locks = locks.collect::<Result<Vec<_>, TierError>>()?;
        self.opened.file.sync_all().map_err(io)?;
        let mark = clean::mark_bytes(self.now_ms(host), self.opened.seed, host);
        let (state, clocks) = mark.split_at(8);
        let file = &self.opened.file;
        std::os::unix::fs::FileExt::write_all_at(file, clocks, clean::AT + 8).map_err(io)?;
        let state = word_of(state);
        self.word(clean::AT).store(state.to_le(), Ordering::Release);
        file.sync_all().map_err(io)
    }

    /// To be called under a lock before anything is changed.
    fn leave_clean(&self) -> Result<(), TierError> {
        let state = self.word(clean::AT);
        clean::leave(state, || self.opened.file.sync_all().map_err(io))
    }
}

fn word_of(bytes: &[u8]) -> u64 {
    super::layout::word(bytes, 0)
}

/// The header's page has room for what a mapped file keeps in it.
const _: () = assert!(OVER_AT + 8 <= clean::AT && clean::CLOCK_AT < PAGE);
