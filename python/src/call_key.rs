//! One call's key as an object of Python: what everything but the call itself goes through.

use cache::EntryPlace;
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use ring::digest::{Context, SHA256};
use tiers::NAME_BYTES;

use crate::api;
use crate::bind::GivenCall;
use crate::callable::{self, Inner};
use crate::entry::KeptEntry;
use crate::guard::{Guarded, SharedCount};
use crate::key::{BuiltKey, HeldKey, LookupKey};
use crate::miss::{BodyStart, EntryUse, MissedCall};
use crate::object::{HeldObject, Outcome, PlainRc, Raised};
use crate::redis_tier::SharedRedis;
use crate::store::{CallStore, EntryRenewal, EntryWay, FoundEntry};
use crate::{owned, predicate, raised, to_python};

/// What a key is made of.
pub struct KeyParts {
    /// The callable.
    pub cached: HeldObject,
    /// Of a method.
    pub instance: Option<HeldObject>,
    /// The hash of `key`.
    pub hash: u64,
    /// The arguments that count.
    pub key: HeldKey,
    /// Those that were given by position.
    pub arguments: HeldObject,
    /// Those that were given by name.
    pub names: HeldObject,
    /// The edition of the table at which no entry of this key was there.
    pub absent_at: Option<u64>,
}

/// The key of one call of one function (or method of one instance).
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct CallKey(AttachedKey);

struct AttachedKey {
    parts: KeyParts,
    begun: Guarded<Option<BodyStart>>,
    /// The entry that a refresh started from.
    place: Guarded<Option<EntryPlace>>,
    /// Set once an invalidation meant this call: what its run gives is not stored.
    detached: SharedCount,
}

/// A tuple and a dict of arguments, laid out for a vectorcall.
unsafe fn laid_out<R>(
    arguments: *mut ffi::PyObject,
    names: *mut ffi::PyObject,
    use_it: impl FnOnce(&GivenCall) -> Outcome<R>,
) -> Outcome<R> {
    let count = api::tuple_len(arguments) as usize;
    let items = (0..count).map(|index| api::tuple_item(arguments, index as isize));
    let mut all: Vec<_> = items.collect();
    if ffi::PyDict_Size(names) == 0 {
        return use_it(&GivenCall {
            arguments: all.as_ptr(),
            count,
            names: std::ptr::null_mut(),
        });
    }
    let keys = HeldObject::owned(ffi::PyDict_Keys(names))?;
    let keys = HeldObject::owned(ffi::PySequence_Tuple(keys.as_ptr()))?;
    for index in 0..api::tuple_len(keys.as_ptr()) {
        let name = api::tuple_item(keys.as_ptr(), index);
        all.push(ffi::PyDict_GetItemWithError(names, name));
    }
    use_it(&GivenCall {
        arguments: all.as_ptr(),
        count,
        names: keys.as_ptr(),
    })
}

impl CallKey {
    fn new(parts: KeyParts) -> CallKey {
        CallKey(AttachedKey {
            parts,
            begun: Guarded::default(),
            place: Guarded::default(),
            detached: SharedCount::default(),
        })
    }

    /// The key as an object.
    pub unsafe fn object(parts: KeyParts) -> Outcome<HeldObject> {
        let py = Python::assume_attached();
        match Py::new(py, CallKey::new(parts)) {
            Ok(key) => HeldObject::owned(key.into_ptr()),
            Err(error) => {
                error.restore(py);
                Err(Raised)
            }
        }
    }

