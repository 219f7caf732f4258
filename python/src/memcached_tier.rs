//! A Memcached server as an object of Python.

use std::sync::Arc;

use pyo3::prelude::*;
use tiers::{Host, MemcachedStore, RecordTier};

use crate::server::GivenServer;

/// One Memcached server. It is used through a stack of tiers.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct SharedMemcached {
    pub tier: Arc<RecordTier<MemcachedStore>>,
    pub host: Host,
}

#[pymethods]
impl SharedMemcached {
    #[new]
    fn new(server: GivenServer) -> PyResult<SharedMemcached> {
        let (store, host) = server.tier(|settings, host| MemcachedStore::new(settings, &host))?;
        let tier = Arc::new(RecordTier::new(store, host));
        Ok(SharedMemcached { tier, host })
    }
}
