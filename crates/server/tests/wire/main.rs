//! Black box: real requests over a real port, against a real engine.

mod bulk;
mod limits;
mod long_reads;
mod repeat;
mod rows;
mod schema;
mod site;
mod tls;
mod transport;
