//! From the decorator's arguments to what the callable needs.

use std::sync::OnceLock;
use std::time::Duration;

use cache::TableLimits;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::bind::{CachePlan, LifetimePolicy};
use crate::callable;
use crate::guard::SharedCount;
use crate::isolate::CopyMode;
use crate::object::HeldObject;
use crate::recent_tables::RecentTables;
use crate::store::StoreShared;
use crate::tables_by_address::TablesByAddress;
use crate::{instance, memory_budget, owned, raised, to_python};

fn optional(settings: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<HeldObject>> {
    let found = settings.get_item(name)?;
    Ok(found
        .filter(|found| !found.is_none())
        .map(|found| owned(&found)))
}

fn required<'py, T>(settings: &Bound<'py, PyDict>, name: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
    for<'a> <T as FromPyObject<'a, 'py>>::Error: Into<PyErr>,
{
    let found = settings.get_item(name)?;
    let found = found.ok_or_else(|| pyo3::exceptions::PyKeyError::new_err(name.to_owned()))?;
    found.extract::<T>().map_err(Into::into)
}

fn freshness_of(settings: &Bound<'_, PyDict>) -> PyResult<LifetimePolicy> {
    Ok(LifetimePolicy {
        refresh_share: required(settings, "refresh_share")?,
        extends: required(settings, "extends")?,
        stale_us: required(settings, "stale_us")?,
        error_us: required(settings, "error_us")?,
        jitter: required(settings, "jitter")?,
    })
}

/// Makes the callable for `function`. `settings` are checked already, by the decorator.
#[pyfunction]
pub fn make(function: &Bound<'_, PyAny>, settings: &Bound<'_, PyDict>) -> PyResult<Py<PyAny>> {
    let py = function.py();
    let names: Vec<String> = required(settings, "names")?;
    let names = names
        .iter()
        .map(|name| owned(PyString::intern(py, name).as_any()));
    // Each a tuple of one, so that None may be a default.
    let defaults: Vec<Option<(Bound<'_, PyAny>,)>> = required(settings, "defaults")?;
    let defaults = defaults
        .iter()
        .map(|default| default.as_ref().map(|(one,)| owned(one)));
    let copy_mode = match required::<String>(settings, "copy")?.as_str() {
        "share" => CopyMode::Share,
        "deep" => CopyMode::Deep,
        _ => CopyMode::Auto,
    };
    let tags: Bound<'_, PyAny> = required(settings, "tags")?;
    let lifetime_us: Option<u64> = required(settings, "lifetime_us")?;
    let (policy, errors) = (optional(settings, "policy")?, optional(settings, "errors")?);
    let bytes_max: Option<u64> = required(settings, "bytes_max")?;
    let freshness = freshness_of(settings)?;
    let renewable_us: u64 = required(settings, "renewable_us")?;
    let shared = StoreShared {
        limits: TableLimits {
            entries_max: required(settings, "entries_max")?,
            bytes_max: bytes_max.unwrap_or(u64::MAX),
            stale_us: freshness.stale_us.max(freshness.error_us).max(renewable_us),
        },
        on_evict: optional(settings, "on_evict")?,
        recent: RecentTables::default(),
        by_address: TablesByAddress::default(),
        bytes: SharedCount::new(0),
        budget: required(settings, "budget")?,
        evicted: SharedCount::new(0),
        expired: SharedCount::new(0),
        renewed: SharedCount::new(0),
        renewal: OnceLock::new(),
    };
    let plan = CachePlan {
        names: names.collect(),
        defaults: defaults.collect(),
        is_ignored: required(settings, "is_ignored")?,
        positional_only: required(settings, "positional_only")?,
        positional: required(settings, "positional")?,
        takes_more: required(settings, "takes_more")?,
        takes_names: required(settings, "takes_names")?,
        is_async: required(settings, "is_async")?,
        reads_clock: lifetime_us.is_some() || policy.is_some() || errors.is_some(),
        lifetime_us,
        copy_mode,
        codec: optional(settings, "codec")?,
        flight_wait: Duration::from_secs_f64(required(settings, "flight_wait")?),
        key: optional(settings, "key")?,
        policy,
        errors,
        freshness,
        weighs: bytes_max.is_some(),
        tags: raised(py, unsafe { callable::tags_in(tags.as_ptr()) })?,
        tags_of: optional(settings, "tags_of")?,
    };
    let cached = raised(py, unsafe {
        callable::create(owned(function), plan, shared)
    })?;
    raised(py, unsafe { callable::join_budget(&cached) })?;
    Ok(to_python(py, cached))
}

/// Says that the callable stands in `class` as a method: its answers live in the instances, under
/// `name`.
#[pyfunction]
pub fn mark_method(
    cached: &Bound<'_, PyAny>,
    class: &Bound<'_, PyAny>,
    name: &str,
) -> PyResult<()> {
    let py = cached.py();
    if class.getattr("__weakrefoffset__")?.extract::<isize>()? == 0 {
        let class = class.getattr("__qualname__")?.extract::<String>()?;
        return raised(py, Err(instance::refuse(&class)));
    }
    let name = owned(PyString::intern(py, name).as_any());
    let inner = unsafe { callable::inner(cached.as_ptr()) };
    if inner.store.shared.budget.is_some() {
        return raised(py, Err(memory_budget::refuse_method()));
    }
    inner.become_method(name);
    // A class may refuse to have entries set in the `__dict__` of its instances, and then the
    // first call says so.
    debug_assert!(unsafe { ffi::PyType_Check(class.as_ptr()) } != 0);
    Ok(())
}
