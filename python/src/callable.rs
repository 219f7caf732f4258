//! The callable that stands in a decorated function's place.
//!
//! A heap type with a vectorcall slot, since PyO3's own classes have none. Every function here
//! runs on a thread that holds the interpreter, and borrows a table only between calls of it.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;

use crate::bind::{BoundCall, CachePlan, DIRECT_MAX, GivenCall, asked};
use crate::entry::{self, KeptEntry};
use crate::flight::{self, FlightRun, FlightWait, RunEnding};
use crate::instance::InstanceTable;
use crate::isolate;
use crate::key::{AskedKey, BuiltKey, hash_plain, is_plain};
use crate::object::{HeldObject, Outcome, PlainRc, Raised};
use crate::python::{self, PythonFunction};
use crate::ready;
use crate::store::CallStore;

/// Everything of the callable but what the interpreter itself must find.
pub struct Inner {
    /// The decorated function.
    pub function: HeldObject,
    /// What was decided.
    pub plan: CachePlan,
    /// The entries, unless this is a method.
    pub store: CallStore,
    /// The name of the table in an instance's `__dict__`, once this is known to be a method.
    pub slot_name: RefCell<Option<HeldObject>>,
    /// Whether every parameter can be given by position and counts, and there are no others.
    pub is_simple: bool,
    /// Calls answered without running the body.
    pub hits: Cell<u64>,
    /// Calls that were not.
    pub misses: Cell<u64>,
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

unsafe extern "C" {
    // Public since 3.8; PyO3 declares it for some builds only.
    fn PyVectorcall_Call(
        callable: *mut ffi::PyObject,
        arguments: *mut ffi::PyObject,
        names: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject;
}

/// The callable's own part.
#[inline]
pub unsafe fn inner<'a>(cached: *mut ffi::PyObject) -> &'a Inner {
    &*(*cached.cast::<CachedCallable>()).inner
}

impl Inner {
    /// Calls `use_it` with the store and the key of a call, or gives `None` when the function
    /// itself must refuse the call.
    #[inline]
    pub unsafe fn with_key<R>(
        &self,
        call: &GivenCall,
        use_it: impl FnOnce(&CallStore, &AskedKey<'_>, u64) -> Outcome<R>,
    ) -> Outcome<Option<R>> {
        let is_method = self.slot_name.borrow().is_some();
        if !is_method {
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
        use_it: impl FnOnce(&CallStore, &AskedKey<'_>, u64) -> Outcome<R>,
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
        let Some(asked) = asked(&bound)? else {
            return Ok(None);
        };
        let hash = asked.hash()?;
        use_it(store, &asked, hash).map(Some)
    }

    /// The table of an instance, for a method.
    #[inline]
    pub unsafe fn instance_table(&self, instance: *mut ffi::PyObject) -> Outcome<HeldObject> {
        // Held apart: making a table runs the interpreter, and may run `mark_method` again.
        let name = self.slot_name.borrow().clone();
        let name = name.ok_or_else(|| python::raise_type("this function is not a method"))?;
        InstanceTable::of(&self.store, self.plan.entries_max, &name, instance)
    }

    /// Now, for functions whose entries have a lifetime.
    #[inline]
    pub fn now_us(&self) -> u64 {
        match self.plan.lifetime_us.is_some() || self.plan.policy.is_some() {
            true => python::now_us(),
            false => 0,
        }
    }

    /// The answer to a call whose arguments are plain and that is bound by comparing pointers, if
    /// the first entry of its hash is the one: what nearly every hit is. `None` says nothing: the
    /// whole way has to be taken.
    #[inline]
    unsafe fn answer_at_once(&self, call: &GivenCall) -> Option<Outcome<HeldObject>> {
        if !self.is_simple {
            return None;
        }
        let is_in_order = call.names.is_null() && call.count == self.plan.names.len();
        if is_in_order && self.slot_name.borrow().is_none() {
            return self.answer_from(&self.store, call.slice(0));
        }
        self.answer_in_order(call)
    }

    /// Apart, so that the shortest way stays short.
    #[inline(never)]
    unsafe fn answer_in_order(&self, call: &GivenCall) -> Option<Outcome<HeldObject>> {
        let wanted = self.plan.names.len();
        if wanted > DIRECT_MAX {
            return None;
        }
        let mut ordered = [std::ptr::null_mut(); DIRECT_MAX];
        let arguments = if call.names.is_null() && call.count == wanted {
            call.slice(0)
        } else {
            self.plan.order(call, &mut ordered)?;
            &ordered[..wanted]
        };
        let slot_name = self.slot_name.borrow().as_ref().map(HeldObject::as_ptr);
        let Some(slot_name) = slot_name else {
            return self.answer_from(&self.store, arguments);
        };
        let (instance, arguments) = arguments.split_first()?;
        let table = InstanceTable::existing(slot_name, *instance)?;
        let store = InstanceTable::store(&table, &self.store);
        self.answer_from(store, arguments)
    }

    #[inline(always)]
    unsafe fn answer_from(
        &self,
        store: &CallStore,
        arguments: &[*mut ffi::PyObject],
    ) -> Option<Outcome<HeldObject>> {
        if !arguments.iter().all(|argument| is_plain(*argument)) {
            return None;
        }
        let hash = hash_plain(arguments);
        let entry = store.table.borrow().probe(hash, self.now_us()).first?;
        let is_equal = matches!(AskedKey::Plain(arguments).equals(&entry.item.key), Ok(true));
        let tokens = entry.item.tokens.as_ref();
        if !is_equal || tokens.is_some_and(|tokens| !entry::tags_are_current(tokens)) {
            return None;
        }
        store.table.borrow_mut().hit(entry.place);
        self.hits.set(self.hits.get() + 1);
        let value = entry.item.answer();
        Some(match self.plan.is_async {
            true => value.and_then(|value| ready::awaitable(value)),
            false => value,
        })
    }

    unsafe fn answer(&self, cached: *mut ffi::PyObject, call: &GivenCall) -> Outcome<HeldObject> {
        let found = self.with_key(call, |store, asked, hash| {
            if let Some(entry) = store.find_current(hash, asked, self.now_us())? {
                store.table.borrow_mut().hit(entry.place);
                self.hits.set(self.hits.get() + 1);
                let value = entry.item.answer()?;
                return match self.plan.is_async {
                    true => ready::awaitable(value).map(Some),
                    false => Ok(Some(value)),
                };
            }
            match self.plan.is_async {
                true => Ok(None),
                false => self.miss(store, asked, hash, call).map(Some),
            }
        })?;
        match found {
            Some(Some(value)) => Ok(value),
            Some(None) => self.miss_in_loop(cached, call),
            None => call.run(self.function.as_ptr()),
        }
    }

    unsafe fn miss(
        &self,
        store: &CallStore,
        asked: &AskedKey<'_>,
        hash: u64,
        call: &GivenCall,
    ) -> Outcome<HeldObject> {
        let run = loop {
            let editions = store.editions();
            if let Some(entry) = store.find_current(hash, asked, self.now_us())? {
                self.hits.set(self.hits.get() + 1);
                return entry.item.answer();
            }
            let Some(run) = FlightRun::find(&store.runs, hash, asked)? else {
                // A comparison may have run Python code, in which another thread got ahead.
                if store.editions() != editions {
                    continue;
                }
                break FlightRun::begin(&store.runs, hash, asked);
            };
            match run.wait(self.plan.flight_wait)? {
                FlightWait::Ended(RunEnding::Value(entry)) => {
                    self.hits.set(self.hits.get() + 1);
                    return entry.answer();
                }
                FlightWait::Ended(RunEnding::Raised(raised)) => {
                    let kind = ffi::Py_TYPE(raised.as_ptr()).cast();
                    ffi::PyErr_SetObject(kind, raised.as_ptr());
                    return Err(Raised);
                }
                FlightWait::Unshared => {
                    self.misses.set(self.misses.get() + 1);
                    return call.run(self.function.as_ptr());
                }
                FlightWait::Abandoned => {}
            }
        };
        self.misses.set(self.misses.get() + 1);
        let led = self.lead(store, asked, hash, call, &run);
        match led {
            Ok((value, entry)) => {
                run.end(&store.runs, Some(RunEnding::Value(entry)));
                Ok(value)
            }
            Err(Raised) => {
                let ending = take_exception();
                let shared = ending.as_ref().filter(|raised| {
                    // Ctrl-C and the end of a thread are this caller's alone.
                    ffi::PyObject_IsInstance(raised.as_ptr(), ffi::PyExc_Exception) == 1
                });
                run.end(&store.runs, shared.cloned().map(RunEnding::Raised));
                if let Some(raised) = ending {
                    let kind = ffi::Py_TYPE(raised.as_ptr()).cast();
                    ffi::PyErr_SetObject(kind, raised.as_ptr());
                }
                Err(Raised)
            }
        }
    }

    unsafe fn lead(
        &self,
        store: &CallStore,
        asked: &AskedKey<'_>,
        hash: u64,
        call: &GivenCall,
        run: &std::rc::Rc<FlightRun>,
    ) -> Outcome<(HeldObject, PlainRc<KeptEntry>)> {
        let generation = store.generation.get();
        let tags = self.tag_hashes(call)?;
        let tokens = entry::tag_tokens(&tags);
        run.set_tokens(tokens.clone());
        let entered = flight::enter(run)?;
        let value = call.run(self.function.as_ptr());
        flight::leave(entered);
        let value = value?;
        let (kept, isolation) = isolate::kept(&value, self.plan.copy_mode)?;
        let key = asked.held();
        let entry = PlainRc::new(KeptEntry {
            key,
            value: kept,
            isolation,
            tokens,
        });
        let lifetime = self.lifetime(&value)?;
        let is_current = !run.is_detached()
            && store.generation.get() == generation
            && entry
                .tokens
                .as_ref()
                .is_none_or(|tokens| entry::tags_are_current(tokens));
        if let (true, Some(lifetime)) = (is_current, lifetime) {
            store.insert(hash, entry.clone(), self.now_us(), lifetime)?;
        }
        Ok((value, entry))
    }

    /// The tags of a call.
    pub unsafe fn tag_hashes(&self, call: &GivenCall) -> Outcome<Vec<u64>> {
        let Some(tags_of) = &self.plan.tags_of else {
            return Ok(self.plan.tags.clone());
        };
        let more = call.run(tags_of.as_ptr())?;
        let mut hashes = self.plan.tags.clone();
        hashes.extend(tags_in(more.as_ptr())?);
        Ok(hashes)
    }

    /// `None` when the result is not to be stored; `Some(None)` when it never expires.
    pub unsafe fn lifetime(&self, value: &HeldObject) -> Outcome<Option<Option<u64>>> {
        let Some(policy) = &self.plan.policy else {
            return Ok(Some(self.plan.lifetime_us));
        };
        let seconds = HeldObject::owned(ffi::PyObject_CallOneArg(policy.as_ptr(), value.as_ptr()))?;
        if seconds.as_ptr() == ffi::Py_None() {
            return Ok(Some(self.plan.lifetime_us));
        }
        let seconds = ffi::PyFloat_AsDouble(seconds.as_ptr());
        if !ffi::PyErr_Occurred().is_null() {
            return Err(Raised);
        }
        Ok((seconds > 0.0).then_some(Some((seconds * 1e6) as u64)))
    }

    unsafe fn miss_in_loop(
        &self,
        cached: *mut ffi::PyObject,
        call: &GivenCall,
    ) -> Outcome<HeldObject> {
        let arguments = HeldObject::owned(ffi::PyTuple_New(call.count as isize))?;
        for (index, argument) in call.slice(0).iter().enumerate() {
            let argument = HeldObject::borrowed(*argument).into_ptr();
            ffi::PyTuple_SetItem(arguments.as_ptr(), index as isize, argument);
        }
        let names = HeldObject::owned(ffi::PyDict_New())?;
        for (name, value) in call.by_name() {
            if ffi::PyDict_SetItem(names.as_ptr(), name, value) != 0 {
                return Err(Raised);
            }
        }
        let parts = [cached, arguments.as_ptr(), names.as_ptr()];
        let miss = python::known(PythonFunction::AsyncMiss);
        python::call(miss, parts.as_ptr(), parts.len(), std::ptr::null_mut())
    }

    fn visit(&self, show: &mut dyn FnMut(&HeldObject)) {
        show(&self.function);
        self.plan.defaults.iter().flatten().for_each(&mut *show);
        let optional = [&self.plan.key, &self.plan.policy, &self.plan.tags_of];
        optional.into_iter().flatten().for_each(&mut *show);
        self.store.visit(show);
    }
}

/// The hashes of tags in a tuple or list of texts.
pub unsafe fn tags_in(tags: *mut ffi::PyObject) -> Outcome<Vec<u64>> {
    let tags = HeldObject::owned(ffi::PySequence_Tuple(tags))?;
    let mut hashes = Vec::new();
    for index in 0..ffi::PyTuple_GET_SIZE(tags.as_ptr()) {
        let tag = ffi::PyTuple_GET_ITEM(tags.as_ptr(), index);
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

unsafe fn take_exception() -> Option<HeldObject> {
    let mut kind = std::ptr::null_mut();
    let (mut value, mut trace) = (kind, kind);
    ffi::PyErr_Fetch(&raw mut kind, &raw mut value, &raw mut trace);
    ffi::PyErr_NormalizeException(&raw mut kind, &raw mut value, &raw mut trace);
    if !trace.is_null() {
        ffi::PyException_SetTraceback(value, trace);
    }
    drop((HeldObject::owned(kind), HeldObject::owned(trace)));
    HeldObject::owned(value).ok()
}

unsafe extern "C" fn vectorcall(
    cached: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let count = ffi::PyVectorcall_NARGS(count) as usize;
    let call = GivenCall {
        arguments,
        count,
        names,
    };
    // Held for the call: the body may drop the last name of its own function.
    let held = HeldObject::borrowed(cached);
    let inner = inner(cached);
    let answer = match inner.answer_at_once(&call) {
        Some(answer) => answer,
        None => inner.answer(cached, &call),
    };
    drop(held);
    answer.map_or(std::ptr::null_mut(), HeldObject::into_ptr)
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
    let bound = python::call(
        python::known(PythonFunction::Bound),
        parts.as_ptr(),
        parts.len(),
        std::ptr::null_mut(),
    );
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
        inner.store.clear();
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
pub unsafe fn create(function: HeldObject, plan: CachePlan) -> Outcome<HeldObject> {
    let kind = TYPE.load(Ordering::Acquire);
    let store = CallStore::new(plan.entries_max);
    let is_simple =
        plan.positional == plan.names.len() && !plan.takes_anything() && plan.key.is_none();
    let inner = Box::new(Inner {
        function,
        is_simple,
        plan,
        store,
        slot_name: RefCell::new(None),
        hits: Cell::new(0),
        misses: Cell::new(0),
    });
    let cached = ffi::PyType_GenericAlloc(kind, 0);
    let cached = HeldObject::owned(cached)?;
    let object = cached.as_ptr().cast::<CachedCallable>();
    (*object).vectorcall = vectorcall;
    (*object).inner = Box::into_raw(inner);
    Ok(cached)
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
        slot(ffi::Py_tp_call, PyVectorcall_Call as *mut c_void),
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
