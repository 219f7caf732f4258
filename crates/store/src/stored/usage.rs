//! What a store holds, by the counters that it keeps.

use model::{TableNumber, Timestamp};
use query::Dialect;

use super::read::{StoredRead, join_of};
use super::row::int;
use crate::OpenTransactions;

/// How many bytes the versions of each table hold.
pub(crate) fn table_bytes() -> StoredRead<(TableNumber, i64)> {
    StoredRead {
        sql: "SELECT tab, bytes FROM table_bytes ORDER BY tab".to_owned(),
        parameters: Vec::new(),
        read: |row| Ok((TableNumber(int(row, 0)?), int(row, 1)?)),
    }
}

/// The transactions of clients that are open. By projects, so that the index of those that are open
/// leads past the ended ones.
pub(crate) fn open_transactions(dialect: Dialect) -> StoredRead<OpenTransactions> {
    StoredRead {
        sql: format!(
            "SELECT count(*), CAST(coalesce(sum(staged.bytes), 0) AS bigint) FROM project \
             {} staged ON staged.project = project.id \
             WHERE project.st = {} AND staged.status = 'pending'",
            join_of(dialect),
            Timestamp::END.0
        ),
        parameters: Vec::new(),
        read: |row| {
            Ok(OpenTransactions {
                count: int(row, 0)?.unsigned_abs(),
                bytes: int(row, 1)?.unsigned_abs(),
            })
        },
    }
}

/// Bytes of the answers that are kept.
pub(crate) fn kept_answer_bytes() -> StoredRead<u64> {
    StoredRead {
        sql: "SELECT CAST(coalesce(sum(bytes), 0) AS bigint) FROM kept_bytes".to_owned(),
        parameters: Vec::new(),
        read: |row| Ok(int(row, 0)?.unsigned_abs()),
    }
}
