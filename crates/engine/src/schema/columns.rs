//! Columns of a table: add, look up, list, change, remove.

use std::sync::Arc;

use model::{
    Catalogue, CatalogueChange, Column, ColumnKind, ColumnNumber, Field, INDEX_CHARS_MAX,
    IndexKind, Json, Scope, Table,
};
use store::{Applied, CatalogueOp, SchemaChange};

use crate::Engine;
use crate::error::{ColumnFault, EngineError, SchemaError};
use crate::request::authorize;
use crate::request::inputs::{Caller, ColumnChange, ListContainers, Listed, NewColumn, Place};
use crate::schema::definition::{self, Given, UNNUMBERED};
use crate::schema::listing::{self, COLUMNS};

const READ: &[Scope] = &[Scope::ColumnsRead, Scope::TablesRead];
pub(crate) const WRITE: &[Scope] = &[Scope::ColumnsWrite, Scope::TablesWrite];

/// A change of a schema that came too late is planned again so often. The change before it made
/// another change, so that so many may be under way at once.
const ATTEMPTS_MAX: usize = 1_000;

impl Engine {
    /// Adds a column. It has no value in the rows that are there, even if it is required.
    ///
    /// # Errors
    /// [`SchemaError::Column`] for the rule that the definition breaks.
    pub async fn create_column(
        &self,
        caller: &Caller,
        place: Place<'_>,
        new: &NewColumn,
    ) -> Result<Column, EngineError> {
        authorize::need_key(caller, WRITE)?;
        let plan = |table: &Table| {
            let number = ColumnNumber(UNNUMBERED);
            let column = definition::column(table, new, number, Given::ALONE)?;
            Ok(SchemaChange::AddColumn(column))
        };
        let table = self.change_schema(caller, place, plan).await?;
        let added = table.columns.last();
        Ok(added.expect("the change added one").clone())
    }

    /// The column `key`.
    ///
    /// # Errors
    /// [`ColumnFault::NotFound`], or that of its table.
    pub fn get_column(
        &self,
        caller: &Caller,
        place: Place<'_>,
        key: &str,
    ) -> Result<Column, EngineError> {
        authorize::need_key(caller, READ)?;
        let catalogue = self.catalogue();
        let table = authorize::table(&catalogue, caller, place)?;
        Ok(table.columns[position(table, key)?].clone())
    }

    /// The table's columns in the order of their creation.
    ///
    /// # Errors
    /// [`crate::ReadError::Query`] for a query that cannot be asked here.
    pub fn list_columns(
        &self,
        caller: &Caller,
        place: Place<'_>,
        request: ListContainers<'_>,
    ) -> Result<Listed<Column>, EngineError> {
        authorize::need_key(caller, READ)?;
        let catalogue = self.catalogue();
        let table = authorize::table(&catalogue, caller, place)?;
        let all: Vec<Column> = table.visible_columns().cloned().collect();
        listing::page(all, &COLUMNS, request, self.limits)
    }

    /// Changes a column's key, limits, default, or whether it is required. Rows stay as they are.
    ///
    /// # Errors
    /// [`SchemaError::Column`] for the rule that the new definition breaks;
    /// [`ColumnFault::InvalidResize`] when a row holds a longer text than it would take.
    pub async fn update_column(
        &self,
        caller: &Caller,
        place: Place<'_>,
        key: &str,
        change: &ColumnChange,
    ) -> Result<Column, EngineError> {
        authorize::need_key(caller, WRITE)?;
        let looked_at = self.look_at_texts(caller, place, key, change).await?;
        let plan = |table: &Table| {
            let before = &table.columns[position(table, key)?];
            let column = changed(table, before, change)?;
            Ok(match &looked_at {
                Some(looked) if looked.is_at(table, &column) => SchemaChange::ShortenColumn {
                    column,
                    since: looked.mark,
                },
                _ => SchemaChange::UpdateColumn(column),
            })
        };
        let table = self.change_schema(caller, place, plan).await?;
        let key = change.new_key.as_deref().unwrap_or(key);
        Ok(table.columns[position(&table, key)?].clone())
    }

    /// Removes a column from the table. Reads at coordinates before this still find it.
    ///
    /// # Errors
    /// [`ColumnFault::NotFound`]; [`ColumnFault::IndexDependency`] while an index names it.
    pub async fn delete_column(
        &self,
        caller: &Caller,
        place: Place<'_>,
        key: &str,
    ) -> Result<(), EngineError> {
        authorize::need_key(caller, WRITE)?;
        let plan = |table: &Table| {
            let position = position(table, key)?;
            need_no_index(table, position)?;
            Ok(SchemaChange::DropColumn(table.columns[position].number))
        };
        self.change_schema(caller, place, plan).await.map(drop)
    }

    /// Commits the change that `plan` makes of the table as it is, and plans again whenever
    /// another change came first. The table after it.
    pub(crate) async fn change_schema(
        &self,
        caller: &Caller,
        place: Place<'_>,
        plan: impl Fn(&Table) -> Result<SchemaChange, EngineError>,
    ) -> Result<Arc<Table>, EngineError> {
        self.change_schema_of(caller, place, |_, table| plan(table))
            .await
    }

