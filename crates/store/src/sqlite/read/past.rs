//! How far back a table can be read, and by which names.

use std::sync::Arc;

use model::{ColumnKind, Coordinates, Field, HistoryGone, Index, Mark, Table, Timestamp};
use query::{Frame, Query};
use rusqlite::params;

use super::{Limit, Reader, Readers, Step};
use crate::StoreError;
use crate::sqlite::schema::catalogue_read;

/// # Errors
/// [`StoreError::HistoryGone`] when the query looks below the line of its table, on either axis, on
/// a snapshot whose last commit has this mark.
pub(super) fn check_line(query: &Query, snapshot: Mark) -> Step<()> {
    let Some(at) = query.at else { return Ok(()) };
    let lowest = match query.frame {
        Frame::One | Frame::Due(_) => at.valid,
        Frame::Pieces(period) | Frame::Versions(period) => period.from(),
        // What had ceased to be known before the line is gone.
        Frame::Changes(valid, system) => valid.from().min(system.from()),
    };
    check_table(&query.table, at.system, lowest, snapshot)
}

/// The same of a row at these coordinates.
pub(super) fn check_point(table: &Table, at: Coordinates, snapshot: Mark) -> Step<()> {
    check_table(table, at.system, at.valid, snapshot)
}

pub(super) fn check_table(
    table: &Table,
    system: Mark,
    valid: Timestamp,
    snapshot: Mark,
) -> Step<()> {
    let kept_from = table.options.line(snapshot.timestamp());
    if system.timestamp() < kept_from || valid < kept_from {
        return Err(StoreError::HistoryGone(HistoryGone { kept_from }).into());
    }
    Ok(())
}

impl Readers {
    /// What [`crate::StoreReads::table_as_of`] promises.
    pub(in crate::sqlite) fn table_as_of(
        &self,
        today: &Arc<Table>,
        mark: Mark,
    ) -> Result<Arc<Table>, StoreError> {
        let shared = &self.shared;
        let limit = Limit::Short(std::time::Duration::MAX, shared.stop_after());
        let read = shared.with_reader(limit, |reader| reader.table_as_of(today, mark));
        read.map_err(|halt| shared.explain(halt))
    }
}

impl Reader {
    /// No transaction is needed: what was so at a settled mark no commit changes.
    fn table_as_of(&self, today: &Arc<Table>, mark: Mark) -> Step<Arc<Table>> {
        let number = today.number.0;
        let sql = "SELECT min(sf) FROM table_ WHERE number = ?1";
        let mut first = self.connection.prepare_cached(sql)?;
        let first: Option<i64> = first.query_row(params![number], |row| row.get(0))?;
        let at = mark.0.max(first.unwrap_or(mark.0));
        let then = catalogue_read::table_at(&self.connection, today.number, at)?;
        let Some(mut then) = then else {
            return Ok(Arc::clone(today));
        };
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
        Ok(Arc::new(Table {
            indexes: today.indexes.iter().filter_map(kept).collect(),
            schema_epoch: today.schema_epoch,
            permission_epoch: today.permission_epoch,
            options: today.options,
            ..then
        }))
    }
}
