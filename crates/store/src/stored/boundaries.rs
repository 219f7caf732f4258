//! When rows change by themselves: the next instant after one, as known at a mark.

use std::sync::Arc;

use model::{Coordinates, Mark, RowId, Table, Timestamp};
use query::{Dialect, names};

use super::parameter::StoredParameter;
use super::read::{StoredRead, join_of};
use super::row::maybe_int;
use crate::{BoundaryOf, StoreError, history_line};

const END: i64 = Timestamp::END.0;

/// A [`BoundaryOf`] to be handed over.
pub(crate) struct BoundaryRead {
    table: Arc<Table>,
    id: Option<RowId>,
    at: Coordinates,
    pub(crate) catalogue_epoch: u64,
}

impl BoundaryRead {
    pub(crate) fn new(request: BoundaryOf<'_>) -> BoundaryRead {
        BoundaryRead {
            table: Arc::clone(request.table),
            id: request.id.cloned(),
            at: request.at,
            catalogue_epoch: request.catalogue_epoch,
        }
    }

    /// What reads it on a snapshot with this mark, whose rows of now show what was due by
    /// `activated`: one row.
    ///
    /// # Errors
    /// [`StoreError::HistoryGone`].
    pub(crate) fn statement(
        &self,
        dialect: Dialect,
        (mark, activated): (Mark, Timestamp),
    ) -> Result<StoredRead<Option<Timestamp>>, StoreError> {
        let (table, at) = (&*self.table, self.at);
        history_line::check(table, at, mark)?;
        let is_of_now = at.system >= mark && at.valid >= activated;
        let mut parameters: Vec<StoredParameter> = vec![at.valid.0.into(), at.system.0.into()];
        let sql = if let Some(id) = &self.id {
            parameters.push(id.as_str().into());
            of_row(table)
        } else if is_of_now {
            of_schedule(table, dialect)
        } else {
            first(&format!(
                "SELECT {BOUNDARY} AS b FROM {} AS t WHERE {KNOWN}",
                names::versions(table.number)
            ))
        };
        Ok(StoredRead {
            sql,
            parameters,
            read: |row| Ok(maybe_int(row, 0)?.map(Timestamp)),
        })
    }
}

/// Whether a version `t` was known at the mark, `$2`.
const KNOWN: &str = "t.sf <= $2 AND t.st > $2";
/// Where it begins or ends next after the instant `$1`, as known then.
const BOUNDARY: &str = "CASE WHEN t.vf > $1 THEN t.vf \
     WHEN t.cut_tt <= $2 THEN t.cut_vt ELSE t.vt END";

/// The first of the boundaries `b` after the instant.
fn first(boundaries: &str) -> String {
    format!("SELECT min(b) FROM ({boundaries}) AS found WHERE b > $1 AND b < {END}")
}

/// Of the row `$3`, through the indexes of versions; a piece with a twin stands in none of them.
fn of_row(table: &Table) -> String {
    let (versions, now) = (names::versions(table.number), names::now(table.number));
    first(&format!(
        "SELECT {BOUNDARY} AS b FROM {versions} AS t WHERE t.id = $3 AND t.twin = 0 AND {KNOWN} \
         UNION ALL SELECT CASE WHEN vf > $1 THEN vf ELSE vt END FROM {now} \
           WHERE id = $3 AND twin = 1 AND sf <= $2"
    ))
}

/// Of all rows as they are known now, from what has been activated on: the first one that is
/// scheduled, and those that are due before, row by row.
fn of_schedule(table: &Table, dialect: Dialect) -> String {
    let schedule = names::schedule(table.number);
    let versions = names::versions(table.number);
    let join = join_of(dialect);
    first(&format!(
        "SELECT (SELECT min(at) FROM {schedule} WHERE at > $1) AS b \
         UNION ALL SELECT {BOUNDARY} FROM {schedule} AS s {join} {versions} AS t \
           ON t.id = s.id AND t.twin = 0 AND {KNOWN} WHERE s.at <= $1"
    ))
}
