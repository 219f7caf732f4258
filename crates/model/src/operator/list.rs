//! Operators on arrays.

use std::cmp::Ordering;

use super::{OperatorInput, need_room};
use crate::calendar::parse_iso;
use crate::check::{ARRAY_ELEMENTS_MAX, as_float};
use crate::count::counted;
use crate::error::ModelError;
use crate::json::Json;
use crate::schema::{Column, Storage};
use crate::value::Value;

#[cfg(test)]
thread_local! {
    /// How often two elements were compared.
    pub(super) static COMPARED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// What happens to an array.
#[derive(Clone, Debug, PartialEq)]
pub enum ListChange {
    /// Adds these at the end.
    Append(Vec<Value>),
    /// Adds these in front.
    Prepend(Vec<Value>),
    /// Adds one before the element at this position, or at the end.
    Insert {
        /// From 0 to the number of elements.
        index: usize,
        /// The new element.
        value: Value,
    },
    /// Removes all elements equal to one of these.
    Remove(Among),
    /// Keeps the first of equal elements.
    Unique,
    /// Keeps the elements that are equal to one of these.
    Intersect(Among),
    /// Keeps the elements that pass.
    Filter(Condition),
}

/// Values that elements are looked for in, sorted once. Comparing each of 10,000 elements with each
/// of as many values would hold the writer for a second, and for ten if the texts begin alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Among(Vec<Value>);

impl Among {
    fn new(mut values: Vec<Value>) -> Among {
        values.sort_unstable_by(order);
        Among(values)
    }

    fn contains(&self, element: &Value) -> bool {
        self.0
            .binary_search_by(|value| order(value, element))
            .is_ok()
    }
}

/// A test of one element.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Equal to this.
    Equal(Value),
    /// Not equal to this.
    NotEqual(Value),
    /// Greater than this.
    Greater(Value),
    /// Greater than or equal to this.
    GreaterEqual(Value),
    /// Less than this.
    Less(Value),
    /// Less than or equal to this.
    LessEqual(Value),
    /// Text with this as a part; case counts.
    Contains(String),
    /// Has no value; no element is like that.
    IsNull,
    /// Has a value.
    IsNotNull,
}

impl OperatorInput<'_> {
    pub(super) fn list(&self) -> Result<ListChange, ModelError> {
        if !self.column.array {
            return Err(self.refuse("needs a column that holds an array"));
        }
        match self.method {
            "arrayAppend" => Ok(ListChange::Append(self.new_elements(self.values)?)),
            "arrayPrepend" => Ok(ListChange::Prepend(self.new_elements(self.values)?)),
            "arrayInsert" => self.insert(),
            "arrayRemove" => match self.values {
                [Json::List(several)] => self.among(several).map(ListChange::Remove),
                [_] => self.among(self.values).map(ListChange::Remove),
                _ => Err(self.refuse("needs one value")),
            },
            "arrayUnique" => Ok(ListChange::Unique),
            "arrayIntersect" => self.among(self.values).map(ListChange::Intersect),
            "arrayDiff" => self.among(self.values).map(ListChange::Remove),
            "arrayFilter" => self.condition().map(ListChange::Filter),
            other => Err(self
                .column
                .refuse(format!("there is no operator `{other}`"))),
        }
    }

    fn new_elements(&self, values: &[Json]) -> Result<Vec<Value>, ModelError> {
        if values.is_empty() || values.len() > ARRAY_ELEMENTS_MAX {
            let why = format_args!("needs 1 to {ARRAY_ELEMENTS_MAX} values");
            return Err(self.refuse(why));
        }
        let check = |json| self.column.check_single(json);
        values.iter().map(check).collect()
    }

    fn insert(&self) -> Result<ListChange, ModelError> {
        let [Json::Int(index), value] = self.values else {
            return Err(self.refuse("needs a position and a value"));
        };
        let index =
            usize::try_from(*index).map_err(|_| self.refuse("needs a position of 0 or more"))?;
        Ok(ListChange::Insert {
            index,
            value: self.column.check_single(value)?,
        })
    }

    fn condition(&self) -> Result<Condition, ModelError> {
        let Some(Json::Text(word)) = self.values.first() else {
            return Err(self.refuse("needs a condition"));
        };
        let value = || self.comparable(self.values.get(1).unwrap_or(&Json::Null));
        Ok(match word.as_str() {
            "equal" => Condition::Equal(value()?),
            "notEqual" => Condition::NotEqual(value()?),
            "greaterThan" => Condition::Greater(value()?),
            "greaterThanEqual" => Condition::GreaterEqual(value()?),
            "lessThan" => Condition::Less(value()?),
            "lessThanEqual" => Condition::LessEqual(value()?),
            "contains" => match value()? {
                Value::Text(part) => Condition::Contains(part),
                _ => return Err(self.refuse("asks `contains` of text only")),
            },
            "isNull" => Condition::IsNull,
            "isNotNull" => Condition::IsNotNull,
            _ => return Err(self.refuse("needs one of the known conditions")),
        })
    }

    fn among(&self, values: &[Json]) -> Result<Among, ModelError> {
        if values.len() > ARRAY_ELEMENTS_MAX {
            let why = format_args!("needs at most {ARRAY_ELEMENTS_MAX} values");
            return Err(self.refuse(why));
        }
        let comparables: Result<_, _> = values.iter().map(|json| self.comparable(json)).collect();
        comparables.map(Among::new)
    }

    /// A value to compare elements with: of their type, but not within the column's limits.
    fn comparable(&self, json: &Json) -> Result<Value, ModelError> {
        let storage = self.column.kind.storage();
        let value = match (storage, json) {
            (Storage::Text, Json::Text(text)) => Some(Value::Text(text.clone())),
            (Storage::Int, Json::Int(n)) => Some(Value::Int(*n)),
            (Storage::Float, Json::Int(_) | Json::Wide(_) | Json::Float(_)) => {
                Some(Value::Float(as_float(json)))
            }
            (Storage::Bool, Json::Bool(truth)) => Some(Value::Bool(*truth)),
            (Storage::Instant, Json::Text(text)) => {
                parse_iso(text).map(|at| Value::Instant(at.cut_to_ms()))
            }
            _ => None,
        };
        value.ok_or_else(|| self.refuse("compares with values of the column's type only"))
    }
}

