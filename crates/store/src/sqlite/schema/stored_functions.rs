//! Functions and their variables, as they are stored.

use model::{DeploymentId, Function, Mark, Role, Timestamp, VariableId};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::{Value as Json, json};

use crate::StoreError;
use crate::error::corrupt;
use crate::function_op::{ArchivePart, ArchivePiece, Deployment, DeploymentStatus, Variable};
use crate::sqlite::disk::vault::{Place, Vault};

type Read<T> = Result<T, StoreError>;

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

/// The variables of a function in the order of their creation, without the values of secret ones
/// unless those are revealed.
pub(crate) fn variables(
    connection: &Connection,
    vault: &Vault,
    (function, reveals): (i64, bool),
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
        let value = if secret && !reveals {
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

/// The columns of a deployment, as [`deployment`] reads them.
const DEPLOYMENT: &str = "seq, id, status, activate, entrypoint, commands, bytes, received, \
                          output, build_ms, created, updated, function";

fn deployment(row: &Row<'_>) -> Read<Deployment> {
    let id: String = row.get(1)?;
    let broken = || corrupt(format!("the deployment `{id}` cannot be read"));
    let status: String = row.get(2)?;
    let bytes = |position| Ok::<_, rusqlite::Error>(row.get::<_, i64>(position)?.unsigned_abs());
    Ok(Deployment {
        seq: row.get(0)?,
        id: DeploymentId::new(&id).map_err(|_| broken())?,
        status: DeploymentStatus::parse(&status).ok_or_else(broken)?,
        activate: row.get(3)?,
        entrypoint: row.get(4)?,
        commands: row.get(5)?,
        source_bytes: bytes(6)?,
        received_bytes: bytes(7)?,
        output_bytes: bytes(8)?,
        build_ms: bytes(9)?,
        created: Timestamp(row.get(10)?),
        updated: Timestamp(row.get(11)?),
    })
}

/// The deployments of a function in the order of their creation.
pub(crate) fn deployments(connection: &Connection, function: i64) -> Read<Vec<Deployment>> {
    let sql = format!("SELECT {DEPLOYMENT} FROM deployment WHERE function = ?1 ORDER BY seq");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([function])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(deployment(row)?);
    }
    Ok(found)
}

/// The one that was created last.
pub(crate) fn latest_deployment(
    connection: &Connection,
    function: i64,
) -> Read<Option<Deployment>> {
    let sql = format!(
        "SELECT {DEPLOYMENT} FROM deployment WHERE function = ?1 ORDER BY seq DESC LIMIT 1"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([function])?;
    rows.next()?.map(deployment).transpose()
}

/// The deployment of this id.
pub(crate) fn find_deployment(
    connection: &Connection,
    function: i64,
    id: &DeploymentId,
) -> Read<Option<Deployment>> {
    let sql = format!("SELECT {DEPLOYMENT} FROM deployment WHERE function = ?1 AND id = ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![function, id.as_str()])?;
    rows.next()?.map(deployment).transpose()
}

/// The one that has waited for its build the longest, and the number of its function.
pub(crate) fn next_build(connection: &Connection) -> Read<Option<(i64, Deployment)>> {
    let sql = format!(
        "SELECT {DEPLOYMENT} FROM deployment \
         WHERE status = 'waiting' AND received = bytes ORDER BY seq LIMIT 1"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(())?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    Ok(Some((row.get(12)?, deployment(row)?)))
}

/// Written to disk: never to be changed.
pub(crate) fn part_text(part: ArchivePart) -> &'static str {
    match part {
        ArchivePart::Source => "source",
        ArchivePart::Output => "output",
        ArchivePart::Log => "log",
    }
}

/// The piece that begins at `from` or after it.
pub(crate) fn piece(
    connection: &Connection,
    (deployment, part): (i64, ArchivePart),
    from: u64,
) -> Read<Option<ArchivePiece>> {
    let Ok(from) = i64::try_from(from) else {
        return Ok(None);
    };
    let sql = "SELECT start, bytes FROM deployment_piece \
               WHERE deployment = ?1 AND part = ?2 AND start >= ?3 ORDER BY start LIMIT 1";
    let found = connection
        .prepare_cached(sql)?
        .query_row(params![deployment, part_text(part), from], |row| {
            let bytes: Vec<u8> = row.get(1)?;
            Ok(ArchivePiece {
                part,
                start: row.get::<_, i64>(0)?.unsigned_abs(),
                bytes: bytes.into(),
            })
        })
        .optional()?;
    Ok(found)
}

/// Where the pieces of an archive begin, and how many bytes they have.
pub(crate) fn extents(
    connection: &Connection,
    deployment: i64,
    part: ArchivePart,
) -> Read<Vec<(u64, u64)>> {
    let sql = "SELECT start, length(bytes) FROM deployment_piece \
               WHERE deployment = ?1 AND part = ?2 ORDER BY start";
    let mut statement = connection.prepare_cached(sql)?;
    let extent = |row: &Row<'_>| {
        let bytes =
            |position| Ok::<_, rusqlite::Error>(row.get::<_, i64>(position)?.unsigned_abs());
        Ok((bytes(0)?, bytes(1)?))
    };
    let found = statement.query_map(params![deployment, part_text(part)], extent)?;
    Ok(found.collect::<Result<_, _>>()?)
}
