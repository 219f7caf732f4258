//! Operators on numbers. Integers are exact: a result beyond 64 bits is refused, never wrapped.

use super::OperatorInput;
use crate::check::as_float;
use crate::error::ModelError;
use crate::json::Json;
use crate::schema::{Column, Storage};
use crate::value::Value;

/// Integers up to this are exact as doubles: 2^53.
const EXACT_FLOAT_MAX: f64 = 9_007_199_254_740_992.0;

/// A calculation with its operand.
#[derive(Clone, Debug, PartialEq)]
pub struct Arithmetic {
    /// What is done to the current number.
    pub calculation: Calculation,
    /// The other number, of the column's own type.
    pub operand: Value,
    /// What the result may not pass, of the column's own type: downwards for a subtraction and
    /// a division, upwards for all others.
    pub bound: Option<Value>,
    /// What happens when the result lies beyond the bound.
    pub beyond: Beyond,
}

/// What is done to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calculation {
    /// Adds the operand.
    Add,
    /// Subtracts it.
    Subtract,
    /// Multiplies by it.
    Multiply,
    /// Divides by it; integers lose the fraction.
    Divide,
    /// The rest of the division, with the sign of the dividend.
    Modulo,
    /// Raises to its power.
    Power,
}

/// What happens when a result lies beyond its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// The bound becomes the result.
    Saturate,
    /// [`ModelError::BoundExceeded`].
    Refuse,
}

impl Calculation {
    pub(super) fn of(method: &str) -> Option<Calculation> {
        Some(match method {
            "increment" => Calculation::Add,
            "decrement" => Calculation::Subtract,
            "multiply" => Calculation::Multiply,
            "divide" => Calculation::Divide,
            "modulo" => Calculation::Modulo,
            "power" => Calculation::Power,
            _ => return None,
        })
    }

    fn bounds_below(self) -> bool {
        matches!(self, Calculation::Subtract | Calculation::Divide)
    }

    fn divides(self) -> bool {
        matches!(self, Calculation::Divide | Calculation::Modulo)
    }
}

impl OperatorInput<'_> {
    pub(super) fn arithmetic(&self, calculation: Calculation) -> Result<Arithmetic, ModelError> {
        let storage = self.column.kind.storage();
        if self.column.array || !matches!(storage, Storage::Int | Storage::Float) {
            return Err(self.refuse("needs a column that holds a number"));
        }
        let operand = match (self.values.first(), calculation) {
            // What the clients fill in where the caller names none.
            (None, Calculation::Add | Calculation::Subtract) => &Json::Int(1),
            (None, _) => return Err(self.refuse("needs a number")),
            (Some(json), _) => json,
        };
        let operand = number(operand, storage).ok_or_else(|| self.not_a_number())?;
        let is_zero = operand == Value::Int(0) || operand == Value::Float(0.0);
        if calculation.divides() && is_zero {
            return Err(self.refuse("cannot divide by 0"));
        }
        let is_negative = matches!(operand, Value::Int(n) if n < 0);
        if calculation == Calculation::Power && is_negative {
            return Err(self.refuse("needs an exponent of 0 or more for an integer column"));
        }
        let bound = match self.values.get(1) {
            Some(_) if calculation == Calculation::Modulo => None,
            None | Some(Json::Null) => None,
            // Beyond what an integer column can hold: it bounds as its greatest value does.
            Some(Json::Wide(_)) if storage == Storage::Int => Some(Value::Int(i64::MAX)),
            Some(json) => Some(number(json, storage).ok_or_else(|| self.not_a_number())?),
        };
        Ok(Arithmetic {
            calculation,
            operand,
            bound,
            beyond: Beyond::Saturate,
        })
    }

    fn not_a_number(&self) -> ModelError {
        let what = match self.column.kind.storage() {
            Storage::Int => "64-bit integers",
            _ => "numbers",
        };
        self.refuse(format_args!("needs {what} as its values"))
    }
}

