//! Links of rows that are brought in, once the rows are there.

use engine::{Engine, LinkColumn, RowLinks};
use model::{Json, RowId};
use serde_json::Value;

use super::rows::{lines, object};
use super::{administrator, place, refusal};
use crate::links::HIDDEN;
use crate::port_request::TablePath;
use crate::refusal::Refusal;

/// Sets the links of rows, all or none.
pub async fn put(engine: &Engine, path: &TablePath, rows: &[u8]) -> Result<Value, Refusal> {
    let links = lines(rows).map(links).collect::<Result<Vec<_>, _>>()?;
    let caller = administrator(&path.project)?;
    let done = engine.import_links(&caller, place(path), links).await;
    done.map_err(refusal)?;
    Ok(Value::Null)
}

/// Takes links from one to one away from rows that hold others, all or none.
pub async fn free(engine: &Engine, path: &TablePath, rows: &[u8]) -> Result<Value, Refusal> {
    let links = lines(rows).map(links).collect::<Result<Vec<_>, _>>()?;
    let caller = administrator(&path.project)?;
    let done = engine.free_links(&caller, place(path), links).await;
    done.map_err(refusal)?;
    Ok(Value::Null)
}

/// The links of a row: by the keys of its own columns and, under `$links`, by table and key of
/// columns that only the other table shows.
fn links(line: &[u8]) -> Result<RowLinks, Refusal> {
    let (id, members) = object(line)?;
    let mut links = Vec::new();
    for (key, value) in members {
        match (key.as_str(), value) {
            ("$id", _) => {}
            (HIDDEN, value) => {
                for (parent, columns) in members_of(value)? {
                    for (key, value) in members_of(columns)? {
                        let ids = link_ids(&key, value)?;
                        let parent = parent.clone();
                        links.push((LinkColumn::Hidden { parent, key }, ids));
                    }
                }
            }
            (_, value) => {
                let ids = link_ids(&key, value)?;
                links.push((LinkColumn::Key(key), ids));
            }
        }
    }
    Ok(RowLinks { id, links })
}

fn members_of(json: Json) -> Result<Vec<(String, Json)>, Refusal> {
    match json {
        Json::Object(members) => Ok(members),
        _ => Err(Refusal::bad(format!(
            "`{HIDDEN}` is an object of tables, each an object of keys."
        ))),
    }
}

fn link_ids(key: &str, value: Json) -> Result<Vec<RowId>, Refusal> {
    let wrong = |why: String| Refusal::bad(format!("Column `{key}`: {why}."));
    let id = |json: &Json| {
        let text = json.as_str();
        let text = text.ok_or_else(|| wrong("a link is the id of a row".to_owned()))?;
        RowId::new(text).map_err(|error| wrong(error.to_string()))
    };
    match value {
        Json::Null => Ok(Vec::new()),
        Json::List(links) => links.iter().map(id).collect(),
        single => Ok(vec![id(&single)?]),
    }
}
