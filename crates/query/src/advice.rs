//! Which index would help a query that no index of its table serves as well.

use model::{
    Direction, Field, INDEX_CHARS_MAX, Index, IndexColumn, IndexKey, IndexKind, IndexStatus,
    Storage, Timestamp,
};

use crate::field;
use crate::index_choice::{Demand, demand_on, demands, usefulness};
use crate::query::{OrderKey, Query};

/// The columns of an index that would lead to the rows of this query: those whose value the
/// filter fixes, then those of the order; without an order one of which it allows several values,
/// then one that it bounds. `None` where an index of the table leads there as well already, the
/// rows are reached by their ids, or no index can help: `contains`, `regex` and their like look
/// at each row.
pub fn advise(query: &Query) -> Option<Vec<(Field, Direction)>> {
    let demands = demands(&query.filter);
    let by_row =
        |(field, demand): &(Field, Demand)| field::is_distinct(*field) && *demand > Demand::Range;
    if demands.iter().any(by_row) {
        return None;
    }
    let columns = columns(query, &demands);
    if columns.is_empty() {
        return None;
    }
    // Without the tie-break: to sort rows that tie is no reason for another index.
    let keys = if query.random {
        Vec::new()
    } else {
        query.order.clone()
    };
    let wanted = usefulness(&imagined(&columns), &demands, &keys).strength();
    let available = query.table.indexes.iter();
    let is_as_good = |index: &Index| usefulness(index, &demands, &keys).strength() >= wanted;
    let mut available =
        available.filter(|index| index.is_available() && index.kind != IndexKind::Fulltext);
    (!available.any(is_as_good)).then_some(columns)
}

fn columns(query: &Query, demands: &[(Field, Demand)]) -> Vec<(Field, Direction)> {
    let mut columns: Vec<(Field, Direction)> = Vec::new();
    let mut add = |field: Field, direction: Direction| {
        let is_new = columns.iter().all(|(held, _)| *held != field);
        if is_new && can_be_indexed(query, field) {
            columns.push((field, direction));
        }
    };
    let fixed = |field: Field| demand_on(demands, field).is_some_and(Demand::is_fixed);
    for (field, _) in demands.iter().filter(|(field, _)| fixed(*field)) {
        add(*field, Direction::Asc);
    }
    let order = if query.random { &[][..] } else { &query.order };
    let order: Vec<&OrderKey> = order
        .iter()
        .take_while(|key| can_be_indexed(query, key.field) && can_order(query, key.field))
        .filter(|key| !fixed(key.field))
        .collect();
    for key in &order {
        add(key.field, key.direction);
    }
    if order.is_empty() {
        for wanted in [Demand::Several, Demand::Range] {
            let strongest = |field: Field| demand_on(demands, field) == Some(wanted);
            let found = demands.iter().find(|(field, _)| strongest(*field));
            if let Some((field, _)) = found {
                add(*field, Direction::Asc);
            }
        }
    }
    columns
}

/// As the definition of an index has it: no lists, no relationships; `$sequence` stands at the
/// end of each one by itself.
fn can_be_indexed(query: &Query, field: Field) -> bool {
    field != Field::Sequence
        && !field::is_array(&query.table, field)
        && field::relation(&query.table, field).is_none()
}

/// An index holds only the beginning of a longer text.
fn can_order(query: &Query, field: Field) -> bool {
    match field {
        Field::Column(at) if field::storage(&query.table, field) == Storage::Text => {
            let chars_max = query.table.columns[at].kind.chars_max();
            chars_max.is_some_and(|chars| u64::from(chars) <= INDEX_CHARS_MAX)
        }
        _ => true,
    }
}

fn imagined(columns: &[(Field, Direction)]) -> Index {
    let column = |(field, direction): &(Field, Direction)| IndexColumn {
        field: *field,
        direction: *direction,
        length: None,
        held: None,
    };
    Index {
        number: 0,
        key: IndexKey::new("imagined").expect("the word is a legal key"),
        kind: IndexKind::Key,
        columns: columns.iter().map(column).collect(),
        status: IndexStatus::Available,
        created: Timestamp(0),
        updated: Timestamp(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normal::tests::{query, table};
    use std::sync::Arc;

    const A: &str = r#"{"method":"equal","attribute":"a","values":["x"]}"#;
    const SOME: &str = r#"{"method":"equal","attribute":"a","values":["x","y"]}"#;
    const ABOVE: &str = r#"{"method":"greaterThan","attribute":"n","values":[5]}"#;
    const DOWN: &str = r#"{"method":"orderDesc","attribute":"n"}"#;
    const PART: &str = r#"{"method":"contains","attribute":"a","values":["x"]}"#;
    const LIST: &str = r#"{"method":"contains","attribute":"l","values":["x"]}"#;

    const ON_A: Field = Field::Column(0);
    const ON_N: Field = Field::Column(1);

    /// What is advised for these texts on a table with these indexes.
    #[track_caller]
    fn check(texts: &[&str], indexes: &[&[(Field, Direction)]], wanted: &[(Field, Direction)]) {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let mut table = Arc::unwrap_or_clone(table());
        table.indexes = indexes.iter().map(|columns| imagined(columns)).collect();
        let query = Query {
            table: Arc::new(table),
            ..query(&texts)
        };
        assert_eq!(
            advise(&query).unwrap_or_default(),
            wanted,
            "{texts:?} {indexes:?}"
        );
    }

    use Direction::{Asc, Desc};

    #[test]
    fn advised_index_has_equalities_first_and_the_order_after_them() {
        check(&[A], &[], &[(ON_A, Asc)]);
        check(&[A, DOWN], &[], &[(ON_A, Asc), (ON_N, Desc)]);
        check(&[A, ABOVE, DOWN], &[], &[(ON_A, Asc), (ON_N, Desc)]);
        check(&[A, ABOVE], &[], &[(ON_A, Asc), (ON_N, Asc)]);
        check(&[DOWN], &[], &[(ON_N, Desc)]);
        check(&[SOME], &[], &[(ON_A, Asc)]);
    }

    #[test]
    fn advice_is_absent_where_an_index_exists_or_none_can_help() {
        check(&[A], &[&[(ON_A, Asc)]], &[]);
        check(&[A, DOWN], &[&[(ON_A, Asc), (ON_N, Asc)]], &[]);
        check(&[A, DOWN], &[&[(ON_A, Asc)]], &[(ON_A, Asc), (ON_N, Desc)]);
        check(&[PART], &[], &[]);
        check(&[LIST], &[], &[]);
        check(&[], &[], &[]);
        let by_id = r#"{"method":"equal","attribute":"$id","values":["r"]}"#;
        check(&[by_id, A], &[], &[]);
    }
}
