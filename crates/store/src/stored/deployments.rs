//! Deployments and their pieces, as they are stored.

use model::{DeploymentId, Timestamp};
use query::Dialect;

use super::change::StoredChange;
use super::parameter::StoredParameter;
use super::read::{StoredRead, numbers_of};
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

/// The one that has waited for its build the longest, with the number of its function: none of the
/// functions `except`.
pub(crate) fn next_build(dialect: Dialect, except: &[i64]) -> StoredRead<(i64, Deployment)> {
    let except = serde_json::json!(except).to_string();
    StoredRead {
        sql: format!(
            "SELECT {DEPLOYMENT} FROM deployment \
             WHERE status = 'waiting' AND received = bytes AND function NOT IN {} \
             ORDER BY seq LIMIT 1",
            numbers_of(dialect, 1)
        ),
        parameters: vec![except.as_str().into()],
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

/// The piece that begins at `from`; `None` where none can.
pub(crate) fn piece(
    deployment: i64,
    part: ArchivePart,
    from: u64,
) -> Option<StoredRead<ArchivePiece>> {
    let from = i64::try_from(from).ok()?;
    let sql = "SELECT start, bytes FROM deployment_piece \
               WHERE deployment = $1 AND part = $2 AND start = $3";
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

/// How many a function has.
pub(crate) fn count(function: i64) -> StoredRead<i64> {
    StoredRead {
        sql: "SELECT count(*) FROM deployment WHERE function = $1".to_owned(),
        parameters: vec![function.into()],
        read: |row| int(row, 0),
    }
}

/// A deployment to be added.
pub(crate) struct NewDeployment<'a> {
    pub(crate) function: i64,
    pub(crate) id: &'a DeploymentId,
    pub(crate) source_bytes: u64,
    pub(crate) activate: bool,
    pub(crate) entrypoint: &'a str,
    pub(crate) commands: &'a str,
}

/// Adds a deployment that waits for its archive.
pub(crate) fn insert(new: &NewDeployment<'_>, now: Timestamp) -> StoredChange {
    StoredChange::new(
        "INSERT INTO deployment (function, id, status, activate, entrypoint, commands, bytes, \
         received, output, build_ms, created, updated) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, 0, $8, $8)",
        [
            new.function.into(),
            new.id.as_str().into(),
            DeploymentStatus::Waiting.as_str().into(),
            new.activate.into(),
            new.entrypoint.into(),
            new.commands.into(),
            new.source_bytes.cast_signed().into(),
            now.0.into(),
        ],
    )
}

/// Sets how far one is, and how long its build took.
pub(crate) fn set_status(
    seq: i64,
    (status, build_ms): (DeploymentStatus, u64),
    now: Timestamp,
) -> StoredChange {
    StoredChange::new(
        "UPDATE deployment SET status = $1, build_ms = $2, updated = $3 WHERE seq = $4",
        [
            status.as_str().into(),
            build_ms.cast_signed().into(),
            now.0.into(),
            seq.into(),
        ],
    )
}

/// Lets those that are being built wait again, without what their builds have made. One at a time
/// is built, so its pieces are no more than one archive's.
pub(crate) fn restart_builds(now: Timestamp) -> [StoredChange; 2] {
    let building = DeploymentStatus::Building.as_str();
    let made = StoredChange::new(
        "DELETE FROM deployment_piece WHERE part IN ($1, $2) AND deployment IN \
         (SELECT seq FROM deployment WHERE status = $3)",
        [
            part_text(ArchivePart::Output).into(),
            part_text(ArchivePart::Log).into(),
            building.into(),
        ],
    );
    let waiting = StoredChange::new(
        "UPDATE deployment SET status = $1, output = 0, updated = $2 WHERE status = $3",
        [
            DeploymentStatus::Waiting.as_str().into(),
            now.0.into(),
            building.into(),
        ],
    );
    [made, waiting]
}

/// Where the last piece ends that begins before `end`.
pub(crate) fn last_piece_before(deployment: i64, part: ArchivePart, end: u64) -> StoredRead<u64> {
    let sql = "SELECT start, CAST(length(bytes) AS bigint) FROM deployment_piece \
               WHERE deployment = $1 AND part = $2 AND start < $3 ORDER BY start DESC LIMIT 1";
    StoredRead {
        sql: sql.to_owned(),
        parameters: vec![
            deployment.into(),
            part_text(part).into(),
            end.cast_signed().into(),
        ],
        read: |row| Ok(bytes(row, 0)? + bytes(row, 1)?),
    }
}

/// How many pieces a part has.
pub(crate) fn count_pieces(deployment: i64, part: ArchivePart) -> StoredRead<i64> {
    let sql = "SELECT count(*) FROM deployment_piece WHERE deployment = $1 AND part = $2";
    StoredRead {
        sql: sql.to_owned(),
        parameters: vec![deployment.into(), part_text(part).into()],
        read: |row| int(row, 0),
    }
}

/// Adds a piece, and counts its bytes where they are counted.
pub(crate) fn add_piece(
    deployment: i64,
    piece: &ArchivePiece,
    now: Timestamp,
) -> impl Iterator<Item = StoredChange> {
    let add = StoredChange::new(
        "INSERT INTO deployment_piece (deployment, part, start, bytes) VALUES ($1, $2, $3, $4)",
        [
            deployment.into(),
            part_text(piece.part).into(),
            piece.start.cast_signed().into(),
            piece.bytes.to_vec().into(),
        ],
    );
    let counted = match piece.part {
        ArchivePart::Source => {
            Some("UPDATE deployment SET received = received + $1, updated = $2 WHERE seq = $3")
        }
        ArchivePart::Output => {
            Some("UPDATE deployment SET output = output + $1, updated = $2 WHERE seq = $3")
        }
        ArchivePart::Log => None,
    };
    let bytes = piece.bytes.len() as i64;
    let counted =
        counted.map(|sql| StoredChange::new(sql, [bytes.into(), now.0.into(), deployment.into()]));
    std::iter::once(add).chain(counted)
}

/// Which deployments go.
#[derive(Clone, Copy)]
pub(crate) enum GoneDeployments {
    /// The one of this number.
    One(i64),
    /// Those of a function.
    Of(i64),
    /// Those that were created before the instant and whose archive is not all there: the oldest
    /// ones, and so many at most.
    Unsent(Timestamp, i64),
}

impl GoneDeployments {
    fn condition(self) -> (&'static str, Vec<StoredParameter>) {
        match self {
            GoneDeployments::One(seq) => ("seq = $1", vec![seq.into()]),
            GoneDeployments::Of(function) => ("function = $1", vec![function.into()]),
            GoneDeployments::Unsent(before, count_max) => (
                "seq IN (SELECT seq FROM deployment WHERE received < bytes AND created < $1 \
                 ORDER BY created LIMIT $2)",
                vec![before.0.into(), count_max.into()],
            ),
        }
    }

    /// Notes that their pieces are to go.
    pub(crate) fn leave_pieces(self) -> StoredChange {
        let (condition, parameters) = self.condition();
        let sql = "INSERT INTO pieces_gone (deployment) SELECT seq FROM deployment WHERE";
        StoredChange::new(format!("{sql} {condition}"), parameters)
    }

    /// Removes them.
    pub(crate) fn remove(self) -> StoredChange {
        let (condition, parameters) = self.condition();
        StoredChange::new(
            format!("DELETE FROM deployment WHERE {condition}"),
            parameters,
        )
    }
}
