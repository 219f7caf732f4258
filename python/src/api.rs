//! Calls of the interpreter that have one form in the stable interface and a quicker one beside
//! it.

use std::ffi::{c_char, c_int, c_void};

use pyo3::ffi;

use crate::object::{HeldObject, Outcome, Raised};

unsafe extern "C" {
    // Public since 3.8; PyO3 declares it for some builds only.
    pub fn PyVectorcall_Call(
        callable: *mut ffi::PyObject,
        arguments: *mut ffi::PyObject,
        names: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject;
    // These are public since 3.7, though never part of the stable interface.
    pub fn PyContextVar_New(name: *const c_char, default: *mut ffi::PyObject)
    -> *mut ffi::PyObject;
    pub fn PyContextVar_Get(
        variable: *mut ffi::PyObject,
        default: *mut ffi::PyObject,
        value: *mut *mut ffi::PyObject,
    ) -> c_int;
    pub fn PyContextVar_Set(
        variable: *mut ffi::PyObject,
        value: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject;
    pub fn PyContext_New() -> *mut ffi::PyObject;
    pub fn PyContext_Enter(context: *mut ffi::PyObject) -> c_int;
    pub fn PyContext_Exit(context: *mut ffi::PyObject) -> c_int;
}

/// The items of a tuple.
#[inline(always)]
pub unsafe fn tuple_len(tuple: *mut ffi::PyObject) -> isize {
    #[cfg(not(Py_LIMITED_API))]
    return ffi::PyTuple_GET_SIZE(tuple);
    #[cfg(Py_LIMITED_API)]
    ffi::PyTuple_Size(tuple)
}

/// One item of a tuple, borrowed from it.
#[inline(always)]
pub unsafe fn tuple_item(tuple: *mut ffi::PyObject, index: isize) -> *mut ffi::PyObject {
    #[cfg(not(Py_LIMITED_API))]
    return ffi::PyTuple_GET_ITEM(tuple, index);
    #[cfg(Py_LIMITED_API)]
    ffi::PyTuple_GetItem(tuple, index)
}

/// The items of a list.
#[inline(always)]
pub unsafe fn list_len(list: *mut ffi::PyObject) -> isize {
    #[cfg(not(Py_LIMITED_API))]
    return ffi::PyList_GET_SIZE(list);
    #[cfg(Py_LIMITED_API)]
    ffi::PyList_Size(list)
}

/// One item of a list that nothing else can change meanwhile, borrowed from it.
#[inline(always)]
pub unsafe fn list_item(list: *mut ffi::PyObject, index: isize) -> *mut ffi::PyObject {
    #[cfg(not(Py_LIMITED_API))]
    return ffi::PyList_GET_ITEM(list, index);
    #[cfg(Py_LIMITED_API)]
    ffi::PyList_GetItem(list, index)
}

/// Puts an item into a place of a new list that has none yet.
#[inline(always)]
pub unsafe fn fill_list(list: *mut ffi::PyObject, index: isize, item: HeldObject) {
    #[cfg(not(Py_LIMITED_API))]
    ffi::PyList_SET_ITEM(list, index, item.into_ptr());
    // Fails only for what is no list, and for a place beyond its end.
    #[cfg(Py_LIMITED_API)]
    ffi::PyList_SetItem(list, index, item.into_ptr());
}

/// Puts an item in the place of another, in a new list that nothing else can change meanwhile.
#[inline(always)]
pub unsafe fn replace_in_list(list: *mut ffi::PyObject, index: isize, item: HeldObject) {
    #[cfg(not(Py_LIMITED_API))]
    {
        let before = ffi::PyList_GET_ITEM(list, index);
        ffi::PyList_SET_ITEM(list, index, item.into_ptr());
        ffi::Py_DECREF(before);
    }
    // Fails only for what is no list, and for a place beyond its end.
    #[cfg(Py_LIMITED_API)]
    ffi::PyList_SetItem(list, index, item.into_ptr());
}

/// As [`fill_list`], of a tuple.
#[inline(always)]
pub unsafe fn fill_tuple(tuple: *mut ffi::PyObject, index: isize, item: HeldObject) {
    #[cfg(not(Py_LIMITED_API))]
    ffi::PyTuple_SET_ITEM(tuple, index, item.into_ptr());
    #[cfg(Py_LIMITED_API)]
    ffi::PyTuple_SetItem(tuple, index, item.into_ptr());
}

/// The number in a `float`.
#[inline(always)]
pub unsafe fn float_of(float: *mut ffi::PyObject) -> f64 {
    #[cfg(not(Py_LIMITED_API))]
    return ffi::PyFloat_AS_DOUBLE(float);
    #[cfg(Py_LIMITED_API)]
    ffi::PyFloat_AsDouble(float)
}

/// The number of an `int` of one digit, where the layout is known.
#[inline(always)]
pub unsafe fn one_digit(int: *mut ffi::PyObject) -> Option<i64> {
    #[cfg(not(Py_3_12))]
    {
        /// `PyLongObject` until 3.11, in which the size has the sign.
        #[repr(C)]
        struct OneDigit {
            base: ffi::PyVarObject,
            digit: u32,
        }
        let int = &*int.cast::<OneDigit>();
        // The only digit of 0 is none.
        match int.base.ob_size {
            1 => Some(i64::from(int.digit)),
            0 => Some(0),
            -1 => Some(-i64::from(int.digit)),
            _ => None,
        }
    }
    #[cfg(Py_3_12)]
    {
        let _ = int;
        None
    }
}

/// The hash of a `str`, which it remembers.
#[inline(always)]
pub unsafe fn hash_of_text(text: *mut ffi::PyObject) -> isize {
    #[cfg(not(any(Py_LIMITED_API, Py_GIL_DISABLED)))]
    {
        let known = (*text.cast::<ffi::PyASCIIObject>()).hash;
        if known != -1 {
            return known;
        }
    }
    ffi::PyObject_Hash(text)
}

/// How many arguments of a vectorcall are positional.
#[inline(always)]
pub fn positional_count(count: usize) -> usize {
    // The highest bit lends the callee the place before the first argument.
    count & (usize::MAX >> 1)
}

/// Calls `function` with one argument.
#[inline]
pub unsafe fn call_one(
    function: *mut ffi::PyObject,
    argument: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    ffi::PyObject_Vectorcall(function, &raw const argument, 1, std::ptr::null_mut())
}

/// A new instance of a class that inherits `object.__new__`, without attributes.
pub unsafe fn new_instance(class: *mut ffi::PyObject) -> *mut ffi::PyObject {
    let object = &raw mut ffi::PyBaseObject_Type;
    #[cfg(not(Py_LIMITED_API))]
    let new = (*object).tp_new.expect("every object has a constructor");
    #[cfg(Py_LIMITED_API)]
    let new: ffi::newfunc = std::mem::transmute(ffi::PyType_GetSlot(object, ffi::Py_tp_new));
    // The interpreter keeps one empty tuple; this counts a reference to it.
    match HeldObject::owned(ffi::PyTuple_New(0)) {
        Ok(nothing) => new(class.cast(), nothing.as_ptr(), std::ptr::null_mut()),
        Err(Raised) => std::ptr::null_mut(),
    }
}

/// What a dict holds under a key.
#[inline]
pub unsafe fn dict_item(
    dict: *mut ffi::PyObject,
    key: *mut ffi::PyObject,
) -> Outcome<Option<HeldObject>> {
    #[cfg(Py_GIL_DISABLED)]
    {
        let mut item = std::ptr::null_mut();
        match ffi::PyDict_GetItemRef(dict, key, &raw mut item) {
            -1 => Err(Raised),
            0 => Ok(None),
            _ => HeldObject::owned(item).map(Some),
        }
    }
    #[cfg(not(Py_GIL_DISABLED))]
    {
        let item = ffi::PyDict_GetItemWithError(dict, key);
        if item.is_null() && !ffi::PyErr_Occurred().is_null() {
            return Err(Raised);
        }
        Ok((!item.is_null()).then(|| HeldObject::borrowed(item)))
    }
}

/// What a dict holds under a key, after `new` was put there if it held nothing.
pub unsafe fn dict_item_or(
    dict: *mut ffi::PyObject,
    key: *mut ffi::PyObject,
    new: HeldObject,
) -> Outcome<HeldObject> {
    let name = HeldObject::owned(ffi::PyUnicode_FromString(c"setdefault".as_ptr()))?;
    let method = HeldObject::owned(ffi::PyObject_GetAttr(dict, name.as_ptr()))?;
    let parts = [key, new.as_ptr()];
    let none = std::ptr::null_mut();
    HeldObject::owned(ffi::PyObject_Vectorcall(
        method.as_ptr(),
        parts.as_ptr(),
        2,
        none,
    ))
}

/// Where a weak reference points, only to be compared with an object that is held.
#[inline]
pub unsafe fn weak_target(reference: *mut ffi::PyObject) -> *mut ffi::PyObject {
    #[cfg(Py_GIL_DISABLED)]
    {
        let mut target = std::ptr::null_mut();
        if ffi::PyWeakref_GetRef(reference, &raw mut target) == 1 {
            ffi::Py_DECREF(target);
        }
        target
    }
    #[cfg(all(not(Py_GIL_DISABLED), Py_LIMITED_API))]
    return ffi::PyWeakref_GetObject(reference);
    #[cfg(not(any(Py_GIL_DISABLED, Py_LIMITED_API)))]
    (*reference.cast::<ffi::PyWeakReference>()).wr_object
}

/// What an object shows to the collector.
pub struct ShownParts {
    /// How many objects.
    pub count: usize,
    /// The last of them, which the object holds.
    pub last: *mut ffi::PyObject,
    /// Whether the wanted one was among them.
    pub has_wanted: bool,
    wanted: *mut ffi::PyObject,
}

unsafe extern "C" fn note_part(part: *mut ffi::PyObject, parts: *mut c_void) -> c_int {
    let parts = &mut *parts.cast::<ShownParts>();
    parts.count += 1;
    parts.last = part;
    parts.has_wanted |= part == parts.wanted;
    0
}

/// The parts of an object, as it shows them to the collector. Runs no code of the user's.
pub unsafe fn parts(object: *mut ffi::PyObject, wanted: *mut ffi::PyObject) -> ShownParts {
    let mut parts = ShownParts {
        count: 0,
        last: std::ptr::null_mut(),
        has_wanted: false,
        wanted,
    };
    let kind = ffi::Py_TYPE(object);
    #[cfg(not(Py_LIMITED_API))]
    let traverse = (*kind).tp_traverse;
    #[cfg(Py_LIMITED_API)]
    let traverse: Option<ffi::traverseproc> =
        std::mem::transmute(ffi::PyType_GetSlot(kind, ffi::Py_tp_traverse));
    if let Some(traverse) = traverse {
        traverse(object, note_part, (&raw mut parts).cast());
    }
    parts
}
