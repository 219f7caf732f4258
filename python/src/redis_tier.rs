//! A Redis server as an object of Python.

use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use tiers::{Host, RedisSettings, RedisTier, TierTls};

use crate::file_tier::failure;
use crate::flight;
use crate::notices::pass_on;

/// One Redis server. It is used through a stack of tiers.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct SharedRedis {
    pub tier: Arc<RedisTier>,
    pub host: Host,
}

#[pymethods]
impl SharedRedis {
    /// `sentinels` are addresses; `authorities` and `client`, its certificates and its key, are in
    /// PEM.
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        url: String,
        sentinels: Vec<String>,
        prefix: String,
        connect_ms: u64,
        timeout_ms: u64,
        idle_max: usize,
        answer_bytes_max: usize,
        authorities: Option<Vec<u8>>,
        client: Option<(Vec<u8>, Vec<u8>)>,
    ) -> PyResult<SharedRedis> {
        let host = Host::of_this_machine(flight::forks);
        let host = host.map_err(|error| PyOSError::new_err(error.to_string()))?;
        let settings = RedisSettings {
            url,
            sentinels,
            tls: TierTls {
                authorities,
                client,
            },
            prefix,
            connect_timeout: Duration::from_millis(connect_ms.max(1)),
            timeout: Duration::from_millis(timeout_ms.max(1)),
            answer_bytes_max,
            idle_max,
        };
        let tier = RedisTier::new(settings, host);
        let tier = tier.map_err(|error| PyValueError::new_err(error.text))?;
        Ok(SharedRedis {
            tier: Arc::new(tier),
            host,
        })
    }

    /// Passes a notice on to all processes that listen now.
    fn announce(&self, py: Python<'_>, notice: &[u8]) -> PyResult<()> {
        py.detach(|| self.tier.announce(notice)).map_err(failure)
    }

    /// Calls `on_notice` with each notice, until it returns false or raises, or the connection
    /// ends.
    fn listen(&self, py: Python<'_>, on_notice: Py<PyAny>) -> PyResult<()> {
        pass_on(py, &on_notice, |call| self.tier.listen(call))
    }
}
