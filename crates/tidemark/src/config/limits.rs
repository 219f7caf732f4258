//! What a connection and a request may take, as typed.

use clap::{Args, value_parser};
use server::serve::Limits;

use super::size::size_bytes;

/// Limits of connections and requests; over one is a typed refusal or a closed connection.
#[derive(Args)]
#[command(next_help_heading = "Limits of connections and requests")]
pub struct LimitArgs {
    /// Most open connections; 503 beyond
    #[arg(
        long,
        env = "TIDEMARK_CONNECTIONS_MAX",
        value_name = "N",
        default_value_t = 10_000
    )]
    #[arg(value_parser = value_parser!(u32).range(1..))]
    connections_max: u32,
    /// Most bytes of a request's line and headers, 8KiB to 1MiB; 431 beyond
    #[arg(
        long,
        env = "TIDEMARK_HEAD_MAX",
        value_name = "SIZE",
        default_value = "64KiB"
    )]
    #[arg(value_parser = |text: &str| within(text, 8 << 10, 1 << 20))]
    head_max: usize,
    /// Most bytes of a request's body, up to 1GiB, and of its arrays and objects in memory; 413
    /// beyond
    #[arg(
        long,
        env = "TIDEMARK_BODY_MAX",
        value_name = "SIZE",
        default_value = "20MiB"
    )]
    #[arg(value_parser = |text: &str| within(text, 1, 1 << 30))]
    body_max: usize,
    /// Most bytes of bodies of all requests with an API key together, not counting 16 KiB of each;
    /// 503 beyond
    #[arg(
        long,
        env = "TIDEMARK_BODIES_MEMORY",
        value_name = "SIZE",
        default_value = "256MiB"
    )]
    #[arg(value_parser = |text: &str| within(text, 1, 1 << 40))]
    bodies_memory: usize,
    /// The same for all requests without a key; one address gets a quarter, or one body; 503 beyond
    #[arg(
        long,
        env = "TIDEMARK_GUEST_BODIES_MEMORY",
        value_name = "SIZE",
        default_value = "64MiB"
    )]
    #[arg(value_parser = |text: &str| within(text, 1, 1 << 40))]
    guest_bodies_memory: usize,
    /// Most bytes of the answer to one read, 64KiB to 1GiB; 400 beyond
    #[arg(
        long,
        env = "TIDEMARK_ANSWER_MAX",
        value_name = "SIZE",
        default_value = "32MiB"
    )]
    #[arg(value_parser = |text: &str| within(text, 64 << 10, 1 << 30))]
    answer_max: usize,
    /// Most bytes of answers over 16 KiB that wait for their clients, half of them for callers
    /// without a key; 503 beyond
    #[arg(
        long,
        env = "TIDEMARK_ANSWERS_MEMORY",
        value_name = "SIZE",
        default_value = "256MiB"
    )]
    #[arg(value_parser = |text: &str| within(text, 1, 1 << 40))]
    answers_memory: usize,
    /// Time limit of a request's head and of a TLS handshake, in milliseconds
    #[arg(
        long,
        env = "TIDEMARK_HEAD_LIMIT_MS",
        value_name = "MS",
        default_value_t = 10_000
    )]
    #[arg(value_parser = value_parser!(u64).range(1..))]
    head_limit_ms: u64,
    /// Longest time without a byte of a body, in milliseconds; see --rate-min
    #[arg(
        long,
        env = "TIDEMARK_BODY_LIMIT_MS",
        value_name = "MS",
        default_value_t = 30_000
    )]
    #[arg(value_parser = value_parser!(u64).range(1..))]
    body_limit_ms: u64,
    /// Longest time between requests, and without a byte of an answer taken, in milliseconds
    #[arg(
        long,
        env = "TIDEMARK_IDLE_LIMIT_MS",
        value_name = "MS",
        default_value_t = 75_000
    )]
    #[arg(value_parser = value_parser!(u64).range(1..))]
    idle_limit_ms: u64,
    /// Least bytes per second of a body or an answer; slower ones use up their time limit
    ///
    /// The default is the rate of the slowest mobile connections. A slower body or answer is cut
    /// off once its limit has passed.
    #[arg(
        long,
        env = "TIDEMARK_RATE_MIN",
        value_name = "SIZE",
        default_value = "4KiB"
    )]
    #[arg(value_parser = |text: &str| within(text, 1, 1 << 30))]
    rate_min: usize,
    /// Longest life of a stream, in milliseconds; it can be opened again
    #[arg(
        long,
        env = "TIDEMARK_STREAM_LIMIT_MS",
        value_name = "MS",
        default_value_t = 3_600_000
    )]
    #[arg(value_parser = value_parser!(u64).range(1..=86_400_000))]
    stream_limit_ms: u64,
    /// Time limit from the signal that stops the server to its end, in milliseconds
    #[arg(
        long,
        env = "TIDEMARK_DRAIN_LIMIT_MS",
        value_name = "MS",
        default_value_t = 10_000
    )]
    drain_limit_ms: u64,
}

impl LimitArgs {
    /// As the server takes them.
    pub fn limits(&self) -> Limits {
        Limits {
            connections_max: self.connections_max as usize,
            head_bytes_max: self.head_max,
            body_bytes_max: self.body_max,
            bodies_bytes_max: self.bodies_memory,
            guest_rate: 0,
            guest_executions: 0,
            guest_executions_bytes_max: 0,
            guest_bodies_bytes_max: self.guest_bodies_memory,
            answer_bytes_max: self.answer_max,
            answers_bytes_max: self.answers_memory,
            head_ms: self.head_limit_ms,
            body_ms: self.body_limit_ms,
            idle_ms: self.idle_limit_ms,
            rate_bytes_min: self.rate_min as u64,
            stream_ms: self.stream_limit_ms,
            drain_ms: self.drain_limit_ms,
        }
    }
}

/// A size from `min` to `max` bytes.
pub(super) fn within(text: &str, min: u64, max: u64) -> Result<usize, String> {
    let bytes = size_bytes(text).filter(|bytes| (min..=max).contains(bytes));
    bytes
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| format!("needed: a size such as 64KiB, from {min} to {max} bytes"))
}
