//! Deployments of functions: made, filled, built, removed.

use std::sync::Arc;

use model::{ActiveDeployment, DeploymentId, Function, Timestamp};

use super::halt::{Halt, Step};
use super::run::Run;
use super::stored_tables::StoredTables;
use crate::function_name::FunctionName;
use crate::function_op::{
    ArchivePart, ArchivePiece, DEPLOYMENTS_MAX, Deployment, DeploymentAct, DeploymentRefusal,
    DeploymentStatus, PIECE_BYTES_MAX, PIECES_MAX, UPLOAD_KEPT_US,
};
use crate::refusal::{Container, Refusal};
use crate::stored::deployments::{self, GoneDeployments, NewDeployment};

/// Most uploads that were never completed and that a new deployment removes: more than one, so that
/// they cannot pile up.
const REMOVED_MAX: i64 = 2;

impl<D: StoredTables> Run<'_, D> {
    pub(super) fn create_deployment(
        &mut self,
        name: &FunctionName,
        id: &DeploymentId,
        source_bytes: u64,
        (activate, entrypoint, commands): (bool, &str, &str),
    ) -> Step<()> {
        let function = self.function(name)?.seq;
        let kept_from = Timestamp(self.now().0.saturating_sub(UPLOAD_KEPT_US));
        self.remove_deployments(GoneDeployments::Unsent(kept_from, REMOVED_MAX))?;
        let same = deployments::of_id(function, id);
        if self.rows().first_stored(&same)?.is_some() {
            return Err(Refusal::Exists(Container::Deployment).into());
        }
        let count = self.rows().first_stored(&deployments::count(function))?;
        if count.unwrap_or_default() >= DEPLOYMENTS_MAX as i64 {
            let (kind, max) = (Container::Deployment, DEPLOYMENTS_MAX);
            return Err(Refusal::TooMany { kind, max }.into());
        }
        let new = NewDeployment {
            function,
            id,
            source_bytes,
            activate,
            entrypoint,
            commands,
        };
        let insert = deployments::insert(&new, self.now());
        self.rows().change_stored(&insert)?;
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
        let found = self.rows().first_stored(&read)?;
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
                self.remove_deployments(GoneDeployments::One(known.seq))
            }
            DeploymentAct::BeginBuild
            | DeploymentAct::EndBuild { .. }
            | DeploymentAct::Cancel
            | DeploymentAct::Activate => Err(Refusal::OfDeployment(moved).into()),
        }
    }

    pub(super) fn restart_builds(&self) -> Step<()> {
        let restart = deployments::restart_builds(self.now());
        Ok(self.rows().change_in_order(restart)?)
    }

    fn set_status(&self, known: &Deployment, status: DeploymentStatus, build_ms: u64) -> Step<()> {
        let set = deployments::set_status(known.seq, (status, build_ms), self.now());
        self.rows().change_stored(&set)?;
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
        let end = end_of(known, piece)?;
        // The one before its end is the last that it can meet.
        let before = deployments::last_piece_before(known.seq, piece.part, end);
        let before = self.rows().first_stored(&before)?;
        if before.is_some_and(|before| before > piece.start) {
            if self.holds_piece(known, piece)? {
                return Ok(());
            }
            return Err(refused("meets bytes that were sent before"));
        }
        let count = deployments::count_pieces(known.seq, piece.part);
        let count = self.rows().first_stored(&count)?;
        if count.unwrap_or_default() >= PIECES_MAX as i64 {
            return Err(refused("is one of too many"));
        }
        let add = deployments::add_piece(known.seq, piece, self.now());
        Ok(self.rows().change_in_order(add)?)
    }

    /// Whether this very piece is there.
    fn holds_piece(&self, known: &Deployment, piece: &ArchivePiece) -> Step<bool> {
        let Some(read) = deployments::piece(known.seq, piece.part, piece.start) else {
            return Ok(false);
        };
        let held = self.rows().first_stored(&read)?;
        Ok(held.is_some_and(|held| held.bytes == piece.bytes))
    }

    /// Removes deployments, and leaves their pieces to the upkeep.
    pub(super) fn remove_deployments(&self, gone: GoneDeployments) -> Step<()> {
        if self.rows().change_stored(&gone.leave_pieces())? > 0 {
            self.of_functions.leaves_pieces.set(true);
            self.rows().change_stored(&gone.remove())?;
        }
        Ok(())
    }
}

/// Where a piece ends.
fn end_of(known: &Deployment, piece: &ArchivePiece) -> Step<u64> {
    let length = piece.bytes.len() as u64;
    let end = piece.start.checked_add(length);
    let end = end.filter(|end| i64::try_from(*end).is_ok());
    let end = end.ok_or_else(|| refused("ends beyond the archive"))?;
    if length == 0 || length > PIECE_BYTES_MAX as u64 {
        return Err(refused("is empty or too large"));
    }
    if piece.part == ArchivePart::Source && end > known.source_bytes {
        return Err(refused("ends beyond the archive"));
    }
    Ok(end)
}

fn refused(why: &'static str) -> Halt {
    Refusal::OfDeployment(DeploymentRefusal::PieceInvalid(why)).into()
}

fn active(known: &Deployment) -> ActiveDeployment {
    ActiveDeployment {
        id: known.id.clone(),
        seq: known.seq,
        created: known.created,
    }
}
