//! Writing rows: what was sent is checked against today's schema, then committed.

use std::sync::Arc;

use model::calendar::parse_iso;
use model::{
    Action, Actor, Catalogue, Grantee, Json, Mark, Marked, ModelError, Page, Permission, RowId,
    Scope, Selection, Table, Timestamp, Value,
};
use store::{Applied, Op, Outcome, Refusal, RowAct, RowOp, Stamps, WriteBatch};

use crate::Engine;
use crate::asked::{Caller, Place, RowInput};
use crate::authorize;
use crate::commit::answer;
use crate::error::EngineError;
use crate::rows::ATTEMPTS_MAX;

const WRITE_ROWS: &[Scope] = &[Scope::RowsWrite];

/// Operators of the wire protocol (section 2.6): a string in row data whose JSON is an object
/// with one of these methods is an instruction, never content.
const OPERATORS: &[&str] = &[
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

impl Engine {
    /// Creates a row.
    ///
    /// # Errors
    /// [`EngineError::RowExists`], [`EngineError::UniqueViolation`], or what keeps the caller or
    /// the content out.
    pub async fn create_row(
        &self,
        caller: &Caller,
        place: Place<'_>,
        row: RowInput,
    ) -> Result<Marked<Page>, EngineError> {
        if row.members.is_empty() {
            return Err(EngineError::RowDataMissing);
        }
        self.write_rows(caller, place, |table| {
            Ok(vec![insert(
                table,
                &caller.actor,
                &row,
                PermissionsIn::Parameter,
            )?])
        })
        .await
    }

    /// Creates rows, all or none; for keys only. Grants come from each row's `$permissions`.
    ///
    /// # Errors
    /// As for [`Engine::create_row`].
    pub async fn create_rows(
        &self,
        caller: &Caller,
        place: Place<'_>,
        rows: Vec<RowInput>,
    ) -> Result<Marked<Page>, EngineError> {
        authorize::need_key(caller, WRITE_ROWS)?;
        self.write_rows(caller, place, |table| {
            let insert = |row| insert(table, &caller.actor, row, PermissionsIn::Content);
            rows.iter().map(insert).collect()
        })
        .await
    }

    /// Merges into an existing row.
    ///
    /// # Errors
    /// [`EngineError::PayloadMissing`] when nothing is set, [`EngineError::RowNotFound`], or
    /// what keeps the caller or the content out.
    pub async fn update_row(
        &self,
        caller: &Caller,
        place: Place<'_>,
        row: RowInput,
    ) -> Result<Marked<Page>, EngineError> {
        need_payload(&row)?;
        self.write_rows(caller, place, |table| {
            let content = Content::check(table, &caller.actor, &row, PermissionsIn::Parameter)?;
            let act = RowAct::Update {
                patch: content.patch,
                permissions: content.permissions,
                stamps: content.stamps,
                guard: authorize::guard(table, &caller.actor, Action::Update),
            };
            Ok(vec![RowOp {
                table: table.clone(),
                id: row.id.clone(),
                act,
            }])
        })
        .await
    }

    /// Merges into an existing row, or creates it.
    ///
    /// # Errors
    /// As for [`Engine::update_row`] if it exists, else as for [`Engine::create_row`].
    pub async fn upsert_row(
        &self,
        caller: &Caller,
        place: Place<'_>,
        row: RowInput,
    ) -> Result<Marked<Page>, EngineError> {
        need_payload(&row)?;
        self.write_rows(caller, place, |table| {
            Ok(vec![put(table, &caller.actor, &row)?])
        })
        .await
    }

    /// Deletes a row. Its history stays. Gives the mark of the commit.
    ///
    /// # Errors
    /// [`EngineError::RowNotFound`], or [`EngineError::Unauthorized`] if the row exists.
    pub async fn delete_row(
        &self,
        caller: &Caller,
        place: Place<'_>,
        id: RowId,
    ) -> Result<Mark, EngineError> {
        let page = self
            .write_rows(caller, place, |table| {
                let guard = authorize::guard(table, &caller.actor, Action::Delete);
                let act = RowAct::Delete { guard };
                Ok(vec![RowOp {
                    table: table.clone(),
                    id: id.clone(),
                    act,
                }])
            })
            .await?;
        Ok(page.mark)
    }

    /// Builds the operations under today's catalogue and commits them; again if the catalogue
    /// moved in between.
    async fn write_rows(
        &self,
        caller: &Caller,
        place: Place<'_>,
        build: impl Fn(&Arc<Table>) -> Result<Vec<RowOp>, EngineError>,
    ) -> Result<Marked<Page>, EngineError> {
        authorize::need_scope(caller, WRITE_ROWS)?;
        for _ in 0..ATTEMPTS_MAX {
            let seen = self.shared.marks.publications();
            let catalogue = self.catalogue();
            let table = authorize::table(&catalogue, caller, place)?;
            let ops = build(table)?;
            let batch = batch(&catalogue, caller, ops);
            match self.writer.commit(batch).await? {
                Outcome::Err(Refusal::CatalogueMoved) => {
                    self.shared.newer_catalogue(catalogue.epoch, seen).await;
                }
                outcome => return Ok(self.written(table, answer(outcome)?)),
            }
        }
        Err(EngineError::Overloaded)
    }

    fn written(&self, table: &Arc<Table>, applied: Applied) -> Marked<Page> {
        let mark = applied
            .mark
            .unwrap_or_else(|| self.shared.marks.published());
        let rows = applied.rows.into_iter().flatten().collect();
        let page = Page {
            table: table.clone(),
            selection: Selection::All,
            rows,
        };
        Marked { answer: page, mark }
    }
}

fn batch(catalogue: &Catalogue, caller: &Caller, ops: Vec<RowOp>) -> WriteBatch {
    WriteBatch {
        catalogue_epoch: catalogue.epoch,
        ops: ops.into_iter().map(Op::Row).collect(),
        author: author(&caller.actor),
    }
}

/// Who a commit's record names as its author.
pub(crate) fn author(actor: &Actor) -> Option<String> {
    match actor {
        Actor::Key { id, .. } => Some(format!("key:{id}")),
        Actor::Guest | Actor::User { .. } => None,
    }
}

fn need_payload(row: &RowInput) -> Result<(), EngineError> {
    if row.members.is_empty() && row.permissions.is_none() {
        return Err(EngineError::PayloadMissing);
    }
    Ok(())
}

/// Where the grants of a row are given; the other place is ignored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PermissionsIn {
    /// Beside `data`.
    Parameter,
    /// In `data`, under `$permissions`.
    Content,
    /// Beside `data`, or else in it.
    Either,
}

