//! Filters decided in memory: the same as the SQL that `emit` writes, for what is in no database.

use std::cmp::Ordering;

use model::{Change, Direction, Field, Image, Timestamp, Value};

use crate::query::{Filter, OrderKey, Test};

/// A value that is looked at where it lies.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    /// No value.
    Null,
    /// A boolean.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// A finite double.
    Float(f64),
    /// Text.
    Text(&'a str),
    /// An instant.
    Instant(Timestamp),
    /// The elements of an array.
    List(&'a [Value]),
}

impl Seen<'_> {
    /// Whether it is the same value.
    pub fn is_same(self, other: Seen<'_>) -> bool {
        match (self, other) {
            (Seen::List(left), Seen::List(right)) => left == right,
            (left, right) => compare(left, right).is_eq(),
        }
    }
}

/// What can be looked at as a value.
pub trait Look {
    /// The value, where it lies.
    fn look(&self) -> Seen<'_>;
}

impl Look for Value {
    fn look(&self) -> Seen<'_> {
        match self {
            Value::Null => Seen::Null,
            Value::Bool(truth) => Seen::Bool(*truth),
            Value::Int(number) => Seen::Int(*number),
            Value::Float(number) => Seen::Float(*number),
            Value::Text(text) => Seen::Text(text),
            Value::Instant(instant) => Seen::Instant(*instant),
            Value::List(values) => Seen::List(values),
        }
    }
}

impl Look for Seen<'_> {
    fn look(&self) -> Seen<'_> {
        *self
    }
}

/// What the row of a change holds in `field` on one side of it. A column that the image does not
/// have, because it is of another schema than the field, is null.
pub fn field_of<'a>(change: &'a Change, image: &'a Image, field: Field) -> Seen<'a> {
    match field {
        Field::Id => Seen::Text(change.id.as_str()),
        Field::Sequence => Seen::Int(change.seq),
        Field::Created => Seen::Instant(image.created),
        Field::Updated => Seen::Instant(image.updated),
        Field::Span(end) => Seen::Instant(image.span_end(end)),
        Field::Column(position) => image.values.get(position).map_or(Seen::Null, Look::look),
    }
}

/// Whether something with these values satisfies `filter`. Null satisfies nothing but
/// [`Test::IsNull`]; text compares by bytes.
pub fn satisfies<V: Look>(filter: &Filter, value_of: &impl Fn(Field) -> V) -> bool {
    match filter {
        Filter::All(branches) => branches.iter().all(|branch| satisfies(branch, value_of)),
        Filter::Any(branches) => branches.iter().any(|branch| satisfies(branch, value_of)),
        Filter::Field(field, test) => passes(value_of(*field).look(), test),
    }
}

/// Whether [`satisfies`] is sure to decide as a database does. What is searched for is read by
/// the database's own index of words, regular expressions by its own library in PostgreSQL, and
/// the floats of an array after a way through decimal text.
pub fn is_decidable(filter: &Filter) -> bool {
    match filter {
        Filter::All(branches) | Filter::Any(branches) => branches.iter().all(is_decidable),
        Filter::Field(_, test) => is_decidable_test(test),
    }
}

/// Every test by its name: a new one must say what it is.
fn is_decidable_test(test: &Test) -> bool {
    match test {
        Test::Finds(_) | Test::FindsNot(_) | Test::Matches(_) => false,
        Test::HasAny(values) | Test::HasAll(values) | Test::HasNone(values) => {
            !values.iter().any(|value| matches!(value, Value::Float(_)))
        }
        Test::In(_)
        | Test::NotEqual(_)
        | Test::Less(_)
        | Test::LessEqual(_)
        | Test::Greater(_)
        | Test::GreaterEqual(_)
        | Test::Between(..)
        | Test::NotBetween(..)
        | Test::IsNull
        | Test::IsNotNull
        | Test::StartsWith(_)
        | Test::NotStartsWith(_)
        | Test::EndsWith(_)
        | Test::NotEndsWith(_)
        | Test::HasPart(_)
        | Test::HasNoPart(_)
        | Test::Longer(_) => true,
    }
}

/// How two lists of values, one for each key, stand in the order of `keys`: nulls first in an
/// ascending key, last in a descending one.
pub fn compare_by(keys: &[OrderKey], left: &[Value], right: &[Value]) -> Ordering {
    let value_of = |position: usize| left[position].look();
    compare_with(keys, value_of, right)
}

/// The same, of values that are looked up by their positions.
pub fn compare_with<'a>(
    keys: &[OrderKey],
    value_of: impl Fn(usize) -> Seen<'a>,
    right: &[Value],
) -> Ordering {
    let pairs = keys.iter().zip(right).enumerate();
    pairs
        .map(|(position, (key, right))| {
            let ordering = compare(value_of(position), right.look());
            match key.direction {
                Direction::Asc => ordering,
                Direction::Desc => ordering.reverse(),
            }
        })
        .find(|ordering| ordering.is_ne())
        .unwrap_or(Ordering::Equal)
}

