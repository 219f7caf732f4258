//! Operators: instructions in row data that compute a column's value from the one it has.
//!
//! Reading one judges all that can be judged without a row; applying it is a pure function of
//! the current value. A column without a value counts as zero, as an empty text, as an empty
//! array or as false; a date that is not there stays so, except when it is set to now.

use crate::calendar::{DATETIME_MAX, DATETIME_MIN};
use crate::count::counted;
use crate::error::ModelError;
use crate::json::Json;
use crate::schema::{Column, Storage};
use crate::time::Timestamp;
use crate::value::Value;

mod arithmetic;
mod list;

pub use arithmetic::{Arithmetic, Beyond, Calculation};
pub use list::{Among, Condition, ListChange};

/// The methods of the wire protocol (section 2.6).
pub const METHODS: [&str; 20] = [
    "increment",
    "decrement",
    "multiply",
    "divide",
    "modulo",
    "power",
    "arrayAppend",
    "arrayPrepend",
    "arrayInsert",
    "arrayRemove",
    "arrayUnique",
    "arrayIntersect",
    "arrayDiff",
    "arrayFilter",
    "stringConcat",
    "stringReplace",
    "toggle",
    "dateAddDays",
    "dateSubDays",
    "dateSetNow",
];

/// Most bytes of a value that an operator makes: as many as a request's body may carry. Without
/// a bound, replacing one letter by a long text could use up the memory.
pub const RESULT_BYTES_MAX: usize = 20 << 20;

const DAY_US: i64 = 86_400_000_000;

/// What becomes of a column's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Operator {
    /// Computes with a number.
    Arithmetic(Arithmetic),
    /// Changes an array.
    List(ListChange),
    /// Appends to a text.
    Concat(String),
    /// Replaces each occurrence of a text; an empty one occurs nowhere.
    Replace {
        /// What is looked for.
        search: String,
        /// What takes its place.
        replacement: String,
    },
    /// Turns true into false and false into true.
    Toggle,
    /// Moves a date by so many days, backwards if negative.
    AddDays(i64),
    /// Sets a date to the time of the commit.
    SetNow,
}

impl Operator {
    /// The operator that `method` with `values` makes for `column`.
    ///
    /// # Errors
    /// [`ModelError::InvalidValue`] when the column is of another type, or the values are not
    /// those the method takes; what [`Column::check_single`] says of values to be added.
    pub fn read(column: &Column, method: &str, values: &[Json]) -> Result<Operator, ModelError> {
        let reading = OperatorInput {
            column,
            method,
            values,
        };
        reading.need_no_further_values()?;
        if let Some(calculation) = Calculation::of(method) {
            return reading.arithmetic(calculation).map(Operator::Arithmetic);
        }
        if method.starts_with("array") {
            return reading.list().map(Operator::List);
        }
        match method {
            "stringConcat" => reading.concat(),
            "stringReplace" => reading.replace(),
            "toggle" => {
                reading.need_single(Storage::Bool, "a boolean")?;
                Ok(Operator::Toggle)
            }
            "dateAddDays" => reading.days(1),
            "dateSubDays" => reading.days(-1),
            "dateSetNow" => {
                reading.need_single(Storage::Instant, "a datetime")?;
                Ok(Operator::SetNow)
            }
            other => Err(column.refuse(format!("there is no operator `{other}`"))),
        }
    }

    /// What `column` holds afterwards, if it holds `current` and the commit is made at `now`.
    ///
    /// # Errors
    /// [`ModelError::InvalidValue`] when the result does not fit the column,
    /// [`ModelError::BoundExceeded`] when it passes a bound that must not be passed,
    /// [`ModelError::MissingColumn`] when a required column would be left without a value.
    pub fn apply(
        &self,
        column: &Column,
        current: &Value,
        now: Timestamp,
    ) -> Result<Value, ModelError> {
        match self {
            Operator::Arithmetic(arithmetic) => arithmetic.apply(column, current),
            Operator::List(change) => change.apply(column, current),
            Operator::Concat(suffix) => {
                let text = text_of(current);
                need_room(column, text.len().saturating_add(suffix.len()))?;
                column.check_single(&Json::Text(format!("{text}{suffix}")))
            }
            Operator::Replace {
                search,
                replacement,
            } => replace(column, current, search, replacement),
            Operator::Toggle => Ok(Value::Bool(*current != Value::Bool(true))),
            Operator::AddDays(days) => add_days(column, current, *days),
            Operator::SetNow => Ok(Value::Instant(now.cut_to_ms())),
        }
    }
}

