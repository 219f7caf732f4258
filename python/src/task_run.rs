//! One run of an async function's body, as the code in Python leads it and waits for it.

use pyo3::exceptions::{PyException, PyRuntimeError, PyStopIteration};
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::call_key::CallKey;
#[cfg(Py_3_12)]
use crate::eager;
use crate::entry::KeptEntry;
use crate::flight::forks;
use crate::guard::{Guarded, SharedCount};
use crate::object::PlainRc;
use crate::ownership;
use crate::python::{self, PythonFunction};
use crate::run_graph::WaitEdges;
use crate::run_node::HeldNode;
use crate::{owned, raised, to_python};

/// What is woken at the end of a run.
enum TaskWaiter {
    /// A future of an asyncio loop, or of one that stands in for it, as uvloop does.
    Future { loop_: Py<PyAny>, future: Py<PyAny> },
    /// Called from whatever thread the run ends in.
    Call(Py<PyAny>),
}

/// How a run ended that was not given up.
enum TaskEnding {
    /// With a value, whether or not it was stored.
    Kept(PlainRc<KeptEntry>),
    /// Something with a method `answer`, which makes each caller's value.
    StandIn(Py<PyAny>),
    Raised(Py<PyAny>),
}

#[derive(Default)]
struct TaskRunState {
    waiters: Vec<(u64, TaskWaiter)>,
    /// Waiters so far.
    count: u64,
    /// The task that ends with the last call that waits for it.
    task: Option<Py<PyAny>>,
    /// The body's own coroutine, from the first step on.
    coroutine: Option<Py<PyAny>>,
    is_over: bool,
    /// None until the end, and when the run was given up.
    ending: Option<TaskEnding>,
}

/// One run. It stands in a dict of its function's runs, under its key, until it is over or nothing
/// may join it any more.
///
/// It is the coroutine in which the body runs, too: a miss pays for each object. It ends the run
/// however it ends itself: a task that is cancelled before its first step enters no `finally`.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct TaskRun {
    runs: Py<PyDict>,
    key: Py<CallKey>,
    /// What leads it.
    loop_: Py<PyAny>,
    /// Whether it is a refresh, whose value goes in the place of the old one or nowhere.
    only_there: bool,
    forks: u32,
    node: HeldNode,
    state: Guarded<TaskRunState>,
    discarded: SharedCount,
}

impl TaskWaiter {
    /// `here` is the loop that runs the code of this thread, where that is known: in 3.11 asking
    /// for it is a call of the system.
    fn wake(&self, py: Python<'_>, here: Option<&Py<PyAny>>) -> PyResult<()> {
        let (loop_, future) = match self {
            TaskWaiter::Call(wake) => return wake.call0(py).map(drop),
            TaskWaiter::Future { loop_, future } => (loop_.bind(py), future),
        };
        let is_here = match here {
            Some(here) => here.is(loop_),
            None => running_loop(py)?.is(loop_),
        };
        if is_here {
            return resolve(future.bind(py));
        }
        let resolve = wrap_pyfunction!(resolve, py)?;
        let posted = loop_.call_method1(intern!(py, "call_soon_threadsafe"), (resolve, future));
        match posted {
            // That loop is closed, and no call waits in it any more.
            Err(error) if error.is_instance_of::<PyRuntimeError>(py) => Ok(()),
            posted => posted.map(drop),
        }
    }

    fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            TaskWaiter::Call(wake) => visit.call(wake),
            TaskWaiter::Future { loop_, future } => {
                visit.call(loop_)?;
                visit.call(future)
            }
        }
    }
}

/// The loop that says that it runs the code of this thread: one of asyncio, or None. Imports
/// asyncio.
fn running_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let running = RUNNING.get_or_try_init(py, || {
        let events = py.import("asyncio.events")?;
        events.getattr("_get_running_loop").map(Bound::unbind)
    })?;
    running.bind(py).call0()
}

/// The loop of asyncio that runs the code of this thread, or None. Imports nothing.
fn asyncio_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    if python::is_imported(intern!(py, "trio")) {
        // It may run inside a loop of asyncio.
        let ask = raised(py, unsafe { python::known(PythonFunction::AsyncioLoop) })?;
        return unsafe { Bound::from_borrowed_ptr(py, ask) }.call0();
    }
    match python::is_imported(intern!(py, "asyncio.events")) {
        true => running_loop(py),
        false => Ok(py.None().into_bound(py)),
    }
}