    /// Calls the function as it was called.
    pub fn run_body<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let function = self.inner().function.as_ptr();
        let (arguments, names) = (&self.0.parts.arguments, &self.0.parts.names);
        unsafe {
            let given = ffi::PyObject_Call(function, arguments.as_ptr(), names.as_ptr());
            Bound::from_owned_ptr_or_err(py, given)
        }
    }

    fn inner(&self) -> &Inner {
        unsafe { callable::inner(self.0.parts.cached.as_ptr()) }
    }

    /// Whether the table is as it was when it had no entry of this key.
    fn is_known_absent(&self, store: &CallStore) -> bool {
        let absent_at = self.0.parts.absent_at;
        absent_at.is_some_and(|absent_at| store.table.lock().edition() == absent_at)
    }

    unsafe fn with_store<R>(&self, use_it: impl FnOnce(&CallStore) -> Outcome<R>) -> Outcome<R> {
        let inner = self.inner();
        match &self.0.parts.instance {
            None => use_it(&inner.store),
            Some(instance) => {
                let table = inner.instance_table(instance.as_ptr())?;
                use_it(crate::instance::InstanceTable::store(&table, &inner.store))
            }
        }
    }
}

impl CallKey {
    /// Gives the entry of this call, if there is one whose tags are current.
    unsafe fn with_entry<R>(
        &self,
        use_it: impl FnOnce(&CallStore, &FoundEntry) -> Outcome<R>,
    ) -> Outcome<Option<R>> {
        let inner = self.inner();
        self.with_store(|store| {
            if self.is_known_absent(store) {
                return Ok(None);
            }
            let parts = &self.0.parts;
            let found = parts
                .key
                .with_lookup(|lookup| store.find_current(parts.hash, lookup, inner.now_us()))?;
            found.map(|entry| use_it(store, &entry)).transpose()
        })
    }

    unsafe fn canonical_bytes(&self) -> Outcome<Vec<u8>> {
        self.0.parts.key.with_lookup(|lookup| match lookup {
            LookupKey::Built(key) => key.canonical(),
            LookupKey::Plain(arguments) => {
                let mut key = BuiltKey::default();
                for argument in *arguments {
                    key.encode(*argument)?;
                }
                key.canonical()
            }
        })
    }

    fn may_keep(&self, store: &CallStore) -> bool {
        let begun = self.0.begun.lock();
        let start = begun.as_ref();
        self.0.detached.get() == 0
            && start.is_none_or(|start| self.inner().is_current(store, start))
    }
}

impl CallKey {
    /// Keeps `value`, if it may be kept and in the place of the entry of `start_refresh` if
    /// `only_there`, and gives what makes copies of it for callers.
    pub fn kept(&self, value: &Bound<'_, PyAny>, only_there: bool) -> Outcome<PlainRc<KeptEntry>> {
        let inner = self.inner();
        let only = self.0.place.lock().filter(|_| only_there);
        unsafe {
            self.with_store(|store| {
                let start = self.0.begun.lock().take().unwrap_or_default();
                let key = self.0.parts.key.clone();
                let (entry, lifetime) = inner.kept(&owned(value), key, &start)?;
                *self.0.begun.lock() = Some(start);
                if let Some(lifetime) = lifetime {
                    let may_keep = || self.may_keep(store);
                    let stored = entry.clone();
                    let way = EntryWay {
                        only,
                        absent_at: self.0.parts.absent_at,
                    };
                    inner.store_entry(store, self.0.parts.hash, stored, lifetime, way, may_keep)?;
                }
                Ok(entry)
            })
        }
    }
}

#[pymethods]
impl CallKey {
    /// Binds the call; None when the function itself must refuse it.
    #[staticmethod]
    pub fn of(
        cached: &Bound<'_, PyAny>,
        arguments: &Bound<'_, PyTuple>,
        names: &Bound<'_, PyDict>,
    ) -> PyResult<Option<CallKey>> {
        let py = cached.py();
        let inner = unsafe { callable::inner(cached.as_ptr()) };
        let found = unsafe {
            laid_out(arguments.as_ptr(), names.as_ptr(), |call| {
                inner.with_key(call, |_, lookup, hash| Ok((hash, lookup.held())))
            })
        };
        let instance = if inner.is_method() {
            arguments.get_item(0).ok()
        } else {
            None
        };
        Ok(raised(py, found)?.map(|(hash, key)| {
            CallKey::new(KeyParts {
                cached: owned(cached),
                instance: instance.as_ref().map(owned),
                hash,
                key,
                arguments: owned(arguments.as_any()),
                names: owned(names.as_any()),
                absent_at: None,
            })
        }))
    }

