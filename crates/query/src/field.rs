//! What is known of a field of a table, whether it is a column or the system's.

use model::{Field, Relation, SpanEnd, Storage, Table};

/// The field called `name`, where such a one can be filtered and ordered by.
pub fn named(table: &Table, name: &str) -> Option<Field> {
    match name {
        "$id" => Some(Field::Id),
        "$sequence" => Some(Field::Sequence),
        "$createdAt" => Some(Field::Created),
        "$updatedAt" => Some(Field::Updated),
        key => match SpanEnd::ALL.iter().find(|end| end.as_str() == key) {
            Some(end) => Some(Field::Span(*end)),
            None => table.position(key).map(Field::Column),
        },
    }
}

/// How single values of the field are stored and compared.
pub fn storage(table: &Table, field: Field) -> Storage {
    match field {
        Field::Id => Storage::Text,
        Field::Sequence => Storage::Int,
        Field::Created | Field::Updated | Field::Span(_) => Storage::Instant,
        Field::Column(position) => table.columns[position].kind.storage(),
    }
}

/// The relationship that the field is an end of.
pub fn relation(table: &Table, field: Field) -> Option<&Relation> {
    match field {
        Field::Column(position) => table.columns[position].relation(),
        _ => None,
    }
}

/// Whether the field holds a list of values.
pub fn is_array(table: &Table, field: Field) -> bool {
    matches!(field, Field::Column(position) if table.columns[position].array)
}

/// Whether the field's values are sealed where they rest, so that none can be looked for.
pub fn is_encrypted(table: &Table, field: Field) -> bool {
    matches!(field, Field::Column(position) if table.columns[position].encrypt)
}

/// Whether the field may have no value. Any column may, a required one too: rows written before
/// it was required have none.
pub fn is_nullable(field: Field) -> bool {
    matches!(field, Field::Column(_))
}

/// Whether no two rows, read at the same coordinates, have the same value.
pub fn is_distinct(field: Field) -> bool {
    matches!(field, Field::Id | Field::Sequence)
}