fn passes(value: Seen<'_>, test: &Test) -> bool {
    match (value, test) {
        (Seen::Null, test) => *test == Test::IsNull,
        (_, Test::IsNull) => false,
        (_, Test::IsNotNull) => true,
        (Seen::List(elements), test) => holds(elements, test),
        (Seen::Text(content), test) => reads(content, test).unwrap_or_else(|| stands(value, test)),
        (value, test) => stands(value, test),
    }
}

/// Tests of where a value stands in the order of its type. Any other test was asked of a value of
/// another schema: its result is not used.
fn stands(value: Seen<'_>, test: &Test) -> bool {
    let against = |other: &Value| compare(value, other.look());
    match test {
        Test::In(values) => values.iter().any(|one| against(one).is_eq()),
        Test::NotEqual(other) => against(other).is_ne(),
        Test::Less(other) => against(other).is_lt(),
        Test::LessEqual(other) => against(other).is_le(),
        Test::Greater(other) => against(other).is_gt(),
        Test::GreaterEqual(other) => against(other).is_ge(),
        Test::Between(low, high) => against(low).is_ge() && against(high).is_le(),
        Test::NotBetween(low, high) => against(low).is_lt() || against(high).is_gt(),
        Test::IsNull
        | Test::IsNotNull
        | Test::StartsWith(_)
        | Test::NotStartsWith(_)
        | Test::EndsWith(_)
        | Test::NotEndsWith(_)
        | Test::HasPart(_)
        | Test::HasNoPart(_)
        | Test::Finds(_)
        | Test::FindsNot(_)
        | Test::Matches(_)
        | Test::HasAny(_)
        | Test::HasAll(_)
        | Test::HasNone(_)
        | Test::Longer(_) => false,
    }
}

/// Tests of what a text begins, ends or goes on with; `None` for one of another kind.
fn reads(content: &str, test: &Test) -> Option<bool> {
    let has = |part: &String| content.contains(part.as_str());
    Some(match test {
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
        Test::In(_)
        | Test::NotEqual(_)
        | Test::Less(_)
        | Test::LessEqual(_)
        | Test::Greater(_)
        | Test::GreaterEqual(_)
        | Test::Between(..)
        | Test::NotBetween(..)
        | Test::IsNull
        | Test::IsNotNull
        | Test::HasAny(_)
        | Test::HasAll(_)
        | Test::HasNone(_) => return None,
    })
}

/// Tests of an array's elements; any other one was asked of a value of another schema.
fn holds(elements: &[Value], test: &Test) -> bool {
    let has = |value: &Value| {
        let is_it = |one: &Value| compare(one.look(), value.look()).is_eq();
        elements.iter().any(is_it)
    };
    match test {
        Test::HasAny(values) => values.iter().any(has),
        Test::HasAll(values) => values.iter().all(has),
        Test::HasNone(values) => !values.iter().any(has),
        Test::Longer(_) => elements.iter().any(|one| match one {
            Value::Text(content) => reads(content, test) == Some(true),
            _ => false,
        }),
        Test::In(_)
        | Test::NotEqual(_)
        | Test::Less(_)
        | Test::LessEqual(_)
        | Test::Greater(_)
        | Test::GreaterEqual(_)
        | Test::Between(..)
        | Test::NotBetween(..)
        | Test::IsNull
        | Test::IsNotNull
        | Test::StartsWith(_)
        | Test::NotStartsWith(_)
        | Test::EndsWith(_)
        | Test::NotEndsWith(_)
        | Test::HasPart(_)
        | Test::HasNoPart(_)
        | Test::Finds(_)
        | Test::FindsNot(_)
        | Test::Matches(_) => false,
    }
}

/// Values of one storage type in their order, nulls before all. Values of two types, which only
/// two schemas can bring together, stand in the order of their types.
fn compare(left: Seen<'_>, right: Seen<'_>) -> Ordering {
    match (left, right) {
        (Seen::Bool(left), Seen::Bool(right)) => left.cmp(&right),
        (Seen::Int(left), Seen::Int(right)) => left.cmp(&right),
        (Seen::Float(left), Seen::Float(right)) => left.total_cmp(&right),
        (Seen::Text(left), Seen::Text(right)) => left.cmp(right),
        (Seen::Instant(left), Seen::Instant(right)) => left.cmp(&right),
        (left, right) => type_rank(left).cmp(&type_rank(right)),
    }
}

fn type_rank(value: Seen<'_>) -> u8 {
    match value {
        Seen::Null => 0,
        Seen::Bool(_) => 1,
        Seen::Int(_) => 2,
        Seen::Float(_) => 3,
        Seen::Text(_) => 4,
        Seen::Instant(_) => 5,
        Seen::List(_) => 6,
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
            satisfies(&filter, &|_| value.look())
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
