//! Executions that wait, as they are stored.

use model::{DeploymentId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::stored_executions::{headers, headers_text};
use crate::StoreError;
use crate::error::corrupt;
use crate::execution_queue::{QueuedCall, QueuedExecution};
use crate::execution_record::ExecutionTrigger;
use crate::sqlite::disk::vault::{Place, Vault, need_functions_key};

type Read<T> = Result<T, StoreError>;

/// The columns that [`queued`] reads.
const COLUMNS: &str = "seq, id, cause, deployment, due, scheduled, attempt, lease, method, path, \
                       depth, created, updated";
/// Bytes before the headers: how many those have.
const LENGTH_BYTES: usize = 4;

/// What a handler is given, before it is sealed. Written to disk.
pub(crate) fn call_bytes(call: &QueuedCall) -> Vec<u8> {
    let headers = headers_text(&call.headers);
    let length = headers.len() as u32;
    [&length.to_le_bytes(), headers.as_bytes(), &call.body].concat()
}

fn read_call(bytes: &[u8]) -> Option<QueuedCall> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
    let (text, body) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some(QueuedCall {
        headers: headers(std::str::from_utf8(text).ok()?)?,
        body: body.into(),
    })
}

fn queued(row: &Row<'_>) -> Read<QueuedExecution> {
    let id: String = row.get(1)?;
    let broken = || corrupt(format!("the execution `{id}` that waits cannot be read"));
    let (trigger, deployment): (String, String) = (row.get(2)?, row.get(3)?);
    let lease: i64 = row.get(7)?;
    Ok(QueuedExecution {
        seq: row.get(0)?,
        trigger: ExecutionTrigger::parse(&trigger).ok_or_else(broken)?,
        deployment: DeploymentId::new(&deployment).map_err(|_| broken())?,
        due: Timestamp(row.get(4)?),
        is_scheduled: row.get(5)?,
        attempt: row.get(6)?,
        lease: (lease > 0).then_some(Timestamp(lease)),
        method: row.get(8)?,
        path: row.get(9)?,
        depth: row.get(10)?,
        created: Timestamp(row.get(11)?),
        updated: Timestamp(row.get(12)?),
        id,
    })
}

/// What waits of a function, in the order in which it was queued.
pub(crate) fn of_function(connection: &Connection, function: i64) -> Read<Vec<QueuedExecution>> {
    let sql = format!("SELECT {COLUMNS} FROM queued WHERE function = ?1 ORDER BY seq");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([function])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(queued(row)?);
    }
    Ok(found)
}

/// The execution of this id, if it waits.
pub(crate) fn of_id(
    connection: &Connection,
    function: i64,
    id: &str,
) -> Read<Option<QueuedExecution>> {
    let sql = format!("SELECT {COLUMNS} FROM queued WHERE function = ?1 AND id = ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![function, id])?;
    rows.next()?.map(queued).transpose()
}

/// What may be started, with [`model::Function::seq`] of its function: the longest due first, none
/// of the functions `except`.
pub(crate) fn due(
    connection: &Connection,
    now: Timestamp,
    except: &[i64],
    limit: usize,
) -> Read<Vec<(i64, QueuedExecution)>> {
    let sql = format!(
        "SELECT {COLUMNS}, function FROM queued WHERE lease <= ?1 AND due <= ?1 \
         AND function NOT IN (SELECT value FROM json_each(?2)) ORDER BY due, seq LIMIT ?3"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let except = serde_json::json!(except).to_string();
    let mut rows = statement.query(params![now.0, except, limit as i64])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push((row.get(13)?, queued(row)?));
    }
    Ok(found)
}

/// What the handler of an execution is given; `None` where it is gone.
pub(crate) fn call(
    connection: &Connection,
    vault: &Vault,
    (function, seq): (i64, i64),
) -> Read<Option<(QueuedExecution, QueuedCall)>> {
    let sql = format!(
        "SELECT {COLUMNS}, call FROM queued JOIN queued_call USING (seq) \
         WHERE seq = ?1 AND function = ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![seq, function])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let found = queued(row)?;
    let sealed = row.get_ref(13)?.as_blob().map_err(rusqlite::Error::from)?;
    let opened = vault.open_sealed(Place::Call(function, &found.id), sealed);
    if matches!(opened, Err(StoreError::SealBroken { .. })) {
        // Not this one alone, if the key is another one.
        need_functions_key(connection, vault)?;
    }
    let opened = opened?;
    let broken = || corrupt(format!("the call of `{}` cannot be read", found.id));
    let call = read_call(&opened).ok_or_else(broken)?;
    Ok(Some((found, call)))
}

/// The last minute of a function's schedule that was queued, or when the schedule began.
pub(crate) fn schedule_minute(connection: &Connection, function: i64) -> Read<Option<Timestamp>> {
    let sql = "SELECT minute FROM schedule WHERE function = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let minute = statement.query_row([function], |row| row.get(0));
    Ok(minute.optional()?.map(Timestamp))
}
