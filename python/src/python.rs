//! What the callable asks of the interpreter, and the few functions written in Python.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;

use crate::object::{HeldObject, Outcome, Raised};

/// Functions written in Python, given once when the package is imported.
#[derive(Clone, Copy)]
pub enum PythonFunction {
    /// `_encoders.parts_of(object)`: what stands for the object in a key, or None.
    PartsOf,
    /// `_values.frozen_fields(object)`: the fields of an immutable object, or None.
    FrozenFields,
    /// `_values.deep_copy(object)`.
    DeepCopy,
    /// `_bound.BoundCached(cached, instance)`.
    Bound,
    /// `_async.miss(cached, arguments, keywords)`.
    AsyncMiss,
    /// The context variable that names the runs a call belongs to.
    Ownership,
}

const KNOWN_COUNT: usize = 6;
static KNOWN: [AtomicPtr<ffi::PyObject>; KNOWN_COUNT] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; KNOWN_COUNT];

/// Keeps `object` for the life of the process.
pub fn remember(known: PythonFunction, object: HeldObject) {
    // The one before leaks, which a second import of the package in tests may cause.
    KNOWN[known as usize].store(object.into_ptr(), Ordering::Release);
}

/// What was remembered. Never null: the package remembers all of them before it can decorate.
pub fn known(known: PythonFunction) -> *mut ffi::PyObject {
    KNOWN[known as usize].load(Ordering::Acquire)
}

/// Calls a function of ours with one argument.
pub unsafe fn call_one(
    function: PythonFunction,
    argument: *mut ffi::PyObject,
) -> Outcome<HeldObject> {
    HeldObject::owned(ffi::PyObject_CallOneArg(known(function), argument))
}

fn raise(kind: *mut ffi::PyObject, text: &str) -> Raised {
    let text = CString::new(text.replace('\0', " ")).expect("no zero is left");
    unsafe { ffi::PyErr_SetString(kind, text.as_ptr()) };
    Raised
}

/// Sets a `ValueError`.
pub fn raise_value(text: &str) -> Raised {
    raise(unsafe { ffi::PyExc_ValueError }, text)
}

/// Sets a `TypeError`.
pub fn raise_type(text: &str) -> Raised {
    raise(unsafe { ffi::PyExc_TypeError }, text)
}

/// Sets a `RuntimeError`.
pub fn raise_runtime(text: &str) -> Raised {
    raise(unsafe { ffi::PyExc_RuntimeError }, text)
}

/// The name of an object's type.
pub unsafe fn type_name(object: *mut ffi::PyObject) -> String {
    let name = (*ffi::Py_TYPE(object)).tp_name;
    CStr::from_ptr(name).to_string_lossy().into_owned()
}

/// The bytes of a `bytes` object, for as long as it is held.
pub unsafe fn bytes_of<'a>(object: *mut ffi::PyObject) -> &'a [u8] {
    let start = ffi::PyBytes_AsString(object).cast::<u8>();
    std::slice::from_raw_parts(start, ffi::PyBytes_Size(object) as usize)
}

/// The UTF-8 of a text, for as long as it is held.
pub unsafe fn text_of<'a>(object: *mut ffi::PyObject) -> Outcome<&'a [u8]> {
    let mut length = 0;
    let start = ffi::PyUnicode_AsUTF8AndSize(object, &raw mut length);
    if start.is_null() {
        return Err(Raised);
    }
    Ok(std::slice::from_raw_parts(
        start.cast::<u8>(),
        length as usize,
    ))
}

/// Calls `function` as it was called itself.
pub unsafe fn call(
    function: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> Outcome<HeldObject> {
    HeldObject::owned(ffi::PyObject_Vectorcall(function, arguments, count, names))
}

/// Microseconds on a clock that never goes back, a few milliseconds coarse: reading the fine one
/// costs as much as all the rest of a hit.
pub fn now_us() -> u64 {
    #[cfg(target_os = "linux")]
    const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC_COARSE;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // Cannot fail: the clock exists and the pointer is ours.
    unsafe { libc::clock_gettime(CLOCK, &raw mut time) };
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}
