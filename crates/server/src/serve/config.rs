//! What serving needs to know.

use std::net::SocketAddr;
use std::sync::Arc;

use engine::Clock;

use super::limits::Limits;
use super::tls::TlsFiles;
use crate::functions::FunctionsConfig;
use crate::http::head::forwarded::TrustedProxies;
use crate::http::state::counts::Counts;
use crate::http::state::test_clock::SetClock;
use crate::rng::Rng;
use crate::telemetry::trace::Traces;

/// How to serve. No limit has a default here: the caller decides.
pub struct ServeConfig {
    /// Where to listen. Port 0 lets the system choose; the callback of [`run`](super::run) says
    /// what it chose.
    pub listen: SocketAddr,
    /// Runtimes that answer requests, each on a thread of its own; at least one is started.
    pub threads: usize,
    /// What a connection and a request may take.
    pub limits: Limits,
    /// Pages of which hosts may call from a browser, beside those on this machine:
    /// `example.com`, or `*.example.com` for all below it.
    pub origins: Vec<String>,
    /// Which proxies are believed when they say for whom they ask.
    pub proxies: TrustedProxies,
    /// Certificate and key; without them connections are plain.
    pub tls: Option<TlsFiles>,
    /// Whether each request writes a line to the log (level debug, target `access`).
    pub access_log: bool,
    /// Where each thread counts what it answers; of as many threads as there are.
    pub counts: Arc<Counts>,
    /// Where spans go; `None` for nowhere.
    pub traces: Option<Arc<Traces>>,
    /// How functions are executed, or why they are not, as a clause.
    pub functions: Result<FunctionsConfig, String>,
    /// Gives ids their time.
    pub clock: Arc<dyn Clock>,
    /// The clock of the engine, where clients set it by a header; only for tests.
    pub test_clock: Option<Arc<SetClock>>,
    /// Gives ids their chance.
    pub rng: Rng,
    /// Gives memory that a thread does not use back to the system; called now and then, with
    /// whether the thread has nothing to do.
    pub collect: fn(bool),
}
