//! Rebuilds what a crash leaves behind, at every point of a recorded sequence.
//!
//! What the model takes for granted, and why:
//!
//! - A file's creation and deletion are durable at once. The unix VFS syncs the directory itself
//!   (at a new journal's or WAL's first sync, and at a delete that asks for it), below this shim
//!   and so unseen by it.
//! - Existing bytes outside a write are never damaged, and a sector is written whole or not at
//!   all. SQLite counts on the former too (`SQLITE_IOCAP_POWERSAFE_OVERWRITE`, on by default).
//! - After a failed sync nothing is known of the file's earlier unsynced writes, even if a later
//!   sync succeeds: Linux may mark such pages clean, and the disk may have some of them. The
//!   system's own memory has them all. Linux tells every open handle of the file
//!   once; a fault strikes one call. Where the writer and a checkpoint sync the same WAL at the
//!   same time, arm the fault for both (`times(2)`), or the model loses what a real disk reports.
//! - The WAL-index (`-shm`) never survives.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Event, What};

/// The unit a disk writes whole. 512 is the smallest in use, so tearing there covers larger ones.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Which unsynced writes and truncations a crash takes along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All of them: nothing remains that no sync covered.
    Unsynced,
    /// As before, but what a sync covered that failed was on the disk by then.
    UnsyncedOnly,
    /// Each is kept, dropped, or (writes) kept in some of its sectors, by chance from this seed
    /// and the point's number alone. They keep their order.
    Seeded(u64),
    /// None: the process died and the system lives, as after `kill -9`.
    Nothing,
}

/// Walks a sequence from its first event to its last, keeping what is durable up to date.
pub struct Crashes {
    events: Vec<Event>,
    passed: usize,
    disk: Disk,
}

impl Crashes {
    pub(super) fn new(events: Vec<Event>) -> Crashes {
        Crashes {
            events,
            passed: 0,
            disk: Disk::default(),
        }
    }

    /// Steps over one event and shows the crash right after it; `None` at the end.
    ///
    /// A step costs no more than the bytes it makes durable; only `write_to` touches the disk.
    pub fn advance(&mut self) -> Option<CrashPoint<'_>> {
        let event = self.events.get(self.passed)?;
        self.passed += 1;
        self.disk.apply(event);
        Some(CrashPoint {
            event,
            disk: &self.disk,
        })
    }
}

/// A crash right after one event.
pub struct CrashPoint<'a> {
    event: &'a Event,
    disk: &'a Disk,
}

impl CrashPoint<'_> {
    /// The event's number.
    pub fn seq(&self) -> u64 {
        self.event.seq
    }

    /// The last event before the crash.
    pub fn event(&self) -> &Event {
        self.event
    }

    /// Rises whenever [`Loss::Unsynced`] would leave other files than at the point before. Points
    /// of equal number need one look only.
    pub fn state_number(&self) -> u64 {
        self.disk.state_number
    }

    /// Makes `directory` hold the recorded files as the crash leaves them; creates it if needed.
    ///
    /// Files of the same names that stand there, and their `-shm`, are replaced or removed, so
    /// one directory can serve point after point.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write_to(&self, directory: &Path, loss: Loss) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        for (path, image) in &self.disk.images {
            let target = directory.join(path);
            let mut shared_memory = target.clone().into_os_string();
            shared_memory.push("-shm");
            remove_if_there(Path::new(&shared_memory))?;
            match image {
                Some(image) => write_image(&target, &image.after(loss, self.seq()))?,
                None => remove_if_there(&target)?,
            }
        }
        Ok(())
    }
}

fn write_image(target: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(target, bytes)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Every file the log ever knew; `None` while it does not exist.
#[derive(Default)]
struct Disk {
    images: BTreeMap<PathBuf, Option<Image>>,
    state_number: u64,
}

impl Disk {
    fn apply(&mut self, event: &Event) {
        let changed = match &event.what {
            What::Opened { file, bytes } => {
                let image = Image {
                    durable: bytes.to_vec(),
                    pending: Vec::new(),
                };
                self.images.insert(file.path.clone(), Some(image));
                true
            }
            What::Deleted { file } => {
                self.images.insert(file.path.clone(), None);
                true
            }
            What::Wrote {
                file,
                offset,
                bytes,
            } => {
                let edit = Edit::Write {
                    offset: *offset,
                    bytes: Arc::clone(bytes),
                };
                self.pend(&file.path, event.seq, edit)
            }
            What::Truncated { file, size_bytes } => {
                self.pend(&file.path, event.seq, Edit::Resize(*size_bytes))
            }
            What::Synced { file, began } => self
                .image(&file.path)
                .is_some_and(|image| image.sync(*began)),
            What::Failed {
                file,
                lost_before: Some(lost_before),
                ..
            } => {
                if let Some(image) = self.image(&file.path) {
                    image.fail(*lost_before);
                }
                false
            }
            What::SyncBegan { .. } | What::Failed { .. } | What::Note { .. } => false,
        };
        self.state_number += u64::from(changed);
    }

    fn image(&mut self, path: &Path) -> Option<&mut Image> {
        self.images.get_mut(path)?.as_mut()
    }

    /// Always false: an unsynced edit changes nothing that is durable.
    fn pend(&mut self, path: &Path, seq: u64, edit: Edit) -> bool {
        // A write to a file that was deleted meanwhile reaches nothing a crash could leave.
        if let Some(image) = self.image(path) {
            let fate = Fate::Open;
            image.pending.push(Pending { seq, edit, fate });
        }
        false
    }
}

/// One file: what no crash can take, and what came after, in order.
struct Image {
    durable: Vec<u8>,
    pending: Vec<Pending>,
}

struct Pending {
    seq: u64,
    edit: Edit,
    fate: Fate,
}

/// What syncs have made of an edit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// None has covered it.
    Open,
    /// One that failed has: it may be on the disk or not, whatever comes.
    Failed,
    /// It is durable, over edits before it of which nothing is known.
    Synced,
}