    /// `(value,)`, or None. Counts as a hit if `counted`.
    fn find(&self, py: Python<'_>, counted: bool) -> PyResult<Option<(Py<PyAny>,)>> {
        let inner = self.inner();
        let value = unsafe {
            self.with_entry(|store, entry| {
                let good_for = inner.use_of(entry, inner.now_us());
                if good_for == EntryUse::OnError {
                    return Ok(None);
                }
                match counted {
                    true => inner.serve(store, entry),
                    false => entry.item.answer(),
                }
                .map(Some)
            })
        };
        let value = raised(py, value)?.flatten();
        Ok(value.map(|value| (to_python(py, value),)))
    }

    /// What of an old value may stand in for a body that failed: `(value,)`, or None.
    fn stand_in(&self, py: Python<'_>) -> PyResult<Option<(Py<PyAny>,)>> {
        let inner = self.inner();
        let value = unsafe {
            self.with_store(|store| {
                let parts = &self.0.parts;
                let found = parts
                    .key
                    .with_lookup(|lookup| inner.stand_in(store, lookup, parts.hash))?;
                found.map(|entry| inner.serve(store, &entry)).transpose()
            })
        };
        Ok(raised(py, value)?.map(|value| (to_python(py, value),)))
    }

    /// Whether the call would be answered, without a copy of the answer.
    pub fn contains(&self, py: Python<'_>) -> PyResult<bool> {
        let inner = self.inner();
        let found = unsafe { self.with_entry(|_, entry| Ok(inner.use_of(entry, inner.now_us()))) };
        Ok(raised(py, found)?.is_some_and(|good_for| good_for != EntryUse::OnError))
    }

    /// Whether memory has an answer, whether or not its time is over: it may be kept for longer.
    fn is_held(&self, py: Python<'_>) -> PyResult<bool> {
        let inner = self.inner();
        let found = unsafe {
            self.with_store(|store| {
                let parts = &self.0.parts;
                let held =
                    |lookup: &LookupKey<'_>| store.find_held(parts.hash, lookup, inner.now_us());
                Ok(parts.key.with_lookup(held)?.is_some())
            })
        };
        raised(py, found)
    }

    /// Remembers the entry there is now as the one that a refresh starts from. False without one.
    fn start_refresh(&self, py: Python<'_>) -> PyResult<bool> {
        let place = unsafe { self.with_entry(|_, entry| Ok(entry.place)) };
        let place = raised(py, place)?;
        *self.0.place.lock() = place;
        Ok(place.is_some())
    }

    /// Runs the body, with these arguments in the place of the call's own, and stores what it
    /// gives: in the place of the entry of `start_refresh` if `only_there`. None if another run is
    /// under way, or that entry has left.
    fn refresh(
        &self,
        py: Python<'_>,
        arguments: &Bound<'_, PyTuple>,
        names: &Bound<'_, PyDict>,
        only_there: bool,
    ) -> PyResult<Option<(Py<PyAny>,)>> {
        let inner = self.inner();
        let place = *self.0.place.lock();
        let value = unsafe {
            self.with_store(|store| {
                laid_out(arguments.as_ptr(), names.as_ptr(), |call| {
                    self.0.parts.key.with_lookup(|lookup| {
                        let missed = MissedCall {
                            store,
                            lookup,
                            hash: self.0.parts.hash,
                            call,
                            runs_seen: None,
                            absent_at: None,
                        };
                        inner.refresh(missed, place.filter(|_| only_there))
                    })
                })
            })
        };
        Ok(raised(py, value)?.map(|value| (to_python(py, value),)))
    }

    /// Begins the lifetime of the entry again. Whether there is one.
    fn touch(&self, py: Python<'_>, lifetime_us: u64) -> PyResult<bool> {
        let inner = self.inner();
        let touched = unsafe {
            self.with_entry(|store, entry| {
                Ok(inner.prolong(store, entry.place, &entry.item, lifetime_us))
            })
        };
        Ok(raised(py, touched)?.unwrap_or(false))
    }

