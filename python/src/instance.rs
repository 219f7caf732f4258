//! The table of one instance's method. It lives in the instance's `__dict__`, where the collector
//! finds it: held anywhere else, a value that refers to `self` would keep the instance for ever.
//! The function itself holds those of instances that have no `__dict__`.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

use crate::api;
use crate::object::{HeldObject, Outcome, Raised};
use crate::owned;
use crate::python;
use crate::store::CallStore;

/// The layout the interpreter sees.
#[repr(C)]
pub struct InstanceTable {
    base: ffi::PyObject,
    /// A weak reference to the one instance it serves: a copied instance has the same table in
    /// its `__dict__`, and must not see the other's answers.
    owner: *mut ffi::PyObject,
    store: *mut CallStore,
}

static TYPE: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(std::ptr::null_mut());

impl InstanceTable {
    /// The table of `instance` for one decorated method, made if there is none.
    pub unsafe fn of(
        of_function: &CallStore,
        slot_name: *mut ffi::PyObject,
        instance: *mut ffi::PyObject,
    ) -> Outcome<HeldObject> {
        let Some(dict) = dict_of(instance) else {
            return InstanceTable::by_address(of_function, instance);
        };
        let mut held = api::dict_item(dict.as_ptr(), slot_name)?;
        if held.is_none() {
            // One step, so that of several threads that make a table one table stays.
            let new = create(of_function, instance, std::ptr::null_mut())?;
            held = Some(api::dict_item_or(dict.as_ptr(), slot_name, new)?);
        }
        if let Some(held) = held.filter(|held| is_table_of(held.as_ptr(), instance)) {
            remember(of_function, instance, &held);
            return Ok(held);
        }
        // Another instance's, copied with the `__dict__`, or what unpickling left in its place.
        let table = create(of_function, instance, std::ptr::null_mut())?;
        if ffi::PyDict_SetItem(dict.as_ptr(), slot_name, table.as_ptr()) != 0 {
            return Err(Raised);
        }
        remember(of_function, instance, &table);
        Ok(table)
    }

    /// As `of`, for an instance without a `__dict__`.
    #[cold]
    unsafe fn by_address(
        of_function: &CallStore,
        instance: *mut ffi::PyObject,
    ) -> Outcome<HeldObject> {
        let tables = &of_function.shared.by_address;
        loop {
            let known = tables.get(instance);
            if let Some(table) = &known
                && is_table_of(table.as_ptr(), instance)
            {
                remember(of_function, instance, table);
                return Ok(table.clone());
            }
            let at_end = at_end_of(of_function, instance)?;
            let table = create(of_function, instance, at_end.as_ptr())?;
            let owner = (*table.as_ptr().cast::<InstanceTable>()).owner;
            // Else another thread was first.
            if tables.replace(instance, known, &table, owner) {
                remember(of_function, instance, &table);
                return Ok(table);
            }
        }
    }

    /// The entries of `instance`, if its table was used lately and need not be cleared first. They
    /// last until other code can run.
    #[inline(always)]
    pub unsafe fn recent_store<'a>(
        of_function: &CallStore,
        instance: *mut ffi::PyObject,
    ) -> Option<&'a CallStore> {
        let recent = of_function.shared.recent.at(instance);
        if recent.is_null() || !is_owned_by(recent, instance) {
            return None;
        }
        let store = &*(*recent.cast::<InstanceTable>()).store;
        (store.cleared.get() == of_function.generation.get()).then_some(store)
    }

    /// The table of `instance`, if it has one that is its own.
    pub unsafe fn existing(
        of_function: &CallStore,
        slot_name: *mut ffi::PyObject,
        instance: *mut ffi::PyObject,
    ) -> Option<HeldObject> {
        let held = match dict_of(instance) {
            Some(dict) => api::dict_item(dict.as_ptr(), slot_name),
            None => Ok(of_function.shared.by_address.get(instance)),
        };
        let Ok(held) = held else {
            ffi::PyErr_Clear();
            return None;
        };
        let found = held.filter(|held| is_table_of(held.as_ptr(), instance))?;
        remember(of_function, instance, &found);
        Some(found)
    }

    /// Its entries, none of them from before the function was cleared.
    #[inline]
    pub unsafe fn store<'a>(table: &'a HeldObject, of_function: &CallStore) -> &'a CallStore {
        let store = &*(*table.as_ptr().cast::<InstanceTable>()).store;
        let (cleared, generation) = (store.cleared.get(), of_function.generation.get());
        if cleared != generation && store.cleared.exchange(cleared, generation) {
            store.clear_notifying();
        }
        store
    }
}

/// The `__dict__` of an instance, if it has one.
unsafe fn dict_of(instance: *mut ffi::PyObject) -> Option<HeldObject> {
    let dict = ffi::PyObject_GenericGetDict(instance, std::ptr::null_mut());
    let dict = HeldObject::owned(dict);
    if dict.is_err() {
        ffi::PyErr_Clear();
    }
    dict.ok()
}

/// Whether `object` is the table of that very instance.
#[inline]
unsafe fn is_table_of(object: *mut ffi::PyObject, instance: *mut ffi::PyObject) -> bool {
    if ffi::Py_TYPE(object) != TYPE.load(Ordering::Acquire) {
        return false;
    }
    is_owned_by(object, instance)
}

/// Notes the table of an instance, unless it is another function's: that one would not take it out
/// of the notes of this one.
unsafe fn remember(of_function: &CallStore, instance: *mut ffi::PyObject, table: &HeldObject) {
    let store = &*(*table.as_ptr().cast::<InstanceTable>()).store;
    if Arc::ptr_eq(&store.shared, &of_function.shared) {
        of_function.shared.recent.put(instance, table.as_ptr());
    }
}

