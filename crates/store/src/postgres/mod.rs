//! PostgreSQL: where a database is, how it is connected to, whether it is fit for a store, and the
//! store in a schema of it.

mod address;
mod checks;
mod connection;
mod examine;
mod fault;
mod finding;
mod format;
mod look;
mod opening;
mod password_file;
mod tls;

pub use address::{DatabaseUrl, UrlFault};
pub use examine::examine_database;
pub use finding::{DatabaseFinding, Verdict};
pub use opening::DatabaseStore;
