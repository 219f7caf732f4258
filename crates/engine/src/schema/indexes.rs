//! Indexes of a table: add, look up, list, remove.

use std::sync::Arc;

use model::{Field, Index, Scope, Table};
use store::SchemaChange;

use crate::Engine;
use crate::error::{EngineError, IndexFault, SchemaError};
use crate::request::authorize;
use crate::request::inputs::{Caller, ListContainers, Listed, NewIndex, Place};
use crate::schema::definition::{self, Given, UNNUMBERED};
use crate::schema::listing::{self, INDEXES, NamedIndex};

const READ: &[Scope] = &[Scope::IndexesRead, Scope::TablesRead];
const WRITE: &[Scope] = &[Scope::IndexesWrite, Scope::TablesWrite];

/// An index, and the table whose columns it names.
pub type IndexOf = (Arc<Table>, Index);

impl Engine {
    /// Adds an index. Of a table with many rows it comes back processing, and is built by the
    /// writer as soon as no other request writes; a unique one over equal values comes back failed,
    /// or becomes so.
    ///
    /// # Errors
    /// [`SchemaError::Index`] for the rule that the definition breaks.
    pub async fn create_index(
        &self,
        caller: &Caller,
        place: Place<'_>,
        new: &NewIndex,
    ) -> Result<IndexOf, EngineError> {
        authorize::need_key(caller, WRITE)?;
        let plan = |table: &Table| {
            let index = definition::index(table, new, UNNUMBERED, Given::ALONE)?;
            Ok(SchemaChange::AddIndex(index))
        };
        let table = self.change_schema(caller, place, plan).await?;
        let added = table.indexes.last().expect("the change added one").clone();
        Ok((table, added))
    }

    /// The index `key`.
    ///
    /// # Errors
    /// [`IndexFault::NotFound`], or that of its table.
    pub fn get_index(
        &self,
        caller: &Caller,
        place: Place<'_>,
        key: &str,
    ) -> Result<IndexOf, EngineError> {
        authorize::need_key(caller, READ)?;
        let table = authorize::table(&self.catalogue(), caller, place)?.clone();
        let index = found(&table, key)?.clone();
        Ok((table, index))
    }

    /// The table, and its indexes in the order of their creation.
    ///
    /// # Errors
    /// [`crate::ReadError::Query`] for a query that cannot be asked here.
    pub fn list_indexes(
        &self,
        caller: &Caller,
        place: Place<'_>,
        request: ListContainers<'_>,
    ) -> Result<(Arc<Table>, Listed<Index>), EngineError> {
        authorize::need_key(caller, READ)?;
        let table = authorize::table(&self.catalogue(), caller, place)?.clone();
        let all: Vec<NamedIndex> = table
            .visible_indexes()
            .map(|index| named(&table, index))
            .collect();
        let Listed { total, items } = listing::page(all, &INDEXES, request, self.limits)?;
        let items = items.into_iter().map(|named| named.index).collect();
        Ok((table, Listed { total, items }))
    }

    /// Removes an index, also one that failed or waits to be built.
    ///
    /// # Errors
    /// [`IndexFault::NotFound`], or that of its table.
    pub async fn delete_index(
        &self,
        caller: &Caller,
        place: Place<'_>,
        key: &str,
    ) -> Result<(), EngineError> {
        authorize::need_key(caller, WRITE)?;
        let plan = |table: &Table| Ok(SchemaChange::DropIndex(found(table, key)?.number));
        self.change_schema(caller, place, plan).await.map(drop)
    }
}

fn found<'t>(table: &'t Table, key: &str) -> Result<&'t Index, EngineError> {
    let mut indexes = table.visible_indexes();
    indexes
        .find(|index| index.key.as_str() == key)
        .ok_or_else(|| {
            let key = key.chars().take(100).collect();
            EngineError::Schema(SchemaError::Index(IndexFault::NotFound(key)))
        })
}

fn named(table: &Table, index: &Index) -> NamedIndex {
    let key = |field: Field| match field {
        Field::Id => "$id",
        Field::Sequence => "$sequence",
        Field::Created => "$createdAt",
        Field::Updated => "$updatedAt",
        Field::Span(end) => end.as_str(),
        Field::Column(position) => table.columns[position].key.as_str(),
    };
    let columns = index.columns.iter();
    NamedIndex {
        index: index.clone(),
        columns: columns.map(|part| key(part.field).to_owned()).collect(),
    }
}
