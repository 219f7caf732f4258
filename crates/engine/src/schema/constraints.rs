//! What must hold of a table's rows over valid time: reading it, and changing it whole or by one.

use std::sync::Arc;

use model::{Catalogue, ColumnNumber, Scope, Storage, Table};
use store::batch::CONSTRAINTS_MAX;
use store::{CatalogueOp, Constraint, ConstraintChange, Op, TableConstraints};

use crate::Engine;
use crate::commit::batch::batch;
use crate::error::refused::answer;
use crate::error::{EngineError, WriteError};
use crate::request::authorize;
use crate::request::inputs::{Caller, Place};

const READ: &[Scope] = &[Scope::IndexesRead, Scope::TablesRead];

/// Most columns of a key over valid time.
const KEY_COLUMNS_MAX: usize = 16;

/// Constraints by the names of columns and tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedConstraints {
    /// Keys of columns that are unique.
    pub unique: Vec<Vec<String>>,
    /// Columns that refer, and the tables of the same database that they refer to.
    pub refs: Vec<(String, String)>,
}

/// What is to become of a table's constraints.
#[derive(Clone, Debug)]
pub enum NamedChange {
    /// These take the place of all.
    Replace(NamedConstraints),
    /// These are added.
    Add(NamedConstraints),
    /// These are removed.
    Remove(NamedConstraints),
}

impl Engine {
    /// What must hold of a table's rows over valid time. For keys only.
    ///
    /// # Errors
    /// Whatever keeps the caller from reading the table's indexes.
    pub async fn constraints(
        &self,
        caller: &Caller,
        place: Place<'_>,
    ) -> Result<NamedConstraints, EngineError> {
        authorize::need_key(caller, READ)?;
        let catalogue = self.catalogue();
        let table = authorize::table(&catalogue, caller, place)?;
        let found = self.shared.store.constraints(table.number).await?;
        Ok(named(&catalogue, table, &found))
    }

    /// Changes what must hold of a table's rows over valid time; what must hold then. For keys
    /// only.
    ///
    /// # Errors
    /// [`EngineError::Argument`] for what cannot be declared, [`crate::SchemaError::NotKept`] for
    /// what does not hold now; [`crate::SchemaError::ConstraintExists`],
    /// [`crate::SchemaError::ConstraintNotFound`].
    pub async fn constrain(
        &self,
        caller: &Caller,
        place: Place<'_>,
        change: &NamedChange,
    ) -> Result<NamedConstraints, EngineError> {
        authorize::need_key(caller, &[Scope::IndexesWrite])?;
        self.under_catalogue(async |catalogue| {
            let table = authorize::table(catalogue, caller, place)?;
            let names = ConstraintNames {
                catalogue,
                caller,
                place,
                table,
            };
            let op = CatalogueOp::Constrain {
                table: Arc::clone(table),
                change: names.change(change)?,
            };
            let batch = batch(catalogue, caller, vec![Op::Catalogue(op)]);
            answer(self.writer.commit(batch).await?)?;
            let found = self.shared.store.constraints(table.number).await?;
            Ok(named(catalogue, table, &found))
        })
        .await
    }
}

/// By today's names. What names a column that is gone holds no more.
fn named(catalogue: &Catalogue, table: &Table, found: &TableConstraints) -> NamedConstraints {
    let key = |column: ColumnNumber| {
        let position = table.numbered(column)?;
        Some(table.columns[position].key.to_string())
    };
    let unique = found.unique.iter();
    let refs = found.refs.iter();
    NamedConstraints {
        unique: unique
            .filter_map(|columns| columns.iter().map(|column| key(*column)).collect())
            .collect(),
        refs: refs
            .filter_map(|(column, to)| {
                let to = catalogue.table_by_number(*to)?;
                Some((key(*column)?, to.id.to_string()))
            })
            .collect(),
    }
}

/// What names of columns and tables mean.
#[derive(Clone, Copy)]
struct ConstraintNames<'a> {
    catalogue: &'a Catalogue,
    caller: &'a Caller,
    place: Place<'a>,
    table: &'a Table,
}

impl ConstraintNames<'_> {
    fn change(self, change: &NamedChange) -> Result<ConstraintChange, EngineError> {
        Ok(match change {
            NamedChange::Replace(all) => ConstraintChange::Replace(self.all(all)?),
            NamedChange::Add(new) => ConstraintChange::Add(self.all(new)?),
            NamedChange::Remove(old) => ConstraintChange::Remove(self.all(old)?),
        })
    }

    fn all(self, all: &NamedConstraints) -> Result<TableConstraints, EngineError> {
        let NamedConstraints { unique, refs } = all;
        for (name, count) in [("unique", unique.len()), ("refs", refs.len())] {
            if count > CONSTRAINTS_MAX {
                return Err(refuse(
                    name,
                    format!("a table has at most {CONSTRAINTS_MAX}"),
                ));
            }
        }
        if let Some(twice) = (1..unique.len()).find(|nth| unique[..*nth].contains(&unique[*nth])) {
            let why = format!("the key of {} stands there twice", unique[twice].join(", "));
            return Err(refuse("unique", why));
        }
        if let Some(twice) = (1..refs.len()).find(|nth| refs[..*nth].contains(&refs[*nth])) {
            let (column, table) = &refs[twice];
            let why = format!("that of column `{column}` to table `{table}` stands there twice");
            return Err(refuse("refs", why));
        }
        let keys = unique.iter().map(|columns| self.key(columns));
        let refs = refs.iter().map(|(column, to)| self.reference(column, to));
        let mut found = TableConstraints::default();
        for constraint in keys.chain(refs) {
            found.add(constraint?);
        }
        Ok(found)
    }

    fn key(self, columns: &[String]) -> Result<Constraint, EngineError> {
        let is_twice = |nth: usize| columns[..nth].contains(&columns[nth]);
        if !(1..=KEY_COLUMNS_MAX).contains(&columns.len()) || (1..columns.len()).any(is_twice) {
            let why = format!("a key has 1 to {KEY_COLUMNS_MAX} columns, each once");
            return Err(refuse("unique", why));
        }
        let columns = columns.iter().map(|key| self.column(key, "unique"));
        Ok(Constraint::Unique(columns.collect::<Result<_, _>>()?))
    }

    fn reference(self, key: &str, to: &str) -> Result<Constraint, EngineError> {
        let related = Place {
            database: self.place.database,
            table: to,
        };
        let related = authorize::table(self.catalogue, self.caller, related)?;
        let number = self.column(key, "refs")?;
        let position = self.table.numbered(number);
        let position = position.expect("the column was just found");
        if self.table.columns[position].kind.storage() != Storage::Text {
            return Err(refuse("refs", format!("column `{key}` holds no texts")));
        }
        Ok(Constraint::Ref(number, related.number))
    }

    fn column(self, key: &str, name: &'static str) -> Result<ColumnNumber, EngineError> {
        let position = self.table.named(key).map_err(WriteError::Structure)?;
        let column = &self.table.columns[position];
        if column.array || column.relation().is_some() {
            let why = format!("column `{key}` holds lists or links");
            return Err(refuse(name, why));
        }
        if column.encrypt {
            return Err(refuse(name, format!("column `{key}` is encrypted")));
        }
        Ok(column.number)
    }
}

fn refuse(name: &'static str, why: String) -> EngineError {
    EngineError::Argument { name, why }
}
