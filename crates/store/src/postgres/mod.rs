//! A PostgreSQL server that is to hold a store: where it is, how it is connected to, and whether it
//! is fit for that.

mod address;
mod checks;
mod connection;
mod examine;
mod finding;
mod password_file;
mod tls;

pub use address::{DatabaseUrl, UrlFault};
pub use examine::examine_database;
pub use finding::{DatabaseFinding, Verdict};
