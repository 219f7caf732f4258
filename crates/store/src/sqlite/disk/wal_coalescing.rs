//! A file system layer that hands a commit's log to the system in one piece.
//!
//! SQLite writes the log (WAL) in two calls a page, 24 and 4,096 bytes long. On ext4 such a call
//! took 6 µs, whatever its length: half of what a commit of 25 pages took, its sync included
//! (docs/performance.md). Neighbouring writes are kept back here until they could be missed:
//! until the sync, or a read, or a look at the file's length.
//!
//! That is sound for a connection that syncs each commit (`synchronous=FULL`), and only for it:
//! SQLite shows a commit to readers after the sync of its pages, and asks the file for pages of
//! a transaction that is still open through this same file. What could not be written is kept
//! and tried again, so that a failed write never becomes a gap between two that succeeded.
//! With other settings the layer keeps nothing back.
//!
//! It also remembers where the log's last commit ends, for commits that fail. Their pages may
//! stand in the log although SQLite has forgotten them: after a failed sync they are in the
//! system's memory for certain, on the disk perhaps, and a second sync that succeeds says nothing
//! of them (fsync(2): an error is reported once). The next opening of the database would find them
//! whole and show them. So they are cut off, and that is made durable, before any caller learns
//! that the commit failed.
//!
//! And it is sound only where a write that a power cut tears damages no byte beside it, which the
//! layer below has to promise (`SQLITE_IOCAP_POWERSAFE_OVERWRITE`): where it does not, SQLite keeps
//! commits apart by whole sectors, counts on its own writes for that, and gets them as they are.
//!
//! Files other than the log belong to the layer below alone.

#![allow(
    unsafe_code,
    reason = "a file system layer is a table of C functions over raw pointers"
)]

use std::ffi::{c_int, c_void};
use std::ptr;
use std::slice;

use rusqlite::Connection;
use rusqlite::ffi::{
    self, sqlite3_file, sqlite3_filename, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs,
};

use super::layer::{self, BELOW_HAS_ALL};
use crate::StoreError;

/// Most bytes kept back, and so written at once: what SQLite's unix layer takes in one call
/// (`seekAndWriteFd` keeps the low 17 bits of a length). It holds 31 pages.
const COALESCED_BYTES_MAX: usize = 0x1_ffff;

/// The log as SQLite holds it. SQLite requires `base` first; the file of the layer below follows
/// in the same allocation.
#[repr(C)]
struct Log {
    base: sqlite3_file,
    coalesced: *mut Coalesced,
}

/// Calls a method of the file below. Only for functions that SQLite calls, since it is SQLite that
/// vouches for the file and for every argument.
macro_rules! below {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        // SAFETY: `open` filled the file below in, and it is open until our `xClose`.
        unsafe {
            let file = file_below($file);
            ((*(*file).pMethods).$method.expect(BELOW_HAS_ALL))(file $(, $argument)*)
        }
    }};
}

/// Neighbouring bytes that were not written yet, and where the ones begin that may go again.
struct Coalesced {
    /// Where in the file they begin.
    offset: i64,
    bytes: Vec<u8>,
    /// Whether any are kept back from this file.
    is_on: bool,
    /// From here on nothing belongs to a commit. Beyond every file where nothing was written
    /// since the last one.
    uncommitted_from: i64,
}

impl Coalesced {
    fn new(is_on: bool) -> Coalesced {
        Coalesced {
            offset: 0,
            bytes: Vec::new(),
            is_on,
            uncommitted_from: i64::MAX,
        }
    }
}

/// All that the connection has written to its log is committed.
pub(crate) fn keep(connection: &mut Connection) {
    if let Some((_, coalesced)) = log_of(connection) {
        coalesced.uncommitted_from = i64::MAX;
    }
}

/// Cuts off what the connection has written to its log since the last [`keep`], durably. For a
/// transaction that has ended without a commit.
///
/// # Errors
/// What the layer below says; then it is unknown what the log holds behind its last commit.
pub(crate) fn void(connection: &mut Connection) -> Result<(), StoreError> {
    let Some((file, coalesced)) = log_of(connection) else {
        return Ok(());
    };
    coalesced.bytes.clear();
    let end = coalesced.uncommitted_from;
    if end == i64::MAX {
        return Ok(());
    }
    let mut length = 0;
    let mut code = below!(file, xFileSize, &raw mut length);
    // A checkpoint may have cut it already; it is not to become longer.
    if code == ffi::SQLITE_OK && length > end {
        code = below!(file, xTruncate, end);
    }
    if code == ffi::SQLITE_OK {
        code = below!(file, xSync, ffi::SQLITE_SYNC_NORMAL);
    }
    if code != ffi::SQLITE_OK {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        return Err(StoreError::from(error));
    }
    coalesced.uncommitted_from = i64::MAX;
    Ok(())
}

