//! Rows brought from elsewhere, with the links between them.
//!
//! All rows come first and their links after them: a link may lead to a row that comes later, and
//! tables may lead to each other in circles. Between the two a row has no links; it never has one
//! that leads nowhere.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use model::{Catalogue, Json, Relation, RelationKind, RowId, Table};
use store::{HoldOp, Op, RelatedOp};

use crate::Engine;
use crate::error::{ColumnFault, EngineError, SchemaError, WriteError};
use crate::read::related_plan::beside;
use crate::request::authorize::{self, WRITE_ROWS};
use crate::request::inputs::{Caller, Place, RowInput};
use crate::write::content::PermissionsIn;
use crate::write::row_ops::insert;

/// Which links one row holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowLinks {
    /// The row.
    pub id: RowId,
    /// What its columns hold; columns that are not named keep what they hold.
    pub links: Vec<(LinkColumn, Vec<RowId>)>,
}

/// A column that holds links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkColumn {
    /// One that users see, by its key.
    Key(String),
    /// The hidden end of a relationship that goes one way.
    Hidden {
        /// The table that shows the other end.
        parent: String,
        /// The key of that end.
        key: String,
    },
}

impl Engine {
    /// Creates rows, all or none, also in a table with relationships: links in their content are
    /// left out. For keys only. Grants come from each row's `$permissions`.
    ///
    /// # Errors
    /// As for [`Engine::create_row`].
    pub async fn import_rows(
        &self,
        caller: &Caller,
        place: Place<'_>,
        rows: Vec<RowInput>,
    ) -> Result<(), EngineError> {
        authorize::need_key(caller, WRITE_ROWS)?;
        let build = |_: &Catalogue, table: &Arc<Table>| {
            let insert = |row: &RowInput| {
                let row = without_links(table, row);
                insert(table, &caller.actor, &row, &[], PermissionsIn::Content).map(Op::Row)
            };
            rows.iter().map(insert).collect()
        };
        self.write_rows(caller, place, None, build).await.map(drop)
    }

    /// Sets which links rows hold, all or none; for keys only. `$updatedAt` stays as it is, and a
    /// row that holds these links already is not written. A link of a relationship from one to one
    /// may change from one of the rows to another.
    ///
    /// # Errors
    /// [`ColumnFault::NotFound`] for a column that is not there or holds no links,
    /// [`WriteError::Relationship`] for a link that leads nowhere, or for several links where
    /// there can be one; [`crate::ReadError::RowNotFound`], [`WriteError::UniqueViolation`] for a
    /// link that a row beside these holds.
    pub async fn import_links(
        &self,
        caller: &Caller,
        place: Place<'_>,
        rows: Vec<RowLinks>,
    ) -> Result<(), EngineError> {
        authorize::need_key(caller, WRITE_ROWS)?;
        let build = |catalogue: &Catalogue, table: &Arc<Table>| {
            let holds = holds(catalogue, table, &rows)?;
            let exclusive = holds.iter().filter(|op| is_exclusive(op)).cloned();
            let mut ops: Vec<Op> = exclusive.map(RelatedOp::Free).map(related).collect();
            ops.extend(holds.into_iter().map(RelatedOp::Hold).map(related));
            Ok(ops)
        };
        self.write_rows(caller, place, None, build).await.map(drop)
    }

    /// Takes links of relationships from one to one away from rows that hold others than these, all
    /// or none; for keys only. Links that change between rows of several batches are taken away in
    /// all of them before [`Engine::import_links`] gives any.
    ///
    /// # Errors
    /// As for [`Engine::import_links`], but for links that lead nowhere or that others hold.
    pub async fn free_links(
        &self,
        caller: &Caller,
        place: Place<'_>,
        rows: Vec<RowLinks>,
    ) -> Result<(), EngineError> {
        authorize::need_key(caller, WRITE_ROWS)?;
        let build = |catalogue: &Catalogue, table: &Arc<Table>| {
            let holds = holds(catalogue, table, &rows)?;
            let exclusive = holds.into_iter().filter(is_exclusive);
            Ok(exclusive.map(RelatedOp::Free).map(related).collect())
        };
        self.write_rows(caller, place, None, build).await.map(drop)
    }
}

fn related(op: RelatedOp) -> Op {
    Op::Related(Box::new(op))
}

/// Whether no two rows may hold the same link in the column.
fn is_exclusive(op: &HoldOp) -> bool {
    let relation = op.table.columns[op.column].relation();
    relation.is_some_and(|relation| relation.kind == RelationKind::OneToOne)
}

fn holds(
    catalogue: &Catalogue,
    table: &Arc<Table>,
    rows: &[RowLinks],
) -> Result<Vec<HoldOp>, EngineError> {
    let of_row = |row: &RowLinks| {
        let links = row.links.iter();
        let holds = links.map(|(column, links)| hold(catalogue, table, &row.id, (column, links)));
        holds.collect::<Vec<_>>()
    };
    rows.iter().flat_map(of_row).collect()
}

fn without_links<'r>(table: &Table, row: &'r RowInput) -> Cow<'r, RowInput> {
    if !table.has_relationships() {
        return Cow::Borrowed(row);
    }
    let is_plain = |(key, _): &(String, Json)| {
        let position = table.position(key);
        position.is_none_or(|position| table.columns[position].relation().is_none())
    };
    let mut row = row.clone();
    row.members.retain(is_plain);
    Cow::Owned(row)
}

fn hold(
    catalogue: &Catalogue,
    table: &Arc<Table>,
    id: &RowId,
    (column, links): (&LinkColumn, &[RowId]),
) -> Result<HoldOp, EngineError> {
    let (position, relation) = holder(table, column)?;
    let mut seen = HashSet::new();
    let links: Vec<RowId> = links
        .iter()
        .filter(|id| seen.insert(*id))
        .cloned()
        .collect();
    if links.len() > 1 && !relation.is_list() {
        let key = &table.columns[position].key;
        let why = format!(
            "Column `{key}`: {} links where there can be one.",
            links.len()
        );
        return Err(WriteError::Relationship(why).into());
    }
    let related = beside(catalogue, table, relation);
    Ok(HoldOp {
        table: Arc::clone(table),
        id: id.clone(),
        column: position,
        related: Arc::clone(related.expect("a relationship has two ends in one catalogue")),
        links,
    })
}

/// The column that holds the links meant.
fn holder<'t>(table: &'t Table, wanted: &LinkColumn) -> Result<(usize, &'t Relation), EngineError> {
    let is_wanted = |position: usize, relation: &Relation| match wanted {
        LinkColumn::Key(key) => {
            let column = &table.columns[position];
            !column.is_hidden() && column.key.as_str() == key
        }
        LinkColumn::Hidden { parent, key } => {
            relation.is_hidden()
                && relation.related.as_str() == parent
                && relation.partner_key.as_str() == key
        }
    };
    let mut ends = table
        .relations()
        .filter(|(_, relation)| relation.holds_links());
    ends.find(|(position, relation)| is_wanted(*position, relation))
        .ok_or_else(|| {
            let key = match wanted {
                LinkColumn::Key(key) => key.clone(),
                LinkColumn::Hidden { parent, key } => format!("{parent}/{key}"),
            };
            EngineError::Schema(SchemaError::Column(ColumnFault::NotFound(key)))
        })
}
