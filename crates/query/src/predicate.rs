//! Filters decided in memory: the same as the SQL that `emit` writes, for what is in no database.

use std::cmp::Ordering;

use model::{Direction, Field, Value};

use crate::query::{Filter, OrderKey, Test};

/// Whether something with these values satisfies `filter`. Null satisfies nothing but
/// [`Test::IsNull`]; text compares by bytes.
pub fn satisfies(filter: &Filter, value_of: &dyn Fn(Field) -> Value) -> bool {
    match filter {
        Filter::All(branches) => branches.iter().all(|branch| satisfies(branch, value_of)),
        Filter::Any(branches) => branches.iter().any(|branch| satisfies(branch, value_of)),
        Filter::Field(field, test) => passes(&value_of(*field), test),
    }
}

/// How two lists of values, one for each key, stand in the order of `keys`: nulls first in an
/// ascending key, last in a descending one.
pub fn compare_by(keys: &[OrderKey], left: &[Value], right: &[Value]) -> Ordering {
    let pairs = keys.iter().zip(left.iter().zip(right));
    pairs
        .map(|(key, (left, right))| match key.direction {
            Direction::Asc => compare(left, right),
            Direction::Desc => compare(right, left),
        })
        .find(|ordering| ordering.is_ne())
        .unwrap_or(Ordering::Equal)
}

fn passes(value: &Value, test: &Test) -> bool {
    match (value, test) {
        (Value::Null, test) => *test == Test::IsNull,
        (_, Test::IsNull) => false,
        (_, Test::IsNotNull) => true,
        (Value::List(elements), test) => holds(elements, test),
        (Value::Text(content), test) if is_of_text(test) => reads(content, test),
        (value, test) => stands(value, test),
    }
}

/// Tests of where a value stands in the order of its type.
fn stands(value: &Value, test: &Test) -> bool {
    let against = |other: &Value| compare(value, other);
    match test {
        Test::In(values) => values.iter().any(|one| against(one).is_eq()),
        Test::NotEqual(other) => against(other).is_ne(),
        Test::Less(other) => against(other).is_lt(),
        Test::LessEqual(other) => against(other).is_le(),
        Test::Greater(other) => against(other).is_gt(),
        Test::GreaterEqual(other) => against(other).is_ge(),
        Test::Between(low, high) => against(low).is_ge() && against(high).is_le(),
        Test::NotBetween(low, high) => against(low).is_lt() || against(high).is_gt(),
        other => unreachable!("`resolve` asks {other:?} of texts and arrays only"),
    }
}

fn is_of_text(test: &Test) -> bool {
    matches!(
        test,
        Test::StartsWith(_)
            | Test::NotStartsWith(_)
            | Test::EndsWith(_)
            | Test::NotEndsWith(_)
            | Test::HasPart(_)
            | Test::HasNoPart(_)
            | Test::Finds(_)
            | Test::FindsNot(_)
            | Test::Matches(_)
            | Test::Longer(_)
    )
}

/// Tests of what a text begins, ends or goes on with.
fn reads(content: &str, test: &Test) -> bool {
    let has = |part: &String| content.contains(part.as_str());
    match test {
        Test::StartsWith(start) => content.starts_with(start.as_str()),
        Test::NotStartsWith(start) => !content.starts_with(start.as_str()),
        Test::EndsWith(end) => content.ends_with(end.as_str()),
        Test::NotEndsWith(end) => !content.ends_with(end.as_str()),
        Test::HasPart(parts) => parts.iter().any(has),
        Test::HasNoPart(parts) => !parts.iter().any(has),
        Test::Finds(search) => search.finds(content),
        Test::FindsNot(search) => !search.finds(content),
        Test::Matches(pattern) => pattern.finds(content),
        Test::Longer(chars) => content.chars().count() > *chars as usize,
        other => unreachable!("{other:?} is no test of text"),
    }
}

/// Tests of an array's elements.
fn holds(elements: &[Value], test: &Test) -> bool {
    let has = |value: &Value| elements.iter().any(|one| compare(one, value).is_eq());
    match test {
        Test::HasAny(values) => values.iter().any(has),
        Test::HasAll(values) => values.iter().all(has),
        Test::HasNone(values) => !values.iter().any(has),
        Test::Longer(_) => elements.iter().any(|one| match one {
            Value::Text(text) => reads(text, test),
            _ => false,
        }),
        other => unreachable!("`resolve` does not ask {other:?} of arrays"),
    }
}

