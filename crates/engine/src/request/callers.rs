//! Who asks, and how long an answer to that may be kept.

use std::sync::Arc;

use model::catalogue::SecretHash;
use model::{Actor, Timestamp};

use crate::Engine;
use crate::error::{AccessError, EngineError, SchemaError};
use crate::request::inputs::{Caller, CallingFunction};

/// Who asks, as of one catalogue.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Who asks, and in which project.
    pub caller: Caller,
    /// Of the caller's key.
    key: Option<SecretHash>,
    /// [`model::Function::seq`] of a caller that is an execution.
    function_seq: Option<i64>,
    /// When the caller's key expires, if ever.
    expires: Option<Timestamp>,
    catalogue_epoch: u64,
}

impl Engine {
    /// Who asks: a project's id as the request names it, and the hash of a key's secret if the
    /// request carries one.
    ///
    /// # Errors
    /// [`AccessError::ProjectMissing`], [`SchemaError::ProjectNotFound`],
    /// [`AccessError::KeyUnknown`], [`AccessError::KeyExpired`].
    pub fn caller(
        &self,
        project: Option<&str>,
        key: Option<&SecretHash>,
    ) -> Result<Caller, EngineError> {
        self.identify(project, key).map(|identity| identity.caller)
    }

    /// As [`Engine::caller`], to be kept and used again while [`Engine::still_holds`].
    ///
    /// # Errors
    /// As [`Engine::caller`].
    pub fn identify(
        &self,
        project: Option<&str>,
        key: Option<&SecretHash>,
    ) -> Result<Identity, EngineError> {
        let catalogue = self.shared.catalogue();
        let id = project
            .filter(|id| !id.is_empty())
            .ok_or(AccessError::ProjectMissing)?;
        let project = catalogue
            .project(id)
            .ok_or_else(|| SchemaError::ProjectNotFound(id.chars().take(100).collect()))?;
        let known = match key {
            None => None,
            Some(hash) => {
                let key = catalogue.key(hash).filter(|key| key.project == project.id);
                Some(key.ok_or(AccessError::KeyUnknown)?)
            }
        };
        let expires = known.and_then(|key| key.expires);
        if self.has_passed(expires) {
            return Err(AccessError::KeyExpired.into());
        }
        let actor = match known {
            None => Actor::Guest,
            Some(key) => Actor::Key {
                id: key.id.clone(),
                scopes: key.scopes.clone(),
            },
        };
        Ok(Identity {
            caller: Caller {
                project: project.id.clone(),
                actor,
                request: None,
                meta: None,
                function: None,
            },
            key: key.copied(),
            function_seq: None,
            expires,
            catalogue_epoch: catalogue.epoch,
        })
    }

    /// An execution of a function as a caller: with the scopes that the function has now.
    /// `function_seq` is [`model::Function::seq`]. Whether the execution is in flight is not known
    /// here.
    ///
    /// # Errors
    /// [`SchemaError::ProjectNotFound`]; [`AccessError::KeyUnknown`] where the function is gone.
    pub fn identify_function(
        &self,
        project: &str,
        function_seq: i64,
        calling: &Arc<CallingFunction>,
    ) -> Result<Identity, EngineError> {
        let mut identity = self.identify(Some(project), None)?;
        let catalogue = self.shared.catalogue();
        let project = catalogue.project(project);
        let function = project.and_then(|project| project.functions.get(calling.id.as_str()));
        let function = function.filter(|function| function.seq == function_seq);
        let function = function.ok_or(AccessError::KeyUnknown)?;
        identity.caller.actor = Actor::Function {
            id: function.id.clone(),
            scopes: function.definition.scopes.as_slice().into(),
        };
        identity.caller.function = Some(calling.clone());
        identity.function_seq = Some(function_seq);
        Ok(identity)
    }

    /// Who asks now, of a caller that asked before: with the rights that its key has by now.
    ///
    /// # Errors
    /// As [`Engine::caller`]: the project may be gone, the key be revoked or have expired.
    pub fn identify_again(&self, identity: &Identity) -> Result<Identity, EngineError> {
        let before = &identity.caller;
        let project = before.project.as_str();
        let mut again = match (identity.function_seq, &before.function) {
            (Some(seq), Some(calling)) => self.identify_function(project, seq, calling)?,
            _ => self.identify(Some(project), identity.key.as_ref())?,
        };
        again.caller.meta.clone_from(&before.meta);
        again.caller.function.clone_from(&before.function);
        Ok(again)
    }

    /// Whether the same question would be answered with `identity` now: nothing has changed in
    /// the catalogue since, projects and keys included, and the key has not expired.
    pub fn still_holds(&self, identity: &Identity) -> bool {
        identity.catalogue_epoch == self.shared.catalogue_epoch()
            && !self.has_passed(identity.expires)
    }

    /// [`model::Catalogue::epoch`] of now: what was prepared under another one is of no use.
    pub fn catalogue_epoch(&self) -> u64 {
        self.shared.catalogue_epoch()
    }

    fn has_passed(&self, expires: Option<Timestamp>) -> bool {
        expires.is_some_and(|expires| expires <= self.shared.clock.now())
    }
}
