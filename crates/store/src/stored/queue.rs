//! Executions that wait, as they are stored.

use model::{DeploymentId, ProjectId, Timestamp};
use query::Dialect;

use super::change::StoredChange;
use super::executions::{headers, headers_text};
use super::read::{StoredRead, numbers_of};
use super::row::{Read, StoredCell, StoredRow, count, flag, instant, int, other, string, text};
use super::variables::{SealedOfFunction, sealed_of_function};
use crate::StoreError;
use crate::error::corrupt;
use crate::execution_queue::{NewExecution, QueuedCall, QueuedExecution};
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

/// How many executions of a project wait, and how many bytes of them; no row where none did yet.
pub(crate) fn size_of(project: &ProjectId) -> StoredRead<(i64, i64)> {
    StoredRead {
        sql: "SELECT count, bytes FROM queue_size WHERE project = $1".to_owned(),
        parameters: vec![project.as_str().into()],
        read: |row| Ok((int(row, 0)?, int(row, 1)?)),
    }
}

/// Queues an execution with what its handler is given, which is sealed, and counts it.
pub(crate) fn put(new: &NewExecution, sealed: Vec<u8>, bytes: i64) -> [StoredChange; 3] {
    let (queued, function) = (&new.queued, new.function_seq);
    let put = StoredChange::new(
        "INSERT INTO queued (function, project, id, cause, deployment, due, scheduled, attempt, \
         lease, method, path, depth, bytes, created, updated) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, $8, $9, $10, $11, $12, $12)",
        [
            function.into(),
            new.function.project.as_str().into(),
            queued.id.as_str().into(),
            queued.trigger.as_str().into(),
            queued.deployment.as_str().into(),
            queued.due.0.into(),
            queued.is_scheduled.into(),
            queued.method.as_str().into(),
            queued.path.as_str().into(),
            i64::from(queued.depth).into(),
            bytes.into(),
            queued.created.0.into(),
        ],
    );
    let call = StoredChange::new(
        "INSERT INTO queued_call (seq, call) \
         VALUES ((SELECT seq FROM queued WHERE function = $1 AND id = $2), $3)",
        [function.into(), queued.id.as_str().into(), sealed.into()],
    );
    [
        put,
        call,
        count_more(new.function.project.as_str(), 1, bytes),
    ]
}

/// Counts what waits of a project.
pub(crate) fn count_more(project: &str, count: i64, bytes: i64) -> StoredChange {
    StoredChange::new(
        "INSERT INTO queue_size (project, count, bytes) VALUES ($1, $2, $3) \
         ON CONFLICT (project) DO UPDATE SET count = queue_size.count + excluded.count, \
         bytes = queue_size.bytes + excluded.bytes",
        [project.into(), count.into(), bytes.into()],
    )
}

/// Takes a lease on one that waits, or whose lease is over, and counts a start.
pub(crate) fn start(seq: i64, until: Timestamp, now: Timestamp) -> StoredChange {
    StoredChange::new(
        "UPDATE queued SET lease = $1, attempt = attempt + 1, updated = $2 \
         WHERE seq = $3 AND lease <= $2",
        [until.0.into(), now.0.into(), seq.into()],
    )
}

/// Moves the end of a lease.
pub(crate) fn renew(seq: i64, until: Timestamp) -> StoredChange {
    StoredChange::new(
        "UPDATE queued SET lease = $1 WHERE seq = $2 AND lease > 0",
        [until.0.into(), seq.into()],
    )
}

/// Ends a lease, and takes so many starts back.
pub(crate) fn give_back(seq: i64, uncounted: i64, now: Timestamp) -> StoredChange {
    StoredChange::new(
        "UPDATE queued SET lease = 0, attempt = attempt - $1, updated = $2 \
         WHERE seq = $3 AND lease > 0",
        [uncounted.into(), now.0.into(), seq.into()],
    )
}

/// Ends all leases.
pub(crate) fn release() -> StoredChange {
    StoredChange::new("UPDATE queued SET lease = 0 WHERE lease > 0", Vec::new())
}

/// The project of one that waits, and its bytes.
pub(crate) fn held(seq: i64) -> StoredRead<(String, i64)> {
    StoredRead {
        sql: "SELECT project, bytes FROM queued WHERE seq = $1".to_owned(),
        parameters: vec![seq.into()],
        read: |row| Ok((string(row, 0)?, int(row, 1)?)),
    }
}

/// Removes one of so many bytes.
pub(crate) fn remove(seq: i64, project: &str, bytes: i64) -> [StoredChange; 3] {
    [
        StoredChange::new("DELETE FROM queued WHERE seq = $1", [seq.into()]),
        StoredChange::new("DELETE FROM queued_call WHERE seq = $1", [seq.into()]),
        count_more(project, -1, -bytes),
    ]
}

/// What waits of a function: its project, how many, and how many bytes; no row where nothing does.
pub(crate) fn held_of(function: i64) -> StoredRead<(String, i64, i64)> {
    let sql = "SELECT project, count(*), CAST(sum(bytes) AS bigint) FROM queued \
               WHERE function = $1 GROUP BY project";
    StoredRead {
        sql: sql.to_owned(),
        parameters: vec![function.into()],
        read: |row| Ok((string(row, 0)?, int(row, 1)?, int(row, 2)?)),
    }
}

/// Removes what waits of a function, and notes that what its handlers are given is to go.
pub(crate) fn leave_calls(function: i64) -> [StoredChange; 2] {
    let left = "INSERT INTO calls_gone (seq) SELECT seq FROM queued WHERE function = $1";
    let gone = "DELETE FROM queued WHERE function = $1";
    [left, gone].map(|sql| StoredChange::new(sql, [function.into()]))
}

/// Moves the schedule of a function on to a minute that was queued, unless it is as far.
pub(crate) fn pass_minute(function: i64, minute: Timestamp) -> StoredChange {
    StoredChange::new(
        "INSERT INTO schedule (function, minute) VALUES ($1, $2) \
         ON CONFLICT (function) DO UPDATE SET minute = excluded.minute \
         WHERE schedule.minute < excluded.minute",
        [function.into(), minute.0.into()],
    )
}

/// Lets the schedule of a function begin.
pub(crate) fn begin_schedule(function: i64, now: Timestamp) -> StoredChange {
    StoredChange::new(
        "INSERT INTO schedule (function, minute) VALUES ($1, $2) \
         ON CONFLICT (function) DO UPDATE SET minute = excluded.minute",
        [function.into(), now.0.into()],
    )
}

/// Ends the schedule of a function.
pub(crate) fn end_schedule(function: i64) -> StoredChange {
    StoredChange::new(
        "DELETE FROM schedule WHERE function = $1",
        [function.into()],
    )
}
