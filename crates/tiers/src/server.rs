//! What a tier on a server is made with, whatever it speaks.

use std::time::Duration;

use super::tls::TierTls;

/// Where a server is, and how it is used.
#[derive(Clone)]
pub struct TierServer {
    /// Its address. For Redis `redis://[user:password@]host[:port][/database]`, `rediss://…` for
    /// TLS, or `redis+unix:///path`; for Memcached `memcached://host[:port]`, `memcacheds://…` or
    /// `memcached+unix:///path`.
    pub url: String,
    /// What a connection by TLS needs.
    pub tls: TierTls,
    /// What all keys begin with; for Memcached letters, digits and punctuation of ASCII.
    pub prefix: String,
    /// How long making a connection may take.
    pub connect_timeout: Duration,
    /// How long a call may take, from its first byte to the last one of its answer.
    pub timeout: Duration,
    /// Bytes that one answer may have. A larger one is an error, and the connection ends.
    pub answer_bytes_max: usize,
    /// Connections that are kept in each process while they are not used.
    pub idle_max: usize,
}
