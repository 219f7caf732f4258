//! Databases: create, look up, list, change, delete.

use std::sync::Arc;

use model::{Database, DatabaseId, DatabaseKind, Scope};
use store::CatalogueOp;

use crate::Engine;
use crate::error::EngineError;
use crate::request::authorize;
use crate::request::inputs::{Caller, ListContainers, Listed};
use crate::schema::containers::check_name;
use crate::schema::listing::{self, DATABASES};

const READ: &[Scope] = &[Scope::DatabasesRead];
const WRITE: &[Scope] = &[Scope::DatabasesWrite];
/// Ids by which no database could be looked up: routes of the protocol have these names.
const RESERVED: [&str; 1] = ["transactions"];

impl Engine {
    /// Creates a database.
    ///
    /// # Errors
    /// [`crate::SchemaError::DatabaseExists`]; [`EngineError::Argument`] for an id that is a
    /// route's name.
    pub async fn create_database(
        &self,
        caller: &Caller,
        id: DatabaseId,
        name: String,
        enabled: bool,
        kind: DatabaseKind,
    ) -> Result<Arc<Database>, EngineError> {
        authorize::need_key(caller, WRITE)?;
        check_name(&name)?;
        if RESERVED.contains(&id.as_str()) {
            let why = format!("`{id}` is the name of a route, so no database can have this id.");
            return Err(EngineError::Argument {
                name: "databaseId",
                why,
            });
        }
        let project = caller.project.clone();
        let op = CatalogueOp::CreateDatabase {
            project,
            id: id.clone(),
            name,
            enabled,
            kind,
        };
        self.change_catalogue(Some(caller), op).await?;
        self.find_database(caller, id.as_str())
    }

    /// The database `id`.
    ///
    /// # Errors
    /// [`crate::SchemaError::DatabaseNotFound`].
    pub fn get_database(&self, caller: &Caller, id: &str) -> Result<Arc<Database>, EngineError> {
        authorize::need_key(caller, READ)?;
        self.find_database(caller, id)
    }

    /// The project's databases in the order of their creation.
    ///
    /// # Errors
    /// [`crate::ReadError::Query`] for a query that is not understood here.
    pub fn list_databases(
        &self,
        caller: &Caller,
        request: ListContainers<'_>,
    ) -> Result<Listed<Arc<Database>>, EngineError> {
        authorize::need_key(caller, READ)?;
        let catalogue = self.catalogue();
        let databases = &authorize::project(&catalogue, caller)?.databases;
        let mut all: Vec<Arc<Database>> = databases.values().cloned().collect();
        all.sort_by_key(|database| database.seq);
        listing::page(all, &DATABASES, request, self.limits)
    }

    /// Changes a database; `None` keeps.
    ///
    /// # Errors
    /// [`crate::SchemaError::DatabaseNotFound`].
    pub async fn update_database(
        &self,
        caller: &Caller,
        id: &str,
        name: Option<String>,
        enabled: Option<bool>,
    ) -> Result<Arc<Database>, EngineError> {
        authorize::need_key(caller, WRITE)?;
        if let Some(name) = &name {
            check_name(name)?;
        }
        let database = self.find_database(caller, id)?;
        let project = caller.project.clone();
        let op = CatalogueOp::UpdateDatabase {
            project,
            id: database.id.clone(),
            name,
            enabled,
        };
        self.change_catalogue(Some(caller), op).await?;
        self.find_database(caller, id)
    }

    /// Deletes a database with all its tables and their history.
    ///
    /// # Errors
    /// [`crate::SchemaError::DatabaseNotFound`].
    pub async fn delete_database(&self, caller: &Caller, id: &str) -> Result<(), EngineError> {
        authorize::need_key(caller, WRITE)?;
        let database = self.find_database(caller, id)?;
        let op = CatalogueOp::DeleteDatabase(caller.project.clone(), database.id.clone());
        self.change_catalogue(Some(caller), op).await.map(drop)
    }

    fn find_database(&self, caller: &Caller, id: &str) -> Result<Arc<Database>, EngineError> {
        authorize::database(&self.catalogue(), caller, id).cloned()
    }
}
