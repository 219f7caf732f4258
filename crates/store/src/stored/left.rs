//! What is left of functions and deployments that are gone, and of records that are kept no longer.

use model::Timestamp;

use super::change::StoredChange;
use super::read::StoredRead;
use super::row::{Read, StoredRow, instant, int};

/// Whether there is any: a row if so.
pub(crate) fn any() -> StoredRead<i64> {
    let sql = "SELECT deployment FROM pieces_gone UNION ALL SELECT function FROM executions_gone \
               UNION ALL SELECT seq FROM calls_gone \
               UNION ALL SELECT function FROM executions_old LIMIT 1";
    StoredRead {
        sql: sql.to_owned(),
        parameters: Vec::new(),
        read: |row| int(row, 0),
    }
}

/// The first deployment of which pieces are left.
pub(crate) fn deployment() -> StoredRead<i64> {
    StoredRead {
        sql: "SELECT deployment FROM pieces_gone ORDER BY deployment LIMIT 1".to_owned(),
        parameters: Vec::new(),
        read: |row| int(row, 0),
    }
}

/// Removes so many of them.
pub(crate) fn remove_pieces(deployment: i64, count_max: i64) -> StoredChange {
    StoredChange::new(
        "DELETE FROM deployment_piece WHERE deployment = $1 AND (part, start) IN \
         (SELECT part, start FROM deployment_piece WHERE deployment = $1 LIMIT $2)",
        [deployment.into(), count_max.into()],
    )
}

/// Notes that none is left.
pub(crate) fn end_pieces(deployment: i64) -> StoredChange {
    let sql = "DELETE FROM pieces_gone WHERE deployment = $1";
    StoredChange::new(sql, [deployment.into()])
}

/// The first function that is gone and of which records are left.
pub(crate) fn function() -> StoredRead<i64> {
    StoredRead {
        sql: "SELECT function FROM executions_gone ORDER BY function LIMIT 1".to_owned(),
        parameters: Vec::new(),
        read: |row| int(row, 0),
    }
}

/// The oldest records of a function, with their bytes.
pub(crate) fn records(function: i64, count_max: i64) -> StoredRead<(i64, i64)> {
    let sql = "SELECT seq, bytes FROM execution WHERE function = $1 ORDER BY seq LIMIT $2";
    StoredRead {
        sql: sql.to_owned(),
        parameters: vec![function.into(), count_max.into()],
        read: number_and_bytes,
    }
}

/// Removes the oldest records of a function, up to this one.
pub(crate) fn remove_records(function: i64, last: i64) -> StoredChange {
    let sql = "DELETE FROM execution WHERE function = $1 AND seq <= $2";
    StoredChange::new(sql, [function.into(), last.into()])
}

/// Notes that none is left of a function that is gone.
pub(crate) fn end_records(function: i64) -> StoredChange {
    let sql = "DELETE FROM executions_gone WHERE function = $1";
    StoredChange::new(sql, [function.into()])
}

/// What handlers of functions that are gone were to be given, with its bytes.
pub(crate) fn calls(count_max: i64) -> StoredRead<(i64, i64)> {
    let sql = "SELECT g.seq, CAST(coalesce(length(c.call), 0) AS bigint) FROM calls_gone AS g \
               LEFT JOIN queued_call AS c ON c.seq = g.seq ORDER BY g.seq LIMIT $1";
    StoredRead {
        sql: sql.to_owned(),
        parameters: vec![count_max.into()],
        read: number_and_bytes,
    }
}

/// Removes it up to this number.
pub(crate) fn remove_calls(last: i64) -> [StoredChange; 2] {
    [
        "DELETE FROM queued_call WHERE seq IN (SELECT seq FROM calls_gone WHERE seq <= $1)",
        "DELETE FROM calls_gone WHERE seq <= $1",
    ]
    .map(|sql| StoredChange::new(sql, [last.into()]))
}

/// What a function keeps of records, and what it is to keep.
pub(crate) struct OldRecords {
    pub(crate) function: i64,
    pub(crate) count_max: i64,
    pub(crate) bytes_max: i64,
    pub(crate) since: Timestamp,
    pub(crate) count: i64,
    pub(crate) bytes: i64,
}

/// The first function that is to keep fewer than it does.
pub(crate) fn old() -> StoredRead<OldRecords> {
    let sql = "SELECT function, count_max, bytes_max, since, count, bytes FROM executions_old \
               JOIN execution_kept USING (function) ORDER BY function LIMIT 1";
    StoredRead {
        sql: sql.to_owned(),
        parameters: Vec::new(),
        read: |row| {
            Ok(OldRecords {
                function: int(row, 0)?,
                count_max: int(row, 1)?,
                bytes_max: int(row, 2)?,
                since: instant(row, 3)?,
                count: int(row, 4)?,
                bytes: int(row, 5)?,
            })
        },
    }
}

/// A record that may be too old.
pub(crate) struct OldRecord {
    pub(crate) seq: i64,
    pub(crate) bytes: i64,
    pub(crate) created: Timestamp,
}

/// The oldest records of a function.
pub(crate) fn old_records(function: i64, count_max: i64) -> StoredRead<OldRecord> {
    let sql = "SELECT seq, bytes, created FROM execution WHERE function = $1 \
               ORDER BY seq LIMIT $2";
    StoredRead {
        sql: sql.to_owned(),
        parameters: vec![function.into(), count_max.into()],
        read: |row| {
            Ok(OldRecord {
                seq: int(row, 0)?,
                bytes: int(row, 1)?,
                created: instant(row, 2)?,
            })
        },
    }
}

/// Counts records of a function no more.
pub(crate) fn count_less(function: i64, count: i64, bytes: i64) -> StoredChange {
    StoredChange::new(
        "UPDATE execution_kept SET count = count - $1, bytes = bytes - $2 WHERE function = $3",
        [count.into(), bytes.into(), function.into()],
    )
}

/// Notes that a function keeps no more than it is to.
pub(crate) fn end_old(function: i64) -> StoredChange {
    let sql = "DELETE FROM executions_old WHERE function = $1";
    StoredChange::new(sql, [function.into()])
}

fn number_and_bytes(row: &dyn StoredRow) -> Read<(i64, i64)> {
    Ok((int(row, 0)?, int(row, 1)?))
}
