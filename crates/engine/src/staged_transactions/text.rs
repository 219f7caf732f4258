//! Operations as the text in which they are kept on disk: JSON with names of our own. Members may
//! be added, none may change.

use model::{Actor, Json, KeyId, RowId, Scope, Timestamp};
use query::json;

use crate::request::inputs::{Caller, RowInput};
use crate::write::operation::{Act, Operation};

type Members = Vec<(String, Json)>;

/// An operation that was read back.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) operation: Operation,
    /// The key that staged it; none if it was not a key.
    pub(super) key: Option<KeyId>,
}

/// The text of an operation that `key` stages.
pub(super) fn write(operation: &Operation, key: Option<&KeyId>) -> String {
    let text = |text: &str| Json::Text(text.to_owned());
    let mut members: Members = vec![
        ("database".into(), text(&operation.database)),
        ("table".into(), text(&operation.table)),
    ];
    if let Some(key) = key {
        members.push(("key".into(), text(key.as_str())));
    }
    if let Some(since) = operation.unchanged_since {
        members.push(("since".into(), Json::Int(since.0)));
    }
    let (action, more) = act(&operation.act);
    members.push(("action".into(), text(action)));
    members.extend(more);
    Json::Object(members).to_string()
}

fn act(act: &Act) -> (&'static str, Members) {
    match act {
        Act::Create(row) => ("create", row_members(row)),
        Act::Update(row) => ("update", row_members(row)),
        Act::Upsert(row) => ("upsert", row_members(row)),
        Act::Delete(row) => ("delete", row_members(row)),
        Act::Increment {
            id,
            column,
            is_down,
            by,
            bound,
        } => {
            let mut members = vec![
                id_member(id),
                ("column".into(), Json::Text(column.clone())),
                ("down".into(), Json::Bool(*is_down)),
                ("by".into(), by.clone()),
            ];
            members.extend(bound.clone().map(|bound| ("bound".into(), bound)));
            ("increment", members)
        }
        Act::CreateMany(rows) => ("createMany", vec![rows_member(rows)]),
        Act::UpsertMany(rows) => ("upsertMany", vec![rows_member(rows)]),
        Act::UpdateMany { texts, members } => {
            let data = ("data".into(), Json::Object(members.clone()));
            ("updateMany", vec![texts_member("queries", texts), data])
        }
        Act::DeleteMany { texts, members } => {
            let data = ("data".into(), Json::Object(members.clone()));
            ("deleteMany", vec![texts_member("queries", texts), data])
        }
    }
}

fn id_member(id: &RowId) -> (String, Json) {
    ("row".into(), Json::Text(id.to_string()))
}

fn texts_member(name: &str, texts: &[String]) -> (String, Json) {
    let texts = texts.iter().cloned().map(Json::Text);
    (name.into(), Json::List(texts.collect()))
}

fn row_members(row: &RowInput) -> Members {
    let data = ("data".into(), Json::Object(row.members.clone()));
    let mut members = vec![id_member(&row.id), data];
    let permissions = row.permissions.as_deref();
    members.extend(permissions.map(|texts| texts_member("permissions", texts)));
    members
}

fn rows_member(rows: &[RowInput]) -> (String, Json) {
    let rows = rows.iter().map(|row| Json::Object(row_members(row)));
    ("rows".into(), Json::List(rows.collect()))
}

/// The operation of a text; `None` for one that [`write`] never wrote.
pub(super) fn read(text: &str) -> Option<Kept> {
    let json = json::read(text.as_bytes()).ok()?;
    let key = match json.get("key") {
        Some(key) => Some(KeyId::new(key.as_str()?).ok()?),
        None => None,
    };
    let unchanged_since = match json.get("since") {
        Some(Json::Int(since)) => Some(Timestamp(*since)),
        _ => None,
    };
    let operation = Operation {
        database: json.get("database")?.as_str()?.to_owned(),
        table: json.get("table")?.as_str()?.to_owned(),
        act: read_act(&json)?,
        unchanged_since,
    };
    Some(Kept { operation, key })
}

fn read_act(json: &Json) -> Option<Act> {
    Some(match json.get("action")?.as_str()? {
        "create" => Act::Create(read_row(json)?),
        "update" => Act::Update(read_row(json)?),
        "upsert" => Act::Upsert(read_row(json)?),
        "delete" => Act::Delete(RowInput {
            members: read_period(json)?,
            ..read_id(json)?.into()
        }),
        "increment" => Act::Increment {
            id: read_id(json)?,
            column: json.get("column")?.as_str()?.to_owned(),
            is_down: *json.get("down")? == Json::Bool(true),
            by: json.get("by")?.clone(),
            bound: json.get("bound").cloned(),
        },
        "createMany" => Act::CreateMany(read_rows(json)?),
        "upsertMany" => Act::UpsertMany(read_rows(json)?),
        "updateMany" => Act::UpdateMany {
            texts: read_texts(json, "queries")?,
            members: read_members(json)?,
        },
        "deleteMany" => Act::DeleteMany {
            texts: read_texts(json, "queries")?,
            members: read_period(json)?,
        },
        _ => return None,
    })
}

