//! Transactions of clients and the requests that ran, as they are stored.

use model::{ProjectId, Timestamp};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::StoreError;
use crate::error::corrupt;
use crate::sqlite::disk::vault::{Place, Vault};
use crate::staged::{KeptRequest, Transaction, TransactionStatus};

/// The columns of a transaction, as [`transaction`] reads them.
pub(crate) const COLUMNS: &str =
    "seq, project, id, owner, status, created, updated, expires, count, bytes";

/// The transaction of this id.
pub(crate) fn find(
    connection: &Connection,
    project: &ProjectId,
    id: &str,
) -> Result<Option<Transaction>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM staged WHERE project = ?1 AND id = ?2");
    let found = connection
        .prepare_cached(&sql)?
        .query_row(params![project.as_str(), id], |row| Ok(transaction(row)))
        .optional()?;
    found.transpose()
}

/// The first batch of the request of this key.
pub(crate) fn find_request(
    connection: &Connection,
    vault: &Vault,
    (project, key): (&ProjectId, &str),
) -> Result<Option<KeptRequest>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT request, at, answer FROM request_key \
         WHERE project = ?1 AND key = ?2 AND part = 0",
    )?;
    let mut rows = statement.query(params![project.as_str(), key])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let request = row.get_ref(0)?;
    // Both are sealed, or neither is.
    let is_sealed = matches!(request, ValueRef::Blob(_));
    let request = vault.text(request, Place::Request(project.as_str(), key, 0))?;
    let mut answer: Option<Vec<u8>> = row.get(2)?;
    if let (true, Some(sealed)) = (is_sealed, &answer) {
        let place = Place::Answer(project.as_str(), key, 0);
        answer = Some(vault.open_sealed(place, sealed)?);
    }
    Ok(Some(KeptRequest {
        request: request.unwrap_or_default(),
        at: Timestamp(row.get(1)?),
        answer,
    }))
}

/// A transaction, from [`COLUMNS`].
pub(crate) fn transaction(row: &Row<'_>) -> Result<Transaction, StoreError> {
    let project: String = row.get(1)?;
    let status: String = row.get(4)?;
    Ok(Transaction {
        seq: row.get(0)?,
        project: ProjectId::new(&project).map_err(|error| corrupt(error.to_string()))?,
        id: row.get(2)?,
        owner: row.get(3)?,
        status: parse_status(&status)
            .ok_or_else(|| corrupt(format!("unknown status of a transaction {status:?}")))?,
        created: Timestamp(row.get(5)?),
        updated: Timestamp(row.get(6)?),
        expires: Timestamp(row.get(7)?),
        operation_count: row.get::<_, i64>(8)? as usize,
        operation_bytes: row.get::<_, i64>(9)? as usize,
    })
}

fn parse_status(text: &str) -> Option<TransactionStatus> {
    Some(match text {
        "pending" => TransactionStatus::Pending,
        "committed" => TransactionStatus::Committed,
        "failed" => TransactionStatus::Failed,
        _ => return None,
    })
}
