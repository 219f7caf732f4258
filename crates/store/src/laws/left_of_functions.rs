//! What is left of functions and deployments that are gone, and records that are kept no longer:
//! removed in slices, between commits.

use super::slices::{SLICE_BYTES_MAX, SLICE_ROWS_MAX};
use super::stored_tables::StoredTables;
use crate::StoreError;
use crate::function_op::PIECE_BYTES_MAX;
use crate::stored::left::{self, OldRecord};

/// Whether anything is left.
///
/// # Errors
/// What the database says; so it is with each call.
pub(crate) fn is_any<D: StoredTables>(rows: &D) -> Result<bool, StoreError> {
    Ok(rows.first_stored(&left::any())?.is_some())
}

/// Removes a slice of each kind.
pub(crate) fn remove_slice<D: StoredTables>(rows: &D) -> Result<(), StoreError> {
    remove_pieces(rows)?;
    remove_records(rows)?;
    remove_calls(rows)?;
    remove_old_records(rows)
}

/// Of a deployment that is gone, at most [`SLICE_BYTES_MAX`].
fn remove_pieces<D: StoredTables>(rows: &D) -> Result<(), StoreError> {
    let Some(deployment) = rows.first_stored(&left::deployment())? else {
        return Ok(());
    };
    let pieces = SLICE_BYTES_MAX / PIECE_BYTES_MAX;
    let removed = rows.change_stored(&left::remove_pieces(deployment, pieces as i64))?;
    if removed < pieces {
        rows.change_stored(&left::end_pieces(deployment))?;
    }
    Ok(())
}

/// A slice of what goes in an order.
struct FirstOnes {
    /// The last one, if there is one.
    last: Option<i64>,
    /// Whether none is left behind it.
    is_all: bool,
}

/// Those that make a slice, of rows with their bytes: the one that passes [`SLICE_BYTES_MAX`] is
/// the last one.
fn first_ones(found: &[(i64, i64)]) -> FirstOnes {
    let (mut bytes, mut count) = (0, 0);
    for (_, of_it) in found {
        if bytes >= SLICE_BYTES_MAX as i64 {
            break;
        }
        bytes += of_it;
        count += 1;
    }
    let is_full = bytes >= SLICE_BYTES_MAX as i64 || count == SLICE_ROWS_MAX;
    FirstOnes {
        last: found[..count].last().map(|(seq, _)| *seq),
        is_all: !is_full,
    }
}

/// Of a function that is gone.
fn remove_records<D: StoredTables>(rows: &D) -> Result<(), StoreError> {
    let Some(function) = rows.first_stored(&left::function())? else {
        return Ok(());
    };
    let found = rows.read_stored(&left::records(function, SLICE_ROWS_MAX as i64))?;
    let slice = first_ones(&found);
    if let Some(last) = slice.last {
        rows.change_stored(&left::remove_records(function, last))?;
    }
    if slice.is_all {
        rows.change_stored(&left::end_records(function))?;
    }
    Ok(())
}

/// What the handlers of functions that are gone were to be given.
fn remove_calls<D: StoredTables>(rows: &D) -> Result<(), StoreError> {
    let found = rows.read_stored(&left::calls(SLICE_ROWS_MAX as i64))?;
    match first_ones(&found).last {
        Some(last) => rows.change_in_order(left::remove_calls(last)),
        None => Ok(()),
    }
}

/// The oldest records of a function that keeps them no longer: those before the first one that it
/// keeps.
fn remove_old_records<D: StoredTables>(rows: &D) -> Result<(), StoreError> {
    let Some(old) = rows.first_stored(&left::old())? else {
        return Ok(());
    };
    let found = rows.read_stored(&left::old_records(old.function, SLICE_ROWS_MAX as i64))?;
    let (mut count, mut bytes, mut last) = (0, 0, None);
    let mut is_kept = false;
    for OldRecord {
        seq,
        bytes: of_it,
        created,
    } in &found
    {
        let is_few = old.count - count <= old.count_max && old.bytes - bytes <= old.bytes_max;
        is_kept = is_few && *created >= old.since;
        if is_kept || bytes >= SLICE_BYTES_MAX as i64 {
            break;
        }
        (count, bytes, last) = (count + 1, bytes + of_it, Some(*seq));
    }
    if let Some(last) = last {
        rows.change_in_order([
            left::remove_records(old.function, last),
            left::count_less(old.function, count, bytes),
        ])?;
    }
    let is_full = bytes >= SLICE_BYTES_MAX as i64 || count == SLICE_ROWS_MAX as i64;
    if is_kept || !is_full {
        rows.change_stored(&left::end_old(old.function))?;
    }
    Ok(())
}
