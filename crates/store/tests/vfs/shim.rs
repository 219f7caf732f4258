//! The C side: the VFS and file methods SQLite calls, each passed on to the default unix VFS.
//!
//! The layout is SQLite's own for a shim (SQLite manual, "The SQLite OS Interface or VFS"): SQLite
//! allocates `szOsFile` bytes per file and hands them to `xOpen`, which fills in a [`ShimFile`].
//! The wrapped VFS's file lives in memory of ours, reached through its [`Context`].

#![allow(
    unsafe_code,
    reason = "a VFS is a table of C functions over raw pointers"
)]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use rusqlite::ffi::{self, sqlite3, sqlite3_file, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs};

use super::crash::SECTOR_BYTES;
use super::{Call, NamedFile, Op, Outcome, Phase, Role, Shared, What};

/// Why a method of the wrapped VFS may be called without looking.
const UNIX_HAS_ALL: &str = "the unix VFS has every method of version 2";

/// What `xOpen` lays into the memory SQLite gives it. SQLite requires `base` first.
#[repr(C)]
struct ShimFile {
    base: sqlite3_file,
    context: *mut Context,
}

/// What an open file needs beside SQLite's own view of it.
struct Context {
    shared: Arc<Shared>,
    file: Arc<NamedFile>,
    /// The wrapped VFS's file. Its memory must not move: the unix VFS links such files.
    inner: *mut sqlite3_file,
    /// The allocation behind `inner`, in words so that it is aligned for any C structure.
    inner_words: *mut [u64],
    /// Where the connection is found: this file's own `connection`, or for a WAL or journal that
    /// of its database file, which the pager closes last.
    database: *const ShimFile,
    /// Set by `SQLITE_FCNTL_PDB` on database files, soon after they are opened.
    connection: AtomicPtr<sqlite3>,
}

/// What the registered VFS finds under `pAppData`.
struct VfsContext {
    shared: Arc<Shared>,
    inner: *mut sqlite3_vfs,
}

/// A VFS in SQLite's list.
pub(super) struct Registration {
    vfs: AtomicPtr<sqlite3_vfs>,
}

impl Registration {
    /// Registers a shim under `name`, not as the default.
    pub(super) fn new(name: CString, shared: Arc<Shared>) -> io::Result<Registration> {
        // SAFETY: `name` is a zero-terminated string; both functions may be called at any time.
        let (taken, inner) = unsafe {
            (
                ffi::sqlite3_vfs_find(name.as_ptr()),
                ffi::sqlite3_vfs_find(ptr::null()),
            )
        };
        if !taken.is_null() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "the VFS name is taken",
            ));
        }
        assert!(!inner.is_null(), "the bundled SQLite has a default VFS");
        // Copying keeps the methods that have nothing to record. They then get our VFS as their
        // first argument, which in the unix VFS only `xOpen` looks at.
        // SAFETY: `inner` is registered, so it stays valid and unchanged.
        let mut vfs = unsafe { *inner };
        vfs.szOsFile = size_of::<ShimFile>() as c_int;
        vfs.pNext = ptr::null_mut();
        vfs.zName = name.into_raw();
        vfs.pAppData = Box::into_raw(Box::new(VfsContext { shared, inner })).cast();
        vfs.xOpen = Some(open);
        vfs.xDelete = Some(delete);
        // Never freed: a connection may outlive the registration and needs it to the end.
        let vfs = Box::into_raw(Box::new(vfs));
        // SAFETY: `vfs` is complete and stays allocated.
        let code = unsafe { ffi::sqlite3_vfs_register(vfs, 0) };
        assert_eq!(
            code,
            ffi::SQLITE_OK,
            "registering fails only where SQLite cannot start"
        );
        Ok(Registration {
            vfs: AtomicPtr::new(vfs),
        })
    }

    /// Takes the VFS off SQLite's list.
    pub(super) fn withdraw(&self) {
        // SAFETY: the pointer was registered by `new`; withdrawing twice does nothing.
        unsafe { ffi::sqlite3_vfs_unregister(self.vfs.load(Ordering::SeqCst)) };
    }
}

/// Version 2 has no `xFetch`, so SQLite never maps a file and every byte passes by here.
static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Calls a method of the wrapped file. Used in functions whose caller, SQLite, vouches for the
/// file and for every argument.
macro_rules! pass_on {
    ($context:expr, $method:ident $(, $argument:expr)*) => {{
        let context: &Context = $context;
        // SAFETY: `inner` is open until our `xClose`, and SQLite's arguments are passed unchanged.
        unsafe {
            let methods = &*(*context.inner).pMethods;
            (methods.$method.expect(UNIX_HAS_ALL))(context.inner $(, $argument)*)
        }
    }};
}

