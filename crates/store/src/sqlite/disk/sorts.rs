//! A file system layer that keeps what is sorted in memory, and only so much of it.
//!
//! Where no index gives an order, SQLite sorts in a table of its own, which has as many rows as
//! `limit` and `offset` together; one statement may need several of them. In memory they had no
//! bound: a caller could have any table copied there by a large `offset`. In files they could fill
//! the disk. So SQLite is set to use files, and this layer is the disk that they are on: SQLite
//! keeps the first 2 MB of each to itself (`SQLITE_DEFAULT_CACHE_SIZE`), and what goes beyond is
//! held here, counted for all files of a thread, and refused beyond [`SORT_BYTES_MAX`].
//!
//! A read is one thread's from beginning to end, and no thread reads twice at once, so this bounds
//! each read. All other files belong to the layer below, those of index builds among them.

#![allow(
    unsafe_code,
    reason = "a file system layer is a table of C functions over raw pointers"
)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::slice;

use rusqlite::ffi::{
    self, sqlite3_file, sqlite3_filename, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs,
};
use rusqlite::{Connection, Error};

use super::layer;

/// Most bytes that one read holds of what it sorts, beside the 2 MB of each sort that stay in
/// SQLite's cache. 60 rows of a megabyte fit in, or two million numbers.
pub(crate) const SORT_BYTES_MAX: usize = 64 << 20;
/// The code of a sort that would take more memory than one may, chosen as
/// [`super::fault::PATTERN_TOO_HARD`] is.
pub(crate) const SORT_TOO_LARGE: i32 = ffi::SQLITE_ERROR | (0x7c << 8);
/// How memory is taken: sixteen pages at once.
const PIECE_BYTES: usize = 64 << 10;

