//! Row content as sent, checked against a table: columns, grants, stamps.

use model::calendar::parse_iso;
use model::operator::METHODS;
use model::{
    Actor, Edit, Grantee, Json, ModelError, Operator, Patch, Permission, Table, Timestamp, Value,
};
use store::Stamps;

use crate::error::{EngineError, WriteError};
use crate::request::authorize;

/// Where the grants of a row are given; the other place is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PermissionsIn {
    /// Beside `data`.
    Parameter,
    /// In `data`, under `$permissions`.
    Content,
    /// Beside `data`, or else in it.
    Either,
}

/// Row content as sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent<'a> {
    /// The members of `data`, reserved keys (`$…`) included.
    pub(crate) members: &'a [(String, Json)],
    /// Permission strings beside `data`.
    pub(crate) permissions: Option<&'a [String]>,
    /// Where grants are looked for.
    pub(crate) permissions_in: PermissionsIn,
    /// Whether a text may be an operator. In the content of a new row it is what it says.
    pub(crate) may_operate: bool,
}

/// Row content after the check.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) patch: Patch,
    pub(crate) permissions: Option<Vec<Permission>>,
    pub(crate) stamps: Stamps,
}

impl Content {
    /// # Errors
    /// [`WriteError::Structure`] for what does not fit the table, [`EngineError::Argument`] for
    /// permissions that cannot be read, [`crate::AccessError::RoleNotHeld`].
    pub(crate) fn check(
        table: &Table,
        actor: &Actor,
        sent: Sent<'_>,
    ) -> Result<Content, EngineError> {
        let is_reserved = |(key, _): &&(String, Json)| key.starts_with('$');
        let (system, columns): (Vec<_>, Vec<_>) = sent.members.iter().partition(is_reserved);
        let permissions = permissions(sent, &system)?;
        if let Some(permissions) = &permissions {
            authorize::may_grant(actor, permissions)?;
        }
        let mut patch = Patch::default();
        for (key, json) in columns {
            let position = table.named(key).map_err(WriteError::Structure)?;
            let edit = edit(table, position, json, sent.may_operate);
            patch.put(position, edit.map_err(WriteError::Structure)?);
        }
        Ok(Content {
            patch,
            permissions,
            stamps: stamps(actor, &system)?,
        })
    }
}

fn edit(
    table: &Table,
    position: usize,
    json: &Json,
    may_operate: bool,
) -> Result<Edit, ModelError> {
    let column = &table.columns[position];
    match operator(json).filter(|_| may_operate) {
        Some((method, values)) => Operator::read(column, method, &values).map(Edit::Operate),
        None => column.check(json).map(Edit::Set),
    }
}

/// Method and values, if the text is an operator: JSON of an object with a known method (wire
/// protocol, section 2.6).
fn operator(json: &Json) -> Option<(&'static str, Vec<Json>)> {
    let text = json.as_str()?;
    // Nearly every text is none; look before parsing it as JSON.
    if !(text.starts_with('{') && text.contains("\"method\"")) {
        return None;
    }
    let operator = query::json::read(text.as_bytes()).ok()?;
    let method = operator.get("method")?.as_str()?;
    let method = METHODS.iter().find(|known| **known == method)?;
    let values = match operator.get("values") {
        Some(Json::List(values)) => values.clone(),
        Some(Json::Null) | None => Vec::new(),
        Some(single) => vec![single.clone()],
    };
    Some((method, values))
}

