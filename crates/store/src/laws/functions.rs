//! Functions and their variables: made, changed, removed.

use std::sync::Arc;

use model::{
    ActiveDeployment, CatalogueChange, Function, FunctionChange, FunctionDefinition, VariableId,
};

use super::halt::{Halt, Step};
use super::run::Run;
use super::stored_tables::StoredTables;
use crate::function_name::FunctionName;
use crate::function_op::{FUNCTIONS_MAX, FunctionOp, VARIABLES_MAX};
use crate::refusal::{Container, Refusal};
use crate::stored::deployments::GoneDeployments;
use crate::stored::{queue, variables};
use crate::stored_catalogue::{functions, rows};
use crate::vault::{Place, Vault};

impl<D> Run<'_, D> {
    pub(super) fn function(&self, name: &FunctionName) -> Result<Arc<Function>, Refusal> {
        let found = self
            .project(&name.project)?
            .functions
            .get(&name.id)
            .cloned();
        found.ok_or_else(|| Refusal::NotFound(Container::Function, name.id.to_string()))
    }

    /// The function, unless another one has its name by now, or none.
    pub(super) fn same_function(&self, (name, seq): (&FunctionName, i64)) -> Option<Arc<Function>> {
        let function = self.function(name).ok();
        function.filter(|function| function.seq == seq)
    }
}

