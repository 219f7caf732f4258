//! What queries have in common that differ in values only, for people and for counting.
//!
//! The words are those of the query language. No value stands in them: what users look for is not
//! a log's business. Neither do limit and offset, of which there may be any number.

use std::fmt::Write as _;

use model::{Direction, Field, Selection, SpanEnd, Table};

use crate::canonical::{Canonical, canonical};
use crate::query::{Filter, OrderKey, Query, Side, Test};

/// Longest shape, in bytes, before its number stands for the rest: room for a dozen conditions. A
/// client may send a hundred queries of many alternatives each, and shapes are kept.
const BYTES_MAX: usize = 400;

/// The query without its values, such as `equal("genre") orderDesc("year")`; `all rows` where it
/// asks for nothing. Conditions that must hold together, and alternatives, stand in one order,
/// each once. A long one ends in `…` and its [`shape_number`].
pub fn shape(query: &Query) -> String {
    let mut text = whole(query);
    if text.len() > BYTES_MAX {
        text.truncate(text.floor_char_boundary(BYTES_MAX));
        write!(text, "… #{:016x}", shape_number(query)).expect("writing to a string cannot fail");
        text.shrink_to_fit();
    }
    text
}

fn whole(query: &Query) -> String {
    let mut parts = conditions(&query.table, &query.filter);
    if query.random {
        parts.push("orderRandom()".to_owned());
    }
    parts.extend(query.order.iter().map(|key| ordered(&query.table, *key)));
    if let Some(cursor) = &query.cursor {
        let word = match cursor.side {
            Side::After => "cursorAfter()",
            Side::Before => "cursorBefore()",
        };
        parts.push(word.to_owned());
    }
    if query.offset > 0 {
        parts.push("offset()".to_owned());
    }
    parts.extend(selected(&query.table, &query.selection));
    if parts.is_empty() {
        return "all rows".to_owned();
    }
    parts.join(" ")
}

/// A number that queries of one table share if they have one [`shape`], and hardly any others do.
/// Costs some nanoseconds and no memory.
pub fn shape_number(query: &Query) -> u64 {
    let mut number = filter_number(&query.filter);
    number = mix(number, u64::from(query.random));
    for key in &query.order {
        let turn = u64::from(key.direction == Direction::Desc);
        number = mix(number, field_number(key.field) * 2 + turn);
    }
    let side = query.cursor.as_ref().map(|cursor| cursor.side);
    number = mix(
        number,
        match side {
            None => 0,
            Some(Side::After) => 1,
            Some(Side::Before) => 2,
        },
    );
    number = mix(number, u64::from(query.offset > 0));
    if let Selection::Some {
        columns,
        fields,
        permissions,
    } = &query.selection
    {
        let columns = columns.iter().map(|position| Field::Column(*position));
        let fields = columns.chain(fields.iter().copied());
        let sum = fields.fold(0_u64, |sum, field| {
            sum.wrapping_add(mix(7, field_number(field)))
        });
        number = mix(number, sum.wrapping_add(u64::from(*permissions) + 1));
    }
    number
}

/// A step of a multiplicative hash; the factor is 2^64 over the golden ratio.
fn mix(number: u64, next: u64) -> u64 {
    (number ^ next)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(29)
        .wrapping_add(next)
}

fn field_number(field: Field) -> u64 {
    match field {
        Field::Id => 0,
        Field::Sequence => 1,
        Field::Created => 2,
        Field::Updated => 3,
        Field::Span(SpanEnd::ValidFrom) => 4,
        Field::Span(SpanEnd::ValidTo) => 5,
        Field::Span(SpanEnd::SystemFrom) => 6,
        Field::Column(position) => 7 + position as u64,
    }
}

fn filter_number(filter: &Filter) -> u64 {
    let (kind, numbers) = match canonical(filter, filter_number) {
        Canonical::Condition(field, test) => return mix(field_number(field) + 11, tag(test)),
        Canonical::Single(number) => return number,
        Canonical::Any(numbers) => (1, numbers),
        Canonical::All(numbers) => (2, numbers),
    };
    let sum = numbers.into_iter().fold(0, u64::wrapping_add);
    mix(mix(sum, 3), kind)
}

