//! Black box: real requests over a real port, against a real engine.

mod batch;
mod bulk;
mod cases;
mod columns;
mod limits;
mod long_reads;
mod marks;
mod metrics;
mod once;
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