/// The connection's log with what is kept of it, if it is one of this layer.
fn log_of(connection: &mut Connection) -> Option<(*mut sqlite3_file, &mut Coalesced)> {
    let mut file: *mut sqlite3_file = ptr::null_mut();
    // SAFETY: the connection is open. The operation writes one pointer, to a file that lives as
    // long as the connection keeps to its mode of journal.
    let code = unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            ptr::null(),
            ffi::SQLITE_FCNTL_JOURNAL_POINTER,
            (&raw mut file).cast(),
        )
    };
    if code != ffi::SQLITE_OK || file.is_null() {
        return None;
    }
    // SAFETY: SQLite keeps a file's methods null until it is open. With ours, `open` filled it in;
    // and while the connection is borrowed here, nothing else uses the file.
    unsafe {
        let is_ours = ptr::eq((*file).pMethods, &raw const METHODS);
        is_ours.then(|| (file, &mut *(*file.cast::<Log>()).coalesced))
    }
}

/// The name of the layer over the one called `below`, or over the default one; `None` when there is
/// no such layer. `coalesces`: for a connection that syncs each commit; otherwise nothing is kept
/// back.
pub(crate) fn over(below: Option<&str>, coalesces: bool) -> Option<String> {
    let (what, open): (&str, layer::Open) = if coalesces {
        ("coalesce", open_coalescing)
    } else {
        ("pass", open_passing)
    };
    layer::over(below, what, size_of::<Log>(), open)
}

/// Version 1 is all that SQLite asks of a log.
static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 1,
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
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// Defines how a layer opens a file.
macro_rules! opening_methods {
    ($($name:ident = $coalesces:literal;)*) => {$(
        unsafe extern "C" fn $name(
            layer: *mut sqlite3_vfs,
            name: sqlite3_filename,
            file: *mut sqlite3_file,
            flags: c_int,
            flags_out: *mut c_int,
        ) -> c_int {
            // SAFETY: SQLite's own arguments.
            unsafe { open(layer, name, file, flags, flags_out, $coalesces) }
        }
    )*};
}

opening_methods! {
    open_coalescing = true;
    open_passing = false;
}

/// # Safety
/// SQLite calls it, with these arguments but the last.
unsafe fn open(
    layer: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
    coalesces: bool,
) -> c_int {
    // SAFETY: SQLite hands over this layer, `szOsFile` bytes for the file, and arguments that the
    // layer below may have as they are.
    unsafe {
        if flags & ffi::SQLITE_OPEN_WAL == 0 {
            return layer::open_below(layer, name, file, flags, flags_out);
        }
        let log = file.cast::<Log>();
        // Tells SQLite not to close the file, should opening fail.
        (*log).base.pMethods = ptr::null();
        let code = layer::open_below(layer, name, file_below(file), flags, flags_out);
        if code == ffi::SQLITE_OK {
            let coalesces = coalesces && is_safe(device_characteristics(file));
            (*log).coalesced = Box::into_raw(Box::new(Coalesced::new(coalesces)));
            (*log).base.pMethods = &raw const METHODS;
        }
        code
    }
}

/// Whether a write to a file with these characteristics damages nothing beside it.
fn is_safe(characteristics: c_int) -> bool {
    characteristics & ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE != 0
}

/// # Safety
/// `file` is the memory of a [`Log`], with the room that `szOsFile` promised.
unsafe fn file_below(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: the file of the layer below follows in the same allocation.
    unsafe { file.cast::<Log>().add(1).cast() }
}

/// Defines file methods for which what is kept back makes no difference.
macro_rules! passing_methods {
    ($($name:ident = $method:ident($($argument:ident: $kind:ty),*);)*) => {$(
        unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $argument: $kind)*) -> c_int {
            below!(file, $method $(, $argument)*)
        }
    )*};
}

passing_methods! {
    lock = xLock(level: c_int);
    unlock = xUnlock(level: c_int);
    check_reserved_lock = xCheckReservedLock(answer: *mut c_int);
    file_control = xFileControl(op: c_int, argument: *mut c_void);
    sector_size = xSectorSize();
    device_characteristics = xDeviceCharacteristics();
}

