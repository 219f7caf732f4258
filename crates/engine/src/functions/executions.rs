//! Executions: who may execute what, and what an execution takes. Executing is not done here.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::{Function, Scope};
use store::{Deployment, Variable};

use crate::Engine;
use crate::error::refused::shown;
use crate::error::{AccessError, EngineError, FunctionError};
use crate::request::authorize;
use crate::request::inputs::Caller;

const EXECUTE: &[Scope] = &[Scope::ExecutionsWrite];

/// What an execution of a function takes besides its request. Has the values of secret variables:
/// it is for the function's own processes, and for no answer.
#[derive(Clone, Debug)]
pub struct Executable {
    /// The active deployment.
    pub deployment: Deployment,
    /// The variables, all with their values.
    pub variables: Vec<Variable>,
}

impl Engine {
    /// A function that the caller may execute.
    ///
    /// # Errors
    /// [`FunctionError::NotFound`], also of one that is disabled, for callers without a key;
    /// [`AccessError::Unauthorized`] without a role that may execute it.
    pub fn may_execute(&self, caller: &Caller, id: &str) -> Result<Arc<Function>, EngineError> {
        authorize::need_scope(caller, EXECUTE)?;
        let function = self.find_function(caller, id)?;
        let definition = &function.definition;
        if !caller.actor.bypasses_grants() {
            if !definition.enabled {
                return Err(FunctionError::NotFound(shown(id)).into());
            }
            let roles = caller.actor.roles();
            if !definition.execute.iter().any(|role| roles.holds(role)) {
                return Err(AccessError::Unauthorized.into());
            }
        }
        Ok(function)
    }

    /// What an execution of a function takes.
    ///
    /// # Errors
    /// [`FunctionError::NoActiveDeployment`], also where it was deleted meanwhile; what the store
    /// says of variables that cannot be opened.
    pub async fn executable(&self, function: &Function) -> Result<Executable, EngineError> {
        let missing = || EngineError::from(FunctionError::NoActiveDeployment);
        let active = function.active.as_ref().ok_or_else(missing)?;
        let store = &self.shared.store;
        let all = store.deployments(function.seq).await?;
        let deployment = all.into_iter().find(|one| one.seq == active.seq);
        Ok(Executable {
            deployment: deployment.ok_or_else(missing)?,
            variables: store.revealed_variables(function.seq).await?,
        })
    }

    /// Rises with each change of any function's variables: as long as it stands, what
    /// [`Engine::executable`] gave of one and the same [`Function`] holds.
    pub fn variables_epoch(&self) -> u64 {
        self.variables_epoch.load(Ordering::Acquire)
    }

    /// The active deployments of all functions, by [`Deployment::seq`].
    pub fn active_deployments(&self) -> HashSet<i64> {
        let catalogue = self.catalogue();
        let functions = catalogue
            .projects()
            .flat_map(|project| project.functions.values());
        functions
            .filter_map(|function| Some(function.active.as_ref()?.seq))
            .collect()
    }

    /// Lets the key that seals variables be in this file. Called before the first request.
    pub fn name_variables_key(&self, file: std::path::PathBuf) {
        self.shared.store.name_variables_key(file);
    }

    /// Functions whose variables cannot be opened, each as `project/function`, at most so many:
    /// their executions are refused.
    ///
    /// # Errors
    /// What the store says, but for the key.
    pub async fn functions_without_variables(
        &self,
        count_max: usize,
    ) -> Result<Vec<String>, EngineError> {
        use store::StoreError as E;
        let catalogue = self.catalogue();
        let functions = catalogue
            .projects()
            .flat_map(|project| project.functions.values());
        let mut lacking = Vec::new();
        for function in functions {
            if lacking.len() == count_max {
                break;
            }
            match self.shared.store.revealed_variables(function.seq).await {
                Ok(_) => {}
                Err(E::KeyMissing { .. } | E::KeyWrong { .. } | E::SealBroken { .. }) => {
                    let (project, id) = (function.project.as_str(), function.id.as_str());
                    lacking.push(format!("{project}/{id}"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(lacking)
    }

    /// Whether any project has a function.
    pub fn has_functions(&self) -> bool {
        let catalogue = self.catalogue();
        let mut projects = catalogue.projects();
        projects.any(|project| !project.functions.is_empty())
    }
}