/// A number of the column's own type. Some clients write whole numbers with a fraction of zero.
fn number(json: &Json, storage: Storage) -> Option<Value> {
    match (storage, json) {
        (Storage::Int, Json::Int(n)) => Some(Value::Int(*n)),
        (Storage::Int, Json::Float(x)) if x.fract() == 0.0 && x.abs() <= EXACT_FLOAT_MAX => {
            Some(Value::Int(*x as i64))
        }
        (Storage::Float, Json::Int(_) | Json::Wide(_) | Json::Float(_)) => {
            Some(Value::Float(as_float(json)))
        }
        _ => None,
    }
}

impl Arithmetic {
    pub(super) fn apply(&self, column: &Column, current: &Value) -> Result<Value, ModelError> {
        match (&self.operand, current) {
            (Value::Int(operand), Value::Int(n)) => self.integer(column, *n, *operand),
            (Value::Int(operand), Value::Null) => self.integer(column, 0, *operand),
            (Value::Float(operand), Value::Float(x)) => self.float(column, *x, *operand),
            (Value::Float(operand), Value::Null) => self.float(column, 0.0, *operand),
            (operand, current) => {
                unreachable!("an operand of the column's type: {operand:?}, {current:?}")
            }
        }
    }

    fn integer(&self, column: &Column, n: i64, operand: i64) -> Result<Value, ModelError> {
        let (wide, by) = (i128::from(n), i128::from(operand));
        let mut result = match self.calculation {
            Calculation::Add => wide + by,
            Calculation::Subtract => wide - by,
            Calculation::Multiply => wide * by,
            Calculation::Divide => wide / by,
            Calculation::Modulo => wide % by,
            Calculation::Power => power(wide, by),
        };
        if let Some(Value::Int(bound)) = self.bound {
            result = self.bounded(column, result, i128::from(bound))?;
        }
        match i64::try_from(result) {
            Ok(result) => column.check_single(&Json::Int(result)),
            Err(_) => Err(column.refuse("the result is beyond 64 bits".into())),
        }
    }

    fn float(&self, column: &Column, x: f64, operand: f64) -> Result<Value, ModelError> {
        let mut result = match self.calculation {
            Calculation::Add => x + operand,
            Calculation::Subtract => x - operand,
            Calculation::Multiply => x * operand,
            Calculation::Divide => x / operand,
            Calculation::Modulo => x % operand,
            Calculation::Power => x.powf(operand),
        };
        if let Some(Value::Float(bound)) = self.bound
            && !result.is_nan()
        {
            result = self.bounded(column, result, bound)?;
        }
        if !result.is_finite() {
            return Err(column.refuse("the result is no finite number".into()));
        }
        column.check_single(&Json::Float(result))
    }

    fn bounded<T: PartialOrd + std::fmt::Display>(
        &self,
        column: &Column,
        result: T,
        bound: T,
    ) -> Result<T, ModelError> {
        let is_below = self.calculation.bounds_below();
        let passes = if is_below {
            result < bound
        } else {
            result > bound
        };
        match self.beyond {
            _ if !passes => Ok(result),
            Beyond::Saturate => Ok(bound),
            Beyond::Refuse => Err(ModelError::BoundExceeded {
                column: column.key.to_string(),
                bound: bound.to_string(),
                is_below,
            }),
        }
    }
}

/// Exact where 128 bits hold it, else their end on the result's side of zero.
fn power(n: i128, exponent: i128) -> i128 {
    if (-1..=1).contains(&n) {
        let even = exponent % 2 == 0;
        return match n {
            0 => i128::from(exponent == 0),
            -1 if even => 1,
            other => other,
        };
    }
    let exact = u32::try_from(exponent)
        .ok()
        .and_then(|exponent| n.checked_pow(exponent));
    exact.unwrap_or(if n < 0 && exponent % 2 != 0 {
        i128::MIN
    } else {
        i128::MAX
    })
}
