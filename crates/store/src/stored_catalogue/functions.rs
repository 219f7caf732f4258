//! Functions, as they are stored: what each has beside its ids and times is a JSON object.

use model::function::FunctionOptions;
use model::{
    ActiveDeployment, DeploymentId, Function, FunctionDefinition, FunctionId, FunctionNetwork,
    ProjectId, Role, Scope, Timestamp,
};
use serde_json::Value as Json;

use crate::error::corrupt;
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
