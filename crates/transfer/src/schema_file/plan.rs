//! What must be done to a server so that its schema is that of a file, and what would be lost.

use anyhow::{Result, ensure};

use super::file::{
    FileColumn, FileConstraints, FileDatabase, FileIndex, FileOptions, FileTable, SchemaFile,
};

mod rename;
mod said;

pub use rename::ColumnRename;
pub use said::keeps_less;

/// Most columns of one call that creates a table (wire protocol, 2.2).
const COLUMNS_AT_ONCE_MAX: usize = 100;

/// One change of a server, done by one request.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaStep {
    /// The database.
    pub database: String,
    /// What is done to it.
    pub change: DatabaseStep,
}

/// What is done to a database.
#[derive(Clone, Debug, PartialEq)]
pub enum DatabaseStep {
    /// It is created, without tables.
    CreateDatabase(FileDatabase),
    /// Its name, or whether it is enabled.
    UpdateDatabase(FileDatabase),
    /// A table is created with its first columns; with its indexes where those are all.
    CreateTable(FileTable),
    /// Name, permissions, row security, or whether it is enabled.
    UpdateTable {
        /// As it is.
        before: FileTable,
        /// As it shall be.
        after: FileTable,
    },
    /// A table, with its rows.
    DeleteTable(FileTable),
    /// A change of one table.
    Table {
        /// The table.
        table: String,
        /// What is done to it.
        change: TableStep,
    },
}

/// What is done to a table.
#[derive(Clone, Debug, PartialEq)]
pub enum TableStep {
    /// Its options, as they are and as they shall be.
    SetOptions(Option<FileOptions>, FileOptions),
    /// Its rules over valid time, as they are and as they shall be.
    SetConstraints(FileConstraints, FileConstraints),
    /// A column, or a relationship.
    AddColumn(FileColumn),
    /// What may be changed of a column, as it is and as it shall be.
    UpdateColumn(Box<FileColumn>, Box<FileColumn>),
    /// A column gets another key.
    RenameColumn(FileColumn, String),
    /// A column, with its values.
    DeleteColumn(FileColumn),
    /// An index.
    AddIndex(FileIndex),
    /// An index.
    DeleteIndex(String),
}

/// The changes that make a server's schema that of the file, in the order in which they are done.
/// Databases that the file does not name, and options that it does not, are left alone.
///
/// # Errors
/// When a rename names no column.
pub fn plan(
    server: &SchemaFile,
    wanted: &SchemaFile,
    renames: &[ColumnRename],
) -> Result<Vec<SchemaStep>> {
    let mut server = server.clone();
    let mut steps = Vec::new();
    for rename in renames {
        steps.extend(rename.done(&mut server)?);
    }
    for after in &wanted.databases {
        let before = server.databases.iter().find(|one| one.id == after.id);
        let changes = match before {
            Some(before) => database(before, after),
            None => created(after),
        };
        steps.extend(changes.into_iter().map(|change| SchemaStep {
            database: after.id.clone(),
            change,
        }));
    }
    Ok(steps)
}

fn created(after: &FileDatabase) -> Vec<DatabaseStep> {
    let empty = FileDatabase {
        tables: Vec::new(),
        ..after.clone()
    };
    let mut changes = vec![DatabaseStep::CreateDatabase(empty.clone())];
    changes.extend(database(&empty, after));
    changes
}

/// What is done to one database. What others need comes first, and what is lost comes last, but for
/// what must make room.
#[derive(Default)]
struct Phases {
    room: Vec<DatabaseStep>,
    tables: Vec<DatabaseStep>,
    columns: Vec<DatabaseStep>,
    rules: Vec<DatabaseStep>,
    indexes: Vec<DatabaseStep>,
    ends: Vec<DatabaseStep>,
}

fn database(before: &FileDatabase, after: &FileDatabase) -> Vec<DatabaseStep> {
    let mut phases = Phases::default();
    if (&before.name, before.enabled) != (&after.name, after.enabled) {
        phases
            .tables
            .push(DatabaseStep::UpdateDatabase(FileDatabase {
                tables: Vec::new(),
                ..after.clone()
            }));
    }
    for table in &after.tables {
        match before.tables.iter().find(|one| one.id == table.id) {
            Some(known) => phases.change_table(known, table),
            None => phases.create_table(table),
        }
    }
    for table in &before.tables {
        if !after.tables.iter().any(|one| one.id == table.id) {
            // A table that another relates to is not deleted, and these may do so in a circle.
            for column in table.columns.iter().filter(|one| one.is_relationship()) {
                let change = TableStep::DeleteColumn(column.clone());
                phases.ends.insert(0, of_table(table, change));
            }
            phases.ends.push(DatabaseStep::DeleteTable(table.clone()));
        }
    }
    let Phases {
        room,
        tables,
        columns,
        rules,
        indexes,
        ends,
    } = phases;
    [room, tables, columns, rules, indexes, ends].concat()
}

fn of_table(table: &FileTable, change: TableStep) -> DatabaseStep {
    DatabaseStep::Table {
        table: table.id.clone(),
        change,
    }
}

impl Phases {
    /// A table is made up to its first relationship, so that all tables are there before the
    /// first relationship is, and columns come into the order of the file.
    fn create_table(&mut self, table: &FileTable) {
        let plain = table.columns.iter().position(FileColumn::is_relationship);
        let plain = plain
            .unwrap_or(table.columns.len())
            .min(COLUMNS_AT_ONCE_MAX);
        let is_whole = plain == table.columns.len();
        let mut first = table.clone();
        let rest = first.columns.split_off(plain);
        if !is_whole {
            first.indexes.clear();
        }
        let indexes = if is_whole { &[][..] } else { &table.indexes };
        self.tables.push(DatabaseStep::CreateTable(first));
        let add = |column| of_table(table, TableStep::AddColumn(column));
        self.columns.extend(rest.into_iter().map(add));
        for index in indexes {
            self.indexes
                .push(of_table(table, TableStep::AddIndex(index.clone())));
        }
        self.set_rules(None, &FileConstraints::default(), table);
    }