/// Gives a future its result, unless it has one or was cancelled.
#[pyfunction]
fn resolve(future: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = future.py();
    if !future.call_method0(intern!(py, "done"))?.is_truthy()? {
        future.call_method1(intern!(py, "set_result"), (py.None(),))?;
    }
    Ok(())
}

impl TaskRun {
    fn finish(
        &self,
        py: Python<'_>,
        ending: Option<TaskEnding>,
        here: Option<&Py<PyAny>>,
    ) -> PyResult<()> {
        let waiters = {
            let mut state = self.state.lock();
            if state.is_over {
                drop(state);
                // Dropped with nothing locked, as everything of the user's.
                drop(ending);
                return Ok(());
            }
            state.is_over = true;
            state.ending = ending;
            (std::mem::take(&mut state.waiters), state.task.take())
        };
        self.node.end();
        // It may run code of the user's, which may raise. All that wait are woken all the same.
        let mut ended = self.discard(py);
        let (waiters, _task) = waiters;
        for (_, waiter) in &waiters {
            let woken = waiter.wake(py, here);
            ended = ended.and(woken);
        }
        ended
    }

    fn wait(&self, waiter: TaskWaiter) -> Option<u64> {
        let mut state = self.state.lock();
        if state.is_over {
            drop(state);
            drop(waiter);
            return None;
        }
        state.count += 1;
        let number = state.count;
        state.waiters.push((number, waiter));
        Some(number)
    }

    /// Has the body run in a task of the run's loop, and gives what the caller awaits.
    fn begin_task<'py>(this: &Bound<'py, TaskRun>) -> PyResult<LedTask<'py>> {
        let (py, run) = (this.py(), this.get());
        let loop_ = run.loop_.bind(py);
        // Before the task: its first step may run at once, and wait for others itself. No run waits
        // for this one yet, so that there is no circle.
        let edges = raised(py, unsafe { WaitEdges::of_task(&run.node) })?;
        let edges = edges.filter(|edges| !edges.is_empty());
        #[cfg(Py_3_12)]
        let begun = eager::begin(loop_, this.as_any())?;
        #[cfg(not(Py_3_12))]
        let begun = None;
        let task: Bound<'py, PyAny> = match begun {
            Some(task) => task,
            None => loop_.call_method1(intern!(py, "create_task"), (this,))?,
        };
        run.set_task(task.unbind());
        if run.is_over() {
            return Ok((this.clone(), None, 0, None));
        }
        let future = loop_.call_method0(intern!(py, "create_future"))?;
        let waiter = TaskWaiter::Future {
            loop_: run.loop_.clone_ref(py),
            future: future.clone().unbind(),
        };
        Ok(match run.wait(waiter) {
            Some(number) => (this.clone(), Some(future), number, edges),
            None => (this.clone(), None, 0, None),
        })
    }

    fn begun(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let state = self.state.lock();
        let coroutine = state.coroutine.as_ref();
        coroutine.map(|coroutine| coroutine.clone_ref(py))
    }

    /// Says in the current context that its code belongs to this run, and calls the body.
    fn begin(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        static COROUTINE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        raised(py, unsafe { ownership::enter(&self.node) })?;
        let key = self.key.get();
        key.begin(py, !self.only_there)?;
        let awaited = key.run_body(py)?;
        let coroutine =
            match awaited
                .get_type()
                .is(COROUTINE.import(py, "types", "CoroutineType")?)
            {
                true => owned(&awaited),
                false => raised(py, unsafe {
                    python::call_one(PythonFunction::Awaited, awaited.as_ptr())
                })?,
            };
        let coroutine = to_python(py, coroutine);
        let mut state = self.state.lock();
        let before = state.coroutine.replace(coroutine.clone_ref(py));
        drop(state);
        drop(before);
        Ok(coroutine)
    }

    /// One step of the body, which is given `value`; `None` at the end.
    fn step(this: &Bound<'_, TaskRun>, value: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let (py, run) = (this.py(), this.get());
        let coroutine = match run.begun(py).map_or_else(|| run.begin(py), Ok) {
            Ok(coroutine) => coroutine,
            Err(error) => return TaskRun::raised(this, error),
        };
        let mut sent = std::ptr::null_mut();
        let (coroutine, value) = (coroutine.as_ptr(), value.as_ptr());
        let status = unsafe { ffi::PyIter_Send(coroutine, value, &raw mut sent) };
        let sent = unsafe { Bound::from_owned_ptr_or_opt(py, sent) };
        match (status, sent) {
            (ffi::PySendResult::PYGEN_NEXT, Some(sent)) => Ok(Some(sent.unbind())),
            (ffi::PySendResult::PYGEN_RETURN, Some(value)) => TaskRun::returned(this, &value),
            _ => TaskRun::raised(this, PyErr::fetch(py)),
        }
    }

    /// Keeps what the body gave, and ends the run with it.
    fn returned(
        this: &Bound<'_, TaskRun>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let (py, run) = (this.py(), this.get());
        let key = run.key.get();
        let kept = raised(py, key.kept(value, run.only_there));
        // A step of the body is code of the loop that leads it.
        let ended =
            kept.and_then(|kept| run.finish(py, Some(TaskEnding::Kept(kept)), Some(&run.loop_)));
        if let Err(error) = ended {
            return TaskRun::raised(this, error);
        }
        if run.only_there {
            key.count_refresh(true);
        }
        Ok(None)
    }

    /// What ends the task itself, as a cancellation does, goes on; of any other exception its
    /// callers hear.
    fn raised(this: &Bound<'_, TaskRun>, error: PyErr) -> PyResult<Option<Py<PyAny>>> {
        let py = this.py();
        let ended = match error.is_instance_of::<PyException>(py) {
            true => TaskRun::failed(this, error),
            false => Err(error),
        };
        this.get().give_up(py)?;
        ended.map(|()| None)
    }

    fn failed(this: &Bound<'_, TaskRun>, error: PyErr) -> PyResult<()> {
        let py = this.py();
        let failed = raised(py, unsafe { python::known(PythonFunction::RunFailed) })?;
        let failed = unsafe { Bound::from_borrowed_ptr(py, failed) };
        let error = error.into_value(py);
        failed.call1((this, error, this.get().only_there)).map(drop)
    }

    fn may_stop(&self) -> bool {
        let state = self.state.lock();
        !state.is_over && state.waiters.is_empty() && state.task.is_some()
    }
}

