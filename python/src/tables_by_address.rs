//! The tables of instances that have no `__dict__`.

use std::collections::HashMap;

use pyo3::ffi;

use crate::guard::Guarded;
use crate::object::HeldObject;

/// By the address of the instance, which the next one at that address may have again: a table knows
/// whose it is.
#[derive(Default)]
pub struct TablesByAddress(Guarded<HashMap<usize, TableAtAddress>>);

struct TableAtAddress {
    table: HeldObject,
    /// The address of the weak reference by which the table knows its instance, and that it holds.
    reference: usize,
}

impl TablesByAddress {
    /// The table at the instance's address.
    pub fn get(&self, instance: *mut ffi::PyObject) -> Option<HeldObject> {
        let tables = self.0.lock();
        let found = tables.get(&(instance as usize));
        found.map(|found| found.table.clone())
    }

    /// Puts a table in the place of `known`; false if there is another one by now.
    pub fn replace(
        &self,
        instance: *mut ffi::PyObject,
        known: Option<HeldObject>,
        table: &HeldObject,
        reference: *mut ffi::PyObject,
    ) -> bool {
        let (table, reference) = (table.clone(), reference as usize);
        let mut tables = self.0.lock();
        let present = tables.get(&(instance as usize));
        let present = present.map(|present| present.table.as_ptr());
        let is_known = present == known.as_ref().map(HeldObject::as_ptr);
        let new = TableAtAddress { table, reference };
        // Dropped with nothing locked: what it holds may call the method as it ends.
        let unused = match is_known {
            true => tables.insert(instance as usize, new),
            false => Some(new),
        };
        drop(tables);
        drop((unused, known));
        is_known
    }

    /// Takes them all out.
    pub fn take_all(&self) -> Vec<HeldObject> {
        let all = std::mem::take(&mut *self.0.lock());
        all.into_values().map(|one| one.table).collect()
    }

    /// Shows them to the collector.
    pub fn visit(&self, show: &mut dyn FnMut(&HeldObject)) {
        let tables = self.0.lock();
        tables.values().for_each(|one| show(&one.table));
    }

    /// Takes out the table of an instance that has ended, which it knew by `reference`.
    pub fn forget(&self, address: usize, reference: *mut ffi::PyObject) {
        let mut tables = self.0.lock();
        let found = tables.get(&address);
        let gone = match found.is_some_and(|found| found.reference == reference as usize) {
            true => tables.remove(&address),
            false => None,
        };
        drop(tables);
        drop(gone);
    }
}
