//! The file tier as an object of Python.

use std::path::PathBuf;

use pyo3::exceptions::{PyException, PyOSError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tiers::{
    FileSettings, FileSurvey, Host, Lookup, MissTicket, Stored, Tier, TierError, TierFault,
    envelope,
};

use crate::value_bytes::damaged;
use crate::{decode, flight, value_bytes};

/// The language and the version of the bytes in a file. A change of `value_bytes.rs` or of
/// `_codec.py` that older code would read differently changes it.
const CODEC: [u8; 8] = *b"python 1";
/// As above, in each frame.
const FRAME_CODEC: u8 = 1;
/// Largest value that is read, in bytes; no ring holds a larger one.
const VALUE_BYTES_MAX: usize = 256 << 20;

pyo3::create_exception!(
    tidemark_cache._native,
    TierFailure,
    PyException,
    "A tier did not do what it should have done: which kind of fault, and what happened."
);

fn failure(error: TierError) -> PyErr {
    let kind = match error.fault {
        TierFault::Off => "off",
        TierFault::Busy => "busy",
        TierFault::TooLarge => "too_large",
        TierFault::Damaged => "damaged",
        TierFault::Io => "io",
    };
    TierFailure::new_err((kind, error.text))
}

type TicketNumbers = (u64, u64);

fn numbers(ticket: MissTicket) -> TicketNumbers {
    (ticket.epoch, ticket.deletions)
}

fn ticket((epoch, deletions): TicketNumbers) -> MissTicket {
    MissTicket { epoch, deletions }
}

/// A value and the milliseconds it has left, or a ticket.
type Loaded = (Option<(Py<PyAny>, Option<u64>)>, Option<TicketNumbers>);

/// One cache file. The interpreter's lock is released while it is used.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct SharedFile {
    tier: tiers::FileTier,
    settings: FileSettings,
    host: Host,
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
            tier: tiers::FileTier::new(settings.clone(), host),
            settings,
            host,
        })
    }

    /// Raises if the file cannot be used.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.tier.check()).map_err(failure)
    }

    /// The value of `key` and the milliseconds it has left, None for no end; or None and a ticket.
    /// Bytes that cannot be read count as a miss.
    fn load(&self, py: Python<'_>, key: &[u8], codec: &Bound<'_, PyAny>) -> PyResult<Loaded> {
        let found = py.detach(|| self.tier.get(key)).map_err(failure)?;
        let hit = match found {
            Lookup::Miss(ticket) => return Ok((None, Some(numbers(ticket)))),
            Lookup::Hit(hit) => hit,
        };
        let value = match opened(hit.value(), codec) {
            Ok(value) => value,
            Err(error) if error.is_instance_of::<PyException>(py) => {
                return Ok((None, Some(self.ticket(py, key)?)));
            }
            Err(error) => return Err(error),
        };
        let left_ms = hit.until_ms.saturating_sub((self.host.now_ms)());
        let left_ms = (hit.until_ms != tiers::NEVER_MS).then_some(left_ms);
        Ok((Some((value.unbind(), left_ms)), None))
    }

    /// A ticket for a value that replaces another.
    fn ticket(&self, py: Python<'_>, key: &[u8]) -> PyResult<TicketNumbers> {
        let ticket = py.detach(|| self.tier.ticket(key)).map_err(failure)?;
        Ok(numbers(ticket))
    }

    /// Stores a value, unless a deletion came after the ticket. Whether it is stored.
    #[pyo3(signature = (key, value, codec, lifetime_ms, given))]
    fn store(
        &self,
        key: &[u8],
        value: &Bound<'_, PyAny>,
        codec: &Bound<'_, PyAny>,
        lifetime_ms: Option<u64>,
        given: Option<TicketNumbers>,
    ) -> PyResult<bool> {
        let bytes = value_bytes::encode(value, codec)?;
        let stored = value.py().detach(|| {
            let mut frame = Vec::new();
            envelope::seal(FRAME_CODEC, &bytes, &mut frame);
            self.tier.set(key, &frame, lifetime_ms, given.map(ticket))
        });
        Ok(stored.map_err(failure)? == Stored::Kept)
    }

    /// Removes the value of `key`. Whether there was one.
    fn delete(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        py.detach(|| self.tier.delete(key)).map_err(failure)
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

    /// Removes every value.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.tier.clear()).map_err(failure)
    }
}

fn opened<'py>(frame: &[u8], codec: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let payload = envelope::open(frame, VALUE_BYTES_MAX);
    let payload = payload.map_err(|error| damaged(&error.to_string()))?;
    if payload.codec != FRAME_CODEC {
        return Err(damaged("another codec"));
    }
    decode::decode(&payload.bytes, codec)
}

/// A value as a tier stores it.
#[pyfunction]
pub fn dumps<'py>(
    value: &Bound<'py, PyAny>,
    codec: &Bound<'_, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut frame = Vec::new();
    envelope::seal(FRAME_CODEC, &value_bytes::encode(value, codec)?, &mut frame);
    Ok(PyBytes::new(value.py(), &frame))
}

/// What `dumps` gave, as a value. Raises a `ValueError` for any other bytes.
#[pyfunction]
pub fn loads<'py>(frame: &[u8], codec: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    opened(frame, codec)
}

/// The value that these bytes stand for inside a frame.
#[pyfunction]
pub fn decoded<'py>(payload: &[u8], codec: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    decode::decode(payload, codec)
}
