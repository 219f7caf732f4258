//! What a hostile caller may send. Every route is asked with everything that can be wrong about
//! it, and every caller is asked for everything it may not do; the server refuses as documented,
//! keeps what it holds, and goes on answering.

mod access;
mod bad;
mod batches;
mod bodies;
mod heads;
mod indexes;
mod kept;
mod links;
mod lost;
#[path = "../process/mod.rs"]
mod process;
mod queries;
mod rights;
mod routes;
mod times;
mod verbatim;
mod world;
