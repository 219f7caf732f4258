//! Filling the tables of an empty store, all in one transaction: until it is committed, nothing is
//! there.

use std::collections::BTreeMap;
use std::pin::pin;

use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Transaction};

use super::connection::identifier;
use crate::StoreError;
use crate::error::corrupt;
use crate::moving::cell::{MovedCell, RowsDigest};

/// Rows that are read back at once.
const READ_BACK_ROWS: i32 = 64;

/// Columns of a table: their names and types, in the table's order.
pub(crate) type TypedColumns = Vec<(String, Type)>;

/// Within a transaction: what it commits survives a power cut, whatever the session says.
pub(super) const WAIT_FOR_DISK: &str = "SELECT set_config('synchronous_commit', 'on', true) \
     WHERE current_setting('synchronous_commit') IN ('off', 'local')";
/// Within a transaction: it takes as long as a store is large, and what is read or written
/// elsewhere meanwhile may keep it waiting. The last of these limits came with version 17.
pub(super) const PATIENT: &str = "SELECT set_config(name, '0', true) FROM pg_settings \
     WHERE name IN ('idle_in_transaction_session_timeout', 'statement_timeout', \
     'transaction_timeout')";

/// The transaction.
pub(crate) struct StoreFilling<'c>(Transaction<'c>);

impl StoreFilling<'_> {
    pub(super) async fn begin(client: &mut Client) -> Result<StoreFilling<'_>, StoreError> {
        let transaction = client.transaction().await?;
        let begin = format!("{PATIENT}; {WAIT_FOR_DISK}");
        transaction.batch_execute(&begin).await?;
        Ok(StoreFilling(transaction))
    }

    /// Runs statements without an answer.
    pub(crate) async fn run(&self, sql: &str) -> Result<(), StoreError> {
        Ok(self.0.batch_execute(sql).await?)
    }

    /// The tables of the store.
    pub(crate) async fn tables(&self) -> Result<BTreeMap<String, TypedColumns>, StoreError> {
        tables(&self.0).await
    }

    /// Writes rows, which `next` puts into the list, until it says that there is none any more.
    pub(crate) async fn fill(
        &self,
        table: &str,
        columns: &TypedColumns,
        mut next: impl FnMut(&mut Vec<MovedCell>) -> Result<bool, StoreError>,
    ) -> Result<RowsDigest, StoreError> {
        let sql = format!(
            "COPY {} ({}) FROM STDIN BINARY",
            identifier(table),
            names_of(columns)
        );
        let types: Vec<Type> = columns.iter().map(|(_, kind)| kind.clone()).collect();
        let sink = self.0.copy_in(&sql).await?;
        let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
        let (mut digest, mut cells) = (RowsDigest::default(), Vec::new());
        while next(&mut cells)? {
            digest.take(&cells);
            let values: Vec<&(dyn ToSql + Sync)> = cells.iter().map(MovedCell::as_sql).collect();
            writer.as_mut().write(&values).await?;
        }
        writer.finish().await?;
        Ok(digest)
    }

    /// What stands in a table. `arrived` is called for each row.
    pub(crate) async fn digest(
        &self,
        (table, columns): (&str, &TypedColumns),
        mut arrived: impl FnMut(),
    ) -> Result<RowsDigest, StoreError> {
        let mut digest = RowsDigest::default();
        let take = |cells: &[MovedCell]| {
            digest.take(cells);
            arrived();
            Ok(())
        };
        each_row(&self.0, (table, columns, ""), take).await?;
        Ok(digest)
    }

    /// Lets what a table counts by itself go on above what stands there, and above `given`.
    pub(crate) async fn go_on_above(
        &self,
        table: &str,
        column: &str,
        given: i64,
    ) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT setval(pg_get_serial_sequence($1, $2), greatest(max({0}), $3, 1), \
             greatest(max({0}), $3) IS NOT NULL AND greatest(max({0}), $3) > 0) FROM {1}",
            identifier(column),
            identifier(table)
        );
        self.0
            .query(&sql, &[&identifier(table), &column, &given])
            .await?;
        Ok(())
    }

    /// Writes the row of `meta`: mark, the last instant that the rows of now show, horizon, epoch
    /// of the catalogue, next table and next database; the lineage; and the name of the key.
    pub(crate) async fn set_meta(
        &self,
        numbers: &[i64],
        lineage: &str,
        key: &str,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE meta SET mark = $1[1], x_at = $1[2], horizon = $1[3], \
                   catalogue_epoch = $1[4], next_table = $1[5], next_database = $1[6], \
                   lineage = $2, key_id = $3";
        let sql = sql.replace("$1", "($1::bigint[])");
        self.0.execute(&sql, &[&numbers, &lineage, &key]).await?;
        Ok(())
    }

    pub(super) async fn commit(self) -> Result<(), StoreError> {
        Ok(self.0.commit().await?)
    }
}

/// The tables of the schema.
pub(super) async fn tables(
    transaction: &Transaction<'_>,
) -> Result<BTreeMap<String, TypedColumns>, StoreError> {
    let sql = "SELECT c.relname::text, a.attname::text, a.atttypid FROM pg_class c \
               JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
               WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' \
               ORDER BY c.relname, a.attnum";
    let mut tables: BTreeMap<String, TypedColumns> = BTreeMap::new();
    for row in transaction.query(sql, &[]).await? {
        let kind = Type::from_oid(row.try_get(2)?);
        let kind = kind.ok_or_else(|| corrupt("a table has a column of another's type"))?;
        let columns = tables.entry(row.try_get(0)?).or_default();
        columns.push((row.try_get(1)?, kind));
    }
    Ok(tables)
}

/// Hands each row of a table to `take`, a few at a time.
pub(super) async fn each_row(
    transaction: &Transaction<'_>,
    (table, columns, which): (&str, &TypedColumns, &str),
    mut take: impl FnMut(&[MovedCell]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT {} FROM {}{which}",
        names_of(columns),
        identifier(table)
    );
    let statement = transaction.prepare(&sql).await?;
    let portal = transaction.bind(&statement, &[]).await?;
    loop {
        let rows = transaction.query_portal(&portal, READ_BACK_ROWS).await?;
        if rows.is_empty() {
            return Ok(());
        }
        for row in rows {
            let kinds = columns.iter().enumerate();
            let cell =
                |(nth, (_, kind)): (usize, &(_, Type))| MovedCell::of_postgres(kind, &row, nth);
            take(&kinds.map(cell).collect::<Result<Vec<_>, _>>()?)?;
        }
    }
}

fn names_of(columns: &TypedColumns) -> String {
    let names: Vec<String> = columns.iter().map(|(name, _)| identifier(name)).collect();
    names.join(", ")
}
