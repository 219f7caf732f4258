//! Brings the steps of a plan to a server, one request each.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use client::{Access, Client};
use hyper::Method;
use serde_json::{Map, Value, json};

use super::file::{FileColumn, FileConstraints, FileIndex, FileTable};
use super::plan::{DatabaseStep, SchemaStep, TableStep};
use crate::definition::text;
use crate::remote::segment;

/// Between two looks at an index that is built.
const LOOK: Duration = Duration::from_millis(200);

/// One request.
#[derive(Debug, PartialEq)]
pub struct StepRequest {
    method: Method,
    route: String,
    body: Option<Value>,
}

/// Does the steps in their order, and waits until the indexes are built. `said` gets each step
/// before it is done.
///
/// # Errors
/// The server's refusal, with what was done before; an index that cannot be built.
pub async fn push(
    access: &Access,
    steps: &[SchemaStep],
    mut said: impl FnMut(&SchemaStep),
) -> Result<()> {
    let mut client = Client::connect(&access.endpoint).await?;
    for (done, step) in steps.iter().enumerate() {
        said(step);
        let StepRequest {
            method,
            route,
            body,
        } = request(step);
        let body = body.map(|body| body.to_string());
        let sent = client.call(access, method, &route, body).await;
        sent.and_then(|answer| answer.accepted(&step.to_string()))
            .with_context(|| {
                format!(
                    "{done} of {} changes are done. Run the same command again to do the rest",
                    steps.len()
                )
            })?;
    }
    for step in steps {
        for route in indexes_of(step) {
            wait_for_index(access, &mut client, &route).await?;
        }
    }
    Ok(())
}

/// The routes of the indexes that a step makes.
fn indexes_of(step: &SchemaStep) -> Vec<String> {
    match &step.change {
        DatabaseStep::CreateTable(table) => {
            let route = |index: &FileIndex| index_route(step, &table.id, &index.key);
            table.indexes.iter().map(route).collect()
        }
        DatabaseStep::Table {
            table,
            change: TableStep::AddIndex(index),
        } => vec![index_route(step, table, &index.key)],
        _ => Vec::new(),
    }
}

async fn wait_for_index(access: &Access, client: &mut Client, route: &str) -> Result<()> {
    loop {
        let answer = client.call(access, Method::GET, route, None).await?;
        let index = answer.accepted(&format!("reading {route}"))?;
        match text(&index["status"]) {
            "available" => return Ok(()),
            "failed" | "stuck" => bail!(
                "the index `{}` cannot be built: {}",
                text(&index["key"]),
                text(&index["error"])
            ),
            _ => tokio::time::sleep(LOOK).await,
        }
    }
}

fn table_route(step: &SchemaStep, table: &str) -> String {
    format!(
        "/tablesdb/{}/tables/{}",
        segment(&step.database),
        segment(table)
    )
}

fn index_route(step: &SchemaStep, table: &str, key: &str) -> String {
    format!("{}/indexes/{}", table_route(step, table), segment(key))
}

/// The request that does a step.
fn request(step: &SchemaStep) -> StepRequest {
    let database = segment(&step.database);
    let sent = |method, route, body| StepRequest {
        method,
        route,
        body: Some(body),
    };
    match &step.change {
        DatabaseStep::CreateDatabase(new) => sent(
            Method::POST,
            "/tablesdb".to_owned(),
            json!({"databaseId": new.id, "name": new.name, "enabled": new.enabled}),
        ),
        DatabaseStep::UpdateDatabase(after) => sent(
            Method::PUT,
            format!("/tablesdb/{database}"),
            json!({"name": after.name, "enabled": after.enabled}),
        ),
        DatabaseStep::CreateTable(table) => {
            let mut body = head(table);
            body["tableId"] = json!(table.id);
            body["columns"] = table
                .columns
                .iter()
                .map(|one| new_column(one, true))
                .collect();
            body["indexes"] = table.indexes.iter().map(new_index).collect();
            sent(Method::POST, format!("/tablesdb/{database}/tables"), body)
        }
        DatabaseStep::UpdateTable { after, .. } => {
            sent(Method::PUT, table_route(step, &after.id), head(after))
        }
        DatabaseStep::DeleteTable(table) => deleted(table_route(step, &table.id)),
        DatabaseStep::Table { table, change } => table_request(step, table, change),
    }
}

fn deleted(route: String) -> StepRequest {
    StepRequest {
        method: Method::DELETE,
        route,
        body: None,
    }
}

