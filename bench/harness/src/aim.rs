//! One request that is asked again and again, of whom, and what its answers cost.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use measure::connection::{Access, Connection};
use measure::costs::Costs;
use measure::early_end::EarlyEnd;
use measure::wrk::{READS, Wrk, WrkLoad};

use crate::figure::Slice;

/// The figure is stated at this many connections of wrk.
pub const WRK_CONNECTIONS: u32 = 32;
/// Threads of wrk. They share the machine with the server under test.
pub const WRK_THREADS: u32 = 2;
/// Requests before the first timed one.
const WARMUP: usize = 200;

/// A request and who answers it.
#[derive(Clone)]
pub struct Aim {
    /// Where it listens.
    pub address: SocketAddr,
    /// Path and query, as they stand in the request.
    pub path: String,
    /// Headers beside `Host`, as lines without their ends.
    pub headers: Vec<String>,
    /// All that works for the answer.
    pub costs: Costs,
}

impl Aim {
    /// A `GET` of `route` on a Tidemark server.
    pub fn at(access: &Access, route: &str, costs: Costs) -> Aim {
        Aim {
            address: access.address,
            path: format!("/v1{route}"),
            headers: access.headers().to_vec(),
            costs,
        }
    }

    /// The same request to another server.
    #[must_use]
    pub fn of(&self, address: SocketAddr, costs: Costs) -> Aim {
        Aim {
            address,
            costs,
            ..self.clone()
        }
    }

    /// The whole address.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, self.path)
    }

    /// The bytes of the request.
    pub fn request(&self) -> Vec<u8> {
        let Aim { address, path, .. } = self;
        let lines: Vec<&str> = self
            .headers
            .iter()
            .flat_map(|line| [line, "\r\n"])
            .collect();
        let lines = lines.concat();
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{lines}\r\n").into_bytes()
    }

    /// Requests a second under the load of wrk, with processor time and latencies.
    ///
    /// # Errors
    /// When a connection broke, an answer was no success, or a process is gone.
    pub fn load(&self, wrk: &Wrk, seconds: u64) -> Result<Slice> {
        let meter = self.costs.begin()?;
        let load = WrkLoad {
            script: READS,
            threads: WRK_THREADS,
            connections: WRK_CONNECTIONS,
            seconds,
            cores: None,
        };
        let counted = wrk.run(&self.url(), &self.headers, &load, &EarlyEnd::default())?;
        let costs = meter.each(counted.requests)?;
        Ok(Slice::noted(
            counted.per_s,
            [costs, counted.points].concat(),
        ))
    }

    /// The latencies of one connection that asks for `ms`, one request after the other.
    ///
    /// # Errors
    /// When the connection broke, an answer was no success or has another length than the first.
    pub fn one_by_one(&self, ms: u64) -> Result<Slice> {
        let request = self.request();
        let mut connection = Connection::open(self.address)?;
        for _ in 0..WARMUP {
            connection.accepted(&request)?;
        }
        let bytes = connection.accepted(&request)?.body.len();
        let meter = self.costs.begin()?;
        let mut samples_ns = Vec::new();
        let until = Instant::now() + Duration::from_millis(ms);
        while samples_ns.is_empty() || Instant::now() < until {
            let start = Instant::now();
            let answer = connection.accepted(&request)?;
            samples_ns.push(start.elapsed().as_nanos() as u64);
            ensure!(answer.body.len() == bytes, "an answer has another length");
        }
        let costs = meter.each(samples_ns.len() as f64)?;
        let mut slice = Slice::of_latencies(samples_ns);
        slice.notes.splice(0..0, costs);
        Ok(slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_the_one_that_a_server_gets() {
        let access = Access::new(([127, 0, 0, 1], 80), "p", "k");
        let aim = Aim::at(&access, "/tablesdb?x", Costs::of(Vec::new()));
        assert_eq!(aim.request(), access.request("GET", "/tablesdb?x", ""));
        assert_eq!(aim.url(), access.url("/tablesdb?x"));
        let other = aim.of(([127, 0, 0, 1], 81).into(), Costs::of(Vec::new()));
        assert_eq!(other.url(), "http://127.0.0.1:81/v1/tablesdb?x");
        assert!(other.request().ends_with(b"X-Appwrite-Key: k\r\n\r\n"));
    }
}
