//! Times and values between JSON and the model.

use model::{Content, Json, Mark, Period, Row, Table, Timestamp, Value};
use serde_json::{Map, Value as Out, json};

use crate::http::input::fields::Fields;
use crate::http::wire::error::ApiError;

/// The clock of a step of a case file, which its player sends as a header, too.
pub(super) const CLOCK: &str = "clock";

/// A member that holds an instant; `None` when it is absent or null.
pub fn time(fields: &mut Fields, name: &'static str) -> Result<Option<Timestamp>, ApiError> {
    let Some(json) = fields.take(name) else {
        return Ok(None);
    };
    read(fields, name, &json).map(Some)
}

/// A member that holds a mark; `None` when it is absent or null.
pub fn mark(fields: &mut Fields, name: &'static str) -> Result<Option<Mark>, ApiError> {
    let Some(json) = fields.take(name) else {
        return Ok(None);
    };
    let mark = engine::mark(&json).map_err(|why| fields.wrong(name, &why))?;
    Ok(Some(mark))
}

/// A member `[from, to]`, the latter null for no end.
pub(super) fn period(fields: &mut Fields, name: &'static str) -> Result<Period, ApiError> {
    let ends = fields.list(name)?.ok_or_else(|| ApiError::missing(name))?;
    let [from, to] = ends.as_slice() else {
        return Err(fields.wrong(name, "expected two times, or a time and null"));
    };
    let to = match to {
        Json::Null => None,
        to => Some(read(fields, name, to)?),
    };
    Ok(Period::new(read(fields, name, from)?, to)?)
}

/// The instant that stands in the member `name`, or in a list there.
pub(super) fn read(
    fields: &Fields,
    name: &'static str,
    json: &Json,
) -> Result<Timestamp, ApiError> {
    engine::instant(json).map_err(|why| fields.wrong(name, &why))
}

/// The columns of a row that have a value. Of relationships those that the row itself holds are
/// shown, as ids.
pub(super) fn doc(table: &Table, row: &Row) -> Out {
    let Content::Values(values) = &row.content else {
        unreachable!("pieces are read by their columns");
    };
    let columns = table.columns.iter().zip(values);
    let members = columns.filter(|(column, value)| **value != Value::Null && !column.is_hidden());
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

/// Metadata as it was sent.
pub(super) fn meta(text: Option<&str>) -> Out {
    let json = text.and_then(|text| engine::read_json(text.as_bytes()).ok());
    json.map_or(Out::Null, |json| sent(&json))
}
