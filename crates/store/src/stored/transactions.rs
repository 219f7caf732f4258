//! Transactions of clients and the requests that ran, as they are stored.

use model::{Mark, ProjectId, Table};
use query::Dialect;

use super::change::StoredChange;
use super::parameter::StoredParameter;
use super::read::{StoredRead, texts_of};
use super::row::{Read, StoredCell, StoredRow, id, instant, int, other, string, text};
use crate::StoreError;
use crate::error::corrupt;
use crate::staged::{KeptRequest, StagedOperation, Transaction, TransactionStatus};
use crate::vault::{Place, StoredText, Vault};

/// The columns of a transaction, as [`transaction`] reads them.
const COLUMNS: &str = "seq, project, id, owner, status, created, updated, expires, count, bytes";

/// Of a project, oldest first.
pub(crate) fn of_project(project: &ProjectId) -> StoredRead<Transaction> {
    StoredRead {
        sql: format!("SELECT {COLUMNS} FROM staged WHERE project = $1 ORDER BY seq"),
        parameters: vec![project.as_str().into()],
        read: transaction,
    }
}

/// The transaction of this id.
pub(crate) fn of_id(project: &ProjectId, id: &str) -> StoredRead<Transaction> {
    StoredRead {
        sql: format!("SELECT {COLUMNS} FROM staged WHERE project = $1 AND id = $2"),
        parameters: vec![project.as_str().into(), id.into()],
        read: transaction,
    }
}

/// The numbers of open ones with operations on the database of a table that were staged while there
/// was no key.
pub(crate) fn open_and_plain(dialect: Dialect, table: &Table) -> StoredRead<i64> {
    let is_plain = match dialect {
        Dialect::Sqlite => "typeof(o.body) = 'text'",
        // As `StoredText` tells them apart.
        Dialect::Postgres => "NOT starts_with(o.body, chr(1))",
    };
    let database = format!("{}/", table.database);
    StoredRead {
        sql: format!(
            "SELECT DISTINCT s.seq FROM staged AS s JOIN staged_op AS o ON o.tx = s.seq \
             WHERE s.project = $1 AND s.status = $2 AND {is_plain} \
             AND substr(o.place, 1, length($3)) = $3 ORDER BY s.seq"
        ),
        parameters: vec![
            table.project.as_str().into(),
            TransactionStatus::Pending.as_str().into(),
            (&*database).into(),
        ],
        read: |row| int(row, 0),
    }
}

/// Removes the transactions of a project that goes, and the keys of its requests.
pub(crate) fn remove_of_project(project: &ProjectId) -> [StoredChange; 3] {
    [
        "DELETE FROM request_key WHERE project = $1",
        "DELETE FROM kept_bytes WHERE project = $1",
        "DELETE FROM staged WHERE project = $1",
    ]
    .map(|sql| StoredChange::new(sql, vec![project.as_str().into()]))
}

fn transaction(row: &dyn StoredRow) -> Read<Transaction> {
    let status = text(row, 4)?;
    let size = |position| int(row, position).map(|size| size as usize);
    Ok(Transaction {
        seq: int(row, 0)?,
        project: id(row, 1, ProjectId::new)?,
        id: string(row, 2)?,
        owner: string(row, 3)?,
        status: parse_status(status)
            .ok_or_else(|| corrupt(format!("unknown status of a transaction {status:?}")))?,
        created: instant(row, 5)?,
        updated: instant(row, 6)?,
        expires: instant(row, 7)?,
        operation_count: size(8)?,
        operation_bytes: size(9)?,
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

/// An operation that was not opened.
pub(crate) struct StoredOperation {
    nth: i64,
    operation: StagedOperation,
    body: Option<StoredText>,
}

/// The operations of the transaction of this number, in the order of their effect: all of them, or
/// those about some tables.
pub(crate) fn operations(
    dialect: Dialect,
    seq: i64,
    places: Option<&[String]>,
) -> StoredRead<StoredOperation> {
    let mut parameters: Vec<StoredParameter> = vec![seq.into()];
    let mut about = String::new();
    if let Some(places) = places {
        about = format!("AND place IN {}", texts_of(dialect, 2));
        parameters.push(serde_json::Value::from(places).to_string().as_str().into());
    }
    StoredRead {
        sql: format!(
            "SELECT seen, place, id, body, n FROM staged_op WHERE tx = $1 {about} ORDER BY n"
        ),
        parameters,
        read: |row| {
            Ok(StoredOperation {
                nth: int(row, 4)?,
                operation: StagedOperation {
                    seen: Mark(int(row, 0)?),
                    place: string(row, 1)?,
                    row: match row.cell(2)? {
                        StoredCell::Null => None,
                        _ => Some(string(row, 2)?),
                    },
                    body: "".into(),
                },
                body: StoredText::of(row, 3)?,
            })
        },
    }
}

/// The operations of the transaction of this number.
pub(crate) fn opened(
    found: Vec<StoredOperation>,
    vault: &Vault,
    seq: i64,
) -> Result<Vec<StagedOperation>, StoreError> {
    let open = |stored: StoredOperation| {
        let mut operation = stored.operation;
        if let Some(body) = stored.body {
            operation.body = body.open(vault, Place::Operation(seq, stored.nth))?.into();
        }
        Ok(operation)
    };
    found.into_iter().map(open).collect()
}

/// A request that was not opened: both parts of it are sealed, or neither is.
pub(crate) struct StoredRequest {
    request: Option<StoredText>,
    kept: KeptRequest,
}

/// The first batch of the request of this key.
pub(crate) fn request(project: &ProjectId, key: &str) -> StoredRead<StoredRequest> {
    let sql = "SELECT request, at, answer FROM request_key \
               WHERE project = $1 AND key = $2 AND part = 0";
    StoredRead {
        sql: sql.to_owned(),
        parameters: vec![project.as_str().into(), key.into()],
        read: stored_request,
    }
}

fn stored_request(row: &dyn StoredRow) -> Read<StoredRequest> {
    Ok(StoredRequest {
        request: StoredText::of(row, 0)?,
        kept: KeptRequest {
            request: String::new(),
            at: instant(row, 1)?,
            answer: match row.cell(2)? {
                StoredCell::Null => None,
                StoredCell::Bytes(answer) => Some(answer.to_vec()),
                cell => return Err(other(cell)),
            },
        },
    })
}

impl StoredRequest {
    /// The request, which was sent under this key.
    pub(crate) fn open(
        self,
        vault: &Vault,
        (project, key): (&ProjectId, &str),
    ) -> Result<KeptRequest, StoreError> {
        let StoredRequest { request, mut kept } = self;
        if let (Some(StoredText::Sealed(_)), Some(sealed)) = (&request, &kept.answer) {
            let place = Place::Answer(project.as_str(), key, 0);
            kept.answer = Some(vault.open_sealed(place, sealed)?);
        }
        if let Some(request) = request {
            kept.request = request.open(vault, Place::Request(project.as_str(), key, 0))?;
        }
        Ok(kept)
    }
}
