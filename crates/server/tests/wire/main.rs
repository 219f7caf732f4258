//! Black box: real requests over a real port, against a real engine.

mod answers;
mod batch;
mod bulk;
mod cases;
mod cases_linked;
mod columns;
#[path = "../damage/mod.rs"]
mod damage;
mod encrypted;
mod guest_transactions;
mod limits;
mod links_over_time;
mod long_reads;
mod marks;
mod metrics;
mod once;
mod pinned;
mod project;
mod quotas;
mod ranges;
mod related_inside;
mod relationships;
mod repeat;
mod repeated;
mod rows;
mod schema;
mod site;
mod streams;
mod time;
mod tls;
#[path = "../../../store/tests/traces/mod.rs"]
mod traces;
mod transactions;
mod transactions_at;
mod transport;
mod ttl;
mod unseen;
