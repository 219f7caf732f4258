//! What columns are called and how they are declared in the physical tables.

use model::{ColumnKind, Storage, Table};
use query::names;

/// The user columns, each after a comma.
pub(crate) fn column_list(table: &Table) -> String {
    let columns = table
        .columns
        .iter()
        .map(|column| names::column(column.number));
    columns.flat_map(|name| [", ".to_owned(), name]).collect()
}

/// The declared type. It gives the affinity under which values come back as they were bound.
pub(crate) fn column_type(array: bool, kind: &ColumnKind) -> &'static str {
    match kind.storage() {
        _ if array => "TEXT",
        Storage::Text => "TEXT",
        Storage::Float => "REAL",
        Storage::Int | Storage::Bool | Storage::Instant => "INTEGER",
    }
}
