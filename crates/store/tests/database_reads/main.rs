//! Reads from a database: of what stands beside rows, and of what is encrypted.

mod beside_rows;
mod copied;
#[path = "../suite/db.rs"]
#[allow(dead_code, reason = "written for the conformance suite, too")]
mod db;
