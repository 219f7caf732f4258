//! Executions: who may execute what. Nothing executes yet.

use model::Scope;

use crate::Engine;
use crate::error::refused::shown;
use crate::error::{AccessError, EngineError, FunctionError};
use crate::request::authorize;
use crate::request::inputs::Caller;

const EXECUTE: &[Scope] = &[Scope::ExecutionsWrite];

impl Engine {
    /// Why the caller cannot execute a function: it may not, or the function lacks what it takes.
    /// As there is nothing to execute it with, there is always a reason.
    pub fn refuse_execution(&self, caller: &Caller, function: &str) -> EngineError {
        match self.runtime_of_executable(caller, function) {
            Ok(runtime) => FunctionError::RuntimeUnsupported(runtime).into(),
            Err(error) => error,
        }
    }

    /// The runtime of a function that the caller may execute.
    ///
    /// # Errors
    /// [`FunctionError::NotFound`], also of one that is disabled, for callers without a key;
    /// [`AccessError::Unauthorized`] without a role that may execute it;
    /// [`FunctionError::NoActiveDeployment`].
    fn runtime_of_executable(&self, caller: &Caller, id: &str) -> Result<String, EngineError> {
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
        if function.active.is_none() {
            return Err(FunctionError::NoActiveDeployment.into());
        }
        Ok(definition.runtime.clone())
    }
}
