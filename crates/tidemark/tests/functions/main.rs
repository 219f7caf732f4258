//! Functions through the built server: builds, executions and their ends, in both languages and in
//! the jail.

mod builds;
mod executions;
mod fixture;
mod guests;
mod jailed_api;
mod log_rate;
mod metrics;
mod outside_network;
mod queue;
mod records;
mod reduced;
mod triggers;
mod variables_key;