/// Defines file methods that only pass on.
macro_rules! passing_methods {
    ($($name:ident = $method:ident($($argument:ident: $kind:ty),*) $(-> $answer:ty)?;)*) => {$(
        unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $argument: $kind)*) $(-> $answer)? {
            // SAFETY: SQLite calls this with a file our `xOpen` filled in.
            let context = unsafe { context_of(file) };
            pass_on!(context, $method $(, $argument)*)
        }
    )*};
}

passing_methods! {
    file_size = xFileSize(size: *mut sqlite3_int64) -> c_int;
    lock = xLock(level: c_int) -> c_int;
    unlock = xUnlock(level: c_int) -> c_int;
    check_reserved_lock = xCheckReservedLock(answer: *mut c_int) -> c_int;
    sector_size = xSectorSize() -> c_int;
    shm_map = xShmMap(region: c_int, bytes: c_int, extend: c_int, map: *mut *mut c_void) -> c_int;
    shm_lock = xShmLock(offset: c_int, count: c_int, flags: c_int) -> c_int;
    shm_barrier = xShmBarrier();
    shm_unmap = xShmUnmap(delete: c_int) -> c_int;
}

/// # Safety
/// `file` was filled in by [`open`] and is not closed.
unsafe fn context_of<'a>(file: *mut sqlite3_file) -> &'a Context {
    // SAFETY: `open` put a `ShimFile` with a valid context there; `close` takes it away.
    unsafe { &*(*file.cast::<ShimFile>()).context }
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    let shim = file.cast::<ShimFile>();
    // SAFETY: SQLite hands over `szOsFile` bytes, and a VFS of ours with its context.
    let (shared, inner_vfs) = unsafe {
        // Tells SQLite not to close the file, should opening fail.
        (*shim).base.pMethods = ptr::null();
        let vfs_context = &*(*vfs).pAppData.cast::<VfsContext>();
        (Arc::clone(&vfs_context.shared), vfs_context.inner)
    };
    // SAFETY: a name SQLite gives is null or a zero-terminated string.
    let path = unsafe { path_of(name) };
    let named = Arc::new(name_file(&shared, path.as_deref(), flags));
    // SAFETY: `inner_vfs` is the default VFS, registered for as long as the process lives.
    let inner_bytes = unsafe { (*inner_vfs).szOsFile } as usize;
    let inner_words = Box::into_raw(vec![0_u64; inner_bytes.div_ceil(8)].into_boxed_slice());
    let inner = inner_words.cast::<sqlite3_file>();
    let code = intercept(&shared, Call::new(Op::Open, &named), None, |_short| {
        let absolute = path.as_deref().unwrap_or(Path::new(""));
        shared.log.open(&named, absolute, || {
            // SAFETY: SQLite's own arguments; `name` outlives the file, `inner` is large enough.
            unsafe {
                let open = (*inner_vfs).xOpen.expect(UNIX_HAS_ALL);
                open(inner_vfs, name, inner, flags, flags_out)
            }
        })
    });
    if code != ffi::SQLITE_OK {
        // SAFETY: made by `Box::into_raw` above; a failed open leaves nothing that points there.
        drop(unsafe { Box::from_raw(inner_words) });
        return code;
    }
    // SAFETY: `name` and `flags` are what SQLite gave.
    let database = unsafe { database_of(name, shim, flags) };
    let connection = AtomicPtr::new(ptr::null_mut());
    let context = Context {
        shared,
        file: named,
        inner,
        inner_words,
        database,
        connection,
    };
    // SAFETY: as above, `shim` points at `szOsFile` bytes for us to fill.
    unsafe {
        (*shim).context = Box::into_raw(Box::new(context));
        (*shim).base.pMethods = &raw const METHODS;
    }
    code
}

/// # Safety
/// `name` is null or a zero-terminated string.
unsafe fn path_of(name: *const c_char) -> Option<PathBuf> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
    Some(PathBuf::from(OsStr::from_bytes(bytes)))
}

/// The database file whose connection opens the file `name`; null where there is none.
///
/// # Safety
/// `name` and `flags` are what SQLite gave `xOpen`.
unsafe fn database_of(name: *const c_char, shim: *mut ShimFile, flags: c_int) -> *const ShimFile {
    if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 {
        shim
    } else if flags & (ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL) != 0 {
        // SAFETY: SQLite allows this for the names of a database's journal and WAL, and the pager
        // that opens them has its database file open in this same VFS.
        unsafe { ffi::sqlite3_database_file_object(name) }
            .cast_const()
            .cast()
    } else {
        ptr::null()
    }
}

