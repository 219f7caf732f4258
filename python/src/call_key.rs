//! One call's key as an object of Python: what everything but the call itself goes through.

use std::cell::RefCell;

use cache::TagTokens;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::bind::GivenCall;
use crate::callable::{self, Inner};
use crate::entry::{self, KeptEntry};
use crate::flight::FlightRun;
use crate::isolate;
use crate::key::HeldKey;
use crate::object::{HeldObject, Outcome, PlainRc};
use crate::store::CallStore;
use crate::{owned, raised, to_python};

/// The key of one call of one function (or method of one instance).
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct CallKey(AttachedKey);

struct AttachedKey {
    cached: HeldObject,
    instance: Option<HeldObject>,
    hash: u64,
    key: HeldKey,
    arguments: HeldObject,
    names: HeldObject,
    begun: RefCell<Option<BegunRun>>,
}

/// What was true before a body ran.
struct BegunRun {
    generation: u64,
    tokens: Option<Box<TagTokens>>,
}

// Used and dropped only by threads that hold the interpreter's lock, which this module keeps on.
unsafe impl Send for AttachedKey {}
unsafe impl Sync for AttachedKey {}

/// A tuple and a dict of arguments, laid out for a vectorcall.
unsafe fn laid_out<R>(
    arguments: *mut ffi::PyObject,
    names: *mut ffi::PyObject,
    use_it: impl FnOnce(&GivenCall) -> Outcome<R>,
) -> Outcome<R> {
    let count = ffi::PyTuple_GET_SIZE(arguments) as usize;
    let items = (0..count).map(|index| ffi::PyTuple_GET_ITEM(arguments, index as isize));
    let mut all: Vec<_> = items.collect();
    let keys = HeldObject::owned(ffi::PyDict_Keys(names))?;
    let keys = HeldObject::owned(ffi::PySequence_Tuple(keys.as_ptr()))?;
    for index in 0..ffi::PyTuple_GET_SIZE(keys.as_ptr()) {
        let name = ffi::PyTuple_GET_ITEM(keys.as_ptr(), index);
        all.push(ffi::PyDict_GetItemWithError(names, name));
    }
    use_it(&GivenCall {
        arguments: all.as_ptr(),
        count,
        names: keys.as_ptr(),
    })
}

impl CallKey {
    fn inner(&self) -> &Inner {
        unsafe { callable::inner(self.0.cached.as_ptr()) }
    }

    unsafe fn with_store<R>(&self, use_it: impl FnOnce(&CallStore) -> Outcome<R>) -> Outcome<R> {
        let inner = self.inner();
        match &self.0.instance {
            None => use_it(&inner.store),
            Some(instance) => {
                let table = inner.instance_table(instance.as_ptr())?;
                use_it(crate::instance::InstanceTable::store(&table, &inner.store))
            }
        }
    }
}

#[pymethods]
impl CallKey {
    /// Binds the call; None when the function itself must refuse it.
    #[staticmethod]
    fn of(
        cached: &Bound<'_, PyAny>,
        arguments: &Bound<'_, PyTuple>,
        names: &Bound<'_, PyDict>,
    ) -> PyResult<Option<CallKey>> {
        let py = cached.py();
        let inner = unsafe { callable::inner(cached.as_ptr()) };
        let found = unsafe {
            laid_out(arguments.as_ptr(), names.as_ptr(), |call| {
                inner.with_key(call, |_, asked, hash| Ok((hash, asked.held())))
            })
        };
        let is_method = inner.slot_name.borrow().is_some();
        let instance = if is_method {
            arguments.get_item(0).ok()
        } else {
            None
        };
        Ok(raised(py, found)?.map(|(hash, key)| {
            CallKey(AttachedKey {
                cached: owned(cached),
                instance: instance.as_ref().map(owned),
                hash,
                key,
                arguments: owned(arguments.as_any()),
                names: owned(names.as_any()),
                begun: RefCell::new(None),
            })
        }))
    }

    /// `(value,)`, or None. Counts as a hit if `counted`.
    fn find(&self, py: Python<'_>, counted: bool) -> PyResult<Option<(Py<PyAny>,)>> {
        let inner = self.inner();
        let value = unsafe {
            self.with_store(|store| {
                let found = self
                    .0
                    .key
                    .with_asked(|asked| store.find_current(self.0.hash, asked, inner.now_us()))?;
                let Some(entry) = found else {
                    return Ok(None);
                };
                if counted {
                    store.table.borrow_mut().hit(entry.place);
                    inner.hits.set(inner.hits.get() + 1);
                }
                entry.item.answer().map(Some)
            })
        };
        Ok(raised(py, value)?.map(|value| (to_python(py, value),)))
    }

    /// Whether the call would be answered, without a copy of the answer.
    fn contains(&self, py: Python<'_>) -> PyResult<bool> {
        let inner = self.inner();
        let found = unsafe {
            self.with_store(|store| {
                self.0
                    .key
                    .with_asked(|asked| store.find_current(self.0.hash, asked, inner.now_us()))
            })
        };
        Ok(raised(py, found)?.is_some())
    }

    /// Whether this is a call of that instance's method.
    fn is_of(&self, instance: &Bound<'_, PyAny>) -> bool {
        let mine = self.0.instance.as_ref();
        mine.is_some_and(|mine| mine.as_ptr() == instance.as_ptr())
    }

