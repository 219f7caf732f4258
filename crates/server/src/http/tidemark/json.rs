//! Times and values between JSON and the model.

use engine::instant;
use model::{Content, Json, Mark, Period, Row, Table, Timestamp, Value};
use serde_json::{Map, Value as Out, json};

use crate::http::error::ApiError;
use crate::http::fields::Fields;

/// A member that holds an instant; `None` when it is absent or null.
pub fn time(fields: &mut Fields, name: &'static str) -> Result<Option<Timestamp>, ApiError> {
    let Some(json) = fields.take(name) else {
        return Ok(None);
    };
    let wanted = "microseconds since 1970, or a date and time";
    let at = instant(&json).ok_or_else(|| fields.refuse(name, wanted, &json))?;
    Ok(Some(at))
}

/// A member that holds a mark; `None` when it is absent or null.
pub fn mark(fields: &mut Fields, name: &'static str) -> Result<Option<Mark>, ApiError> {
    Ok(time(fields, name)?.map(|at| Mark(at.0)))
}

/// A member `[from, to]`, the latter null for no end.
pub(super) fn period(fields: &mut Fields, name: &'static str) -> Result<Period, ApiError> {
    let ends = fields.list(name)?.ok_or_else(|| ApiError::missing(name))?;
    let wrong = || ApiError::invalid(name, "Value must be two times, or a time and null.");
    let [from, to] = ends.as_slice() else {
        return Err(wrong());
    };
    let to = match to {
        Json::Null => None,
        to => Some(instant(to).ok_or_else(wrong)?),
    };
    Ok(Period::new(instant(from).ok_or_else(wrong)?, to)?)
}

/// Where a period begins, as answers show it.
pub(super) fn from(at: Timestamp) -> Out {
    match at {
        Timestamp::BOT => json!("min"),
        Timestamp(us) => json!(us),
    }
}

pub(super) fn to(period: &Period) -> Out {
    period.to().map_or(Out::Null, |to| json!(to.0))
}

/// The columns of a row that have a value, but those that hold links: they are read by the ordinary
/// calls.
pub(super) fn doc(table: &Table, row: &Row) -> Out {
    let Content::Values(values) = &row.content else {
        unreachable!("pieces are read by their columns");
    };
    let columns = table.columns.iter().zip(values);
    let members =
        columns.filter(|(column, value)| **value != Value::Null && column.relation().is_none());
    let members = members.map(|(column, value)| (column.key.to_string(), value_of(value)));
    Out::Object(members.collect::<Map<_, _>>())
}

fn value_of(value: &Value) -> Out {
    match value {
        Value::Null => Out::Null,
        Value::Bool(truth) => json!(truth),
        Value::Int(number) => json!(number),
        Value::Float(number) => json!(number),
        Value::Text(text) => json!(text),
        Value::Instant(at) => json!(model::calendar::iso_ms(*at)),
        Value::List(elements) => elements.iter().map(value_of).collect(),
    }
}

/// What a client sent, to be stored as it is.
pub(super) fn sent(json: &Json) -> Out {
    match json {
        Json::Null => Out::Null,
        Json::Bool(truth) => json!(truth),
        Json::Int(number) => json!(number),
        Json::Wide(number) => json!(number),
        Json::Float(number) => json!(number),
        Json::Text(text) => json!(text),
        Json::List(elements) => elements.iter().map(sent).collect(),
        Json::Object(members) => {
            let members = members.iter().map(|(key, json)| (key.clone(), sent(json)));
            Out::Object(members.collect())
        }
    }
}
