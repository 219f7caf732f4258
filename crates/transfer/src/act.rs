//! The store's end: what an export or import asks, done with the engine.

use std::sync::Arc;

use engine::{
    Caller, Engine, EngineError, ExportPage, IndexFault, Place, ReadError, SchemaError,
    Unavailable, WriteError,
};
use hyper::StatusCode;
use model::{Actor, Database, DatabaseId, DatabaseKind, KeyId, Mark, ProjectId, Scope, Table};
use serde_json::{Value, json};
use server::http::routes::native;
use server::http::wire::error::CLOCK_ADVICE;
use server::http::wire::{self, InstantForm};

use super::definition;
use super::port_request::{
    PageEnd, PortRequest, PortResponse, Start, StartTable, TablePath, TablePut,
};
use crate::refusal::Refusal;

/// Who a commit's record names as its author.
const AUTHOR: &str = "admin";

/// Does one step.
///
/// # Errors
/// When it makes no sense, or the engine refuses; 5xx where trying again may help.
pub async fn perform(
    engine: &Engine,
    request: PortRequest,
    rows: &[u8],
) -> Result<PortResponse, Refusal> {
    let head = match request {
        PortRequest::BeginExport { project, database } => {
            json!(begin(engine, &administrator(&project)?, &database).await?)
        }
        PortRequest::ExportPage {
            path,
            mark,
            schema,
            after,
            rows_max,
            leaves_out_damaged,
        } => {
            let wanted = ExportPage {
                place: place(&path),
                mark: Mark(mark),
                after,
                rows_max,
                shows_damaged: leaves_out_damaged,
            };
            return page(engine, &administrator(&path.project)?, wanted, &schema).await;
        }
        PortRequest::DescribeTable { path } => {
            let caller = administrator(&path.project)?;
            let table = engine.get_table(&caller, place(&path)).map_err(refusal)?;
            describe(&table)
        }
        PortRequest::PutDatabase {
            project,
            database,
            name,
            may_exist,
        } => put_database(engine, &project, &database, name, may_exist).await?,
        PortRequest::PutRows { path, may_exist } => {
            let caller = administrator(&path.project)?;
            json!(rows::put(engine, &caller, place(&path), rows, may_exist).await?)
        }
        PortRequest::PutLinks { path } => links::put(engine, &path, rows).await?,
        PortRequest::FreeLinks { path } => links::free(engine, &path, rows).await?,
        PortRequest::PutTable {
            project,
            database,
            definition,
            may_exist,
            may_have_more,
        } => {
            let known = may_exist.then_some(may_have_more);
            json!(put_table(engine, &project, &database, definition, known).await?)
        }
        PortRequest::PutPart {
            path,
            part,
            may_exist,
        } => json!(parts::put(engine, &path, part, may_exist).await?),
        PortRequest::RowHistory { path, row } => past::history(engine, &path, &row).await?,
        PortRequest::EraseRow { path, row } => past::erase(engine, &path, &row).await?,
        PortRequest::EnableDatabase {
            project,
            database,
            enabled,
        } => enable(engine, &project, &database, enabled).await?,
    };
    let rows = Vec::new();
    Ok(PortResponse { head, rows })
}

async fn enable(
    engine: &Engine,
    project: &str,
    database: &str,
    enabled: bool,
) -> Result<Value, Refusal> {
    let caller = administrator(project)?;
    let known = engine.get_database(&caller, database).map_err(refusal)?;
    if known.enabled != enabled {
        let changed = engine.update_database(&caller, database, None, Some(enabled));
        changed.await.map_err(refusal)?;
    }
    Ok(Value::Null)
}

