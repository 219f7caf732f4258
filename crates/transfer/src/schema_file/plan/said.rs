//! Steps as people read them: one line each, with what would be lost.

use std::fmt;

use model::Retention;
use serde::Serialize;

use super::{DatabaseStep, SchemaStep, TableStep};
use crate::schema_file::file::FileTable;

impl SchemaStep {
    /// What is lost by it; `None` for nothing.
    pub fn loss(&self) -> Option<String> {
        match &self.change {
            DatabaseStep::DeleteTable(table) => {
                let columns = table.columns.iter().filter(|one| !one.is_relationship());
                let keys: Vec<&str> = columns.map(|column| &*column.key).collect();
                Some(match &*keys {
                    [] => "loses its rows".to_owned(),
                    keys => format!("loses its rows, with the values of {}", keys.join(", ")),
                })
            }
            DatabaseStep::Table { change, .. } => change.loss().map(str::to_owned),
            _ => None,
        }
    }
}

/// Whether less of the past is kept; what cannot be read is left to the server, which refuses it.
pub fn keeps_less(before: &str, after: &str) -> bool {
    let days = |text: &str| match Retention::parse(text)? {
        Retention::All => Some(u32::MAX),
        Retention::Days(days) => Some(days),
        Retention::None => Some(0),
    };
    days(before)
        .zip(days(after))
        .is_some_and(|(before, after)| after < before)
}

impl fmt::Display for SchemaStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = &self.database;
        match &self.change {
            DatabaseStep::CreateDatabase(_) => write!(f, "+ database {database}"),
            DatabaseStep::UpdateDatabase(after) => {
                write!(
                    f,
                    "~ database {database}: name {:?}, enabled {}",
                    after.name, after.enabled
                )
            }
            DatabaseStep::CreateTable(table) => {
                let (columns, indexes) = (table.columns.len() as u64, table.indexes.len() as u64);
                let (columns, indexes) = (
                    model::counted(columns, "column"),
                    // The plural of the field's word is regular here.
                    if indexes == 1 {
                        "1 index".to_owned()
                    } else {
                        format!("{indexes} indexes")
                    },
                );
                write!(
                    f,
                    "+ table {database}/{} with {columns}, {indexes}",
                    table.id
                )
            }
            DatabaseStep::UpdateTable { before, after } => {
                write!(f, "~ table {database}/{}: ", after.id)?;
                differences(f, &head(before), &head(after))
            }
            DatabaseStep::DeleteTable(table) => write!(f, "- table {database}/{}", table.id),
            DatabaseStep::Table { table, change } => {
                write!(f, "{} {} {database}/{table}", change.sign(), change.noun())?;
                change.write(f)
            }
        }?;
        match self.loss() {
            Some(loss) => write!(f, "   ! {loss}"),
            None => Ok(()),
        }
    }
}

fn head(table: &FileTable) -> impl Serialize {
    serde_json::json!({
        "name": table.name,
        "enabled": table.enabled,
        "permissions": table.permissions,
        "rowSecurity": table.row_security,
    })
}

impl TableStep {
    fn loss(&self) -> Option<&'static str> {
        match self {
            TableStep::DeleteColumn(column) if column.is_relationship() => Some("loses its links"),
            TableStep::DeleteColumn(_) => Some("loses its values"),
            // A new table has no options before, and no versions either.
            TableStep::SetOptions(Some(before), after) => {
                keeps_less(&before.history, &after.history)
                    .then_some("loses older versions of rows")
            }
            _ => None,
        }
    }

    fn sign(&self) -> char {
        match self {
            TableStep::AddColumn(_) | TableStep::AddIndex(_) => '+',
            TableStep::DeleteColumn(_) | TableStep::DeleteIndex(_) => '-',
            _ => '~',
        }
    }

    fn noun(&self) -> &'static str {
        match self {
            TableStep::SetOptions(..) => "options",
            TableStep::SetConstraints(..) => "constraints",
            TableStep::AddIndex(_) | TableStep::DeleteIndex(_) => "index",
            TableStep::AddColumn(_)
            | TableStep::UpdateColumn(..)
            | TableStep::RenameColumn(..)
            | TableStep::DeleteColumn(_) => "column",
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableStep::SetOptions(before, after) => {
                f.write_str(": ")?;
                differences(f, before, &Some(after))
            }
            TableStep::SetConstraints(before, after) => {
                f.write_str(": ")?;
                differences(f, before, after)
            }
            TableStep::AddColumn(column) => write!(f, "/{} {}", column.key, column.kind),
            TableStep::UpdateColumn(before, after) => {
                write!(f, "/{}: ", after.key)?;
                differences(f, before, after)
            }
            TableStep::RenameColumn(column, to) => write!(f, "/{}: renamed to {to}", column.key),
            TableStep::DeleteColumn(column) => write!(f, "/{}", column.key),
            TableStep::AddIndex(index) => {
                write!(
                    f,
                    "/{} {} ({})",
                    index.key,
                    index.kind,
                    index.columns.join(", ")
                )
            }
            TableStep::DeleteIndex(key) => write!(f, "/{key}"),
        }
    }
}

/// The members that differ, as `name old -> new`.
fn differences<T: Serialize + ?Sized, U: Serialize + ?Sized>(
    f: &mut fmt::Formatter<'_>,
    before: &T,
    after: &U,
) -> fmt::Result {
    let value = |result: serde_json::Result<serde_json::Value>| result.unwrap_or_default();
    let before = value(serde_json::to_value(before));
    let after = value(serde_json::to_value(after));
    let members = [&before, &after].map(|value| value.as_object().into_iter().flatten());
    let [old, new] = members;
    let mut names: Vec<&String> = old.chain(new).map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    let changed = names
        .into_iter()
        .filter(|name| before[&**name] != after[&**name]);
    let changed: Vec<String> = changed
        .map(|name| format!("{name} {} -> {}", before[&**name], after[&**name]))
        .collect();
    f.write_str(&changed.join(", "))
}