    /// The canonical bytes of the arguments: the same in every process.
    fn canonical<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = unsafe { self.canonical_bytes() };
        Ok(PyBytes::new(py, &raised(py, bytes)?))
    }

    /// What stands for the call in tiers: a digest that no other call of any
    /// function can be given. `of_calls` is the identity of this one, and behind it what its
    /// digests are to begin with.
    fn digest<'py>(&self, py: Python<'py>, of_calls: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let (identity, start) = of_calls.split_at(of_calls.len().min(NAME_BYTES));
        let bytes = unsafe { self.canonical_bytes() };
        let mut whole = Context::new(&SHA256);
        whole.update(identity);
        whole.update(&raised(py, bytes)?);
        let digest = whole.finish();
        if start.is_empty() {
            return Ok(PyBytes::new(py, digest.as_ref()));
        }
        Ok(PyBytes::new(py, &[start, digest.as_ref()].concat()))
    }

    /// The arguments in the order of the parameters, defaults included; None if one of them is of
    /// another type than those that are compared as they are.
    fn plain_arguments<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        predicate::plain_arguments(py, &self.0.parts.key)
    }

    /// Whether this is a call of that instance's method.
    fn is_of(&self, instance: &Bound<'_, PyAny>) -> bool {
        let mine = self.0.parts.instance.as_ref();
        mine.is_some_and(|mine| mine.as_ptr() == instance.as_ptr())
    }

    /// To be called before the body runs, so that an invalidation meanwhile counts. Counts as a
    /// miss if `counted`.
    pub fn begin(&self, py: Python<'_>, counted: bool) -> PyResult<()> {
        let inner = self.inner();
        let begun = unsafe {
            self.with_store(|store| {
                if inner.plan.tags_of.is_none() {
                    return Ok(inner.start_of_any(store));
                }
                let parts = &self.0.parts;
                let (arguments, names) = (parts.arguments.as_ptr(), parts.names.as_ptr());
                laid_out(arguments, names, |call| inner.start(store, call))
            })
        };
        if counted {
            inner.misses.raise();
        }
        let begun = raised(py, begun)?;
        let before = self.0.begun.lock().replace(begun);
        drop(before);
        Ok(())
    }

    /// Whether nothing that the run began with was invalidated since.
    pub fn is_current(&self, py: Python<'_>) -> PyResult<bool> {
        raised(py, unsafe {
            self.with_store(|store| Ok(self.may_keep(store)))
        })
    }

    /// Lets this call's run store nothing.
    fn detach(&self) {
        self.0.detached.set(1);
    }

    /// Keeps `value`, if it may be kept, and gives what makes copies of it for callers.
    fn keep(&self, value: &Bound<'_, PyAny>) -> PyResult<KeptValue> {
        raised(value.py(), self.kept(value, false)).map(KeptValue)
    }

    /// Stores an exception, if the function's settings say so.
    fn keep_error(&self, error: &Bound<'_, PyAny>) -> PyResult<()> {
        let inner = self.inner();
        let kept = unsafe {
            self.with_store(|store| {
                let key = self.0.parts.key.clone();
                let may_keep = || self.may_keep(store);
                inner.keep_error(store, self.0.parts.hash, key, &owned(error), may_keep)
            })
        };
        raised(error.py(), kept)
    }

    /// Says how a refresh of an async function ended.
    pub fn count_refresh(&self, is_whole: bool) {
        let inner = self.inner();
        match is_whole {
            true => inner.refreshes.raise(),
            false => inner.refresh_failures.raise(),
        }
    }

    /// Takes the entry out, and lets no run of now store its value. Whether there was an entry.
    fn invalidate(&self, py: Python<'_>) -> PyResult<bool> {
        let is_gone = unsafe {
            self.with_store(|store| {
                let parts = &self.0.parts;
                parts.key.with_lookup(|lookup| {
                    while let Some(run) = store.runs.find(parts.hash, lookup)? {
                        store.runs.detach(run.number);
                    }
                    let found = store.find(parts.hash, lookup, 0)?;
                    Ok(found.is_some_and(|entry| store.remove(entry.place)))
                })
            })
        };
        raised(py, is_gone)
    }

    fn __hash__(&self) -> u64 {
        self.0.parts.hash
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(other) = other.cast::<CallKey>() else {
            return Ok(false);
        };
        let (mine, other) = (&self.0.parts, &other.get().0.parts);
        let instance = |key: &KeyParts| key.instance.as_ref().map(HeldObject::as_ptr);
        if mine.hash != other.hash
            || mine.cached.as_ptr() != other.cached.as_ptr()
            || instance(mine) != instance(other)
        {
            return Ok(false);
        }
        raised(py, unsafe {
            mine.key.with_lookup(|lookup| lookup.equals(&other.key))
        })
    }

    /// No `__clear__`: a key is whole before anything can hold it, so a cycle through it was closed
    /// in another object, where the collector opens it.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let key = &self.0.parts;
        let mut shown = Ok(());
        key.key.visit(&mut |held| {
            if shown.is_ok() {
                shown = held.show(&visit);
            }
        });
        shown?;
        let rest = [&key.cached, &key.arguments, &key.names];
        let mut rest = rest.into_iter().chain(&key.instance);
        rest.try_for_each(|held| held.show(&visit))
    }
}

