//! What Python gives to make a tier on a server with, whatever that speaks.

use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use tiers::{Host, TierError, TierServer, TierTls};

use crate::flight;

/// Address, prefix, milliseconds to connect and for a call, connections kept, bytes of an answer,
/// and in PEM the authorities and this client's certificates and key.
#[derive(FromPyObject)]
pub struct GivenServer(
    String,
    String,
    u64,
    u64,
    usize,
    usize,
    Option<Vec<u8>>,
    Option<(Vec<u8>, Vec<u8>)>,
);

impl GivenServer {
    /// The tier that `make` makes for it, and the host it is used from.
    ///
    /// # Errors
    /// A `ValueError` with what is wrong with the address.
    pub fn tier<T>(
        self,
        make: impl FnOnce(TierServer, Host) -> Result<T, TierError>,
    ) -> PyResult<(T, Host)> {
        let host = Host::of_this_machine(flight::forks);
        let host = host.map_err(|error| PyOSError::new_err(error.to_string()))?;
        let GivenServer(url, prefix, connect_ms, timeout_ms, idle_max, answer_bytes_max, ca, own) =
            self;
        let settings = TierServer {
            url,
            tls: TierTls {
                authorities: ca,
                client: own,
            },
            prefix,
            connect_timeout: Duration::from_millis(connect_ms.max(1)),
            timeout: Duration::from_millis(timeout_ms.max(1)),
            answer_bytes_max,
            idle_max,
        };
        let tier = make(settings, host).map_err(|error| PyValueError::new_err(error.text))?;
        Ok((tier, host))
    }
}
