//! Functions as the executor takes them, kept as long as nothing of them changes.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{Engine, EngineError, Executable, Specification};
use functions::UnpackedDeployment;
use model::{Function, FunctionNetwork};

use super::own_variables::own_variables;

/// What is known of functions that were executed.
#[derive(Default)]
pub struct PreparedFunctions {
    /// By [`Function::seq`].
    known: Mutex<HashMap<i64, PreparedFunction>>,
    /// Never given twice: the executor may still know what was forgotten here.
    revision: AtomicU64,
}

#[derive(Clone)]
struct PreparedFunction {
    function: Arc<Function>,
    variables_epoch: u64,
    deployment: Arc<UnpackedDeployment>,
}

impl PreparedFunctions {
    /// The active deployment of a function with all that its processes are given. `path` says where
    /// it lies.
    ///
    /// # Errors
    /// As [`Engine::executable`].
    pub async fn get(
        &self,
        engine: &Engine,
        function: &Arc<Function>,
        path: impl Fn(i64) -> PathBuf,
    ) -> Result<(i64, Arc<UnpackedDeployment>), EngineError> {
        // Before anything is read, so that a change meanwhile is noticed the next time.
        let variables_epoch = engine.variables_epoch();
        let active = function.active.as_ref().map_or(0, |active| active.seq);
        let known = self.lock().get(&function.seq).cloned();
        let is_same = |known: &PreparedFunction| {
            Arc::ptr_eq(&known.function, function) && known.variables_epoch == variables_epoch
        };
        if let Some(known) = known.filter(is_same) {
            return Ok((active, known.deployment));
        }
        let executable = engine.executable(function).await?;
        let seq = executable.deployment.seq;
        let deployment = unpacked(function, executable, path(seq));
        let mut known = self.lock();
        let before = known.get(&function.seq).map(|known| &known.deployment);
        let deployment = self.numbered(deployment, before);
        let prepared = PreparedFunction {
            function: function.clone(),
            variables_epoch,
            deployment: deployment.clone(),
        };
        known.insert(function.seq, prepared);
        Ok((seq, deployment))
    }

    /// Forgets functions whose deployment is not among the active ones any more.
    pub fn clear(&self, active: &HashSet<i64>) {
        let is_active = |known: &PreparedFunction| {
            let own = known.function.active.as_ref();
            own.is_some_and(|own| active.contains(&own.seq))
        };
        self.lock().retain(|_, known| is_active(known));
    }

    /// With the revision of before where nothing is different, so that its processes stay.
    fn numbered(
        &self,
        mut deployment: UnpackedDeployment,
        before: Option<&Arc<UnpackedDeployment>>,
    ) -> Arc<UnpackedDeployment> {
        if let Some(before) = before {
            deployment.revision = before.revision;
            if deployment == **before {
                return before.clone();
            }
        }
        deployment.revision = 1 + self.revision.fetch_add(1, Ordering::Relaxed);
        Arc::new(deployment)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, PreparedFunction>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unpacked(function: &Function, found: Executable, folder: PathBuf) -> UnpackedDeployment {
    let definition = &function.definition;
    let specification = Specification::parse(&definition.runtime_specification);
    let specification = specification.expect("a function's specification was read when it was set");
    let deployment = &found.deployment;
    let own = own_variables(function, deployment.id.as_str(), specification);
    let given = found.variables.into_iter();
    let given = given.map(|variable| (variable.key, variable.value));
    UnpackedDeployment {
        id: deployment.seq.to_string(),
        revision: 0,
        runtime: definition.runtime.clone(),
        folder,
        entrypoint: deployment.entrypoint.clone(),
        // Of equal names the last one counts.
        variables: given.chain(own).collect(),
        memory_mib: specification.memory_mb,
        cpu_weight: specification.cpu_weight(),
        concurrency: definition.options.concurrency as usize,
        reaches_outside: definition.options.network == FunctionNetwork::Outside,
    }
}
