//! Values that no caller can change for another.
//!
//! A value is walked once, when it is stored. What is immutable all through is handed out as it
//! is; built-in containers and instances of plain classes are copied natively on each hit;
//! anything else is copied by Python's own `copy.deepcopy`.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;

use crate::api;
#[cfg(not(Py_3_12))]
use crate::dict_values;
use crate::object::{HeldObject, Outcome, Raised};
use crate::python::{self, PythonFunction};

/// How a hit hands out the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// The same object.
    Same,
    /// A native copy; no container is reached twice.
    Tree,
    /// A native copy with a memo, so that aliases and cycles come back as they were.
    Graph,
    /// `copy.deepcopy`.
    Deep,
    /// The value is a pair: a function of ours, and what it makes each caller's value from.
    OwnWay,
    /// The value is an exception, and is raised.
    Raise,
}

/// What the decorator asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyMode {
    /// The cheapest that isolates.
    Auto,
    /// Never a copy.
    Share,
    /// Always `copy.deepcopy`.
    Deep,
}

/// Deeper values are left to `copy.deepcopy`, which has limits of its own.
const DEPTH_MAX: usize = 200;

/// Types outside the built-in ones whose objects cannot change, as the package lists them: at
/// most this many.
const IMMUTABLE_MAX: usize = 64;
static IMMUTABLE: [AtomicPtr<ffi::PyTypeObject>; IMMUTABLE_MAX] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; IMMUTABLE_MAX];

/// Adds a type to those whose objects cannot change. False when the list is full.
pub unsafe fn add_immutable(kind: *mut ffi::PyObject) -> bool {
    let (order, none) = (Ordering::AcqRel, std::ptr::null_mut());
    for place in &IMMUTABLE {
        match place.compare_exchange(none, kind.cast(), order, Ordering::Acquire) {
            Ok(_) => {
                ffi::Py_INCREF(kind);
                return true;
            }
            Err(known) if known == kind.cast() => return true,
            Err(_) => {}
        }
    }
    false
}

unsafe fn is_immutable_leaf(object: *mut ffi::PyObject) -> bool {
    let kind = ffi::Py_TYPE(object);
    crate::key::is_plain(object)
        || kind == &raw mut ffi::PyComplex_Type
        || kind == &raw mut ffi::PyRange_Type
        || ffi::PyType_Check(object) != 0
        || IMMUTABLE
            .iter()
            .map(|place| place.load(Ordering::Acquire))
            .take_while(|known| !known.is_null())
            .any(|known| known == kind)
}

/// One walk over a value.
#[derive(Default)]
struct Walk {
    seen: HashSet<usize>,
    /// What was walked and found immutable: walked once, or a value of a few hundred objects
    /// could take for ever.
    same: HashSet<usize>,
    has_alias: bool,
    /// Containers and instances that were reached more than once.
    shared: HashSet<usize>,
    /// Whether a tuple was: a copy of one is made after its items, so that only a memo of
    /// everything ends a cycle through it.
    shares_tuple: bool,
    /// Instances that were met, taken apart.
    records: Records,
}

/// Instances by their address, each with its record.
type Records = HashMap<usize, InstanceRecord>;

struct InstanceRecord {
    /// Held, so that no other object gets its address.
    _instance: HeldObject,
    record: HeldObject,
}

impl Walk {
    /// The whole value's isolation is the greatest of its parts'.
    unsafe fn part(&mut self, object: *mut ffi::PyObject, depth: usize) -> Outcome<Isolation> {
        if is_immutable_leaf(object) {
            return Ok(Isolation::Same);
        }
        if self.same.contains(&(object as usize)) {
            // The copy looks into tuples alone, and needs its memo for the same reason.
            let is_tuple = ffi::Py_TYPE(object) == &raw mut ffi::PyTuple_Type;
            self.has_alias |= is_tuple;
            self.shares_tuple |= is_tuple;
            return Ok(Isolation::Same);
        }
        if depth > DEPTH_MAX {
            return Ok(Isolation::Deep);
        }
        let found = self.compound(object, depth)?;
        if found == Isolation::Same {
            self.same.insert(object as usize);
        }
        Ok(found)
    }

