//! What the callable asks of the interpreter, and the few functions written in Python.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::api;
use crate::object::{HeldObject, Outcome, Raised};

/// Functions written in Python. Each is imported when it is first needed, so that importing the
/// package costs only what every program uses.
#[derive(Clone, Copy)]
pub enum PythonFunction {
    /// What stands for an object in a key, or None.
    PartsOf,
    /// The fields of an immutable object, or None.
    FrozenFields,
    /// A copy by `copy.deepcopy`.
    DeepCopy,
    /// The class of a method taken off its instance; gets the callable and the instance.
    Bound,
    /// Gets the callable, the arguments, and the keywords.
    AsyncMiss,
    /// As above.
    Refresh,
    /// The loop of asyncio that runs the code of this thread, or None.
    AsyncioLoop,
    /// A coroutine that awaits something.
    Awaited,
    /// Ends the run of a body that raised; gets the run, the exception, and whether it refreshes.
    RunFailed,
    /// An exception that no other caller has.
    ErrorForCaller,
    /// How a value is handed out that has a way of its own, or None.
    OwnWay,
    /// Bytes of a value.
    Weight,
    /// An instance taken apart, or None.
    RecordOf,
    /// The class of instances taken apart.
    Record,
}

type PlaceOfFunction = (PythonFunction, &'static CStr, &'static CStr);

/// Module and name of each, in the order above.
const PLACES: [PlaceOfFunction; 14] = {
    use PythonFunction::*;
    [
        (PartsOf, c"tidemark_cache._encoders", c"parts_of"),
        (FrozenFields, c"tidemark_cache._values", c"frozen_fields"),
        (DeepCopy, c"tidemark_cache._values", c"deep_copy"),
        (Bound, c"tidemark_cache._bound", c"BoundCached"),
        (AsyncMiss, c"tidemark_cache._async", c"miss"),
        (Refresh, c"tidemark_cache._refresh", c"begin"),
        (AsyncioLoop, c"tidemark_cache._async", c"asyncio_loop"),
        (Awaited, c"tidemark_cache._async", c"awaited"),
        (RunFailed, c"tidemark_cache._async", c"run_failed"),
        (
            ErrorForCaller,
            c"tidemark_cache._values",
            c"error_for_caller",
        ),
        (OwnWay, c"tidemark_cache._values", c"own_way"),
        (Weight, c"tidemark_cache._weight", c"bytes_of"),
        (RecordOf, c"tidemark_cache._values", c"record_of"),
        (Record, c"tidemark_cache._values", c"Record"),
    ]
};
static KNOWN: [AtomicPtr<ffi::PyObject>; PLACES.len()] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; PLACES.len()];

/// The function, imported if it has not been needed before. May run Python code.
#[inline]
pub unsafe fn known(function: PythonFunction) -> Outcome<*mut ffi::PyObject> {
    let found = loaded(function);
    if found.is_null() {
        import(function)?;
    }
    Ok(loaded(function))
}

/// The function, or null if it has not been needed yet.
#[inline]
pub fn loaded(function: PythonFunction) -> *mut ffi::PyObject {
    KNOWN[function as usize].load(Ordering::Acquire)
}

/// Imports a module of ours and keeps what is needed of it for the life of the process: all at
/// once, since its functions know its classes.
#[cold]
unsafe fn import(function: PythonFunction) -> Outcome<()> {
    let (_, wanted, _) = PLACES[function as usize];
    let module = HeldObject::owned(ffi::PyImport_ImportModule(wanted.as_ptr()))?;
    for (function, place, name) in PLACES {
        if place != wanted {
            continue;
        }
        let found = ffi::PyObject_GetAttrString(module.as_ptr(), name.as_ptr());
        let found = HeldObject::owned(found)?.into_ptr();
        let (order, none) = (Ordering::AcqRel, std::ptr::null_mut());
        let known = &KNOWN[function as usize];
        let is_first = known.compare_exchange(none, found, order, Ordering::Acquire);
        if is_first.is_err() {
            ffi::Py_DECREF(found);
        }
    }
    Ok(())
}

