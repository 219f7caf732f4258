//! A PostgreSQL server for tests and benches: a cluster of its own in a temporary folder, reached
//! by a Unix socket in it, which ends with the process that started it. The cluster that a package
//! has started on the machine is left alone.

mod account;
mod cluster;
mod programs;
mod relay;
mod sql;

pub use cluster::{Cluster, ClusterEnd, ClusterSettings};
pub use programs::{PACKAGE, Programs};
pub use relay::{MessageWay, Relay};
pub use sql::run_sql;