    /// The same, where other tables must be looked at, too.
    pub(crate) async fn change_schema_of(
        &self,
        caller: &Caller,
        place: Place<'_>,
        plan: impl Fn(&Catalogue, &Table) -> Result<SchemaChange, EngineError>,
    ) -> Result<Arc<Table>, EngineError> {
        self.under_catalogue_up_to(ATTEMPTS_MAX, async |catalogue| {
            let table = authorize::table(catalogue, caller, place)?;
            let op = CatalogueOp::ChangeSchema {
                table: table.clone(),
                change: plan(catalogue, table)?,
            };
            let applied = self.change_catalogue(Some(caller), op).await?;
            Ok(after(table, applied).unwrap_or_else(|| table.clone()))
        })
        .await
    }
}

/// The table as a commit left it; `None` when it changed nothing of it.
fn after(before: &Table, applied: Applied) -> Option<Arc<Table>> {
    let changes = applied.catalogue.into_iter().rev();
    let mut tables = changes.filter_map(|change| match change {
        CatalogueChange::TablePut(table) => Some(table),
        _ => None,
    });
    tables.find(|table| table.number == before.number)
}

pub(crate) fn position(table: &Table, key: &str) -> Result<usize, EngineError> {
    table.position(key).ok_or_else(|| {
        let key = key.chars().take(100).collect();
        EngineError::Schema(SchemaError::Column(ColumnFault::NotFound(key)))
    })
}

fn need_no_index(table: &Table, position: usize) -> Result<(), EngineError> {
    let names_it = |part: &model::IndexColumn| part.field == Field::Column(position);
    let mut indexes = table.visible_indexes();
    let Some(index) = indexes.find(|index| index.columns.iter().any(names_it)) else {
        return Ok(());
    };
    let key = &table.columns[position].key;
    let why = format!(
        "Index `{}` names column `{key}`. Delete the index first.",
        index.key
    );
    Err(ColumnFault::IndexDependency(why).into())
}

/// The column as `change` leaves it: judged as a new definition that says all of it.
pub(crate) fn changed(
    table: &Table,
    before: &Column,
    change: &ColumnChange,
) -> Result<Column, EngineError> {
    if kind_word(&before.kind) != change.kind {
        let why = format!(
            "Column `{}` is of type `{}`, not `{}`.",
            before.key,
            kind_word(&before.kind),
            change.kind
        );
        return Err(ColumnFault::TypeInvalid(why).into());
    }
    let key = change.new_key.as_deref().unwrap_or(before.key.as_str());
    let mut new = NewColumn {
        key: key.to_owned(),
        kind: change.kind.to_owned(),
        required: change.required,
        default: change.default.clone(),
        array: before.array,
        encrypt: before.encrypt,
        ..limits(&before.kind)
    };
    new.size = change.size.or(new.size);
    new.min = change.min.clone().or(new.min);
    new.max = change.max.clone().or(new.max);
    new.elements.clone_from(&change.elements);
    let given = Given {
        key: "newKey",
        ..Given::ALONE
    };
    let after = definition::column(table, &new, before.number, given)?;
    if after.kind.chars_max() > before.kind.chars_max() {
        need_room_in_indexes(table, &after)?;
    }
    Ok(after)
}

/// No index that holds the column whole is to hold longer texts than it might be made over.
fn need_room_in_indexes(table: &Table, after: &Column) -> Result<(), EngineError> {
    let mut table = table.clone();
    let position = table.numbered(after.number);
    let position = position.expect("the column is one of the table's");
    table.columns[position] = after.clone();
    let holds_it =
        |part: &model::IndexColumn| part.field == Field::Column(position) && part.held.is_none();
    let is_too_long = |index: &&model::Index| {
        index.kind != IndexKind::Fulltext
            && index.columns.iter().any(holds_it)
            && definition::whole_chars(&table, &index.columns) > INDEX_CHARS_MAX
    };
    let Some(index) = table.indexes.iter().find(is_too_long) else {
        return Ok(());
    };
    let why = format!(
        "Index `{}` holds whole values of column `{}`, and {INDEX_CHARS_MAX} characters at most. \
         Delete the index first.",
        index.key, after.key
    );
    Err(ColumnFault::IndexDependency(why).into())
}

/// The limits of a kind, as a definition says them.
fn limits(kind: &ColumnKind) -> NewColumn {
    let mut new = NewColumn::default();
    match kind {
        ColumnKind::String { chars_max } | ColumnKind::Varchar { chars_max } => {
            new.size = Some(i64::from(*chars_max));
        }
        ColumnKind::Integer { min, max } | ColumnKind::Bigint { min, max } => {
            (new.min, new.max) = (Some(Json::Int(*min)), Some(Json::Int(*max)));
        }
        ColumnKind::Float { min, max } => {
            (new.min, new.max) = (Some(Json::Float(*min)), Some(Json::Float(*max)));
        }
        _ => {}
    }
    new
}

/// The word by which definitions call a kind.
fn kind_word(kind: &ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Email => "email",
        ColumnKind::Url => "url",
        ColumnKind::Ip => "ip",
        ColumnKind::Enum { .. } => "enum",
        ColumnKind::Float { .. } => "float",
        other => definition::column_type(other),
    }
}
