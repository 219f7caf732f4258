//! Queries that name one key of a unique index, so that one row of now at most matches.

use model::{Index, IndexKind, Value};

use crate::query::{Filter, Frame, Query, Test};

/// A unique index with a value for each of its columns, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct UniqueKey<'q> {
    /// The index, which can be used.
    pub index: &'q Index,
    /// The values.
    pub values: Vec<&'q Value>,
}

/// The key, if the filter demands it and nothing else, of the rows of now.
pub fn unique_key(query: &Query) -> Option<UniqueKey<'_>> {
    let is_plain = query.at.is_none() && query.frame == Frame::One && !query.shows_span;
    if !is_plain || query.then.is_some() || query.cursor.is_some() || query.offset > 0 {
        return None;
    }
    let branches = match &query.filter {
        Filter::All(branches) => branches.as_slice(),
        one => std::slice::from_ref(one),
    };
    let values_of = |index: &'_ Index| -> Option<Vec<&Value>> {
        let is_unique = index.kind == IndexKind::Unique && index.is_available();
        if !is_unique || index.columns.len() != branches.len() {
            return None;
        }
        let demanded = |part: &model::IndexColumn| {
            branches.iter().find_map(|branch| match branch {
                Filter::Field(field, Test::In(values)) if *field == part.field => match &values[..]
                {
                    // Of two rows without a value neither keeps the other out.
                    [Value::Null] => None,
                    [value] => Some(value),
                    _ => None,
                },
                _ => None,
            })
        };
        index.columns.iter().map(demanded).collect()
    };
    query.table.indexes.iter().find_map(|index| {
        let values = values_of(index)?;
        Some(UniqueKey { index, values })
    })
}
