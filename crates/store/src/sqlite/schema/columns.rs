//! What columns are called and how they are declared in the physical tables.

use model::{ColumnKind, Field, SpanEnd, Storage, Table};
use query::names;

/// The user columns, each after a comma.
pub(crate) fn column_list(table: &Table) -> String {
    let columns = table
        .columns
        .iter()
        .map(|column| names::column(column.number));
    columns.flat_map(|name| [", ".to_owned(), name]).collect()
}

/// What a field is called in both tables.
pub(crate) fn physical_field(table: &Table, field: Field) -> String {
    match field {
        Field::Id => "id".to_owned(),
        Field::Sequence => "seq".to_owned(),
        Field::Created => "created".to_owned(),
        Field::Updated => "updated".to_owned(),
        Field::Span(SpanEnd::ValidFrom) => "vf".to_owned(),
        Field::Span(SpanEnd::ValidTo) => "vt".to_owned(),
        Field::Span(SpanEnd::SystemFrom) => "sf".to_owned(),
        Field::Column(position) => names::column(table.columns[position].number),
    }
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
