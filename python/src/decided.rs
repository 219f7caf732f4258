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
    renewable: RenewableEntry,
}

/// What an entry needs to be kept past the time that was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenewableEntry {
    /// The run of its tier's stream that was followed before it was read, or its body began.
    pub stream_run: u64,
    /// The end of its own lifetime.
    pub fresh_until_us: u64,
    /// When it must be in the table at the latest: calls that end are remembered for so long, by
    /// which a notice of this one finds it.
    pub stored_by_us: u64,
}

thread_local! {
    static DECIDED: Cell<Option<Decided>> = const { Cell::new(None) };
    static RENEWABLE: Cell<Option<RenewableEntry>> = const { Cell::new(None) };
}

fn microseconds(seconds: f64) -> u64 {
    // What is infinite is the largest number.
    (seconds * 1e6) as u64
}

/// Memory may have `value` until then. One that passes goes to its caller alone, if no other waits
/// for it. By a run of the stream that is not 0, memory may have it for longer, to the end of its
/// own lifetime at most.
#[pyfunction]
#[pyo3(signature = (value, until_s, passes=false, stream_run=0, fresh_until_s=0.0))]
pub fn decide(value: Py<PyAny>, until_s: f64, passes: bool, stream_run: u64, fresh_until_s: f64) {
    let renewable = RenewableEntry {
        stream_run,
        fresh_until_us: microseconds(fresh_until_s),
        stored_by_us: microseconds(until_s),
    };
    DECIDED.set(Some(Decided {
        value,
        until_s,
        passes,
        renewable,
    }));
}

/// Seconds that memory may have `value` from now on.
#[pyfunction]
pub fn lifetime_in_memory(value: &Bound<'_, PyAny>) -> f64 {
    RENEWABLE.set(None);
    match DECIDED.take() {
        Some(decided) if decided.value.is(value) => {
            RENEWABLE.set(Some(decided.renewable).filter(|one| one.stream_run != 0));
            (decided.until_s - python::now_s()).max(0.0)
        }
        // Of another value if copying this one has called a function with a tier: not kept.
        _ => 0.0,
    }
}

/// By what the value of the last lifetime may be kept past it.
pub fn renewable() -> Option<RenewableEntry> {
    RENEWABLE.take()
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
