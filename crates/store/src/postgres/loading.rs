//! What a store knows when it is opened, from the tables of its schema.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Catalogue, Mark, TableNumber, Timestamp};
use query::names;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Column, Row};

use crate::error::corrupt;
use crate::stored::row::{StoredCell, StoredRow};
use crate::stored_catalogue::{CataloguePart, StoredCatalogue};
use crate::{Loaded, StoreError};

/// Tables whose next boundary one statement looks for.
const TABLES_AT_ONCE: usize = 100;

/// Reads everything on one snapshot.
pub(super) async fn load(client: &Client) -> Result<Loaded, StoreError> {
    client
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        .await?;
    let loaded = read(client).await;
    client.batch_execute("ROLLBACK").await?;
    loaded
}

async fn read(client: &Client) -> Result<Loaded, StoreError> {
    let sql = "SELECT mark, horizon, catalogue_epoch, lineage FROM meta";
    let meta = client.query_one(sql, &[]).await?;
    let mut catalogue = Catalogue::default();
    catalogue.epoch = meta.try_get::<_, i64>(2)? as u64;
    let mut stored = StoredCatalogue::default();
    for part in CataloguePart::ALL {
        for row in client
            .query(&format!("{} ORDER BY sf", part.sql()), &[])
            .await?
        {
            stored.take(part, &row)?;
        }
    }
    for change in stored.changes() {
        catalogue.apply(change);
    }
    Ok(Loaded {
        mark: Mark(meta.try_get(0)?),
        horizon: Mark(meta.try_get(1)?),
        lineage: meta.try_get(3)?,
        rest_ms: None,
        boundaries: Arc::new(boundaries(client, &catalogue).await?),
        catalogue,
    })
}

/// When each table changes next without a commit.
async fn boundaries(
    client: &Client,
    catalogue: &Catalogue,
) -> Result<BTreeMap<TableNumber, Timestamp>, StoreError> {
    let numbers: Vec<TableNumber> = catalogue.tables().map(|table| table.number).collect();
    let mut found = BTreeMap::new();
    for numbers in numbers.chunks(TABLES_AT_ONCE) {
        let one = |number: &TableNumber| {
            let schedule = names::schedule(*number);
            format!("SELECT {}::bigint, min(at) FROM {schedule}", number.0)
        };
        let all: Vec<String> = numbers.iter().map(one).collect();
        for row in client.query(&all.join(" UNION ALL "), &[]).await? {
            if let Some(at) = row.try_get(1)? {
                found.insert(TableNumber(row.try_get(0)?), Timestamp(at));
            }
        }
    }
    Ok(found)
}

impl StoredRow for Row {
    fn cell(&self, position: usize) -> Result<StoredCell<'_>, StoreError> {
        let column = self.columns().get(position);
        let kind = column.map(Column::type_);
        let cell = match kind {
            Some(&Type::INT8) => self
                .try_get::<_, Option<i64>>(position)?
                .map(StoredCell::Int),
            Some(&Type::TEXT) => self
                .try_get::<_, Option<&str>>(position)?
                .map(StoredCell::Text),
            Some(&Type::BYTEA) => self
                .try_get::<_, Option<&[u8]>>(position)?
                .map(StoredCell::Bytes),
            other => return Err(corrupt(format!("the catalogue has a column of {other:?}"))),
        };
        Ok(cell.unwrap_or(StoredCell::Null))
    }
}
