//! A SQLite VFS for tests: it records what reaches the disk, rebuilds what a crash would leave,
//! fails on demand, and lets a test hold one call until it says so.
//!
//! It wraps the default unix VFS and is chosen by name when a connection is opened:
//!
//! ```ignore
//! let vfs = RecordingVfs::register("crash-test", directory.path())?;
//! let connection = vfs.open("main.db")?; // or give `vfs.name()` to what opens the database
//! connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; ...")?;
//! vfs.log().note("acknowledged", 17);
//! let mut crashes = vfs.log().crashes();
//! while let Some(point) = crashes.advance() {
//!     point.write_to(rebuilt.path(), Loss::Unsynced)?;
//!     // open `rebuilt/main.db` with the default VFS and look
//! }
//! ```
//!
//! - `log`: one sequence of events over all files and all threads, notes of the test included;
//! - `crash`: walks that sequence and writes out the directory of any point;
//! - `fault`: errors armed by the test, counted per kind of call and role of file;
//! - `hook`: functions the VFS calls around each call, and holds built on them;
//! - `shim`: the C side, the only file with `unsafe`.
//!
//! Rules for its user:
//!
//! - Every connection of this process to a file below the root must use this VFS: what bypasses it
//!   is not recorded. Nor may the test open such a file by other means while a connection holds
//!   it, because POSIX drops all locks of a process on a file when it closes any descriptor of it.
//! - Memory mapping is off whatever `PRAGMA mmap_size` says, so that every byte passes by. The
//!   shared memory of the WAL-index passes unrecorded: a crash always loses it.
//! - A panic cannot pass through C code. One in a hook, say a failed assertion, is kept while the
//!   call goes on, and fails the test when it drops the `RecordingVfs`.

#![allow(
    dead_code,
    reason = "each integration test that mounts this module uses a part of it"
)]

mod crash;
mod fault;
mod hook;
mod log;
mod shim;

use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::{Connection, OpenFlags};

#[allow(
    unused_imports,
    reason = "each integration test uses a part of this module"
)]
pub use self::{
    crash::{CrashPoint, Crashes, Loss},
    fault::{Armed, Fault, HeapLimit, Outcome},
    hook::{Call, Hold, Phase},
    log::{Event, Log, NamedFile, Role, What},
};

/// The kinds of call that can be hooked, held and made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `xOpen`; temporary files included.
    Open,
    /// `xRead`. Not recorded in the log.
    Read,
    /// `xWrite`.
    Write,
    /// `xTruncate`.
    Truncate,
    /// `xSync`.
    Sync,
    /// `xDelete`.
    Delete,
}

/// What the connections, the log and the test share.
struct Shared {
    /// Only files below this directory are recorded. Resolved, as SQLite resolves names.
    root: PathBuf,
    log: Log,
    faults: fault::Faults,
    hooks: hook::Hooks,
    /// Whether a torn write may damage what stands beside it.
    damages: AtomicBool,
}

/// A registered VFS with its log, faults and hooks. Two of them share nothing.
///
/// Dropping this handle takes the name away; connections that are open go on, because what they
/// use stays allocated until the process ends. A hook's panic resumes on this drop.
pub struct RecordingVfs {
    name: String,
    shared: Arc<Shared>,
    registration: shim::Registration,
}

impl RecordingVfs {
    /// Registers a VFS under `name`, which records the files below `root`.
    ///
    /// # Errors
    /// When `root` does not exist, or `name` is taken or holds a zero byte.
    pub fn register(name: &str, root: &Path) -> io::Result<RecordingVfs> {
        let c_name = CString::new(name)?;
        let shared = Arc::new(Shared {
            root: root.canonicalize()?,
            log: Log::default(),
            faults: fault::Faults::default(),
            hooks: hook::Hooks::default(),
            damages: AtomicBool::new(false),
        });
        let registration = shim::Registration::new(c_name, Arc::clone(&shared))?;
        Ok(RecordingVfs {
            name: name.to_owned(),
            shared,
            registration,
        })
    }

    /// The name for `Connection::open_with_flags_and_vfs`, or for `?vfs=` in a database's URI.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Opens the database `file` of the root directory through this VFS.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn open(&self, file: &str) -> rusqlite::Result<Connection> {
        let path = self.shared.root.join(file);
        Connection::open_with_flags_and_vfs(path, OpenFlags::default(), self.name.as_str())
    }

    /// Files opened from now on say that a torn write may damage what stands beside it.
    pub fn damage_neighbours(&self) {
        self.shared.damages.store(true, Ordering::SeqCst);
    }

    /// The record of all calls so far. Clones of it show the same record.
    pub fn log(&self) -> &Log {
        &self.shared.log
    }

    /// Arms `fault` from the next call on. Faults armed together each count for themselves; when
    /// two strike the same call, the one armed first decides.
    pub fn arm(&self, fault: Fault) -> Armed {
        self.shared.faults.arm(fault)
    }

    /// Ends every fault.
    pub fn disarm_all(&self) {
        self.shared.faults.disarm_all();
    }

    /// Calls `hook` around every call of every file, on the thread that makes the call.
    ///
    /// It may block, note, assert, arm faults, or use *other* connections, whose calls then run
    /// the hooks too. It must not use the connection whose call it is in, except through an
    /// `InterruptHandle`, and that not while the connection closes: closing makes calls as well,
    /// and rusqlite locks the handle for its whole length.
    pub fn on_call(&self, hook: impl Fn(&Call<'_>) + Send + Sync + 'static) {
        self.shared.hooks.add(Arc::new(hook));
    }

    /// Removes every hook, those of holds too. Held calls stay held.
    pub fn remove_hooks(&self) {
        self.shared.hooks.clear();
    }

    /// Stops the next call of this kind on a file of this role before it happens.
    pub fn hold(&self, op: Op, role: Role) -> Hold {
        self.hold_after(op, role, 0)
    }

    /// Lets `skip` such calls pass and stops the one after them.
    pub fn hold_after(&self, op: Op, role: Role, skip: u64) -> Hold {
        let (hold, hook) = Hold::new(op, role, skip);
        self.shared.hooks.add(hook);
        hold
    }
}

impl Drop for RecordingVfs {
    fn drop(&mut self) {
        self.registration.withdraw();
        if let Some(panic) = self.shared.hooks.take_panic()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}
