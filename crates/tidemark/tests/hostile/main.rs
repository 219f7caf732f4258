//! What a hostile caller may send. Every route is called with everything that can be wrong about
//! it, and every caller tries everything it may not do; the server refuses as documented,
//! keeps what it holds, and goes on answering.

mod access;
mod bad_values;
mod batches;
mod bodies;
mod case_language;
mod fixture;
mod functions;
mod heads;
mod idempotency;
mod indexes;
mod known_route;
mod links;
mod lost_rights;
#[path = "../process/mod.rs"]
mod process;
mod queries;
mod rights;
mod routes;
mod verbatim;