fn read_id(json: &Json) -> Option<RowId> {
    RowId::new(json.get("row")?.as_str()?).ok()
}

fn read_members(json: &Json) -> Option<Members> {
    match json.get("data")? {
        Json::Object(members) => Some(members.clone()),
        _ => None,
    }
}

/// What a deletion is over. Those that were staged by older versions have none.
fn read_period(json: &Json) -> Option<Members> {
    match json.get("data") {
        None => Some(Members::new()),
        Some(_) => read_members(json),
    }
}

fn read_texts(json: &Json, name: &str) -> Option<Vec<String>> {
    match json.get(name)? {
        Json::List(texts) => texts
            .iter()
            .map(|text| Some(text.as_str()?.to_owned()))
            .collect(),
        _ => None,
    }
}

fn read_row(json: &Json) -> Option<RowInput> {
    let permissions = match json.get("permissions") {
        Some(_) => Some(read_texts(json, "permissions")?),
        None => None,
    };
    Some(RowInput {
        id: read_id(json)?,
        members: read_members(json)?,
        permissions,
    })
}

fn read_rows(json: &Json) -> Option<Vec<RowInput>> {
    match json.get("rows")? {
        Json::List(rows) => rows.iter().map(read_row).collect(),
        _ => None,
    }
}

/// What a key must hold to write rows.
const SCOPES: &[Scope] = &[Scope::RowsRead, Scope::RowsWrite];

/// Who does an operation that was staged: what a key staged has the rights of keys, whichever
/// caller commits it; they were judged then.
pub(super) fn doer(caller: &Caller, kept: &Kept) -> Caller {
    match &kept.key {
        Some(key) => by_key(caller, key),
        None => caller.clone(),
    }
}

fn by_key(caller: &Caller, key: &KeyId) -> Caller {
    Caller {
        project: caller.project.clone(),
        actor: Actor::Key {
            id: key.clone(),
            scopes: SCOPES.into(),
        },
        request: None,
        meta: None,
        function: caller.function.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str) -> RowInput {
        RowInput {
            id: RowId::new(id).unwrap(),
            members: vec![
                ("n".into(), Json::Int(-5)),
                ("f".into(), Json::Float(1.0)),
                ("wide".into(), Json::Wide(u64::MAX)),
                ("s".into(), Json::Text("\"\\\n\u{7f}é😀".into())),
                ("list".into(), Json::List(vec![Json::Null])),
            ],
            permissions: Some(vec!["read(\"any\")".into()]),
        }
    }

    #[track_caller]
    fn check(act: Act) {
        let operation = Operation {
            database: "d".into(),
            table: "t".into(),
            act,
            unchanged_since: Some(Timestamp(7)),
        };
        let key = KeyId::new("k").unwrap();
        for key in [None, Some(&key)] {
            let text = write(&operation, key);
            let kept = read(&text).unwrap();
            assert_eq!(format!("{:?}", kept.operation), format!("{operation:?}"));
            assert_eq!(kept.key.as_ref(), key);
        }
    }

    #[test]
    fn stored_operations_equal_the_staged_ones() {
        check(Act::Create(row("a")));
        check(Act::Update(RowInput {
            permissions: None,
            ..row("a")
        }));
        check(Act::Upsert(row("a")));
        check(Act::Delete(RowId::new("a").unwrap().into()));
        for bound in [None, Some(Json::Float(0.5))] {
            check(Act::Increment {
                id: RowId::new("a").unwrap(),
                column: "n".into(),
                is_down: bound.is_some(),
                by: Json::Int(1),
                bound,
            });
        }
        check(Act::CreateMany(vec![row("a"), row("b")]));
        check(Act::UpsertMany(vec![]));
        check(Act::UpdateMany {
            texts: vec!["{}".into()],
            members: row("a").members,
        });
        check(Act::DeleteMany {
            texts: vec![],
            members: vec![("$validTo".into(), Json::Int(5))],
        });
    }

    #[test]
    fn other_texts_are_none() {
        for text in [
            "",
            "{}",
            "[]",
            r#"{"database":"d","table":"t","action":"x"}"#,
        ] {
            assert!(read(text).is_none(), "{text}");
        }
    }
}
