//! Reading records of commits: who wrote what, when, and why.

use model::{Mark, RowId, TableNumber};
use rusqlite::params;

use super::{OF_KEYS, Readers, Step};
use crate::sqlite::disk::keys;
use crate::vault::{Place, Vault};
use crate::{Recorded, RecordsOf, SchemaAct, SchemaRecord, StoreError, StoreFuture};

/// Rows of records in one answer, after which no further record is begun: ten of the largest
/// commits.
const ROWS_MAX: usize = 100_000;

/// Of a database are the commits that were noted for it, those that changed it or a table of it,
/// and those that changed a row of its tables. All kinds are looked for in the order of marks, so
/// the first ones end the search.
const RECORDS: &str = "SELECT tt, meta, user, erased FROM tx
 WHERE tt > ?1 AND tt <= ?2 AND (noted_in = ?3 OR EXISTS (
   SELECT 1 FROM tx_row WHERE tx_row.tt = tx.tt
     AND tab IN (SELECT value FROM json_each(?4)))
   OR EXISTS (SELECT 1 FROM tx_schema WHERE tx_schema.tt = tx.tt AND database = ?3))
   AND (?6 IS NULL OR EXISTS (SELECT 1 FROM tx_row
     WHERE tx_row.tt = tx.tt AND tab = ?6 AND (?7 IS NULL OR id = ?7)))
 ORDER BY tt LIMIT ?5";
const ROWS: &str = "SELECT tab, id FROM tx_row
 WHERE tt = ?1 AND tab IN (SELECT value FROM json_each(?2))";

const SCHEMA: &str = "SELECT act, tab, key FROM tx_schema
 WHERE tt = ?1 AND database = ?2 ORDER BY n";

impl Readers {
    /// What [`crate::StoreReads::recorded`] promises. How many records of others lie between is not
    /// known, so it is a long read.
    pub(in crate::sqlite) fn recorded<'a>(
        &self,
        request: RecordsOf,
    ) -> StoreFuture<'a, Vec<Recorded>> {
        self.long(OF_KEYS, move |shared, reader| {
            read(&reader.connection, &shared.coding.vault, &request)
        })
    }
}

fn read(
    connection: &rusqlite::Connection,
    vault: &Vault,
    request: &RecordsOf,
) -> Step<Vec<Recorded>> {
    let snapshot = connection.unchecked_transaction()?;
    let numbers: Vec<String> = request
        .tables
        .iter()
        .map(|table| table.0.to_string())
        .collect();
    let tables = format!("[{}]", numbers.join(","));
    let mut commits = snapshot.prepare_cached(RECORDS)?;
    let mut touched = snapshot.prepare_cached(ROWS)?;
    let mut changed = snapshot.prepare_cached(SCHEMA)?;
    let (after, upto) = (request.after.0, request.upto.0);
    let at_most = match request.filter {
        None => i64::from(request.limit),
        // The filter decides below which of them count.
        Some(_) => i64::MAX,
    };
    let (table, id) = match &request.changed {
        None => (None, None),
        Some((table, id)) => (Some(table.0), id.as_ref().map(RowId::as_str)),
    };
    let database = request.database;
    let mut rows = commits.query(params![after, upto, database, tables, at_most, table, id])?;
    let (mut records, mut rows_read) = (Vec::new(), 0);
    while records.len() < request.limit as usize
        && let Some(row) = rows.next()?
    {
        let mark: i64 = row.get(0)?;
        // A page of records must not end at one of them for ever.
        let (meta, is_damaged) = match keys::open_text(vault, row.get_ref(1)?, Place::Note(mark)) {
            Err(StoreError::SealBroken { .. }) => (None, true),
            meta => (meta?, false),
        };
        let author: Option<String> = row.get(2)?;
        if let Some(is_wanted) = &request.filter
            && !is_wanted(author.as_deref(), meta.as_deref())
        {
            continue;
        }
        let of_commit = touched.query_map(params![mark, tables], |row| {
            Ok((TableNumber(row.get(0)?), row.get::<_, String>(1)?))
        })?;
        let erased: Option<i64> = row.get(3)?;
        let of_commit: Vec<_> = of_commit.collect::<Result<_, _>>()?;
        let schema = changed.query_map(params![mark, request.database], schema_record)?;
        let schema: Vec<_> = schema.collect::<Result<_, _>>()?;
        rows_read += of_commit.len() + schema.len();
        records.push(Recorded {
            mark: Mark(mark),
            meta,
            is_damaged,
            author,
            erased: erased.map(i64::unsigned_abs),
            rows: of_commit,
            schema: schema.into_iter().flatten().collect(),
        });
        if rows_read >= ROWS_MAX {
            break;
        }
    }
    Ok(records)
}

/// A change of the schema; of a word that only a later version knows there is none.
fn schema_record(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<SchemaRecord>> {
    let act: String = row.get(0)?;
    let Some(act) = SchemaAct::named(&act) else {
        return Ok(None);
    };
    Ok(Some(SchemaRecord {
        act,
        table: row.get(1)?,
        key: row.get(2)?,
    }))
}