thread_local! {
    /// Bytes in this thread's files.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// The name of the layer over the one called `below`, or over the default one; `None` when there
/// is no such layer.
pub(crate) fn over(below: Option<&str>) -> Option<String> {
    layer::over(below, "sorts", size_of::<File>(), open)
}

/// Reads on the connection that writes, whose temporary tables are in memory at other times: the
/// journals of its savepoints are then, too.
pub(crate) fn bounded<T>(connection: &Connection, read: impl FnOnce() -> T) -> Result<T, Error> {
    connection.execute_batch("PRAGMA temp_store = FILE")?;
    let answer = read();
    connection.execute_batch("PRAGMA temp_store = MEMORY")?;
    Ok(answer)
}

/// A file as SQLite holds it. SQLite requires `base` first.
#[repr(C)]
struct File {
    base: sqlite3_file,
    content: *mut Content,
}

/// What is in a file, in pieces of which each is whole.
#[derive(Default)]
struct Content {
    pieces: Vec<Box<[u8]>>,
    length: usize,
}

impl Content {
    /// # Errors
    /// [`SORT_TOO_LARGE`], or that there is no memory. Nothing was written then.
    fn write(&mut self, bytes: &[u8], offset: usize) -> Result<(), c_int> {
        let end = offset.checked_add(bytes.len()).ok_or(SORT_TOO_LARGE)?;
        while self.pieces.len() * PIECE_BYTES < end {
            self.grow()?;
        }
        self.each(offset, bytes.len(), |piece, range| {
            piece.copy_from_slice(&bytes[range]);
        });
        self.length = self.length.max(end);
        Ok(())
    }

    fn grow(&mut self) -> Result<(), c_int> {
        let held = HELD.get() + PIECE_BYTES;
        if held > SORT_BYTES_MAX {
            return Err(SORT_TOO_LARGE);
        }
        let mut piece = Vec::new();
        let room = piece.try_reserve_exact(PIECE_BYTES);
        if room.is_err() || self.pieces.try_reserve(1).is_err() {
            return Err(ffi::SQLITE_NOMEM);
        }
        piece.resize(PIECE_BYTES, 0);
        self.pieces.push(piece.into_boxed_slice());
        HELD.set(held);
        Ok(())
    }

    /// Fills `into` with what is there, and with zeros beyond the end. Whether all was there.
    fn read(&mut self, into: &mut [u8], offset: usize) -> bool {
        let there = self.length.saturating_sub(offset).min(into.len());
        into[there..].fill(0);
        self.each(offset, there, |piece, range| {
            into[range].copy_from_slice(piece);
        });
        there == into.len()
    }

    /// Shows each part of a piece between the offset and so many bytes behind it, all of them
    /// there, and where among these bytes it lies.
    fn each(
        &mut self,
        offset: usize,
        length: usize,
        mut show: impl FnMut(&mut [u8], std::ops::Range<usize>),
    ) {
        let mut done = 0;
        while done < length {
            let (nth, from) = ((offset + done) / PIECE_BYTES, (offset + done) % PIECE_BYTES);
            let part = (PIECE_BYTES - from).min(length - done);
            show(&mut self.pieces[nth][from..from + part], done..done + part);
            done += part;
        }
    }

    fn truncate(&mut self, length: usize) {
        let needed = length.div_ceil(PIECE_BYTES);
        let gone = self.pieces.len().saturating_sub(needed);
        self.pieces.truncate(needed);
        HELD.set(HELD.get() - gone * PIECE_BYTES);
        self.length = self.length.min(length);
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        self.truncate(0);
    }
}

unsafe extern "C" fn open(
    layer: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    if flags & ffi::SQLITE_OPEN_TRANSIENT_DB == 0 {
        // SAFETY: SQLite's own arguments.
        return unsafe { layer::open_below(layer, name, file, flags, flags_out) };
    }
    // SAFETY: SQLite hands over `szOsFile` bytes for the file, and null or room for the flags.
    unsafe {
        if !flags_out.is_null() {
            *flags_out = flags;
        }
        let file = file.cast::<File>();
        (*file).content = Box::into_raw(Box::default());
        (*file).base.pMethods = &raw const METHODS;
    }
    ffi::SQLITE_OK
}

/// Version 1 is all that SQLite asks of such a file.
static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(lock),
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

/// # Safety
/// `file` was filled in by [`open`] and is not closed; nothing else uses it: a connection is used
/// by one thread at a time.
unsafe fn content<'f>(file: *mut sqlite3_file) -> &'f mut Content {
    // SAFETY: the caller's promise.
    unsafe { &mut *(*file.cast::<File>()).content }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite calls this once, with a file that `open` filled in.
    unsafe { drop(Box::from_raw((*file.cast::<File>()).content)) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    into: *mut c_void,
    length: c_int,
    offset: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls this with a file that `open` filled in, and room for `length` bytes,
    // which it has perhaps not written to yet.
    let (content, into) = unsafe {
        ptr::write_bytes(into.cast::<u8>(), 0, length as usize);
        let into = slice::from_raw_parts_mut(into.cast::<u8>(), length as usize);
        (content(file), into)
    };
    if content.read(into, offset as usize) {
        ffi::SQLITE_OK
    } else {
        ffi::SQLITE_IOERR_SHORT_READ
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    length: c_int,
    offset: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls this with a file that `open` filled in, and with `length` bytes.
    let (content, bytes) = unsafe {
        let bytes = slice::from_raw_parts(from.cast::<u8>(), length as usize);
        (content(file), bytes)
    };
    let written = content.write(bytes, offset as usize);
    written.err().unwrap_or(ffi::SQLITE_OK)
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, length: sqlite3_int64) -> c_int {
    // SAFETY: SQLite calls this with a file that `open` filled in.
    unsafe { content(file) }.truncate(length as usize);
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, length: *mut sqlite3_int64) -> c_int {
    // SAFETY: SQLite calls this with a file that `open` filled in, and room for the length.
    unsafe { *length = content(file).length as sqlite3_int64 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn sync(_: *mut sqlite3_file, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn lock(_: *mut sqlite3_file, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(_: *mut sqlite3_file, answer: *mut c_int) -> c_int {
    // SAFETY: SQLite hands over room for the answer.
    unsafe { *answer = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(_: *mut sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut sqlite3_file) -> c_int {
    0
}

unsafe extern "C" fn device_characteristics(_: *mut sqlite3_file) -> c_int {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_back_what_was_written_across_pieces_and_zeros_behind_it() {
        let mut content = Content::default();
        let bytes: Vec<u8> = (0..PIECE_BYTES + 10).map(|n| n as u8).collect();
        content.write(&bytes, PIECE_BYTES - 5).unwrap();
        let mut found = vec![9; bytes.len()];
        assert!(content.read(&mut found, PIECE_BYTES - 5));
        assert_eq!(found, bytes);
        let mut found = [9; 8];
        assert!(!content.read(&mut found, 2 * PIECE_BYTES + 1));
        assert_eq!(found, [6, 7, 8, 9, 0, 0, 0, 0]);
        assert!(!content.read(&mut found, 9 * PIECE_BYTES));
        assert_eq!(found, [0; 8]);
    }

    #[test]
    fn all_files_of_a_thread_have_one_bound_and_give_back_what_they_held() {
        let (mut one, mut other) = (Content::default(), Content::default());
        let page = [1; 4_096];
        one.write(&page, SORT_BYTES_MAX / 2 - page.len()).unwrap();
        other.write(&page, SORT_BYTES_MAX / 2 - page.len()).unwrap();
        assert_eq!(HELD.get(), SORT_BYTES_MAX);
        assert_eq!(one.write(&page, SORT_BYTES_MAX / 2), Err(SORT_TOO_LARGE));
        one.write(&page, 0).unwrap();
        other.truncate(PIECE_BYTES + 1);
        assert_eq!(HELD.get(), SORT_BYTES_MAX / 2 + 2 * PIECE_BYTES);
        one.write(&page, SORT_BYTES_MAX / 2).unwrap();
        drop((one, other));
        assert_eq!(HELD.get(), 0);
    }

    #[test]
    fn layer_is_absent_over_an_unknown_one() {
        assert_eq!(over(Some("no such layer")), None);
        assert_eq!(over(None).as_deref(), Some("sorts-default"));
    }

    /// A connection whose sorts go through the layer.
    fn sorting() -> Connection {
        let (flags, layer) = (rusqlite::OpenFlags::default(), over(None).unwrap());
        let connection = Connection::open_with_flags_and_vfs("", flags, layer.as_str()).unwrap();
        connection
            .execute_batch("PRAGMA temp_store = FILE")
            .unwrap();
        connection
    }

    /// The texts of so many rows, each of a megabyte, sorted.
    fn sort(connection: &Connection, rows: i64) -> Result<i64, Error> {
        let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                   SELECT count(*), min(length(s)) FROM
                   (SELECT printf('%07d%.*c', (i * 7919) % 10007, 1000000, 'x') AS s
                    FROM n ORDER BY s LIMIT 1000000)";
        connection.query_row(sql, [rows], |row| row.get(0))
    }

    #[test]
    fn a_sort_beyond_the_bound_is_refused_and_leaves_nothing() {
        let connection = sorting();
        assert_eq!(sort(&connection, 40).unwrap(), 40);
        for _ in 0..2 {
            let Err(Error::SqliteFailure(code, _)) = sort(&connection, 80) else {
                panic!("80 MB were sorted");
            };
            assert_eq!(code.extended_code, SORT_TOO_LARGE);
            assert_eq!(HELD.get(), 0);
        }
        assert_eq!(sort(&connection, 40).unwrap(), 40);
        assert_eq!(HELD.get(), 0);
    }
}
