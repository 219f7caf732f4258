//! Everything that contains rows, and what runs beside them: projects, API keys, databases, tables,
//! functions.

use std::collections::HashMap;
use std::sync::Arc;

use crate::actor::Scope;
use crate::function::Function;
use crate::id::{DatabaseId, FunctionId, KeyId, ProjectId, TableId};
use crate::schema::{Table, TableNumber};
use crate::time::Timestamp;

/// All containers as of one commit. Immutable: a change makes a new one that shares what did
/// not change.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// Rises with each change of the catalogue; stands in each snapshot of the store, so a read
    /// made under an older catalogue is noticed.
    pub epoch: u64,
    projects: HashMap<ProjectId, Arc<Project>>,
    keys: HashMap<SecretHash, Arc<ApiKey>>,
}

/// SHA-256 of an API key's secret. The secret itself is never stored.
pub type SecretHash = [u8; 32];

/// A project: its databases and functions, and what it is called.
#[derive(Clone, Debug)]
pub struct Project {
    /// The project's id.
    pub id: ProjectId,
    /// What people call it.
    pub name: String,
    /// When it was created.
    pub created: Timestamp,
    /// Its databases.
    pub databases: HashMap<DatabaseId, Arc<Database>>,
    /// Its functions.
    pub functions: HashMap<FunctionId, Arc<Function>>,
}

/// What an API key may call, and for how long.
#[derive(Clone, Debug)]
pub struct ApiKey {
    /// The key's id within its project.
    pub id: KeyId,
    /// The project it opens.
    pub project: ProjectId,
    /// What people call it.
    pub name: String,
    /// What it may call.
    pub scopes: Arc<[Scope]>,
    /// From when on it is refused, if ever.
    pub expires: Option<Timestamp>,
    /// SHA-256 of its secret.
    pub secret_hash: SecretHash,
    /// When it was created.
    pub created: Timestamp,
}

/// The route family a database was created through; both families see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseKind {
    /// `/v1/tablesdb`
    Tablesdb,
    /// `/v1/databases`
    Legacy,
}

/// A database: its tables and what it is called.
#[derive(Clone, Debug)]
pub struct Database {
    /// The project it belongs to.
    pub project: ProjectId,
    /// The database's id.
    pub id: DatabaseId,
    /// Position in the order of creation, over all projects.
    pub seq: i64,
    /// What people call it.
    pub name: String,
    /// The route family it was created through.
    pub kind: DatabaseKind,
    /// Whether callers without a key see it.
    pub enabled: bool,
    /// When it was created.
    pub created: Timestamp,
    /// When its name or `enabled` last changed.
    pub updated: Timestamp,
    /// Its tables.
    pub tables: HashMap<TableId, Arc<Table>>,
}

/// One change of the catalogue, as a commit reports it. `Put` carries the whole new state of
/// the container itself; what it contains is kept.
#[derive(Clone, Debug)]
pub enum CatalogueChange {
    /// A project was created or renamed.
    ProjectPut(Project),
    /// A project, with all it contained and its keys, is gone.
    ProjectGone(ProjectId),
    /// A key was created.
    KeyPut(Arc<ApiKey>),
    /// A key was revoked.
    KeyGone(SecretHash),
    /// A database was created or changed.
    DatabasePut(Database),
    /// A database, with all it contained, is gone.
    DatabaseGone(ProjectId, DatabaseId),
    /// A table was created or changed.
    TablePut(Arc<Table>),
    /// A table is gone.
    TableGone(ProjectId, DatabaseId, TableId),
    /// A function was created or changed.
    FunctionPut(Arc<Function>),
    /// A function is gone.
    FunctionGone(ProjectId, FunctionId),
}

impl Catalogue {
    /// The project `id`.
    pub fn project(&self, id: &str) -> Option<&Arc<Project>> {
        self.projects.get(id)
    }

    /// Every project, in no order.
    pub fn projects(&self) -> impl Iterator<Item = &Arc<Project>> {
        self.projects.values()
    }

    /// The key whose secret has this hash.
    pub fn key(&self, hash: &SecretHash) -> Option<&Arc<ApiKey>> {
        self.keys.get(hash)
    }

    /// Every key, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &Arc<ApiKey>> {
        self.keys.values()
    }

    /// The table with this number, wherever it is. Walks all tables: for rare use.
    pub fn table_by_number(&self, number: TableNumber) -> Option<&Arc<Table>> {
        self.tables().find(|table| table.number == number)
    }

    /// Every table of every database, in no order.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.projects
            .values()
            .flat_map(|project| project.databases.values())
            .flat_map(|database| database.tables.values())
    }

    /// Takes one change in. A change inside a container that is gone has no effect.
    pub fn apply(&mut self, change: CatalogueChange) {
        match change {
            CatalogueChange::ProjectPut(mut project) => {
                if let Some(old) = self.projects.get(&project.id) {
                    project.databases.clone_from(&old.databases);
                    project.functions.clone_from(&old.functions);
                }
                self.projects.insert(project.id.clone(), Arc::new(project));
            }
            CatalogueChange::ProjectGone(id) => {
                self.projects.remove(&id);
                self.keys.retain(|_, key| key.project != id);
            }
            CatalogueChange::KeyPut(key) => {
                self.keys.insert(key.secret_hash, key);
            }
            CatalogueChange::KeyGone(hash) => {
                self.keys.remove(&hash);
            }
            CatalogueChange::DatabasePut(mut database) => {
                let Some(project) = self.projects.get_mut(&database.project) else {
                    return;
                };
                let databases = &mut Arc::make_mut(project).databases;
                if let Some(old) = databases.get(&database.id) {
                    database.tables.clone_from(&old.tables);
                }
                databases.insert(database.id.clone(), Arc::new(database));
            }
            CatalogueChange::DatabaseGone(project, id) => {
                if let Some(project) = self.projects.get_mut(&project) {
                    Arc::make_mut(project).databases.remove(&id);
                }
            }
            CatalogueChange::TablePut(table) => {
                if let Some(tables) = self.tables_mut(&table.project, &table.database) {
                    tables.insert(table.id.clone(), table);
                }
            }
            CatalogueChange::TableGone(project, database, id) => {
                if let Some(tables) = self.tables_mut(&project, &database) {
                    tables.remove(&id);
                }
            }
            CatalogueChange::FunctionPut(function) => {
                if let Some(project) = self.projects.get_mut(&function.project) {
                    let functions = &mut Arc::make_mut(project).functions;
                    functions.insert(function.id.clone(), function);
                }
            }
            CatalogueChange::FunctionGone(project, id) => {
                if let Some(project) = self.projects.get_mut(&project) {
                    Arc::make_mut(project).functions.remove(&id);
                }
            }
        }
    }

    fn tables_mut(
        &mut self,
        project: &ProjectId,
        database: &DatabaseId,
    ) -> Option<&mut HashMap<TableId, Arc<Table>>> {
        let project = Arc::make_mut(self.projects.get_mut(project)?);
        let database = Arc::make_mut(project.databases.get_mut(database)?);
        Some(&mut database.tables)
    }
}
