//! The schema of databases as a file: read from a server, compared with it, brought to it.

pub mod file;
pub mod plan;
pub mod push;
pub mod read;
pub mod types;