/// A value of which every waiter gets a copy of its own.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct KeptValue(PlainRc<KeptEntry>);

#[pymethods]
impl KeptValue {
    fn answer(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(to_python(py, raised(py, unsafe { self.0.answer() })?))
    }
}

unsafe fn with_store_of<R>(
    cached: &Bound<'_, PyAny>,
    instance: Option<&Bound<'_, PyAny>>,
    use_it: impl FnOnce(&CallStore) -> R,
) -> Outcome<R> {
    let inner = callable::inner(cached.as_ptr());
    let Some(instance) = instance else {
        return Ok(use_it(&inner.store));
    };
    let table = inner.instance_table(instance.as_ptr())?;
    let store = crate::instance::InstanceTable::store(&table, &inner.store);
    Ok(use_it(store))
}

/// Takes every entry out; of one instance, if there is one.
#[pyfunction]
#[pyo3(signature = (cached, instance=None))]
pub fn clear(cached: &Bound<'_, PyAny>, instance: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let cleared = unsafe { with_store_of(cached, instance, |store| store.clear_notifying()) };
    raised(cached.py(), cleared)
}

/// Hits, misses, stale hits, refreshes, failed refreshes, evicted and expired entries, bytes, and
/// how often an entry was kept past its time.
#[pyfunction]
pub fn counts(cached: &Bound<'_, PyAny>) -> [u64; 9] {
    let inner = unsafe { callable::inner(cached.as_ptr()) };
    let shared = &inner.store.shared;
    [
        &inner.hits,
        &inner.misses,
        &inner.stale_hits,
        &inner.refreshes,
        &inner.refresh_failures,
        &shared.evicted,
        &shared.expired,
        &shared.bytes,
        &shared.renewed,
    ]
    .map(SharedCount::get)
}

/// Has entries stay in memory for as long as the stream of this tier says that they are right, and
/// `span_ms` more.
#[pyfunction]
pub fn renew_by(cached: &Bound<'_, PyAny>, server: &Bound<'_, SharedRedis>, span_ms: u64) {
    let inner = unsafe { callable::inner(cached.as_ptr()) };
    let server = server.get();
    // That of a parent process is as good: the tier tells processes apart.
    let _ = inner.store.shared.renewal.set(EntryRenewal {
        tier: server.tier.clone(),
        host: server.host,
        span_ms,
    });
}

/// Entries held, those past their lifetime included that nothing has met yet; of one instance, if
/// there is one.
#[pyfunction]
#[pyo3(signature = (cached, instance=None))]
pub fn entries(cached: &Bound<'_, PyAny>, instance: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
    let count = unsafe { with_store_of(cached, instance, |store| store.table.lock().entries()) };
    raised(cached.py(), count)
}
