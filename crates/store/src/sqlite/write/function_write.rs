//! Functions and their variables: made, changed, removed.

use std::sync::Arc;

use model::{
    ActiveDeployment, CatalogueChange, Function, FunctionChange, FunctionDefinition, VariableId,
};
use rusqlite::params;

use super::run::SqliteRun;
use crate::function_name::FunctionName;
use crate::function_op::{FUNCTIONS_MAX, FunctionOp, VARIABLES_MAX};
use crate::laws::halt::Step;
use crate::refusal::{Container, Refusal};
use crate::sqlite::schema::functions_key::need_functions_key;
use crate::sqlite::schema::stored_functions::insert_function;
use crate::vault::{Place, Vault};

impl SqliteRun<'_, '_> {
    pub(super) fn function(&self, name: &FunctionName) -> Result<Arc<Function>, Refusal> {
        let found = self
            .project(&name.project)?
            .functions
            .get(&name.id)
            .cloned();
        found.ok_or_else(|| Refusal::NotFound(Container::Function, name.id.to_string()))
    }

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
        // Rows of the catalogue are closed and never removed, so no number comes back.
        let last = "SELECT coalesce(max(seq), 0) FROM function_";
        let last: i64 = self.statement(last)?.query_row((), |row| row.get(0))?;
        self.put_function(Function {
            project: name.project.clone(),
            id: name.id.clone(),
            seq: last + 1,
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
        self.begin_schedule(Some(before), &after)?;
        self.begin_listening(Some(before), &after)?;
        if before.definition.options != after.definition.options {
            self.leave_old_executions(&after)?;
        }
        self.close("function_", "seq = ?2", params![self.mark.0, after.seq])?;
        self.put_function(after)
    }

    fn put_function(&mut self, function: Function) -> Step<()> {
        insert_function(self.rows.connection, &function, self.mark)?;
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
        self.close("function_", "seq = ?2", params![self.mark.0, function.seq])?;
        self.statement("DELETE FROM variable WHERE function = ?1")?
            .execute([function.seq])?;
        self.statement("DELETE FROM schedule WHERE function = ?1")?
            .execute([function.seq])?;
        self.end_listening(function.seq)?;
        self.leave_queued(function.seq)?;
        self.leave_executions(function.seq)?;
        self.remove_deployments("function = ?1", &[&function.seq])
    }

    pub(crate) fn function_op(&mut self, op: &FunctionOp) -> Step<()> {
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
                let removed = self
                    .statement("DELETE FROM variable WHERE function = ?1 AND id = ?2")?
                    .execute(params![function, id.as_str()])?;
                match removed {
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
        let sql = "SELECT count(*), coalesce(max(id = ?2 OR key = ?3), 0) FROM variable \
                   WHERE function = ?1";
        let (count, is_taken): (i64, bool) = self
            .statement(sql)?
            .query_row(params![function, id.as_str(), key], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        if is_taken {
            return Err(Refusal::Exists(Container::Variable).into());
        }
        if count >= VARIABLES_MAX as i64 {
            let (kind, max) = (Container::Variable, VARIABLES_MAX);
            return Err(Refusal::TooMany { kind, max }.into());
        }
        let sealed = self.sealed(function, id, value)?;
        self.statement(
            "INSERT INTO variable (function, id, key, value, secret, created, updated) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
        )?
        .execute(params![
            function,
            id.as_str(),
            key,
            sealed,
            secret,
            self.now().0
        ])?;
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
            let taken = "SELECT 1 FROM variable WHERE function = ?1 AND key = ?2 AND id <> ?3";
            if self
                .statement(taken)?
                .exists(params![function, key, id.as_str()])?
            {
                return Err(Refusal::Exists(Container::Variable).into());
            }
        }
        let sealed = value.map(|value| self.sealed(function, id, value));
        let changed = self
            .statement(
                "UPDATE variable SET key = coalesce(?3, key), value = coalesce(?4, value), \
                 secret = secret OR ?5, updated = ?6 WHERE function = ?1 AND id = ?2",
            )?
            .execute(params![
                function,
                id.as_str(),
                key,
                sealed.transpose()?,
                secret,
                self.now().0
            ])?;
        match changed {
            0 => Err(no_variable(id)),
            _ => Ok(()),
        }
    }

    /// What seals variables and what handlers are given. Where any were sealed by a key that is not
    /// there any more, no other key is made or used in its place: it may be brought back.
    pub(super) fn vault_of_functions(&self) -> Step<&Vault> {
        let vault = &self.rows.coding.variables;
        need_functions_key(self.rows.connection, vault)?;
        vault.ready()?;
        Ok(vault)
    }

    /// A value as it is stored.
    fn sealed(&self, function: i64, id: &VariableId, value: &str) -> Step<Vec<u8>> {
        let vault = self.vault_of_functions()?;
        Ok(vault.seal(Place::Variable(function, id.as_str()), value.as_bytes())?)
    }
}

fn no_variable(id: &VariableId) -> crate::laws::halt::Halt {
    Refusal::NotFound(Container::Variable, id.to_string()).into()
}
