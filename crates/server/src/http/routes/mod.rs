//! One thin function per route, in the file of its subject: it reads the input, calls the
//! engine, and returns a reply.

pub mod batch;
pub mod columns;
pub mod databases;
pub mod deployments;
pub mod executions;
pub mod functions;
pub mod health;
pub mod idempotency;
pub mod indexes;
pub mod native;
pub mod ndjson;
pub mod openapi;
pub mod project;
pub mod realtime;
pub mod relationships;
pub mod rows;
pub mod rows_bulk;
pub mod tables;
pub mod transactions;
pub mod welcome;
