//! An awaitable whose value is there already: what a hit of an async function returns.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;

use crate::api;
use crate::object::{HeldObject, Outcome, UntrackedObject};
use crate::python;

/// What is awaited once.
struct ReadyValue {
    /// Null once it has been awaited.
    value: AtomicPtr<ffi::PyObject>,
}

impl Drop for ReadyValue {
    fn drop(&mut self) {
        drop(unsafe { HeldObject::owned(*self.value.get_mut()) });
    }
}

type Ready = UntrackedObject<ReadyValue>;

/// `Py_am_send` of CPython's `typeslots.h`, which PyO3 does not declare.
const PY_AM_SEND: c_int = 81;

static TYPE: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(std::ptr::null_mut());

/// Wraps a value.
#[inline]
pub unsafe fn awaitable(value: HeldObject) -> Outcome<HeldObject> {
    let value = AtomicPtr::new(value.into_ptr());
    Ready::create(TYPE.load(Ordering::Acquire), ReadyValue { value })
}

unsafe fn take(ready: *mut ffi::PyObject) -> Outcome<HeldObject> {
    let value = &Ready::part(ready).value;
    // Single use, whichever of several threads comes first.
    let value = match cfg!(Py_GIL_DISABLED) {
        true => value.swap(std::ptr::null_mut(), Ordering::AcqRel),
        false => {
            let held = value.load(Ordering::Relaxed);
            value.store(std::ptr::null_mut(), Ordering::Relaxed);
            held
        }
    };
    if value.is_null() {
        return Err(python::raise_runtime(
            "cannot reuse already awaited coroutine",
        ));
    }
    HeldObject::owned(value)
}

unsafe extern "C" fn itself(ready: *mut ffi::PyObject) -> *mut ffi::PyObject {
    HeldObject::borrowed(ready).into_ptr()
}

unsafe extern "C" fn am_send(
    ready: *mut ffi::PyObject,
    _sent: *mut ffi::PyObject,
    result: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    match take(ready) {
        Ok(value) => {
            *result = value.into_ptr();
            ffi::PySendResult::PYGEN_RETURN
        }
        Err(_) => {
            *result = std::ptr::null_mut();
            ffi::PySendResult::PYGEN_ERROR
        }
    }
}

/// The value leaves as `StopIteration`; made by hand, since raising a tuple would spread it.
unsafe extern "C" fn next(ready: *mut ffi::PyObject) -> *mut ffi::PyObject {
    if let Ok(value) = take(ready) {
        let stop = api::call_one(ffi::PyExc_StopIteration, value.as_ptr());
        if let Ok(stop) = HeldObject::owned(stop) {
            raise(stop);
        }
    }
    std::ptr::null_mut()
}

/// Raises it without a look for what it was raised beside. The loop of 3.12 to 3.14 takes an
/// awaited value from here, not from `am_send`, and drops the exception at once.
#[cfg(Py_3_12)]
unsafe fn raise(stop: HeldObject) {
    ffi::PyErr_SetRaisedException(stop.into_ptr());
}

#[cfg(not(Py_3_12))]
unsafe fn raise(stop: HeldObject) {
    ffi::PyErr_SetObject(ffi::PyExc_StopIteration, stop.as_ptr());
}

unsafe extern "C" fn send(
    ready: *mut ffi::PyObject,
    _sent: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    next(ready)
}

unsafe extern "C" fn throw(
    ready: *mut ffi::PyObject,
    arguments: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    drop(take(ready));
    ffi::PyErr_Clear();
    let count = ffi::PyTuple_Size(arguments);
    if count == 0 {
        python::raise_type("throw() takes an exception");
        return std::ptr::null_mut();
    }
    let mut kind = ffi::PyTuple_GetItem(arguments, 0);
    let mut value = std::ptr::null_mut();
    if count > 1 && ffi::PyTuple_GetItem(arguments, 1) != ffi::Py_None() {
        value = ffi::PyTuple_GetItem(arguments, 1);
    }
    if value.is_null() && ffi::PyType_Check(kind) == 0 {
        (kind, value) = (ffi::Py_TYPE(kind).cast(), kind);
    }
    ffi::PyErr_SetObject(kind, value);
    std::ptr::null_mut()
}

unsafe extern "C" fn close(
    ready: *mut ffi::PyObject,
    _none: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    drop(take(ready));
    ffi::PyErr_Clear();
    HeldObject::borrowed(ffi::Py_None()).into_ptr()
}

fn method(
    name: &'static std::ffi::CStr,
    function: ffi::PyCFunction,
    flags: c_int,
) -> ffi::PyMethodDef {
    ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer {
            PyCFunction: function,
        },
        ml_flags: flags,
        ml_doc: std::ptr::null(),
    }
}

/// Makes the type, once.
pub unsafe fn create_type() -> Outcome<()> {
    let methods = Box::leak(Box::new([
        method(c"send", send, ffi::METH_O),
        method(c"throw", throw, ffi::METH_VARARGS),
        method(c"close", close, ffi::METH_NOARGS),
        ffi::PyMethodDef::zeroed(),
    ]));
    let slot = |slot, pfunc| ffi::PyType_Slot { slot, pfunc };
    let slots = Box::leak(Box::new([
        slot(ffi::Py_am_await, itself as *mut c_void),
        slot(PY_AM_SEND, am_send as *mut c_void),
        slot(ffi::Py_tp_iter, itself as *mut c_void),
        slot(ffi::Py_tp_iternext, next as *mut c_void),
        slot(ffi::Py_tp_dealloc, Ready::dealloc as *mut c_void),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(0, std::ptr::null_mut()),
    ]));
    let flags = ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION;
    let mut spec = ffi::PyType_Spec {
        name: c"tidemark_cache._native.Ready".as_ptr(),
        basicsize: size_of::<Ready>() as c_int,
        itemsize: 0,
        flags: flags as u32,
        slots: slots.as_mut_ptr(),
    };
    let kind = HeldObject::owned(ffi::PyType_FromSpec(&raw mut spec))?;
    TYPE.store(kind.into_ptr().cast(), Ordering::Release);
    Ok(())
}
