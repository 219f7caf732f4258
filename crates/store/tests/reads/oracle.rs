//! What a list must hold, decided row by row in plain Rust: slow, and sure.

use std::cmp::Ordering;

use model::calendar::iso_us;
use model::{Field, Mark, Period, RowId, SpanEnd, Table, Timestamp, Value};

/// A row as it should be.
#[derive(Clone, Debug)]
pub struct Known {
    pub seq: i64,
    pub id: RowId,
    pub created: Timestamp,
    pub updated: Timestamp,
    pub valid: Period,
    pub system_from: Mark,
    pub values: Vec<Value>,
    /// The one role that may read it.
    pub role: &'static str,
}

/// A filter, as a person would say it.
#[derive(Clone, Debug)]
pub enum Ask {
    Test(&'static str, String, Vec<Value>),
    Or(Vec<Ask>),
    And(Vec<Ask>),
}

/// A key of an order: attribute, and whether it descends.
pub type Key = (String, bool);

impl Known {
    pub fn field(&self, field: Field) -> Value {
        match field {
            Field::Id => Value::Text(self.id.to_string()),
            Field::Sequence => Value::Int(self.seq),
            Field::Created => Value::Instant(self.created),
            Field::Updated => Value::Instant(self.updated),
            Field::Span(SpanEnd::ValidFrom) => Value::Instant(self.valid.from()),
            Field::Span(SpanEnd::ValidTo) => Value::Instant(self.valid.end()),
            Field::Span(SpanEnd::SystemFrom) => Value::Instant(self.system_from.timestamp()),
            Field::Column(position) => self.values[position].clone(),
        }
    }

    pub fn value(&self, table: &Table, attribute: &str) -> Value {
        match attribute {
            "$id" => Value::Text(self.id.to_string()),
            "$sequence" => Value::Int(self.seq),
            "$createdAt" => Value::Instant(self.created),
            "$updatedAt" => Value::Instant(self.updated),
            "$validFrom" => Value::Instant(self.valid.from()),
            "$validTo" => Value::Instant(self.valid.end()),
            "$systemFrom" => Value::Instant(self.system_from.timestamp()),
            key => self.values[table.position(key).unwrap()].clone(),
        }
    }
}

impl Ask {
    /// The query as a client sends it.
    pub fn json(&self) -> String {
        match self {
            Ask::Test(method, attribute, values) => {
                let values: Vec<String> = values.iter().map(json).collect();
                format!(
                    r#"{{"method":"{method}","attribute":"{attribute}","values":[{}]}}"#,
                    values.join(",")
                )
            }
            Ask::Or(asks) => nested("or", asks),
            Ask::And(asks) => nested("and", asks),
        }
    }

    pub fn holds(&self, table: &Table, row: &Known) -> bool {
        match self {
            Ask::Test(method, attribute, values) => {
                holds(method, &row.value(table, attribute), values)
            }
            Ask::Or(asks) => asks.iter().any(|ask| ask.holds(table, row)),
            Ask::And(asks) => asks.iter().all(|ask| ask.holds(table, row)),
        }
    }
}

fn nested(method: &str, asks: &[Ask]) -> String {
    let inner: Vec<String> = asks.iter().map(Ask::json).collect();
    format!(r#"{{"method":"{method}","values":[{}]}}"#, inner.join(","))
}

fn json(value: &Value) -> String {
    match value {
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
        Value::Instant(instant) => format!("{:?}", iso_us(*instant)),
        Value::Null | Value::List(_) => panic!("{value:?} is no value of a query"),
    }
}

fn holds(method: &str, held: &Value, wanted: &[Value]) -> bool {
    if *held == Value::Null {
        return method == "isNull";
    }
    if *held == Value::Instant(Timestamp::END) && method.starts_with("is") {
        return method == "isNull";
    }
    if let Value::List(elements) = held {
        let is_there = |value: &Value| elements.contains(value);
        return match method {
            "isNotNull" => true,
            "contains" | "containsAny" => wanted.iter().any(is_there),
            "containsAll" => wanted.iter().all(is_there),
            "notContains" => !wanted.iter().any(is_there),
            _ => false,
        };
    }
    let against = |position: usize| compare(held, &wanted[position]);
    match method {
        "isNotNull" => true,
        "equal" => wanted.contains(held),
        "notEqual" => *held != wanted[0],
        "lessThan" => against(0) == Ordering::Less,
        "lessThanEqual" => against(0) != Ordering::Greater,
        "greaterThan" => against(0) == Ordering::Greater,
        "greaterThanEqual" => against(0) != Ordering::Less,
        "between" => against(0) != Ordering::Less && against(1) != Ordering::Greater,
        "notBetween" => against(0) == Ordering::Less || against(1) == Ordering::Greater,
        "startsWith" => text(held).starts_with(text(&wanted[0])),
        "notStartsWith" => !text(held).starts_with(text(&wanted[0])),
        "endsWith" => text(held).ends_with(text(&wanted[0])),
        "notEndsWith" => !text(held).ends_with(text(&wanted[0])),
        "contains" | "containsAny" | "containsAll" => {
            wanted.iter().any(|part| text(held).contains(text(part)))
        }
        "notContains" => !wanted.iter().any(|part| text(held).contains(text(part))),
        _ => false,
    }
}

fn text(value: &Value) -> &str {
    match value {
        Value::Text(text) => text,
        other => panic!("{other:?} is no text"),
    }
}

/// Nulls before all.
fn compare(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (Value::Int(one), Value::Int(other)) => one.cmp(other),
        (Value::Float(one), Value::Float(other)) => one.total_cmp(other),
        (Value::Text(one), Value::Text(other)) => one.as_bytes().cmp(other.as_bytes()),
        (Value::Instant(one), Value::Instant(other)) => one.cmp(other),
        _ => panic!("{one:?} and {other:?} do not compare"),
    }
}

/// The order of two rows under `keys` and the tie-break.
pub fn order(table: &Table, keys: &[Key], one: &Known, other: &Known) -> Ordering {
    for (attribute, descends) in keys {
        let ordering = compare(&one.value(table, attribute), &other.value(table, attribute));
        let ordering = if *descends {
            ordering.reverse()
        } else {
            ordering
        };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    let by_time = |(attribute, descends): &Key| {
        let is_time = attribute.starts_with("$valid") || attribute == "$systemFrom";
        *descends && (is_time || attribute == "$createdAt" || attribute == "$updatedAt")
    };
    let tie = one.seq.cmp(&other.seq);
    if keys.first().is_some_and(by_time) {
        tie.reverse()
    } else {
        tie
    }
}