fn name_file(shared: &Shared, path: Option<&Path>, flags: c_int) -> NamedFile {
    let has = |flag: c_int| flags & flag != 0;
    let role = if has(ffi::SQLITE_OPEN_MAIN_DB) {
        Role::Db
    } else if has(ffi::SQLITE_OPEN_WAL) {
        Role::Wal
    } else if has(ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL) {
        Role::Journal
    } else {
        Role::Other
    };
    let below_root = path.and_then(|path| path.strip_prefix(&shared.root).ok());
    let recorded =
        below_root.is_some() && role != Role::Other && !has(ffi::SQLITE_OPEN_DELETEONCLOSE);
    let path = below_root.or(path).unwrap_or(Path::new("")).to_owned();
    NamedFile {
        path,
        role,
        recorded,
    }
}

unsafe extern "C" fn delete(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    sync_directory: c_int,
) -> c_int {
    // SAFETY: SQLite calls this with a VFS of ours.
    let vfs_context = unsafe { &*(*vfs).pAppData.cast::<VfsContext>() };
    let shared = &vfs_context.shared;
    // SAFETY: `name` is a zero-terminated string.
    let path = unsafe { path_of(name) };
    // `xDelete` does not say what the file was, but SQLite fixes the names.
    let name_ends = |end: &[u8]| {
        path.as_ref()
            .is_some_and(|path| path.as_os_str().as_bytes().ends_with(end))
    };
    let flags = if name_ends(b"-wal") {
        ffi::SQLITE_OPEN_WAL
    } else {
        ffi::SQLITE_OPEN_MAIN_JOURNAL
    };
    let named = Arc::new(name_file(shared, path.as_deref(), flags));
    intercept(shared, Call::new(Op::Delete, &named), None, |_short| {
        shared.log.delete(&named, || {
            // SAFETY: SQLite's own arguments, given to the VFS this one wraps.
            unsafe {
                let delete = (*vfs_context.inner).xDelete.expect(UNIX_HAS_ALL);
                delete(vfs_context.inner, name, sync_directory)
            }
        })
    })
}

/// Does one call with hooks around it, unless a fault ends it. `act` learns whether it is to do
/// half its work, which only a write can.
fn intercept(
    shared: &Shared,
    call: Call<'_>,
    caller: Option<&Context>,
    act: impl FnOnce(bool) -> c_int,
) -> c_int {
    let Call { op, file, .. } = call;
    shared.hooks.run(&call);
    let code = match shared.faults.strike(op, file.role) {
        None => act(false),
        Some(Outcome::Interrupt) => {
            caller.inspect(|context| context.interrupt());
            act(false)
        }
        Some(outcome) => {
            if outcome == Outcome::ShortWrite && op == Op::Write {
                act(true);
            }
            let code = outcome.code();
            let lost_before = (op == Op::Sync).then(|| shared.log.last_seq() + 1);
            shared.log.push(file, |file| What::Failed {
                op,
                file,
                code,
                lost_before,
            });
            code
        }
    };
    shared.hooks.run(&Call {
        phase: Phase::After(code),
        ..call
    });
    code
}

impl Context {
    /// Interrupts the connection that is making a call on this file.
    fn interrupt(&self) {
        if self.database.is_null() {
            return;
        }
        // SAFETY: the pager closes its database file last, so that one is open. Its connection
        // lives, since it is the one inside this call.
        unsafe {
            let context = context_of(self.database.cast_mut().cast());
            let connection = context.connection.load(Ordering::SeqCst);
            if !connection.is_null() {
                ffi::sqlite3_interrupt(connection);
            }
        }
    }

    fn intercept(
        &self,
        op: Op,
        offset: sqlite3_int64,
        length_bytes: c_int,
        act: impl FnOnce(bool) -> c_int,
    ) -> c_int {
        let call = Call {
            offset: offset as u64,
            length_bytes: length_bytes as usize,
            ..Call::new(op, &self.file)
        };
        intercept(&self.shared, call, Some(self), act)
    }

    /// Records a finished call, by what it did or by its error.
    fn finish(&self, op: Op, code: c_int, done: impl FnOnce(Arc<NamedFile>) -> What) -> c_int {
        self.shared.log.push(&self.file, |file| match code {
            ffi::SQLITE_OK => done(file),
            _ => What::Failed {
                op,
                file,
                code,
                lost_before: None,
            },
        });
        code
    }
}

