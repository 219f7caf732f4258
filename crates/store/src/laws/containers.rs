//! Operations on containers. Each closes and opens rows of the catalogue's tables at the
//! batch's mark, and reports what changed; one that changes nothing writes nothing.

use std::collections::HashMap;
use std::sync::Arc;

use model::{
    ApiKey, CatalogueChange, Database, DatabaseId, DatabaseKind, IndexStatus, KeyId, Permission,
    Project, ProjectId, Retention, Table, TableId, TableNumber, TableOptions,
};

use super::halt::Step;
use super::perform::BatchStore;
use super::permissions::permissions_text;
use super::run::Run;
use super::table_layout::TablesChange;
use super::tasks::Task;
use crate::batch::CatalogueOp;
use crate::refusal::{Container, Refusal};
use crate::stored::change::StoredChange;
use crate::stored::parameter::StoredParameter;
use crate::stored::transactions;
use crate::stored_catalogue::rows;

/// What an update asks of a table; `None` keeps.
struct TableChanges<'a> {
    name: Option<&'a str>,
    permissions: Option<&'a [Permission]>,
    row_security: Option<bool>,
    enabled: Option<bool>,
}

impl<D: BatchStore> Run<'_, D> {
    /// Changes a container, and takes note of it for the commit's record if that is a change.
    pub(crate) fn catalogue_op(&mut self, op: &CatalogueOp) -> Step<()> {
        let changes = self.catalogue.len();
        self.container_op(op)?;
        let constrains = matches!(op, CatalogueOp::Constrain { .. });
        if self.catalogue.len() > changes || constrains {
            self.note_schema(op);
        }
        Ok(())
    }

    fn container_op(&mut self, op: &CatalogueOp) -> Step<()> {
        match op {
            CatalogueOp::CreateProject { id, name } => self.create_project(id, name),
            CatalogueOp::DeleteProject(id) => self.delete_project(id),
            CatalogueOp::CreateKey(key) => self.create_key(key),
            CatalogueOp::RevokeKey(project, id) => self.revoke_key(project, id),
            CatalogueOp::CreateDatabase {
                project,
                id,
                name,
                enabled,
                kind,
            } => self.create_database(project, id, name, *enabled, *kind),
            CatalogueOp::UpdateDatabase {
                project,
                id,
                name,
                enabled,
            } => self.update_database(project, id, name.as_deref(), *enabled),
            CatalogueOp::DeleteDatabase(project, id) => self.delete_database(project, id),
            CatalogueOp::CreateTable(table) => self.create_table(table),
            CatalogueOp::UpdateTable {
                project,
                database,
                id,
                name,
                permissions,
                row_security,
                enabled,
            } => {
                let changes = TableChanges {
                    name: name.as_deref(),
                    permissions: permissions.as_deref(),
                    row_security: *row_security,
                    enabled: *enabled,
                };
                self.update_table(project, database, id, &changes)
            }
            CatalogueOp::SetOptions {
                number,
                pinned_max_age_s,
                history,
                past,
                ttl_max_s,
            } => {
                let set = |options: &mut TableOptions| {
                    let old = *options;
                    options.pinned_max_age_s = pinned_max_age_s.unwrap_or(old.pinned_max_age_s);
                    options.history = history.unwrap_or(old.history);
                    options.past = past.unwrap_or(old.past);
                    options.ttl_max_s = ttl_max_s.unwrap_or(old.ttl_max_s);
                };
                self.set_options(*number, set)
            }
            CatalogueOp::DeleteTable(project, database, id) => {
                self.delete_table(project, database, id)
            }
            CatalogueOp::CreateFunction(name, definition) => self.create_function(name, definition),
            CatalogueOp::UpdateFunction(name, change) => self.update_function(name, change),
            CatalogueOp::DeleteFunction(name) => self.delete_function(name),
            CatalogueOp::ChangeSchema { table, change } => self.change_schema(table, change),
            CatalogueOp::Constrain { table, change } => {
                let known = self.state.catalogue.table_by_number(table.number);
                if known.is_none_or(|known| known.schema_epoch != table.schema_epoch) {
                    return Err(Refusal::CatalogueMoved.into());
                }
                self.constrain(table, change)
            }
        }
    }

    fn create_project(&mut self, id: &ProjectId, name: &str) -> Step<()> {
        if self.project(id).is_ok() {
            return Err(Refusal::Exists(Container::Project).into());
        }
        let project = Project {
            id: id.clone(),
            name: name.to_owned(),
            created: self.now(),
            databases: HashMap::new(),
            functions: HashMap::new(),
        };
        self.write(&rows::project(&project, self.mark))?;
        self.change_catalogue(CatalogueChange::ProjectPut(project));
        Ok(())
    }

    fn delete_project(&mut self, id: &ProjectId) -> Step<()> {
        let project = self.project(id)?;
        for database in project.databases.values() {
            self.close_database(database)?;
        }
        for function in project.functions.values() {
            self.close_function(function)?;
        }
        self.close("api_key", "project = $2", [id.as_str().into()])?;
        self.close("project", "id = $2", [id.as_str().into()])?;
        for write in transactions::remove_of_project(id) {
            self.write(&write)?;
        }
        self.change_catalogue(CatalogueChange::ProjectGone(id.clone()));
        Ok(())
    }

    fn create_key(&mut self, key: &ApiKey) -> Step<()> {
        self.project(&key.project)?;
        let catalogue = &self.state.catalogue;
        let is_taken = catalogue.key(&key.secret_hash).is_some()
            || catalogue
                .keys()
                .any(|known| known.project == key.project && known.id == key.id);
        if is_taken {
            return Err(Refusal::Exists(Container::Key).into());
        }
        let key = ApiKey {
            created: self.now(),
            ..key.clone()
        };
        self.write(&rows::key(&key, self.mark))?;
        self.change_catalogue(CatalogueChange::KeyPut(Arc::new(key)));
        Ok(())
    }

    fn revoke_key(&mut self, project: &ProjectId, id: &KeyId) -> Step<()> {
        self.project(project)?;
        let is_meant = |key: &&Arc<ApiKey>| key.project == *project && key.id == *id;
        let key = self.state.catalogue.keys().find(is_meant);
        let key = key.ok_or_else(|| Refusal::NotFound(Container::Key, id.to_string()))?;
        let hash = key.secret_hash;
        let secret = StoredParameter::from(hash.to_vec());
        self.close("api_key", "hash = $2", [secret])?;
        self.change_catalogue(CatalogueChange::KeyGone(hash));
        Ok(())
    }

    fn create_database(
        &mut self,
        project: &ProjectId,
        id: &DatabaseId,
        name: &str,
        enabled: bool,
        kind: DatabaseKind,
    ) -> Step<()> {
        if self.project(project)?.databases.contains_key(id) {
            return Err(Refusal::Exists(Container::Database).into());
        }
        let database = Database {
            project: project.clone(),
            id: id.clone(),
            seq: self.state.next_database,
            name: name.to_owned(),
            kind,
            enabled,
            created: self.now(),
            updated: self.now(),
            tables: HashMap::new(),
        };
        self.state.next_database += 1;
        self.write(&rows::database(&database, self.mark))?;
        self.change_catalogue(CatalogueChange::DatabasePut(database));
        Ok(())
    }

    fn update_database(
        &mut self,
        project: &ProjectId,
        id: &DatabaseId,
        name: Option<&str>,
        enabled: Option<bool>,
    ) -> Step<()> {
        let before = self.database(project, id)?;
        let name = name.unwrap_or(&before.name);
        let enabled = enabled.unwrap_or(before.enabled);
        if name == before.name && enabled == before.enabled {
            return Ok(());
        }
        let after = Database {
            name: name.to_owned(),
            enabled,
            updated: self.now(),
            ..Database::clone(&before)
        };
        self.close("database_", "seq = $2", [before.seq.into()])?;
        self.write(&rows::database(&after, self.mark))?;
        self.change_catalogue(CatalogueChange::DatabasePut(after));
        Ok(())
    }

    fn delete_database(&mut self, project: &ProjectId, id: &DatabaseId) -> Step<()> {
        let database = self.database(project, id)?;
        self.close_database(&database)?;
        self.change_catalogue(CatalogueChange::DatabaseGone(project.clone(), id.clone()));
        Ok(())
    }

    fn close_database(&mut self, database: &Database) -> Step<()> {
        for table in database.tables.values() {
            self.close_table(table.number)?;
        }
        self.close("database_", "seq = $2", [database.seq.into()])
    }

    fn create_table(&mut self, definition: &Table) -> Step<()> {
        let database = self.database(&definition.project, &definition.database)?;
        if database.tables.contains_key(&definition.id) {
            return Err(Refusal::Exists(Container::Table).into());
        }
        let table = self.stamped(definition);
        self.state.next_table += 1;
        self.need_key(&table, &table.columns)?;
        self.write(&rows::table(&table, self.mark))?;
        for column in &table.columns {
            self.write(&rows::column(table.number, column, self.mark))?;
        }
        for index in &table.indexes {
            self.write(&rows::index(&table, index, self.mark))?;
        }
        self.rows().reshape(TablesChange::Make(&table))?;
        let bytes = "INSERT INTO table_bytes (tab, bytes) VALUES ($1, 0)";
        self.write_of(bytes, table.number)?;
        self.change_catalogue(CatalogueChange::TablePut(Arc::new(table)));
        Ok(())
    }

    /// A new table's definition with the number, times and epochs that the commit gives.
    fn stamped(&self, definition: &Table) -> Table {
        let mut table = definition.clone();
        table.number = TableNumber(self.state.next_table);
        (table.schema_epoch, table.permission_epoch) = (self.next_epoch(), self.next_epoch());
        (table.created, table.updated) = (self.now(), self.now());
        table.options.kept_from = table.options.line_due(self.mark.timestamp());
        for column in &mut table.columns {
            (column.created, column.updated) = (self.now(), self.now());
        }
        for index in &mut table.indexes {
            index.status = IndexStatus::Available;
            (index.created, index.updated) = (self.now(), self.now());
        }
        table
    }

    fn update_table(
        &mut self,
        project: &ProjectId,
        database: &DatabaseId,
        id: &TableId,
        changes: &TableChanges<'_>,
    ) -> Step<()> {
        let database = self.database(project, database)?;
        let before = database
            .tables
            .get(id)
            .ok_or_else(|| Refusal::NotFound(Container::Table, id.to_string()))?;
        let mut after = Table::clone(before);
        if let Some(name) = changes.name {
            name.clone_into(&mut after.name);
        }
        if let Some(permissions) = changes.permissions {
            permissions.clone_into(&mut after.permissions);
        }
        after.row_security = changes.row_security.unwrap_or(before.row_security);
        after.enabled = changes.enabled.unwrap_or(before.enabled);
        if after == **before {
            return Ok(());
        }
        let access = |table: &Table| {
            (
                permissions_text(&table.permissions),
                table.row_security,
                table.enabled,
            )
        };
        if access(&after) != access(before) {
            after.permission_epoch = self.next_epoch();
        }
        self.put_table(after)
    }

    fn set_options(
        &mut self,
        number: TableNumber,
        set: impl FnOnce(&mut TableOptions),
    ) -> Step<()> {
        let before = self.state.catalogue.table_by_number(number);
        let before = before.cloned().ok_or(Refusal::CatalogueMoved)?;
        let (mut after, now) = (Table::clone(&before), self.mark.timestamp());
        let options = &mut after.options;
        set(options);
        let histories = [before.options.history, options.history];
        if histories[0] != histories[1] && histories.contains(&Retention::None) {
            options.kept_from = options.kept_from.max(now);
        }
        options.kept_from = options.line_due(now);
        if options.past != before.options.past {
            // Who may see what was kept of the past, is judged again.
            after.permission_epoch = self.next_epoch();
        }
        if after.options == before.options {
            return Ok(());
        }
        if after.options.kept_from > before.options.kept_from {
            self.leave(number, Task::Forget)?;
        }
        self.replace_table(after)
    }

    /// Rewrites a table's own row, and reports the table.
    pub(crate) fn put_table(&mut self, mut after: Table) -> Step<()> {
        after.updated = self.now();
        self.replace_table(after)
    }

    fn replace_table(&mut self, after: Table) -> Step<()> {
        self.close("table_", "number = $2", [after.number.0.into()])?;
        self.write(&rows::table(&after, self.mark))?;
        self.change_catalogue(CatalogueChange::TablePut(Arc::new(after)));
        Ok(())
    }

    fn delete_table(
        &mut self,
        project: &ProjectId,
        database: &DatabaseId,
        id: &TableId,
    ) -> Step<()> {
        let container = self.database(project, database)?;
        let table = container
            .tables
            .get(id)
            .ok_or_else(|| Refusal::NotFound(Container::Table, id.to_string()))?;
        let by = self.tables_referring_to(table, &container);
        if !by.is_empty() {
            let table = table.id.clone();
            return Err(Refusal::TableReferenced { table, by }.into());
        }
        self.leave_relationships(table)?;
        self.close_table(table.number)?;
        let gone = CatalogueChange::TableGone(project.clone(), database.clone(), id.clone());
        self.change_catalogue(gone);
        Ok(())
    }

    /// The other tables whose references over valid time lead to this one.
    fn tables_referring_to(&self, table: &Table, database: &Database) -> Vec<TableId> {
        let references = self.state.constraints.references_to(table.number);
        let others = database.tables.values().filter(|other| {
            // A reference by a column that is gone holds no more.
            let mut holds = references.iter().filter(|(holder, column)| {
                *holder == other.number && other.numbered(*column).is_some()
            });
            other.number != table.number && holds.next().is_some()
        });
        others.map(|other| other.id.clone()).collect()
    }

    /// Closes what the catalogue knows of a table, and lets its rows go.
    fn close_table(&mut self, number: TableNumber) -> Step<()> {
        for table in ["column_", "index_"] {
            self.close(table, "tab = $2", [number.0.into()])?;
        }
        self.close("table_", "number = $2", [number.0.into()])?;
        for delete in [
            // Whatever else was left to do for it is so no more.
            "DELETE FROM upkeep WHERE tab = $1",
            "DELETE FROM table_bytes WHERE tab = $1",
            "DELETE FROM erasure WHERE tab = $1",
            "DELETE FROM over_time WHERE tab = $1 OR related = $1",
        ] {
            self.write_of(delete, number)?;
        }
        Arc::make_mut(&mut self.state.constraints).forget(number);
        Arc::make_mut(&mut self.state.boundaries).remove(&number);
        Ok(self.rows().reshape(TablesChange::Drop(number))?)
    }

    /// Leaves a task to the upkeep.
    pub(crate) fn leave(&self, number: TableNumber, task: Task) -> Step<()> {
        self.write(&task.leave(number))
    }

    /// Ends the open rows of a catalogue table for which `condition` holds, whose parameters go on
    /// from `$2`.
    pub(crate) fn close(
        &self,
        table: &str,
        condition: &str,
        parameters: impl IntoIterator<Item = StoredParameter>,
    ) -> Step<()> {
        self.write(&rows::close(table, condition, self.mark, parameters))
    }

    pub(crate) fn write(&self, change: &StoredChange) -> Step<()> {
        Ok(self.rows().change_stored(change).map(drop)?)
    }

    /// Runs a statement on what is stored of a table beside its rows.
    fn write_of(&self, sql: &'static str, table: TableNumber) -> Step<()> {
        self.write(&StoredChange::new(sql, vec![table.0.into()]))
    }
}
