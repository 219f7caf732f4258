//! Executions that wait, as they are stored.

use model::{DeploymentId, Timestamp};
use query::Dialect;

use super::executions::{headers, headers_text};
use super::read::{StoredRead, numbers_of};
use super::row::{Read, StoredCell, StoredRow, count, flag, instant, int, other, string, text};
use super::variables::{SealedOfFunction, sealed_of_function};
use crate::StoreError;
use crate::error::corrupt;
use crate::execution_queue::{QueuedCall, QueuedExecution};
use crate::execution_record::ExecutionTrigger;
use crate::vault::{Place, Vault};

/// The columns that [`queued`] reads.
const COLUMNS: &str = "seq, id, cause, deployment, due, scheduled, attempt, lease, method, path, \
                       depth, created, updated";
/// The column behind them.
const BEHIND: usize = 13;
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

fn queued(row: &dyn StoredRow) -> Read<QueuedExecution> {
    let id = text(row, 1)?;
    let broken = || corrupt(format!("the execution `{id}` that waits cannot be read"));
    let lease = int(row, 7)?;
    Ok(QueuedExecution {
        seq: int(row, 0)?,
        id: id.to_owned(),
        trigger: ExecutionTrigger::parse(text(row, 2)?).ok_or_else(broken)?,
        deployment: DeploymentId::new(text(row, 3)?).map_err(|_| broken())?,
        due: instant(row, 4)?,
        is_scheduled: flag(row, 5)?,
        attempt: count(row, 6)?,
        lease: (lease > 0).then_some(Timestamp(lease)),
        method: string(row, 8)?,
        path: string(row, 9)?,
        depth: u8::try_from(int(row, 10)?).map_err(|_| broken())?,
        created: instant(row, 11)?,
        updated: instant(row, 12)?,
    })
}

/// Of a function, in the order in which they were queued.
pub(crate) fn of_function(function: i64) -> StoredRead<QueuedExecution> {
    StoredRead {
        sql: format!("SELECT {COLUMNS} FROM queued WHERE function = $1 ORDER BY seq"),
        parameters: vec![function.into()],
        read: queued,
    }
}

/// The one of this id, if it waits.
pub(crate) fn of_id(function: i64, id: &str) -> StoredRead<QueuedExecution> {
    StoredRead {
        sql: format!("SELECT {COLUMNS} FROM queued WHERE function = $1 AND id = $2"),
        parameters: vec![function.into(), id.into()],
        read: queued,
    }
}

/// What may be started, with [`model::Function::seq`] of its function: the longest due first, none
/// of the functions `except`.
pub(crate) fn due(
    dialect: Dialect,
    now: Timestamp,
    except: &[i64],
    limit: usize,
) -> StoredRead<(i64, QueuedExecution)> {
    let except = serde_json::json!(except).to_string();
    StoredRead {
        sql: format!(
            "SELECT {COLUMNS}, function FROM queued WHERE lease <= $1 AND due <= $1 \
             AND function NOT IN {} ORDER BY due, seq LIMIT $3",
            numbers_of(dialect, 2)
        ),
        parameters: vec![now.0.into(), except.as_str().into(), (limit as i64).into()],
        read: |row| Ok((int(row, BEHIND)?, queued(row)?)),
    }
}

/// The one of this number with what its handler is given, which was sealed.
pub(crate) fn with_call(function: i64, seq: i64) -> StoredRead<(QueuedExecution, Vec<u8>)> {
    StoredRead {
        sql: format!(
            "SELECT {COLUMNS}, call FROM queued JOIN queued_call USING (seq) \
             WHERE seq = $1 AND function = $2"
        ),
        parameters: vec![seq.into(), function.into()],
        read: |row| match row.cell(BEHIND)? {
            StoredCell::Bytes(sealed) => Ok((queued(row)?, sealed.to_vec())),
            cell => Err(other(cell)),
        },
    }
}

/// What a handler is given.
///
/// # Errors
/// [`StoreError::KeyMissing`]; [`StoreError::SealBroken`], also where the key is another one.
pub(crate) fn opened_call(
    vault: &Vault,
    function: i64,
    (queued, sealed): &(QueuedExecution, Vec<u8>),
) -> Result<QueuedCall, StoreError> {
    let opened = vault.open_sealed(Place::Call(function, &queued.id), sealed)?;
    let broken = || corrupt(format!("the call of `{}` cannot be read", queued.id));
    read_call(&opened).ok_or_else(broken)
}

/// The newest calls: one alone could be damaged.
pub(crate) fn newest_calls() -> StoredRead<SealedOfFunction> {
    let sql = "SELECT function, id, call FROM queued JOIN queued_call USING (seq) \
               ORDER BY seq DESC LIMIT 3";
    StoredRead {
        sql: sql.to_owned(),
        parameters: Vec::new(),
        read: sealed_of_function,
    }
}

/// The last minute of a function's schedule that was queued, or when the schedule began.
pub(crate) fn schedule_minute(function: i64) -> StoredRead<Timestamp> {
    StoredRead {
        sql: "SELECT minute FROM schedule WHERE function = $1".to_owned(),
        parameters: vec![function.into()],
        read: |row| instant(row, 0),
    }
}
