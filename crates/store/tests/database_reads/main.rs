//! Reads from a database: of what stands beside rows, of what is encrypted, through a network that
//! goes silent or is cut, and after the database has become another one. And what stands beside
//! rows of a store that was moved there and back.

mod beside_rows;
mod copied;
#[path = "../suite/db.rs"]
#[allow(dead_code, reason = "written for the conformance suite, too")]
mod db;
mod failover;
mod moved;
mod outage;
mod relayed;
mod silence;