impl ListChange {
    pub(super) fn apply(&self, column: &Column, current: &Value) -> Result<Value, ModelError> {
        let elements: &[Value] = match current {
            Value::List(elements) => elements,
            _ => &[],
        };
        let changed = match self {
            ListChange::Append(new) => [elements, new].concat(),
            ListChange::Prepend(new) => [new, elements].concat(),
            ListChange::Insert { index, value } => insert(column, elements, *index, value)?,
            ListChange::Remove(gone) => keep(elements, |element| !gone.contains(element)),
            ListChange::Unique => unique(elements),
            ListChange::Intersect(kept) => keep(elements, |element| kept.contains(element)),
            ListChange::Filter(condition) => keep(elements, |element| condition.holds(element)),
        };
        if changed.len() > ARRAY_ELEMENTS_MAX {
            return Err(column.refuse(format!("more than {ARRAY_ELEMENTS_MAX} elements")));
        }
        let changed = Value::List(changed);
        need_room(column, changed.size_bytes())?;
        Ok(changed)
    }
}

fn insert(
    column: &Column,
    elements: &[Value],
    index: usize,
    value: &Value,
) -> Result<Vec<Value>, ModelError> {
    let Some((before, after)) = elements.split_at_checked(index) else {
        return Err(column.refuse(format!(
            "position {index} is beyond the end of an array with {}",
            counted(elements.len() as u64, "element")
        )));
    };
    Ok([before, std::slice::from_ref(value), after].concat())
}

fn keep(elements: &[Value], keeps: impl Fn(&Value) -> bool) -> Vec<Value> {
    elements
        .iter()
        .filter(|element| keeps(element))
        .cloned()
        .collect()
}

/// Sorted positions find the equals: comparing each with each takes a second for 10,000 texts.
fn unique(elements: &[Value]) -> Vec<Value> {
    let mut positions: Vec<usize> = (0..elements.len()).collect();
    positions.sort_by(|left, right| order(&elements[*left], &elements[*right]));
    // The sort is stable: of equals the first one stands in front.
    positions.dedup_by(|later, kept| order(&elements[*later], &elements[*kept]).is_eq());
    positions.sort_unstable();
    positions
        .into_iter()
        .map(|at| elements[at].clone())
        .collect()
}

impl Condition {
    fn holds(&self, element: &Value) -> bool {
        let is = |value, wanted: &[Ordering]| {
            compare(element, value).is_some_and(|order| wanted.contains(&order))
        };
        match self {
            Condition::Equal(value) => element == value,
            Condition::NotEqual(value) => element != value,
            Condition::Greater(value) => is(value, &[Ordering::Greater]),
            Condition::GreaterEqual(value) => is(value, &[Ordering::Greater, Ordering::Equal]),
            Condition::Less(value) => is(value, &[Ordering::Less]),
            Condition::LessEqual(value) => is(value, &[Ordering::Less, Ordering::Equal]),
            Condition::Contains(part) => {
                matches!(element, Value::Text(text) if text.contains(part.as_str()))
            }
            Condition::IsNull => false,
            Condition::IsNotNull => true,
        }
    }
}

/// The order of two elements of one array, all of which can be compared.
fn order(left: &Value, right: &Value) -> Ordering {
    compare(left, right).unwrap_or(Ordering::Equal)
}

/// The order of two elements of one array.
fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    #[cfg(test)]
    COMPARED.set(COMPARED.get() + 1);
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
        (Value::Float(left), Value::Float(right)) => left.partial_cmp(right),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Instant(left), Value::Instant(right)) => Some(left.cmp(right)),
        _ => None,
    }
}
