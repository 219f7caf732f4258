//! Deployments of functions: made, filled, built, removed.

use std::sync::Arc;

use model::{ActiveDeployment, DeploymentId, Function};
use rusqlite::{OptionalExtension as _, ToSql, params};

use super::run::SqliteRun;
use crate::function_name::FunctionName;
use crate::function_op::{
    ArchivePart, ArchivePiece, DEPLOYMENTS_MAX, Deployment, DeploymentAct, DeploymentRefusal,
    DeploymentStatus, PIECE_BYTES_MAX, PIECES_MAX, UPLOAD_KEPT_US,
};
use crate::laws::halt::Step;
use crate::refusal::{Container, Refusal};
use crate::sqlite::schema::stored_reads;
use crate::stored::deployments::{self, part_text};

/// Most uploads that were never completed and that a new deployment removes: more than one, so that
/// they cannot pile up.
const REMOVED_MAX: i64 = 2;

impl SqliteRun<'_, '_> {
    pub(super) fn create_deployment(
        &mut self,
        name: &FunctionName,
        id: &DeploymentId,
        source_bytes: u64,
        (activate, entrypoint, commands): (bool, &str, &str),
    ) -> Step<()> {
        let function = self.function(name)?.seq;
        let kept_from = self.now().0.saturating_sub(UPLOAD_KEPT_US);
        let unsent = "seq IN (SELECT seq FROM deployment WHERE received < bytes AND created < ?1 \
                      ORDER BY created LIMIT ?2)";
        self.remove_deployments(unsent, &[&kept_from, &REMOVED_MAX])?;
        let same = deployments::of_id(function, id);
        if stored_reads::first(self.rows.connection, &same)?.is_some() {
            return Err(Refusal::Exists(Container::Deployment).into());
        }
        let count: i64 = self
            .statement("SELECT count(*) FROM deployment WHERE function = ?1")?
            .query_row([function], |row| row.get(0))?;
        if count >= DEPLOYMENTS_MAX as i64 {
            let (kind, max) = (Container::Deployment, DEPLOYMENTS_MAX);
            return Err(Refusal::TooMany { kind, max }.into());
        }
        self.statement(
            "INSERT INTO deployment (function, id, status, activate, entrypoint, commands, bytes, \
             received, output, build_ms, created, updated) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, 0, ?8, ?8)",
        )?
        .execute(params![
            function,
            id.as_str(),
            DeploymentStatus::Waiting.as_str(),
            activate,
            entrypoint,
            commands,
            source_bytes.cast_signed(),
            self.now().0
        ])?;
        Ok(())
    }

    pub(super) fn deployment_act(
        &mut self,
        name: &FunctionName,
        id: &DeploymentId,
        act: &DeploymentAct,
    ) -> Step<()> {
        use DeploymentStatus as S;
        let function = self.function(name)?;
        let read = deployments::of_id(function.seq, id);
        let found = stored_reads::first(self.rows.connection, &read)?;
        let missing = || Refusal::NotFound(Container::Deployment, id.to_string());
        let known = found.ok_or_else(missing)?;
        let moved = DeploymentRefusal::BuildMoved(known.status);
        match act {
            DeploymentAct::PutPiece(piece) => self.put_piece(&known, piece),
            DeploymentAct::BeginBuild if known.status == S::Waiting && known.is_whole() => {
                self.set_status(&known, S::Building, 0)
            }
            DeploymentAct::EndBuild { is_ready, build_ms } if known.status == S::Building => {
                self.end_build(&function, &known, *is_ready, *build_ms)
            }
            DeploymentAct::Cancel if matches!(known.status, S::Waiting | S::Building) => {
                self.set_status(&known, S::Canceled, 0)
            }
            DeploymentAct::Activate if known.status == S::Ready => {
                self.activate(&function, Some(active(&known)))
            }
            DeploymentAct::Delete | DeploymentAct::Expire => {
                let active = function.active.as_ref();
                if active.is_some_and(|active| active.id == known.id) {
                    if matches!(act, DeploymentAct::Expire) {
                        return Ok(());
                    }
                    self.activate(&function, None)?;
                }
                self.remove_deployments("seq = ?1", &[&known.seq])
            }
            DeploymentAct::BeginBuild
            | DeploymentAct::EndBuild { .. }
            | DeploymentAct::Cancel
            | DeploymentAct::Activate => Err(Refusal::OfDeployment(moved).into()),
        }
    }

