//! Numbers that stand in the order of values, so that most questions about a change are answered
//! by comparing numbers that lie side by side in memory.
//!
//! A rank never turns an order around: a lesser value has no greater rank. Two values may share
//! one, as long texts with one beginning do; then only the values can tell.

use model::{Change, Field, Image, Value};
use query::predicate::{Look, Seen, field_of};
use query::{Filter, Test};

/// Most conditions that are kept beside a group.
const GUARDS_MAX: usize = 2;

/// The rank of a value.
pub(crate) fn rank(value: Seen<'_>) -> u64 {
    match value {
        Seen::Null | Seen::List(_) => 0,
        Seen::Bool(truth) => u64::from(truth),
        Seen::Int(number) => of_signed(number),
        Seen::Instant(instant) => of_signed(instant.0),
        Seen::Float(number) => {
            let bits = number.to_bits();
            // As IEEE 754 orders them: the more negative, the greater the bits.
            if bits >> 63 == 1 {
                !bits
            } else {
                bits | 1 << 63
            }
        }
        Seen::Text(text) => of_beginning(text.as_bytes(), 0),
    }
}

fn of_signed(number: i64) -> u64 {
    number as u64 ^ 1 << 63
}

/// The first eight bytes, the missing ones filled up.
fn of_beginning(text: &[u8], fill: u8) -> u64 {
    let mut bytes = [fill; 8];
    let length = text.len().min(8);
    bytes[..length].copy_from_slice(&text[..length]);
    u64::from_be_bytes(bytes)
}

/// Where the rank of a field stands among those of its row.
fn position(field: Field) -> u32 {
    match field {
        Field::Id => 0,
        Field::Sequence => 1,
        Field::Created => 2,
        Field::Updated => 3,
        Field::Column(position) => position as u32 + 4,
    }
}

/// The ranks of all fields of one side of a change.
#[derive(Default)]
pub(crate) struct Ranks {
    is_there: bool,
    ranks: Vec<u64>,
}

impl Ranks {
    pub(crate) fn set(&mut self, change: &Change, image: Option<&Image>) {
        self.is_there = image.is_some();
        self.ranks.clear();
        let Some(image) = image else { return };
        for field in [Field::Id, Field::Sequence, Field::Created, Field::Updated] {
            self.ranks.push(rank(field_of(change, image, field)));
        }
        let columns = image.values.iter().map(|value| rank(value.look()));
        self.ranks.extend(columns);
    }

    /// The rank of a field; 0 where the row is of another schema.
    fn get(&self, position: u32) -> u64 {
        self.ranks.get(position as usize).copied().unwrap_or(0)
    }
}

/// What must hold of a row that matches a filter, as far as ranks can say.
#[derive(Clone, Copy, Default)]
pub(crate) struct Guards {
    count: u8,
    guards: [Guard; GUARDS_MAX],
}

/// The rank of this field lies between these, both included.
#[derive(Clone, Copy, Default)]
struct Guard {
    position: u32,
    low: u64,
    high: u64,
}

impl Guards {
    /// Those of a filter. `known` are fields whose values an index has looked at already.
    pub(crate) fn of(filter: &Filter, known: &[Field]) -> Guards {
        let mut guards = Guards::default();
        guards.collect(filter, known);
        guards
    }

    fn collect(&mut self, filter: &Filter, known: &[Field]) {
        match filter {
            Filter::All(branches) => {
                for branch in branches {
                    self.collect(branch, known);
                }
            }
            Filter::Any(_) => {}
            Filter::Field(field, test) => {
                let has_room = usize::from(self.count) < GUARDS_MAX;
                if let (true, false, Some((low, high))) =
                    (has_room, known.contains(field), bounds(test))
                {
                    self.guards[usize::from(self.count)] = Guard {
                        position: position(*field),
                        low,
                        high,
                    };
                    self.count += 1;
                }
            }
        }
    }

    /// Whether a row with these ranks may match. A row that is not there cannot.
    pub(crate) fn let_pass(&self, ranks: &Ranks) -> bool {
        ranks.is_there
            && self.guards[..usize::from(self.count)].iter().all(|guard| {
                let rank = ranks.get(guard.position);
                guard.low <= rank && rank <= guard.high
            })
    }
}

