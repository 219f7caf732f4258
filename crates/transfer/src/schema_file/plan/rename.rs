//! Columns that get another key and keep their values.

use anyhow::{Context, Result, ensure};

use super::{DatabaseStep, SchemaStep, TableStep};
use crate::schema_file::file::{FileColumn, FileDatabase, FileTable, RELATIONSHIP, SchemaFile};

/// A column that gets another key and keeps its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnRename {
    /// The database.
    pub database: String,
    /// The table.
    pub table: String,
    /// The key.
    pub from: String,
    /// The new key.
    pub to: String,
}

impl std::str::FromStr for ColumnRename {
    type Err = String;

    fn from_str(text: &str) -> Result<ColumnRename, String> {
        let parts = || {
            let (path, to) = text.split_once('=')?;
            let mut path = path.split('/').map(str::to_owned);
            let (database, table, from) = (path.next()?, path.next()?, path.next()?);
            path.next().is_none().then(|| ColumnRename {
                database,
                table,
                from,
                to: to.to_owned(),
            })
        };
        parts().ok_or_else(|| format!("`{text}` is not of the form DATABASE/TABLE/COLUMN=NEW"))
    }
}

impl ColumnRename {
    /// The step that does it, and the server's schema as it is then. None where it has been done,
    /// so that the same command can be run again.
    ///
    /// # Errors
    /// When there is no such column, or its new key is taken.
    pub(super) fn done(&self, server: &mut SchemaFile) -> Result<Option<SchemaStep>> {
        let Self {
            database,
            table,
            from,
            to,
        } = self;
        let known = server.databases.iter_mut().find(|one| one.id == *database);
        let known =
            known.with_context(|| format!("--rename: the server has no database `{database}`"))?;
        let is_there = known.tables.iter().any(|one| one.id == *table);
        ensure!(
            is_there,
            "--rename: the server has no table `{database}/{table}`"
        );
        let is_taken = column(known, table, to).is_some();
        let Some(before) = column(known, table, from) else {
            ensure!(
                is_taken,
                "--rename: the server has no column `{database}/{table}/{from}`"
            );
            return Ok(None);
        };
        ensure!(
            !is_taken,
            "--rename: `{database}/{table}` has a column `{to}` already"
        );
        self.apply(known);
        Ok(Some(SchemaStep {
            database: database.clone(),
            change: DatabaseStep::Table {
                table: table.clone(),
                change: TableStep::RenameColumn(before, to.clone()),
            },
        }))
    }

    fn apply(&self, database: &mut FileDatabase) {
        for table in &mut database.tables {
            let ends = table.columns.iter_mut();
            let ends = ends.filter(|column| column.related_table.as_ref() == Some(&self.table));
            let ends = ends.filter_map(|column| column.two_way_key.as_mut());
            ends.for_each(|key| self.rename(key));
            if table.id == self.table {
                let FileTable {
                    columns,
                    indexes,
                    constraints,
                    ..
                } = table;
                let keys = columns.iter_mut().map(|column| &mut column.key);
                let indexed = indexes.iter_mut().flat_map(|index| &mut index.columns);
                let unique = constraints.unique.iter_mut().flatten();
                let refs = constraints.refs.iter_mut().map(|one| &mut one.column);
                keys.chain(indexed)
                    .chain(unique)
                    .chain(refs)
                    .for_each(|key| self.rename(key));
            }
        }
    }

    fn rename(&self, key: &mut String) {
        if *key == self.from {
            self.to.clone_into(key);
        }
    }
}

/// The column of a table, which may be the other end of a relationship.
fn column(database: &FileDatabase, table: &str, key: &str) -> Option<FileColumn> {
    let own = database.tables.iter().find(|one| one.id == table)?;
    let own = own.columns.iter().find(|one| one.key == key);
    let mut columns = database.tables.iter().flat_map(|one| &one.columns);
    let leads_here = |one: &&FileColumn| {
        one.related_table.as_deref() == Some(table) && one.two_way_key.as_deref() == Some(key)
    };
    let end = || {
        columns.find(leads_here).map(|_| FileColumn {
            key: key.to_owned(),
            kind: RELATIONSHIP.to_owned(),
            ..FileColumn::default()
        })
    };
    own.cloned().or_else(end)
}
