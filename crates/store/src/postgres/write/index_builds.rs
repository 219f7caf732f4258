//! Indexes that are built while others write: outside of any transaction, on a connection of their
//! own. A try that ends half-way leaves an index that no read uses and each write pays for: the
//! next one begins by removing it.

use std::path::Path;

use model::{Index, Table};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use crate::postgres::address::DatabaseUrl;
use crate::postgres::checks;
use crate::postgres::connection::{connect, literal, row};
use crate::postgres::row_tables::{UserIndex, user_indexes};
use crate::{IndexBuildEnd, StoreError};

/// It waits for each session that has an older snapshot, however long that takes.
const PATIENT: &str = "SET lock_timeout = 0";

/// Builds an index that a user has made and that waits for it. Where it is to be unique and is not,
/// nothing is built. Dropped, it is called off, which the server notices by the end of the
/// connection.
///
/// # Errors
/// What the database says. It may be tried again.
pub(crate) async fn build_index(
    url: &DatabaseUrl,
    password_file: Option<&Path>,
    (table, index): (&Table, &Index),
) -> Result<IndexBuildEnd, StoreError> {
    let connection = connect(url, password_file).await;
    let connection = connection.map_err(|fault| checks::not_connected(url, &fault))?;
    let client = &connection.client;
    client.batch_execute(PATIENT).await?;
    for one in user_indexes(table, index) {
        if !build(client, &one).await? {
            return Ok(IndexBuildEnd::NotUnique);
        }
    }
    Ok(IndexBuildEnd::Ready)
}

/// Whether it is there then.
async fn build(client: &Client, index: &UserIndex) -> Result<bool, StoreError> {
    match is_valid(client, &index.name).await? {
        Some(true) => return Ok(true),
        Some(false) => remove(client, &index.name).await?,
        None => {}
    }
    match client.batch_execute(&index.create("CONCURRENTLY ")).await {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
            remove(client, &index.name).await?;
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether the index can be used; `None` where it is not there.
async fn is_valid(client: &Client, name: &str) -> Result<Option<bool>, Error> {
    let look = format!(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass({})",
        literal(name)
    );
    let found = row(client, &look).await?;
    Ok(found.map(|found| found.get(0) == Some("t")))
}

async fn remove(client: &Client, name: &str) -> Result<(), Error> {
    let remove = format!("DROP INDEX CONCURRENTLY IF EXISTS {name}");
    client.batch_execute(&remove).await
}
