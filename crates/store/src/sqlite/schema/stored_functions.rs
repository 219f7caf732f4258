//! Functions, as they are written.

use model::{Function, Mark, Role};
use rusqlite::{Connection, params};
use serde_json::{Value as Json, json};

pub(crate) fn insert_function(
    connection: &Connection,
    function: &Function,
    mark: Mark,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO function_ (seq, project, id, body, created, updated, sf) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            function.seq,
            function.project.as_str(),
            function.id.as_str(),
            body(function).to_string(),
            function.created.0,
            function.updated.0,
            mark.0,
        ])?;
    Ok(())
}

/// Written to disk: members may be added, none may change.
fn body(function: &Function) -> Json {
    let definition = &function.definition;
    let execute: Json = definition.execute.iter().map(Role::as_str).collect();
    let scopes: Json = definition
        .scopes
        .iter()
        .map(|scope| scope.as_str())
        .collect();
    let options = &definition.options;
    let mut body = json!({
        "name": definition.name,
        "runtime": definition.runtime,
        "execute": execute,
        "events": definition.events,
        "schedule": definition.schedule,
        "timeout": definition.timeout_s,
        "enabled": definition.enabled,
        "logging": definition.logging,
        "entrypoint": definition.entrypoint,
        "commands": definition.commands,
        "scopes": scopes,
        "buildSpecification": definition.build_specification,
        "runtimeSpecification": definition.runtime_specification,
        "deploymentRetention": definition.deployment_retention_days,
        "concurrency": options.concurrency,
        "network": options.network.as_str(),
        "recordsMax": options.records_max,
        "recordsDays": options.records_days,
        "recordsBytesMax": options.records_bytes_max,
    });
    // Absent from what earlier versions wrote, and of functions without one.
    if let Some(active) = &function.active {
        body["deployment"] = json!({
            "id": active.id.as_str(),
            "seq": active.seq,
            "created": active.created.0,
        });
    }
    body
}
