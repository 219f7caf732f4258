//! Records of executions, as they are stored.

use model::{DeploymentId, Timestamp};
use rusqlite::{Connection, Row, params};

use crate::StoreError;
use crate::error::corrupt;
use crate::execution_record::{
    ExecutionRecord, ExecutionStatus, ExecutionTrigger, Headers, RECORDS_LISTED_MAX,
};

type Read<T> = Result<T, StoreError>;

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
fn head(row: &Row<'_>) -> Read<ExecutionRecord> {
    let id: String = row.get(1)?;
    let broken = || corrupt(format!("the record of the execution `{id}` cannot be read"));
    let (deployment, status): (String, String) = (row.get(2)?, row.get(3)?);
    let trigger: String = row.get(10)?;
    Ok(ExecutionRecord {
        seq: row.get(0)?,
        trigger: ExecutionTrigger::parse(&trigger).ok_or_else(broken)?,
        deployment: DeploymentId::new(&deployment).map_err(|_| broken())?,
        status: ExecutionStatus::parse(&status).ok_or_else(broken)?,
        method: row.get(4)?,
        path: row.get(5)?,
        request_headers: Vec::new(),
        response_status: row.get(6)?,
        response_headers: Vec::new(),
        logs: String::new(),
        errors: String::new(),
        duration_us: row.get::<_, i64>(7)?.unsigned_abs(),
        scheduled: row.get::<_, Option<i64>>(11)?.map(Timestamp),
        created: Timestamp(row.get(8)?),
        updated: Timestamp(row.get(9)?),
        id,
    })
}

/// The newest records of a function, in the order in which they were kept, without headers and
/// logs.
pub(crate) fn executions(connection: &Connection, function: i64) -> Read<Vec<ExecutionRecord>> {
    let sql =
        format!("SELECT {HEAD} FROM execution WHERE function = ?1 ORDER BY seq DESC LIMIT ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![function, RECORDS_LISTED_MAX as i64])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(head(row)?);
    }
    found.reverse();
    Ok(found)
}

/// The record of this id.
pub(crate) fn execution(
    connection: &Connection,
    function: i64,
    id: &str,
) -> Read<Option<ExecutionRecord>> {
    let sql = format!(
        "SELECT {HEAD}, request_headers, response_headers, logs, errors FROM execution \
         WHERE function = ?1 AND id = ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![function, id])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let mut found = head(row)?;
    let read = |position: usize| -> Read<Headers> {
        let text: String = row.get(position)?;
        headers(&text).ok_or_else(|| corrupt(format!("the headers of `{id}` cannot be read")))
    };
    found.request_headers = read(12)?;
    found.response_headers = read(13)?;
    (found.logs, found.errors) = (row.get(14)?, row.get(15)?);
    Ok(Some(found))
}