enum Edit {
    Write { offset: u64, bytes: Arc<[u8]> },
    Resize(u64),
}

impl Image {
    /// Makes durable what happened before `began`; true if there was anything.
    fn sync(&mut self, began: u64) -> bool {
        let covered = self.become_of(began, Fate::Synced);
        self.forget_what_was_cut();
        let sure = self.pending.iter().position(|p| p.fate != Fate::Synced);
        for pending in self.pending.drain(..sure.unwrap_or(self.pending.len())) {
            pending.edit.apply(&mut self.durable);
        }
        covered
    }

    /// A sync of what happened before `began` has failed.
    fn fail(&mut self, began: u64) {
        self.become_of(began, Fate::Failed);
    }

    fn become_of(&mut self, began: u64, fate: Fate) -> bool {
        let covered = |pending: &&mut Pending| pending.seq < began && pending.fate == Fate::Open;
        let covered = self.pending.iter_mut().filter(covered);
        covered.map(|pending| pending.fate = fate).count() > 0
    }

    /// Where the file was durably cut, nothing before matters that was written behind the cut.
    fn forget_what_was_cut(&mut self) {
        let is_cut = |p: &Pending| p.fate == Fate::Synced && matches!(p.edit, Edit::Resize(_));
        let Some(place) = self.pending.iter().rposition(is_cut) else {
            return;
        };
        let Edit::Resize(end) = self.pending[place].edit else {
            unreachable!("it was looked for");
        };
        let mut nth = 0;
        self.pending.retain(|pending| {
            nth += 1;
            let is_behind =
                matches!(pending.edit, Edit::Write { offset, .. } if offset >= end) && nth <= place;
            !is_behind || pending.fate != Fate::Failed
        });
    }

    fn after(&self, loss: Loss, seq: u64) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        let seed = match loss {
            Loss::Seeded(seed) => seed,
            Loss::Unsynced | Loss::UnsyncedOnly | Loss::Nothing => 0,
        };
        let mut chance = Chance(seed.rotate_left(32) ^ seq);
        for Pending { edit, fate, .. } in &self.pending {
            match (loss, fate) {
                (_, Fate::Synced) | (Loss::Nothing, _) | (Loss::UnsyncedOnly, Fate::Failed) => {
                    edit.apply(&mut bytes);
                }
                (Loss::Seeded(_), _) => edit.apply_by_chance(&mut bytes, &mut chance),
                (Loss::Unsynced, _) | (Loss::UnsyncedOnly, Fate::Open) => {}
            }
        }
        bytes
    }
}

impl Edit {
    fn apply(&self, file: &mut Vec<u8>) {
        match self {
            Edit::Write { offset, bytes } => write_at(file, *offset, bytes),
            Edit::Resize(size_bytes) => file.resize(to_index(*size_bytes), 0),
        }
    }

    fn apply_by_chance(&self, file: &mut Vec<u8>, chance: &mut Chance) {
        match (chance.below(4), self) {
            (0 | 1, _) => self.apply(file),
            (2, Edit::Write { offset, bytes }) => {
                for (offset, sector) in sectors(*offset, bytes) {
                    if chance.below(2) == 0 {
                        write_at(file, offset, sector);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Cuts a write at the borders of the disk's sectors.
fn sectors(mut offset: u64, mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let room = to_index(SECTOR_BYTES - offset % SECTOR_BYTES).min(bytes.len());
        let (piece, rest) = bytes.split_at(room);
        pieces.push((offset, piece));
        offset += room as u64;
        bytes = rest;
    }
    pieces
}

fn write_at(file: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let start = to_index(offset);
    let end = start + bytes.len();
    if file.len() < end {
        // A gap left by a dropped write reads as zeros, as a sparse file does.
        file.resize(end, 0);
    }
    file[start..end].copy_from_slice(bytes);
}

fn to_index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a file of a test fits in memory")
}

/// The generator splitmix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
/// Generators", 2014): short, and any seed will do.
struct Chance(u64);

impl Chance {
    /// A number in `0..bound`; the bias of the remainder does not matter for tiny bounds.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}
