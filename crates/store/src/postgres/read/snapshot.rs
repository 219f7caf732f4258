//! One snapshot for several statements, and the stamp that says which one it is.

use model::{Mark, Timestamp};
use query::emit;
use tokio_postgres::{Client, Error, Row, Statement};

use super::found_row::RowShape;
use super::read_halt::Step;
use crate::StoreError;
use crate::error::corrupt;
use crate::postgres::cells;

/// Rows whose columns one statement reads.
const CONTENTS_AT_ONCE: usize = 64;

/// Mark, epoch of the catalogue, and the last instant of which the rows of now show anything.
pub(super) const STAMP: &str = "SELECT mark, catalogue_epoch, x_at FROM meta";

/// How the statements of a snapshot are planned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PlanManner {
    /// Once for any values.
    Once,
    /// For their values, each time.
    EachTime,
}

/// Which snapshot it is.
#[derive(Clone, Copy)]
pub(super) struct Stamp {
    pub(super) mark: Mark,
    pub(super) activated: Timestamp,
}

/// Begins a snapshot with its first statement, [`STAMP`]; both are sent when this is first polled.
///
/// # Errors
/// [`StoreError::CatalogueMoved`] when it was written under another catalogue than this.
pub(super) async fn begin(
    client: &Client,
    (stamp, planned): (&Statement, PlanManner),
    catalogue_epoch: u64,
) -> Step<Stamp> {
    let begin = match planned {
        PlanManner::Once => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        PlanManner::EachTime => {
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
             SET LOCAL plan_cache_mode = force_custom_plan"
        }
    };
    let stamp = client.query_one(stamp, &[]);
    let ((), stamp) = tokio::try_join!(biased; client.batch_execute(begin), stamp)?;
    let mark = mark_of(&stamp, catalogue_epoch)?;
    Ok(Stamp {
        mark,
        activated: Timestamp(stamp.try_get(2)?),
    })
}

/// Begins a snapshot whose stamp is not read.
pub(super) async fn begin_unstamped(client: &Client) -> Result<(), Error> {
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    client.batch_execute(begin).await
}

/// The mark of a row that begins with a stamp.
pub(super) fn mark_of(row: &Row, catalogue_epoch: u64) -> Step<Mark> {
    let epoch: i64 = row.try_get(1)?;
    if u64::try_from(epoch) != Ok(catalogue_epoch) {
        return Err(StoreError::CatalogueMoved.into());
    }
    Ok(Mark(row.try_get(0)?))
}

/// Ends a snapshot; sent when it is first polled.
pub(super) async fn end(client: &Client) -> Result<(), Error> {
    client.batch_execute("COMMIT").await
}

/// Reads the columns of rows of now that have no body, inside their snapshot, and encodes them.
pub(super) async fn fill(
    client: &Client,
    shape: &RowShape<'_>,
    mut rows: Vec<&mut model::Row>,
) -> Step<()> {
    rows.sort_by_key(|row| row.seq);
    for rows in rows.chunks_mut(CONTENTS_AT_ONCE) {
        let seqs: Vec<i64> = rows.iter().map(|row| row.seq).collect();
        let statement = emit::contents(shape.table, &seqs);
        let parameters: Vec<_> = statement.parameters.iter().map(cells::parameter).collect();
        let found = client
            .query(&statement.sql, &cells::borrowed(&parameters))
            .await?;
        if found.len() != rows.len() {
            return Err(corrupt("a row went away inside its snapshot").into());
        }
        for one in found {
            let seq: i64 = one.try_get(shape.table.columns.len())?;
            let place = rows.binary_search_by_key(&seq, |row| row.seq);
            let place = place.map_err(|_| corrupt("a row came that was not there before"))?;
            let id = rows[place].id.clone();
            rows[place].content = shape.body(&one, &id)?;
        }
    }
    Ok(())
}
