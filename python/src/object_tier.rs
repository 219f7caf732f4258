//! An object of Python as a tier: anything with the methods `get`, `set` and `delete`.
//!
//! Its methods run on threads of Python only. A thread of the native side that attached itself to
//! the interpreter would not survive its end; such threads only renew leases, which an object has
//! none of, and check whether a tier works again, which then the next call finds out.

use std::cell::RefCell;
use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{
    PyAttributeError, PyException, PyNotImplementedError, PyOSError, PyPermissionError, PyTypeError,
};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyTuple};
use tiers::{Host, RecordStore, RecordTier, TierError, TierFault};

use crate::file_tier::VALUE_BYTES_MAX;
use crate::flight;

/// What all keys begin with: the package, and the codec as in the name of the file.
const PREFIX: &str = "tidemark:python-1:";
/// Room for what stands before a value.
const RECORD_BYTES_MAX: usize = VALUE_BYTES_MAX + 8_192;

thread_local! {
    /// What a method raised that no tier may hold back, such as a `KeyboardInterrupt`.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Raises what the methods of an object raised on this thread that is no failure of a tier.
pub fn raise_what_was_raised() -> PyResult<()> {
    match RAISED.take() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// One object of the user's. It is used through a stack of tiers.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct SharedObject {
    pub tier: Arc<RecordTier<ObjectRecords>>,
    pub host: Host,
}

#[pymethods]
impl SharedObject {
    #[new]
    fn new(object: Bound<'_, PyAny>) -> PyResult<SharedObject> {
        let host = Host::of_this_machine(flight::forks);
        let host = host.map_err(|error| PyOSError::new_err(error.to_string()))?;
        let records = ObjectRecords {
            name: object.get_type().name()?.to_string(),
            object: object.unbind(),
        };
        Ok(SharedObject {
            tier: Arc::new(RecordTier::new(records, host)),
            host,
        })
    }
}

/// The records that an object keeps.
pub struct ObjectRecords {
    object: Py<PyAny>,
    /// That of its type.
    name: String,
}

impl ObjectRecords {
    /// Does something with the object, attached to the interpreter.
    fn with<T>(
        &self,
        method: &str,
        act: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T, TierError> {
        let act = |py: Python<'_>| {
            act(self.object.bind(py)).map_err(|error| self.failure(py, method, error))
        };
        let done = match is_of_python() {
            true => Python::try_attach(act),
            false => None,
        };
        done.unwrap_or_else(|| {
            let text = format!("{}: no thread of a running interpreter", self.name);
            Err(TierError::new(TierFault::Off, text))
        })
    }

    /// Says what kind of exception it was, and not its text, which may hold a secret.
    fn failure(&self, py: Python<'_>, method: &str, error: PyErr) -> TierError {
        // Those of wrong settings or a wrong object: it does not help to try again.
        let is_lasting = error.is_instance_of::<PyPermissionError>(py)
            || error.is_instance_of::<PyTypeError>(py)
            || error.is_instance_of::<PyAttributeError>(py)
            || error.is_instance_of::<PyNotImplementedError>(py);
        let kind = error.get_type(py).name().map(|name| name.to_string());
        let kind = kind.unwrap_or_else(|_| "an exception".to_owned());
        let text = format!("{}.{method}: {kind}", self.name);
        if !error.is_instance_of::<PyException>(py) {
            RAISED.set(Some(error));
            return TierError::new(TierFault::Off, text);
        }
        let fault = match is_lasting {
            true => TierFault::Off,
            false => TierFault::Io,
        };
        TierError::new(fault, text)
    }

    /// The bytes of what `get` has returned.
    fn bytes(&self, found: &Bound<'_, PyAny>) -> Result<Vec<u8>, TierError> {
        let damaged = |text: String| {
            let text = format!("{}.get: {text}", self.name);
            TierError::new(TierFault::Damaged, text)
        };
        let sized = |length: usize| match length > RECORD_BYTES_MAX {
            true => Err(damaged(format!("{length} bytes, not {RECORD_BYTES_MAX}"))),
            false => Ok(()),
        };
        if let Ok(bytes) = found.cast::<PyBytes>() {
            sized(bytes.as_bytes().len())?;
            return Ok(bytes.as_bytes().to_vec());
        }
        let kind = found.get_type().name();
        let kind = kind.map_or_else(|_| "another".to_owned(), |name| name.to_string());
        let buffer = PyBuffer::<u8>::get(found);
        let buffer = buffer.map_err(|_| damaged(format!("a value of type {kind}, not bytes")))?;
        sized(buffer.len_bytes())?;
        let copied = buffer.to_vec(found.py());
        copied.map_err(|_| damaged(format!("a value of type {kind}, not bytes")))
    }
}

/// Whether this thread has been one of the interpreter's before.
fn is_of_python() -> bool {
    !unsafe { pyo3::ffi::PyGILState_GetThisThreadState() }.is_null()
}

fn key_text(key: &[u8]) -> String {
    let digit = |four: u8| char::from_digit(four.into(), 16).expect("four bits");
    let mut text = PREFIX.to_owned();
    for byte in key {
        text.extend([digit(byte >> 4), digit(byte & 15)]);
    }
    text
}

impl RecordStore for ObjectRecords {
    fn check(&self) -> Result<(), TierError> {
        if !is_of_python() {
            return Ok(());
        }
        if !self.with("health_check", |object| object.hasattr("health_check"))? {
            return self.read(b"check").map(drop);
        }
        let is_healthy = self.with("health_check", |object| {
            let said = object.call_method0("health_check")?;
            // As cachekit's: whether, and details.
            if let Ok(parts) = said.cast::<PyTuple>() {
                return parts.get_item(0)?.is_truthy();
            }
            Ok(!said.is(&*PyBool::new(object.py(), false)))
        })?;
        if is_healthy {
            return Ok(());
        }
        let text = format!("{}.health_check: not healthy", self.name);
        Err(TierError::new(TierFault::Io, text))
    }

    fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>, TierError> {
        let found = self.with("get", |object| {
            let found = object.call_method1("get", (key_text(key),))?;
            Ok((!found.is_none()).then(|| self.bytes(&found)))
        })?;
        found.transpose()
    }

    fn write(&self, key: &[u8], record: &[u8], lifetime_ms: u64) -> Result<(), TierError> {
        // Rounded up: a record that stays too long is known to be over by what it holds.
        let lifetime_s = lifetime_ms.div_ceil(1_000);
        self.with("set", |object| {
            let record = PyBytes::new(object.py(), record);
            let done = object.call_method1("set", (key_text(key), record, lifetime_s));
            done.map(drop)
        })
    }

    fn remove(&self, key: &[u8]) -> Result<bool, TierError> {
        self.with("delete", |object| {
            object.call_method1("delete", (key_text(key),))?.is_truthy()
        })
    }
}