    fn set_rules(
        &mut self,
        options: Option<&FileOptions>,
        known: &FileConstraints,
        after: &FileTable,
    ) {
        if let Some(wanted) = after
            .options
            .as_ref()
            .filter(|wanted| options != Some(*wanted))
        {
            let change = TableStep::SetOptions(options.cloned(), wanted.clone());
            self.rules.push(of_table(after, change));
        }
        if *known != after.constraints {
            let change = TableStep::SetConstraints(known.clone(), after.constraints.clone());
            self.rules.push(of_table(after, change));
        }
    }

    fn change_table(&mut self, before: &FileTable, after: &FileTable) {
        let head = |table: &FileTable| {
            let FileTable {
                name,
                enabled,
                permissions,
                row_security,
                ..
            } = table.clone();
            (name, enabled, permissions, row_security)
        };
        if head(before) != head(after) {
            self.rules.push(DatabaseStep::UpdateTable {
                before: before.clone(),
                after: after.clone(),
            });
        }
        let (gone, known) = self.change_columns(before, after);
        self.set_rules(before.options.as_ref(), &known, after);
        for index in &before.indexes {
            let is_kept = |wanted: &FileIndex| {
                *wanted == *index && !index.columns.iter().any(|key| gone.contains(key))
            };
            if !after.indexes.iter().any(is_kept) {
                let delete = TableStep::DeleteIndex(index.key.clone());
                self.room.insert(0, of_table(after, delete));
            }
        }
        for index in &after.indexes {
            let is_there = before.indexes.contains(index)
                && !index.columns.iter().any(|key| gone.contains(key));
            if !is_there {
                self.indexes
                    .push(of_table(after, TableStep::AddIndex(index.clone())));
            }
        }
    }

    /// Returns the keys of columns that are deleted, also of those that are made again, and what is
    /// left of the rules over valid time then: a column that a rule names is not deleted.
    fn change_columns(
        &mut self,
        before: &FileTable,
        after: &FileTable,
    ) -> (Vec<String>, FileConstraints) {
        let (mut gone, mut again) = (Vec::new(), Vec::new());
        for column in &before.columns {
            let wanted = after.columns.iter().find(|one| has_key(one, &column.key));
            let delete = of_table(after, TableStep::DeleteColumn(column.clone()));
            match wanted {
                Some(wanted) if is_same_kind(column, wanted) => {
                    if !is_equal(column, wanted) {
                        let update = TableStep::UpdateColumn(
                            Box::new(column.clone()),
                            Box::new(wanted.clone()),
                        );
                        self.columns.push(of_table(after, update));
                    }
                    continue;
                }
                Some(_) => {
                    self.room.push(delete);
                    again.push(column.key.clone());
                }
                None => self.ends.push(delete),
            }
            gone.push(column.key.clone());
        }
        for column in &after.columns {
            let known = before.columns.iter().find(|one| has_key(one, &column.key));
            if !known.is_some_and(|known| is_same_kind(known, column)) {
                let add = TableStep::AddColumn(column.clone());
                self.columns.push(of_table(after, add));
            }
        }
        let mut left = before.constraints.clone();
        let is_kept = |key: &String| !again.contains(key);
        left.unique.retain(|keys| keys.iter().all(is_kept));
        left.refs.retain(|one| is_kept(&one.column));
        if left != before.constraints {
            let change = TableStep::SetConstraints(before.constraints.clone(), left.clone());
            self.room.insert(0, of_table(after, change));
        }
        (gone, left)
    }
}

/// As a server compares keys of columns.
fn has_key(column: &FileColumn, key: &str) -> bool {
    column.key.eq_ignore_ascii_case(key)
}

/// Whether a column can become the other and keep its values.
fn is_same_kind(one: &FileColumn, other: &FileColumn) -> bool {
    one.key == other.key
        && one.kind == other.kind
        && one.array == other.array
        && one.encrypt == other.encrypt
        && one.related_table == other.related_table
        && one.relation_type == other.relation_type
        && one.two_way_key == other.two_way_key
}

/// Whether nothing is to be done. Some servers show a size where a type has none to choose.
fn is_equal(known: &FileColumn, wanted: &FileColumn) -> bool {
    let size = known.size.filter(|_| wanted.size.is_some());
    let known = FileColumn {
        size,
        ..known.clone()
    };
    known == *wanted
}

/// Refuses steps that lose something.
///
/// # Errors
/// With each of them, and what to do.
pub fn refuse_loss(steps: &[SchemaStep]) -> Result<()> {
    let lossy: Vec<String> = steps
        .iter()
        .filter(|step| step.loss().is_some())
        .map(ToString::to_string)
        .collect();
    ensure!(
        lossy.is_empty(),
        "nothing was changed, because data would be lost: {}. Use --rename where a column got \
         another key, or --allow-data-loss",
        lossy.join("; ")
    );
    Ok(())
}

/// Reads the steps' text as people see it: one line each.
pub fn listed(steps: &[SchemaStep]) -> String {
    let lines: Vec<String> = steps.iter().map(|step| format!("{step}\n")).collect();
    lines.concat()
}

#[cfg(test)]
mod tests;
