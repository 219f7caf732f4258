//! Deployments and their pieces, as they are stored.

use model::DeploymentId;

use super::read::StoredRead;
use super::row::{Read, StoredCell, StoredRow, flag, instant, int, other, string, text};
use crate::error::corrupt;
use crate::function_op::{ArchivePart, ArchivePiece, Deployment, DeploymentStatus};

/// The columns of a deployment, as [`deployment`] reads them.
const DEPLOYMENT: &str = "seq, id, status, activate, entrypoint, commands, bytes, received, \
                          output, build_ms, created, updated, function";

fn deployment(row: &dyn StoredRow) -> Read<Deployment> {
    let id = text(row, 1)?;
    let broken = || corrupt(format!("the deployment `{id}` cannot be read"));
    Ok(Deployment {
        seq: int(row, 0)?,
        id: DeploymentId::new(id).map_err(|_| broken())?,
        status: DeploymentStatus::parse(text(row, 2)?).ok_or_else(broken)?,
        activate: flag(row, 3)?,
        entrypoint: string(row, 4)?,
        commands: string(row, 5)?,
        source_bytes: bytes(row, 6)?,
        received_bytes: bytes(row, 7)?,
        output_bytes: bytes(row, 8)?,
        build_ms: bytes(row, 9)?,
        created: instant(row, 10)?,
        updated: instant(row, 11)?,
    })
}

fn bytes(row: &dyn StoredRow, position: usize) -> Read<u64> {
    Ok(int(row, position)?.unsigned_abs())
}

/// Of a function, in the order of their creation.
pub(crate) fn of_function(function: i64) -> StoredRead<Deployment> {
    StoredRead {
        sql: format!("SELECT {DEPLOYMENT} FROM deployment WHERE function = $1 ORDER BY seq"),
        parameters: vec![function.into()],
        read: deployment,
    }
}

/// The one of a function that was created last.
pub(crate) fn latest(function: i64) -> StoredRead<Deployment> {
    StoredRead {
        sql: format!(
            "SELECT {DEPLOYMENT} FROM deployment WHERE function = $1 ORDER BY seq DESC LIMIT 1"
        ),
        parameters: vec![function.into()],
        read: deployment,
    }
}

/// The one of this id.
pub(crate) fn of_id(function: i64, id: &DeploymentId) -> StoredRead<Deployment> {
    StoredRead {
        sql: format!("SELECT {DEPLOYMENT} FROM deployment WHERE function = $1 AND id = $2"),
        parameters: vec![function.into(), id.as_str().into()],
        read: deployment,
    }
}

/// The one that has waited for its build the longest, with the number of its function.
pub(crate) fn next_build() -> StoredRead<(i64, Deployment)> {
    StoredRead {
        sql: format!(
            "SELECT {DEPLOYMENT} FROM deployment \
             WHERE status = 'waiting' AND received = bytes ORDER BY seq LIMIT 1"
        ),
        parameters: Vec::new(),
        read: |row| Ok((int(row, 12)?, deployment(row)?)),
    }
}

/// Written to disk: never to be changed.
pub(crate) fn part_text(part: ArchivePart) -> &'static str {
    match part {
        ArchivePart::Source => "source",
        ArchivePart::Output => "output",
        ArchivePart::Log => "log",
    }
}

/// The piece that begins at `from` or after it; `None` where none can.
pub(crate) fn piece(
    deployment: i64,
    part: ArchivePart,
    from: u64,
) -> Option<StoredRead<ArchivePiece>> {
    let from = i64::try_from(from).ok()?;
    let sql = "SELECT start, bytes FROM deployment_piece \
               WHERE deployment = $1 AND part = $2 AND start >= $3 ORDER BY start LIMIT 1";
    Some(StoredRead {
        sql: sql.to_owned(),
        parameters: vec![deployment.into(), part_text(part).into(), from.into()],
        read: match part {
            ArchivePart::Source => |row| read_piece(row, ArchivePart::Source),
            ArchivePart::Output => |row| read_piece(row, ArchivePart::Output),
            ArchivePart::Log => |row| read_piece(row, ArchivePart::Log),
        },
    })
}

fn read_piece(row: &dyn StoredRow, part: ArchivePart) -> Read<ArchivePiece> {
    let start = bytes(row, 0)?;
    match row.cell(1)? {
        StoredCell::Bytes(bytes) => Ok(ArchivePiece {
            part,
            start,
            bytes: bytes.into(),
        }),
        cell => Err(other(cell)),
    }
}

/// Where the pieces of the archive that was sent begin, and how many bytes they have.
pub(crate) fn source_extents(deployment: i64) -> StoredRead<(u64, u64)> {
    let sql = "SELECT start, CAST(length(bytes) AS bigint) FROM deployment_piece \
               WHERE deployment = $1 AND part = 'source' ORDER BY start";
    StoredRead {
        sql: sql.to_owned(),
        parameters: vec![deployment.into()],
        read: |row| Ok((bytes(row, 0)?, bytes(row, 1)?)),
    }
}
