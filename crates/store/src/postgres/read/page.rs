//! What the page of a list is read by, and what it becomes.

use model::{Row, Value};
use query::emit::{self, Statement};
use query::{Dialect, Frame, Query, Side};
use tokio_postgres::Client;

use super::SharedReads;
use super::found_row::{FoundRow, RowShape};
use super::kept_statements::ReadyStatement;
use super::read_halt::{ReadHalt, Step};
use super::snapshot::{self, Stamp};
use crate::list_read::{self, ListingBudget};
use crate::postgres::cells;
use crate::{Listed, Listing, StoreError};

/// The rows of a page, and, if it is wanted and the page is full, where the one read last stands.
#[derive(Default)]
pub(super) struct FoundPage {
    pub(super) rows: Vec<FoundRow>,
    pub(super) last_place: Option<Vec<Value>>,
}

/// The statement for the page's rows.
pub(super) fn rows(listing: Listing<'_>, query: &Query, cursor: Option<&[Value]>) -> Statement {
    if listing.place {
        emit::rows_in_place(query, cursor, Dialect::Postgres)
    } else {
        emit::rows(query, cursor, Dialect::Postgres)
    }
}

impl FoundPage {
    /// Reads what is lacking, inside the snapshot.
    pub(super) async fn fill(&mut self, client: &Client, shape: &RowShape<'_>) -> Step<()> {
        let lacking = self.rows.iter_mut().filter(|found| found.is_lacking);
        let lacking: Vec<&mut Row> = lacking.map(|found| &mut found.row).collect();
        snapshot::fill(client, shape, lacking).await
    }

    /// The answer, in the order asked for. What was read apart counts now.
    pub(super) fn listed(self, listing: Listing<'_>, total: u64) -> Step<Listed> {
        let mut budget = ListingBudget::of(listing);
        let rows = self.rows.into_iter().map(|found| {
            budget.take(&found.row)?;
            Ok(found.row)
        });
        let mut rows = rows.collect::<Result<Vec<Row>, StoreError>>()?;
        let place = listing.query.cursor.as_ref();
        if place.is_some_and(|place| place.side == Side::Before) {
            rows.reverse();
        }
        Ok(Listed {
            rows,
            total,
            last_place: self.last_place,
            scanned: 0,
        })
    }
}

pub(super) fn shape<'a>(
    shared: &'a SharedReads,
    listing: Listing<'_>,
    query: &'a Query,
) -> RowShape<'a> {
    RowShape {
        encode_row: shared.encode_row,
        vault: &shared.keys.values,
        table: &query.table,
        selection: &query.selection,
        is_now: query.reads_bodies(),
        shows_span: query.shows_span,
        shows_end: query.frame.shows_end(),
        shows_damaged: listing.shows_damaged,
    }
}

/// A query for what is due by an instant, if this snapshot shows what came in after that already:
/// it is then for what is due by the last of it.
pub(super) fn settled(query: &Query, stamp: Stamp) -> Option<Query> {
    let Frame::Due(now) = query.frame else {
        return None;
    };
    (stamp.activated > now).then(|| Query {
        frame: Frame::Due(stamp.activated),
        ..query.clone()
    })
}

/// Where a row of [`emit::rows_in_place`] stands.
pub(super) fn place_of(row: &tokio_postgres::Row, query: &Query) -> Step<Vec<Value>> {
    list_read::place_of(query, row.len(), |position, of| {
        Ok(cells::field_value(row, position, (&query.table, of))?)
    })
}

/// The cursor row's value of each key of the order, then its `$sequence`; `None` when the query
/// has no cursor.
///
/// # Errors
/// [`StoreError::CursorNotFound`], [`StoreError::CursorNull`], or what the database says.
pub(super) async fn cursor_values(client: &Client, query: &Query) -> Step<Option<Vec<Value>>> {
    let statement = emit::cursor_row(query, Dialect::Postgres);
    let (Some(cursor), Some(statement)) = (&query.cursor, statement) else {
        return Ok(None);
    };
    let ready = ReadyStatement::once(&statement);
    let row = ready.row(client).await?;
    let row = row.ok_or_else(|| StoreError::CursorNotFound {
        id: cursor.row.clone(),
    })?;
    let values = list_read::cursor_place(query, cursor, |position, of| match of {
        Some(of) => Ok(cells::field_value(&row, position, (&query.table, of))?),
        None => Ok::<_, ReadHalt>(Value::Int(row.try_get(position)?)),
    })?;
    Ok(Some(values))
}
