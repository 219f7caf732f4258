//! One row, by its id or a unique key, on one snapshot.

use std::sync::Arc;

use model::{Coordinates, Mark, Row, RowId, Selection, Table};
use query::emit::{self, Statement};
use query::{Dialect, UniqueKey, Visibility};

use super::found_row::RowShape;
use super::lending::LentConnection;
use super::read_halt::Step;
use super::snapshot::{self, PlanManner, STAMP};
use super::{DatabaseRead, ReadFuture, ReadPace, SharedReads};
use crate::error::corrupt;
use crate::history_line;
use crate::list_read::ListingBudget;
use crate::{Listed, Listing, Point, Snapshot};

/// Columns of a stamp, before those of the row in a point read.
pub(super) const STAMP_COLUMNS: usize = 2;

/// A [`Point`] to be handed over.
pub(super) struct OwnedPoint {
    table: Arc<Table>,
    id: RowId,
    selection: Selection,
    visibility: Visibility,
    at: Option<Coordinates>,
    shows_span: bool,
    catalogue_epoch: u64,
}

impl OwnedPoint {
    pub(super) fn new(point: Point<'_>) -> OwnedPoint {
        OwnedPoint {
            table: Arc::clone(point.table),
            id: point.id.clone(),
            selection: point.selection.clone(),
            visibility: point.visibility.clone(),
            at: point.at,
            shows_span: point.shows_span,
            catalogue_epoch: point.catalogue_epoch,
        }
    }

    fn shape<'a>(&'a self, shared: &'a SharedReads) -> RowShape<'a> {
        RowShape {
            encode_row: shared.encode_row,
            vault: &shared.keys.values,
            table: &self.table,
            selection: &self.selection,
            is_now: self.at.is_none(),
            shows_span: self.at.is_some() && self.shows_span,
            shows_end: false,
            shows_damaged: false,
        }
    }
}

impl DatabaseRead for OwnedPoint {
    type Answer = Snapshot<Option<Row>>;

    fn may_be_short(&self) -> bool {
        true
    }

    fn mark_of(answer: &Snapshot<Option<Row>>) -> Option<Mark> {
        Some(answer.mark)
    }

    fn read<'a>(
        &'a self,
        shared: &'a SharedReads,
        lent: &'a mut LentConnection,
        _: ReadPace,
    ) -> ReadFuture<'a, Snapshot<Option<Row>>> {
        Box::pin(async move {
            let (table, id) = (&self.table, self.id.as_str());
            let shape = self.shape(shared);
            let Some(at) = self.at else {
                let (selection, seen) = (&self.selection, &self.visibility);
                let statement = emit::point(table, id, selection, seen, Dialect::Postgres);
                return of_now(lent, &statement, &shape, self.catalogue_epoch).await;
            };
            let shown = (&self.selection, self.shows_span);
            let seen = &self.visibility;
            let statement = emit::point_at(table, id, shown, seen, at, Dialect::Postgres);
            of_then(lent, &statement, &shape, (at, self.catalogue_epoch)).await
        })
    }
}

/// The row of a statement of [`emit::point`], which says which snapshot it is of.
async fn of_now(
    lent: &mut LentConnection,
    statement: &Statement,
    shape: &RowShape<'_>,
    catalogue_epoch: u64,
) -> Step<Snapshot<Option<Row>>> {
    let (client, kept) = lent.parts();
    let ready = kept.ready(client, statement).await?;
    lent.begin();
    let found = ready.row(lent.client()).await?;
    lent.end();
    let found = found.ok_or_else(no_stamp)?;
    let mark = snapshot::mark_of(&found, catalogue_epoch)?;
    let seq: Option<i64> = found.try_get(STAMP_COLUMNS)?;
    if seq.is_none() {
        return Ok(Snapshot { answer: None, mark });
    }
    let one = shape.read(&found, STAMP_COLUMNS)?;
    if one.is_lacking {
        return with_columns(lent, statement, shape, catalogue_epoch).await;
    }
    let answer = Some(one.row);
    Ok(Snapshot { answer, mark })
}

/// The same where the row's columns must be read on the snapshot as well.
async fn with_columns(
    lent: &mut LentConnection,
    statement: &Statement,
    shape: &RowShape<'_>,
    catalogue_epoch: u64,
) -> Step<Snapshot<Option<Row>>> {
    let (client, kept) = lent.parts();
    let stamp = kept.keep(client, STAMP).await?;
    let ready = kept.ready(client, statement).await?;
    lent.begin();
    let client = &*lent.client();
    let begin = snapshot::begin(client, (&stamp, PlanManner::Once), catalogue_epoch);
    let (stamp, found) = tokio::try_join!(biased; begin, ready.row(client))?;
    let found = found.ok_or_else(no_stamp)?;
    let mut answer = None;
    if found.try_get::<_, Option<i64>>(STAMP_COLUMNS)?.is_some() {
        let mut one = shape.read(&found, STAMP_COLUMNS)?;
        if one.is_lacking {
            snapshot::fill(client, shape, vec![&mut one.row]).await?;
        }
        answer = Some(one.row);
    }
    snapshot::end(client).await?;
    lent.end();
    let mark = stamp.mark;
    Ok(Snapshot { answer, mark })
}

async fn of_then(
    lent: &mut LentConnection,
    statement: &Statement,
    shape: &RowShape<'_>,
    (at, catalogue_epoch): (Coordinates, u64),
) -> Step<Snapshot<Option<Row>>> {
    let (client, kept) = lent.parts();
    let stamp = kept.keep(client, STAMP).await?;
    let ready = kept.ready(client, statement).await?;
    lent.begin();
    let client = &*lent.client();
    let (stamp, found, ()) = tokio::try_join!(
        biased;
        snapshot::begin(client, (&stamp, PlanManner::Once), catalogue_epoch),
        ready.row(client),
        async { Ok(snapshot::end(client).await?) },
    )?;
    lent.end();
    history_line::check(shape.table, at, stamp.mark)?;
    let found = found.map(|found| shape.read(&found, 0)).transpose()?;
    let answer = found.map(|found| found.row);
    let mark = stamp.mark;
    Ok(Snapshot { answer, mark })
}

/// A list that one key decides: a point read, whose text is the same for every key.
pub(super) async fn list_by_key(
    shared: &SharedReads,
    lent: &mut LentConnection,
    listing: Listing<'_>,
    key: &UniqueKey<'_>,
) -> Step<Snapshot<Listed>> {
    let query = listing.query;
    let shape = RowShape {
        encode_row: shared.encode_row,
        vault: &shared.keys.values,
        table: &query.table,
        selection: &query.selection,
        is_now: true,
        shows_span: false,
        shows_end: false,
        shows_damaged: false,
    };
    let (selection, seen) = (&query.selection, &query.visibility);
    let statement = emit::point_by_key(&query.table, key, selection, seen, Dialect::Postgres);
    let found = of_now(lent, &statement, &shape, listing.catalogue_epoch).await?;
    let Snapshot { answer, mark } = found;
    if let Some(row) = &answer {
        ListingBudget::of(listing).take(row)?;
    }
    let total = u64::from(answer.is_some());
    let listed = Listed {
        total: listing.total.map_or(0, |_| total),
        rows: answer.into_iter().collect(),
        ..Listed::default()
    };
    Ok(Snapshot {
        answer: listed,
        mark,
    })
}

fn no_stamp() -> crate::StoreError {
    corrupt("the table `meta` has no row")
}
