//! Tables: create, look up, list, change, purge, delete.

use std::sync::Arc;

use model::{DatabaseId, Grantee, ModelError, Permission, ProjectId, Scope, Table};
use store::CatalogueOp;

use crate::Engine;
use crate::error::EngineError;
use crate::request::authorize;
use crate::request::inputs::{Caller, ListContainers, Listed, NewTable, Place, TableChange};
use crate::schema::containers::check_name;
use crate::schema::definition;
use crate::schema::listing::{self, TABLES};

const READ: &[Scope] = &[Scope::TablesRead];
const WRITE: &[Scope] = &[Scope::TablesWrite];

impl Engine {
    /// Creates a table with its columns and indexes, all or nothing.
    ///
    /// # Errors
    /// [`crate::SchemaError::TableExists`], or the first definition that breaks a rule.
    pub async fn create_table(
        &self,
        caller: &Caller,
        database: &str,
        new: NewTable,
    ) -> Result<Arc<Table>, EngineError> {
        authorize::need_key(caller, WRITE)?;
        check_name(&new.name)?;
        let permissions = parse_permissions(&new.permissions)?;
        let database = authorize::database(&self.catalogue(), caller, database)?.clone();
        let mut table = definition::table(&caller.project, &database.id, &new, permissions)?;
        table.options = self.new_tables;
        let op = CatalogueOp::CreateTable(Box::new(table));
        self.change_catalogue(Some(caller), op).await?;
        let place = Place {
            database: database.id.as_str(),
            table: new.id.as_str(),
        };
        self.find_table(caller, place)
    }

    /// The table at `place`.
    ///
    /// # Errors
    /// [`crate::SchemaError::DatabaseNotFound`], [`crate::SchemaError::TableNotFound`].
    pub fn get_table(&self, caller: &Caller, place: Place<'_>) -> Result<Arc<Table>, EngineError> {
        authorize::need_key(caller, READ)?;
        self.find_table(caller, place)
    }

    /// The database's tables in the order of their creation.
    ///
    /// # Errors
    /// [`crate::SchemaError::DatabaseNotFound`]; [`crate::ReadError::Query`] for a query that is
    /// not understood here.
    pub fn list_tables(
        &self,
        caller: &Caller,
        database: &str,
        request: ListContainers<'_>,
    ) -> Result<Listed<Arc<Table>>, EngineError> {
        authorize::need_key(caller, READ)?;
        let catalogue = self.catalogue();
        let tables = &authorize::database(&catalogue, caller, database)?.tables;
        let mut all: Vec<Arc<Table>> = tables.values().cloned().collect();
        all.sort_by_key(|table| table.number);
        listing::page(all, &TABLES, request, self.limits)
    }

    /// Changes a table; what is not given stays as it is. With `purge`, no list that was read
    /// before this call is served after it.
    ///
    /// # Errors
    /// [`crate::SchemaError::DatabaseNotFound`], [`crate::SchemaError::TableNotFound`].
    pub async fn update_table(
        &self,
        caller: &Caller,
        place: Place<'_>,
        change: TableChange,
    ) -> Result<Arc<Table>, EngineError> {
        authorize::need_key(caller, WRITE)?;
        if let Some(name) = &change.name {
            check_name(name)?;
        }
        let permissions = change
            .permissions
            .as_deref()
            .map(parse_permissions)
            .transpose()?;
        let table = self.find_table(caller, place)?;
        let op = CatalogueOp::UpdateTable {
            project: table.project.clone(),
            database: table.database.clone(),
            id: table.id.clone(),
            name: change.name,
            permissions,
            row_security: change.row_security,
            enabled: change.enabled,
        };
        self.change_catalogue(Some(caller), op).await?;
        if change.purge {
            self.shared.lists.purge(table.number);
        }
        self.find_table(caller, place)
    }

    /// Deletes a table with its rows and their history.
    ///
    /// # Errors
    /// [`crate::SchemaError::DatabaseNotFound`], [`crate::SchemaError::TableNotFound`].
    pub async fn delete_table(&self, caller: &Caller, place: Place<'_>) -> Result<(), EngineError> {
        authorize::need_key(caller, WRITE)?;
        let table = self.find_table(caller, place)?;
        let op = CatalogueOp::DeleteTable(
            table.project.clone(),
            table.database.clone(),
            table.id.clone(),
        );
        self.change_catalogue(Some(caller), op).await?;
        self.shared.lists.purge(table.number);
        Ok(())
    }

    fn find_table(&self, caller: &Caller, place: Place<'_>) -> Result<Arc<Table>, EngineError> {
        authorize::table(&self.catalogue(), caller, place).cloned()
    }
}

/// The table that `new` defines, where no database is open: what a server would refuse of it, and
/// what it would show of the rest. Its numbers and times are not set.
///
/// # Errors
/// Those of [`Engine::create_table`] that depend on the definition alone.
pub fn define(
    project: &ProjectId,
    database: &DatabaseId,
    new: &NewTable,
) -> Result<Table, EngineError> {
    check_name(&new.name)?;
    let permissions = parse_permissions(&new.permissions)?;
    definition::defined(project, database, new, permissions)
}

fn parse_permissions(texts: &[String]) -> Result<Vec<Permission>, EngineError> {
    Grantee::Table
        .parse(texts.iter().map(String::as_str))
        .map_err(|error: ModelError| EngineError::Argument {
            name: "permissions",
            why: error.to_string(),
        })
}
