//! Records of executions, as they are stored.

use model::{DeploymentId, Timestamp};

use super::change::StoredChange;
use super::parameter::StoredParameter;
use super::read::StoredRead;
use super::row::{Read, StoredCell, StoredRow, instant, int, maybe_int, other, string, text};
use crate::error::corrupt;
use crate::execution_record::{
    ExecutionRecord, ExecutionStatus, ExecutionTrigger, Headers, RECORDS_LISTED_MAX,
};

/// The columns of a record that lists look at, as [`head`] reads them.
const HEAD: &str = "seq, id, deployment, status, method, path, response_status, duration_us, \
                    created, updated, cause, due";

/// The headers of a record. Written to disk.
pub(crate) fn headers_text(headers: &Headers) -> String {
    let pair = |(name, value): &(String, String)| serde_json::json!([name, value]);
    let pairs: serde_json::Value = headers.iter().map(pair).collect();
    pairs.to_string()
}

pub(crate) fn headers(text: &str) -> Option<Headers> {
    let pairs: Vec<serde_json::Value> = serde_json::from_str(text).ok()?;
    let pair = |pair: &serde_json::Value| {
        let text = |position: usize| Some(pair.get(position)?.as_str()?.to_owned());
        Some((text(0)?, text(1)?))
    };
    pairs.iter().map(pair).collect()
}

/// A record from [`HEAD`], without headers and logs.
fn head(row: &dyn StoredRow) -> Read<ExecutionRecord> {
    let id = text(row, 1)?;
    let broken = || corrupt(format!("the record of the execution `{id}` cannot be read"));
    Ok(ExecutionRecord {
        seq: int(row, 0)?,
        id: id.to_owned(),
        trigger: ExecutionTrigger::parse(text(row, 10)?).ok_or_else(broken)?,
        deployment: DeploymentId::new(text(row, 2)?).map_err(|_| broken())?,
        status: ExecutionStatus::parse(text(row, 3)?).ok_or_else(broken)?,
        method: string(row, 4)?,
        path: string(row, 5)?,
        request_headers: Vec::new(),
        response_status: u16::try_from(int(row, 6)?).map_err(|_| broken())?,
        response_headers: Vec::new(),
        logs: String::new(),
        errors: String::new(),
        duration_us: int(row, 7)?.unsigned_abs(),
        scheduled: maybe_int(row, 11)?.map(Timestamp),
        created: instant(row, 8)?,
        updated: instant(row, 9)?,
    })
}

/// The newest records of a function, the newest first, without headers and logs.
pub(crate) fn newest(function: i64) -> StoredRead<ExecutionRecord> {
    StoredRead {
        sql: format!(
            "SELECT {HEAD} FROM execution WHERE function = $1 \
             ORDER BY seq DESC LIMIT {RECORDS_LISTED_MAX}"
        ),
        parameters: vec![function.into()],
        read: head,
    }
}

/// The record of this id.
pub(crate) fn of_id(function: i64, id: &str) -> StoredRead<ExecutionRecord> {
    StoredRead {
        sql: format!(
            "SELECT {HEAD}, request_headers, response_headers, logs, errors FROM execution \
             WHERE function = $1 AND id = $2"
        ),
        parameters: vec![function.into(), id.into()],
        read: |row| {
            let mut found = head(row)?;
            let broken = || corrupt(format!("the headers of `{}` cannot be read", found.id));
            let request_headers = headers(text(row, 12)?).ok_or_else(broken)?;
            let response_headers = headers(text(row, 13)?).ok_or_else(broken)?;
            found.request_headers = request_headers;
            found.response_headers = response_headers;
            (found.logs, found.errors) = (printed(row, 14)?, printed(row, 15)?);
            Ok(found)
        },
    }
}

/// What code has printed: a database whose texts hold no U+0000 keeps its bytes.
fn printed(row: &dyn StoredRow, position: usize) -> Read<String> {
    match row.cell(position)? {
        StoredCell::Text(text) => Ok(text.to_owned()),
        StoredCell::Bytes(bytes) => {
            let text = std::str::from_utf8(bytes).map_err(|error| corrupt(error.to_string()));
            text.map(str::to_owned)
        }
        cell => Err(other(cell)),
    }
}