/// Whether a table is the one of that very instance.
#[inline(always)]
unsafe fn is_owned_by(table: *mut ffi::PyObject, instance: *mut ffi::PyObject) -> bool {
    let owner = (*table.cast::<InstanceTable>()).owner;
    !owner.is_null() && api::weak_target(owner) == instance
}

/// What the weak reference to an instance calls when the instance ends. It keeps neither the
/// function nor the table.
unsafe fn at_end_of(of_function: &CallStore, instance: *mut ffi::PyObject) -> Outcome<HeldObject> {
    let shared = Arc::downgrade(&of_function.shared);
    let address = instance as usize;
    let forget = move |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
        if let (Some(shared), Ok(reference)) = (shared.upgrade(), arguments.get_item(0)) {
            shared.by_address.forget(address, reference.as_ptr());
        }
    };
    let py = Python::assume_attached();
    match PyCFunction::new_closure(py, None, None, forget) {
        Ok(function) => Ok(owned(function.as_any())),
        Err(error) => {
            error.restore(py);
            Err(Raised)
        }
    }
}

/// A table for an instance, at the end of which `at_end` is called if it is not null.
unsafe fn create(
    of_function: &CallStore,
    instance: *mut ffi::PyObject,
    at_end: *mut ffi::PyObject,
) -> Outcome<HeldObject> {
    let owner = HeldObject::owned(ffi::PyWeakref_NewRef(instance, at_end))?;
    let table = ffi::PyType_GenericAlloc(TYPE.load(Ordering::Acquire), 0);
    let table = HeldObject::owned(table)?;
    let store = CallStore::new(of_function.shared.clone());
    store.cleared.set(of_function.generation.get());
    let layout = table.as_ptr().cast::<InstanceTable>();
    (*layout).owner = owner.into_ptr();
    (*layout).store = Box::into_raw(Box::new(store));
    Ok(table)
}

/// Copied and pickled instances start without answers; `False` is no table, so the next call
/// makes one, and a reader of the pickle needs no package of ours.
unsafe extern "C" fn reduce(
    _table: *mut ffi::PyObject,
    _none: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let kind = &raw mut ffi::PyBool_Type;
    let Ok(nothing) = HeldObject::owned(ffi::PyTuple_New(0)) else {
        return std::ptr::null_mut();
    };
    ffi::PyTuple_Pack(2, kind.cast::<ffi::PyObject>(), nothing.as_ptr())
}

unsafe extern "C" fn traverse(
    table: *mut ffi::PyObject,
    visit: ffi::visitproc,
    extra: *mut c_void,
) -> c_int {
    let layout = &*table.cast::<InstanceTable>();
    let mut stopped = visit(ffi::Py_TYPE(table).cast(), extra);
    if stopped == 0 && !layout.owner.is_null() {
        stopped = visit(layout.owner, extra);
    }
    if let Some(store) = layout.store.as_ref() {
        store.visit(&mut |held| {
            if stopped == 0 {
                stopped = visit(held.as_ptr(), extra);
            }
        });
    }
    stopped
}

unsafe extern "C" fn clear(table: *mut ffi::PyObject) -> c_int {
    if let Some(store) = (*table.cast::<InstanceTable>()).store.as_ref() {
        drop(store.clear());
    }
    0
}

unsafe extern "C" fn dealloc(table: *mut ffi::PyObject) {
    ffi::PyObject_GC_UnTrack(table.cast());
    let layout = table.cast::<InstanceTable>();
    if let Some(store) = (*layout).store.as_ref() {
        // First: destructors of values may call the method, and must not find this table.
        store.shared.recent.forget(table);
    }
    clear(table);
    drop(HeldObject::owned((*layout).owner));
    if !(*layout).store.is_null() {
        drop(Box::from_raw((*layout).store));
    }
    let kind = ffi::Py_TYPE(table);
    ffi::PyObject_GC_Del(table.cast());
    ffi::Py_DECREF(kind.cast());
}

/// Makes the type, once.
pub unsafe fn create_type() -> Outcome<()> {
    let reduce = ffi::PyMethodDef {
        ml_name: c"__reduce__".as_ptr(),
        ml_meth: ffi::PyMethodDefPointer {
            PyCFunction: reduce,
        },
        ml_flags: ffi::METH_NOARGS,
        ml_doc: std::ptr::null(),
    };
    let methods = Box::leak(Box::new([reduce, ffi::PyMethodDef::zeroed()]));
    let slot = |slot, pfunc| ffi::PyType_Slot { slot, pfunc };
    let slots = Box::leak(Box::new([
        slot(ffi::Py_tp_traverse, traverse as *mut c_void),
        slot(ffi::Py_tp_clear, clear as *mut c_void),
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(0, std::ptr::null_mut()),
    ]));
    let flags =
        ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_HAVE_GC | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION;
    let mut spec = ffi::PyType_Spec {
        name: c"tidemark_cache._native.InstanceTable".as_ptr(),
        basicsize: size_of::<InstanceTable>() as c_int,
        itemsize: 0,
        flags: flags as u32,
        slots: slots.as_mut_ptr(),
    };
    let kind = HeldObject::owned(ffi::PyType_FromSpec(&raw mut spec))?;
    TYPE.store(kind.into_ptr().cast(), Ordering::Release);
    Ok(())
}

/// Says in words what a class lacks.
pub fn refuse(class: &str) -> Raised {
    python::raise_type(&format!(
        "a cached method keeps answers for each instance, and those of {class} cannot be \
         referenced weakly; add '__weakref__' to __slots__"
    ))
}
