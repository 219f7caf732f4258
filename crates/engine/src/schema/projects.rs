//! Projects and API keys. There is no caller here: a process that reaches these use cases, over the
//! admin socket or from the command line, owns the data directory.

use std::sync::Arc;

use model::catalogue::SecretHash;
use model::{ApiKey, KeyId, Project, ProjectId, Scope, Timestamp};
use store::CatalogueOp;

use crate::Engine;
use crate::error::{EngineError, SchemaError};
use crate::schema::containers::check_name;

/// A key to create. Its secret stays with its creator.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// The project it opens.
    pub project: ProjectId,
    /// The key's id within the project.
    pub id: KeyId,
    /// What people call it.
    pub name: String,
    /// What it may call.
    pub scopes: Vec<Scope>,
    /// From when on it is refused, if ever.
    pub expires: Option<Timestamp>,
    /// SHA-256 of its secret.
    pub secret_hash: SecretHash,
}

impl Engine {
    /// Creates a project.
    ///
    /// # Errors
    /// [`SchemaError::ProjectExists`]; [`EngineError::Argument`] for the reserved id `console`.
    pub async fn create_project(
        &self,
        id: ProjectId,
        name: String,
    ) -> Result<Arc<Project>, EngineError> {
        check_name(&name)?;
        if id.as_str() == "console" {
            let why = "`console` is reserved.".to_owned();
            return Err(EngineError::Argument {
                name: "projectId",
                why,
            });
        }
        self.change_catalogue(
            None,
            CatalogueOp::CreateProject {
                id: id.clone(),
                name,
            },
        )
        .await?;
        self.find_project(id.as_str())
    }

    /// Every project, in the order of creation.
    pub fn list_projects(&self) -> Vec<Arc<Project>> {
        let mut projects: Vec<Arc<Project>> = self.catalogue().projects().cloned().collect();
        projects.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        projects
    }

    /// Deletes a project with its keys, databases, tables and rows.
    ///
    /// # Errors
    /// [`SchemaError::ProjectNotFound`].
    pub async fn delete_project(&self, id: &str) -> Result<(), EngineError> {
        let project = self.find_project(id)?;
        self.change_catalogue(None, CatalogueOp::DeleteProject(project.id.clone()))
            .await
            .map(drop)
    }

    /// Creates an API key.
    ///
    /// # Errors
    /// [`SchemaError::ProjectNotFound`], [`SchemaError::KeyExists`].
    pub async fn create_key(&self, new: NewKey) -> Result<Arc<ApiKey>, EngineError> {
        check_name(&new.name)?;
        let project = self.find_project(new.project.as_str())?;
        let secret_hash = new.secret_hash;
        let key = ApiKey {
            id: new.id,
            project: project.id.clone(),
            name: new.name,
            scopes: new.scopes.into(),
            expires: new.expires,
            secret_hash,
            // The commit sets it.
            created: Timestamp(0),
        };
        self.change_catalogue(None, CatalogueOp::CreateKey(key))
            .await?;
        let catalogue = self.catalogue();
        let created = catalogue.key(&secret_hash).cloned();
        created.ok_or_else(|| {
            EngineError::Schema(SchemaError::KeyNotFound("revoked meanwhile".to_owned()))
        })
    }

    /// The project's keys, in the order of creation.
    ///
    /// # Errors
    /// [`SchemaError::ProjectNotFound`].
    pub fn list_keys(&self, project: &str) -> Result<Vec<Arc<ApiKey>>, EngineError> {
        let project = self.find_project(project)?;
        let catalogue = self.catalogue();
        let of_project = |key: &&Arc<ApiKey>| key.project == project.id;
        let mut keys: Vec<Arc<ApiKey>> = catalogue.keys().filter(of_project).cloned().collect();
        keys.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        Ok(keys)
    }

    /// Revokes a key: it is refused from the next request on.
    ///
    /// # Errors
    /// [`SchemaError::ProjectNotFound`], [`SchemaError::KeyNotFound`].
    pub async fn revoke_key(&self, project: &str, id: &str) -> Result<(), EngineError> {
        let key = self.find_key(project, id)?;
        let op = CatalogueOp::RevokeKey(key.project.clone(), key.id.clone());
        self.change_catalogue(None, op).await.map(drop)
    }

    pub(crate) fn find_key(&self, project: &str, id: &str) -> Result<Arc<ApiKey>, EngineError> {
        let mut keys = self.list_keys(project)?.into_iter();
        let found = keys.find(|key| key.id.as_str() == id);
        found.ok_or_else(|| {
            EngineError::Schema(SchemaError::KeyNotFound(id.chars().take(100).collect()))
        })
    }

    fn find_project(&self, id: &str) -> Result<Arc<Project>, EngineError> {
        let not_found =
            || EngineError::Schema(SchemaError::ProjectNotFound(id.chars().take(100).collect()));
        self.catalogue().project(id).cloned().ok_or_else(not_found)
    }
}