/// Bytes SQLite has allocated now, in the whole process.
pub(super) fn heap_used_bytes() -> i64 {
    // SAFETY: may be called at any time, from any thread.
    unsafe { ffi::sqlite3_memory_used() }
}

/// Bounds what SQLite may allocate in the whole process; 0 for no bound.
pub(super) fn limit_heap(bytes: i64) {
    // SAFETY: may be called at any time, from any thread.
    unsafe { ffi::sqlite3_hard_heap_limit64(bytes) };
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let shim = file.cast::<ShimFile>();
    // SAFETY: `open` made the context by `Box::into_raw`, and SQLite closes a file once.
    let context = unsafe { Box::from_raw((*shim).context) };
    let code = pass_on!(&context, xClose);
    // SAFETY: made by `Box::into_raw` in `open`; the wrapped file is closed.
    unsafe {
        drop(Box::from_raw(context.inner_words));
        (*shim).base.pMethods = ptr::null();
    }
    code
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    bytes: *mut c_void,
    count: c_int,
    offset: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls this with a file our `xOpen` filled in.
    let context = unsafe { context_of(file) };
    context.intercept(Op::Read, offset, count, |_short| {
        pass_on!(context, xRead, bytes, count, offset)
    })
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    bytes: *const c_void,
    count: c_int,
    offset: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls this with a file our `xOpen` filled in.
    let context = unsafe { context_of(file) };
    context.intercept(Op::Write, offset, count, |short| {
        let count = if short { half_of(offset, count) } else { count };
        let code = pass_on!(context, xWrite, bytes, count, offset);
        // SAFETY: SQLite gives at least `count` readable bytes for the length of this call.
        let written = unsafe { slice::from_raw_parts(bytes.cast::<u8>(), count as usize) };
        context.finish(Op::Write, code, |file| What::Wrote {
            file,
            offset: offset as u64,
            bytes: written.into(),
        })
    })
}

/// Half of a write, up to a sector's border if there is one in that half.
fn half_of(offset: sqlite3_int64, count: c_int) -> c_int {
    let half = offset + sqlite3_int64::from(count / 2);
    let border = half - half % SECTOR_BYTES as sqlite3_int64;
    let end = if border > offset { border } else { half };
    (end - offset) as c_int
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    // SAFETY: SQLite calls this with a file our `xOpen` filled in.
    let context = unsafe { context_of(file) };
    context.intercept(Op::Truncate, size, 0, |_short| {
        let code = pass_on!(context, xTruncate, size);
        let size_bytes = size as u64;
        context.finish(Op::Truncate, code, |file| What::Truncated {
            file,
            size_bytes,
        })
    })
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite calls this with a file our `xOpen` filled in.
    let context = unsafe { context_of(file) };
    context.intercept(Op::Sync, 0, 0, |_short| {
        let began = context.shared.log.sync_began(&context.file);
        let code = pass_on!(context, xSync, flags);
        context.shared.log.push(&context.file, |file| match code {
            ffi::SQLITE_OK => What::Synced { file, began },
            _ => What::Failed {
                op: Op::Sync,
                file,
                code,
                lost_before: Some(began),
            },
        });
        code
    })
}

unsafe extern "C" fn file_control(
    file: *mut sqlite3_file,
    op: c_int,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: SQLite calls this with a file our `xOpen` filled in.
    let context = unsafe { context_of(file) };
    match op {
        // Both would let the unix VFS change the file's size, or its content by mapping, unseen.
        ffi::SQLITE_FCNTL_CHUNK_SIZE | ffi::SQLITE_FCNTL_MMAP_SIZE => ffi::SQLITE_NOTFOUND,
        ffi::SQLITE_FCNTL_SIZE_HINT => ffi::SQLITE_OK,
        ffi::SQLITE_FCNTL_PDB => {
            // SAFETY: for this operation SQLite passes the address of the connection's pointer.
            let connection = unsafe { *argument.cast::<*mut sqlite3>() };
            context.connection.store(connection, Ordering::SeqCst);
            pass_on!(context, xFileControl, op, argument)
        }
        _ => pass_on!(context, xFileControl, op, argument),
    }
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite calls this with a file our `xOpen` filled in.
    let context = unsafe { context_of(file) };
    let mut without = 0;
    if context.shared.damages.load(Ordering::SeqCst) {
        without |= ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE;
    }
    // Batch-atomic writes reach the disk by file controls, which the log does not follow.
    without |= ffi::SQLITE_IOCAP_BATCH_ATOMIC;
    pass_on!(context, xDeviceCharacteristics) & !without
}
