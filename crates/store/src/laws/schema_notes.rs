//! What the record of a commit says of the changes of its database: who looks for a change of the
//! schema finds it where changes of rows stand.

use model::{ColumnNumber, DatabaseId, ProjectId, Table};

use super::run::Run;
use crate::batch::{CatalogueOp, SchemaChange};
use crate::schema_record::{SchemaAct, SchemaRecord};

impl<D> Run<'_, D> {
    /// Takes note of an operation that has changed something in a database. The end of a project
    /// or a database is not noted: with it goes whatever could show it.
    pub(super) fn note_schema(&mut self, op: &CatalogueOp) {
        let (project, database, record) = match op {
            CatalogueOp::CreateProject { .. }
            | CatalogueOp::DeleteProject(_)
            | CatalogueOp::CreateKey(_)
            | CatalogueOp::RevokeKey(..)
            | CatalogueOp::CreateFunction(..)
            | CatalogueOp::UpdateFunction(..)
            | CatalogueOp::DeleteFunction(_)
            | CatalogueOp::DeleteDatabase(..)
            // The line of a table that forgets its past moves by itself.
            | CatalogueOp::SetOptions {
                pinned_max_age_s: None,
                history: None,
                past: None,
                ttl_max_s: None,
                ..
            } => return,
            CatalogueOp::CreateDatabase { project, id, .. } => {
                (project, id, record(SchemaAct::DatabaseCreated, None))
            }
            CatalogueOp::UpdateDatabase { project, id, .. } => {
                (project, id, record(SchemaAct::DatabaseUpdated, None))
            }
            CatalogueOp::CreateTable(table) => of_table(SchemaAct::TableCreated, table),
            CatalogueOp::UpdateTable {
                project,
                database,
                id,
                ..
            } => {
                let record = record(SchemaAct::TableUpdated, Some(id.as_str()));
                (project, database, record)
            }
            CatalogueOp::SetOptions { number, .. } => {
                let known = self.state.catalogue.table_by_number(*number).cloned();
                let table = known.expect("its options were just set");
                let (project, database, record) = of_table(SchemaAct::OptionsChanged, &table);
                return self.note(&project.clone(), &database.clone(), record);
            }
            CatalogueOp::DeleteTable(project, database, id) => {
                let record = record(SchemaAct::TableDeleted, Some(id.as_str()));
                (project, database, record)
            }
            CatalogueOp::Constrain { table, .. } => of_table(SchemaAct::ConstraintsChanged, table),
            CatalogueOp::ChangeSchema { table, change } => {
                let (act, key) = of_change(table, change);
                let (project, database, record) = of_table(act, table);
                (project, database, SchemaRecord { key, ..record })
            }
        };
        self.note(project, database, record);
    }

    fn note(&mut self, project: &ProjectId, database: &DatabaseId, record: SchemaRecord) {
        if let Ok(database) = self.database(project, database) {
            self.noted.push((database.seq, record));
        }
    }
}

fn record(act: SchemaAct, table: Option<&str>) -> SchemaRecord {
    SchemaRecord {
        act,
        table: table.map(str::to_owned),
        key: None,
    }
}

fn of_table(act: SchemaAct, table: &Table) -> (&ProjectId, &DatabaseId, SchemaRecord) {
    let record = record(act, Some(table.id.as_str()));
    (&table.project, &table.database, record)
}

/// What a change of a table's columns or indexes is called, and the key of what it is about.
fn of_change(table: &Table, change: &SchemaChange) -> (SchemaAct, Option<String>) {
    let column = |number: ColumnNumber| {
        let position = table.numbered(number)?;
        Some(table.columns[position].key.to_string())
    };
    let index = |number: u32| {
        let mut indexes = table.indexes.iter();
        let index = indexes.find(|index| index.number == number)?;
        Some(index.key.to_string())
    };
    match change {
        SchemaChange::AddColumn(column) => (SchemaAct::ColumnCreated, Some(column.key.to_string())),
        SchemaChange::UpdateColumn(column) | SchemaChange::ShortenColumn { column, .. } => {
            (SchemaAct::ColumnUpdated, Some(column.key.to_string()))
        }
        SchemaChange::AddRelationship { column, .. } => {
            (SchemaAct::RelationshipCreated, Some(column.key.to_string()))
        }
        SchemaChange::UpdateRelationship { key, .. } => {
            (SchemaAct::RelationshipUpdated, Some(key.to_string()))
        }
        SchemaChange::DropColumn(number) => (SchemaAct::ColumnDeleted, column(*number)),
        SchemaChange::AddIndex(index) => (SchemaAct::IndexCreated, Some(index.key.to_string())),
        SchemaChange::BuildIndex(number) | SchemaChange::FailIndex(number) => {
            (SchemaAct::IndexBuilt, index(*number))
        }
        SchemaChange::DropIndex(number) => (SchemaAct::IndexDeleted, index(*number)),
    }
}
