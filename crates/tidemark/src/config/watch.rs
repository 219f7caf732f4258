//! Who may watch, and what they are shown, as typed.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::{Args, value_parser};
use client::Endpoint;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use server::telemetry::collector::ROUTE;
use server::telemetry::trace::TraceSetup;

use super::{given, listen_address};

/// What an endpoint of a collector looks like.
const COLLECTOR_FORM: &str = "http://host:port or https://host, to which /v1/traces is added";

/// What can be seen of the server from outside.
#[derive(Args)]
#[command(next_help_heading = "Watching")]
pub struct WatchArgs {
    /// Separate address for Prometheus metrics at /metrics, such as 127.0.0.1:8281; or off
    ///
    /// Anyone who can connect can read it without a key: patterns of routes, counts and times, no
    /// ids and no rows. Port 0 chooses a free port and prints it.
    #[arg(
        long,
        env = "TIDEMARK_METRICS_LISTEN",
        value_name = "off|ADDRESS:PORT",
        default_value = "off"
    )]
    metrics_listen: OwnAddress,
    /// Log lists that take this many milliseconds or longer to read, with their plan; 0 logs none
    #[arg(
        long,
        env = "TIDEMARK_SLOW_QUERY_MS",
        value_name = "MS",
        default_value_t = 1_000
    )]
    #[arg(allow_negative_numbers = true, value_parser = value_parser!(u64).range(0..=86_400_000))]
    slow_query_ms: u64,
    /// Send traces to this collector, by OTLP over HTTP, such as http://127.0.0.1:4318
    ///
    /// /v1/traces is added. Over https the collector must prove to be that host.
    #[arg(long, env = "TIDEMARK_OTLP_ENDPOINT", value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Trace one of N requests that carry no trace; 0 for none. For the others their caller decides
    #[arg(
        long,
        env = "TIDEMARK_OTLP_ONE_OF",
        value_name = "N",
        default_value_t = 100
    )]
    #[arg(allow_negative_numbers = true, value_parser = value_parser!(u64).range(0..))]
    otlp_one_of: u64,
    /// Headers of each request to the collector, as name=value,name=value, such as a token. Use the
    /// variable to hide them from other users of the machine
    #[arg(
        long,
        env = "TIDEMARK_OTLP_HEADERS",
        value_name = "NAME=VALUE,…",
        hide_env_values = true
    )]
    otlp_headers: Option<String>,
    /// Apply --otlp-one-of also to requests that carry a trace, whatever their caller decided
    #[arg(long, env = "TIDEMARK_OTLP_IGNORE_CALLERS")]
    otlp_ignore_callers: bool,
    /// Most spans a second; further requests are not traced
    #[arg(
        long,
        env = "TIDEMARK_OTLP_SPANS_MAX",
        value_name = "N",
        default_value_t = 1_000,
        allow_negative_numbers = true,
        value_parser = value_parser!(u32).range(1..=100_000)
    )]
    otlp_spans_max: u32,
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
            .map(|text| Endpoint::read(text, COLLECTOR_FORM))
            .transpose();
        let endpoint = endpoint.map_err(|why| anyhow!("--otlp-endpoint: {why}"))?;
        let headers = headers(given(self.otlp_headers.as_ref()).unwrap_or_default())?;
        let slow_query = Duration::from_millis(self.slow_query_ms);
        Ok(WatchSetup {
            metrics_listen: self.metrics_listen.0,
            slow_query: (!slow_query.is_zero()).then_some(slow_query),
            traces: endpoint.map(|endpoint| TraceSetup {
                // The whole address of the route is what some collectors' pages show.
                endpoint: endpoint.without(ROUTE),
                headers,
                one_of: self.otlp_one_of,
                ignores_callers: self.otlp_ignore_callers,
                spans_per_s_max: self.otlp_spans_max,
            }),
        })
    }
}

/// Reads `name=value,name=value`. Errors tell no value: it may be a secret.
///
/// # Errors
/// When a part has no name or none that a header can have, or one that the sender sets itself.
fn headers(text: &str) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (nth, part) in text.split(',').enumerate() {
        if part.trim().is_empty() {
            continue;
        }
        let part_nth = nth + 1;
        let (name, value) = part.split_once('=').ok_or_else(|| {
            anyhow!("--otlp-headers: part {part_nth} is not of the form name=value")
        })?;
        let wrong =
            |what: &str| anyhow!("--otlp-headers: the {what} of part {part_nth} is no header's");
        let name: HeaderName = name.trim().parse().map_err(|_| wrong("name"))?;
        if [HOST, CONTENT_TYPE, CONTENT_LENGTH].contains(&name) {
            return Err(anyhow!("--otlp-headers: `{name}` is set by the sender"));
        }
        let mut value: HeaderValue = value.trim().parse().map_err(|_| wrong("value"))?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_and_wrong_ones_refused_without_their_values() {
        let read = headers("authorization=Basic c2VjcmV0Og==, x-tenant = a ,").unwrap();
        assert_eq!(read["authorization"], "Basic c2VjcmV0Og==");
        assert_eq!(read["x-tenant"], "a");
        assert!(read["authorization"].is_sensitive());
        assert!(headers("").unwrap().is_empty());
        for (text, part) in [
            ("x=1,secret", "part 2 is not of the form name=value"),
            ("a b=secret", "the name of part 1"),
            ("x=secret\u{7f}", "the value of part 1"),
            ("Host=secret", "`host` is set by the sender"),
        ] {
            let error = headers(text).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn the_whole_route_of_a_collector_is_understood() {
        for text in ["http://c:4318", "http://c:4318/", "http://c:4318/v1/traces"] {
            let endpoint = Endpoint::read(text, COLLECTOR_FORM).unwrap().without(ROUTE);
            assert_eq!(endpoint.to_string(), "http://c:4318");
        }
        let error = Endpoint::read("c:4318", COLLECTOR_FORM).unwrap_err();
        assert!(error.contains("http://host:port or"), "{error}");
    }
}