#[pymethods]
impl TaskRun {
    #[new]
    #[pyo3(signature = (runs, key, loop_, only_there=false))]
    fn new(
        py: Python<'_>,
        runs: Py<PyDict>,
        key: Py<CallKey>,
        loop_: Py<PyAny>,
        only_there: bool,
    ) -> PyResult<TaskRun> {
        Ok(TaskRun {
            runs,
            key,
            loop_,
            only_there,
            forks: forks(),
            node: raised(py, unsafe { HeldNode::create() })?,
            state: Guarded::default(),
            discarded: SharedCount::default(),
        })
    }

    #[getter]
    fn key(&self, py: Python<'_>) -> Py<CallKey> {
        self.key.clone_ref(py)
    }

    #[getter]
    fn is_over(&self) -> bool {
        self.node.is_over()
    }

    /// Whether a caller has an answer or an exception from it.
    #[getter]
    fn is_answered(&self) -> bool {
        self.state.lock().ending.is_some()
    }

    /// The exception that it ended with.
    #[getter]
    fn error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        match &self.state.lock().ending {
            Some(TaskEnding::Raised(error)) => Some(error.clone_ref(py)),
            _ => None,
        }
    }

    #[setter]
    fn set_task(&self, task: Py<PyAny>) {
        let mut state = self.state.lock();
        // A task that ran at once is over already, and would keep itself.
        let unused = match state.is_over {
            true => Some(task),
            false => state.task.replace(task),
        };
        drop(state);
        drop(unused);
    }

    /// Ends the run with a value that stands in: something with a method `answer`.
    fn end_with(&self, py: Python<'_>, value: Py<PyAny>) -> PyResult<()> {
        self.finish(py, Some(TaskEnding::StandIn(value)), None)
    }

    /// Ends the run with an exception.
    fn fail(&self, py: Python<'_>, error: Py<PyAny>) -> PyResult<()> {
        self.finish(py, Some(TaskEnding::Raised(error)), None)
    }

    /// Ends the run without an answer, if it has not ended.
    fn give_up(&self, py: Python<'_>) -> PyResult<()> {
        self.finish(py, None, None)
    }

    /// A value for one caller, or the run's exception.
    fn answer(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let state = self.state.lock();
        // What is taken out is used with nothing locked.
        let stand_in = match &state.ending {
            Some(TaskEnding::Kept(entry)) => {
                let entry = entry.clone();
                drop(state);
                let value = raised(py, unsafe { entry.answer() })?;
                return Ok(to_python(py, value));
            }
            Some(TaskEnding::Raised(error)) => {
                return Err(PyErr::from_value(error.bind(py).clone()));
            }
            Some(TaskEnding::StandIn(value)) => value.clone_ref(py),
            None => return Ok(py.None()),
        };
        drop(state);
        stand_in.call_method0(py, intern!(py, "answer"))
    }

    /// Has a future of this loop resolved at the end; None if that has come already.
    fn add_future(&self, loop_: Py<PyAny>, future: Py<PyAny>) -> Option<u64> {
        self.wait(TaskWaiter::Future { loop_, future })
    }

    /// Has `wake` called at the end; None if that has come already.
    fn add(&self, wake: Py<PyAny>) -> Option<u64> {
        self.wait(TaskWaiter::Call(wake))
    }

    fn remove(&self, number: u64) {
        let mut state = self.state.lock();
        let mine = state.waiters.iter().position(|(known, _)| *known == number);
        let mine = mine.map(|mine| state.waiters.swap_remove(mine));
        drop(state);
        drop(mine);
    }

    /// As `remove`, and ends the run's task if no other call waits for it.
    fn leave(run: &Bound<'_, TaskRun>, number: u64) -> PyResult<()> {
        let (py, this) = (run.py(), run.get());
        this.remove(number);
        if !this.may_stop() {
            return Ok(());
        }
        let stop = run.getattr(intern!(py, "cancel_if_alone"))?;
        let loop_ = this.loop_.bind(py);
        match loop_.call_method1(intern!(py, "call_soon_threadsafe"), (stop,)) {
            // The loop is closed, and the task with it.
            Err(error) if error.is_instance_of::<PyRuntimeError>(py) => Ok(()),
            posted => posted.map(drop),
        }
    }

    /// To be called in the run's own loop.
    fn cancel_if_alone(&self, py: Python<'_>) -> PyResult<()> {
        if !self.may_stop() {
            return Ok(());
        }
        self.discard(py)?;
        let state = self.state.lock();
        let task = state.task.as_ref().map(|task| task.clone_ref(py));
        drop(state);
        match task {
            Some(task) => task.call_method0(py, intern!(py, "cancel")).map(drop),
            None => Ok(()),
        }
    }

    /// Whether what leads it is still there.
    fn is_alive(&self, py: Python<'_>) -> PyResult<bool> {
        let is_closed = self.loop_.call_method0(py, intern!(py, "is_closed"))?;
        is_closed.is_truthy(py).map(|is_closed| !is_closed)
    }

    /// Whether a call made now may have this run's answer. Not in a child of a fork, which
    /// inherits the run and not the thread whose loop leads it.
    fn is_joinable(&self, py: Python<'_>) -> PyResult<bool> {
        let may_be = !self.node.is_over() && self.forks == forks() && self.is_alive(py)?;
        Ok(may_be && self.key.get().is_current(py)?)
    }

    /// Takes it out of the runs that calls may join. Has no effect the second time: another run
    /// may stand there by then, and no sooner, since nothing else takes it out.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        match self.discarded.exchange(0, 1) {
            true => self.runs.bind(py).del_item(&self.key),
            false => Ok(()),
        }
    }

    /// To be held while waiting for this run; None when that would be for ever.
    fn wait_edges(&self, py: Python<'_>) -> PyResult<Option<WaitEdges>> {
        raised(py, unsafe { WaitEdges::of_task(&self.node) })
    }

    fn __await__(this: Bound<'_, TaskRun>) -> Bound<'_, TaskRun> {
        this
    }

    fn __iter__(this: Bound<'_, TaskRun>) -> Bound<'_, TaskRun> {
        this
    }

    fn __next__(this: &Bound<'_, TaskRun>) -> PyResult<Option<Py<PyAny>>> {
        let py = this.py();
        TaskRun::step(this, py.None().bind(py))
    }

    fn send(this: &Bound<'_, TaskRun>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        TaskRun::step(this, value)?.ok_or_else(stop)
    }

    #[pyo3(signature = (*error))]
    fn throw(this: &Bound<'_, TaskRun>, error: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let (py, run) = (this.py(), this.get());
        let Some(coroutine) = run.begun(py) else {
            run.give_up(py)?;
            let given = error.iter().take(2).filter(|part| !part.is_none());
            return Err(given.last().map_or_else(stop, PyErr::from_value));
        };
        let thrown = coroutine.call_method1(py, intern!(py, "throw"), error);
        let ended = match thrown {
            Ok(yielded) => return Ok(yielded),
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
                let value = error.value(py).getattr(intern!(py, "value"))?;
                TaskRun::returned(this, &value)
            }
            Err(error) => TaskRun::raised(this, error),
        };
        ended?.ok_or_else(stop)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let closed = match self.begun(py) {
            Some(coroutine) => coroutine.call_method0(py, intern!(py, "close")).map(drop),
            None => Ok(()),
        };
        self.give_up(py)?;
        closed
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.runs)?;
        visit.call(&self.key)?;
        visit.call(&self.loop_)?;
        let state = self.state.lock();
        for (_, waiter) in &state.waiters {
            waiter.visit(&visit)?;
        }
        visit.call(&state.task)?;
        visit.call(&state.coroutine)?;
        match &state.ending {
            Some(TaskEnding::StandIn(object) | TaskEnding::Raised(object)) => visit.call(object),
            Some(TaskEnding::Kept(_)) | None => Ok(()),
        }
    }

    fn __clear__(&self) {
        let mut state = self.state.lock();
        let (waiters, task) = (std::mem::take(&mut state.waiters), state.task.take());
        drop(state);
        drop((waiters, task));
    }
}