/// Between which ranks a value lies that passes the test.
fn bounds(test: &Test) -> Option<(u64, u64)> {
    let of = |value: &Value| rank(value.look());
    Some(match test {
        Test::In(values) => {
            let ranks = || values.iter().map(of);
            (ranks().min()?, ranks().max()?)
        }
        Test::Less(value) | Test::LessEqual(value) => (0, of(value)),
        Test::Greater(value) | Test::GreaterEqual(value) => (of(value), u64::MAX),
        Test::Between(low, high) => (of(low), of(high)),
        Test::StartsWith(start) => {
            let start = start.as_bytes();
            (of_beginning(start, 0), of_beginning(start, u8::MAX))
        }
        _ => return None,
    })
}

/// Where a full page ends in the first key of its order.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    position: u32,
    is_descending: bool,
    last: u64,
}

impl Edge {
    pub(crate) fn new(field: Field, is_descending: bool, last: &Value) -> Edge {
        Edge {
            position: position(field),
            is_descending,
            last: rank(last.look()),
        }
    }

    /// Whether the row certainly stands beyond the page. A row that is not there does.
    pub(crate) fn is_before(&self, ranks: &Ranks) -> bool {
        let rank = ranks.get(self.position);
        !ranks.is_there
            || if self.is_descending {
                rank < self.last
            } else {
                rank > self.last
            }
    }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use query::OrderKey;
    use query::predicate::compare_by;

    use super::*;

    #[test]
    fn ranks_never_turn_an_order_around() {
        let text = |text: &str| Value::Text(text.to_owned());
        let groups = [
            [i64::MIN, -5, -1, 0, 1, 7, i64::MAX]
                .map(Value::Int)
                .to_vec(),
            [-5, 0, 9].map(|us| Value::Instant(Timestamp(us))).to_vec(),
            [f64::MIN, -1.5, -1e-300, 0.0, 5e-324, 2.5, f64::MAX]
                .map(Value::Float)
                .to_vec(),
            [
                "",
                "a",
                "a\u{1}",
                "ab",
                "abcdefgh",
                "abcdefghi",
                "b",
                "ä",
                "\u{10ffff}",
            ]
            .map(text)
            .to_vec(),
            [false, true].map(Value::Bool).to_vec(),
        ];
        let key = OrderKey {
            field: Field::Id,
            direction: model::Direction::Asc,
        };
        for values in groups {
            for pair in values.windows(2) {
                let (left, right) = (&pair[0], &pair[1]);
                let order = compare_by(&[key], &[left.clone()], &[right.clone()]);
                assert!(order.is_lt(), "{left:?} {right:?}");
                assert!(
                    rank(left.look()) <= rank(right.look()),
                    "{left:?} {right:?}"
                );
                assert!(rank(Seen::Null) <= rank(left.look()));
            }
        }
    }

    #[test]
    fn guards_let_pass_whatever_passes_the_test() {
        let text = |text: &str| Value::Text(text.to_owned());
        let tests = [
            Test::In(vec![Value::Int(3), Value::Int(9)]),
            Test::Less(Value::Int(4)),
            Test::LessEqual(Value::Int(4)),
            Test::Greater(Value::Int(4)),
            Test::GreaterEqual(Value::Int(4)),
            Test::Between(Value::Int(-2), Value::Int(4)),
            Test::NotEqual(Value::Int(4)),
            Test::IsNull,
        ];
        let of_text = [
            Test::StartsWith("abcdefghij".into()),
            Test::StartsWith("ab".into()),
            Test::Less(text("abcdefghz")),
            Test::In(vec![text("abcdefghijk")]),
        ];
        let numbers: Vec<Value> = (-10..12).map(Value::Int).chain([Value::Null]).collect();
        let texts = ["", "ab", "abcdefghij", "abcdefghijk", "ac", "b"].map(text);
        let mut stopped = 0;
        for (tests, values) in [(&tests[..], &numbers[..]), (&of_text, &texts)] {
            for test in tests {
                let filter = Filter::Field(Field::Column(0), test.clone());
                let guards = Guards::of(&filter, &[]);
                for value in values {
                    let ranks = Ranks {
                        is_there: true,
                        ranks: vec![0, 0, 0, 0, rank(value.look())],
                    };
                    let passes = query::predicate::satisfies(&filter, &|_| value.look());
                    let is_let = guards.let_pass(&ranks);
                    assert!(is_let || !passes, "{test:?} {value:?}");
                    stopped += usize::from(!is_let);
                }
            }
        }
        assert!(stopped > 50, "guards that stop {stopped} are none");
    }
}