/// Values of one storage type in their order, nulls before all.
fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Int(left), Value::Int(right)) => left.cmp(right),
        (Value::Float(left), Value::Float(right)) => left.total_cmp(right),
        (Value::Text(left), Value::Text(right)) => left.cmp(right),
        (Value::Instant(left), Value::Instant(right)) => left.cmp(right),
        (left, right) => unreachable!("{left:?} and {right:?} are of one storage type"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;
    use crate::search::Search;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[track_caller]
    fn check(value: &Value, passing: &[Test], failing: &[Test]) {
        let of = |test: &Test| {
            let filter = Filter::Field(Field::Id, test.clone());
            satisfies(&filter, &|_| value.clone())
        };
        for test in passing {
            assert!(of(test), "{value:?} {test:?}");
        }
        for test in failing {
            assert!(!of(test), "{value:?} {test:?}");
        }
    }

    #[test]
    fn values_pass_by_their_place_in_the_order() {
        let five = || Value::Int(5);
        let between = |low, high| Test::Between(Value::Int(low), Value::Int(high));
        let outside = |low, high| Test::NotBetween(Value::Int(low), Value::Int(high));
        check(
            &five(),
            &[
                Test::In(vec![Value::Int(4), five()]),
                Test::NotEqual(Value::Int(4)),
                Test::Less(Value::Int(6)),
                Test::LessEqual(five()),
                Test::Greater(Value::Int(4)),
                Test::GreaterEqual(five()),
                between(5, 5),
                outside(6, 9),
                Test::IsNotNull,
            ],
            &[
                Test::In(vec![Value::Int(4)]),
                Test::NotEqual(five()),
                Test::Less(five()),
                Test::LessEqual(Value::Int(4)),
                Test::Greater(five()),
                Test::GreaterEqual(Value::Int(6)),
                between(6, 9),
                outside(5, 9),
                Test::IsNull,
            ],
        );
        check(
            &Value::Bool(true),
            &[Test::Greater(Value::Bool(false))],
            &[Test::In(vec![Value::Bool(false)])],
        );
        check(
            &Value::Float(-0.5),
            &[Test::Less(Value::Float(0.0))],
            &[Test::Greater(Value::Float(0.0))],
        );
    }

    #[test]
    fn texts_pass_by_their_parts_and_case_counts() {
        let parts = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect();
        check(
            &text("Äpfel"),
            &[
                Test::StartsWith("Äp".into()),
                Test::NotStartsWith("äp".into()),
                Test::EndsWith("el".into()),
                Test::NotEndsWith("EL".into()),
                Test::HasPart(parts(&["x", "pf"])),
                Test::HasNoPart(parts(&["x", "PF"])),
                Test::Greater(text("Z")),
                Test::Finds(Search::parse("äpf").expect("one word")),
                Test::FindsNot(Search::parse("birne").expect("one word")),
                Test::Matches(Pattern::parse("^Ä.*l$").expect("a legal one")),
                Test::Longer(4),
            ],
            &[
                Test::StartsWith("äp".into()),
                Test::NotStartsWith("Ä".into()),
                Test::EndsWith("EL".into()),
                Test::NotEndsWith("l".into()),
                Test::HasPart(parts(&["x"])),
                Test::HasNoPart(parts(&["x", "pf"])),
                Test::Longer(5),
            ],
        );
    }

    #[test]
    fn arrays_pass_by_their_elements() {
        check(
            &Value::List(vec![text("a"), text("b")]),
            &[
                Test::HasAny(vec![text("z"), text("b")]),
                Test::HasAll(vec![text("b"), text("a")]),
                Test::HasNone(vec![text("z")]),
                Test::Longer(0),
            ],
            &[
                Test::HasAny(vec![text("z")]),
                Test::HasAll(vec![text("a"), text("z")]),
                Test::HasNone(vec![text("a")]),
                Test::Longer(1),
            ],
        );
    }

    #[test]
    fn null_passes_no_test_but_its_own() {
        let failing = [
            Test::In(vec![text("a")]),
            Test::NotEqual(text("a")),
            Test::NotStartsWith("a".into()),
            Test::HasNoPart(vec!["a".into()]),
            Test::HasNone(vec![text("a")]),
            Test::Longer(0),
            Test::IsNotNull,
        ];
        check(&Value::Null, &[Test::IsNull], &failing);
    }

    #[test]
    fn branches_are_joined() {
        let is = |n| Filter::Field(Field::Sequence, Test::In(vec![Value::Int(n)]));
        let one = |_| Value::Int(1);
        for (filter, expected) in [
            (Filter::All(vec![]), true),
            (Filter::All(vec![is(1), is(2)]), false),
            (Filter::Any(vec![is(2), is(1)]), true),
            (Filter::Any(vec![]), false),
        ] {
            assert_eq!(satisfies(&filter, &one), expected, "{filter:?}");
        }
    }

    #[test]
    fn the_first_key_that_differs_decides() {
        let key = |direction| OrderKey {
            field: Field::Id,
            direction,
        };
        let keys = [key(Direction::Desc), key(Direction::Asc)];
        let by = |left: [Value; 2], right: [Value; 2]| compare_by(&keys, &left, &right);
        let int = Value::Int;
        assert_eq!(by([int(2), int(9)], [int(1), int(1)]), Ordering::Less);
        assert_eq!(by([int(1), int(1)], [int(1), int(2)]), Ordering::Less);
        assert_eq!(by([int(1), Value::Null], [int(1), int(0)]), Ordering::Less);
        assert_eq!(
            by([Value::Null, int(0)], [int(1), int(0)]),
            Ordering::Greater
        );
        assert_eq!(by([int(1), int(1)], [int(1), int(1)]), Ordering::Equal);
    }
}
