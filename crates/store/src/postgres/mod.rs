//! PostgreSQL: where a database is, how it is connected to, whether it is fit for a store, and the
//! store in a schema of it.

mod address;
mod cells;
mod checks;
mod connection;
mod examine;
mod fault;
mod filling;
mod finding;
mod format;
mod leaving;
mod loading;
mod look;
mod maintain;
mod opening;
mod password_file;
#[cfg(test)]
mod plan_tests;
mod primary;
mod read;
pub(crate) mod row_tables;
mod served;
#[cfg(test)]
mod statement_tests;
mod stored_health;
mod stored_parameters;
mod tls;
mod words;
pub(crate) mod write;

pub use address::{DatabaseUrl, UrlFault};
pub use examine::examine_database;
pub(crate) use filling::{StoreFilling, TypedColumns};
pub use finding::{DatabaseFinding, Verdict};
pub(crate) use leaving::{LeavingMeta, StoreLeaving};
pub use maintain::{Maintained, maintain_database};
pub(crate) use opening::{CopiedStore, read_beside};
pub use opening::{DatabaseStore, accept_restore, database_holder, database_holds_store};
pub use read::DatabaseReads;