fn table_request(step: &SchemaStep, table: &str, change: &TableStep) -> StepRequest {
    let route = table_route(step, table);
    let own = format!(
        "/tidemark/databases/{}/tables/{}",
        segment(&step.database),
        segment(table)
    );
    let sent = |method, route, body| StepRequest {
        method,
        route,
        body: Some(body),
    };
    match change {
        TableStep::SetOptions(_, after) => sent(Method::PATCH, own + "/options", json!(after)),
        TableStep::SetConstraints(_, after) => {
            let FileConstraints { unique, refs } = after;
            sent(
                Method::PUT,
                own + "/constraints",
                json!({"unique": unique, "refs": refs}),
            )
        }
        TableStep::AddColumn(column) => {
            let route = format!("{route}/columns/{}", column.kind);
            sent(Method::POST, route, new_column(column, false))
        }
        TableStep::UpdateColumn(before, after) => updated(&route, before, after, None),
        TableStep::RenameColumn(column, to) => updated(&route, column, column, Some(to)),
        TableStep::DeleteColumn(column) => {
            deleted(format!("{route}/columns/{}", segment(&column.key)))
        }
        TableStep::AddIndex(index) => {
            sent(Method::POST, format!("{route}/indexes"), new_index(index))
        }
        TableStep::DeleteIndex(key) => deleted(index_route(step, table, key)),
    }
}

fn head(table: &FileTable) -> Value {
    json!({
        "name": table.name,
        "permissions": table.permissions,
        "rowSecurity": table.row_security,
        "enabled": table.enabled,
    })
}

/// A column as calls that create it take it; within the creation of a table it names its type.
fn new_column(column: &FileColumn, is_inline: bool) -> Value {
    let mut body = json!(column);
    let members = body.as_object_mut().expect("a column is an object");
    if column.is_relationship() {
        members.remove("relatedTable");
        members.remove("relationType");
        members.insert("relatedTableId".to_owned(), json!(column.related_table));
        members.insert("type".to_owned(), json!(column.relation_type));
        members.insert("twoWay".to_owned(), json!(column.two_way_key.is_some()));
        return body;
    }
    members.insert("required".to_owned(), json!(column.required));
    if !is_inline {
        members.remove("type");
    }
    body
}

fn new_index(index: &FileIndex) -> Value {
    let mut body = Map::new();
    body.insert("key".to_owned(), json!(index.key));
    body.insert("type".to_owned(), json!(index.kind));
    // Both words: inline definitions of other servers know only the first.
    body.insert("attributes".to_owned(), json!(index.columns));
    body.insert("columns".to_owned(), json!(index.columns));
    if !index.orders.is_empty() {
        body.insert("orders".to_owned(), json!(index.orders));
    }
    if !index.lengths.is_empty() {
        body.insert("lengths".to_owned(), json!(index.lengths));
    }
    Value::Object(body)
}

/// The change of a column. A bound that the file does not have any more is sent as that of its
/// type, because an absent one stays.
fn updated(
    route: &str,
    before: &FileColumn,
    after: &FileColumn,
    new_key: Option<&str>,
) -> StepRequest {
    let key = segment(&before.key);
    let (route, mut body) = if after.is_relationship() {
        let route = format!("{route}/columns/{key}/relationship");
        // The other end of a relationship, which a rename may name, says nothing of deletions.
        let on_delete = after.on_delete.as_ref();
        let body = on_delete.map_or_else(|| json!({}), |word| json!({"onDelete": word}));
        (route, body)
    } else {
        let route = format!("{route}/columns/{}/{key}", after.kind);
        let mut body = json!({"required": after.required, "default": after.default});
        let bounds: (Value, Value) = match &*after.kind {
            "float" => (json!(f64::MIN), json!(f64::MAX)),
            _ => (json!(i64::MIN), json!(i64::MAX)),
        };
        let bound = |name: &str, old: &Option<Value>, new: &Option<Value>, none: Value| {
            let value = new.clone().or_else(|| old.is_some().then_some(none));
            value.map(|value| (name.to_owned(), value))
        };
        let size = after.size.map(|size| ("size".to_owned(), json!(size)));
        let elements = after.elements.as_ref();
        let elements = elements.map(|elements| ("elements".to_owned(), json!(elements)));
        let members = body.as_object_mut().expect("it was made as one");
        members.extend(
            [
                size,
                elements,
                bound("min", &before.min, &after.min, bounds.0),
                bound("max", &before.max, &after.max, bounds.1),
            ]
            .into_iter()
            .flatten(),
        );
        (route, body)
    };
    if let Some(new_key) = new_key {
        body["newKey"] = json!(new_key);
    }
    StepRequest {
        method: Method::PATCH,
        route,
        body: Some(body),
    }
}
