//! How long memory may have the value that a body with tiers has given. The Python package sets it
//! before it returns the value; the Rust code reads it next, on the same thread.

use std::cell::Cell;

use pyo3::prelude::*;

use crate::object::HeldObject;
use crate::python;

struct Decided {
    value: Py<PyAny>,
    /// On the clock of `time.monotonic`.
    until_s: f64,
    passes: bool,
}

thread_local! {
    static DECIDED: Cell<Option<Decided>> = const { Cell::new(None) };
}

/// Memory may have `value` until then. One that passes goes to its caller alone, if no other waits
/// for it.
#[pyfunction]
#[pyo3(signature = (value, until_s, passes=false))]
pub fn decide(value: Py<PyAny>, until_s: f64, passes: bool) {
    DECIDED.set(Some(Decided {
        value,
        until_s,
        passes,
    }));
}

/// Seconds that memory may have `value` from now on.
#[pyfunction]
pub fn lifetime_in_memory(value: &Bound<'_, PyAny>) -> f64 {
    match DECIDED.take() {
        Some(decided) if decided.value.is(value) => (decided.until_s - python::now_s()).max(0.0),
        // Of another value if copying this one has called a function with a tier: not kept.
        _ => 0.0,
    }
}

/// Whether the value goes to its caller alone. What was said of it counts no more then.
pub unsafe fn passes(value: &HeldObject) -> bool {
    let Some(decided) = DECIDED.take() else {
        return false;
    };
    let passes = decided.passes && decided.value.as_ptr() == value.as_ptr();
    if !passes {
        DECIDED.set(Some(decided));
    }
    passes
}
