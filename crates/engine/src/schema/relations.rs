//! Relationships between tables: add, change. Looked up and removed like any other column.

use std::sync::Arc;

use model::{
    Catalogue, Column, ColumnKey, ColumnKind, ColumnNumber, OnDelete, Relation, RelationKind, Side,
    Table, Timestamp,
};
use store::SchemaChange;

use crate::Engine;
use crate::error::{ColumnFault, EngineError, SchemaError};
use crate::request::authorize;
use crate::request::inputs::{Caller, Place};
use crate::schema::columns::{WRITE, position};
use crate::schema::definition::UNNUMBERED;

/// A relationship as sent. Absent members are `None`; nothing is judged yet.
#[derive(Clone, Debug, Default)]
pub struct NewRelationship {
    /// The table at the other end.
    pub related: String,
    /// `oneToOne`, `manyToOne`, `manyToMany` or `oneToMany`.
    pub kind: String,
    /// Whether the other table shows its end.
    pub two_way: bool,
    /// The key of the column; else the id of the related table.
    pub key: Option<String>,
    /// The key of the column at the other end; else the id of this table.
    pub partner_key: Option<String>,
    /// `cascade`, `restrict` or `setNull`; else `restrict`.
    pub on_delete: Option<String>,
}

/// A change of a relationship; `None` keeps.
#[derive(Clone, Debug, Default)]
pub struct RelationshipChange {
    /// Another key of this end.
    pub new_key: Option<String>,
    /// `cascade`, `restrict` or `setNull`.
    pub on_delete: Option<String>,
}

impl Engine {
    /// Adds a relationship: a column here and one in the related table, which is shown if the
    /// relationship goes two ways. No row is linked yet.
    ///
    /// # Errors
    /// [`SchemaError::TableNotFound`] also for the related table, [`EngineError::Argument`],
    /// [`ColumnFault::Exists`] for either key.
    pub async fn create_relationship(
        &self,
        caller: &Caller,
        place: Place<'_>,
        new: &NewRelationship,
    ) -> Result<Column, EngineError> {
        authorize::need_key(caller, WRITE)?;
        let plan = |catalogue: &Catalogue, table: &Table| {
            let place = Place {
                table: &new.related,
                ..place
            };
            let related = authorize::table(catalogue, caller, place)?;
            planned(table, related, new)
        };
        let table = self.change_schema_of(caller, place, plan).await?;
        let key = new.key.as_deref().unwrap_or(&new.related);
        Ok(table.columns[position(&table, key)?].clone())
    }

    /// Changes the key of a relationship, or what becomes of related rows on deletion.
    ///
    /// # Errors
    /// [`ColumnFault::NotFound`], [`ColumnFault::TypeInvalid`] for another kind of column,
    /// [`ColumnFault::Exists`] for the new key.
    pub async fn update_relationship(
        &self,
        caller: &Caller,
        place: Place<'_>,
        key: &str,
        change: &RelationshipChange,
    ) -> Result<Column, EngineError> {
        authorize::need_key(caller, WRITE)?;
        let plan = |_: &Catalogue, table: &Table| changed(table, key, change);
        let table = self.change_schema_of(caller, place, plan).await?;
        let key = change.new_key.as_deref().unwrap_or(key);
        Ok(table.columns[position(&table, key)?].clone())
    }
}

fn planned(
    table: &Table,
    related: &Arc<Table>,
    new: &NewRelationship,
) -> Result<SchemaChange, EngineError> {
    let kind = RelationKind::parse(&new.kind).ok_or_else(|| EngineError::Argument {
        name: "type",
        why: "expected oneToOne, manyToOne, manyToMany or oneToMany.".to_owned(),
    })?;
    let on_delete = match new.on_delete.as_deref() {
        None => OnDelete::Restrict,
        Some(word) => parse_on_delete(word)?,
    };
    let key = key_of(new.key.as_deref().unwrap_or(&new.related), "key")?;
    let partner_key = new.partner_key.as_deref().unwrap_or(table.id.as_str());
    let partner_key = key_of(partner_key, "twoWayKey")?;
    need_free(table, &key, None)?;
    if new.two_way {
        need_free(related, &partner_key, None)?;
        let are_equal = key.as_str().eq_ignore_ascii_case(partner_key.as_str());
        if related.number == table.number && are_equal {
            return Err(exists(&partner_key));
        }
    }
    let end = |side: Side| {
        let (own, other, leads_to) = match side {
            Side::Parent => (&key, &partner_key, &related.id),
            Side::Child => (&partner_key, &key, &table.id),
        };
        column(
            own,
            Relation {
                related: leads_to.clone(),
                partner: ColumnNumber(UNNUMBERED),
                partner_key: other.clone(),
                kind,
                two_way: new.two_way,
                on_delete,
                side,
                has_ended: false,
            },
        )
    };
    Ok(SchemaChange::AddRelationship {
        related: Arc::clone(related),
        column: end(Side::Parent),
        partner: end(Side::Child),
    })
}

fn column(key: &ColumnKey, relation: Relation) -> Column {
    let unset = Timestamp(0);
    Column {
        number: ColumnNumber(UNNUMBERED),
        key: key.clone(),
        required: false,
        array: relation.holds_links() && relation.is_list(),
        encrypt: false,
        kind: ColumnKind::Relationship(relation),
        default: None,
        created: unset,
        updated: unset,
    }
}

fn changed(
    table: &Table,
    key: &str,
    change: &RelationshipChange,
) -> Result<SchemaChange, EngineError> {
    let column = &table.columns[position(table, key)?];
    let Some(relation) = column.relation() else {
        let why = format!("Column `{}` is no relationship.", column.key);
        return Err(ColumnFault::TypeInvalid(why).into());
    };
    let on_delete = match change.on_delete.as_deref() {
        None => relation.on_delete,
        Some(word) => parse_on_delete(word)?,
    };
    let key = match change.new_key.as_deref() {
        None => column.key.clone(),
        Some(key) => key_of(key, "newKey")?,
    };
    need_free(table, &key, Some(column.number))?;
    Ok(SchemaChange::UpdateRelationship {
        number: column.number,
        key,
        on_delete,
    })
}

fn parse_on_delete(word: &str) -> Result<OnDelete, EngineError> {
    OnDelete::parse(word).ok_or_else(|| EngineError::Argument {
        name: "onDelete",
        why: "expected cascade, restrict or setNull.".to_owned(),
    })
}

fn key_of(text: &str, name: &'static str) -> Result<ColumnKey, EngineError> {
    ColumnKey::new(text).map_err(|error| EngineError::Argument {
        name,
        why: error.to_string(),
    })
}

/// No other column of the table that users see may have the key, in whatever case.
fn need_free(table: &Table, key: &ColumnKey, own: Option<ColumnNumber>) -> Result<(), EngineError> {
    let is_taken = |column: &Column| {
        Some(column.number) != own && column.key.as_str().eq_ignore_ascii_case(key.as_str())
    };
    if table.visible_columns().any(is_taken) {
        return Err(exists(key));
    }
    Ok(())
}

fn exists(key: &ColumnKey) -> EngineError {
    EngineError::Schema(SchemaError::Column(ColumnFault::Exists(key.to_string())))
}
