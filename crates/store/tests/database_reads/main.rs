//! Reads from a database: of what stands beside rows, of what is encrypted, and through a network
//! that goes silent.

mod beside_rows;
mod copied;
#[path = "../suite/db.rs"]
#[allow(dead_code, reason = "written for the conformance suite, too")]
mod db;
mod silence;