    unsafe fn compound(&mut self, object: *mut ffi::PyObject, depth: usize) -> Outcome<Isolation> {
        let kind = ffi::Py_TYPE(object);
        if kind == &raw mut ffi::PyTuple_Type {
            return self.tuple(object, depth);
        }
        if kind == &raw mut ffi::PyFrozenSet_Type {
            return self.all_same(object, depth);
        }
        let is_container = kind == &raw mut ffi::PyDict_Type
            || kind == &raw mut ffi::PyList_Type
            || kind == &raw mut ffi::PySet_Type
            || kind == &raw mut ffi::PyByteArray_Type;
        if !is_container {
            return match self.frozen(object, depth)? {
                Isolation::Same => Ok(Isolation::Same),
                _ => self.instance(object, depth),
            };
        }
        if !self.seen.insert(object as usize) {
            self.has_alias = true;
            self.shared.insert(object as usize);
            return Ok(Isolation::Tree);
        }
        if kind == &raw mut ffi::PyDict_Type {
            return self.dict(object, depth);
        }
        if kind == &raw mut ffi::PyList_Type {
            for index in 0.. {
                // The length is read each time: the walk may run code of the value's own.
                if index >= api::list_len(object) {
                    break;
                }
                let item = HeldObject::borrowed(api::list_item(object, index));
                if self.part(item.as_ptr(), depth + 1)? == Isolation::Deep {
                    return Ok(Isolation::Deep);
                }
            }
            return Ok(Isolation::Tree);
        }
        if kind == &raw mut ffi::PySet_Type {
            let items = self.all_same(object, depth)?;
            return Ok(match items {
                Isolation::Same => Isolation::Tree,
                _ => Isolation::Deep,
            });
        }
        Ok(Isolation::Tree)
    }

    unsafe fn dict(&mut self, object: *mut ffi::PyObject, depth: usize) -> Outcome<Isolation> {
        let items = HeldObject::owned(ffi::PyDict_Items(object))?;
        for index in 0..api::list_len(items.as_ptr()) {
            let pair = api::list_item(items.as_ptr(), index);
            // The copy sets values under the same keys, and that must run no code of theirs.
            if !crate::key::is_plain(api::tuple_item(pair, 0)) {
                return Ok(Isolation::Deep);
            }
            let value = api::tuple_item(pair, 1);
            if self.part(value, depth + 1)? == Isolation::Deep {
                return Ok(Isolation::Deep);
            }
        }
        Ok(Isolation::Tree)
    }

    /// A tuple is as mutable as its items.
    unsafe fn tuple(&mut self, object: *mut ffi::PyObject, depth: usize) -> Outcome<Isolation> {
        if !self.seen.insert(object as usize) {
            self.has_alias = true;
            self.shares_tuple = true;
            return Ok(Isolation::Tree);
        }
        let mut whole = Isolation::Same;
        for index in 0..api::tuple_len(object) {
            match self.part(api::tuple_item(object, index), depth + 1)? {
                Isolation::Same => {}
                Isolation::Deep => return Ok(Isolation::Deep),
                other => whole = other,
            }
        }
        Ok(whole)
    }

    unsafe fn all_same(&mut self, set: *mut ffi::PyObject, depth: usize) -> Outcome<Isolation> {
        let items = HeldObject::owned(ffi::PySequence_List(set))?;
        for index in 0..api::list_len(items.as_ptr()) {
            let item = api::list_item(items.as_ptr(), index);
            if self.part(item, depth + 1)? != Isolation::Same {
                return Ok(Isolation::Deep);
            }
        }
        Ok(Isolation::Same)
    }

    /// An instance of a class that does not say how its instances are copied.
    unsafe fn instance(&mut self, object: *mut ffi::PyObject, depth: usize) -> Outcome<Isolation> {
        if !self.seen.insert(object as usize) {
            self.has_alias = true;
            self.shared.insert(object as usize);
            return Ok(Isolation::Tree);
        }
        let record = python::call_one(PythonFunction::RecordOf, object)?;
        if record.as_ptr() == ffi::Py_None() {
            return Ok(Isolation::Deep);
        }
        for index in RECORD_VALUES..api::list_len(record.as_ptr()) {
            let value = api::list_item(record.as_ptr(), index);
            if self.part(value, depth + 1)? == Isolation::Deep {
                return Ok(Isolation::Deep);
            }
        }
        let _instance = HeldObject::borrowed(object);
        let found = InstanceRecord { _instance, record };
        self.records.insert(object as usize, found);
        Ok(Isolation::Tree)
    }

