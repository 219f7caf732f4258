//! The callable that stands in a decorated function's place.
//!
//! A heap type with a vectorcall slot, since PyO3's own classes have none. Every function here
//! runs on a thread that is attached to the interpreter, and locks a table only between calls of
//! it.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use cache::EntryPlace;
use pyo3::ffi;

use crate::api;
use crate::bind::{BoundCall, CachePlan, DIRECT_MAX, GivenCall, lookup};
use crate::entry::KeptEntry;
use crate::guard::SharedCount;
use crate::instance::InstanceTable;
use crate::isolate::Isolation;
use crate::key::{BuiltKey, LookupKey, hash_if_plain};
use crate::memory_budget::PayerWays;
use crate::object::{HeldObject, Outcome};
use crate::python::{self, PythonFunction};
use crate::ready;
use crate::store::{CallStore, StoreShared};

/// Everything of the callable but what the interpreter itself must find.
pub struct Inner {
    /// The decorated function.
    pub function: HeldObject,
    /// What was decided.
    pub plan: CachePlan,
    /// The entries, unless this is a method.
    pub store: CallStore,
    /// The name of the table in an instance's `__dict__`, if it has one, once this is known to be a
    /// method.
    /// Held for ever: a call may be reading it while a second class takes the method.
    slot_name: AtomicPtr<ffi::PyObject>,
    /// Whether every parameter can be given by position and counts, and there are no others.
    pub is_simple: bool,
    /// Calls answered without running the body.
    pub hits: SharedCount,
    /// Calls that were not.
    pub misses: SharedCount,
    /// Those of the hits that were past their lifetime.
    pub stale_hits: SharedCount,
    /// Refreshes that brought a value.
    pub refreshes: SharedCount,
    /// Refreshes that did not.
    pub refresh_failures: SharedCount,
}

/// What the newest entry under the hash of plain arguments comes to.
enum NewestAnswer {
    /// It is the one.
    Given(Outcome<HeldObject>),
    /// There is none, and the table was in this edition.
    Absent { hash: u64, edition: u64 },
    /// The whole way has to be taken.
    Unknown,
}

impl NewestAnswer {
    /// The answer, if there is one.
    #[inline(always)]
    fn given(self) -> Option<Outcome<HeldObject>> {
        match self {
            NewestAnswer::Given(answer) => Some(answer),
            NewestAnswer::Absent { .. } | NewestAnswer::Unknown => None,
        }
    }
}

/// The layout the interpreter sees.
#[repr(C)]
pub struct CachedCallable {
    base: ffi::PyObject,
    vectorcall: ffi::vectorcallfunc,
    dict: *mut ffi::PyObject,
    weak: *mut ffi::PyObject,
    inner: *mut Inner,
}

static TYPE: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(std::ptr::null_mut());

/// The callable's own part.
#[inline]
pub unsafe fn inner<'a>(cached: *mut ffi::PyObject) -> &'a Inner {
    &*(*cached.cast::<CachedCallable>()).inner
}

/// How a function pays for others that share its bytes.
const PAYER_WAYS: PayerWays = PayerWays {
    bytes_of: |cached| unsafe { inner(cached) }.store.shared.bytes.get(),
    give_up_one: |cached| unsafe {
        let inner = inner(cached);
        inner.store.give_up_one(inner.now_us());
    },
};

