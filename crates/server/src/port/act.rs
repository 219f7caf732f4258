//! The store's end: what an export or import asks, done with the engine.

use std::collections::HashMap;
use std::sync::Arc;

use engine::{
    Caller, Engine, EngineError, ExportPage, LinkColumn, Place, RowInput, RowLinks, read_json,
};
use hyper::StatusCode;
use model::{
    Actor, Database, DatabaseId, DatabaseKind, Json, KeyId, Mark, ProjectId, RowId, Scope, Table,
};
use serde_json::{Value, json};

use super::ask::{Ask, PageEnd, PartPut, RowsPut, Start, StartTable, TablePath, TablePut, Told};
use super::definition;
use super::links::HIDDEN;
use super::schema::Part;
use crate::admin::act::Refusal;
use crate::http::wire;

/// Who a commit's record names as its author.
const AUTHOR: &str = "admin";
/// Ids of one look-up; a query holds at most 500 values.
const IDS_MAX: usize = 500;

/// Does one step.
///
/// # Errors
/// When it makes no sense, or the engine refuses; 5xx where trying again may help.
pub async fn perform(engine: &Engine, ask: Ask, rows: &[u8]) -> Result<Told, Refusal> {
    let head = match ask {
        Ask::BeginExport { project, database } => {
            json!(begin(engine, &administrator(&project)?, &database).await?)
        }
        Ask::ExportPage {
            path,
            mark,
            schema,
            after,
            rows_max,
        } => {
            let wanted = ExportPage {
                place: place(&path),
                mark: Mark(mark),
                after,
                rows_max,
            };
            return page(engine, &administrator(&path.project)?, wanted, &schema).await;
        }
        Ask::DescribeTable { path } => {
            let caller = administrator(&path.project)?;
            let table = engine.get_table(&caller, place(&path)).map_err(refusal)?;
            describe(&table)
        }
        Ask::PutDatabase {
            project,
            database,
            name,
            may_exist,
        } => put_database(engine, &project, &database, name, may_exist).await?,
        Ask::PutTable {
            project,
            database,
            definition,
            may_exist,
            may_have_more,
        } => {
            let caller = administrator(&project)?;
            let known = may_exist.then_some(may_have_more);
            json!(put_table(engine, &caller, &database, definition, known).await?)
        }
        Ask::PutPart {
            path,
            part,
            may_exist,
        } => {
            let caller = administrator(&path.project)?;
            json!(put_part(engine, &caller, place(&path), part, may_exist).await?)
        }
        Ask::PutLinks { path } => {
            let caller = administrator(&path.project)?;
            let links = lines(rows).map(links).collect::<Result<Vec<_>, _>>()?;
            let put = engine.bring_links(&caller, place(&path), links).await;
            put.map_err(refusal)?;
            Value::Null
        }
        Ask::PutRows { path, may_exist } => {
            let caller = administrator(&path.project)?;
            json!(put_rows(engine, &caller, place(&path), rows, may_exist).await?)
        }
        Ask::EnableDatabase {
            project,
            database,
            enabled,
        } => {
            let caller = administrator(&project)?;
            let known = engine.get_database(&caller, &database).map_err(refusal)?;
            if known.enabled != enabled {
                let changed = engine.update_database(&caller, &database, None, Some(enabled));
                changed.await.map_err(refusal)?;
            }
            Value::Null
        }
    };
    Ok(Told {
        head,
        rows: Vec::new(),
    })
}

/// Whoever may open the data directory may do everything in it.
fn administrator(project: &str) -> Result<Caller, Refusal> {
    Ok(Caller {
        project: ProjectId::new(project).map_err(|error| Refusal::bad(error.to_string()))?,
        actor: Actor::Key {
            id: KeyId::new(AUTHOR).expect("the constant follows the rule"),
            scopes: Scope::ALL.into(),
        },
    })
}

fn place(path: &TablePath) -> Place<'_> {
    Place {
        database: &path.database,
        table: &path.table,
    }
}

fn refusal(error: EngineError) -> Refusal {
    use EngineError as E;
    let status = match &error {
        E::Store(_) | E::Overloaded | E::Closing | E::Timeout { .. } => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        E::ClockImplausible { .. } => StatusCode::SERVICE_UNAVAILABLE,
        E::ProjectNotFound(_) | E::DatabaseNotFound(_) | E::TableNotFound(_) => {
            StatusCode::NOT_FOUND
        }
        E::DatabaseExists | E::TableExists | E::RowExists(_) | E::UniqueViolation { .. } => {
            StatusCode::CONFLICT
        }
        _ => StatusCode::BAD_REQUEST,
    };
    let message = match &error {
        E::ProjectNotFound(id) => format!(
            "{error} `tidemark project list` shows those there are, `tidemark project create {id}` \
             makes it."
        ),
        _ => error.to_string(),
    };
    Refusal { status, message }
}

fn describe_wire(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("answers are JSON")
}