/// A method and its values on the way to an operator.
struct OperatorInput<'a> {
    column: &'a Column,
    method: &'a str,
    values: &'a [Json],
}

impl OperatorInput<'_> {
    fn refuse(&self, why: impl std::fmt::Display) -> ModelError {
        self.column
            .refuse(format!("operator `{}` {why}", self.method))
    }

    fn need_single(&self, storage: Storage, what: &str) -> Result<(), ModelError> {
        if self.column.array || self.column.kind.storage() != storage {
            return Err(self.refuse(format_args!("needs a column that holds {what}")));
        }
        Ok(())
    }

    fn text(&self, nth: usize) -> Result<String, ModelError> {
        match self.values.get(nth) {
            Some(Json::Text(text)) => Ok(text.clone()),
            _ => Err(self.refuse("needs texts as its values")),
        }
    }

    fn concat(&self) -> Result<Operator, ModelError> {
        self.need_single(Storage::Text, "text")?;
        Ok(Operator::Concat(self.text(0)?))
    }

    /// A value too many is a mistake of its sender, who would not learn of it otherwise.
    fn need_no_further_values(&self) -> Result<(), ModelError> {
        let values_max = match self.method {
            "arrayUnique" | "toggle" | "dateSetNow" => 0,
            "modulo" | "arrayRemove" | "stringConcat" | "dateAddDays" | "dateSubDays" => 1,
            // Their values are elements, of which there may be many.
            "arrayAppend" | "arrayPrepend" | "arrayIntersect" | "arrayDiff" => return Ok(()),
            _ => 2,
        };
        if self.values.len() <= values_max {
            return Ok(());
        }
        let values = counted(values_max as u64, "value");
        let count = self.values.len();
        Err(self.refuse(format_args!("takes at most {values}, got {count}")))
    }

    fn replace(&self) -> Result<Operator, ModelError> {
        self.need_single(Storage::Text, "text")?;
        Ok(Operator::Replace {
            search: self.text(0)?,
            replacement: self.text(1)?,
        })
    }

    fn days(&self, sign: i64) -> Result<Operator, ModelError> {
        self.need_single(Storage::Instant, "a datetime")?;
        let days = match self.values.first() {
            Some(Json::Int(days)) => days.checked_mul(sign),
            _ => None,
        };
        days.map(Operator::AddDays)
            .ok_or_else(|| self.refuse("needs a whole number of days"))
    }
}

fn text_of(current: &Value) -> &str {
    match current {
        Value::Text(text) => text,
        _ => "",
    }
}

fn replace(
    column: &Column,
    current: &Value,
    search: &str,
    replacement: &str,
) -> Result<Value, ModelError> {
    let Value::Text(text) = current else {
        return Ok(current.clone());
    };
    if search.is_empty() {
        return Ok(current.clone());
    }
    // Counted before the new text is made: it may be larger than the memory.
    let count = text.matches(search).count();
    let added = replacement.len().saturating_mul(count);
    need_room(
        column,
        (text.len() - search.len() * count).saturating_add(added),
    )?;
    column.check_single(&Json::Text(text.replace(search, replacement)))
}

fn need_room(column: &Column, bytes: usize) -> Result<(), ModelError> {
    if bytes > RESULT_BYTES_MAX {
        return Err(column.refuse(format!(
            "an operator may not make more than {RESULT_BYTES_MAX} bytes"
        )));
    }
    Ok(())
}

fn add_days(column: &Column, current: &Value, days: i64) -> Result<Value, ModelError> {
    let Value::Instant(Timestamp(at)) = current else {
        return column.check(&Json::Null);
    };
    days.checked_mul(DAY_US)
        .and_then(|us| at.checked_add(us))
        .map(Timestamp)
        .filter(|moved| (DATETIME_MIN..=DATETIME_MAX).contains(moved))
        .map(Value::Instant)
        .ok_or_else(|| column.refuse("the date would lie outside the years 0000 to 9999".into()))
}

#[cfg(test)]
mod tests;
