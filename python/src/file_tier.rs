//! The file tier as an object of Python.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyException, PyOSError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tiers::envelope::{self, FrameCheck, Sealing};
use tiers::{FileSettings, FileSurvey, Host, Tier, TierError, TierFault};

use crate::notices::pass_on;
use crate::value_bytes::damaged;
use crate::{decode, flight, value_bytes};

/// The language and the version of the bytes in a file. A change of `value_bytes.rs` or of
/// `_codec.py` that older code would read differently changes it.
const CODEC: [u8; 8] = *b"python 1";
/// As above, in each frame.
const FRAME_CODEC: u8 = 1;
/// Largest value that is read, in bytes; no ring holds a larger one.
pub const VALUE_BYTES_MAX: usize = 256 << 20;

pyo3::create_exception!(
    tidemark_cache._native,
    TierFailure,
    PyException,
    "A tier did not do what it should have done: which kind of fault, and what happened."
);

/// The kind of a failure, and what happened.
pub type FailureText = (&'static str, String);

pub fn failure_text(error: TierError) -> FailureText {
    let kind = match error.fault {
        TierFault::Off => "off",
        TierFault::Busy => "busy",
        TierFault::TooLarge => "too_large",
        TierFault::Damaged => "damaged",
        TierFault::Io => "io",
    };
    (kind, error.text)
}

pub fn failure(error: TierError) -> PyErr {
    TierFailure::new_err(failure_text(error))
}

/// One cache file. The interpreter's lock is released while it is used.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct SharedFile {
    pub tier: Arc<tiers::FileTier>,
    settings: FileSettings,
    pub host: Host,
}

#[pymethods]
impl SharedFile {
    #[new]
    fn new(path: PathBuf, bytes: u64, stripes: u32) -> PyResult<SharedFile> {
        let host = Host::of_this_machine(flight::forks);
        let host = host.map_err(|error| PyOSError::new_err(error.to_string()))?;
        let settings = FileSettings {
            path,
            bytes,
            stripes,
            codec: CODEC,
        };
        Ok(SharedFile {
            tier: Arc::new(tiers::FileTier::new(settings.clone(), host)),
            settings,
            host,
        })
    }

    /// What is in the file: names and numbers. None if there is no file, or it would be replaced.
    /// Changes nothing.
    fn survey(&self, py: Python<'_>) -> PyResult<Option<Vec<(&'static str, u64)>>> {
        let found = py.detach(|| FileSurvey::of(&self.settings, &self.host));
        let Some(survey) = found.map_err(failure)? else {
            return Ok(None);
        };
        Ok(Some(vec![
            ("bytes of the file", survey.file_bytes),
            ("entries", survey.entries),
            ("bytes of entries", survey.entry_bytes),
            ("expired", survey.expired),
            ("overwritten", survey.overwritten),
            ("damaged", survey.damaged),
        ]))
    }

    /// Passes a notice on to all processes that listen now.
    fn announce(&self, py: Python<'_>, notice: &[u8]) -> PyResult<()> {
        py.detach(|| self.tier.announce(notice)).map_err(failure)
    }

    /// Calls `on_notice` with each notice, some milliseconds after it was announced, until it
    /// returns false or raises, or the file cannot be used.
    fn listen(&self, py: Python<'_>, on_notice: Py<PyAny>) -> PyResult<()> {
        pass_on(py, &on_notice, |call| self.tier.listen(call))
    }

    /// Removes every value.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.tier.clear()).map_err(failure)
    }
}

/// The value in a frame, or a `ValueError`; and how many bytes it was decoded from.
pub fn opened<'py>(
    checked: FrameCheck,
    frame: &[u8],
    codec: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, usize)> {
    let payload = envelope::open(checked, frame, VALUE_BYTES_MAX);
    let payload = payload.map_err(|error| damaged(&error.to_string()))?;
    if payload.codec != FRAME_CODEC {
        return Err(damaged("another codec"));
    }
    let value = decode::decode(&payload.bytes, codec)?;
    Ok((value, payload.bytes.len()))
}

/// The frame of a value that [`value_bytes::encode_with_room`] has encoded.
pub fn sealed(sealing: Sealing, bytes: Vec<u8>) -> Vec<u8> {
    envelope::seal(sealing, FRAME_CODEC, bytes)
}

/// A value as a tier stores it.
#[pyfunction]
pub fn dumps<'py>(
    value: &Bound<'py, PyAny>,
    codec: &Bound<'_, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = value_bytes::encode_with_room(value, codec)?;
    let frame = sealed(Sealing::default(), bytes);
    Ok(PyBytes::new(value.py(), &frame))
}

/// What `dumps` gave, as a value. Raises a `ValueError` for any other bytes.
#[pyfunction]
pub fn loads<'py>(frame: &[u8], codec: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    opened(FrameCheck::InFrame, frame, codec).map(|(value, _)| value)
}

/// The value that these bytes stand for inside a frame.
#[pyfunction]
pub fn decoded<'py>(payload: &[u8], codec: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    decode::decode(payload, codec)
}
