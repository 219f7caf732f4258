//! Columns, relationships and indexes that a table could not be created with.

use engine::{Caller, Engine, EngineError, IndexFault, Place, SchemaError};

use super::{administrator, conflict, describe, place, refusal};
use crate::definition;
use crate::port_request::{PartPut, TablePath};
use crate::refusal::Refusal;
use crate::schema::Part;

/// Adds a column, a relationship or an index to a table.
pub async fn put(
    engine: &Engine,
    path: &TablePath,
    part: Part,
    may_exist: bool,
) -> Result<PartPut, Refusal> {
    let (caller, place) = (&administrator(&path.project)?, place(path));
    let mut put = PartPut::default();
    let (Part::Column(wanted) | Part::Relationship(wanted) | Part::Index(wanted)) = &part;
    if may_exist && is_there(engine, caller, place, &part)? {
        return Ok(put);
    }
    let made = match &part {
        Part::Column(column) => {
            let new = definition::new_column(column);
            engine.create_column(caller, place, &new).await.map(drop)
        }
        Part::Relationship(column) => {
            let new = definition::new_relationship(column);
            let made = engine.create_relationship(caller, place, &new).await;
            made.map(drop)
        }
        Part::Index(index) => {
            let new = definition::new_index(index);
            engine.create_index(caller, place, &new).await.map(drop)
        }
    };
    match made {
        // Search indexes answer queries, not rows: a copy without them is a whole copy. Earlier
        // versions made longer ones.
        Err(
            EngineError::Unsupported(_)
            | EngineError::Schema(SchemaError::Index(IndexFault::TooLong { .. })),
        ) if matches!(part, Part::Index(_)) => {
            put.left_out
                .push(definition::named_index(place.table, wanted));
        }
        made => made.map_err(refusal)?,
    }
    Ok(put)
}

/// Whether a table has the part already.
fn is_there(
    engine: &Engine,
    caller: &Caller,
    place: Place<'_>,
    part: &Part,
) -> Result<bool, Refusal> {
    let table = engine.get_table(caller, place).map_err(refusal)?;
    let there = describe(&table);
    let (list, wanted) = match part {
        Part::Column(wanted) | Part::Relationship(wanted) => (&there["columns"], wanted),
        Part::Index(wanted) => (&there["indexes"], wanted),
    };
    let mut known = list.as_array().into_iter().flatten();
    let Some(known) = known.find(|known| known["key"] == wanted["key"]) else {
        return Ok(false);
    };
    let is_same = match part {
        Part::Column(_) | Part::Relationship(_) => {
            definition::shape(known) == definition::shape(wanted)
        }
        Part::Index(_) => known["type"] == wanted["type"] && known["columns"] == wanted["columns"],
    };
    if is_same {
        return Ok(true);
    }
    let key = definition::text(&wanted["key"]);
    Err(conflict(format!(
        "`{key}` of table `{}` exists and is another.",
        table.id
    )))
}
