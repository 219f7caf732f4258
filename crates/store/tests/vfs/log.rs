//! One sequence of everything that happened, numbered from 1, over all files and threads.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use super::Op;
use super::crash::Crashes;

/// What a file is to SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The main database file.
    Db,
    /// The write-ahead log.
    Wal,
    /// A rollback journal, or the super-journal of a commit over several databases.
    Journal,
    /// Temporary files and everything else; never recorded, but it can fail and be held.
    Other,
}

/// A file as the log names it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct NamedFile {
    /// Relative to the root of the VFS; empty for a file without a name.
    pub path: PathBuf,
    /// What SQLite opened it as.
    pub role: Role,
    /// True when the log records it: below the root, and meant to outlive its connection.
    pub recorded: bool,
}

/// One entry of the sequence.
#[derive(Clone, Debug)]
pub struct Event {
    /// Rises by one from event to event; the first is 1.
    pub seq: u64,
    /// What happened. A call stands here once it is done, before SQLite learns of it.
    pub what: What,
}

/// What one event says.
#[derive(Clone, Debug)]
pub enum What {
    /// A file came into the log: created now, or found with these bytes, which count as durable.
    Opened {
        file: Arc<NamedFile>,
        bytes: Arc<[u8]>,
    },
    /// `bytes` were written at `offset`; a short write stands here with what it wrote.
    Wrote {
        file: Arc<NamedFile>,
        offset: u64,
        bytes: Arc<[u8]>,
    },
    /// The file was cut, or lengthened, to `size_bytes`.
    Truncated {
        file: Arc<NamedFile>,
        size_bytes: u64,
    },
    /// A sync was handed to the system.
    SyncBegan { file: Arc<NamedFile> },
    /// That sync came back. It covers the events of this file numbered below `began`; what was
    /// written while it ran is not covered.
    Synced { file: Arc<NamedFile>, began: u64 },
    /// The file was deleted.
    Deleted { file: Arc<NamedFile> },
    /// A call failed with SQLite's `code`, by a fault or in earnest. A failed sync also carries
    /// the number before which nothing is known of the file's unsynced writes.
    Failed {
        op: Op,
        file: Arc<NamedFile>,
        code: i32,
        lost_before: Option<u64>,
    },
    /// Something the test wanted in the same sequence.
    Note { label: &'static str, number: u64 },
}

impl What {
    /// The file this event is about; none for a note.
    pub fn file(&self) -> Option<&NamedFile> {
        match self {
            What::Opened { file, .. }
            | What::Wrote { file, .. }
            | What::Truncated { file, .. }
            | What::SyncBegan { file }
            | What::Synced { file, .. }
            | What::Deleted { file }
            | What::Failed { file, .. } => Some(file),
            What::Note { .. } => None,
        }
    }
}

/// The sequence. Cheap to clone; clones share it, from any thread.
#[derive(Clone, Default)]
pub struct Log {
    record: Arc<Mutex<Record>>,
}

#[derive(Default)]
struct Record {
    events: Vec<Event>,
    /// Files that exist as far as the log knows, by path.
    live: HashSet<PathBuf>,
}

impl Record {
    fn push(&mut self, what: What) -> u64 {
        let seq = self.events.len() as u64 + 1;
        self.events.push(Event { seq, what });
        seq
    }
}

impl Log {
    /// Puts an event of the test into the sequence and returns its number.
    ///
    /// Note "acknowledged" after the acknowledgement was received: all calls it can rest on have
    /// lower numbers then.
    pub fn note(&self, label: &'static str, number: u64) -> u64 {
        self.lock().push(What::Note { label, number })
    }

    /// A copy of the sequence so far; the written bytes themselves are shared, not copied.
    pub fn events(&self) -> Vec<Event> {
        self.lock().events.clone()
    }

    /// The number of the last event, 0 before the first.
    pub fn last_seq(&self) -> u64 {
        self.lock().events.len() as u64
    }

    /// The numbers of the events at which a sync of a file of this role came back.
    pub fn syncs(&self, role: Role) -> Vec<u64> {
        let is_sync = |what: &What| matches!(what, What::Synced { file, .. } if file.role == role);
        self.lock()
            .events
            .iter()
            .filter(|event| is_sync(&event.what))
            .map(|e| e.seq)
            .collect()
    }

    /// Walks the crash points of the sequence as it is now.
    pub fn crashes(&self) -> Crashes {
        Crashes::new(self.events())
    }

    /// Records a finished call on `file`, unless the log does not follow that file.
    pub(super) fn push(&self, file: &Arc<NamedFile>, what: impl FnOnce(Arc<NamedFile>) -> What) {
        if file.recorded {
            self.lock().push(what(Arc::clone(file)));
        }
    }

    /// Records that a sync begins, and returns the number its coverage ends before.
    pub(super) fn sync_began(&self, file: &Arc<NamedFile>) -> u64 {
        let mut record = self.lock();
        if file.recorded {
            record.push(What::SyncBegan {
                file: Arc::clone(file),
            })
        } else {
            record.events.len() as u64 + 1
        }
    }

    /// Opens a file by `open`, and takes it into the log if it was not there.
    ///
    /// The lock is held all the while: otherwise another connection could write to the file after
    /// it was opened and before its first bytes were read.
    pub(super) fn open(
        &self,
        file: &Arc<NamedFile>,
        absolute: &Path,
        open: impl FnOnce() -> i32,
    ) -> i32 {
        if !file.recorded {
            return open();
        }
        let mut record = self.lock();
        let is_new = !record.live.contains(&file.path);
        // No such file yet: it starts empty.
        let found = if is_new {
            std::fs::read(absolute).unwrap_or_default()
        } else {
            Vec::new()
        };
        let code = open();
        if code == rusqlite::ffi::SQLITE_OK && is_new {
            record.live.insert(file.path.clone());
            record.push(What::Opened {
                file: Arc::clone(file),
                bytes: found.into(),
            });
        }
        code
    }

    /// Deletes a file by `delete`, under the lock for the reason given at [`Log::open`].
    pub(super) fn delete(&self, file: &Arc<NamedFile>, delete: impl FnOnce() -> i32) -> i32 {
        let mut record = self.lock();
        let code = delete();
        if code == rusqlite::ffi::SQLITE_OK && record.live.remove(&file.path) {
            record.push(What::Deleted {
                file: Arc::clone(file),
            });
        }
        code
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record
            .lock()
            .expect("no code panics while it holds the record")
    }
}
