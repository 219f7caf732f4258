//! Records of executions, as they are stored.

use model::{DeploymentId, Timestamp};

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