/// Keeps a record, unless one of its id is there.
pub(crate) fn insert(function: i64, record: &ExecutionRecord) -> StoredChange {
    StoredChange::new(
        "INSERT INTO execution (function, id, deployment, cause, status, method, path, \
         request_headers, response_status, response_headers, logs, errors, duration_us, bytes, \
         created, updated, due) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, \
         $14, $15, $16, $17) ON CONFLICT (function, id) DO NOTHING",
        [
            function.into(),
            record.id.as_str().into(),
            record.deployment.as_str().into(),
            record.trigger.as_str().into(),
            record.status.as_str().into(),
            record.method.as_str().into(),
            record.path.as_str().into(),
            headers_text(&record.request_headers).as_str().into(),
            i64::from(record.response_status).into(),
            headers_text(&record.response_headers).as_str().into(),
            StoredParameter::Printed(record.logs.clone()),
            StoredParameter::Printed(record.errors.clone()),
            record.duration_us.cast_signed().into(),
            (record.size_bytes() as i64).into(),
            record.created.0.into(),
            record.updated.0.into(),
            record.scheduled.map(|due| due.0).into(),
        ],
    )
}

/// Counts records of a function, and their bytes.
pub(crate) fn count(function: i64, count: i64, bytes: i64) -> StoredChange {
    StoredChange::new(
        "INSERT INTO execution_kept (function, count, bytes) VALUES ($1, $2, $3) \
         ON CONFLICT (function) DO UPDATE SET count = execution_kept.count + excluded.count, \
         bytes = execution_kept.bytes + excluded.bytes",
        [function.into(), count.into(), bytes.into()],
    )
}

/// What a function keeps of records, and the oldest one.
pub(crate) struct KeptRecords {
    pub(crate) count: i64,
    pub(crate) bytes: i64,
    pub(crate) oldest: i64,
    pub(crate) oldest_bytes: i64,
    pub(crate) oldest_created: Timestamp,
}

/// What a function keeps; no row where that is nothing.
pub(crate) fn kept(function: i64) -> StoredRead<KeptRecords> {
    let sql = "SELECT k.count, k.bytes, e.seq, e.bytes, e.created FROM execution_kept AS k \
               JOIN execution AS e ON e.function = k.function \
               WHERE k.function = $1 ORDER BY e.seq LIMIT 1";
    StoredRead {
        sql: sql.to_owned(),
        parameters: vec![function.into()],
        read: |row| {
            Ok(KeptRecords {
                count: int(row, 0)?,
                bytes: int(row, 1)?,
                oldest: int(row, 2)?,
                oldest_bytes: int(row, 3)?,
                oldest_created: instant(row, 4)?,
            })
        },
    }
}

/// The number and the bytes of the record of this id.
pub(crate) fn place_of(function: i64, id: &str) -> StoredRead<(i64, i64)> {
    StoredRead {
        sql: "SELECT seq, bytes FROM execution WHERE function = $1 AND id = $2".to_owned(),
        parameters: vec![function.into(), id.into()],
        read: |row| Ok((int(row, 0)?, int(row, 1)?)),
    }
}

/// Removes a record.
pub(crate) fn remove(seq: i64) -> StoredChange {
    StoredChange::new("DELETE FROM execution WHERE seq = $1", [seq.into()])
}

/// Notes no longer that records of a function are too many, too large or too old.
pub(crate) fn keep_old(function: i64) -> StoredChange {
    let sql = "DELETE FROM executions_old WHERE function = $1";
    StoredChange::new(sql, [function.into()])
}

/// Notes that records of a function are to go until at most so many are left, of so many bytes,
/// all of them created since then; nothing where that is so.
pub(crate) fn leave_old(
    function: i64,
    (count_max, bytes_max, since): (i64, i64, i64),
) -> StoredChange {
    StoredChange::new(
        "INSERT INTO executions_old (function, count_max, bytes_max, since) \
         SELECT function, CAST($1 AS bigint), CAST($2 AS bigint), CAST($3 AS bigint) \
         FROM execution_kept WHERE function = $4 AND (count > $1 OR bytes > $2 OR \
         $3 > (SELECT created FROM execution WHERE function = $4 ORDER BY seq LIMIT 1))",
        [
            count_max.into(),
            bytes_max.into(),
            since.into(),
            function.into(),
        ],
    )
}

/// Notes that the records of a function are to go, if it keeps any.
pub(crate) fn leave_all(function: i64) -> StoredChange {
    StoredChange::new(
        "INSERT INTO executions_gone (function) \
         SELECT function FROM execution_kept WHERE function = $1",
        [function.into()],
    )
}

/// Counts nothing of a function any more.
pub(crate) fn count_no_more(function: i64) -> [StoredChange; 2] {
    let sql = "DELETE FROM execution_kept WHERE function = $1";
    [
        StoredChange::new(sql, [function.into()]),
        keep_old(function),
    ]
}
