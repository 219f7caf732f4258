//! A member of an entry, to and from the value that is stored.

use model::Column;
use rusqlite::types::{Value as Stored, ValueRef};
use serde_json::{Number, Value as Json};

use super::fault::{HistoryFault, HistoryMembers};
use crate::StoreError;
use crate::error::corrupt;
use crate::sqlite::disk::keys;
use crate::sqlite::schema::codec;
use crate::vault::{Place, Vault, hex};

/// Bytes of the digest of an API key's secret.
const DIGEST_BYTES: usize = 32;

/// What a member holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberShape {
    Int,
    /// A mark that was given.
    Mark,
    /// An integer; absent is the beginning of time.
    Start,
    /// An integer; absent is the end of time.
    End,
    Text,
    Bool,
    /// An integer or a double.
    Number,
    /// JSON, stored as its text.
    Json,
    /// Hexadecimal digits, stored as bytes.
    Digest,
    /// What a commit says of itself: a text, which may be stored sealed.
    Note,
}

/// A stored value as a member; `None` where it is left out.
pub(super) fn member(
    shape: MemberShape,
    stored: ValueRef<'_>,
    (vault, mark): (&Vault, i64),
) -> Result<Option<Json>, StoreError> {
    let wrong = || corrupt(format!("{shape:?} is stored as {}", stored.data_type()));
    Ok(Some(match (shape, stored) {
        (MemberShape::Start, ValueRef::Integer(i64::MIN))
        | (MemberShape::End, ValueRef::Integer(i64::MAX))
        | (_, ValueRef::Null) => return Ok(None),
        (MemberShape::Note, stored) => {
            return Ok(keys::open_text(vault, stored, Place::Note(mark))?.map(Json::from));
        }
        (MemberShape::Bool, ValueRef::Integer(truth)) => (truth != 0).into(),
        (
            MemberShape::Int
            | MemberShape::Mark
            | MemberShape::Start
            | MemberShape::End
            | MemberShape::Number,
            ValueRef::Integer(number),
        ) => number.into(),
        (MemberShape::Number, ValueRef::Real(number)) => {
            Number::from_f64(number).ok_or_else(wrong)?.into()
        }
        (MemberShape::Text, ValueRef::Text(text)) => {
            std::str::from_utf8(text).map_err(|_| wrong())?.into()
        }
        (MemberShape::Json, ValueRef::Text(text)) => {
            serde_json::from_slice(text).map_err(|_| wrong())?
        }
        (MemberShape::Digest, ValueRef::Blob(bytes)) => hex(bytes).into(),
        _ => return Err(wrong()),
    }))
}

/// Takes a member out of an entry and says how it is stored. Marks are at most `mark`.
pub(super) fn take(
    members: &mut HistoryMembers,
    (name, shape, is_optional): (&str, MemberShape, bool),
    mark: i64,
) -> Result<Stored, HistoryFault> {
    let Some(member) = members.remove(name) else {
        return match shape {
            MemberShape::Start => Ok(Stored::Integer(i64::MIN)),
            MemberShape::End => Ok(Stored::Integer(i64::MAX)),
            _ if is_optional => Ok(Stored::Null),
            _ => Err(HistoryFault::entry(name, "is missing")),
        };
    };
    let wrong = |meant: &str| {
        let found = kind(&member);
        HistoryFault::entry(name, format!("is {found}; {meant} is meant"))
    };
    match shape {
        MemberShape::Int | MemberShape::Start | MemberShape::End => {
            let number = member.as_i64().ok_or_else(|| wrong("an integer"))?;
            Ok(Stored::Integer(number))
        }
        MemberShape::Mark => match member.as_i64() {
            Some(number) if (0..=mark).contains(&number) => Ok(Stored::Integer(number)),
            Some(number) => Err(HistoryFault::entry(
                name,
                format!("is {number}, and the store ends at mark {mark}"),
            )),
            None => Err(wrong("a mark")),
        },
        MemberShape::Bool => {
            let truth = member.as_bool().ok_or_else(|| wrong("true or false"))?;
            Ok(Stored::Integer(truth.into()))
        }
        MemberShape::Number => match (member.as_i64(), member.as_f64()) {
            (Some(number), _) => Ok(Stored::Integer(number)),
            (None, Some(number)) => Ok(Stored::Real(number)),
            (None, None) => Err(wrong("a number")),
        },
        MemberShape::Text | MemberShape::Note => match member {
            Json::String(text) => Ok(Stored::Text(text)),
            _ => Err(wrong("a text")),
        },
        MemberShape::Json => Ok(Stored::Text(member.to_string())),
        MemberShape::Digest => {
            let bytes = member.as_str().and_then(digest);
            Ok(Stored::Blob(bytes.ok_or_else(|| {
                wrong("a digest of 64 hexadecimal digits")
            })?))
        }
    }
}

fn digest(text: &str) -> Option<Vec<u8>> {
    let is_digest = text.len() == 2 * DIGEST_BYTES && text.bytes().all(|c| c.is_ascii_hexdigit());
    let at = |nth: usize| u8::from_str_radix(&text[2 * nth..2 * nth + 2], 16).ok();
    is_digest.then(|| (0..DIGEST_BYTES).filter_map(at).collect())
}

/// What kind of JSON value it is.
pub(super) fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(number) if number.is_f64() => "a double",
        Json::Number(_) => "an integer",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

/// A value of a column, by which it was exported.
pub(super) fn column_value(value: &Json, column: &Column) -> Option<model::Value> {
    if column.array {
        return codec::value(ValueRef::Text(value.to_string().as_bytes()), column).ok();
    }
    if let Json::String(text) = value {
        return codec::single(ValueRef::Text(text.as_bytes()), column.kind.storage());
    }
    // A number or a truth reads as the only element of a list does.
    let as_list = Column {
        array: true,
        ..column.clone()
    };
    let list = format!("[{value}]");
    match codec::value(ValueRef::Text(list.as_bytes()), &as_list) {
        Ok(model::Value::List(mut values)) if values.len() == 1 => values.pop(),
        _ => None,
    }
}
