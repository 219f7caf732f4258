//! Reading records of commits: who wrote what, when, and why.

use std::collections::BTreeMap;

use model::{Mark, RowId, TableNumber};
use tokio_postgres::{IsolationLevel, Row, Transaction};

use super::lending::LentConnection;
use super::read_halt::Step;
use super::{DatabaseRead, ReadFuture, ReadPace, SharedReads};
use crate::vault::{Place, StoredText, Vault};
use crate::{Recorded, RecordsOf, SchemaAct, SchemaRecord, StoreError};

/// Rows of records in one answer, after which no further record is begun: ten of the largest
/// commits.
const ROWS_MAX: usize = 100_000;
/// Records that are fetched at once, with the rows of each.
const FETCHED_RECORDS: i32 = 16;

/// Of a database are the commits that were noted for it, those that changed it or a table of it,
/// and those that changed a row of its tables. All kinds are looked for in the order of marks, so
/// the first ones end the search.
const RECORDS: &str = r#"SELECT tt, meta, "user", erased FROM tx
 WHERE tt > $1 AND tt <= $2 AND (noted_in = $3 OR EXISTS (
   SELECT 1 FROM tx_row WHERE tx_row.tt = tx.tt AND tab = ANY ($4))
   OR EXISTS (SELECT 1 FROM tx_schema WHERE tx_schema.tt = tx.tt AND database = $3))
   AND ($5::bigint IS NULL OR EXISTS (SELECT 1 FROM tx_row
     WHERE tx_row.tt = tx.tt AND tab = $5 AND ($6::text IS NULL OR id = $6)))
 ORDER BY tt"#;
const ROWS: &str = "SELECT tt, tab, id FROM tx_row
 WHERE tt = ANY ($1) AND tab = ANY ($2) ORDER BY tt, tab, id";
const SCHEMA: &str = "SELECT tt, act, tab, key FROM tx_schema
 WHERE tt = ANY ($1) AND database = $2 ORDER BY tt, n";

impl DatabaseRead for RecordsOf {
    type Answer = Vec<Recorded>;

    /// How many records of others lie between is not known.
    fn may_be_short(&self) -> bool {
        false
    }

    fn read<'a>(
        &'a self,
        shared: &'a SharedReads,
        lent: &'a mut LentConnection,
        _: ReadPace,
    ) -> ReadFuture<'a, Vec<Recorded>> {
        Box::pin(async move {
            lent.begin();
            let transaction = lent.client().build_transaction();
            let transaction = transaction.isolation_level(IsolationLevel::RepeatableRead);
            let transaction = transaction.read_only(true).start().await?;
            let records = records(&transaction, self, &shared.keys.values).await?;
            transaction.commit().await?;
            lent.end();
            Ok(records)
        })
    }
}

async fn records(
    transaction: &Transaction<'_>,
    request: &RecordsOf,
    vault: &Vault,
) -> Step<Vec<Recorded>> {
    let tables: Vec<i64> = request.tables.iter().map(|table| table.0).collect();
    let (table, id) = match &request.changed {
        None => (None, None),
        Some((table, id)) => (Some(table.0), id.as_ref().map(RowId::as_str)),
    };
    let (after, upto) = (request.after.0, request.upto.0);
    let prepared = transaction.prepare(RECORDS).await?;
    let portal = transaction
        .bind(
            &prepared,
            &[&after, &upto, &request.database, &tables, &table, &id],
        )
        .await?;
    let (mut records, mut rows_read) = (Vec::new(), 0);
    loop {
        let found = transaction.query_portal(&portal, FETCHED_RECORDS).await?;
        let is_last = found.len() < FETCHED_RECORDS.unsigned_abs() as usize;
        let mut wanted = Vec::new();
        for row in &found {
            wanted.extend(record(row, request, vault)?);
        }
        add_changes(transaction, &mut wanted, (request.database, &tables)).await?;
        for record in wanted {
            if records.len() >= request.limit as usize || rows_read >= ROWS_MAX {
                return Ok(records);
            }
            rows_read += record.rows.len() + record.schema.len();
            records.push(record);
        }
        if is_last {
            return Ok(records);
        }
    }
}

/// A record without what it changed, if the filter wants it.
fn record(row: &Row, request: &RecordsOf, vault: &Vault) -> Step<Option<Recorded>> {
    let mark: i64 = row.try_get(0)?;
    let meta = StoredText::of(row, 1)?.map(|meta| meta.open(vault, Place::Note(mark)));
    // A page of records must not end at one of them for ever.
    let (meta, is_damaged) = match meta.transpose() {
        Err(StoreError::SealBroken { .. }) => (None, true),
        meta => (meta?, false),
    };
    let author: Option<String> = row.try_get(2)?;
    if let Some(is_wanted) = &request.filter
        && !is_wanted(author.as_deref(), meta.as_deref())
    {
        return Ok(None);
    }
    Ok(Some(Recorded {
        mark: Mark(mark),
        meta,
        is_damaged,
        author,
        erased: row.try_get::<_, Option<i64>>(3)?.map(i64::unsigned_abs),
        rows: Vec::new(),
        schema: Vec::new(),
    }))
}

async fn add_changes(
    transaction: &Transaction<'_>,
    records: &mut [Recorded],
    (database, tables): (i64, &Vec<i64>),
) -> Step<()> {
    let marks: Vec<i64> = records.iter().map(|record| record.mark.0).collect();
    let mut by_mark: BTreeMap<i64, &mut Recorded> = records
        .iter_mut()
        .map(|record| (record.mark.0, record))
        .collect();
    for row in transaction.query(ROWS, &[&marks, tables]).await? {
        if let Some(record) = by_mark.get_mut(&row.try_get(0)?) {
            let table = TableNumber(row.try_get(1)?);
            record.rows.push((table, row.try_get(2)?));
        }
    }
    for row in transaction.query(SCHEMA, &[&marks, &database]).await? {
        // Of a word that only a later version knows there is no act.
        let act = SchemaAct::named(row.try_get(1)?);
        if let (Some(record), Some(act)) = (by_mark.get_mut(&row.try_get(0)?), act) {
            let (table, key) = (row.try_get(2)?, row.try_get(3)?);
            record.schema.push(SchemaRecord { act, table, key });
        }
    }
    Ok(())
}
