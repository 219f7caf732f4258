//! Counting a number in one column of one row up or down.

use model::operator::Beyond;
use model::{
    Edit, Json, Marked, ModelError, Operator, Page, Patch, RowId, Storage, Table, Timestamp,
};
use store::{Op, RowAct, RowOp, Stamps};

use crate::Engine;
use crate::error::{ColumnFault, EngineError, SchemaError, WriteError};
use crate::request::authorize;
use crate::request::inputs::{Caller, Place};

/// A column to count up or down.
#[derive(Clone, Debug)]
pub struct Increment<'a> {
    /// The row.
    pub id: RowId,
    /// The column's key.
    pub column: &'a str,
    /// Whether to count down.
    pub is_down: bool,
    /// By how much: a number above 0.
    pub by: Json,
    /// What may not be passed: the greatest value, or the least when counting down.
    pub bound: Option<Json>,
    /// A row that was changed after this is left alone.
    pub unchanged_since: Option<Timestamp>,
}

impl Engine {
    /// Adds to a number or subtracts from it, in one step that no other write comes between. A
    /// column without a value counts as 0.
    ///
    /// # Errors
    /// [`WriteError::ColumnNotFound`], [`WriteError::NotNumeric`], [`EngineError::Argument`];
    /// [`ColumnFault::LimitExceeded`] when the result would pass the bound or the column's own
    /// limits; [`crate::ReadError::RowNotFound`], or what keeps the caller out.
    pub async fn increment_row(
        &self,
        caller: &Caller,
        place: Place<'_>,
        request: &Increment<'_>,
    ) -> Result<Marked<Page>, EngineError> {
        let written = self.write_rows(caller, place, request.unchanged_since, |_, table| {
            let patch = patch(table, request)?;
            let act = RowAct::Update {
                guard: authorize::guard_patch(table, &caller.actor, &patch),
                patch,
                permissions: None,
                stamps: Stamps::default(),
            };
            Ok(vec![Op::Row(RowOp::now(
                table.clone(),
                request.id.clone(),
                act,
            ))])
        });
        written.await.map_err(|error| match error {
            EngineError::Write(WriteError::Structure(
                error @ (ModelError::BoundExceeded { .. } | ModelError::InvalidValue { .. }),
            )) => EngineError::Schema(SchemaError::Column(ColumnFault::LimitExceeded(
                error.to_string(),
            ))),
            other => other,
        })
    }
}

pub(crate) fn patch(table: &Table, request: &Increment<'_>) -> Result<Patch, EngineError> {
    let position = table
        .position(request.column)
        .ok_or_else(|| WriteError::ColumnNotFound(request.column.chars().take(100).collect()))?;
    let column = &table.columns[position];
    if column.array || !matches!(column.kind.storage(), Storage::Int | Storage::Float) {
        return Err(WriteError::NotNumeric(column.key.to_string()).into());
    }
    let invalid = |name, why: &str| EngineError::Argument {
        name,
        why: why.to_owned(),
    };
    let is_positive = match request.by {
        Json::Int(n) => n > 0,
        Json::Float(x) => x > 0.0,
        Json::Wide(_) => true,
        _ => false,
    };
    if !is_positive {
        return Err(invalid("value", "Value must be a number above 0."));
    }
    let (method, bound_name) = if request.is_down {
        ("decrement", "min")
    } else {
        ("increment", "max")
    };
    let is_integer = column.kind.storage() == Storage::Int;
    if is_integer && is_beyond_integers(&request.by) {
        let got = request.by.shown_for_integer();
        return Err(invalid(
            "value",
            &format!("Value must be a 64-bit integer, got {got}."),
        ));
    }
    let read = |values: &[Json]| Operator::read(column, method, values);
    read(std::slice::from_ref(&request.by))
        .map_err(|_| invalid("value", "Value must be a number of the column's own type."))?;
    let mut values = vec![request.by.clone()];
    values.extend(request.bound.clone());
    let operator = read(&values).map_err(|_| {
        invalid(
            bound_name,
            "Value must be a number of the column's own type.",
        )
    })?;
    let Operator::Arithmetic(mut arithmetic) = operator else {
        unreachable!("both methods calculate");
    };
    arithmetic.beyond = Beyond::Refuse;
    let mut patch = Patch::default();
    patch.put(position, Edit::Operate(Operator::Arithmetic(arithmetic)));
    Ok(patch)
}

fn is_beyond_integers(json: &Json) -> bool {
    match json {
        Json::Wide(_) => true,
        Json::Float(number) => *number > i64::MAX as f64,
        _ => false,
    }
}
