//! Functions and their variables, as they are stored.

use model::function::FunctionOptions;
use model::{
    Function, FunctionDefinition, FunctionId, FunctionNetwork, Mark, ProjectId, Role, Scope,
    Timestamp, VariableId,
};
use rusqlite::{Connection, Row, params};
use serde_json::{Value as Json, json};

use crate::StoreError;
use crate::function_op::Variable;
use crate::sqlite::disk::fault::corrupt;
use crate::sqlite::disk::vault::{Place, Vault};

type Read<T> = Result<T, StoreError>;

/// The columns of a function, as [`function`] reads them.
pub(crate) const FUNCTION: &str = "seq, project, id, body, created, updated";

pub(crate) fn insert_function(
    connection: &Connection,
    function: &Function,
    mark: Mark,
) -> rusqlite::Result<()> {
    let sql = format!("INSERT INTO function_ ({FUNCTION}, sf) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)");
    connection.prepare_cached(&sql)?.execute(params![
        function.seq,
        function.project.as_str(),
        function.id.as_str(),
        body(&function.definition).to_string(),
        function.created.0,
        function.updated.0,
        mark.0,
    ])?;
    Ok(())
}

/// A function, from [`FUNCTION`].
pub(crate) fn function(row: &Row<'_>) -> Read<Function> {
    let id: String = row.get(2)?;
    let broken = || corrupt(format!("the function `{id}` cannot be read"));
    let project: String = row.get(1)?;
    let body: String = row.get(3)?;
    let body: Json = serde_json::from_str(&body).map_err(|_| broken())?;
    Ok(Function {
        seq: row.get(0)?,
        project: ProjectId::new(&project).map_err(|_| broken())?,
        id: FunctionId::new(&id).map_err(|_| broken())?,
        definition: definition(&body).ok_or_else(broken)?,
        created: Timestamp(row.get(4)?),
        updated: Timestamp(row.get(5)?),
    })
}

/// Written to disk: members may be added, none may change.
fn body(definition: &FunctionDefinition) -> Json {
    let execute: Json = definition.execute.iter().map(Role::as_str).collect();
    let scopes: Json = definition
        .scopes
        .iter()
        .map(|scope| scope.as_str())
        .collect();
    let options = &definition.options;
    json!({
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

/// The variables of a function in the order of their creation, without the values of secret ones.
pub(crate) fn variables(
    connection: &Connection,
    vault: &Vault,
    function: i64,
) -> Read<Vec<Variable>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, id, key, value, secret, created, updated FROM variable \
         WHERE function = ?1 ORDER BY seq",
    )?;
    let mut rows = statement.query([function])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id: String = row.get(1)?;
        let secret = row.get(4)?;
        let value = if secret {
            None
        } else {
            vault.text(row.get_ref(3)?, Place::Variable(function, &id))?
        };
        found.push(Variable {
            seq: row.get(0)?,
            id: VariableId::new(&id).map_err(|error| corrupt(error.to_string()))?,
            key: row.get(2)?,
            value: value.unwrap_or_default(),
            secret,
            created: Timestamp(row.get(5)?),
            updated: Timestamp(row.get(6)?),
        });
    }
    Ok(found)
}
