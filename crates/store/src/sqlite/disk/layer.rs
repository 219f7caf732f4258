//! File system layers of ours over another one, which does all that a layer leaves to it.
//!
//! The layout is SQLite's own for a layer over another one (SQLite manual, "The SQLite OS
//! Interface or VFS").

#![allow(
    unsafe_code,
    reason = "a file system layer is a table of C functions over raw pointers"
)]

use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_filename, sqlite3_vfs};

/// Why a method of the layer below may be called without looking.
pub(crate) const BELOW_HAS_ALL: &str = "SQLite demands these methods of every file";

/// How a layer opens a file.
pub(crate) type Open = unsafe extern "C" fn(
    layer: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int;

/// The name of the layer that does `what` over the one called `below`, or over the default one.
/// It is registered when it is first needed, and for good: a connection may need it to the end of
/// the process. `None` when there is no such layer below. A file of it has `file_bytes` before
/// the file of the layer below.
pub(crate) fn over(
    below: Option<&str>,
    what: &str,
    file_bytes: usize,
    open: Open,
) -> Option<String> {
    static REGISTERING: Mutex<()> = Mutex::new(());
    let name = format!("{what}-{}", below.unwrap_or("default"));
    let c_name = CString::new(name.as_str()).ok()?;
    let c_below = below.map(CString::new).transpose().ok()?;
    let c_below = c_below.as_ref().map_or(ptr::null(), |name| name.as_ptr());
    let _one_at_a_time = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: both names are null or zero-terminated; the functions may be called at any time.
    let (known, below) = unsafe {
        (
            ffi::sqlite3_vfs_find(c_name.as_ptr()),
            ffi::sqlite3_vfs_find(c_below),
        )
    };
    if !known.is_null() {
        return Some(name);
    }
    if below.is_null() {
        return None;
    }
    // A copy keeps the methods that concern no file, such as the clock.
    // SAFETY: `below` is registered, so it is valid.
    let mut layer = unsafe { *below };
    layer.szOsFile += file_bytes as c_int;
    layer.pNext = ptr::null_mut();
    layer.zName = c_name.into_raw();
    layer.pAppData = below.cast();
    layer.xOpen = Some(open);
    layer.xDelete = Some(delete);
    layer.xAccess = Some(access);
    layer.xFullPathname = Some(full_path);
    // SAFETY: the layer is complete and is never freed.
    let code = unsafe { ffi::sqlite3_vfs_register(Box::into_raw(Box::new(layer)), 0) };
    (code == ffi::SQLITE_OK).then_some(name)
}

/// Opens the file in the layer below.
///
/// # Safety
/// The arguments are those of a layer's [`Open`], or `file` is what follows ours in its memory.
pub(crate) unsafe fn open_below(
    layer: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: `over` put the layer below there, which may have the arguments as they are.
    unsafe {
        let below = (*layer).pAppData.cast::<sqlite3_vfs>();
        ((*below).xOpen.expect(BELOW_HAS_ALL))(below, name, file, flags, flags_out)
    }
}

/// Defines methods of the layer that are the business of the one below.
macro_rules! passing_layer_methods {
    ($($name:ident = $method:ident($($argument:ident: $kind:ty),*);)*) => {$(
        unsafe extern "C" fn $name(layer: *mut sqlite3_vfs $(, $argument: $kind)*) -> c_int {
            // SAFETY: SQLite hands over this layer, and arguments that the one below may have.
            unsafe {
                let below = (*layer).pAppData.cast::<sqlite3_vfs>();
                ((*below).$method.expect(BELOW_HAS_ALL))(below $(, $argument)*)
            }
        }
    )*};
}

passing_layer_methods! {
    delete = xDelete(name: *const c_char, sync_directory: c_int);
    access = xAccess(name: *const c_char, flags: c_int, answer: *mut c_int);
    full_path = xFullPathname(name: *const c_char, length: c_int, into: *mut c_char);
}
