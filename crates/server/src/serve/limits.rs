//! Limits of connections and requests.

use std::time::Duration;

/// What a connection and a request may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most open connections; one more is answered 503 and closed.
    pub connections_max: usize,
    /// Most bytes of a request's line and headers; hyper answers 431 beyond, at least 8,192.
    pub head_bytes_max: usize,
    /// Most bytes of a request's body; 413 beyond.
    pub body_bytes_max: usize,
    /// Most bytes of bodies that all requests with an API key together hold, beyond 16 KiB of
    /// each; 503 beyond.
    pub bodies_bytes_max: usize,
    /// Most requests a second from one address without an API key; 429 beyond, and 0 for any
    /// number.
    pub guest_rate: u32,
    /// Most executions of functions without an API key that one address has at once; 429 beyond.
    pub guest_executions: usize,
    /// Most bytes of the bodies of these executions together; 429 beyond.
    pub guest_executions_bytes_max: usize,
    /// The same of all other requests. One address has a quarter, or room for one body.
    pub guest_bodies_bytes_max: usize,
    /// Most bytes of the answer to a read; 400 beyond.
    pub answer_bytes_max: usize,
    /// Most bytes of answers that clients have not taken, of all answers together but for those of
    /// up to 16 KiB; 503 beyond. Callers without a key may have half of it.
    pub answers_bytes_max: usize,
    /// Longest time from the first byte of a head, or from connecting, to the head's end, in
    /// milliseconds.
    pub head_ms: u64,
    /// Longest time without a byte of a body, in milliseconds; 408 beyond. Each byte that comes
    /// wins time, up to this much; see `rate_bytes_min`.
    pub body_ms: u64,
    /// Longest time without a byte in either direction between requests, in milliseconds. Also
    /// the longest time a client may take for an answer, where each byte taken wins time.
    pub idle_ms: u64,
    /// So many bytes of a body, or of an answer, win a second; at least 1.
    pub rate_bytes_min: u64,
    /// Longest life of a stream, in milliseconds; its last line is 408 beyond.
    pub stream_ms: u64,
    /// Longest time that shutdown may take, in milliseconds.
    pub drain_ms: u64,
}

/// Most of the time at the end that is kept for closing files, once requests are done; it is a
/// fifth of a short one.
const CLOSING_MS_MAX: u64 = 2_000;

impl Limits {
    /// How long requests that run at the end may take.
    pub fn draining(&self) -> Duration {
        let closing_ms = (self.drain_ms / 5).min(CLOSING_MS_MAX);
        Duration::from_millis(self.drain_ms - closing_ms)
    }

    /// How much time so many bytes of a body or an answer win. What is won counts up to the
    /// instant they moved and no further: it cannot be saved up.
    pub fn won(&self, bytes: u64) -> Duration {
        let won_us = u128::from(bytes) * 1_000_000 / u128::from(self.rate_bytes_min.max(1));
        Duration::from_micros(u64::try_from(won_us).unwrap_or(u64::MAX))
    }
}