/// What must hold, each condition a text.
fn conditions(table: &Table, filter: &Filter) -> Vec<String> {
    let (is_all, branches) = match canonical(filter, |branch| conditions(table, branch)) {
        Canonical::Condition(field, test) => {
            return vec![format!("{}(\"{}\")", word(test), name(table, field))];
        }
        Canonical::Single(conditions) => return conditions,
        Canonical::All(branches) => (true, branches),
        Canonical::Any(branches) => (false, branches),
    };
    let text = |mut branch: Vec<String>| match branch.len() {
        1 => branch.remove(0),
        _ => format!("and({})", branch.join(", ")),
    };
    let mut texts: Vec<String> = branches.into_iter().map(text).collect();
    texts.sort_unstable();
    if is_all {
        texts
    } else {
        vec![format!("or({})", texts.join(", "))]
    }
}

/// A field by the word that users have for it.
pub fn name(table: &Table, field: Field) -> &str {
    match field {
        Field::Id => "$id",
        Field::Sequence => "$sequence",
        Field::Created => "$createdAt",
        Field::Updated => "$updatedAt",
        Field::Span(end) => end.as_str(),
        Field::Column(position) => table.columns[position].key.as_str(),
    }
}

fn ordered(table: &Table, key: OrderKey) -> String {
    let word = match key.direction {
        Direction::Asc => "orderAsc",
        Direction::Desc => "orderDesc",
    };
    format!("{word}(\"{}\")", name(table, key.field))
}

fn selected(table: &Table, selection: &Selection) -> Option<String> {
    let Selection::Some {
        columns,
        fields,
        permissions,
    } = selection
    else {
        return None;
    };
    let columns = columns.iter().map(|position| Field::Column(*position));
    let mut names: Vec<&str> = columns
        .chain(fields.iter().copied())
        .map(|field| name(table, field))
        .chain(permissions.then_some("$permissions"))
        .collect();
    names.sort_unstable();
    names.dedup();
    let mut text = "select(".to_owned();
    for (nth, name) in names.iter().enumerate() {
        let comma = if nth == 0 { "" } else { ", " };
        write!(text, "{comma}\"{name}\"").expect("writing to a string cannot fail");
    }
    Some(text + ")")
}

/// The method of the query language, and its number.
fn method(test: &Test) -> (&'static str, u64) {
    match test {
        Test::In(_) => ("equal", 0),
        Test::NotEqual(_) => ("notEqual", 1),
        Test::Less(_) => ("lessThan", 2),
        Test::LessEqual(_) => ("lessThanEqual", 3),
        Test::Greater(_) => ("greaterThan", 4),
        Test::GreaterEqual(_) => ("greaterThanEqual", 5),
        Test::Between(..) => ("between", 6),
        Test::NotBetween(..) => ("notBetween", 7),
        Test::IsNull => ("isNull", 8),
        Test::IsNotNull => ("isNotNull", 9),
        Test::StartsWith(_) => ("startsWith", 10),
        Test::NotStartsWith(_) => ("notStartsWith", 11),
        Test::EndsWith(_) => ("endsWith", 12),
        Test::NotEndsWith(_) => ("notEndsWith", 13),
        Test::HasPart(_) => ("contains", 14),
        Test::HasNoPart(_) => ("notContains", 15),
        Test::Finds(_) => ("search", 16),
        Test::FindsNot(_) => ("notSearch", 17),
        Test::Matches(_) => ("regex", 18),
        Test::HasAny(_) => ("containsAny", 19),
        Test::HasAll(_) => ("containsAll", 20),
        Test::HasNone(_) => ("containsNone", 21),
        Test::Longer(_) => ("longer", 22),
    }
}

fn word(test: &Test) -> &'static str {
    method(test).0
}

