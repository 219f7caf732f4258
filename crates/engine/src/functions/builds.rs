//! What an executor asks of deployments: which one is to be built next, and where what its build
//! makes is kept. There is no caller here: the executor is the server's own.

use std::sync::Arc;

use model::{Function, Project};
use store::function_op::PIECE_BYTES_MAX;
use store::{
    ArchivePart, ArchivePiece, Deployment, DeploymentAct, DeploymentStatus, FunctionOp, Variable,
};

use crate::Engine;
use crate::error::EngineError;

/// A deployment that is being built.
#[derive(Clone, Debug)]
pub struct Build {
    /// Its function, as of the beginning.
    pub function: Arc<Function>,
    /// The deployment.
    pub deployment: Deployment,
}

impl Engine {
    /// Takes up the deployment that has waited for its build the longest; `None` where none waits.
    /// Those of the project of the function `last`, whose build came last, stand behind all others,
    /// so that one project with many does not hold up the rest. Its archive is read by
    /// [`Engine::piece`].
    ///
    /// # Errors
    /// [`crate::FunctionError::BuildMoved`] when it was given up meanwhile.
    pub async fn begin_build(&self, last: Option<&Function>) -> Result<Option<Build>, EngineError> {
        let passed = last.map_or_else(Vec::new, |last| self.functions_beside(last.seq));
        let store = &self.shared.store;
        let mut next = store.next_build(&passed).await?;
        if next.is_none() && !passed.is_empty() {
            next = store.next_build(&[]).await?;
        }
        let Some((seq, deployment)) = next else {
            return Ok(None);
        };
        let catalogue = self.catalogue();
        let mut functions = catalogue
            .projects()
            .flat_map(|project| project.functions.values());
        // It goes with its function.
        let Some(function) = functions.find(|function| function.seq == seq).cloned() else {
            return Ok(None);
        };
        let act = DeploymentAct::BeginBuild;
        self.act_on(None, &function, deployment.id.clone(), act)
            .await?;
        Ok(Some(Build {
            function,
            deployment,
        }))
    }

    /// The functions of the project that has this one. None once it is gone.
    fn functions_beside(&self, seq: i64) -> Vec<i64> {
        let catalogue = self.catalogue();
        let seqs = |project: &Project| -> Vec<i64> {
            let functions = project.functions.values();
            functions.map(|function| function.seq).collect()
        };
        let mut projects = catalogue.projects().map(|project| seqs(project));
        projects
            .find(|seqs| seqs.contains(&seq))
            .unwrap_or_default()
    }

    /// Lets deployments that a server was building when it ended wait for their build again.
    ///
    /// # Errors
    /// What the store says.
    pub async fn restart_builds(&self) -> Result<(), EngineError> {
        self.change_function(None, FunctionOp::RestartBuilds).await
    }

    /// The variables that are not secret: what a build may see.
    ///
    /// # Errors
    /// What the store says of one that cannot be opened.
    pub async fn build_variables(&self, build: &Build) -> Result<Vec<Variable>, EngineError> {
        let mut all = self.shared.store.variables(build.function.seq).await?;
        all.retain(|variable| !variable.secret);
        Ok(all)
    }

    /// Whether a build was neither given up nor deleted.
    ///
    /// # Errors
    /// What the store says.
    pub async fn is_building(&self, build: &Build) -> Result<bool, EngineError> {
        let all = self.shared.store.deployments(build.function.seq).await?;
        let seq = build.deployment.seq;
        let is_this = |one: &Deployment| one.seq == seq && one.status == DeploymentStatus::Building;
        Ok(all.iter().any(is_this))
    }

    /// Keeps bytes that a build made, or said, from `start` on.
    ///
    /// # Errors
    /// [`crate::FunctionError::RangeInvalid`] for bytes that meet others;
    /// [`crate::FunctionError::DeploymentNotFound`] when it was deleted meanwhile.
    pub async fn keep_of_build(
        &self,
        build: &Build,
        part: ArchivePart,
        start: u64,
        bytes: &[u8],
    ) -> Result<(), EngineError> {
        let starts = (start..).step_by(PIECE_BYTES_MAX);
        for (start, bytes) in starts.zip(bytes.chunks(PIECE_BYTES_MAX)) {
            let bytes = bytes.into();
            let act = DeploymentAct::PutPiece(ArchivePiece { part, start, bytes });
            let id = build.deployment.id.clone();
            self.act_on(None, &build.function, id, act).await?;
        }
        Ok(())
    }

    /// Ends a build that took so many milliseconds. A deployment that is to be active becomes so if
    /// it is ready, unless a later one is.
    ///
    /// # Errors
    /// [`crate::FunctionError::BuildMoved`] when it was given up meanwhile;
    /// [`crate::FunctionError::DeploymentNotFound`] when it was deleted.
    pub async fn end_build(
        &self,
        build: &Build,
        is_ready: bool,
        build_ms: u64,
    ) -> Result<(), EngineError> {
        let act = DeploymentAct::EndBuild { is_ready, build_ms };
        let id = build.deployment.id.clone();
        self.act_on(None, &build.function, id, act).await
    }
}
