//! The native half of `tidemark_cache`: the callable, its keys, its table, and isolation.
//!
//! Only threads that hold the interpreter's lock touch anything here; on free-threaded builds
//! loading this module switches the lock back on.

// SAFETY, once for the crate: every function is reached from the interpreter, on a thread that
// holds its lock, with pointers the interpreter owns for the length of the call.
#![allow(unsafe_code)]

mod bind;
mod call_key;
mod callable;
mod encode;
mod entry;
mod flight;
mod instance;
mod isolate;
mod key;
mod object;
mod plan;
mod python;
mod ready;
mod store;

use pyo3::prelude::*;

use crate::object::{HeldObject, Outcome};
use crate::python::PythonFunction;

/// What PyO3 shall raise: the exception that is set already.
fn raised<T>(py: Python<'_>, outcome: Outcome<T>) -> PyResult<T> {
    outcome.map_err(|_| PyErr::fetch(py))
}

fn owned(object: &Bound<'_, PyAny>) -> HeldObject {
    unsafe { HeldObject::borrowed(object.as_ptr()) }
}

fn to_python(py: Python<'_>, object: HeldObject) -> Py<PyAny> {
    unsafe { Bound::from_owned_ptr(py, object.into_ptr()) }.unbind()
}

/// Gives this module the functions written in Python.
#[pyfunction]
fn set_up(functions: [Bound<'_, PyAny>; 6], immutable: Vec<Bound<'_, PyAny>>) -> bool {
    let known = [
        PythonFunction::PartsOf,
        PythonFunction::FrozenFields,
        PythonFunction::DeepCopy,
        PythonFunction::Bound,
        PythonFunction::AsyncMiss,
        PythonFunction::Ownership,
    ];
    for (known, function) in known.into_iter().zip(&functions) {
        python::remember(known, owned(function));
    }
    immutable
        .iter()
        .all(|kind| unsafe { isolate::add_immutable(kind.as_ptr()) })
}

/// Makes every entry under the tag invalid, in every function of this process.
#[pyfunction]
fn invalidate_tag(tag: &str) {
    entry::invalidate_tag(cache::fingerprint(0, tag.as_bytes()) as u64);
}

#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    if !flight::watch_forks() {
        return Err(pyo3::exceptions::PyMemoryError::new_err(
            "no memory to watch forks",
        ));
    }
    let kind = raised(py, unsafe { callable::create_type() })?;
    raised(py, unsafe { instance::create_type() })?;
    raised(py, unsafe { ready::create_type() })?;
    module.add("Cached", to_python(py, kind))?;
    module.add_class::<call_key::CallKey>()?;
    module.add_function(wrap_pyfunction!(set_up, module)?)?;
    module.add_function(wrap_pyfunction!(invalidate_tag, module)?)?;
    module.add_function(wrap_pyfunction!(plan::make, module)?)?;
    module.add_function(wrap_pyfunction!(plan::mark_method, module)?)?;
    module.add_function(wrap_pyfunction!(call_key::clear, module)?)?;
    module.add_function(wrap_pyfunction!(call_key::counts, module)?)?;
    module.add_function(wrap_pyfunction!(call_key::entries, module)?)?;
    module.add_function(wrap_pyfunction!(call_key::discard_run, module)?)?;
    Ok(())
}
