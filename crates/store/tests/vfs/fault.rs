//! Errors on demand: the n-th call of a kind fails once, some times, or from then on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rusqlite::ffi;

use super::{Op, Role, shim};

/// What a struck call does instead of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `SQLITE_FULL`: the disk is full.
    Full,
    /// `SQLITE_IOERR_READ`.
    ReadError,
    /// `SQLITE_IOERR_WRITE`.
    WriteError,
    /// `SQLITE_IOERR_FSYNC`. A crash may find the file's unsynced writes or not, whatever comes.
    SyncError,
    /// `SQLITE_IOERR_TRUNCATE`.
    TruncateError,
    /// `SQLITE_CANTOPEN`.
    CannotOpen,
    /// `SQLITE_NOMEM`, as a failed allocation reports it. The pager stays usable, so a statement
    /// that keeps a statement journal is undone alone; others end the transaction.
    OutOfMemory,
    /// `SQLITE_IOERR_NOMEM`: no memory in the middle of I/O. SQLite reports `SQLITE_NOMEM`, but
    /// treats it as an I/O error and ends the transaction.
    OutOfMemoryInIo,
    /// A write puts its first half on the disk, cut at a sector's border where it has one, and
    /// then fails with `SQLITE_FULL`; that is how a disk gets full. On other calls like `Full`.
    ShortWrite,
    /// The call succeeds, but first the connection that makes it is interrupted, as by
    /// `sqlite3_interrupt` from another thread at just that moment. SQLite looks between the
    /// instructions of a statement: a read, or a write that spills the page cache, is in their
    /// midst, the writes of COMMIT come after them. No effect on `Open` and `Delete`.
    Interrupt,
    /// Any other code of SQLite.
    Code(i32),
}

impl Outcome {
    /// The code SQLite gets; `SQLITE_OK` for an interrupt, whose call succeeds.
    pub(super) fn code(self) -> i32 {
        match self {
            Outcome::Full | Outcome::ShortWrite => ffi::SQLITE_FULL,
            Outcome::ReadError => ffi::SQLITE_IOERR_READ,
            Outcome::WriteError => ffi::SQLITE_IOERR_WRITE,
            Outcome::SyncError => ffi::SQLITE_IOERR_FSYNC,
            Outcome::TruncateError => ffi::SQLITE_IOERR_TRUNCATE,
            Outcome::CannotOpen => ffi::SQLITE_CANTOPEN,
            Outcome::OutOfMemory => ffi::SQLITE_NOMEM,
            Outcome::OutOfMemoryInIo => ffi::SQLITE_IOERR_NOMEM,
            Outcome::Interrupt => ffi::SQLITE_OK,
            Outcome::Code(code) => code,
        }
    }
}

/// Which calls fail, and how. By default the next call of the kind on any file, once.
#[derive(Clone, Debug)]
pub struct Fault {
    op: Op,
    role: Option<Role>,
    skip: u64,
    times: u64,
    outcome: Outcome,
}

impl Fault {
    /// The next `op` on any file ends with `outcome`, once.
    pub fn new(op: Op, outcome: Outcome) -> Fault {
        Fault {
            op,
            role: None,
            skip: 0,
            times: 1,
            outcome,
        }
    }

    /// Only calls on files of this role count and fail.
    pub fn on(self, role: Role) -> Fault {
        Fault {
            role: Some(role),
            ..self
        }
    }

    /// This many counted calls pass first.
    pub fn after(self, skip: u64) -> Fault {
        Fault { skip, ..self }
    }

    /// This many calls in a row fail.
    pub fn times(self, times: u64) -> Fault {
        Fault { times, ..self }
    }

    /// Every call fails from then on, until disarmed.
    pub fn always(self) -> Fault {
        self.times(u64::MAX)
    }

    fn counts(&self, op: Op, role: Role) -> bool {
        self.op == op && self.role.is_none_or(|wanted| wanted == role)
    }
}

/// An armed fault. Dropping this handle leaves it armed.
#[derive(Clone)]
pub struct Armed {
    state: Arc<ArmedState>,
}

struct ArmedState {
    fault: Fault,
    seen: AtomicU64,
    strikes: AtomicU64,
    disarmed: AtomicBool,
}

impl Armed {
    /// How many calls it made fail, or interrupted, so far.
    pub fn strikes(&self) -> u64 {
        self.state.strikes.load(Ordering::SeqCst)
    }

    /// How many calls it counted so far, failed ones included.
    pub fn seen(&self) -> u64 {
        self.state.seen.load(Ordering::SeqCst)
    }

    /// Ends the fault. Its counts stand still and stay readable.
    pub fn disarm(&self) {
        self.state.disarmed.store(true, Ordering::SeqCst);
    }
}

impl ArmedState {
    fn strike(&self, op: Op, role: Role) -> Option<Outcome> {
        if self.disarmed.load(Ordering::SeqCst) || !self.fault.counts(op, role) {
            return None;
        }
        let seen_before = self.seen.fetch_add(1, Ordering::SeqCst);
        let struck_before = seen_before.checked_sub(self.fault.skip)?;
        if struck_before >= self.fault.times {
            return None;
        }
        self.strikes.fetch_add(1, Ordering::SeqCst);
        Some(self.fault.outcome)
    }
}

/// Real failures to allocate, until dropped: SQLite's own heap limit.
///
/// It bounds **the whole process**, all connections and threads, so nothing else may use SQLite
/// meanwhile: a test that takes it runs alone in its binary, or behind a lock that the other tests
/// share. Where the failing call does not matter, [`Outcome::OutOfMemory`] is simpler. A hook may
/// take one, to begin at a chosen call.
pub struct HeapLimit(());

impl HeapLimit {
    /// From now on every allocation fails that would take SQLite more than `spare_bytes` above
    /// what it uses at this moment.
    pub fn above_used(spare_bytes: u32) -> HeapLimit {
        // At least 1, because 0 would mean no limit.
        shim::limit_heap((shim::heap_used_bytes() + i64::from(spare_bytes)).max(1));
        HeapLimit(())
    }
}

impl Drop for HeapLimit {
    fn drop(&mut self) {
        shim::limit_heap(0);
    }
}

/// All armed faults of one VFS.
#[derive(Default)]
pub(super) struct Faults {
    armed: Mutex<Vec<Armed>>,
}

impl Faults {
    pub(super) fn arm(&self, fault: Fault) -> Armed {
        let state = ArmedState {
            fault,
            seen: AtomicU64::new(0),
            strikes: AtomicU64::new(0),
            disarmed: AtomicBool::new(false),
        };
        let armed = Armed {
            state: Arc::new(state),
        };
        self.lock().push(armed.clone());
        armed
    }

    pub(super) fn disarm_all(&self) {
        for armed in self.lock().drain(..) {
            armed.disarm();
        }
    }

    /// Counts one call in every fault, and says how the first that strikes ends it.
    pub(super) fn strike(&self, op: Op, role: Role) -> Option<Outcome> {
        let mut first = None;
        for armed in self.lock().iter() {
            let outcome = armed.state.strike(op, role);
            first = first.or(outcome);
        }
        first
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Armed>> {
        self.armed
            .lock()
            .expect("no code panics while it holds the faults")
    }
}