    /// To be called before the body runs, so that an invalidation meanwhile counts.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        let inner = self.inner();
        let begun = unsafe {
            self.with_store(|store| {
                let (arguments, names) = (self.0.arguments.as_ptr(), self.0.names.as_ptr());
                let tags = laid_out(arguments, names, |call| inner.tag_hashes(call))?;
                Ok(BegunRun {
                    generation: store.generation.get(),
                    tokens: entry::tag_tokens(&tags),
                })
            })
        };
        inner.misses.set(inner.misses.get() + 1);
        self.0.begun.replace(Some(raised(py, begun)?));
        Ok(())
    }

    /// Whether nothing that the run began with was invalidated since.
    fn is_current(&self, py: Python<'_>) -> PyResult<bool> {
        let is_current = unsafe {
            self.with_store(|store| {
                let begun = self.0.begun.borrow();
                Ok(begun.as_ref().is_none_or(|begun| {
                    let tokens = begun.tokens.as_ref();
                    begun.generation == store.generation.get()
                        && tokens.is_none_or(|tokens| entry::tags_are_current(tokens))
                }))
            })
        };
        raised(py, is_current)
    }

    /// Keeps `value`, if `stored` and if it may be kept, and gives what makes copies of it for
    /// other callers.
    fn keep(&self, value: &Bound<'_, PyAny>, stored: bool) -> PyResult<KeptValue> {
        let py = value.py();
        let inner = self.inner();
        let entry = unsafe {
            let value = owned(value);
            isolate::kept(&value, inner.plan.copy_mode).and_then(|(kept, isolation)| {
                let tokens = self
                    .0
                    .begun
                    .borrow()
                    .as_ref()
                    .and_then(|begun| begun.tokens.clone());
                let key = self.0.key.with_asked(|asked| asked.held());
                let entry = PlainRc::new(KeptEntry {
                    key,
                    value: kept,
                    isolation,
                    tokens,
                });
                let lifetime = inner.lifetime(&value)?;
                Ok((entry, lifetime))
            })
        };
        let (entry, lifetime) = raised(py, entry)?;
        if let (true, Some(lifetime), true) = (stored, lifetime, self.is_current(py)?) {
            let insert = unsafe {
                self.with_store(|store| {
                    store.insert(self.0.hash, entry.clone(), inner.now_us(), lifetime)
                })
            };
            raised(py, insert)?;
        }
        Ok(KeptValue(AttachedEntry(entry)))
    }

    /// Takes the entry out, and lets no run of now store its value. Whether there was an entry.
    fn invalidate(&self, py: Python<'_>) -> PyResult<bool> {
        let is_gone = unsafe {
            self.with_store(|store| {
                self.0.key.with_asked(|asked| {
                    while let Some(run) = FlightRun::find(&store.runs, self.0.hash, asked)? {
                        run.detach();
                    }
                    let found = store.find(self.0.hash, asked, 0)?;
                    Ok(found.is_some_and(|entry| store.remove(entry.place)))
                })
            })
        };
        raised(py, is_gone)
    }

    fn __hash__(&self) -> u64 {
        self.0.hash
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(other) = other.cast::<CallKey>() else {
            return Ok(false);
        };
        let (mine, other) = (&self.0, &other.get().0);
        let instance = |key: &AttachedKey| key.instance.as_ref().map(HeldObject::as_ptr);
        if mine.hash != other.hash
            || mine.cached.as_ptr() != other.cached.as_ptr()
            || instance(mine) != instance(other)
        {
            return Ok(false);
        }
        raised(py, unsafe {
            mine.key.with_asked(|asked| asked.equals(&other.key))
        })
    }
}

/// A value that every waiter gets a copy of his own of.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct KeptValue(AttachedEntry);

struct AttachedEntry(PlainRc<KeptEntry>);

unsafe impl Send for AttachedEntry {}
unsafe impl Sync for AttachedEntry {}

#[pymethods]
impl KeptValue {
    fn answer(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(to_python(py, raised(py, unsafe { self.0.0.answer() })?))
    }
}

/// Takes every entry out; of one instance, if there is one.
#[pyfunction]
#[pyo3(signature = (cached, instance=None))]
pub fn clear(cached: &Bound<'_, PyAny>, instance: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let inner = unsafe { callable::inner(cached.as_ptr()) };
    match instance {
        None => inner.store.clear(),
        Some(instance) => {
            let table = unsafe { inner.instance_table(instance.as_ptr()) };
            let table = raised(cached.py(), table)?;
            unsafe { crate::instance::InstanceTable::store(&table, &inner.store) }.clear();
        }
    }
    Ok(())
}

/// Hits and misses.
#[pyfunction]
pub fn counts(cached: &Bound<'_, PyAny>) -> (u64, u64) {
    let inner = unsafe { callable::inner(cached.as_ptr()) };
    (inner.hits.get(), inner.misses.get())
}

/// Entries held, those past their lifetime included that nothing has met yet; of one instance, if
/// there is one.
#[pyfunction]
#[pyo3(signature = (cached, instance=None))]
pub fn entries(cached: &Bound<'_, PyAny>, instance: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
    let inner = unsafe { callable::inner(cached.as_ptr()) };
    let Some(instance) = instance else {
        return Ok(inner.store.table.borrow().entries());
    };
    let table = raised(cached.py(), unsafe {
        inner.instance_table(instance.as_ptr())
    })?;
    let store = unsafe { crate::instance::InstanceTable::store(&table, &inner.store) };
    let count = store.table.borrow().entries();
    Ok(count)
}

/// Takes `run` out of the runs of an async function, if it is the one under its key: one step, so
/// that no other thread's newer run is taken out in between.
#[pyfunction]
pub fn discard_run(
    runs: &Bound<'_, PyDict>,
    key: &Bound<'_, PyAny>,
    run: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    match runs.get_item(key)? {
        Some(held) if held.is(run) => runs.del_item(key).map(|()| true),
        _ => Ok(false),
    }
}