    /// A copy for the entry, with records in place of instances.
    unsafe fn kept(&self, value: &HeldObject, isolation: Isolation) -> Outcome<IsolatedValue> {
        let records = (!self.records.is_empty()).then_some(&self.records);
        let mut copier = Copier::new(isolation == Isolation::Graph, records);
        let value = copier.copy(value.as_ptr())?;
        let mut kept = IsolatedValue::new(value, isolation);
        if let (Some(memo), false) = (&copier.memo, self.shares_tuple) {
            let copies = self.shared.iter().map(|shared| memo.get(shared));
            let copies = copies.map(|copy| copy.map(|copy| copy.as_ptr() as usize));
            // What the memo lacks was changed by another thread meanwhile: then nothing is known.
            kept.shared = copies.collect::<Option<SharedParts>>().map(Box::new);
        }
        Ok(kept)
    }

    unsafe fn frozen(&mut self, object: *mut ffi::PyObject, depth: usize) -> Outcome<Isolation> {
        let fields = python::call_one(PythonFunction::FrozenFields, object)?;
        if fields.as_ptr() == ffi::Py_None() {
            return Ok(Isolation::Deep);
        }
        for index in 0..api::tuple_len(fields.as_ptr()) {
            let field = api::tuple_item(fields.as_ptr(), index);
            if self.part(field, depth + 1)? != Isolation::Same {
                return Ok(Isolation::Deep);
            }
        }
        Ok(Isolation::Same)
    }
}

/// Addresses of what a kept value holds more than once; nothing else needs a place in the memo of
/// its copies.
pub type SharedParts = HashSet<usize, AddressHashes>;

/// What an entry keeps of a value.
pub struct IsolatedValue {
    /// Isolated from the caller's.
    pub value: HeldObject,
    /// How a hit hands it out.
    pub isolation: Isolation,
    /// Of a [`Isolation::Graph`]. `None`: anything may be there more than once.
    pub shared: Option<Box<SharedParts>>,
}

impl IsolatedValue {
    /// One that needs no memo.
    pub fn new(value: HeldObject, isolation: Isolation) -> IsolatedValue {
        IsolatedValue {
            value,
            isolation,
            shared: None,
        }
    }
}

/// The value an entry keeps, isolated from the caller's, and how a hit hands it out.
pub unsafe fn kept(value: &HeldObject, mode: CopyMode) -> Outcome<IsolatedValue> {
    if mode == CopyMode::Auto && is_immutable_leaf(value.as_ptr()) {
        return Ok(IsolatedValue::new(value.clone(), Isolation::Same));
    }
    if mode == CopyMode::Auto && !is_built_in(value.as_ptr()) {
        let own_way = python::call_one(PythonFunction::OwnWay, value.as_ptr())?;
        if own_way.as_ptr() != ffi::Py_None() {
            return Ok(IsolatedValue::new(own_way, Isolation::OwnWay));
        }
    }
    let isolation = match mode {
        CopyMode::Share => Isolation::Same,
        CopyMode::Deep => Isolation::Deep,
        CopyMode::Auto => {
            let mut walk = Walk::default();
            let isolation = match walk.part(value.as_ptr(), 0)? {
                Isolation::Tree if walk.has_alias => Isolation::Graph,
                whole => whole,
            };
            if matches!(isolation, Isolation::Tree | Isolation::Graph) {
                return walk.kept(value, isolation);
            }
            isolation
        }
    };
    let kept = handed_out(value, isolation, None)?;
    Ok(IsolatedValue::new(kept, isolation))
}

/// What a caller gets of a kept value.
#[inline]
pub unsafe fn handed_out(
    value: &HeldObject,
    isolation: Isolation,
    shared: Option<&SharedParts>,
) -> Outcome<HeldObject> {
    match isolation {
        Isolation::Same => Ok(value.clone()),
        Isolation::Tree => Copier::new(false, None).copy(value.as_ptr()),
        Isolation::Graph => {
            let mut copier = Copier::new(true, None);
            copier.shared = shared;
            copier.copy(value.as_ptr())
        }
        Isolation::Deep => python::call_one(PythonFunction::DeepCopy, value.as_ptr()),
        Isolation::OwnWay => {
            let (way, stored) = (
                api::tuple_item(value.as_ptr(), 0),
                api::tuple_item(value.as_ptr(), 1),
            );
            HeldObject::owned(api::call_one(way, stored))
        }
        Isolation::Raise => {
            let error = python::call_one(PythonFunction::ErrorForCaller, value.as_ptr())?;
            Err(python::raise_object(&error))
        }
    }
}

unsafe fn is_built_in(object: *mut ffi::PyObject) -> bool {
    is_immutable_leaf(object) || is_copied(object)
}

/// Addresses are spread well by one multiplication, and no caller chooses them.
#[derive(Default)]
pub struct AddressHash(u64);

pub type AddressHashes = BuildHasherDefault<AddressHash>;

