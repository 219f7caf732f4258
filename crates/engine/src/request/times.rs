//! Ranges of valid time as row data writes them.

use model::history::{Range, Until};
use model::{Json, ModelError};
use query::instant;
use store::PeriodEnd;

/// The reserved keys of row data that say from when to when it is valid.
pub(crate) const VALID_FROM: &str = "$validFrom";
pub(crate) const VALID_TO: &str = "$validTo";

/// The range that row data asks for; `None` where it names no time.
///
/// # Errors
/// [`ModelError::InvalidValue`] for what is no instant.
pub(crate) fn range(members: &[(String, Json)]) -> Result<Option<Range>, ModelError> {
    let last = |key: &str| {
        let found = members.iter().rev().find(|(name, _)| name == key);
        found.map(|(_, json)| json)
    };
    let (from, to) = (last(VALID_FROM), last(VALID_TO));
    if from.is_none() && to.is_none() {
        return Ok(None);
    }
    let read = |key: &str, json: &Json| {
        instant(json).map_err(|why| ModelError::InvalidValue {
            column: key.to_owned(),
            why,
        })
    };
    let from = match from {
        None | Some(Json::Null) => None,
        Some(json) => Some(read(VALID_FROM, json)?),
    };
    let until = match to {
        None | Some(Json::Null) => Until::Open,
        Some(Json::Text(text)) if text == "next" => Until::Next,
        Some(json) => Until::At(read(VALID_TO, json)?),
    };
    Ok(Some(Range { from, until }))
}

/// Whether row data names a time and nothing to write.
pub(crate) fn are_alone(members: &[(String, Json)]) -> bool {
    let is_time = |key: &str| key == VALID_FROM || key == VALID_TO;
    // What a read answered beside the content says nothing when it is sent back.
    let is_content =
        |key: &str| !key.starts_with('$') || matches!(key, "$createdAt" | "$updatedAt");
    members.iter().any(|(key, _)| is_time(key)) && !members.iter().any(|(key, _)| is_content(key))
}

/// The one end of a row's time that row data without content moves.
///
/// # Errors
/// [`ModelError::InvalidValue`] for what is no instant, and where none or both are named.
pub(crate) fn moved_end(members: &[(String, Json)]) -> Result<PeriodEnd, ModelError> {
    let range = range(members)?.unwrap_or_default();
    let ends = members.iter().any(|(key, _)| key == VALID_TO);
    match (range.from, ends) {
        (Some(from), false) => Ok(PeriodEnd::From(from)),
        (None, true) => Ok(PeriodEnd::Until(range.until)),
        (from, _) => Err(ModelError::InvalidValue {
            column: VALID_FROM.to_owned(),
            why: match from {
                Some(_) => "both ends are named, and no content for the period: name one end to \
                            move it, or send content"
                    .to_owned(),
                None => "expected an instant to which the beginning moves, got null".to_owned(),
            },
        }),
    }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;

    use super::*;

    fn text(text: &str) -> Json {
        Json::Text(text.to_owned())
    }

    #[test]
    fn row_data_may_name_either_end_of_a_range() {
        let of = |members: &[(&str, Json)]| {
            let members = members.iter().map(|(k, v)| ((*k).to_owned(), v.clone()));
            range(&members.collect::<Vec<_>>())
        };
        assert_eq!(of(&[("n", Json::Int(1))]), Ok(None));
        let at = |from: Option<i64>, until| {
            let from = from.map(Timestamp);
            Ok(Some(Range { from, until }))
        };
        assert_eq!(
            of(&[("$validFrom", Json::Int(3))]),
            at(Some(3), Until::Open)
        );
        assert_eq!(of(&[("$validTo", text("next"))]), at(None, Until::Next));
        let both = [("$validFrom", text("min")), ("$validTo", Json::Int(9))];
        assert_eq!(of(&both), at(Some(i64::MIN), Until::At(Timestamp(9))));
        let null = [("$validFrom", Json::Null), ("$validTo", Json::Null)];
        assert_eq!(of(&null), at(None, Until::Open));
        assert!(of(&[("$validFrom", Json::Bool(true))]).is_err());
        assert!(of(&[("$validTo", text("min or so"))]).is_err());
        assert!(of(&[("$validTo", text("2026"))]).is_err());
    }
}
