//! A Redis server as an object of Python.

use std::sync::Arc;

use pyo3::prelude::*;
use tiers::{Host, RedisTier};

use crate::file_tier::failure;
use crate::notices::pass_on;
use crate::server::GivenServer;

/// One Redis server. It is used through a stack of tiers.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct SharedRedis {
    pub tier: Arc<RedisTier>,
    pub host: Host,
}

#[pymethods]
impl SharedRedis {
    /// `sentinels`, and `cluster`, the servers of one, are addresses.
    #[new]
    fn new(
        server: GivenServer,
        sentinels: Vec<String>,
        cluster: Vec<String>,
    ) -> PyResult<SharedRedis> {
        let (tier, host) = server.tier(|settings, host| {
            if cluster.is_empty() {
                RedisTier::by_sentinels(settings, &sentinels, host)
            } else {
                RedisTier::in_cluster(settings, &cluster, host)
            }
        })?;
        let tier = Arc::new(tier);
        Ok(SharedRedis { tier, host })
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
