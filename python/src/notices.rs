//! Notices of what other processes have invalidated, on their way to a callable of Python.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tiers::{ListenEvent, TierError};

/// Calls `on_notice` with each notice that `listen` receives, with None when it begins to listen
/// and with no bytes at times, until it returns false or raises, or the listening ends.
pub fn pass_on(
    py: Python<'_>,
    on_notice: &Py<PyAny>,
    listen: impl FnOnce(&mut dyn FnMut(ListenEvent<'_>) -> bool) -> Result<(), TierError> + Send,
) -> PyResult<()> {
    let mut raised = None;
    let mut call = |notice: ListenEvent<'_>| {
        // None where the interpreter ends.
        let wanted = Python::try_attach(|py| {
            let bytes = match notice {
                ListenEvent::Began => None,
                ListenEvent::Quiet => Some(PyBytes::new(py, b"")),
                ListenEvent::Notice(bytes) => Some(PyBytes::new(py, bytes)),
            };
            on_notice.call1(py, (bytes,))?.is_truthy(py)
        });
        wanted.unwrap_or(Ok(false)).unwrap_or_else(|error| {
            raised = Some(error);
            false
        })
    };
    // That a connection ends is no error: what is lost by it is known.
    let _ = py.detach(|| listen(&mut call));
    raised.map_or(Ok(()), Err)
}
