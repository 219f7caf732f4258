//! When rows change by themselves.

use std::sync::Arc;

use model::{Coordinates, RowId, Table, Timestamp};
use query::names;
use tokio_postgres::types::{ToSql, Type};

use super::lending::LentConnection;
use super::snapshot::{self, PlanManner, STAMP};
use super::{DatabaseRead, ReadFuture, ReadPace, SharedReads};
use crate::{BoundaryOf, history_line};

const END: i64 = Timestamp::END.0;

/// What [`BoundaryOf`] asks for, to be handed over.
pub(super) struct BoundaryRead {
    table: Arc<Table>,
    id: Option<RowId>,
    at: Coordinates,
    catalogue_epoch: u64,
}

impl BoundaryRead {
    pub(super) fn new(request: BoundaryOf<'_>) -> BoundaryRead {
        BoundaryRead {
            table: Arc::clone(request.table),
            id: request.id.cloned(),
            at: request.at,
            catalogue_epoch: request.catalogue_epoch,
        }
    }
}

impl DatabaseRead for BoundaryRead {
    type Answer = Option<Timestamp>;

    /// Of a whole table as it was known before now every version is looked at: then it is given
    /// up, and begun again.
    fn may_be_short(&self) -> bool {
        true
    }

    fn read<'a>(
        &'a self,
        _: &'a SharedReads,
        lent: &'a mut LentConnection,
        _: ReadPace,
    ) -> ReadFuture<'a, Option<Timestamp>> {
        Box::pin(async move {
            let (client, kept) = lent.parts();
            let stamp = kept.keep(client, STAMP).await?;
            lent.begin();
            let client = &*lent.client();
            let planned = (&stamp, PlanManner::EachTime);
            let stamp = snapshot::begin(client, planned, self.catalogue_epoch).await?;
            history_line::check(&self.table, self.at, stamp.mark)?;
            let is_of_now = self.at.system >= stamp.mark && self.at.valid >= stamp.activated;
            let sql = match &self.id {
                Some(_) => of_row(&self.table),
                None if is_of_now => of_schedule(&self.table),
                None => first(&format!(
                    "SELECT {BOUNDARY} AS b FROM {} AS t WHERE {KNOWN}",
                    names::versions(self.table.number)
                )),
            };
            let (valid, system) = (self.at.valid.0, self.at.system.0);
            let id = self.id.as_ref().map(RowId::as_str);
            let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> =
                vec![(&valid, Type::INT8), (&system, Type::INT8)];
            parameters.extend(id.iter().map(|id| (id as _, Type::TEXT)));
            let found = client.query_typed_one(&sql, &parameters).await?;
            snapshot::end(client).await?;
            lent.end();
            Ok(found.try_get::<_, Option<i64>>(0)?.map(Timestamp))
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
fn of_schedule(table: &Table) -> String {
    let schedule = names::schedule(table.number);
    let versions = names::versions(table.number);
    first(&format!(
        "SELECT (SELECT min(at) FROM {schedule} WHERE at > $1) AS b \
         UNION ALL SELECT {BOUNDARY} FROM {schedule} AS s JOIN {versions} AS t \
           ON t.id = s.id AND t.twin = 0 AND {KNOWN} WHERE s.at <= $1"
    ))
}
