//! Queries and the statements that they must become: the compiler's tests compare the statements,
//! the store's how SQLite runs them.

mod case;
mod table;

pub use case::{CaseFile, GoldenCase, PreparedCase, hold_beginnings, read_all};
pub use table::products;