/// A user that may open the data directory may do everything in it.
fn administrator(project: &str) -> Result<Caller, Refusal> {
    Ok(Caller {
        project: ProjectId::new(project).map_err(|error| Refusal::bad(error.to_string()))?,
        actor: Actor::Key {
            id: KeyId::new(AUTHOR).expect("the constant follows the rule"),
            scopes: Scope::ALL.into(),
        },
        request: None,
        meta: None,
        function: None,
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
        E::Store(_) | E::Unavailable(_) | E::Read(ReadError::Timeout { .. }) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        E::Schema(
            SchemaError::ProjectNotFound(_)
            | SchemaError::DatabaseNotFound(_)
            | SchemaError::TableNotFound(_),
        ) => StatusCode::NOT_FOUND,
        E::Schema(SchemaError::DatabaseExists | SchemaError::TableExists)
        | E::Write(WriteError::RowExists(_) | WriteError::UniqueViolation { .. }) => {
            StatusCode::CONFLICT
        }
        _ => StatusCode::BAD_REQUEST,
    };
    let message = match &error {
        E::Schema(SchemaError::ProjectNotFound(id)) => format!(
            "{error} `tidemark project list` shows those there are, `tidemark project create {id}` \
             makes it."
        ),
        E::Unavailable(Unavailable::ClockImplausible { .. }) => format!("{error} {CLOCK_ADVICE}"),
        _ => error.to_string(),
    };
    Refusal { status, message }
}

fn describe_wire(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("answers are JSON")
}

fn describe(table: &Table) -> Value {
    let words = wire::words(engine::Family::Tables);
    let mut described = definition::table(&describe_wire(&wire::table(table, words)));
    let options = native::options_shown(table.options, InstantForm::Iso);
    definition::add_options(&mut described, &describe_wire(&options));
    described
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
) -> Result<PortResponse, Refusal> {
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
    let (mut rows, mut damaged) = (Vec::new(), Vec::new());
    for row in &page.rows {
        let span = row.span.as_ref();
        if span.is_some_and(|span| !span.damaged.is_empty()) {
            damaged.push(row.id.to_string());
            continue;
        }
        wire::encode_export_row(&page, row, true, &mut rows);
        rows.push(b'\n');
    }
    let end = PageEnd {
        rows: page.rows.len() as u64,
        last: page.rows.last().map_or(wanted.after, |row| row.seq),
        damaged,
    };
    let head = json!(end);
    Ok(PortResponse { head, rows })
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
        Err(EngineError::Schema(
            SchemaError::DatabaseNotFound(_) | SchemaError::TableNotFound(_),
        )) => Ok(None),
        Err(error) => Err(refusal(error)),
    }
}

async fn put_table(
    engine: &Engine,
    project: &str,
    database: &str,
    mut wanted: Value,
    may_have_more: Option<bool>,
) -> Result<TablePut, Refusal> {
    let caller = &administrator(project)?;
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
    loop {
        let new = definition::new_table(&wanted)?;
        let (error, left_out) = match engine.create_table(caller, database, new).await {
            Ok(_) => break,
            // Search indexes answer queries, not rows: a copy without them is a whole copy.
            Err(error @ EngineError::Unsupported(_)) => {
                (error, definition::without_search(&mut wanted))
            }
            // Earlier versions made it, and so do servers that look at fewer characters.
            Err(EngineError::Schema(SchemaError::Index(IndexFault::TooLong { key, why }))) => {
                let left_out = definition::without_index(&mut wanted, &key);
                let error =
                    EngineError::Schema(SchemaError::Index(IndexFault::TooLong { key, why }));
                (error, left_out.into_iter().collect())
            }
            Err(error) => return Err(refusal(error)),
        };
        if left_out.is_empty() {
            return Err(refusal(error));
        }
        put.left_out.extend(left_out);
    }
    put.created = true;
    if let Some(change) = definition::options(&wanted) {
        let set = engine.set_table_options(caller, place, &change);
        set.await.map_err(refusal)?;
    }
    Ok(put)
}

fn conflict(message: String) -> Refusal {
    Refusal {
        status: StatusCode::CONFLICT,
        message,
    }
}

mod links;
mod parts;
mod past;
mod rows;
#[cfg(test)]
mod tests;
