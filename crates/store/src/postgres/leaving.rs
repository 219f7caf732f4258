//! Reading a whole store in one snapshot, table by table, so that it can be copied elsewhere.

use std::collections::BTreeMap;

use tokio_postgres::{Client, Transaction};

use super::connection::identifier;
use super::filling::{PATIENT, TypedColumns, each_row, tables};
use crate::StoreError;
use crate::moving::cell::MovedCell;

/// The transaction, which changes nothing.
pub(crate) struct StoreLeaving<'c>(Transaction<'c>);

/// What the row of `meta` says.
pub(crate) struct LeavingMeta {
    /// Mark, the last instant that the rows of now show, horizon, epoch of the catalogue, next
    /// table and next database.
    pub(crate) numbers: Vec<i64>,
    pub(crate) lineage: String,
    pub(crate) key: String,
}

impl StoreLeaving<'_> {
    pub(super) async fn begin(client: &mut Client) -> Result<StoreLeaving<'_>, StoreError> {
        let transaction = client.transaction().await?;
        let begin =
            format!("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; {PATIENT}");
        transaction.batch_execute(&begin).await?;
        Ok(StoreLeaving(transaction))
    }

    /// The tables of the store.
    pub(crate) async fn tables(&self) -> Result<BTreeMap<String, TypedColumns>, StoreError> {
        tables(&self.0).await
    }

    /// How many rows a table has; `which` is a condition, or nothing.
    pub(crate) async fn count(&self, (table, which): (&str, &str)) -> Result<u64, StoreError> {
        let sql = format!("SELECT count(*) FROM {}{which}", identifier(table));
        let count: i64 = self.0.query_one(&sql, &[]).await?.try_get(0)?;
        Ok(count.unsigned_abs())
    }

    /// Hands each row of a table to `take`; `which` is a condition, or nothing.
    pub(crate) async fn each_row(
        &self,
        (table, columns, which): (&str, &TypedColumns, &str),
        take: impl FnMut(&[MovedCell]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        each_row(&self.0, (table, columns, which), take).await
    }

    /// The last number that a table has given by itself.
    pub(crate) async fn given(&self, table: &str, column: &str) -> Result<i64, StoreError> {
        let sql = "SELECT coalesce(pg_sequence_last_value(\
                   pg_get_serial_sequence($1, $2)::regclass), 0)";
        let table = identifier(table);
        let found = self.0.query_one(sql, &[&table, &column]).await?;
        Ok(found.try_get(0)?)
    }

    pub(crate) async fn meta(&self) -> Result<LeavingMeta, StoreError> {
        let sql = "SELECT ARRAY[mark, x_at, horizon, catalogue_epoch, next_table, next_database], \
                   lineage, key_id FROM meta";
        let row = self.0.query_one(sql, &[]).await?;
        Ok(LeavingMeta {
            numbers: row.try_get(0)?,
            lineage: row.try_get(1)?,
            key: row.try_get(2)?,
        })
    }
}
