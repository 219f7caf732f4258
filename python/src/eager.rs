//! Tasks whose first step runs at once, where asyncio has them: a body that waits for nothing then
//! costs no turn of the loop.

use std::cell::Cell;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

thread_local! {
    /// Whether this thread is in such a step. A task that began inside it would stand above it on
    /// the stack, and a chain of calls that each miss would end in a `RecursionError`.
    static IS_BEGINNING: Cell<bool> = const { Cell::new(false) };
}

/// That this thread is in the first step of a task. Gone on the same thread.
struct FirstStep;

impl FirstStep {
    fn begin() -> Option<FirstStep> {
        // Fails only while the thread ends.
        let is_inside = IS_BEGINNING.try_with(|is_beginning| is_beginning.replace(true));
        match is_inside.unwrap_or(true) {
            true => None,
            false => Some(FirstStep),
        }
    }
}

impl Drop for FirstStep {
    fn drop(&mut self) {
        let _ = IS_BEGINNING.try_with(|is_beginning| is_beginning.set(false));
    }
}

/// Whether this method makes the loop's tasks: neither another one of its class nor of its own.
fn makes_tasks_by(loop_: &Bound<'_, PyAny>, method: &Bound<'_, PyAny>) -> PyResult<bool> {
    let name = intern!(loop_.py(), "create_task");
    if !loop_.get_type().getattr(name)?.is(method) {
        return Ok(false);
    }
    let own = loop_.getattr(name)?;
    let function = own.getattr_opt(intern!(loop_.py(), "__func__"))?;
    Ok(function.is_some_and(|function| function.is(method)))
}

/// Begins a task of the loop, which runs the code of this thread. None where the loop makes its
/// tasks in a way of its own or of the user's, and in the first step of another.
pub fn begin<'py>(
    loop_: &Bound<'py, PyAny>,
    coroutine: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    static KNOWN: PyOnceLock<(Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();
    let py = loop_.py();
    let (create_task, task) = KNOWN.get_or_try_init(py, || {
        let asyncio = py.import("asyncio")?;
        let create_task = asyncio.getattr("BaseEventLoop")?.getattr("create_task")?;
        Ok::<_, PyErr>((create_task.unbind(), asyncio.getattr("Task")?.unbind()))
    })?;
    if !makes_tasks_by(loop_, create_task.bind(py))? {
        return Ok(None);
    }
    let factory = loop_.call_method0(intern!(py, "get_task_factory"))?;
    if !factory.is_none() {
        return Ok(None);
    }
    let Some(_step) = FirstStep::begin() else {
        return Ok(None);
    };
    let names = PyDict::new(py);
    names.set_item(intern!(py, "loop"), loop_)?;
    names.set_item(intern!(py, "eager_start"), true)?;
    task.bind(py).call((coroutine,), Some(&names)).map(Some)
}
