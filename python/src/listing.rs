//! Entries that are listed, for invalidations that ask about the arguments of each.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tiers::ListedEntry;

use crate::file_tier::{FailureText, failure, failure_text};
use crate::note::{START_BYTES, arguments_in, bytes_of_note, guard_named};
use crate::tier_stack::StackOfTiers;

/// Lets no run of now store a value under a key that begins so. A notice, if it has bytes, is
/// passed on in the same step. What failed.
#[pyfunction]
pub fn forget_guard(
    py: Python<'_>,
    stack: &StackOfTiers,
    start: &[u8],
    notice: &[u8],
) -> PyResult<Vec<FailureText>> {
    let name = guard_named(start).ok_or_else(|| {
        let text = format!("what begins keys has {START_BYTES} bytes");
        pyo3::exceptions::PyValueError::new_err(text)
    })?;
    let done = py.detach(|| stack.stack.forget_noted(&name, notice));
    Ok(done.failures.into_iter().map(failure_text).collect())
}

/// A key in a tier, and the arguments, no bytes if they are not known.
type ListedCall<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// The entries of a part of a tier whose keys begin so, and where the next part begins; None after
/// the last one.
#[pyfunction]
pub fn list_entries<'py>(
    py: Python<'py>,
    stack: &StackOfTiers,
    tier: usize,
    start: &[u8],
    own_tags: bool,
    cursor: u64,
) -> PyResult<(Vec<ListedCall<'py>>, Option<u64>)> {
    let bytes = bytes_of_note(own_tags);
    let slice = py.detach(|| stack.stack.list(tier, start, bytes, cursor));
    let slice = slice.map_err(failure)?;
    let call = |entry: ListedEntry| {
        let arguments = arguments_in(&entry.value_start, own_tags);
        (PyBytes::new(py, &entry.key), PyBytes::new(py, arguments))
    };
    Ok((slice.entries.into_iter().map(call).collect(), slice.next))
}

/// Deletes entries of a tier by what `list_entries` gave.
#[pyfunction]
pub fn delete_entries(
    py: Python<'_>,
    stack: &StackOfTiers,
    tier: usize,
    keys: Vec<Vec<u8>>,
) -> PyResult<()> {
    py.detach(|| stack.stack.delete_listed(tier, &keys))
        .map_err(failure)
}
