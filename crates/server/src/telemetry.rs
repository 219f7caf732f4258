//! What can be seen of a running server from outside: metrics, and what `tidemark top` shows.
//!
//! No crate reports here. Each counts what it does and owns its counts; they are read where they
//! are, on a thread that answers no request. So the crates that count know nothing of this one.

use std::sync::Arc;

use engine::{Clock, Compared, Engine, ShapeCounts, Status, StoreCounts, Taken, Writes};

use crate::functions::counts::{CountedRuns, FunctionTally};
use crate::http::state::counts::{Answered, Counts};

pub mod classic;
pub mod collector;
mod database_metrics;
pub mod exposition;
mod function_metrics;
pub mod held;
pub mod listener;
pub mod log_lines;
pub mod metric;
mod metric_form;
pub mod process;
pub mod slow;
pub mod snapshot;
pub mod trace;

use process::Process;

/// Where there is something to see.
pub struct Telemetry {
    engine: Arc<Engine>,
    counts: Arc<Counts>,
    list_cache_bytes_max: u64,
    clock: Arc<dyn Clock>,
    /// Seconds since 1970.
    began_s: f64,
    /// Milliseconds of the clock that goes on through sleep.
    began_ms: u64,
}

/// All that is seen, at about one instant.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Seconds since 1970 at the start.
    pub began_s: f64,
    /// Milliseconds since the start.
    pub up_ms: u64,
    /// What the threads that answer requests have done.
    pub answered: Answered,
    /// Marks and cached lists.
    pub status: Status,
    /// Most bytes of cached lists; 0 where there are none.
    pub list_cache_bytes_max: u64,
    /// Whether nothing is written any more until a new start.
    pub is_stopped: bool,
    /// Whether the database has not said for long whether a commit is stored.
    pub awaits_commit: bool,
    /// The writer.
    pub writes: Writes,
    /// The store.
    pub store: StoreCounts,
    /// What is taken of what callers and projects may take.
    pub taken: Taken,
    /// Reads of lists that took longer than the threshold.
    pub slow_queries: u64,
    /// Hits that were compared with fresh reads, where they are.
    pub compared: Option<Compared>,
    /// Functions.
    pub functions: CountedRuns,
    /// The process.
    pub process: Process,
}

impl Telemetry {
    /// Of the server that answers by `engine` and counts in `counts`.
    pub fn new(
        engine: Arc<Engine>,
        counts: Arc<Counts>,
        list_cache_bytes_max: u64,
        clock: Arc<dyn Clock>,
    ) -> Telemetry {
        Telemetry {
            began_s: clock.now().0 as f64 / 1e6,
            began_ms: clock.elapsed_ms(),
            engine,
            counts,
            list_cache_bytes_max,
            clock,
        }
    }

    /// From now on it is counted how long answers take, too.
    pub fn begin_timing(&self) {
        self.counts.begin_timing();
    }

    /// Looks. Costs some 100 µs, and holds up who counts for none of them.
    pub fn look(&self) -> Seen {
        Seen {
            began_s: self.began_s,
            up_ms: self.clock.elapsed_ms().saturating_sub(self.began_ms),
            answered: self.counts.read(),
            status: self.engine.status(),
            list_cache_bytes_max: self.list_cache_bytes_max,
            is_stopped: self.engine.stop_reason().is_some(),
            awaits_commit: self.engine.awaits_commit(),
            writes: self.engine.writes(),
            store: self.engine.store_counts(),
            taken: self.engine.taken(),
            slow_queries: self.engine.slow_queries(),
            compared: self.engine.compared(),
            functions: self.counts.functions.read(),
            process: process::look(),
        }
    }

    /// The lists that are asked for.
    pub fn list_shapes(&self) -> Vec<ShapeCounts> {
        self.engine.list_shapes()
    }

    /// The functions that ran last.
    pub fn functions(&self) -> Vec<FunctionTally> {
        self.counts.functions.functions()
    }
}
