//! References to Python objects, counted by hand.
//!
//! PyO3's own reference asks at every drop whether the thread is attached. All code here runs
//! attached, by the law of the callable, so it need not ask.

use std::alloc::Layout;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::guard::Holders;

/// An exception is set on this thread.
#[derive(Debug)]
pub struct Raised;

/// A result whose error stands in the interpreter.
pub type Outcome<T> = Result<T, Raised>;

/// One counted reference. Made, cloned and dropped only by a thread that holds the interpreter.
#[repr(transparent)]
pub struct HeldObject(NonNull<ffi::PyObject>);

// A thread counts only while it is attached to the interpreter.
unsafe impl Send for HeldObject {}
unsafe impl Sync for HeldObject {}

impl HeldObject {
    /// Takes over a reference that an API call has given; null means that it has raised.
    pub unsafe fn owned(pointer: *mut ffi::PyObject) -> Outcome<HeldObject> {
        NonNull::new(pointer).map(HeldObject).ok_or(Raised)
    }

    /// Counts one more reference to what another owner holds.
    #[inline]
    pub unsafe fn borrowed(pointer: *mut ffi::PyObject) -> HeldObject {
        ffi::Py_INCREF(pointer);
        HeldObject(NonNull::new_unchecked(pointer))
    }

    /// The bare pointer, still counted here.
    #[inline]
    pub fn as_ptr(&self) -> *mut ffi::PyObject {
        self.0.as_ptr()
    }

    /// The bare pointer and its count.
    #[inline]
    pub fn into_ptr(self) -> *mut ffi::PyObject {
        let pointer = self.0.as_ptr();
        std::mem::forget(self);
        pointer
    }

    /// Shows it to the collector. Counts nothing, which must not change meanwhile.
    pub fn show(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let object = unsafe { Bound::from_owned_ptr(Python::assume_attached(), self.as_ptr()) };
        visit.call(&*ManuallyDrop::new(object.unbind()))
    }
}

impl Clone for HeldObject {
    #[inline]
    fn clone(&self) -> HeldObject {
        unsafe { HeldObject::borrowed(self.as_ptr()) }
    }
}

impl Drop for HeldObject {
    #[inline]
    fn drop(&mut self) {
        unsafe { ffi::Py_DECREF(self.as_ptr()) }
    }
}

/// The layout of an object of ours that the collector need not see: what it holds can lead to it
/// only through what the user does with it.
#[repr(C)]
pub struct UntrackedObject<T> {
    base: ffi::PyObject,
    part: T,
}

impl<T> UntrackedObject<T> {
    /// An object of `kind`, which has [`UntrackedObject::dealloc`] for its end.
    #[inline]
    pub unsafe fn create(kind: *mut ffi::PyTypeObject, part: T) -> Outcome<HeldObject> {
        let object = ffi::PyObject_Malloc(size_of::<Self>()).cast::<Self>();
        if object.is_null() {
            ffi::PyErr_NoMemory();
            return Err(Raised);
        }
        (&raw mut (*object).part).write(part);
        HeldObject::owned(ffi::PyObject_Init(object.cast(), kind))
    }

    /// What is in an object of such a kind.
    #[inline]
    pub unsafe fn part<'a>(object: *mut ffi::PyObject) -> &'a T {
        &(*object.cast::<Self>()).part
    }

    /// The type's `tp_dealloc`.
    pub unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
        let kind = ffi::Py_TYPE(object);
        (&raw mut (*object.cast::<Self>()).part).drop_in_place();
        ffi::PyObject_Free(object.cast());
        ffi::Py_DECREF(kind.cast());
    }
}

/// A value that says itself how many hold it.
pub trait HasHolders {
    /// How many, which is one when it is made.
    fn holders(&self) -> &Holders;
}

/// A value with a count of its holders, all of them attached to the interpreter when they count.
/// Half the size of `Rc`, which matters once for every entry.
pub struct PlainRc<T: HasHolders>(NonNull<T>);

// HasHolders under the interpreter's lock, or atomically where it has none.
unsafe impl<T: HasHolders> Send for PlainRc<T> {}
unsafe impl<T: HasHolders> Sync for PlainRc<T> {}

impl<T: HasHolders> PlainRc<T> {
    /// One holder. In memory of the interpreter's, which takes it half the steps of the system's.
    pub fn new(value: T) -> PlainRc<T> {
        let place = unsafe { ffi::PyMem_Malloc(size_of::<T>()) };
        let Some(place) = NonNull::new(place.cast::<T>()) else {
            std::alloc::handle_alloc_error(Layout::new::<T>());
        };
        unsafe { place.write(value) };
        PlainRc(place)
    }
}

impl<T: HasHolders> Clone for PlainRc<T> {
    #[inline]
    fn clone(&self) -> PlainRc<T> {
        self.holders().add();
        PlainRc(self.0)
    }
}

impl<T: HasHolders> Deref for PlainRc<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        unsafe { self.0.as_ref() }
    }
}

impl<T: HasHolders> Drop for PlainRc<T> {
    #[inline]
    fn drop(&mut self) {
        if self.holders().leave() {
            unsafe {
                self.0.drop_in_place();
                ffi::PyMem_Free(self.0.as_ptr().cast());
            }
        }
    }
}
