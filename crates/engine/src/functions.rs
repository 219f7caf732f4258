//! Functions: users' code that runs beside the data, and what belongs to it. The catalogue holds
//! the functions themselves; variables, deployments
//! and their pieces are rows of their own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::{
    ActiveDeployment, Function, FunctionDefinition, FunctionId, FunctionOptions, Scope, Timestamp,
    Value,
};
use store::{CatalogueOp, Deployment, FunctionName, FunctionOp, Op, Variable, WriteBatch};

use crate::Engine;
use crate::commit::batch::author;
use crate::error::refused::{answer, shown};
use crate::error::{EngineError, FunctionError, ReadError};
use crate::read::offload::at_once;
use crate::request::authorize;
use crate::request::inputs::{Caller, ListContainers, Listed};
use crate::schema::listing::{self, FUNCTIONS, Listable, no_such_attribute};
use crate::state::shared::Shared;

mod builds;
pub(crate) mod definition;
mod deployments;
mod events;
mod executions;
mod queue;
mod records;
mod runtimes;
mod schedule;
mod specification;
pub(crate) mod variables;

pub use builds::Build;
pub use definition::{FunctionInput, FunctionOptionsInput};
pub use deployments::{DeploymentUpload, UploadRange};
pub use events::{EVENT_DEPTH_MAX, EventRequest, EventSlice};
pub use executions::Executable;
pub use queue::{QueuedRequest, STARTS_MAX, StartedExecution, failed_execution};
pub use runtimes::RUNTIMES;
pub use schedule::Schedules;
pub use specification::{SPECIFICATIONS, Specification};
pub use variables::VariableInput;

const READ: &[Scope] = &[Scope::FunctionsRead];
const WRITE: &[Scope] = &[Scope::FunctionsWrite];
/// Ids by which no function could be looked up: routes of the protocol have these names.
const RESERVED: [&str; 4] = ["runtimes", "specifications", "templates", "usage"];
/// The variables of more functions than this are read on a thread for long reads.
const READ_HERE_MAX: usize = 8;

/// A function as it is shown: with its variables and its latest deployment.
#[derive(Clone, Debug)]
pub struct FunctionShown {
    /// The function.
    pub function: Arc<Function>,
    /// Its variables, without the values of secret ones.
    pub variables: Vec<Variable>,
    /// The deployment that was created last.
    pub latest: Option<Deployment>,
}

impl Engine {
    /// Creates a function.
    ///
    /// # Errors
    /// [`FunctionError::Exists`]; [`EngineError::Argument`] for what breaks a rule, an id that is a
    /// route's name, or one function too many; [`EngineError::Unsupported`] for events that never
    /// happen here.
    pub async fn create_function(
        &self,
        caller: &Caller,
        id: FunctionId,
        input: FunctionInput,
    ) -> Result<FunctionShown, EngineError> {
        authorize::need_key(caller, WRITE)?;
        let change = input.checked()?;
        if RESERVED.contains(&id.as_str()) {
            let why = format!("`{id}` is the name of a route, so no function can have this id.");
            return Err(EngineError::Argument {
                name: "functionId",
                why,
            });
        }
        let needed = |name| EngineError::Argument {
            name,
            why: "a function needs one".to_owned(),
        };
        let name = change.name.clone().ok_or_else(|| needed("name"))?;
        let runtime = change.runtime.clone().ok_or_else(|| needed("runtime"))?;
        let mut definition = FunctionDefinition::new(name, runtime);
        change.apply(&mut definition);
        let op = CatalogueOp::CreateFunction(named(caller, id.clone()), Box::new(definition));
        self.change_catalogue(Some(caller), op).await?;
        self.show_function(caller, id.as_str()).await
    }

