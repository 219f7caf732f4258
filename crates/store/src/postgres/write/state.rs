//! What a writer goes on from, as it is stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::TableNumber;
use tokio_postgres::{Client, Row};

use super::group_stamp::GroupStamp;
use super::session::{LONG_ANSWER_MAX, WriterSession};
use super::writer::DatabaseWriter;
use crate::laws::constraints::Constraints;
use crate::laws::growth::{Growth, Totals};
use crate::laws::state::State;
use crate::postgres::loading::load;
use crate::postgres::opening::DatabaseStore;
use crate::postgres::primary::Primary;
use crate::stored_constraint;
use crate::vault::StoreKeys;
use crate::{EncodeRow, Loaded, StoreError};

impl DatabaseStore {
    /// Goes on as the writer of the store, which has these keys.
    ///
    /// # Errors
    /// What the database says; [`StoreError::Corrupt`] when it holds what no store has written;
    /// [`StoreError::KeyMissing`] and [`StoreError::KeyWrong`] when it was written with another
    /// key of encrypted columns.
    pub(crate) fn into_writer(
        self,
        encode_row: EncodeRow,
        keys: StoreKeys,
    ) -> Result<DatabaseWriter, StoreError> {
        let read = async {
            let read = read(&self.owner, &keys);
            let read = tokio::time::timeout(LONG_ANSWER_MAX, read).await;
            read.map_err(|_| StoreError::Unreachable {
                detail: "it does not say what its store holds".to_owned(),
            })?
        };
        let stored = match self.runtime.block_on(read) {
            Ok(stored) => stored,
            Err(error) => {
                // Once a missing key is back, the next one finds the store free.
                self.close();
                return Err(error);
            }
        };
        let StoredState {
            state,
            totals,
            primary,
            group,
        } = stored;
        let session = WriterSession::new(self.runtime, self.owner, self.notices);
        let parts = (session, primary, group);
        let manner = (encode_row, keys);
        Ok(DatabaseWriter::new(parts, manner, state, totals))
    }
}

/// All that a writer goes on from.
struct StoredState {
    state: State,
    totals: Totals,
    primary: Primary,
    group: GroupStamp,
}

/// Reads it, and makes the session a writer's.
async fn read(client: &Client, keys: &StoreKeys) -> Result<StoredState, StoreError> {
    need_key(client, keys).await?;
    let state = state(client, load(client).await?).await?;
    let counters = counters(client).await?;
    let stored = StoredState {
        totals: Totals::new(&state.catalogue, counters.into_iter()),
        state,
        primary: Primary::of(client).await?,
        group: GroupStamp::of(client).await?,
    };
    WriterSession::prepare(client).await?;
    Ok(stored)
}

async fn need_key(client: &Client, keys: &StoreKeys) -> Result<(), StoreError> {
    let meta = client.query_one("SELECT key_id FROM meta", &[]).await?;
    keys.values.need(meta.try_get(0)?)
}

async fn state(client: &Client, loaded: Loaded) -> Result<State, StoreError> {
    let sql = "SELECT next_table, next_database, (SELECT coalesce(max(n), 0) FROM tx), \
               key_id <> '' FROM meta";
    let meta = client.query_one(sql, &[]).await?;
    let sql = "SELECT tab, kind, columns, related FROM over_time ORDER BY tab, place";
    let mut constraints = Constraints::default();
    for row in client.query(sql, &[]).await? {
        let constraint =
            stored_constraint::read(row.try_get(1)?, row.try_get(2)?, row.try_get(3)?)?;
        constraints.add(TableNumber(row.try_get(0)?), constraint);
    }
    let sql = "SELECT tab, seq FROM upkeep WHERE task = 'count'";
    let counted_to: BTreeMap<TableNumber, i64> = numbers(&client.query(sql, &[]).await?)?;
    Ok(State {
        catalogue: Arc::new(loaded.catalogue),
        mark: loaded.mark,
        horizon: loaded.horizon,
        number: meta.try_get(2)?,
        next_table: meta.try_get(0)?,
        next_database: meta.try_get(1)?,
        erased: 0,
        boundaries: loaded.boundaries,
        constraints: Arc::new(constraints),
        is_sealing: meta.try_get(3)?,
        growth: Growth::of(counted_to),
    })
}

async fn counters(client: &Client) -> Result<BTreeMap<TableNumber, i64>, StoreError> {
    let sql = "SELECT tab, bytes FROM table_bytes";
    numbers(&client.query(sql, &[]).await?)
}

fn numbers(rows: &[Row]) -> Result<BTreeMap<TableNumber, i64>, StoreError> {
    let one = |row: &Row| Ok((TableNumber(row.try_get(0)?), row.try_get(1)?));
    rows.iter().map(one).collect()
}
