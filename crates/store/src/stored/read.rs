//! What one statement reads of tables that every database has.

use query::Dialect;

use super::parameter::StoredParameter;
use super::row::{Read, StoredRow};

/// A statement, and what its rows are.
///
/// Its parameters are `$1`, `$2` and so on. Each stands in the text for the first time behind those
/// before it: SQLite takes these for names, which it numbers as they come.
pub(crate) struct StoredRead<T> {
    pub(crate) sql: String,
    pub(crate) parameters: Vec<StoredParameter>,
    pub(crate) read: fn(&dyn StoredRow) -> Read<T>,
}

/// The texts of a list of JSON, which is the parameter of this number, for `IN`.
pub(crate) fn texts_of(dialect: Dialect, number: usize) -> String {
    match dialect {
        Dialect::Sqlite => format!("(SELECT value FROM json_each(${number}))"),
        Dialect::Postgres => format!("(SELECT jsonb_array_elements_text(${number}::text::jsonb))"),
    }
}

/// The whole numbers of a list of JSON, which is the parameter of this number, for `IN`.
pub(crate) fn numbers_of(dialect: Dialect, number: usize) -> String {
    match dialect {
        Dialect::Sqlite => format!("(SELECT value FROM json_each(${number}))"),
        Dialect::Postgres => {
            format!("(SELECT jsonb_array_elements_text(${number}::text::jsonb)::bigint)")
        }
    }
}

/// Joins two tables: from the one that stands first, where the database would not see by itself
/// that this is the way.
pub(crate) fn join_of(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => "CROSS JOIN",
        Dialect::Postgres => "JOIN",
    }
}
