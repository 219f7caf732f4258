//! When rows change by themselves.

use std::future::ready;
use std::sync::Arc;

use model::{Coordinates, RowId, Table, Timestamp};
use query::{emit, names};
use rusqlite::{OptionalExtension, named_params};

use super::{OF_KEYS, Reader, Readers, Step, activated, read_stamp};
use crate::history_line;
use crate::sqlite::schema::tables::END;
use crate::{BoundaryOf, StoreFuture};

/// What [`BoundaryOf`] asks for, to be handed over.
struct OwnedBoundaryOf {
    table: Arc<Table>,
    id: Option<RowId>,
    at: Coordinates,
    catalogue_epoch: u64,
}

impl Readers {
    /// What [`crate::StoreReads::next_boundary`] promises. Of a whole table as it was known before
    /// now every version is looked at, which may be a long read.
    pub(in crate::sqlite) fn next_boundary<'a>(
        &self,
        request: BoundaryOf<'_>,
    ) -> StoreFuture<'a, Option<Timestamp>> {
        let request = OwnedBoundaryOf {
            table: Arc::clone(request.table),
            id: request.id.cloned(),
            at: request.at,
            catalogue_epoch: request.catalogue_epoch,
        };
        match self.shared.short(|reader| reader.next_boundary(&request)) {
            Some(answer) => Box::pin(ready(answer)),
            None => self.long(OF_KEYS, move |_, reader| reader.next_boundary(&request)),
        }
    }
}

impl Reader {
    fn next_boundary(&self, request: &OwnedBoundaryOf) -> Step<Option<Timestamp>> {
        let mut statement = self.connection.prepare_cached(emit::stamp())?;
        // Open until the answer is complete: it holds the snapshot.
        let mut stamp = statement.query(())?;
        let mark = read_stamp(&mut stamp, request.catalogue_epoch)?;
        let at = request.at;
        history_line::check(&request.table, at, mark)?;
        let is_of_now = at.system >= mark && at.valid >= activated(&self.connection)?;
        let sql = match &request.id {
            Some(_) => of_row(&request.table),
            None if is_of_now => of_schedule(&request.table),
            None => first(&format!(
                "SELECT {BOUNDARY} AS b FROM {} AS t WHERE {KNOWN}",
                names::versions(request.table.number)
            )),
        };
        let mut statement = self.connection.prepare_cached(&sql)?;
        let (id, valid, system) = (request.id.as_ref(), at.valid.0, at.system.0);
        let parameters = named_params! {
            ":id": id.map(RowId::as_str), ":valid": valid, ":system": system,
        };
        let names = parameters.iter().filter(|(name, _)| sql.contains(name));
        let names: Vec<_> = names.copied().collect();
        let found = statement.query_row(names.as_slice(), |row| row.get(0));
        let found: Option<Option<i64>> = found.optional()?;
        Ok(found.flatten().map(Timestamp))
    }
}

/// Whether a version `t` was known at the mark.
const KNOWN: &str = "t.sf <= :system AND t.st > :system";
/// Where it begins or ends next, as known then.
const BOUNDARY: &str = "CASE WHEN t.vf > :valid THEN t.vf \
     WHEN t.cut_tt <= :system THEN t.cut_vt ELSE t.vt END";

/// The first of the boundaries `b` after the instant.
fn first(boundaries: &str) -> String {
    format!("SELECT min(b) FROM ({boundaries}) WHERE b > :valid AND b < {END}")
}

/// Of one row, through the indexes of versions; a piece with a twin stands in none of them.
fn of_row(table: &Table) -> String {
    let (versions, now) = (names::versions(table.number), names::now(table.number));
    first(&format!(
        "SELECT {BOUNDARY} AS b FROM {versions} AS t WHERE t.id = :id AND t.twin = 0 AND {KNOWN} \
         UNION ALL SELECT CASE WHEN vf > :valid THEN vf ELSE vt END FROM {now} \
           WHERE id = :id AND twin = 1 AND sf <= :system"
    ))
}

/// Of all rows as they are known now, from what has been activated on: the first one that is
/// scheduled, and those that are due before, row by row.
fn of_schedule(table: &Table) -> String {
    let schedule = names::schedule(table.number);
    let versions = names::versions(table.number);
    first(&format!(
        "SELECT (SELECT min(at) FROM {schedule} WHERE at > :valid) AS b \
         UNION ALL SELECT {BOUNDARY} FROM {schedule} AS s CROSS JOIN {versions} AS t \
           ON t.id = s.id AND t.twin = 0 AND {KNOWN} WHERE s.at <= :valid"
    ))
}