impl Hasher for AddressHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, address: usize) {
        self.0 = (self.0 ^ address as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(26);
    }
}

type Memo = Option<HashMap<usize, HeldObject, AddressHashes>>;

/// Whether it is of a built-in type that is copied for each caller, if only for what it holds.
#[inline]
pub unsafe fn is_copied(object: *mut ffi::PyObject) -> bool {
    let kind = ffi::Py_TYPE(object);
    kind == &raw mut ffi::PyDict_Type
        || kind == &raw mut ffi::PyList_Type
        || kind == &raw mut ffi::PyTuple_Type
        || kind == &raw mut ffi::PySet_Type
        || kind == &raw mut ffi::PyByteArray_Type
}

/// Where the values of a record begin: after the class and the names.
const RECORD_VALUES: isize = 2;

/// Copies what `Walk` found to be made of built-in containers and plain instances.
///
/// In what is kept, records stand for the instances: without `taken_apart` a copy has instances
/// in their place, with it records in place of these instances. Nothing else holds any of what is
/// kept, so it does not change meanwhile, though a collection may run.
struct Copier<'a> {
    /// What was copied already, where something is reached twice.
    memo: Memo,
    /// What alone is reached twice, where that is known.
    shared: Option<&'a SharedParts>,
    taken_apart: Option<&'a Records>,
    record_class: *mut ffi::PyTypeObject,
}

