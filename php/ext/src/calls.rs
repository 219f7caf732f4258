//! What C calls of the tables.

use std::ffi::{c_char, c_int, c_void};
use std::{ptr, slice};

use tiers::{MappedTier, MappedWhen};

use crate::border::{bytes_at, said};
use crate::encoding::Encoding;
use crate::read::ZendBuild;
use crate::table::SharedTable;
use crate::worker::worker;

/// The table and the bytes that C gives to nearly every call.
struct TableKey<'a> {
    table: &'static SharedTable,
    group: &'a [u8],
    key: &'a [u8],
}

/// # Safety
/// The bytes must be there.
unsafe fn key_of<'a>(
    table: c_int,
    group: (*const c_char, usize),
    key: (*const c_char, usize),
) -> Option<TableKey<'a>> {
    Some(TableKey {
        table: worker().table(table)?,
        group: bytes_at(group.0, group.1),
        key: bytes_at(key.0, key.1),
    })
}

/// The number of the table of a file in this thread; -1 if there are too many.
#[unsafe(no_mangle)]
unsafe extern "C" fn tm_table(path: *const c_char, length: usize, bytes: u64) -> c_int {
    let number = worker().table_of(bytes_at(path, length), bytes);
    number.map_or(-1, |number| number as c_int)
}

/// Writes why the table cannot be used, or the last call that failed did so, and how long that is;
/// 0 if neither.
#[unsafe(no_mangle)]
unsafe extern "C" fn tm_fault(table: c_int, to: *mut c_char, room: usize) -> usize {
    let text = match worker().table(table) {
        None => "this request has opened no table of this number".to_owned(),
        Some(table) => {
            table.with(MappedTier::check);
            table.fault()
        }
    };
    let length = text.len().min(room);
    slice::from_raw_parts_mut(to.cast::<u8>(), length).copy_from_slice(&text.as_bytes()[..length]);
    length
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn tm_fetch(
    table: c_int,
    group: *const c_char,
    group_length: usize,
    key: *const c_char,
    key_length: usize,
    build: *mut c_void,
    expires: *mut i64,
) -> c_int {
    match key_of(table, (group, group_length), (key, key_length)) {
        Some(at) => at
            .table
            .fetch(at.group, at.key, ZendBuild::new(build), &mut *expires),
        None => said::FAULT,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tm_store(
    table: c_int,
    group: *const c_char,
    group_length: usize,
    key: *const c_char,
    key_length: usize,
    encoding: *mut Encoding,
    when: c_int,
    expires: i64,
) -> c_int {
    let when = match when {
        1 => MappedWhen::Absent,
        2 => MappedWhen::Present,
        _ => MappedWhen::Always,
    };
    match key_of(table, (group, group_length), (key, key_length)) {
        Some(at) => {
            let value = (*encoding).finished();
            at.table.store(at.group, at.key, value, when, expires)
        }
        None => said::FAULT,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tm_delete(
    table: c_int,
    group: *const c_char,
    group_length: usize,
    key: *const c_char,
    key_length: usize,
) -> c_int {
    match key_of(table, (group, group_length), (key, key_length)) {
        Some(at) => at.table.delete(at.group, at.key),
        None => said::FAULT,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tm_raise(
    table: c_int,
    group: *const c_char,
    group_length: usize,
    key: *const c_char,
    key_length: usize,
    offset: i64,
    value: *mut i64,
    expires: *mut i64,
) -> c_int {
    let at = key_of(table, (group, group_length), (key, key_length));
    match at.map(|at| at.table.raise(at.group, at.key, offset)) {
        Some(Some(Some((number, until)))) => {
            *value = number;
            *expires = until;
            said::YES
        }
        Some(Some(None)) => said::NO,
        Some(None) | None => said::FAULT,
    }
}

/// Flushes a group; everything where it is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn tm_flush(table: c_int, group: *const c_char, length: usize) -> c_int {
    let Some(table) = worker().table(table) else {
        return said::FAULT;
    };
    let flushed = table.with(|tier| {
        if group.is_null() {
            tier.flush()
        } else {
            tier.flush_group(bytes_at(group, length))
        }
    });
    flushed.map_or(said::FAULT, |()| said::YES)
}

/// Deletes each key whose hash this is, or flushes each group: XXH3 with seed 0.
#[unsafe(no_mangle)]
extern "C" fn tm_forget(table: c_int, hash: u64, is_group: bool) -> c_int {
    let Some(table) = worker().table(table) else {
        return said::FAULT;
    };
    let forgotten = table.with(|tier| {
        if is_group {
            tier.flush_group_of(hash)
        } else {
            tier.forget(hash)
        }
    });
    forgotten.map_or(said::FAULT, |()| said::YES)
}

/// As a miss of this key now: for a caller that tries again, as with a lock.
#[unsafe(no_mangle)]
unsafe extern "C" fn tm_renew(
    table: c_int,
    group: *const c_char,
    group_length: usize,
    key: *const c_char,
    key_length: usize,
) {
    if let Some(at) = key_of(table, (group, group_length), (key, key_length)) {
        at.table.take_ticket(at.group, at.key);
    }
}

/// The text that the thread remembers under a name; null if none. It stays until the next call.
#[unsafe(no_mangle)]
unsafe extern "C" fn tm_recall(
    name: *const c_char,
    length: usize,
    text_length: *mut usize,
) -> *const c_char {
    let Some((text, found)) = worker().recall(bytes_at(name, length)) else {
        return ptr::null();
    };
    *text_length = found;
    text.cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tm_remember(
    name: *const c_char,
    length: usize,
    text: *const c_char,
    text_length: usize,
) {
    worker().remember(bytes_at(name, length), bytes_at(text, text_length));
}

#[unsafe(no_mangle)]
extern "C" fn tm_end(table: c_int) {
    if let Some(table) = worker().table(table) {
        table.forget_tickets();
    }
}

/// Writes the four numbers that `tidemark_counts` names.
#[unsafe(no_mangle)]
unsafe extern "C" fn tm_counts(table: c_int, numbers: *mut u64) -> c_int {
    let survey = worker()
        .table(table)
        .and_then(|table| table.with(MappedTier::survey));
    let Some(survey) = survey else {
        return said::FAULT;
    };
    let found = [
        survey.entries,
        survey.entry_bytes,
        survey.damaged,
        survey.file_bytes,
    ];
    slice::from_raw_parts_mut(numbers, found.len()).copy_from_slice(&found);
    said::YES
}

#[unsafe(no_mangle)]
extern "C" fn tm_sync(table: c_int) -> c_int {
    let synced = worker()
        .table(table)
        .and_then(|table| table.with(MappedTier::sync));
    synced.map_or(said::FAULT, |()| said::YES)
}

/// Writes the six numbers that `tm_return_stats` names.
#[unsafe(no_mangle)]
unsafe extern "C" fn tm_stats(table: c_int, numbers: *mut u64) {
    if let Some(table) = worker().table(table) {
        slice::from_raw_parts_mut(numbers, 6).copy_from_slice(&table.numbers());
    }
}
