//! Who asks on a connection from the jail of a function.
//!
//! Such a connection is of one deployment, and so of one project. What comes on it is an
//! execution by its own key, or code of that deployment by any other key or without one. Between
//! executions nothing is answered: what a process does then is no execution's.

use std::sync::Arc;

use engine::{AccessError, CallingFunction, Engine, EngineError, Identity, SchemaError};

use crate::functions::{LiveRun, LiveRuns, is_of_run};
use crate::secret::sha256;

/// Who asks, and until when that may go on.
pub struct JailedCaller {
    /// Who asks.
    pub identity: Identity,
    /// The execution that asks by its own key.
    pub run: Option<Arc<LiveRun>>,
}

/// The caller of a request with this project and secret, if it names any, from the jail of
/// `deployment`.
///
/// # Errors
/// [`AccessError::Unauthorized`] while no execution of the deployment is in flight; another
/// project is not there; as [`LiveRuns::of_key`] and [`Engine::identify`].
pub fn find(
    (engine, runs): (&Engine, &LiveRuns),
    deployment: i64,
    project: Option<&str>,
    secret: Option<&[u8]>,
) -> Result<JailedCaller, EngineError> {
    let of_run = secret.filter(|secret| is_of_run(secret));
    let live = match of_run {
        Some(secret) => runs.of_key(deployment, secret, engine.now())?,
        None => runs.deepest(deployment).ok_or(AccessError::Unauthorized)?,
    };
    let own = live.project.as_str();
    let named = project.filter(|project| !project.is_empty());
    if let Some(other) = named.filter(|named| *named != own) {
        let shown = other.chars().take(100).collect();
        return Err(SchemaError::ProjectNotFound(shown).into());
    }
    let calling: &Arc<CallingFunction> = &live.calling;
    if of_run.is_some() {
        let identity = engine.identify_function(own, live.function_seq, calling)?;
        return Ok(JailedCaller {
            identity,
            run: Some(live),
        });
    }
    let mut identity = engine.identify(Some(own), secret.map(sha256).as_ref())?;
    identity.caller.function = Some(calling.clone());
    Ok(JailedCaller {
        identity,
        run: None,
    })
}
