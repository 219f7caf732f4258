//! The native half of `tidemark_cache`: the callable, its keys, its table, and isolation.
//!
//! Only threads that are attached to the interpreter touch anything here. What several of them
//! share stands behind the guards of `guard.rs`.

// SAFETY, once for the crate: every function is reached from the interpreter, on a thread that
// is attached to it, with pointers the interpreter owns for the length of the call.
#![allow(unsafe_code)]

mod api;
mod async_miss;
mod bind;
mod call_key;
mod callable;
mod decided;
mod decode;
#[cfg(not(Py_3_12))]
mod dict_values;
#[cfg(Py_3_12)]
mod eager;
mod encode;
mod entry;
mod file_tier;
mod flight;
mod guard;
mod instance;
mod isolate;
mod key;
mod listing;
mod loop_connection;
mod memcached_tier;
mod memory_budget;
mod miss;
mod note;
mod notices;
mod object;
mod object_tier;
mod ownership;
mod plan;
mod predicate;
mod python;
mod ready;
mod recent_answers;
mod recent_tables;
mod redis_tier;
mod run_graph;
mod run_node;
mod server;
mod store;
mod tables_by_address;
mod task_run;
mod tier_stack;
mod value_bytes;

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::object::{HeldObject, Outcome};

/// The number of the interpreter in which the process began.
const MAIN_INTERPRETER: i64 = 0;

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

/// Adds types whose objects cannot change, of modules that are imported only where they are used.
#[pyfunction]
fn add_immutable(kinds: Vec<Bound<'_, PyAny>>) -> bool {
    kinds
        .iter()
        .all(|kind| unsafe { isolate::add_immutable(kind.as_ptr()) })
}

/// Makes every entry under the tag invalid, in every function of this process.
#[pyfunction]
fn invalidate_tag(tag: &str) {
    entry::invalidate_tag(cache::fingerprint(0, tag.as_bytes()) as u64);
}

/// What one interpreter made must not meet the objects of another, and it is kept once for the
/// process: types, the context variable, functions of Python. PyO3 no longer looks.
fn refuse_sub_interpreters(py: Python<'_>) -> PyResult<()> {
    let id = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    match id {
        MAIN_INTERPRETER => Ok(()),
        -1 => Err(PyErr::fetch(py)),
        _ => Err(PyImportError::new_err(
            "tidemark_cache works in the main interpreter alone, and this is a sub-interpreter; \
             use threads or processes",
        )),
    }
}

// The interpreter's lock stays on: the guards for free-threaded interpreters are not tested yet.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    refuse_sub_interpreters(py)?;
    if !flight::watch_forks() {
        return Err(pyo3::exceptions::PyMemoryError::new_err(
            "no memory to watch forks",
        ));
    }
    key::draw_first();
    #[cfg(not(Py_3_12))]
    raised(py, unsafe { dict_values::look() })?;
    let kind = raised(py, unsafe { callable::create_type() })?;
    raised(py, unsafe { instance::create_type() })?;
    raised(py, unsafe { ready::create_type() })?;
    raised(py, unsafe { run_node::create_type() })?;
    let ownership = raised(py, unsafe { ownership::create() })?;
    module.add("ownership", to_python(py, ownership))?;
    module.add("Cached", to_python(py, kind))?;
    module.add_class::<call_key::CallKey>()?;
    module.add_class::<task_run::TaskRun>()?;
    module.add_class::<file_tier::SharedFile>()?;
    module.add_class::<loop_connection::LoopConnection>()?;
    module.add_class::<memcached_tier::SharedMemcached>()?;
    module.add_class::<object_tier::SharedObject>()?;
    module.add_class::<memory_budget::FunctionBudget>()?;
    module.add_class::<redis_tier::SharedRedis>()?;
    module.add_class::<tier_stack::StackOfTiers>()?;
    module.add_class::<tier_stack::StackedCall>()?;
    module.add_class::<tier_stack::TierReader>()?;
    module.add("TierFailure", py.get_type::<file_tier::TierFailure>())?;
    module.add_function(wrap_pyfunction!(file_tier::dumps, module)?)?;
    module.add_function(wrap_pyfunction!(file_tier::loads, module)?)?;
    module.add_function(wrap_pyfunction!(file_tier::decoded, module)?)?;
    module.add_function(wrap_pyfunction!(decided::decide, module)?)?;
    module.add_function(wrap_pyfunction!(decided::lifetime_in_memory, module)?)?;
    module.add_function(wrap_pyfunction!(add_immutable, module)?)?;
    module.add_function(wrap_pyfunction!(invalidate_tag, module)?)?;
    module.add_function(wrap_pyfunction!(task_run::lead, module)?)?;
    module.add_function(wrap_pyfunction!(plan::make, module)?)?;
    module.add_function(wrap_pyfunction!(predicate::invalidate_where, module)?)?;
    module.add_function(wrap_pyfunction!(listing::forget_guard, module)?)?;
    module.add_function(wrap_pyfunction!(listing::list_entries, module)?)?;
    module.add_function(wrap_pyfunction!(listing::delete_entries, module)?)?;
    module.add_function(wrap_pyfunction!(plan::mark_method, module)?)?;
    module.add_function(wrap_pyfunction!(call_key::clear, module)?)?;
    module.add_function(wrap_pyfunction!(call_key::counts, module)?)?;
    module.add_function(wrap_pyfunction!(call_key::entries, module)?)?;
    module.add_function(wrap_pyfunction!(call_key::renew_by, module)?)?;
    Ok(())
}