fn tag(test: &Test) -> u64 {
    method(test).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normal::tests::{query, table};
    use model::RowId;

    fn of(texts: &[&str]) -> Query {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        query(&texts)
    }

    const A: &str = r#"{"method":"equal","attribute":"a","values":["x"]}"#;
    const A_OTHER: &str = r#"{"method":"equal","attribute":"a","values":["y","z"]}"#;
    const N: &str = r#"{"method":"greaterThan","attribute":"n","values":[5]}"#;
    const DISTINCT: &str = r#"{"method":"isNotNull","attribute":"a"}"#;
    const DOWN: &str = r#"{"method":"orderDesc","attribute":"n"}"#;

    #[test]
    fn a_long_shape_is_cut_and_stays_its_own() {
        let words = "equal notEqual lessThan lessThanEqual greaterThan greaterThanEqual startsWith \
                     notStartsWith endsWith notEndsWith contains notContains";
        let conditions = |keys: &[&str]| {
            let on = |key: &str, word: &str| {
                format!(r#"{{"method":"{word}","attribute":"{key}","values":["x"]}}"#)
            };
            let words = || words.split(' ');
            let all = keys
                .iter()
                .flat_map(|key| words().map(move |word| on(key, word)));
            query(&all.collect::<Vec<String>>())
        };
        let long = conditions(&["a", "$id"]);
        let longer = Query {
            random: true,
            ..long.clone()
        };
        assert!(whole(&long).len() > BYTES_MAX);
        assert_eq!(shape(&long).len(), BYTES_MAX + "… #0123456789abcdef".len());
        assert_ne!(shape(&long), shape(&longer), "they begin alike");
        assert!(
            shape(&conditions(&["a"])).ends_with(')'),
            "and a short one is whole"
        );
    }

    #[test]
    fn values_leave_no_trace() {
        let shown = shape(&of(&[N, A, DOWN]));
        assert_eq!(shown, r#"equal("a") greaterThan("n") orderDesc("n")"#);
        assert_eq!(shape(&of(&[])), "all rows");
        let either = format!(r#"{{"method":"or","values":[{N},{A}]}}"#);
        assert_eq!(
            shape(&of(&[&either])),
            r#"or(equal("a"), greaterThan("n"))"#
        );
    }

    #[test]
    fn numbers_agree_exactly_where_texts_do() {
        let either = format!(r#"{{"method":"or","values":[{N},{A}]}}"#);
        let either_turned = format!(r#"{{"method":"or","values":[{A_OTHER},{N}]}}"#);
        let both = format!(r#"{{"method":"and","values":[{A},{N}]}}"#);
        let pair = |first: &str| format!(r#"{{"method":"and","values":[{first},{N}]}}"#);
        let (one, other) = (pair(A), pair(A_OTHER));
        let same_twice = format!(r#"{{"method":"or","values":[{one},{other}]}}"#);
        let nested = format!(r#"{{"method":"and","values":[{DISTINCT},{same_twice}]}}"#);
        let page = r#"{"method":"limit","values":[7]}"#;
        let skip = r#"{"method":"offset","values":[7]}"#;
        let select = r#"{"method":"select","values":["a"]}"#;
        let lists: Vec<Vec<&str>> = vec![
            vec![],
            vec![page],
            vec![A],
            vec![A_OTHER],
            vec![A, A_OTHER],
            vec![N],
            vec![A, N],
            vec![N, A],
            vec![&both],
            vec![&either],
            vec![&either_turned],
            vec![&either, A],
            vec![&same_twice],
            vec![&nested],
            vec![DISTINCT, A, N],
            vec![A, DOWN],
            vec![DOWN],
            vec![A, skip],
            vec![A, select],
        ];
        let mut queries: Vec<Query> = lists.iter().map(|texts| of(texts)).collect();
        queries.push(Query {
            cursor: Some(crate::Cursor {
                row: RowId::new("r").unwrap(),
                version: None,
                side: Side::After,
            }),
            ..of(&[A])
        });
        queries.push(Query {
            random: true,
            ..of(&[A])
        });
        for one in &queries {
            for other in &queries {
                assert_eq!(
                    shape(one) == shape(other),
                    shape_number(one) == shape_number(other),
                    "{} and {}",
                    shape(one),
                    shape(other)
                );
            }
        }
        assert_eq!(table().columns.len(), 3, "the table these queries are of");
    }
}
