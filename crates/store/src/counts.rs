//! What a store has at work, as it counts by itself.

use crate::tally::Distribution;

/// What a store has at work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes of commits that stand in the log and not yet in the database file.
    pub log_backlog_bytes: u64,
    /// How often something encrypted was needed and could not be opened, since the start.
    pub damaged: u64,
    /// The reads that are not short.
    pub long_reads: LongReadCounts,
    /// Of a store whose database is a server.
    pub database: Option<DatabaseCounts>,
}

/// Reads on threads for long reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongReadCounts {
    /// How many were taken in since the start.
    pub taken: u64,
    /// How many were refused since the start, because too many waited.
    pub refused: u64,
    /// How many wait for a thread now.
    pub waiting: usize,
    /// Most that may wait.
    pub waiting_max: usize,
    /// How many run now.
    pub running: usize,
    /// Threads that have been started.
    pub threads: usize,
    /// Most threads.
    pub threads_max: usize,
}

/// A store and the server that its database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseCounts {
    /// Connections that reads and the writer have open.
    pub connections: usize,
    /// Those of them that are in use.
    pub connections_busy: usize,
    /// Most that reads and the writer use.
    pub connections_max: usize,
    /// How often a group of batches that was committed waited for the server, its commit included.
    pub round_trips: Distribution,
    /// Rows that such a group held in memory at its end.
    pub held_rows: Distribution,
    /// Bytes of them, about.
    pub held_bytes: Distribution,
}