fn describe(table: &Table) -> Value {
    let words = wire::words(engine::Family::Tables);
    definition::table(&describe_wire(&wire::table(table, words)))
}

/// Names a table and its schema: another one after it means that either changed.
fn schema(table: &Table) -> String {
    format!("{}.{}", table.number.0, table.schema_epoch)
}

async fn begin(engine: &Engine, caller: &Caller, database: &str) -> Result<Start, Refusal> {
    let start = engine
        .begin_export(caller, database)
        .await
        .map_err(refusal)?;
    let mut tables: Vec<&Arc<Table>> = start.database.tables.values().collect();
    tables.sort_by_key(|table| table.number);
    let table = |table: &&Arc<Table>| StartTable {
        definition: describe(table),
        schema: schema(table),
    };
    Ok(Start {
        mark: start.mark.0,
        database: definition::database(&describe_wire(&wire::database(&start.database))),
        tables: tables.iter().map(table).collect(),
    })
}

async fn page(
    engine: &Engine,
    caller: &Caller,
    wanted: ExportPage<'_>,
    expected: &str,
) -> Result<Told, Refusal> {
    let page = engine.export_page(caller, wanted).await.map_err(refusal)?;
    if schema(&page.table) != expected {
        return Err(Refusal {
            status: StatusCode::CONFLICT,
            message: format!(
                "The schema of table `{}` changed during the export. Export again.",
                page.table.id
            ),
        });
    }
    let mut rows = Vec::new();
    for row in &page.rows {
        wire::encode_export_row(&page, row, true, &mut rows);
        rows.push(b'\n');
    }
    let end = PageEnd {
        rows: page.rows.len() as u64,
        last: page.rows.last().map_or(wanted.after, |row| row.seq),
    };
    let head = json!(end);
    Ok(Told { head, rows })
}

async fn put_database(
    engine: &Engine,
    project: &str,
    id: &str,
    name: String,
    may_exist: bool,
) -> Result<Value, Refusal> {
    let caller = administrator(project)?;
    let checked = DatabaseId::new(id).map_err(|error| Refusal::bad(error.to_string()))?;
    if may_exist && exists(engine.get_database(&caller, id))?.is_some() {
        return Ok(Value::Bool(false));
    }
    let made = engine.create_database(&caller, checked, name, false, DatabaseKind::Tablesdb);
    let made: Result<Arc<Database>, EngineError> = made.await;
    made.map_err(refusal)?;
    Ok(Value::Bool(true))
}

fn exists<T>(found: Result<T, EngineError>) -> Result<Option<T>, Refusal> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(EngineError::DatabaseNotFound(_) | EngineError::TableNotFound(_)) => Ok(None),
        Err(error) => Err(refusal(error)),
    }
}

async fn put_table(
    engine: &Engine,
    caller: &Caller,
    database: &str,
    mut wanted: Value,
    may_have_more: Option<bool>,
) -> Result<TablePut, Refusal> {
    let mut put = TablePut::default();
    let new = definition::new_table(&wanted)?;
    let place = Place {
        database,
        table: new.id.as_str(),
    };
    if let Some(more) = may_have_more
        && let Some(table) = exists(engine.get_table(caller, place))?
    {
        let mut there = definition::shapes(&describe(&table));
        let wanted = definition::shapes(&wanted);
        if more {
            there.truncate(wanted.len());
        }
        return if there == wanted {
            Ok(put)
        } else {
            Err(conflict(format!(
                "Table `{}` exists with other columns.",
                new.id
            )))
        };
    }
    match engine.create_table(caller, database, new.clone()).await {
        Err(EngineError::Unsupported(_)) => {
            // Search indexes answer queries, not rows: a copy without them is a whole copy.
            put.left_out.extend(definition::without_search(&mut wanted));
            let new = definition::new_table(&wanted)?;
            let made = engine.create_table(caller, database, new).await;
            made.map_err(refusal)?;
        }
        made => drop(made.map_err(refusal)?),
    }
    put.created = true;
    Ok(put)
}

fn conflict(message: String) -> Refusal {
    Refusal {
        status: StatusCode::CONFLICT,
        message,
    }
}

/// Adds a column, a relationship or an index to a table.
async fn put_part(
    engine: &Engine,
    caller: &Caller,
    place: Place<'_>,
    part: Part,
    may_exist: bool,
) -> Result<PartPut, Refusal> {
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
        // Search indexes answer queries, not rows: a copy without them is a whole copy.
        Err(EngineError::Unsupported(_)) if matches!(part, Part::Index(_)) => {
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

async fn put_rows(
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
        let created = engine.bring_rows(caller, place, rows).await;
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

fn lines(rows: &[u8]) -> impl Iterator<Item = &[u8]> {
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
fn object(line: &[u8]) -> Result<(RowId, Vec<(String, Json)>), Refusal> {
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

#[cfg(test)]
mod tests;