    /// The function `id`.
    ///
    /// # Errors
    /// [`FunctionError::NotFound`].
    pub async fn get_function(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<FunctionShown, EngineError> {
        authorize::need_key(caller, READ)?;
        self.show_function(caller, id).await
    }

    /// The project's functions in the order of their creation.
    ///
    /// # Errors
    /// [`ReadError::Query`] for a query that is not understood here; [`ReadError::AnswerTooLarge`]
    /// when the variables of a page are too many bytes.
    pub async fn list_functions(
        &self,
        caller: &Caller,
        request: ListContainers<'_>,
    ) -> Result<Listed<FunctionShown>, EngineError> {
        authorize::need_key(caller, READ)?;
        let catalogue = self.catalogue();
        let functions = &authorize::project(&catalogue, caller)?.functions;
        let mut all: Vec<Arc<Function>> = functions.values().cloned().collect();
        all.sort_by_key(|function| function.seq);
        let page = listing::page(all, &FUNCTIONS, request, self.limits)?;
        let (shared, bytes_max) = (self.shared.clone(), self.answer_bytes_max);
        let items = if page.items.len() > READ_HERE_MAX {
            let read = move || {
                let read = with_variables(&shared, page.items, bytes_max);
                at_once(read).unwrap_or(Err(store::StoreError::Interrupted.into()))
            };
            self.offload(usize::MAX, caller.is_guest(), read).await??
        } else {
            with_variables(&shared, page.items, bytes_max).await?
        };
        Ok(Listed {
            total: page.total,
            items,
        })
    }

    /// Changes a function; what is not given stays.
    ///
    /// # Errors
    /// As for [`Engine::create_function`]; [`FunctionError::NotFound`].
    pub async fn update_function(
        &self,
        caller: &Caller,
        id: &str,
        input: FunctionInput,
    ) -> Result<FunctionShown, EngineError> {
        authorize::need_key(caller, WRITE)?;
        let function = self.find_function(caller, id)?;
        let change = input.checked()?;
        let op = CatalogueOp::UpdateFunction(named(caller, function.id.clone()), Box::new(change));
        self.change_catalogue(Some(caller), op).await?;
        self.show_function(caller, id).await
    }

    /// Deletes a function with all that belongs to it.
    ///
    /// # Errors
    /// [`FunctionError::NotFound`].
    pub async fn delete_function(&self, caller: &Caller, id: &str) -> Result<(), EngineError> {
        authorize::need_key(caller, WRITE)?;
        let function = self.find_function(caller, id)?;
        let op = CatalogueOp::DeleteFunction(named(caller, function.id.clone()));
        self.change_catalogue(Some(caller), op).await.map(drop)
    }

    /// What the owner of a function decides beyond the protocol.
    ///
    /// # Errors
    /// [`FunctionError::NotFound`].
    pub fn function_options(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<FunctionOptions, EngineError> {
        authorize::need_key(caller, READ)?;
        Ok(self.find_function(caller, id)?.definition.options)
    }

    /// The deployment of a function that is executed, if any, for one who may see what it says.
    ///
    /// # Errors
    /// [`FunctionError::NotFound`].
    pub fn active_deployment(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Option<ActiveDeployment>, EngineError> {
        authorize::need_key(caller, READ)?;
        Ok(self.find_function(caller, id)?.active.clone())
    }

    /// Changes it.
    ///
    /// # Errors
    /// [`EngineError::Argument`] for values out of bounds; [`FunctionError::NotFound`].
    pub async fn set_function_options(
        &self,
        caller: &Caller,
        id: &str,
        input: &FunctionOptionsInput,
    ) -> Result<FunctionOptions, EngineError> {
        authorize::need_key(caller, WRITE)?;
        let function = self.find_function(caller, id)?;
        let change = Box::new(input.checked()?);
        let op = CatalogueOp::UpdateFunction(named(caller, function.id.clone()), change);
        self.change_catalogue(Some(caller), op).await?;
        Ok(self.find_function(caller, id)?.definition.options)
    }

    fn find_function(&self, caller: &Caller, id: &str) -> Result<Arc<Function>, EngineError> {
        let catalogue = self.catalogue();
        let found = authorize::project(&catalogue, caller)?.functions.get(id);
        found
            .cloned()
            .ok_or_else(|| FunctionError::NotFound(shown(id)).into())
    }

    async fn show_function(&self, caller: &Caller, id: &str) -> Result<FunctionShown, EngineError> {
        let function = self.find_function(caller, id)?;
        let store = &self.shared.store;
        Ok(FunctionShown {
            variables: store.variables(function.seq).await?,
            latest: store.latest_deployment(function.seq).await?,
            function,
        })
    }

    /// Changes what belongs to a function, for a caller or for what the server does by itself.
    async fn change_function(
        &self,
        caller: Option<&Caller>,
        op: FunctionOp,
    ) -> Result<(), EngineError> {
        let is_of_variables = matches!(
            op,
            FunctionOp::CreateVariable { .. }
                | FunctionOp::UpdateVariable { .. }
                | FunctionOp::DeleteVariable { .. }
        );
        let batch = WriteBatch {
            catalogue_epoch: self.catalogue().epoch,
            ops: vec![Op::Function(op)],
            author: caller.and_then(author),
            unchanged_since: None,
            meta: None,
            noted_in: None,
            space: store::SpaceLimit::Any,
        };
        let outcome = self.writer.commit(batch).await;
        if is_of_variables {
            // Whatever became of it: one time too many costs a read.
            self.variables_epoch.fetch_add(1, Ordering::Release);
        }
        answer(outcome?).map(drop)
    }
}

fn named(caller: &Caller, id: FunctionId) -> FunctionName {
    FunctionName {
        project: caller.project.clone(),
        id,
    }
}

/// Functions with their variables, which may be so many bytes together.
async fn with_variables(
    shared: &Shared,
    functions: Vec<Arc<Function>>,
    bytes_max: usize,
) -> Result<Vec<FunctionShown>, EngineError> {
    let mut bytes = 0;
    let mut found = Vec::with_capacity(functions.len());
    for function in functions {
        let variables = shared.store.variables(function.seq).await?;
        let latest = shared.store.latest_deployment(function.seq).await?;
        bytes += variables.iter().map(size_bytes).sum::<usize>();
        if bytes > bytes_max {
            return Err(ReadError::AnswerTooLarge { bytes_max }.into());
        }
        found.push(FunctionShown {
            function,
            variables,
            latest,
        });
    }
    Ok(found)
}

fn size_bytes(variable: &Variable) -> usize {
    variable.key.len() + variable.value.len()
}

impl Listable for Arc<Function> {
    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn name(&self) -> &str {
        &self.definition.name
    }

    fn sequence(&self) -> i64 {
        self.seq
    }

    fn times(&self) -> (Timestamp, Timestamp) {
        (self.created, self.updated)
    }

    fn attribute(&self, position: usize) -> Value {
        let definition = &self.definition;
        match position {
            0 => Value::Text(definition.name.clone()),
            1 => Value::Bool(definition.enabled),
            2 => Value::Text(definition.runtime.clone()),
            3 => {
                let active = self.active.as_ref();
                Value::Text(active.map_or_else(String::new, |active| active.id.to_string()))
            }
            4 => Value::Text(definition.schedule.clone()),
            5 => Value::Int(i64::from(definition.timeout_s)),
            6 => Value::Text(definition.entrypoint.clone()),
            7 => Value::Text(definition.commands.clone()),
            other => no_such_attribute(other),
        }
    }
}
