//! Black box: real requests over a real port, against a real engine.

mod columns;
mod rows;
mod schema;
mod site;
mod transport;
