//! A run of a body, as a node of two graphs: which run began inside which, and which waits for
//! which.
//!
//! An object of the interpreter, since a context variable holds it: one piece of memory for both.

use std::ffi::{c_int, c_void};
use std::ops::Deref;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;

use crate::guard::{Guarded, SharedCount};
use crate::object::{HeldObject, Outcome, UntrackedObject};

/// A run, as far as others wait for it.
#[derive(Default)]
pub struct RunNode {
    over: SharedCount,
    /// The run in which this one began.
    pub parent: Guarded<Option<HeldNode>>,
    /// Runs for which something inside this one waits at the moment.
    pub waits_for: Guarded<Vec<HeldNode>>,
}

/// One counted reference to a node.
#[derive(Clone)]
pub struct HeldNode(HeldObject);

type NodeObject = UntrackedObject<RunNode>;

static TYPE: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(std::ptr::null_mut());

impl Deref for HeldNode {
    type Target = RunNode;

    fn deref(&self) -> &RunNode {
        unsafe { NodeObject::part(self.0.as_ptr()) }
    }
}

impl HeldNode {
    /// The node of a new run. Begins no collection.
    pub unsafe fn create() -> Outcome<HeldNode> {
        let kind = TYPE.load(Ordering::Acquire);
        NodeObject::create(kind, RunNode::default()).map(HeldNode)
    }

    /// The node that an object is, if it is one.
    pub unsafe fn of(object: HeldObject) -> Option<HeldNode> {
        let is_node = ffi::Py_TYPE(object.as_ptr()) == TYPE.load(Ordering::Acquire);
        is_node.then_some(HeldNode(object))
    }

    /// The object.
    pub fn as_ptr(&self) -> *mut ffi::PyObject {
        self.0.as_ptr()
    }

    /// Whether both are one run.
    pub fn is(&self, other: &HeldNode) -> bool {
        self.as_ptr() == other.as_ptr()
    }

    /// Whether `other` is this run, or this run waits for it through others.
    pub fn leads_to(&self, other: &HeldNode) -> bool {
        let (mut seen, mut next) = (vec![self.clone()], 0);
        while let Some(run) = seen.get(next).cloned() {
            if run.is(other) {
                return true;
            }
            for waited in run.waits_for.lock().iter() {
                if !seen.iter().any(|known| known.is(waited)) {
                    seen.push(waited.clone());
                }
            }
            next += 1;
        }
        false
    }
}

impl RunNode {
    /// Nothing waits for it any more.
    pub fn end(&self) {
        self.over.set(1);
    }

    /// Another run begins, and has the node of one that is over.
    pub fn begin_again(&self) {
        self.over.set(0);
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.over.get() != 0
    }
}

/// Makes the type, once.
pub unsafe fn create_type() -> Outcome<()> {
    let slot = |slot, pfunc| ffi::PyType_Slot { slot, pfunc };
    let slots = Box::leak(Box::new([
        slot(ffi::Py_tp_dealloc, NodeObject::dealloc as *mut c_void),
        slot(0, std::ptr::null_mut()),
    ]));
    let flags = ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION;
    let mut spec = ffi::PyType_Spec {
        name: c"tidemark_cache._native.RunNode".as_ptr(),
        basicsize: size_of::<NodeObject>() as c_int,
        itemsize: 0,
        flags: flags as u32,
        slots: slots.as_mut_ptr(),
    };
    let kind = HeldObject::owned(ffi::PyType_FromSpec(&raw mut spec))?;
    TYPE.store(kind.into_ptr().cast(), Ordering::Release);
    Ok(())
}