/// Defines file methods before which everything must be written.
macro_rules! writing_methods {
    ($($name:ident = $method:ident($($argument:ident: $kind:ty),*);)*) => {$(
        unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $argument: $kind)*) -> c_int {
            // SAFETY: SQLite calls this with a log that `open` filled in.
            match unsafe { write_coalesced(file) } {
                ffi::SQLITE_OK => below!(file, $method $(, $argument)*),
                code => code,
            }
        }
    )*};
}

writing_methods! {
    read = xRead(into: *mut c_void, length: c_int, offset: sqlite3_int64);
    truncate = xTruncate(length: sqlite3_int64);
    sync = xSync(flags: c_int);
    file_size = xFileSize(length: *mut sqlite3_int64);
}

/// Writes what was kept back. On an error it stays, to be tried again.
///
/// # Safety
/// `file` was filled in by [`open`], and nothing else uses it: a connection is used by one thread
/// at a time.
unsafe fn write_coalesced(file: *mut sqlite3_file) -> c_int {
    // SAFETY: the caller's promise.
    let coalesced = unsafe { &mut *(*file.cast::<Log>()).coalesced };
    if coalesced.bytes.is_empty() {
        return ffi::SQLITE_OK;
    }
    let (from, length) = (coalesced.bytes.as_ptr(), coalesced.bytes.len() as c_int);
    let code = below!(file, xWrite, from.cast(), length, coalesced.offset);
    if code == ffi::SQLITE_OK {
        coalesced.bytes.clear();
    }
    code
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    length: c_int,
    offset: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls this with a log that `open` filled in, and with `length` bytes.
    let (coalesced, bytes) = unsafe {
        let bytes = slice::from_raw_parts(from.cast::<u8>(), length as usize);
        (&mut *(*file.cast::<Log>()).coalesced, bytes)
    };
    // Also what is kept back, and what fails: it may have been written all the same.
    coalesced.uncommitted_from = coalesced.uncommitted_from.min(offset);
    if coalesced.takes(offset, bytes) {
        return ffi::SQLITE_OK;
    }
    // SAFETY: as above.
    match unsafe { write_coalesced(file) } {
        ffi::SQLITE_OK if coalesced.takes(offset, bytes) => ffi::SQLITE_OK,
        ffi::SQLITE_OK => below!(file, xWrite, from, length, offset),
        code => code,
    }
}

impl Coalesced {
    /// Keeps `bytes` back, unless they lie elsewhere than after what is kept already, or would be
    /// too many, or there is no memory for them.
    fn takes(&mut self, offset: i64, bytes: &[u8]) -> bool {
        let is_next = self.bytes.is_empty() || self.offset + self.bytes.len() as i64 == offset;
        let fits = self.bytes.len() + bytes.len() <= COALESCED_BYTES_MAX;
        if !self.is_on || !is_next || !fits || self.bytes.try_reserve(bytes.len()).is_err() {
            return false;
        }
        if self.bytes.is_empty() {
            self.offset = offset;
        }
        self.bytes.extend_from_slice(bytes);
        true
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite calls this once, with a log that `open` filled in.
    unsafe {
        // What is left belongs to no commit: those were synced.
        let _ = write_coalesced(file);
        drop(Box::from_raw((*file.cast::<Log>()).coalesced));
    }
    below!(file, xClose)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_kept_and_strangers_are_not() {
        let mut coalesced = Coalesced::new(true);
        assert!(coalesced.takes(32, b"head"));
        assert!(coalesced.takes(36, b"page"));
        assert!(!coalesced.takes(36, b"again"), "not behind what is kept");
        assert!(!coalesced.takes(41, b"gap"));
        assert_eq!(
            (coalesced.offset, &coalesced.bytes[..]),
            (32, &b"headpage"[..])
        );
    }

    #[test]
    fn no_piece_is_longer_than_the_layer_below_takes() {
        let mut coalesced = Coalesced::new(true);
        let page = [0; 4_096];
        let taken = (0..100)
            .take_while(|n| coalesced.takes(n * 4_096, &page))
            .count();
        assert_eq!(taken, 31);
        assert!(!coalesced.takes(31 * 4_096, &page));
        coalesced.bytes.clear();
        assert!(!coalesced.takes(0, &vec![0; 1 << 17]));
    }

    #[test]
    fn layer_is_absent_over_an_unknown_one() {
        assert_eq!(over(Some("no such layer"), true), None);
        assert_eq!(over(None, true).as_deref(), Some("coalesce-default"));
        assert_eq!(over(None, true), over(None, true));
        assert_eq!(over(None, false).as_deref(), Some("pass-default"));
    }
}
