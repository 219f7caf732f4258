//! Functions, as they are stored: what each has beside its ids and times is a JSON object.

use model::function::FunctionOptions;
use model::{
    ActiveDeployment, DeploymentId, Function, FunctionDefinition, FunctionId, FunctionNetwork,
    Mark, ProjectId, Role, Scope, Timestamp,
};
use serde_json::{Value as Json, json};

use crate::error::corrupt;
use crate::stored::change::StoredChange;
use crate::stored::read::StoredRead;
use crate::stored::row::{Read, StoredRow, instant, int, text};

/// The columns of a function, as [`function`] reads them.
pub(super) const FUNCTION: &str = "seq, project, id, body, created, updated";

/// A function, from [`FUNCTION`].
pub(super) fn function(row: &dyn StoredRow) -> Read<Function> {
    let id = text(row, 2)?;
    let broken = || corrupt(format!("the function `{id}` cannot be read"));
    let body: Json = serde_json::from_str(text(row, 3)?).map_err(|_| broken())?;
    Ok(Function {
        seq: int(row, 0)?,
        project: ProjectId::new(text(row, 1)?).map_err(|_| broken())?,
        id: FunctionId::new(id).map_err(|_| broken())?,
        definition: definition(&body).ok_or_else(broken)?,
        active: match body.get("deployment") {
            None => None,
            Some(body) => Some(active(body).ok_or_else(broken)?),
        },
        created: instant(row, 4)?,
        updated: instant(row, 5)?,
    })
}

fn active(body: &Json) -> Option<ActiveDeployment> {
    Some(ActiveDeployment {
        id: DeploymentId::new(body.get("id")?.as_str()?).ok()?,
        seq: body.get("seq")?.as_i64()?,
        created: Timestamp(body.get("created")?.as_i64()?),
    })
}

fn definition(body: &Json) -> Option<FunctionDefinition> {
    let text = |name: &str| Some(body.get(name)?.as_str()?.to_owned());
    let flag = |name: &str| body.get(name)?.as_bool();
    let number = |name: &str| u32::try_from(body.get(name)?.as_u64()?).ok();
    let texts = |name: &str| -> Option<Vec<&str>> {
        body.get(name)?
            .as_array()?
            .iter()
            .map(Json::as_str)
            .collect()
    };
    let role = |text: &&str| Role::parse(text).ok();
    Some(FunctionDefinition {
        name: text("name")?,
        runtime: text("runtime")?,
        execute: texts("execute")?.iter().map(role).collect::<Option<_>>()?,
        events: texts("events")?.into_iter().map(str::to_owned).collect(),
        schedule: text("schedule")?,
        timeout_s: number("timeout")?,
        enabled: flag("enabled")?,
        logging: flag("logging")?,
        entrypoint: text("entrypoint")?,
        commands: text("commands")?,
        scopes: texts("scopes")?
            .into_iter()
            .map(Scope::parse)
            .collect::<Option<_>>()?,
        build_specification: text("buildSpecification")?,
        runtime_specification: text("runtimeSpecification")?,
        deployment_retention_days: number("deploymentRetention")?,
        options: FunctionOptions {
            concurrency: number("concurrency")?,
            network: FunctionNetwork::parse(&text("network")?)?,
            records_max: number("recordsMax")?,
            records_days: number("recordsDays")?,
            records_bytes_max: body.get("recordsBytesMax")?.as_u64()?,
        },
    })
}

/// The highest number that was given to a function. Rows of the catalogue are closed and never
/// removed, so no number comes back.
pub(crate) fn last_number() -> StoredRead<i64> {
    StoredRead {
        sql: "SELECT coalesce(max(seq), 0) FROM function_".to_owned(),
        parameters: Vec::new(),
        read: |row| int(row, 0),
    }
}

/// Writes a function as it is known from this mark on.
pub(crate) fn put(function: &Function, mark: Mark) -> StoredChange {
    StoredChange::new(
        "INSERT INTO function_ (seq, project, id, body, created, updated, sf) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        [
            function.seq.into(),
            function.project.as_str().into(),
            function.id.as_str().into(),
            body(function).to_string().as_str().into(),
            function.created.0.into(),
            function.updated.0.into(),
            mark.0.into(),
        ],
    )
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
