//! A Memcached server as an object of Python.

use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use tiers::{Host, MemcachedSettings, MemcachedStore, RecordTier, TierTls};

use crate::flight;

/// One Memcached server. It is used through a stack of tiers.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct SharedMemcached {
    pub tier: Arc<RecordTier<MemcachedStore>>,
    pub host: Host,
}

#[pymethods]
impl SharedMemcached {
    /// `authorities` and `client`, its certificates and its key, are in PEM.
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        url: String,
        prefix: String,
        connect_ms: u64,
        timeout_ms: u64,
        idle_max: usize,
        record_bytes_max: usize,
        authorities: Option<Vec<u8>>,
        client: Option<(Vec<u8>, Vec<u8>)>,
    ) -> PyResult<SharedMemcached> {
        let host = Host::of_this_machine(flight::forks);
        let host = host.map_err(|error| PyOSError::new_err(error.to_string()))?;
        let settings = MemcachedSettings {
            url,
            tls: TierTls {
                authorities,
                client,
            },
            prefix,
            connect_timeout: Duration::from_millis(connect_ms.max(1)),
            timeout: Duration::from_millis(timeout_ms.max(1)),
            record_bytes_max,
            idle_max,
        };
        let store = MemcachedStore::new(settings, &host);
        let store = store.map_err(|error| PyValueError::new_err(error.text))?;
        Ok(SharedMemcached {
            tier: Arc::new(RecordTier::new(store, host)),
            host,
        })
    }
}