fn permissions(
    sent: Sent<'_>,
    system: &[&(String, Json)],
) -> Result<Option<Vec<Permission>>, EngineError> {
    let invalid = |error: ModelError| EngineError::Argument {
        name: "permissions",
        why: error.to_string(),
    };
    let permissions_in = sent.permissions_in;
    if permissions_in != PermissionsIn::Content
        && let Some(texts) = sent.permissions
    {
        let texts = texts.iter().map(String::as_str);
        return Grantee::Row.parse(texts).map(Some).map_err(invalid);
    }
    let content = system.iter().rev().find(|(key, _)| key == "$permissions");
    match content {
        Some((_, Json::List(list))) if permissions_in != PermissionsIn::Parameter => {
            let texts: Option<Vec<&str>> = list.iter().map(Json::as_str).collect();
            let texts = texts.ok_or_else(|| not_permissions("an array of other things"))?;
            Grantee::Row.parse(texts).map(Some).map_err(invalid)
        }
        Some((_, Json::Null)) | None => Ok(None),
        Some(_) if permissions_in == PermissionsIn::Parameter => Ok(None),
        Some((_, other)) => Err(not_permissions(other.kind())),
    }
}

fn not_permissions(kind: &str) -> EngineError {
    EngineError::Argument {
        name: "permissions",
        why: format!("expected an array of strings, got {kind}"),
    }
}

/// `$createdAt` and `$updatedAt`, which only keys may set; from others they are ignored.
fn stamps(actor: &Actor, system: &[&(String, Json)]) -> Result<Stamps, EngineError> {
    let mut stamps = Stamps::default();
    for (key, json) in system {
        let stamp = match key.as_str() {
            "$createdAt" => &mut stamps.created,
            "$updatedAt" => &mut stamps.updated,
            "$id" | "$sequence" | "$databaseId" | "$tableId" | "$collectionId" | "$permissions"
            // Read by `times::range`, or refused by who cannot heed it. The others say of a row
            // that was read where it stood: sent back with it, they mean nothing.
            | "$validFrom" | "$validTo" | "$systemFrom" | "$systemTo" | "$version" => {
                continue;
            }
            other => {
                let key = other.chars().take(100).collect();
                return Err(WriteError::Structure(ModelError::UnknownColumn { key }).into());
            }
        };
        if actor.bypasses_grants() {
            *stamp = stamp_of(key, json)?;
        }
    }
    Ok(stamps)
}

fn stamp_of(key: &str, json: &Json) -> Result<Option<Timestamp>, EngineError> {
    let invalid = |why: String| {
        EngineError::Write(WriteError::Structure(ModelError::InvalidValue {
            column: key.to_owned(),
            why,
        }))
    };
    match json {
        Json::Null => Ok(None),
        Json::Text(text) => parse_iso(text)
            .map(|instant| Some(instant.cut_to_ms()))
            .ok_or_else(|| invalid("expected a date and time such as 2026-01-31T10:00:00Z".into())),
        other => Err(invalid(format!(
            "expected a date and time as text, got {}",
            other.kind()
        ))),
    }
}

/// What columns are to hold, by their positions. Links are ids of rows here.
///
/// # Errors
/// [`WriteError::Structure`]; [`WriteError::Relationship`] for links that rows of another table
/// hold.
pub(crate) fn values(
    table: &Table,
    members: &[(String, Json)],
) -> Result<Vec<(usize, Value)>, EngineError> {
    let value = |(key, json): &(String, Json)| {
        let position = table.named(key).map_err(WriteError::Structure)?;
        let column = &table.columns[position];
        if column
            .relation()
            .is_some_and(|relation| !relation.holds_links())
        {
            return Err(WriteError::Relationship(format!(
                "Column `{key}`: rows of the other table hold its links. Ask of those."
            ))
            .into());
        }
        Ok((position, column.check(json).map_err(WriteError::Structure)?))
    };
    members.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_told_from_texts() {
        let text = |text: &str| Json::Text(text.to_owned());
        let increment = text(r#"{"method":"increment","values":[2,10]}"#);
        let values = vec![Json::Int(2), Json::Int(10)];
        assert_eq!(operator(&increment), Some(("increment", values)));
        let bare = text(r#"{"method":"toggle"}"#);
        assert_eq!(operator(&bare), Some(("toggle", vec![])));
        for content in [
            text("increment"),
            text(r#"{"method":"unknown"}"#),
            text(r#"{"method":"#),
            text(r#"{"attribute":"increment"}"#),
            Json::Int(1),
        ] {
            assert_eq!(operator(&content), None, "{content:?}");
        }
    }
}
