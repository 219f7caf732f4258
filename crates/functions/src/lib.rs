//! Runs users' code: [`FunctionWork`] in, [`FunctionOutcome`] out.
//!
//! Each deployment has processes of its own, which stay warm and take many requests at once. A
//! process speaks frames with the executor (`frame.rs`) through an adapter in its own language
//! (`runtimes/`), which is embedded here. Nothing of a user's runs in the server's process, what a
//! process sends is hostile input, and each exchange with one has a deadline by the server's clock.
//!
//! Knows no store, no HTTP and no environment: the caller hands in all that a run needs.

mod api_listener;
pub mod archive;
pub mod build;
mod build_folder;
pub mod cgroup;
mod conductor;
mod executor;
mod executor_counts;
mod frame;
#[cfg(feature = "fuzz")]
pub mod frame_law;
mod handed_descriptors;
mod head;
pub mod jail;
mod launch;
mod log_tail;
mod memory;
mod memory_budget;
mod outgoing;
pub mod outside;
pub mod pack;
mod pending_run;
mod pool;
mod probe;
mod process;
#[cfg(test)]
mod recorded;
mod runtime;
mod shared_conductor;
pub mod source;
mod spare;
mod start_backoff;
mod starts;
mod tar_entry;
mod work;

pub use api_listener::{API_PORT, ApiConnection};
pub use executor::{Executor, ExecutorSettings};
pub use executor_counts::{ExecutorCounts, RuntimeCounts, RuntimeLevel};
pub use launch::FunctionIsolation;
pub use memory_budget::HeldMemory;
pub use pool::{DeploymentReport, ProcessReport};
pub use runtime::{InstalledRuntime, InstalledRuntimes, RuntimeError};
pub use work::{
    FunctionOutcome, FunctionWork, RunCause, RunRefusal, RunResponse, UnpackedDeployment,
};