impl Inner {
    /// Calls `use_it` with the store and the key of a call, or gives `None` when the function
    /// itself must refuse the call.
    #[inline]
    pub unsafe fn with_key<R>(
        &self,
        call: &GivenCall,
        use_it: impl FnOnce(&CallStore, &LookupKey<'_>, u64) -> Outcome<R>,
    ) -> Outcome<Option<R>> {
        if !self.is_method() {
            return self.with_key_in(&self.store, call, 0, use_it);
        }
        if call.count == 0 {
            return Ok(None);
        }
        let table = self.instance_table(*call.arguments)?;
        let store = InstanceTable::store(&table, &self.store);
        self.with_key_in(store, call, 1, use_it)
    }

    #[inline]
    unsafe fn with_key_in<R>(
        &self,
        store: &CallStore,
        call: &GivenCall,
        skip: usize,
        use_it: impl FnOnce(&CallStore, &LookupKey<'_>, u64) -> Outcome<R>,
    ) -> Outcome<Option<R>> {
        let bound = match &self.plan.key {
            None => self.plan.bind(call, skip)?,
            Some(key) => {
                let key = call.run(key.as_ptr())?;
                let mut built = BuiltKey::default();
                built.encode(key.as_ptr())?;
                BoundCall::Built(Box::new(built))
            }
        };
        let Some(lookup) = lookup(&bound)? else {
            return Ok(None);
        };
        let hash = lookup.hash()?;
        use_it(store, &lookup, hash).map(Some)
    }

    /// The table of an instance, for a method.
    #[inline]
    pub unsafe fn instance_table(&self, instance: *mut ffi::PyObject) -> Outcome<HeldObject> {
        let name = self.slot_name.load(Ordering::Acquire);
        if name.is_null() {
            return Err(python::raise_type("this function is not a method"));
        }
        InstanceTable::of(&self.store, name, instance)
    }

    /// Whether the entries live in the instances.
    #[inline]
    pub fn is_method(&self) -> bool {
        !self.slot_name.load(Ordering::Acquire).is_null()
    }

    /// From now on the entries live in the instances, under `name`.
    pub fn become_method(&self, name: HeldObject) {
        self.slot_name.store(name.into_ptr(), Ordering::Release);
    }

    /// Now, for functions whose entries have a lifetime.
    #[inline]
    pub fn now_us(&self) -> u64 {
        match self.plan.reads_clock {
            true => python::now_us(),
            false => 0,
        }
    }

    /// The answer to a call whose arguments are plain and that is bound by comparing pointers, if
    /// the first entry of its hash is the one, or no entry has it: what nearly every call is.
    /// `None` says nothing: the whole way has to be taken.
    #[inline(always)]
    unsafe fn answer_at_once(
        &self,
        cached: *mut ffi::PyObject,
        call: &GivenCall,
    ) -> Option<Outcome<HeldObject>> {
        if !self.is_simple {
            return None;
        }
        let is_in_order = call.names.is_null() && call.count == self.plan.names.len();
        if !is_in_order {
            return self.answer_in_order(cached, call);
        }
        match self.is_method() {
            false => self.answer_of_function(cached, call, call.slice(0)),
            true => self.answer_of_method(call.slice(0)),
        }
    }

    /// Apart, so that the shortest way stays short.
    #[inline(never)]
    unsafe fn answer_in_order(
        &self,
        cached: *mut ffi::PyObject,
        call: &GivenCall,
    ) -> Option<Outcome<HeldObject>> {
        let wanted = self.plan.names.len();
        if wanted > DIRECT_MAX {
            return None;
        }
        let mut ordered = [std::ptr::null_mut(); DIRECT_MAX];
        self.plan.order(call, &mut ordered)?;
        let arguments = &ordered[..wanted];
        match self.is_method() {
            false => self.answer_of_function(cached, call, arguments),
            true => self.answer_of_method(arguments),
        }
    }

    #[inline(always)]
    unsafe fn answer_of_function(
        &self,
        cached: *mut ffi::PyObject,
        call: &GivenCall,
        arguments: &[*mut ffi::PyObject],
    ) -> Option<Outcome<HeldObject>> {
        match self.answer_from(&self.store, arguments) {
            NewestAnswer::Given(answer) => Some(answer),
            NewestAnswer::Absent { hash, edition } if self.plan.is_async => {
                Some(self.async_miss_of_plain(cached, call, arguments, hash, edition))
            }
            NewestAnswer::Absent { hash, edition } => {
                Some(self.miss_of_plain(cached, call, arguments, hash, edition))
            }
            NewestAnswer::Unknown => None,
        }
    }

    #[inline(never)]
    unsafe fn answer_of_method(
        &self,
        arguments: &[*mut ffi::PyObject],
    ) -> Option<Outcome<HeldObject>> {
        let (instance, arguments) = arguments.split_first()?;
        // Not held: nothing that could end the table runs before its last use.
        match InstanceTable::recent_store(&self.store, *instance) {
            Some(store) => self.answer_from(store, arguments).given(),
            None => self.answer_of_other_instance(*instance, arguments),
        }
    }

    #[inline(never)]
    unsafe fn answer_of_other_instance(
        &self,
        instance: *mut ffi::PyObject,
        arguments: &[*mut ffi::PyObject],
    ) -> Option<Outcome<HeldObject>> {
        let slot_name = self.slot_name.load(Ordering::Acquire);
        let table = InstanceTable::existing(&self.store, slot_name, instance)?;
        let store = InstanceTable::store(&table, &self.store);
        self.answer_from(store, arguments).given()
    }

    #[inline(always)]
    unsafe fn answer_from(
        &self,
        store: &CallStore,
        arguments: &[*mut ffi::PyObject],
    ) -> NewestAnswer {
        let Some(hash) = hash_if_plain(arguments) else {
            return NewestAnswer::Unknown;
        };
        let now_us = self.now_us();
        let mut table = store.table.lock();
        let Some(entry) = table.newest(hash, now_us) else {
            let edition = table.edition();
            return match self.plan.knows_absence() {
                true => NewestAnswer::Absent { hash, edition },
                false => NewestAnswer::Unknown,
            };
        };
        let item = entry.item();
        if !item.key.is_of_plain(arguments) {
            return NewestAnswer::Unknown;
        }
        if !item.is_plain {
            let (item, place) = (item.clone(), entry.place());
            drop(table);
            return match self.answer_apart(store, &item, place, now_us) {
                Some(answer) => NewestAnswer::Given(answer),
                None => NewestAnswer::Unknown,
            };
        }
        let value = item.value.clone();
        entry.hit();
        drop(table);
        self.hits.raise();
        NewestAnswer::Given(match self.plan.is_async {
            true => ready::awaitable(value),
            false => Ok(value),
        })
    }

    /// By an entry that is not handed out as it is, or that a caller may have to refresh.
    #[inline(never)]
    unsafe fn answer_apart(
        &self,
        store: &CallStore,
        item: &KeptEntry,
        place: EntryPlace,
        now_us: u64,
    ) -> Option<Outcome<HeldObject>> {
        // Read first: while a value is copied, this callable may end.
        let is_async = self.plan.is_async;
        if let Some(extras) = &item.extras {
            let is_raised_later = item.isolation == Isolation::Raise && is_async;
            if !extras.is_current() || extras.is_due(now_us) || is_raised_later {
                return None;
            }
        }
        store.table.lock().hit(place);
        self.hits.raise();
        let value = item.answer();
        Some(match is_async {
            true => value.and_then(|value| ready::awaitable(value)),
            false => value,
        })
    }

    fn visit(&self, show: &mut dyn FnMut(&HeldObject)) {
        show(&self.function);
        self.plan.defaults.iter().flatten().for_each(&mut *show);
        let plan = &self.plan;
        let on_evict = &self.store.shared.on_evict;
        let optional = [
            &plan.key,
            &plan.policy,
            &plan.errors,
            &plan.tags_of,
            &plan.codec,
            on_evict,
        ];
        optional.into_iter().flatten().for_each(&mut *show);
        self.store.visit(show);
        self.store.shared.by_address.visit(show);
    }
}

/// The hashes of tags in a tuple or list of texts.
pub unsafe fn tags_in(tags: *mut ffi::PyObject) -> Outcome<Vec<u64>> {
    let tags = HeldObject::owned(ffi::PySequence_Tuple(tags))?;
    let mut hashes = Vec::new();
    for index in 0..api::tuple_len(tags.as_ptr()) {
        let tag = api::tuple_item(tags.as_ptr(), index);
        if ffi::PyUnicode_Check(tag) == 0 {
            let kind = python::type_name(tag);
            return Err(python::raise_type(&format!(
                "a tag must be a str, not {kind}"
            )));
        }
        hashes.push(cache::fingerprint(0, python::text_of(tag)?) as u64);
    }
    Ok(hashes)
}

unsafe extern "C" fn vectorcall(
    cached: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let count = api::positional_count(count);
    let call = GivenCall {
        arguments,
        count,
        names,
    };
    let answer = match inner(cached).answer_at_once(cached, &call) {
        Some(answer) => answer,
        None => answer_by_the_whole_way(cached, &call),
    };
    answer.map_or(std::ptr::null_mut(), HeldObject::into_ptr)
}

#[inline(never)]
unsafe fn answer_by_the_whole_way(
    cached: *mut ffi::PyObject,
    call: &GivenCall,
) -> Outcome<HeldObject> {
    // Held for the call: the body may drop the last name of its own function.
    let _held = HeldObject::borrowed(cached);
    inner(cached).answer(cached, call)
}

unsafe extern "C" fn descr_get(
    cached: *mut ffi::PyObject,
    instance: *mut ffi::PyObject,
    _class: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    if instance.is_null() || instance == ffi::Py_None() {
        return HeldObject::borrowed(cached).into_ptr();
    }
    let parts = [cached, instance];
    let bound = python::known(PythonFunction::Bound)
        .and_then(|class| python::call(class, parts.as_ptr(), parts.len(), std::ptr::null_mut()));
    bound.map_or(std::ptr::null_mut(), HeldObject::into_ptr)
}

unsafe extern "C" fn traverse(
    cached: *mut ffi::PyObject,
    visit: ffi::visitproc,
    extra: *mut c_void,
) -> c_int {
    let object = &*cached.cast::<CachedCallable>();
    let mut stopped = visit(ffi::Py_TYPE(cached).cast(), extra);
    if stopped == 0 && !object.dict.is_null() {
        stopped = visit(object.dict, extra);
    }
    if let Some(inner) = object.inner.as_ref() {
        inner.visit(&mut |held| {
            if stopped == 0 {
                stopped = visit(held.as_ptr(), extra);
            }
        });
    }
    stopped
}

unsafe extern "C" fn clear(cached: *mut ffi::PyObject) -> c_int {
    let object = cached.cast::<CachedCallable>();
    let dict = std::mem::replace(&mut (*object).dict, std::ptr::null_mut());
    drop(HeldObject::owned(dict));
    // The function stays: something may still call this object until it is gone. Without the
    // entries and the dict no cycle through either is left, but one through the function is;
    // that one is broken by the function's own clear.
    if let Some(inner) = (*object).inner.as_ref() {
        drop(inner.store.clear());
        drop(inner.store.shared.by_address.take_all());
    }
    0
}

unsafe extern "C" fn dealloc(cached: *mut ffi::PyObject) {
    ffi::PyObject_GC_UnTrack(cached.cast());
    let object = cached.cast::<CachedCallable>();
    if !(*object).weak.is_null() {
        ffi::PyObject_ClearWeakRefs(cached);
    }
    clear(cached);
    let inner = std::mem::replace(&mut (*object).inner, std::ptr::null_mut());
    if !inner.is_null() {
        drop(Box::from_raw(inner));
    }
    let kind = ffi::Py_TYPE(cached);
    ffi::PyObject_GC_Del(cached.cast());
    ffi::Py_DECREF(kind.cast());
}

/// Makes a callable.
pub unsafe fn create(
    function: HeldObject,
    plan: CachePlan,
    shared: StoreShared,
) -> Outcome<HeldObject> {
    let kind = TYPE.load(Ordering::Acquire);
    let store = CallStore::new(Arc::new(shared));
    let is_simple =
        plan.positional == plan.names.len() && !plan.takes_anything() && plan.key.is_none();
    let inner = Box::new(Inner {
        function,
        is_simple,
        plan,
        store,
        slot_name: AtomicPtr::default(),
        hits: SharedCount::new(0),
        misses: SharedCount::new(0),
        stale_hits: SharedCount::new(0),
        refreshes: SharedCount::new(0),
        refresh_failures: SharedCount::new(0),
    });
    let cached = ffi::PyType_GenericAlloc(kind, 0);
    let cached = HeldObject::owned(cached)?;
    let object = cached.as_ptr().cast::<CachedCallable>();
    (*object).vectorcall = vectorcall;
    (*object).inner = Box::into_raw(inner);
    Ok(cached)
}

/// Has the function pay for others, if it shares bytes with them.
pub unsafe fn join_budget(cached: &HeldObject) -> Outcome<()> {
    match &inner(cached.as_ptr()).store.shared.budget {
        Some(budget) => budget.get().join(cached, PAYER_WAYS),
        None => Ok(()),
    }
}

fn member(name: &'static std::ffi::CStr, offset: usize) -> ffi::PyMemberDef {
    ffi::PyMemberDef {
        name: name.as_ptr(),
        type_code: ffi::Py_T_PYSSIZET,
        offset: offset as isize,
        flags: ffi::Py_READONLY,
        doc: std::ptr::null(),
    }
}

/// Makes the type, once.
pub unsafe fn create_type() -> Outcome<HeldObject> {
    let none = ffi::PyMemberDef {
        name: std::ptr::null(),
        ..member(c"", 0)
    };
    let members = Box::leak(Box::new([
        member(
            c"__vectorcalloffset__",
            std::mem::offset_of!(CachedCallable, vectorcall),
        ),
        member(
            c"__dictoffset__",
            std::mem::offset_of!(CachedCallable, dict),
        ),
        member(
            c"__weaklistoffset__",
            std::mem::offset_of!(CachedCallable, weak),
        ),
        none,
    ]));
    let dict = ffi::PyGetSetDef {
        name: c"__dict__".as_ptr(),
        get: Some(ffi::PyObject_GenericGetDict),
        set: Some(ffi::PyObject_GenericSetDict),
        doc: std::ptr::null(),
        closure: std::ptr::null_mut(),
    };
    let getset = Box::leak(Box::new([dict, ffi::PyGetSetDef::default()]));
    let slot = |slot, pfunc| ffi::PyType_Slot { slot, pfunc };
    let slots = Box::leak(Box::new([
        slot(ffi::Py_tp_call, api::PyVectorcall_Call as *mut c_void),
        slot(ffi::Py_tp_descr_get, descr_get as *mut c_void),
        slot(ffi::Py_tp_traverse, traverse as *mut c_void),
        slot(ffi::Py_tp_clear, clear as *mut c_void),
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(ffi::Py_tp_members, members.as_mut_ptr().cast()),
        slot(ffi::Py_tp_getset, getset.as_mut_ptr().cast()),
        slot(0, std::ptr::null_mut()),
    ]));
    let flags = ffi::Py_TPFLAGS_DEFAULT
        | ffi::Py_TPFLAGS_HAVE_GC
        | ffi::Py_TPFLAGS_HAVE_VECTORCALL
        | ffi::Py_TPFLAGS_METHOD_DESCRIPTOR
        | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION;
    let mut spec = ffi::PyType_Spec {
        name: c"tidemark_cache._native.Cached".as_ptr(),
        basicsize: size_of::<CachedCallable>() as c_int,
        itemsize: 0,
        flags: flags as u32,
        slots: slots.as_mut_ptr(),
    };
    let kind = HeldObject::owned(ffi::PyType_FromSpec(&raw mut spec))?;
    TYPE.store(kind.clone().into_ptr().cast(), Ordering::Release);
    Ok(kind)
}
