//! Which runs the code of a context belongs to, wherever it goes on: in a task, or in a thread that
//! was given a copy of the context.

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use pyo3::ffi;

use crate::api;
use crate::object::{HeldObject, Outcome, Raised};
use crate::run_node::HeldNode;

/// The context variable that names the run a call belongs to.
static VARIABLE: AtomicPtr<ffi::PyObject> = AtomicPtr::new(std::ptr::null_mut());

/// So many words of a thread's state are looked through for its context.
const WORDS: usize = 40;

/// The word of a thread's state that is its context; [`WORDS`] where it is not known.
static CONTEXT_WORD: AtomicUsize = AtomicUsize::new(WORDS);

/// The context variable's value, if it has one of ours.
unsafe fn current() -> Outcome<Option<HeldNode>> {
    let mut current = std::ptr::null_mut();
    let variable = VARIABLE.load(Ordering::Acquire);
    if api::PyContextVar_Get(variable, std::ptr::null_mut(), &raw mut current) != 0 {
        return Err(Raised);
    }
    let current = HeldObject::owned(current).ok();
    Ok(current.and_then(|found| HeldNode::of(found)))
}

/// The runs that the code of this context belongs to, as far as they are not over.
pub unsafe fn owned_runs() -> Outcome<Vec<HeldNode>> {
    let mut runs = Vec::new();
    let mut next = current()?;
    while let Some(run) = next {
        let parent = run.parent.lock().clone();
        if !run.is_over() {
            runs.push(run);
        }
        next = parent;
    }
    Ok(runs)
}

/// The node of a run that begins, and whether the context says already that the code from here on
/// belongs to it: so it does of a run that is over and that no other context knows, whose node is
/// taken for this one. Putting a new one into the context costs as much as all the rest of a miss.
pub unsafe fn begin() -> Outcome<(HeldNode, bool)> {
    if let Some(node) = current()?
        && node.is_over()
        && is_of_this_context_alone(&node)
    {
        let parent = living(node.parent.lock().take());
        *node.parent.lock() = parent;
        node.begin_again();
        return Ok((node, true));
    }
    HeldNode::create().map(|node| (node, false))
}

/// Says in the context that the code from here on belongs to `run`, until the run is over: nothing
/// has to undo it, and the next run takes its place.
pub unsafe fn enter(run: &HeldNode) -> Outcome<()> {
    let parent = living(current()?);
    let before = std::mem::replace(&mut *run.parent.lock(), parent);
    drop(before);
    let variable = VARIABLE.load(Ordering::Acquire);
    without_collections(|| {
        HeldObject::owned(api::PyContextVar_Set(variable, run.as_ptr())).map(drop)
    })
}

/// Whether no other context has this value of the variable, by the counts of references on the way
/// to it: a copy of a context shares its map, or parts of it once either was changed. Runs no code
/// of the user's.
///
/// Where the way is another than that known here, or there is no lock and counts are spread over
/// threads, the answer is no.
unsafe fn is_of_this_context_alone(node: &HeldNode) -> bool {
    // One reference is the map's, one is this.
    if cfg!(Py_GIL_DISABLED) || ffi::Py_REFCNT(node.as_ptr()) != 2 {
        return false;
    }
    let word = CONTEXT_WORD.load(Ordering::Relaxed);
    if word == WORDS {
        return false;
    }
    let none = std::ptr::null_mut();
    let context = *ffi::PyThreadState_Get()
        .cast::<*mut ffi::PyObject>()
        .add(word);
    if context.is_null() {
        return false;
    }
    // Before the map it shows the context that it was entered from, if it was.
    let map = api::parts(context, none).last;
    if map.is_null() || ffi::Py_REFCNT(map) != 1 {
        return false;
    }
    let root = api::parts(map, none);
    root.count == 1
        && ffi::Py_REFCNT(root.last) == 1
        && api::parts(root.last, node.as_ptr()).has_wanted
}

/// Finds the word of a thread's state that is its context. The interpreter gives out copies of it
/// alone, and making one at each miss costs as much as looking it up in the table.
unsafe fn find_context_word() -> Outcome<()> {
    let context = HeldObject::owned(api::PyContext_New())?;
    let words = ffi::PyThreadState_Get().cast::<*mut ffi::PyObject>();
    let is_context = |word: &usize| *words.add(*word) == context.as_ptr();
    if api::PyContext_Enter(context.as_ptr()) != 0 {
        return Err(Raised);
    }
    let inside: Vec<usize> = (0..WORDS).filter(is_context).collect();
    if api::PyContext_Exit(context.as_ptr()) != 0 {
        return Err(Raised);
    }
    if let [word] = inside[..]
        && !is_context(&word)
    {
        CONTEXT_WORD.store(word, Ordering::Relaxed);
    }
    Ok(())
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

/// The nearest that is not over: a chain of tasks must not keep every run before it.
fn living(from: Option<HeldNode>) -> Option<HeldNode> {
    let mut next = from;
    while let Some(run) = next {
        if !run.is_over() {
            return Some(run);
        }
        next = run.parent.lock().clone();
    }
    None
}

/// Makes the context variable, once.
pub unsafe fn create() -> Outcome<HeldObject> {
    find_context_word()?;
    let name = c"tidemark_cache_ownership".as_ptr();
    let variable = HeldObject::owned(api::PyContextVar_New(name, std::ptr::null_mut()))?;
    VARIABLE.store(variable.clone().into_ptr(), Ordering::Release);
    Ok(variable)
}
