//! Times and metadata between JSON and the model.

use model::{Json, Mark, Period, Timestamp};

use crate::http::input::fields::Fields;
use crate::http::wire::error::ApiError;
use crate::http::wire::{SentJson, WrittenJson, written};

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

/// Metadata as it was sent.
pub(super) fn meta(text: Option<&str>) -> WrittenJson {
    let json = text.and_then(|text| engine::read_json(text.as_bytes()).ok());
    written(&json.as_ref().map(SentJson))
}