impl<'a> Copier<'a> {
    fn new(has_alias: bool, taken_apart: Option<&'a Records>) -> Copier<'a> {
        Copier {
            memo: has_alias.then(HashMap::default),
            shared: None,
            taken_apart,
            // Null, as no type is, until the first instance is taken apart.
            record_class: python::loaded(PythonFunction::Record).cast(),
        }
    }

    #[inline]
    unsafe fn copies(&self, object: *mut ffi::PyObject) -> bool {
        // What most values are, known by one look at the type.
        const LEAVES: std::ffi::c_ulong = ffi::Py_TPFLAGS_LONG_SUBCLASS
            | ffi::Py_TPFLAGS_UNICODE_SUBCLASS
            | ffi::Py_TPFLAGS_BYTES_SUBCLASS;
        let kind = ffi::Py_TYPE(object);
        let is_leaf = ffi::PyType_HasFeature(kind, LEAVES) != 0;
        if self.taken_apart.is_none() && (is_leaf || kind == &raw mut ffi::PyFloat_Type) {
            return false;
        }
        is_copied(object)
            || match self.taken_apart {
                None => kind == self.record_class,
                Some(records) => records.contains_key(&(object as usize)),
            }
    }

    unsafe fn copy(&mut self, object: *mut ffi::PyObject) -> Outcome<HeldObject> {
        if let Some(known) = self.known(object) {
            return Ok(known);
        }
        let kind = ffi::Py_TYPE(object);
        if kind == &raw mut ffi::PyTuple_Type {
            return self.tuple(object);
        }
        if kind == &raw mut ffi::PyDict_Type {
            return self.dict(object);
        }
        if kind == &raw mut ffi::PyList_Type {
            return self.list(object);
        }
        let new = if kind == &raw mut ffi::PySet_Type {
            ffi::PySet_New(object)
        } else if kind == &raw mut ffi::PyByteArray_Type {
            ffi::PyByteArray_FromObject(object)
        } else {
            return match self.taken_apart {
                None if kind == self.record_class => self.instance(object),
                Some(records) => match records.get(&(object as usize)) {
                    Some(found) => self.record(object, &found.record),
                    None => Ok(HeldObject::borrowed(object)),
                },
                None => Ok(HeldObject::borrowed(object)),
            };
        };
        let new = HeldObject::owned(new)?;
        self.remember(object, &new);
        Ok(new)
    }

    #[inline]
    fn may_come_again(&self, object: *mut ffi::PyObject) -> bool {
        let shared = self.shared;
        shared.is_none_or(|shared| shared.contains(&(object as usize)))
    }

    #[inline]
    fn known(&self, object: *mut ffi::PyObject) -> Option<HeldObject> {
        let memo = self.memo.as_ref()?;
        if !self.may_come_again(object) {
            return None;
        }
        memo.get(&(object as usize)).cloned()
    }

    #[inline]
    fn remember(&mut self, object: *mut ffi::PyObject, new: &HeldObject) {
        if self.memo.is_some()
            && self.may_come_again(object)
            && let Some(memo) = &mut self.memo
        {
            memo.insert(object as usize, new.clone());
        }
    }

    unsafe fn dict(&mut self, object: *mut ffi::PyObject) -> Outcome<HeldObject> {
        let new = HeldObject::owned(ffi::PyDict_Copy(object))?;
        self.remember(object, &new);
        // What is kept of instances is put in by the interpreter, which then shows it to the
        // collector; a copy of what is kept is shown from the start.
        #[cfg(not(Py_3_12))]
        if self.taken_apart.is_none()
            && let Some(places) = dict_values::places(new.as_ptr())
        {
            for place in places {
                let value = *place;
                if !value.is_null() && self.copies(value) {
                    *place = self.copy(value)?.into_ptr();
                    ffi::Py_DECREF(value);
                }
            }
            return Ok(new);
        }
        let (mut position, mut key, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
        // Over the copy, which no code of the user's can reach: `object` may change meanwhile.
        let of_copy = new.as_ptr();
        while ffi::PyDict_Next(of_copy, &raw mut position, &raw mut key, &raw mut value) != 0 {
            if self.copies(value) {
                let value = self.copy(value)?;
                if ffi::PyDict_SetItem(new.as_ptr(), key, value.as_ptr()) != 0 {
                    return Err(Raised);
                }
            }
        }
        Ok(new)
    }

    unsafe fn list(&mut self, object: *mut ffi::PyObject) -> Outcome<HeldObject> {
        let slice = ffi::PyList_GetSlice(object, 0, api::list_len(object));
        let new = HeldObject::owned(slice)?;
        self.remember(object, &new);
        // Over the copy, which no code of the user's can reach: `object` may change meanwhile.
        for index in 0..api::list_len(new.as_ptr()) {
            let item = api::list_item(new.as_ptr(), index);
            if self.copies(item) {
                let item = self.copy(item)?;
                api::replace_in_list(new.as_ptr(), index, item);
            }
        }
        Ok(new)
    }

    unsafe fn tuple(&mut self, object: *mut ffi::PyObject) -> Outcome<HeldObject> {
        let count = api::tuple_len(object);
        let mut items = Vec::with_capacity(count as usize);
        let mut is_other = false;
        for index in 0..count {
            let item = api::tuple_item(object, index);
            let new = match self.copies(item) {
                true => self.copy(item)?,
                false => HeldObject::borrowed(item),
            };
            is_other |= new.as_ptr() != item;
            items.push(new);
        }
        // A tuple inside a cycle through a list was made while its items were copied.
        if let Some(known) = self.known(object) {
            return Ok(known);
        }
        let new = if is_other {
            let new = HeldObject::owned(ffi::PyTuple_New(count))?;
            for (index, item) in (0..).zip(items) {
                ffi::PyTuple_SetItem(new.as_ptr(), index, item.into_ptr());
            }
            new
        } else {
            HeldObject::borrowed(object)
        };
        self.remember(object, &new);
        Ok(new)
    }

    /// The record of an instance, of copies alone.
    unsafe fn record(
        &mut self,
        instance: *mut ffi::PyObject,
        record: &HeldObject,
    ) -> Outcome<HeldObject> {
        let class = self.record_class.cast();
        let new = HeldObject::owned(ffi::PyObject_CallObject(class, std::ptr::null_mut()))?;
        self.remember(instance, &new);
        for index in 0..api::list_len(record.as_ptr()) {
            let value = api::list_item(record.as_ptr(), index);
            // Neither the class nor the names are copied: nothing can change them.
            let value = match index >= RECORD_VALUES && self.copies(value) {
                true => self.copy(value)?,
                false => HeldObject::borrowed(value),
            };
            if ffi::PyList_Append(new.as_ptr(), value.as_ptr()) != 0 {
                return Err(Raised);
            }
        }
        Ok(new)
    }

    /// A new instance, its attributes set without any code of its class.
    unsafe fn instance(&mut self, record: *mut ffi::PyObject) -> Outcome<HeldObject> {
        let class = api::list_item(record, 0);
        let names = api::list_item(record, 1);
        let new = HeldObject::owned(api::new_instance(class))?;
        self.remember(record, &new);
        for index in 0..api::tuple_len(names) {
            let value = api::list_item(record, RECORD_VALUES + index);
            let value = match self.copies(value) {
                true => self.copy(value)?,
                false => HeldObject::borrowed(value),
            };
            let name = api::tuple_item(names, index);
            if ffi::PyObject_GenericSetAttr(new.as_ptr(), name, value.as_ptr()) != 0 {
                return Err(Raised);
            }
        }
        Ok(new)
    }
}
