//! A Redis server as an object of Python.

use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use tiers::{Host, RedisSettings, RedisTier};

use crate::flight;

/// One Redis server. It is used through a stack of tiers.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct SharedRedis {
    pub tier: Arc<RedisTier>,
    pub host: Host,
}

#[pymethods]
impl SharedRedis {
    #[new]
    fn new(
        url: String,
        prefix: String,
        connect_ms: u64,
        timeout_ms: u64,
        idle_max: usize,
    ) -> PyResult<SharedRedis> {
        let host = Host::of_this_machine(flight::forks);
        let host = host.map_err(|error| PyOSError::new_err(error.to_string()))?;
        let settings = RedisSettings {
            url,
            prefix,
            connect_timeout: Duration::from_millis(connect_ms.max(1)),
            timeout: Duration::from_millis(timeout_ms.max(1)),
            idle_max,
        };
        let tier = RedisTier::new(settings, host);
        let tier = tier.map_err(|error| PyValueError::new_err(error.text))?;
        Ok(SharedRedis {
            tier: Arc::new(tier),
            host,
        })
    }
}
