//! Rows that are brought in, as lines of an export hold them.

use std::collections::HashMap;

use engine::{Caller, Engine, Place, RowInput, read_json};
use model::{Json, RowId};
use server::http::wire;

use super::refusal;
use crate::links::HIDDEN;
use crate::port_request::RowsPut;
use crate::refusal::Refusal;

/// Ids of one look-up; a query holds at most 500 values.
const IDS_MAX: usize = 500;

/// Writes rows without their links: those that are absent all or none, those that differ one by
/// one.
pub async fn put(
    engine: &Engine,
    caller: &Caller,
    place: Place<'_>,
    rows: &[u8],
    may_exist: bool,
) -> Result<RowsPut, Refusal> {
    let mut wanted = Vec::new();
    for line in lines(rows) {
        wanted.push((row(line)?, line));
    }
    let mut put = RowsPut::default();
    if may_exist {
        let known = known_rows(engine, caller, place, &wanted).await?;
        let mut absent = Vec::new();
        for (row, line) in wanted {
            match known.get(row.id.as_str()) {
                None => absent.push((row, line)),
                Some(content) if content == line => put.same += 1,
                Some(_) => {
                    let changed = engine.upsert_row(caller, place, row, None).await;
                    changed.map_err(refusal)?;
                    put.changed += 1;
                }
            }
        }
        wanted = absent;
    }
    put.created = wanted.len() as u64;
    if !wanted.is_empty() {
        let rows = wanted.into_iter().map(|(row, _)| row).collect();
        let created = engine.import_rows(caller, place, rows).await;
        created.map_err(refusal)?;
    }
    Ok(put)
}

/// The content of those rows that exist, by id, as an export writes it, without links.
async fn known_rows(
    engine: &Engine,
    caller: &Caller,
    place: Place<'_>,
    wanted: &[(RowInput, &[u8])],
) -> Result<HashMap<String, Vec<u8>>, Refusal> {
    let mut known = HashMap::new();
    for some in wanted.chunks(IDS_MAX) {
        let ids: Vec<RowId> = some.iter().map(|(row, _)| row.id.clone()).collect();
        let page = engine
            .rows_by_id(caller, place, &ids)
            .await
            .map_err(refusal)?;
        for row in &page.rows {
            let mut content = Vec::new();
            wire::encode_export_row(&page, row, false, &mut content);
            known.insert(row.id.to_string(), content);
        }
    }
    Ok(known)
}

/// The lines that hold something.
pub fn lines(rows: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = rows.split(|byte| *byte == b'\n');
    lines.filter(|line| !line.is_empty())
}

/// A row as a line of an export holds it.
fn row(line: &[u8]) -> Result<RowInput, Refusal> {
    let (id, mut members) = object(line)?;
    // What is left of them here leads to no row of this database.
    members.retain(|(name, _)| name != HIDDEN);
    Ok(RowInput {
        id,
        members,
        permissions: None,
    })
}

/// An object with the id of a row in it.
pub fn object(line: &[u8]) -> Result<(RowId, Vec<(String, Json)>), Refusal> {
    let json = read_json(line).map_err(|error| Refusal::bad(format!("No JSON: {error}.")))?;
    let Json::Object(members) = json else {
        return Err(Refusal::bad("A row is an object."));
    };
    let id = members.iter().find(|(name, _)| name == "$id");
    let id = id
        .and_then(|(_, id)| id.as_str())
        .ok_or_else(|| Refusal::bad("The row has no `$id`."))?;
    let id = RowId::new(id).map_err(|error| Refusal::bad(error.to_string()))?;
    Ok((id, members))
}