/// Whether a module is imported, or is being imported.
pub fn is_imported(name: &Bound<'_, PyString>) -> bool {
    // Fails for what is no dict alone, and then nothing is known to be imported.
    unsafe { ffi::PyDict_Contains(ffi::PyImport_GetModuleDict(), name.as_ptr()) == 1 }
}

/// Calls a function of ours with one argument.
pub unsafe fn call_one(
    function: PythonFunction,
    argument: *mut ffi::PyObject,
) -> Outcome<HeldObject> {
    HeldObject::owned(api::call_one(known(function)?, argument))
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
    let kind = ffi::Py_TYPE(object).cast();
    let name = HeldObject::owned(ffi::PyObject_GetAttrString(kind, c"__qualname__".as_ptr()));
    let text = name.and_then(|name| text_of(name.as_ptr()).map(<[u8]>::to_vec));
    match text {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(Raised) => {
            ffi::PyErr_Clear();
            "?".to_owned()
        }
    }
}

/// Takes the exception that is set on this thread.
#[cfg(Py_3_12)]
pub unsafe fn take_exception() -> Option<HeldObject> {
    HeldObject::owned(ffi::PyErr_GetRaisedException()).ok()
}

/// Takes the exception that is set on this thread.
#[cfg(not(Py_3_12))]
pub unsafe fn take_exception() -> Option<HeldObject> {
    let mut kind = std::ptr::null_mut();
    let (mut value, mut trace) = (kind, kind);
    ffi::PyErr_Fetch(&raw mut kind, &raw mut value, &raw mut trace);
    if kind.is_null() {
        return None;
    }
    ffi::PyErr_NormalizeException(&raw mut kind, &raw mut value, &raw mut trace);
    if !trace.is_null() {
        ffi::PyException_SetTraceback(value, trace);
    }
    drop((HeldObject::owned(kind), HeldObject::owned(trace)));
    HeldObject::owned(value).ok()
}

/// Sets an exception.
pub unsafe fn raise_object(raised: &HeldObject) -> Raised {
    ffi::PyErr_SetObject(ffi::Py_TYPE(raised.as_ptr()).cast(), raised.as_ptr());
    Raised
}

/// Runs code of the user's that the caller did not ask for: an exception of its own goes to
/// `sys.unraisablehook`, and one that is set already stays.
pub unsafe fn apart(run: impl FnOnce() -> Outcome<HeldObject>) {
    let before = take_exception();
    if run().is_err() {
        ffi::PyErr_WriteUnraisable(std::ptr::null_mut());
    }
    if let Some(before) = before {
        raise_object(&before);
    }
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

/// Bytes of a value, as the package weighs it.
pub unsafe fn weight(value: &HeldObject) -> Outcome<u32> {
    let bytes = call_one(PythonFunction::Weight, value.as_ptr())?;
    let bytes = ffi::PyLong_AsUnsignedLongLong(bytes.as_ptr());
    if !ffi::PyErr_Occurred().is_null() {
        return Err(Raised);
    }
    Ok(u32::try_from(bytes).unwrap_or(u32::MAX).max(1))
}

/// A number from 0 to 1, by chance: no secret, only spread.
pub fn chance() -> f64 {
    static STATE: AtomicU64 = AtomicU64::new(0);
    let step = 0x9e37_79b9_7f4a_7c15_u64;
    let now = fine_now();
    let now_ns = (now.tv_sec as u64).wrapping_mul(1_000_000_000) ^ now.tv_nsec as u64;
    let mut mixed = STATE.fetch_add(step, Ordering::Relaxed) ^ now_ns;
    // The finisher of SplitMix64.
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

/// Seconds on the clock of `time.monotonic`.
pub fn now_s() -> f64 {
    let time = fine_now();
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn fine_now() -> libc::timespec {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time
}
