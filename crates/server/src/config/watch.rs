//! Who may watch, and what they are told, as typed.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;

use super::{given, listen_address};
use crate::watch::trace::TraceSetup;

/// What can be seen of the server from outside.
#[derive(Args)]
#[command(next_help_heading = "Watching")]
pub struct WatchArgs {
    /// An address of its own where Prometheus reads /metrics: off, or such as 127.0.0.1:8281
    ///
    /// Who can connect there can read, without a key: patterns of routes, counts and times, no ids
    /// and no rows. Port 0 takes a free one, which is printed.
    #[arg(
        long,
        env = "TIDEMARK_METRICS_LISTEN",
        value_name = "off|ADDRESS:PORT",
        default_value = "off"
    )]
    metrics_listen: OwnAddress,
    /// Log reads of lists that take so many milliseconds or longer, with their plan; 0 logs none
    #[arg(
        long,
        env = "TIDEMARK_SLOW_QUERY_MS",
        value_name = "MS",
        default_value_t = 1_000
    )]
    slow_query_ms: u64,
    /// Send traces to this collector, by OTLP over HTTP: http://127.0.0.1:4318, say
    ///
    /// /v1/traces is added. Over https the collector must prove to be that host.
    #[arg(long, env = "TIDEMARK_OTLP_ENDPOINT", value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Trace one of so many requests that come without a trace; 0 for none. Those that come with
    /// one are traced as their callers say
    #[arg(
        long,
        env = "TIDEMARK_OTLP_ONE_OF",
        value_name = "N",
        default_value_t = 100
    )]
    otlp_one_of: u64,
}

/// An address, or none.
#[derive(Clone, Debug)]
struct OwnAddress(Option<SocketAddr>);

impl FromStr for OwnAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<OwnAddress, String> {
        match text {
            "" | "off" => Ok(OwnAddress(None)),
            address => listen_address(address).map(|address| OwnAddress(Some(address))),
        }
    }
}

/// What can be seen of the server from outside.
#[derive(Clone, Debug)]
pub struct WatchSetup {
    /// Where metrics are read; `None` for nowhere.
    pub metrics_listen: Option<SocketAddr>,
    /// From which time on a read of a list is logged; `None` for never.
    pub slow_query: Option<Duration>,
    /// Where traces go; `None` for nowhere.
    pub traces: Option<TraceSetup>,
}

impl WatchArgs {
    /// # Errors
    /// When a part contradicts a rule; the text names it.
    pub fn check(self) -> Result<WatchSetup> {
        let endpoint = given(self.otlp_endpoint.as_ref())
            .map(str::parse)
            .transpose();
        let endpoint = endpoint.map_err(|why: String| anyhow!("--otlp-endpoint: {why}"))?;
        let slow_query = Duration::from_millis(self.slow_query_ms);
        Ok(WatchSetup {
            metrics_listen: self.metrics_listen.0,
            slow_query: (!slow_query.is_zero()).then_some(slow_query),
            traces: endpoint.map(|endpoint| TraceSetup {
                endpoint,
                one_of: self.otlp_one_of,
            }),
        })
    }
}
