//! The tiers of a function as an object of Python, and one call on its way through them.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use tiers::breaker::BreakerSettings;
use tiers::policy::{GateSettings, PressureSettings};
use tiers::{
    Deleted, Host, NAME_BYTES, NEVER_MS, StoredInTiers, Tier, TierCall, TierStack, TokenName,
};

use crate::file_tier::{FailureText, SharedFile, failure_text, opened, sealed};
use crate::value_bytes;

/// A value and the milliseconds it has left, None for no end.
type Found = Option<(Py<PyAny>, Option<u64>)>;

/// The names that these bytes are, one after another.
fn names_in(bytes: &[u8]) -> Vec<TokenName> {
    bytes.as_chunks::<NAME_BYTES>().0.to_vec()
}

/// Tiers below memory, nearest first. The interpreter's lock is released while they are used, and
/// none of their failures is raised.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct StackOfTiers {
    stack: TierStack,
    host: Host,
}

/// One call, between its question to the tiers and what it stores in them.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct StackedCall {
    // Away while a thread uses it with the interpreter's lock released.
    call: Mutex<Option<TierCall>>,
}

impl StackedCall {
    /// Does something with the call, without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut TierCall) -> T + Send,
    ) -> PyResult<T> {
        let held = || self.call.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = held().take();
        let Some(mut call) = taken else {
            return Err(PyRuntimeError::new_err("another thread uses this call"));
        };
        let done = py.detach(|| act(&mut call));
        *held() = Some(call);
        Ok(done)
    }
}

#[pymethods]
impl StackedCall {
    /// What went wrong since this was asked for: operations that did not take place, and failures.
    /// None if nothing did.
    fn troubles(&self) -> Option<(u32, Vec<FailureText>)> {
        let mut held = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        let call = held.as_mut()?;
        let failures = std::mem::take(&mut call.failures);
        let rejected = std::mem::take(&mut call.rejected);
        let failures: Vec<FailureText> = failures.into_iter().map(failure_text).collect();
        (rejected > 0 || !failures.is_empty()).then_some((rejected, failures))
    }
}

#[pymethods]
impl StackOfTiers {
    /// `breaker`: failures, their window, the pause (milliseconds), and checks. `pressure`: how
    /// many operations run, how many callers wait, and how many milliseconds.
    #[new]
    fn new(
        files: Vec<PyRef<'_, SharedFile>>,
        breaker: Option<(u32, u64, u64, u32)>,
        pressure: Option<(u32, u32, u64)>,
    ) -> PyResult<StackOfTiers> {
        let Some(host) = files.first().map(|file| file.host) else {
            return Err(PyRuntimeError::new_err("a stack has at least one tier"));
        };
        let breaker = breaker.map(
            |(failures_max, window_ms, pause_ms, checks)| BreakerSettings {
                failures_max,
                window_ms,
                pause_ms,
                checks,
            },
        );
        let pressure = pressure.map(|(running_max, waiting_max, wait_ms)| PressureSettings {
            running_max,
            waiting_max,
            wait_ms,
        });
        let tiers = files.iter().map(|file| file.tier.clone() as Arc<dyn Tier>);
        let settings = GateSettings { breaker, pressure };
        Ok(StackOfTiers {
            stack: TierStack::new(tiers.collect(), settings, host),
            host,
        })
    }

    /// The value of `key`, and the call, with which another one is stored if there is none.
    /// Bytes that cannot be read count as a miss.
    fn read(
        &self,
        py: Python<'_>,
        key: &[u8],
        names: &[u8],
        codec: &Bound<'_, PyAny>,
        is_forced: bool,
    ) -> PyResult<(Found, StackedCall)> {
        let mut call = self.stack.begin(key, names_in(names), is_forced);
        let mut found = None;
        while let Some(hit) = py.detach(|| self.stack.ask(&mut call)) {
            match opened(hit.value(), codec) {
                Ok(value) => {
                    py.detach(|| self.stack.accept(&mut call, &hit));
                    let left_ms = hit.until_ms.saturating_sub((self.host.now_ms)());
                    let left_ms = (hit.until_ms != NEVER_MS).then_some(left_ms);
                    found = Some((value.unbind(), left_ms));
                    break;
                }
                Err(error) if error.is_instance_of::<PyException>(py) => {
                    py.detach(|| self.stack.refuse(&mut call));
                }
                Err(error) => return Err(error),
            }
        }
        let call = Mutex::new(Some(call));
        Ok((found, StackedCall { call }))
    }

    /// Stores what the body gave. True if a tier has it, False if something was deleted meanwhile,
    /// None if no tier has it.
    fn store(
        &self,
        call: &StackedCall,
        value: &Bound<'_, PyAny>,
        codec: &Bound<'_, PyAny>,
        lifetime_ms: Option<u64>,
    ) -> PyResult<Option<bool>> {
        let bytes = value_bytes::encode(value, codec)?;
        call.with(value.py(), |call| {
            is_kept(self.stack.store(call, &sealed(&bytes), lifetime_ms))
        })
    }

    /// As `store`, with the frame of the value.
    fn store_frame(
        &self,
        py: Python<'_>,
        call: &StackedCall,
        frame: &[u8],
        lifetime_ms: Option<u64>,
    ) -> PyResult<Option<bool>> {
        call.with(py, |call| {
            is_kept(self.stack.store(call, frame, lifetime_ms))
        })
    }

    /// Deletes the entry of `key`. Whether there was one, and what failed.
    fn delete(&self, py: Python<'_>, key: &[u8], names: &[u8]) -> (bool, Vec<FailureText>) {
        let names = names_in(names);
        deleted(py.detach(|| self.stack.delete(key, &names)))
    }

    /// Forgets every entry that depends on one of the names. What failed.
    fn forget(&self, py: Python<'_>, names: &[u8]) -> Vec<FailureText> {
        let forget = |name: &TokenName| deleted(self.stack.forget(name)).1;
        let names = names_in(names);
        py.detach(|| names.iter().flat_map(forget).collect())
    }

    /// Why each tier cannot be used, nearest first; None if it can.
    fn states(&self, py: Python<'_>) -> Vec<Option<String>> {
        let states = py.detach(|| self.stack.states());
        let texts = states.into_iter().map(|state| match state.is_open {
            true => Some("its breaker is open".to_owned()),
            false => state.error.map(|error| error.text),
        });
        texts.collect()
    }
}

fn is_kept(stored: StoredInTiers) -> Option<bool> {
    match stored {
        StoredInTiers::Kept => Some(true),
        StoredInTiers::Overtaken => Some(false),
        StoredInTiers::Nowhere => None,
    }
}

fn deleted(done: Deleted) -> (bool, Vec<FailureText>) {
    let failures = done.failures.into_iter().map(failure_text);
    (done.was_there, failures.collect())
}
