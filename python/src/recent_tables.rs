//! Which table an instance has, for the instances whose method was called last.

use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;

/// Places; an instance has one, by its address, and shares it with others.
const PLACES: usize = 16;

/// Saves most calls of a method the look into the instance's `__dict__`. Counts no reference: a
/// table takes itself out when it ends. What it gives may be another instance's.
///
/// Stays empty where the interpreter has no lock, since the table could end in between.
#[derive(Default)]
pub struct RecentTables([AtomicPtr<ffi::PyObject>; PLACES]);

impl RecentTables {
    /// The table at the instance's place, or null.
    #[inline(always)]
    pub fn at(&self, instance: *mut ffi::PyObject) -> *mut ffi::PyObject {
        self.place(instance).load(Ordering::Relaxed)
    }

    /// From now on `table` stands at the instance's place.
    pub fn put(&self, instance: *mut ffi::PyObject, table: *mut ffi::PyObject) {
        if cfg!(not(Py_GIL_DISABLED)) {
            self.place(instance).store(table, Ordering::Relaxed);
        }
    }

    /// Takes a table out that is about to end.
    pub fn forget(&self, table: *mut ffi::PyObject) {
        for place in &self.0 {
            if place.load(Ordering::Relaxed) == table {
                place.store(std::ptr::null_mut(), Ordering::Relaxed);
            }
        }
    }

    #[inline(always)]
    fn place(&self, instance: *mut ffi::PyObject) -> &AtomicPtr<ffi::PyObject> {
        // Instances lie 16 bytes apart or more; those made together often by a multiple of 16.
        let address = instance as usize;
        &self.0[((address >> 4) ^ (address >> 8)) % PLACES]
    }
}
