//! Which runs the code of a context belongs to, wherever it goes on: in a task, or in a thread that
//! was given a copy of the context.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;

use crate::api;
use crate::object::{HeldObject, Outcome, Raised, UntrackedObject};
use crate::run_node::RunNode;

/// What the context variable says: which run the code belongs to, and which that run belongs to.
struct ContextOwner {
    run: Arc<RunNode>,
    /// An [`Ownership`] as well.
    parent: Option<HeldObject>,
}

type Ownership = UntrackedObject<ContextOwner>;

static TYPE: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(std::ptr::null_mut());
/// The context variable that names the runs a call belongs to.
static VARIABLE: AtomicPtr<ffi::PyObject> = AtomicPtr::new(std::ptr::null_mut());

/// The context variable's value, if it has one of ours.
unsafe fn current() -> Outcome<Option<HeldObject>> {
    let mut current = std::ptr::null_mut();
    let variable = VARIABLE.load(Ordering::Acquire);
    if api::PyContextVar_Get(variable, std::ptr::null_mut(), &raw mut current) != 0 {
        return Err(Raised);
    }
    let current = HeldObject::owned(current).ok();
    Ok(current.filter(|found| ffi::Py_TYPE(found.as_ptr()) == TYPE.load(Ordering::Acquire)))
}

/// The runs that the code of this context belongs to, as far as they are not over.
pub unsafe fn owned_runs() -> Outcome<Vec<Arc<RunNode>>> {
    let mut runs = Vec::new();
    let current = current()?;
    let mut next = current.as_ref();
    while let Some(ownership) = next {
        let owner = Ownership::part(ownership.as_ptr());
        if !owner.run.is_over() {
            runs.push(owner.run.clone());
        }
        next = owner.parent.as_ref();
    }
    Ok(runs)
}

/// Says in the context that the code from here on belongs to `run`, until the run is over: nothing
/// has to undo it, and the next run takes its place.
pub unsafe fn enter(run: &Arc<RunNode>) -> Outcome<()> {
    let owner = ContextOwner {
        run: run.clone(),
        parent: living(current()?),
    };
    let ownership = Ownership::create(TYPE.load(Ordering::Acquire), owner)?;
    let variable = VARIABLE.load(Ordering::Acquire);
    without_collections(|| {
        HeldObject::owned(api::PyContextVar_Set(variable, ownership.as_ptr())).map(drop)
    })
}

/// Until 3.12 an allocation may begin a collection, and a destructor of the user's that has the
/// context changed meanwhile would free the map that `PyContextVar_Set` is reading.
unsafe fn without_collections<R>(run: impl FnOnce() -> R) -> R {
    let was_enabled = cfg!(not(Py_3_12)) && ffi::PyGC_Disable() == 1;
    let done = run();
    if was_enabled {
        ffi::PyGC_Enable();
    }
    done
}

/// The nearest whose run is not over: a chain of tasks must not keep every run before it.
unsafe fn living(from: Option<HeldObject>) -> Option<HeldObject> {
    let mut next = from;
    while let Some(ownership) = next {
        let owner = Ownership::part(ownership.as_ptr());
        if !owner.run.is_over() {
            return Some(ownership);
        }
        next = owner.parent.clone();
    }
    None
}

/// Makes the type and the context variable, once, and gives the variable.
pub unsafe fn create() -> Outcome<HeldObject> {
    let slot = |slot, pfunc| ffi::PyType_Slot { slot, pfunc };
    let slots = Box::leak(Box::new([
        slot(ffi::Py_tp_dealloc, Ownership::dealloc as *mut c_void),
        slot(0, std::ptr::null_mut()),
    ]));
    let flags = ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION;
    let mut spec = ffi::PyType_Spec {
        name: c"tidemark_cache._native.Ownership".as_ptr(),
        basicsize: size_of::<Ownership>() as c_int,
        itemsize: 0,
        flags: flags as u32,
        slots: slots.as_mut_ptr(),
    };
    let kind = HeldObject::owned(ffi::PyType_FromSpec(&raw mut spec))?;
    TYPE.store(kind.into_ptr().cast(), Ordering::Release);
    let name = c"tidemark_cache_ownership".as_ptr();
    let variable = HeldObject::owned(api::PyContextVar_New(name, std::ptr::null_mut()))?;
    VARIABLE.store(variable.clone().into_ptr(), Ordering::Release);
    Ok(variable)
}
