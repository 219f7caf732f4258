//! The one writer: its queue, its groups, and what they publish.

pub(crate) mod activation;
mod altered;
pub(crate) mod batch;
pub(crate) mod builds;
mod busy_tables;
pub(crate) mod change_limit;
pub(crate) mod doubt;
pub(crate) mod dry_runs;
pub(crate) mod group;
pub(crate) mod mailbox;
pub(crate) mod quota;
pub(crate) mod retention;
pub(crate) mod store_calls;
pub(crate) mod write_queue;
pub(crate) mod writer;
