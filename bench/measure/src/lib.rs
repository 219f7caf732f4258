//! What both benchmarks measure with: programs as children on cores of their own, what they cost
//! by the kernel's count, a client whose own time is small, percentiles, and reports.

pub mod awake;
pub mod connection;
pub mod cores;
pub mod costs;
pub mod disk;
pub mod draw;
pub mod early_end;
pub mod live;
pub mod machine;
pub mod markdown;
pub mod percentile;
pub mod process;
pub mod record;
pub mod responder;
pub mod scratch;
pub mod tasks;
pub mod threads;
pub mod wrk;