    pub(super) fn restart_builds(&self) -> Step<()> {
        // One at a time is built, so its pieces are no more than one archive's.
        let made = "DELETE FROM deployment_piece WHERE part IN (?2, ?3) AND deployment IN \
                    (SELECT seq FROM deployment WHERE status = ?1)";
        let building = DeploymentStatus::Building.as_str();
        let parts = [ArchivePart::Output, ArchivePart::Log].map(part_text);
        self.statement(made)?
            .execute(params![building, parts[0], parts[1]])?;
        self.statement(
            "UPDATE deployment SET status = ?2, output = 0, updated = ?3 WHERE status = ?1",
        )?
        .execute(params![
            building,
            DeploymentStatus::Waiting.as_str(),
            self.now().0
        ])?;
        Ok(())
    }

    fn set_status(&self, known: &Deployment, status: DeploymentStatus, build_ms: u64) -> Step<()> {
        self.statement(
            "UPDATE deployment SET status = ?2, build_ms = ?3, updated = ?4 WHERE seq = ?1",
        )?
        .execute(params![
            known.seq,
            status.as_str(),
            build_ms.cast_signed(),
            self.now().0
        ])?;
        Ok(())
    }

    fn end_build(
        &mut self,
        function: &Arc<Function>,
        known: &Deployment,
        is_ready: bool,
        build_ms: u64,
    ) -> Step<()> {
        if !is_ready {
            return self.set_status(known, DeploymentStatus::Failed, build_ms);
        }
        self.set_status(known, DeploymentStatus::Ready, build_ms)?;
        let later = function.active.as_ref();
        let is_late = later.is_some_and(|active| active.seq > known.seq);
        if known.activate && !is_late {
            self.activate(function, Some(active(known)))?;
        }
        Ok(())
    }

    /// Stores a piece of a deployment.
    fn put_piece(&self, known: &Deployment, piece: &ArchivePiece) -> Step<()> {
        let refuse = |why| {
            let refusal = DeploymentRefusal::PieceInvalid(why);
            Err(Refusal::OfDeployment(refusal).into())
        };
        let length = piece.bytes.len() as u64;
        let Some(end) = piece.start.checked_add(length) else {
            return refuse("ends beyond the archive");
        };
        if length == 0 || length > PIECE_BYTES_MAX as u64 {
            return refuse("is empty or too large");
        }
        if piece.part == ArchivePart::Source && end > known.source_bytes {
            return refuse("ends beyond the archive");
        }
        let (part, start) = (part_text(piece.part), piece.start.cast_signed());
        // The one before its end is the last that it can meet.
        let sql = "SELECT start, length(bytes), start = ?3 AND bytes = ?5 FROM deployment_piece \
                   WHERE deployment = ?1 AND part = ?2 AND start < ?4 ORDER BY start DESC LIMIT 1";
        let named = params![known.seq, part, start, end.cast_signed(), &*piece.bytes];
        let before: Option<(i64, i64, bool)> = self
            .statement(sql)?
            .query_row(named, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        if let Some((other, length, is_same)) = before {
            if is_same {
                return Ok(());
            }
            if other + length > start {
                return refuse("meets bytes that were sent before");
            }
        }
        let count: i64 = self
            .statement("SELECT count(*) FROM deployment_piece WHERE deployment = ?1 AND part = ?2")?
            .query_row(params![known.seq, part], |row| row.get(0))?;
        if count >= PIECES_MAX as i64 {
            return refuse("is one of too many");
        }
        self.statement(
            "INSERT INTO deployment_piece (deployment, part, start, bytes) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![known.seq, part, start, &*piece.bytes])?;
        let counter = match piece.part {
            ArchivePart::Source => "received",
            ArchivePart::Output => "output",
            ArchivePart::Log => return Ok(()),
        };
        let sql = format!(
            "UPDATE deployment SET {counter} = {counter} + ?2, updated = ?3 WHERE seq = ?1"
        );
        self.statement(&sql)?
            .execute(params![known.seq, length.cast_signed(), self.now().0])?;
        Ok(())
    }

    /// Removes deployments, and leaves their pieces to the upkeep.
    pub(super) fn remove_deployments(
        &self,
        condition: &str,
        parameters: &[&dyn ToSql],
    ) -> Step<()> {
        let gone = format!(
            "INSERT INTO pieces_gone (deployment) SELECT seq FROM deployment WHERE {condition}"
        );
        if self.statement(&gone)?.execute(parameters)? > 0 {
            self.of_functions.leaves_pieces.set(true);
            self.statement(&format!("DELETE FROM deployment WHERE {condition}"))?
                .execute(parameters)?;
        }
        Ok(())
    }
}

fn active(known: &Deployment) -> ActiveDeployment {
    ActiveDeployment {
        id: known.id.clone(),
        seq: known.seq,
        created: known.created,
    }
}
