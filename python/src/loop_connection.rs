//! A connection to Redis that an event loop of Python reads, on the loop's own thread.
//!
//! It answers hits that need one round trip. Each waits by a future of the loop, whose result is
//! what memory gets of the hit, `None` if it has to be read by another connection, or the failure.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use tiers::{LoopReads, RedisTier, TierError, TierHit};

use crate::file_tier::{failure, failure_text};
use crate::flight;
use crate::guard::Guarded;
use crate::redis_tier::SharedRedis;
use crate::tier_stack::{ReadBegin, TierReader, names_in};

/// One connection of one loop.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct LoopConnection {
    tier: Arc<RedisTier>,
    file: RawFd,
    forks: u32,
    state: Guarded<LoopState>,
}

struct LoopState {
    /// Gone once the loop has let go of the connection: until then its number stays taken.
    reads: Option<LoopReads<LoopWaiter>>,
    is_broken: bool,
}

impl LoopState {
    fn usable(&mut self) -> Option<&mut LoopReads<LoopWaiter>> {
        self.reads.as_mut().filter(|_| !self.is_broken)
    }
}

/// One call that waits.
struct LoopWaiter {
    future: Py<PyAny>,
    reader: Py<TierReader>,
    key: Vec<u8>,
    begin: ReadBegin,
}

/// Gives a future its result, unless its caller was cancelled.
fn resolve(py: Python<'_>, future: &Py<PyAny>, result: Py<PyAny>) -> PyResult<()> {
    let future = future.bind(py);
    if !future.call_method0(intern!(py, "done"))?.is_truthy()? {
        future.call_method1(intern!(py, "set_result"), (result,))?;
    }
    Ok(())
}

#[pymethods]
impl LoopConnection {
    /// Connects, which may take as long as connecting may. None if this server is not reached so.
    #[staticmethod]
    fn open(py: Python<'_>, server: &Bound<'_, SharedRedis>) -> PyResult<Option<LoopConnection>> {
        let tier = server.get().tier.clone();
        let opened = py.detach(|| tier.loop_reads());
        let Some(reads) = opened.map_err(failure)? else {
            return Ok(None);
        };
        Ok(Some(LoopConnection {
            tier,
            file: reads.as_raw_fd(),
            forks: flight::forks(),
            state: Guarded::new(LoopState {
                reads: Some(reads),
                is_broken: false,
            }),
        }))
    }

    /// The number by which a loop watches it.
    fn fileno(&self) -> RawFd {
        self.file
    }

    /// Asks for a value; `future` gets what comes of it. Whether everything was sent; None if
    /// another connection has to read now.
    fn ask(
        &self,
        py: Python<'_>,
        future: Py<PyAny>,
        reader: &Bound<'_, TierReader>,
        key: &[u8],
        names: &[u8],
    ) -> PyResult<Option<bool>> {
        if flight::forks() != self.forks {
            return Ok(None);
        }
        if !reader.get().may_read() {
            return Ok(None);
        }
        let waiter = LoopWaiter {
            future,
            reader: reader.clone().unbind(),
            key: key.to_vec(),
            begin: reader.get().begin(),
        };
        let names = names_in(names);
        let sent = match self.state.lock().usable() {
            None => Err(waiter),
            Some(reads) => {
                let queued = reads.ask(&self.tier, key, &names, waiter);
                queued.map(|()| reads.send(&self.tier))
            }
        };
        match sent {
            Ok(Ok(is_sent)) => Ok(Some(is_sent)),
            // The future has its result by then, and the loop's next look ends the connection.
            Ok(Err(error)) => self.fail(py, &error).map(|()| Some(false)),
            Err(_) => Ok(None),
        }
    }

    /// The loop can send. Whether everything was sent.
    fn send(&self, py: Python<'_>) -> PyResult<bool> {
        let sent = (self.state.lock().usable()).map(|reads| reads.send(&self.tier));
        match sent {
            Some(Err(error)) => self.fail(py, &error).map(|()| true),
            Some(Ok(is_sent)) => Ok(is_sent),
            None => Ok(true),
        }
    }

    /// Something has come, or the connection has ended.
    fn read(&self, py: Python<'_>) -> PyResult<()> {
        let mut over = Vec::new();
        let read = match self.state.lock().usable() {
            Some(reads) => reads.read(&self.tier, &mut over),
            None => return Ok(()),
        };
        let mut raised = None;
        for (waiter, hit) in over {
            if let Err(error) = waiter.answer(py, hit) {
                raised = Some(error);
            }
        }
        if let Err(error) = &read {
            self.fail(py, error)?;
        }
        raised.map_or(Ok(()), Err)
    }

    /// Seconds that the longest wait may still take; None if nothing waits. After that all that
    /// wait have failed, and the connection is of no more use.
    fn left_s(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let late = match self.state.lock().usable() {
            None => return Ok(None),
            Some(reads) => match reads.left() {
                Some(left) if left.is_zero() => reads.too_late(&self.tier),
                left => return Ok(left.map(|left| left.as_secs_f64())),
            },
        };
        self.fail(py, &late).map(|()| None)
    }

    #[getter]
    fn is_open(&self) -> bool {
        self.state.lock().usable().is_some() && flight::forks() == self.forks
    }

    /// Ends it, after the loop has let go of it. Who waits asks another connection.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        let given_up = self.give_up(|waiter| resolve(py, &waiter.future, py.None()));
        let reads = self.state.lock().reads.take();
        drop(reads);
        given_up
    }
}

impl LoopConnection {
    /// Each call that waits has failed.
    fn fail(&self, py: Python<'_>, error: &TierError) -> PyResult<()> {
        self.give_up(|waiter| {
            let text = failure_text(error.clone()).into_pyobject(py)?;
            waiter.reader.get().read_failed(error.fault);
            resolve(py, &waiter.future, text.into_any().unbind())
        })
    }

    fn give_up(&self, mut end: impl FnMut(LoopWaiter) -> PyResult<()>) -> PyResult<()> {
        let waiting = {
            let mut state = self.state.lock();
            state.is_broken = true;
            state.reads.as_mut().map(LoopReads::give_up)
        };
        // One that cannot be resolved keeps no other waiting.
        let ends: Vec<PyResult<()>> = waiting.into_iter().flatten().map(&mut end).collect();
        ends.into_iter().collect()
    }
}

impl LoopWaiter {
    fn answer(self, py: Python<'_>, hit: Option<TierHit>) -> PyResult<()> {
        let LoopWaiter {
            future,
            reader,
            key,
            begin,
        } = self;
        let found = match &hit {
            Some(hit) => reader.get().found_by_loop(py, hit, &key, begin),
            None => Ok(None),
        };
        let (result, raised) = match found {
            Ok(Some(found)) => (found.into_any().unbind(), Ok(())),
            Ok(None) => (py.None(), Ok(())),
            Err(error) => (py.None(), Err(error)),
        };
        resolve(py, &future, result)?;
        raised
    }
}
