//! What a caller learns of its own project over the wire: the project, and its keys without their
//! secrets. A key may be revoked so; none is made or widened, or one key that leaked would outlive
//! its revocation.

use std::sync::Arc;

use model::{ApiKey, Project, Scope, Timestamp, Value};
use store::CatalogueOp;

use crate::Engine;
use crate::error::{EngineError, SchemaError};
use crate::request::authorize;
use crate::request::inputs::{Caller, ListContainers, Listed};
use crate::schema::listing::{self, KEYS, Listable, no_such_attribute};

const PROJECT: &[Scope] = &[Scope::ProjectRead];
const READ: &[Scope] = &[Scope::KeysRead];
const WRITE: &[Scope] = &[Scope::KeysWrite];

impl Engine {
    /// The caller's project.
    ///
    /// # Errors
    /// [`SchemaError::ProjectNotFound`].
    pub fn own_project(&self, caller: &Caller) -> Result<Arc<Project>, EngineError> {
        authorize::need_key(caller, PROJECT)?;
        authorize::project(&self.catalogue(), caller).cloned()
    }

    /// The keys of the caller's project in the order of their creation.
    ///
    /// # Errors
    /// [`crate::ReadError::Query`] for a query that is not understood here.
    pub fn list_own_keys(
        &self,
        caller: &Caller,
        request: ListContainers<'_>,
    ) -> Result<Listed<Arc<ApiKey>>, EngineError> {
        authorize::need_key(caller, READ)?;
        let keys = self.list_keys(caller.project.as_str())?;
        let numbered = keys.into_iter().zip(1..);
        let numbered = numbered.map(|(key, sequence)| NumberedKey { key, sequence });
        let page = listing::page(numbered.collect(), &KEYS, request, self.limits)?;
        Ok(Listed {
            total: page.total,
            items: page.items.into_iter().map(|item| item.key).collect(),
        })
    }

    /// A key of the caller's project.
    ///
    /// # Errors
    /// [`SchemaError::KeyNotFound`].
    pub fn get_own_key(&self, caller: &Caller, id: &str) -> Result<Arc<ApiKey>, EngineError> {
        authorize::need_key(caller, READ)?;
        self.find_key(caller.project.as_str(), id)
    }

    /// Revokes a key of the caller's project, which may be the caller's own.
    ///
    /// # Errors
    /// [`SchemaError::KeyNotFound`].
    pub async fn revoke_own_key(&self, caller: &Caller, id: &str) -> Result<(), EngineError> {
        authorize::need_key(caller, WRITE)?;
        let key = self.find_key(caller.project.as_str(), id)?;
        let op = CatalogueOp::RevokeKey(key.project.clone(), key.id.clone());
        self.change_catalogue(Some(caller), op).await.map(drop)
    }

    /// What is said to a caller who asks for a key to be made or changed.
    pub fn refuse_new_key(&self, caller: &Caller) -> EngineError {
        let refused = authorize::need_key(caller, WRITE).err();
        refused.unwrap_or(EngineError::Schema(SchemaError::KeyCreationDenied))
    }
}

/// A key and its place in the order of creation.
struct NumberedKey {
    key: Arc<ApiKey>,
    sequence: i64,
}

impl Listable for NumberedKey {
    fn id(&self) -> &str {
        self.key.id.as_str()
    }

    fn name(&self) -> &str {
        &self.key.name
    }

    fn sequence(&self) -> i64 {
        self.sequence
    }

    fn times(&self) -> (Timestamp, Timestamp) {
        (self.key.created, self.key.created)
    }

    fn attribute(&self, position: usize) -> Value {
        let scope = |scope: &Scope| Value::Text(scope.as_str().to_owned());
        match position {
            0 => Value::Text(self.key.name.clone()),
            1 => self.key.expires.map_or(Value::Null, Value::Instant),
            2 => Value::List(self.key.scopes.iter().map(scope).collect()),
            other => no_such_attribute(other),
        }
    }
}
