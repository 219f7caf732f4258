//! Numbers that stand in the order of values, so that most questions about a change are answered
//! by comparing numbers that lie side by side in memory.
//!
//! A rank never turns an order around: a lesser value has no greater rank. Two values may share
//! one, as long texts with one beginning do; then only the values can tell.

use model::{Change, Direction, Field, Image, SpanEnd, Value};
use query::predicate::{Look, Seen, field_of};
use query::{Filter, OrderKey, Test};

use crate::rules::{Rule, Rules};

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

/// The fields that every table has, in the order in which their ranks stand.
const SYSTEM_FIELDS: [Field; 7] = [
    Field::Id,
    Field::Sequence,
    Field::Created,
    Field::Updated,
    Field::Span(SpanEnd::ValidFrom),
    Field::Span(SpanEnd::ValidTo),
    Field::Span(SpanEnd::SystemFrom),
];

/// Where the rank of a field stands among those of its row.
fn position(field: Field) -> u32 {
    match field {
        Field::Id => 0,
        Field::Sequence => 1,
        Field::Created => 2,
        Field::Updated => 3,
        Field::Span(SpanEnd::ValidFrom) => 4,
        Field::Span(SpanEnd::ValidTo) => 5,
        Field::Span(SpanEnd::SystemFrom) => 6,
        Field::Column(position) => position as u32 + SYSTEM_FIELDS.len() as u32,
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
        for field in SYSTEM_FIELDS {
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
    guards: [RankGuard; GUARDS_MAX],
}

/// The rank of this field lies between these, both included.
#[derive(Clone, Copy, Default)]
struct RankGuard {
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
                    self.guards[usize::from(self.count)] = RankGuard {
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

/// Which fields a change has touched, or a filter looks at: a bit each, the last ones sharing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldBits(u64);

impl FieldBits {
    /// The grants of a row, on which depends who sees it.
    const GRANTS: FieldBits = FieldBits(1 << 63);

    /// What a group with a filter on these looks at.
    pub(crate) fn of(fields: &[Field]) -> FieldBits {
        let bits = fields.iter().map(|field| FieldBits::bit(position(*field)));
        FieldBits(bits.fold(FieldBits::GRANTS.0, |all, bit| all | bit))
    }

    /// What is another on the two sides of a change; all of it where one side is not there.
    pub(crate) fn changed(change: &Change) -> FieldBits {
        let (Some(before), Some(after)) = (&change.before, &change.after) else {
            return FieldBits(u64::MAX);
        };
        if before.values.len() != after.values.len() {
            return FieldBits(u64::MAX);
        }
        let mut bits = 0;
        if before.permissions != after.permissions {
            bits |= FieldBits::GRANTS.0;
        }
        if before.created != after.created {
            bits |= FieldBits::bit(position(Field::Created));
        }
        if before.updated != after.updated {
            bits |= FieldBits::bit(position(Field::Updated));
        }
        for end in SpanEnd::ALL {
            if before.span_end(end) != after.span_end(end) {
                bits |= FieldBits::bit(position(Field::Span(end)));
            }
        }
        let columns = before.values.iter().zip(&after.values).enumerate();
        for (column, _) in columns.filter(|(_, (was, is))| was != is) {
            bits |= FieldBits::bit(position(Field::Column(column)));
        }
        FieldBits(bits)
    }

    fn bit(position: u32) -> u64 {
        1 << position.min(62)
    }

    fn share_none(self, other: FieldBits) -> bool {
        self.0 & other.0 == 0
    }
}

/// How far the pages of a group reach, and what its filter looks at: enough to pass over it when a
/// row changes beyond all of them and matches as it did before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankBounds {
    fields: FieldBits,
    /// Pages that are not known to end.
    endless: u32,
    /// The ends that are furthest, of pages in ascending and in descending order, where all pages
    /// of a direction are in the order of one field.
    ends: [Option<Edge>; 2],
    has_other_orders: bool,
}

impl RankBounds {
    /// Of a group without pages, whose filter looks at these.
    pub(crate) fn of(fields: &[Field]) -> RankBounds {
        RankBounds {
            fields: FieldBits::of(fields),
            endless: 0,
            ends: [None; 2],
            has_other_orders: false,
        }
    }

    /// A page comes that is not known to end.
    pub(crate) fn add_endless(&mut self) {
        self.endless += 1;
    }

    /// Such a page goes, or its end becomes known.
    pub(crate) fn remove_endless(&mut self) {
        self.endless -= 1;
    }

    /// A page ends here. It may go again: then the group reaches less far than is known.
    pub(crate) fn add_end(&mut self, edge: Edge) {
        let end = &mut self.ends[usize::from(edge.is_descending)];
        match end {
            None => *end = Some(edge),
            Some(known) if known.position != edge.position => self.has_other_orders = true,
            Some(known) if edge.is_descending => known.last = known.last.min(edge.last),
            Some(known) => known.last = known.last.max(edge.last),
        }
    }

    /// Whether the change alters nothing of the group, whether or not its row matches.
    pub(crate) fn leaves_out(
        &self,
        changed: FieldBits,
        before: &Ranks,
        after: &Ranks,
        rules: &Rules,
    ) -> bool {
        self.fields.share_none(changed)
            && (self.endless == 0 || !rules.hold(Rule::EndlessPagesAreAsked))
            && !self.has_other_orders
            && self
                .ends
                .iter()
                .flatten()
                .all(|edge| edge.is_before(before, rules) && edge.is_before(after, rules))
    }
}

/// Where a full page ends in the first key of its order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    position: u32,
    is_descending: bool,
    last: u64,
}

impl Edge {
    pub(crate) fn new(first: OrderKey, last: &Value) -> Edge {
        Edge {
            position: position(first.field),
            is_descending: first.direction == Direction::Desc,
            last: rank(last.look()),
        }
    }

    /// Whether the row certainly stands beyond the page. A row that is not there does.
    pub(crate) fn is_before(&self, ranks: &Ranks, rules: &Rules) -> bool {
        let rank = ranks.get(self.position);
        let is_told = rank != self.last || !rules.hold(Rule::EqualRanksAreAsked);
        !ranks.is_there
            || (is_told
                && if self.is_descending {
                    rank <= self.last
                } else {
                    rank >= self.last
                })
    }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
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
            direction: Direction::Asc,
        };
        for values in groups {
            for pair in values.windows(2) {
                let (left, right) = (&pair[0], &pair[1]);
                let order = compare_by(&[key], &pair[..1], &pair[1..]);
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
        let words = ["", "ab", "abcdefghij", "abcdefghijk", "ac", "b"].map(text);
        let mut stopped = 0;
        for (tests, values) in [(&tests[..], &numbers[..]), (&of_text, &words)] {
            for test in tests {
                let filter = Filter::Field(Field::Column(0), test.clone());
                let guards = Guards::of(&filter, &[]);
                for value in values {
                    let ranks = Ranks {
                        is_there: true,
                        ranks: vec![0, 0, 0, 0, 0, 0, 0, rank(value.look())],
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
