//! Clears the bytes of erased rows away: the tables that may hold them are rewritten, when the
//! operator chooses, because each is locked meanwhile.

use std::path::Path;
use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::address::DatabaseUrl;
use super::checks;
use super::connection::{connect, identifier};
use super::look;
use super::opening::{need, runtime};
use super::stored_health::erased_tables;
use crate::StoreError;

/// A table that others use is tried so often, each time for as long as a session waits for a lock.
/// In between those go on that wait behind it.
const TRIES: usize = 30;
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What has become of the tables with bytes of erased rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Those that hold none any more.
    pub rewritten: Vec<String>,
    /// Those that may hold some yet: they were used all the time, or an old snapshot may read what
    /// was erased.
    pub left: Vec<String>,
}

/// Rewrites the tables of a store that may hold bytes of erased rows. A server may run: what it
/// wants of a table waits until that is rewritten. `begins` gets each table before. Blocks.
///
/// # Errors
/// [`StoreError::DatabaseUnfit`] when it cannot be connected to, or has no store; what the database
/// says.
pub fn maintain_database(
    url: &DatabaseUrl,
    password_file: Option<&Path>,
    begins: &mut dyn FnMut(&str),
) -> Result<Maintained, StoreError> {
    runtime()?.block_on(async {
        let connection = connect(url, password_file).await;
        let refused = |fault| StoreError::DatabaseUnfit(checks::refused(url, &fault));
        let client = connection.map_err(refused)?.client;
        let seen = look::schema(&client, &url.schema).await?;
        need(checks::there(url, &seen))?;
        let tables = erased_tables(&client, &url.schema).await?;
        for table in &tables {
            begins(table);
            rewrite(&client, &url.schema, table).await?;
        }
        let held = erased_tables(&client, &url.schema).await?;
        let (left, rewritten) = tables.into_iter().partition(|table| held.contains(table));
        Ok(Maintained { rewritten, left })
    })
}

/// Rewrites a table, unless it is used all the time or gone.
async fn rewrite(client: &Client, schema: &str, table: &str) -> Result<(), StoreError> {
    let vacuum = format!("VACUUM (FULL) {}.{}", identifier(schema), identifier(table));
    for _ in 0..TRIES {
        let Err(error) = client.batch_execute(&vacuum).await else {
            return Ok(());
        };
        match error.code() {
            Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => {
                tokio::time::sleep(TRY_AGAIN_AFTER).await;
            }
            Some(code) if *code == SqlState::UNDEFINED_TABLE => return Ok(()),
            _ => return Err(error.into()),
        }
    }
    Ok(())
}
