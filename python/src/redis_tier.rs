//! A Redis server as an object of Python.

use std::sync::Arc;

use pyo3::prelude::*;
use tiers::{Host, RedisTier};

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

    /// Milliseconds since all that was invalidated until then was known here, by the stream of
    /// numbered notices; None while it is not followed without a gap.
    fn stream_age_ms(&self) -> Option<u64> {
        let right_until_ms = self.tier.right_until_ms(self.tier.stream_run())?;
        Some((self.host.now_ms)().saturating_sub(right_until_ms))
    }

    /// Calls `on_notice` with each notice, until it returns false or raises, or the connection
    /// ends.
    fn listen(&self, py: Python<'_>, on_notice: Py<PyAny>) -> PyResult<()> {
        pass_on(py, &on_notice, |call| self.tier.listen(call))
    }
}
