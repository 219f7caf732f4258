//! Black box: real requests over a real port, against a real engine.

mod bulk;
mod rows;
mod schema;
mod site;
mod transport;
