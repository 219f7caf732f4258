//! Invalidation, in memory, of the calls that a predicate picks.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::callable;
use crate::key::HeldKey;
use crate::object::HeldObject;

/// Takes out each entry for whose arguments, defaults included, `predicate` gives something true,
/// and each whose arguments the key has as bytes only. No run of now stores its value. How many
/// were taken out.
#[pyfunction]
pub fn invalidate_where(
    cached: &Bound<'_, PyAny>,
    predicate: &Bound<'_, PyAny>,
) -> PyResult<usize> {
    let py = cached.py();
    let store = unsafe { &callable::inner(cached.as_ptr()).store };
    store.runs.detach_all();
    let mut entries = Vec::new();
    (store.table.lock()).visit(|place, entry| entries.push((place, entry.clone())));
    let is_meant = |key: &HeldKey| match plain_arguments(py, key)? {
        Some(arguments) => predicate.call1(arguments)?.is_truthy(),
        None => Ok(true),
    };
    // All before the first one goes: a predicate that raises leaves everything in its place.
    let mut meant = Vec::new();
    for (place, entry) in &entries {
        if is_meant(&entry.key)? {
            meant.push(*place);
        }
    }
    let gone = meant
        .into_iter()
        .filter(|place| unsafe { store.remove(*place) });
    Ok(gone.count())
}

/// The arguments as they stand in the key; `None` if they are there as bytes.
pub fn plain_arguments<'py>(
    py: Python<'py>,
    key: &HeldKey,
) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let bound = |one: &HeldObject| unsafe { Bound::from_borrowed_ptr(py, one.as_ptr()) };
    match key {
        HeldKey::One(one) => PyTuple::new(py, [bound(one)]).map(Some),
        HeldKey::Several(several) => PyTuple::new(py, several.iter().map(bound)).map(Some),
        HeldKey::Built(_) => Ok(None),
    }
}