/// The end of a coroutine without a value.
fn stop() -> PyErr {
    PyStopIteration::new_err(())
}

/// A run that is a task of the current loop, a future of that loop which is resolved at its end,
/// the number of this waiter, and what is to be held while waiting, if anything. Without a future
/// the run is over.
type LedTask<'py> = (
    Bound<'py, TaskRun>,
    Option<Bound<'py, PyAny>>,
    u64,
    Option<WaitEdges>,
);

/// Begins the run of a call in a task. One function, since each step in Python costs every miss.
/// `key` is the call's, if it was made with it. None where another way has to be taken: there is an
/// entry by now, another run is in progress, or no loop of asyncio runs here.
#[pyfunction]
pub fn lead<'py>(
    cached: &Bound<'py, PyAny>,
    arguments: &Bound<'py, PyTuple>,
    names: &Bound<'py, PyDict>,
    key: Option<Py<CallKey>>,
) -> PyResult<Option<LedTask<'py>>> {
    let py = cached.py();
    let loop_ = asyncio_loop(py)?;
    if loop_.is_none() {
        return Ok(None);
    }
    let key = match key {
        Some(key) => key,
        None => match CallKey::of(cached, arguments, names)? {
            Some(key) => Py::new(py, key)?,
            None => return Ok(None),
        },
    };
    if key.get().contains(py)? {
        return Ok(None);
    }
    let runs = cached
        .getattr(intern!(py, "_runs"))?
        .cast_into::<PyDict>()?;
    let loop_ = loop_.unbind();
    let run = TaskRun::new(py, runs.clone().unbind(), key.clone_ref(py), loop_, false)?;
    let run = Bound::new(py, run)?;
    // One step, so that of several threads one leads.
    let held = runs.call_method1(intern!(py, "setdefault"), (key, &run))?;
    if !held.is(&run) {
        return Ok(None);
    }
    let led = TaskRun::begin_task(&run);
    if led.is_err() {
        run.get().give_up(py)?;
    }
    led.map(Some)
}
