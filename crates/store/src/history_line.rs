//! How far back a table can be read, and by which names.

use std::sync::Arc;

use model::{ColumnKind, Coordinates, Field, HistoryGone, Index, Mark, Table, Timestamp};
use query::{Frame, Query};

use crate::StoreError;

/// # Errors
/// [`StoreError::HistoryGone`] when the query looks below the line of its table, on either axis, on
/// a snapshot whose last commit has this mark.
pub(crate) fn check_query(query: &Query, snapshot: Mark) -> Result<(), StoreError> {
    let Some(at) = query.at else { return Ok(()) };
    let lowest = match query.frame {
        Frame::One | Frame::Due(_) => at.valid,
        Frame::Pieces(period) | Frame::Versions(period) => period.from(),
        // What had ceased to be known before the line is gone.
        Frame::Changes(valid, system) => valid.from().min(system.from()),
    };
    check_lowest(&query.table, (at.system, lowest), snapshot)
}

/// The same of a table at these coordinates.
pub(crate) fn check(table: &Table, at: Coordinates, snapshot: Mark) -> Result<(), StoreError> {
    check_lowest(table, (at.system, at.valid), snapshot)
}

fn check_lowest(
    table: &Table,
    (system, valid): (Mark, Timestamp),
    snapshot: Mark,
) -> Result<(), StoreError> {
    let kept_from = table.options.line(snapshot.timestamp());
    if system.timestamp() < kept_from || valid < kept_from {
        return Err(StoreError::HistoryGone(HistoryGone { kept_from }));
    }
    Ok(())
}

/// A table with the columns of then, and of today's indexes those whose columns were there; what
/// else is said of it is said today.
pub(crate) fn table_then(today: &Table, mut then: Table) -> Arc<Table> {
    for column in &mut then.columns {
        let is_gone = today.numbered(column.number).is_none();
        if let ColumnKind::Relationship(relation) = &mut column.kind {
            relation.has_ended = is_gone;
        }
    }
    let kept = |index: &Index| {
        let mut index = index.clone();
        for part in &mut index.columns {
            if let Field::Column(position) = part.field {
                part.field = Field::Column(then.numbered(today.columns[position].number)?);
            }
        }
        Some(index)
    };
    Arc::new(Table {
        indexes: today.indexes.iter().filter_map(kept).collect(),
        schema_epoch: today.schema_epoch,
        permission_epoch: today.permission_epoch,
        options: today.options,
        ..then
    })
}