impl<D: StoredTables> Run<'_, D> {
    pub(crate) fn create_function(
        &mut self,
        name: &FunctionName,
        definition: &FunctionDefinition,
    ) -> Step<()> {
        let functions = &self.project(&name.project)?.functions;
        if functions.contains_key(&name.id) {
            return Err(Refusal::Exists(Container::Function).into());
        }
        if functions.len() >= FUNCTIONS_MAX {
            let (kind, max) = (Container::Function, FUNCTIONS_MAX);
            return Err(Refusal::TooMany { kind, max }.into());
        }
        let last = self.rows().first_stored(&functions::last_number())?;
        self.put_function(Function {
            project: name.project.clone(),
            id: name.id.clone(),
            seq: last.unwrap_or_default() + 1,
            created: self.now(),
            updated: self.now(),
            definition: definition.clone(),
            active: None,
        })
    }

    pub(crate) fn update_function(
        &mut self,
        name: &FunctionName,
        change: &FunctionChange,
    ) -> Step<()> {
        let before = self.function(name)?;
        let mut after = Function::clone(&before);
        change.clone().apply(&mut after.definition);
        if after.definition == before.definition {
            return Ok(());
        }
        after.updated = self.now();
        self.replace_function(&before, after)
    }

    /// Gives a function another active deployment, or none.
    pub(super) fn activate(
        &mut self,
        function: &Function,
        active: Option<ActiveDeployment>,
    ) -> Step<()> {
        if function.active == active {
            return Ok(());
        }
        let after = Function {
            active,
            updated: self.now(),
            ..function.clone()
        };
        self.replace_function(function, after)
    }

    fn replace_function(&mut self, before: &Function, after: Function) -> Step<()> {
        self.begin_schedule(before, &after)?;
        self.begin_listening(before, &after)?;
        if before.definition.options != after.definition.options {
            self.leave_old_executions(&after)?;
        }
        let close = rows::close("function_", "seq = $2", self.mark, [after.seq.into()]);
        self.rows().change_stored(&close)?;
        self.put_function(after)
    }

    fn put_function(&mut self, function: Function) -> Step<()> {
        let put = functions::put(&function, self.mark);
        self.rows().change_stored(&put)?;
        self.change_catalogue(CatalogueChange::FunctionPut(Arc::new(function)));
        Ok(())
    }

    pub(crate) fn delete_function(&mut self, name: &FunctionName) -> Step<()> {
        let function = self.function(name)?;
        self.close_function(&function)?;
        let (project, id) = (function.project.clone(), function.id.clone());
        self.change_catalogue(CatalogueChange::FunctionGone(project, id));
        Ok(())
    }

    /// Closes what the catalogue knows of a function, and removes what belongs to it.
    pub(crate) fn close_function(&self, function: &Function) -> Step<()> {
        let seq = function.seq;
        self.rows().change_in_order([
            rows::close("function_", "seq = $2", self.mark, [seq.into()]),
            variables::delete_all(seq),
            queue::end_schedule(seq),
        ])?;
        self.end_listening(seq)?;
        self.leave_queued(seq)?;
        self.leave_executions(seq)?;
        self.remove_deployments(GoneDeployments::Of(seq))
    }

    pub(super) fn function_op(&mut self, op: &FunctionOp) -> Step<()> {
        self.of_functions.is_any = true;
        match op {
            FunctionOp::CreateVariable {
                function,
                id,
                key,
                value,
                secret,
            } => self.create_variable(function, id, (key, value, *secret)),
            FunctionOp::UpdateVariable {
                function,
                id,
                key,
                value,
                secret,
            } => self.update_variable(function, id, (key.as_deref(), value.as_deref(), *secret)),
            FunctionOp::DeleteVariable { function, id } => {
                let function = self.function(function)?.seq;
                let delete = variables::delete(function, id);
                match self.rows().change_stored(&delete)? {
                    0 => Err(no_variable(id)),
                    _ => Ok(()),
                }
            }
            FunctionOp::CreateDeployment {
                function,
                id,
                source_bytes,
                activate,
                entrypoint,
                commands,
            } => {
                let said = (*activate, &**entrypoint, &**commands);
                self.create_deployment(function, id, *source_bytes, said)
            }
            FunctionOp::Deployment { function, id, act } => self.deployment_act(function, id, act),
            FunctionOp::RestartBuilds => self.restart_builds(),
            FunctionOp::KeepExecutions(kept) => self.keep_executions(kept),
            FunctionOp::TrimExecutions(functions) => self.leave_old_of(functions),
            FunctionOp::Queue(op) => self.queue_op(op),
            FunctionOp::DeleteExecution { function, id } => self.delete_execution(function, id),
        }
    }

    fn create_variable(
        &mut self,
        function: &FunctionName,
        id: &VariableId,
        (key, value, secret): (&str, &str, bool),
    ) -> Step<()> {
        let function = self.function(function)?.seq;
        let read = variables::count_and_taken(function, id, key);
        let (count, is_taken) = self.rows().first_stored(&read)?.unwrap_or_default();
        if is_taken {
            return Err(Refusal::Exists(Container::Variable).into());
        }
        if count >= VARIABLES_MAX as i64 {
            let (kind, max) = (Container::Variable, VARIABLES_MAX);
            return Err(Refusal::TooMany { kind, max }.into());
        }
        let sealed = self.sealed_variable(function, id, value)?;
        let insert = variables::insert(function, id, (key, sealed, secret), self.now());
        self.rows().change_stored(&insert)?;
        Ok(())
    }

    fn update_variable(
        &mut self,
        function: &FunctionName,
        id: &VariableId,
        (key, value, secret): (Option<&str>, Option<&str>, bool),
    ) -> Step<()> {
        let function = self.function(function)?.seq;
        if let Some(key) = key {
            let other = variables::other_of_key(function, id, key);
            if self.rows().first_stored(&other)?.is_some() {
                return Err(Refusal::Exists(Container::Variable).into());
            }
        }
        let sealed = value.map(|value| self.sealed_variable(function, id, value));
        let change = (key, sealed.transpose()?, secret);
        let update = variables::update(function, id, change, self.now());
        match self.rows().change_stored(&update)? {
            0 => Err(no_variable(id)),
            _ => Ok(()),
        }
    }

    /// What seals variables and what handlers are given. Where any were sealed by a key that is not
    /// there any more, no other key is made or used in its place: it may be brought back.
    pub(super) fn ready_vault(&self) -> Step<&Vault> {
        let vault = self.rows().vault_of_functions();
        if !vault.is_proven() {
            let values = self.rows().read_stored(&variables::newest())?;
            let calls = self.rows().read_stored(&queue::newest_calls())?;
            variables::prove_key(vault, &values, &calls)?;
        }
        vault.ready()?;
        Ok(vault)
    }

    /// A value as it is stored.
    fn sealed_variable(&self, function: i64, id: &VariableId, value: &str) -> Step<Vec<u8>> {
        let place = Place::Variable(function, id.as_str());
        Ok(self.ready_vault()?.seal(place, value.as_bytes())?)
    }
}

fn no_variable(id: &VariableId) -> Halt {
    Refusal::NotFound(Container::Variable, id.to_string()).into()
}