/// Row content after the check.
struct Content {
    patch: Vec<(usize, Value)>,
    permissions: Option<Vec<Permission>>,
    stamps: Stamps,
}

impl Content {
    fn check(
        table: &Table,
        actor: &Actor,
        row: &RowInput,
        permissions_in: PermissionsIn,
    ) -> Result<Content, EngineError> {
        let reserved = |(key, _): &&(String, Json)| key.starts_with('$');
        let (system, columns): (Vec<_>, Vec<_>) = row.members.iter().partition(reserved);
        let columns: Vec<(String, Json)> = columns.into_iter().cloned().collect();
        if let Some(method) = columns.iter().find_map(|(_, json)| operator(json)) {
            return Err(EngineError::Unsupported(format!("The operator `{method}`")));
        }
        let permissions = permissions(row, &system, permissions_in)?;
        if let Some(permissions) = &permissions {
            authorize::may_grant(actor, permissions)?;
        }
        Ok(Content {
            patch: table
                .check_patch(&columns)
                .map_err(EngineError::Structure)?,
            permissions,
            stamps: stamps(actor, &system)?,
        })
    }
}

fn insert(
    table: &Arc<Table>,
    actor: &Actor,
    row: &RowInput,
    permissions_in: PermissionsIn,
) -> Result<RowOp, EngineError> {
    if !authorize::may_create(table, actor) {
        return Err(EngineError::Unauthorized);
    }
    let content = Content::check(table, actor, row, permissions_in)?;
    let act = RowAct::Insert {
        values: table
            .complete(&content.patch)
            .map_err(EngineError::Structure)?,
        permissions: content.permissions.unwrap_or_default(),
        stamps: content.stamps,
    };
    Ok(RowOp {
        table: table.clone(),
        id: row.id.clone(),
        act,
    })
}

/// An upsert, with what an insertion would be or why there could be none: which of the two it
/// becomes is known only inside the transaction.
fn put(table: &Arc<Table>, actor: &Actor, row: &RowInput) -> Result<RowOp, EngineError> {
    let content = Content::check(table, actor, row, PermissionsIn::Either)?;
    let insert = if authorize::may_create(table, actor) {
        table
            .complete(&content.patch)
            .map_err(|error| Box::new(Refusal::Invalid(error)))
    } else {
        Err(Box::new(Refusal::RowForbidden(row.id.clone())))
    };
    let act = RowAct::Put {
        insert,
        patch: content.patch,
        insert_permissions: content.permissions.clone().unwrap_or_default(),
        permissions: content.permissions,
        stamps: content.stamps,
        guard: authorize::guard(table, actor, Action::Update),
    };
    Ok(RowOp {
        table: table.clone(),
        id: row.id.clone(),
        act,
    })
}

/// The method, if the value is an operator.
fn operator(json: &Json) -> Option<&'static str> {
    let text = json.as_str()?;
    // Nearly every text is none; look before parsing it as JSON.
    if !(text.starts_with('{') && text.contains("\"method\"")) {
        return None;
    }
    let operator = query::json::read(text.as_bytes()).ok()?;
    let method = operator.get("method")?.as_str()?;
    OPERATORS.iter().find(|known| **known == method).copied()
}

fn permissions(
    row: &RowInput,
    system: &[&(String, Json)],
    permissions_in: PermissionsIn,
) -> Result<Option<Vec<Permission>>, EngineError> {
    let invalid = |error: ModelError| EngineError::Argument {
        name: "permissions",
        why: error.to_string(),
    };
    if permissions_in != PermissionsIn::Content
        && let Some(texts) = &row.permissions
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
            "$id" | "$sequence" | "$databaseId" | "$tableId" | "$collectionId" | "$permissions" => {
                continue;
            }
            "$validFrom" | "$validTo" => {
                return Err(EngineError::Unsupported(format!("`{key}` in row data")));
            }
            other => {
                let key = other.chars().take(100).collect();
                return Err(EngineError::Structure(ModelError::UnknownColumn { key }));
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
        EngineError::Structure(ModelError::InvalidValue {
            column: key.to_owned(),
            why,
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_told_from_texts() {
        let text = |text: &str| Json::Text(text.to_owned());
        let increment = text(r#"{"method":"increment","values":[2,10]}"#);
        assert_eq!(operator(&increment), Some("increment"));
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
