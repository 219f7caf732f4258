//! Black box: real requests over a real port, against a real engine.

mod batch;
mod bulk;
mod cases;
mod cases_linked;
mod columns;
mod limits;
mod links_over_time;
mod long_reads;
mod marks;
mod metrics;
mod once;
mod pinned;
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
mod transactions;
mod transport;
