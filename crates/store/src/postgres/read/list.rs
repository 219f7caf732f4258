//! One page, or its total, or both, on one snapshot.

use std::pin::pin;
use std::time::Instant;

use futures_util::TryStreamExt;
use model::{Mark, Value};
use query::emit::{self, Statement};
use query::index_choice::is_planned_each_time;
use query::{Dialect, Frame, Query, undecided};
use tokio_postgres::Client;

use super::found_row::RowShape;
use super::kept_statements::{KeptStatements, ReadyStatement};
use super::lending::LentConnection;
use super::page::{FoundPage, cursor_values, place_of, rows, settled, shape};
use super::read_halt::{ReadHalt, Step};
use super::snapshot::{self, PlanManner, STAMP, Stamp};
use super::{DatabaseRead, ReadFuture, ReadPace, SharedReads, point, tested};
use crate::error::corrupt;
use crate::history_line;
use crate::list_read::{self, ListingBudget, OwnedListing};
use crate::{Listed, Listing, Snapshot, StoreError, TotalCap};

/// Longest text of a statement that is planned on a connection for short reads.
const PLANNED_HERE_MAX: usize = 8 << 10;

impl DatabaseRead for OwnedListing {
    type Answer = Snapshot<Listed>;

    fn may_be_short(&self) -> bool {
        undecided(&self.listing().query.filter, Dialect::Postgres).is_none()
    }

    fn mark_of(answer: &Snapshot<Listed>) -> Option<Mark> {
        Some(answer.mark)
    }

    fn read<'a>(
        &'a self,
        shared: &'a SharedReads,
        lent: &'a mut LentConnection,
        pace: ReadPace,
    ) -> ReadFuture<'a, Snapshot<Listed>> {
        let listing = self.listing();
        Box::pin(async move {
            if let Some(key) = list_read::unique_key(&listing) {
                return point::list_by_key(shared, lent, listing, &key).await;
            }
            match undecided(&listing.query.filter, Dialect::Postgres) {
                Some(undecided) => tested::list(shared, lent, (listing, undecided), pace).await,
                None => list(shared, lent, listing, pace).await,
            }
        })
    }
}

async fn list(
    shared: &SharedReads,
    lent: &mut LentConnection,
    listing: Listing<'_>,
    pace: ReadPace,
) -> Step<Snapshot<Listed>> {
    let query = listing.query;
    let is_due = matches!(query.frame, Frame::Due(_));
    // A body that is sealed is none, so that columns are read while the snapshot is open.
    let has_sealed = query.table.columns.iter().any(|column| column.encrypt);
    let is_whole = !is_due && query.cursor.is_none() && !has_sealed;
    let pager = Pager {
        shared,
        listing,
        pace,
    };
    if is_whole && let Some(listed) = pager.in_one_burst(lent).await? {
        return Ok(listed);
    }
    pager.in_steps(lent).await
}

struct Pager<'a> {
    shared: &'a SharedReads,
    listing: Listing<'a>,
    pace: ReadPace,
}

/// What runs on a snapshot: each is wanted, or not.
struct PageStatements {
    rows: Option<Statement>,
    total: Option<Statement>,
}

impl PageStatements {
    fn new(listing: Listing<'_>, query: &Query, cursor: Option<&[Value]>) -> PageStatements {
        let cap = |cap| match cap {
            TotalCap::None => None,
            TotalCap::UpTo(cap) => Some(cap),
        };
        PageStatements {
            rows: listing.rows.then(|| rows(listing, query, cursor)),
            total: listing
                .total
                .map(|total| emit::total(query, cap(total), Dialect::Postgres)),
        }
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        let both = self.rows.iter().chain(&self.total);
        both.map(|statement| statement.sql.as_str())
    }
}

impl Pager<'_> {
    /// All statements at once, the end of the snapshot among them; `None` where a row must be read
    /// further.
    async fn in_one_burst(&self, lent: &mut LentConnection) -> Step<Option<Snapshot<Listed>>> {
        let (listing, query) = (self.listing, self.listing.query);
        let statements = PageStatements::new(listing, query, None);
        self.need_short(&statements)?;
        let began = Instant::now();
        let (client, kept) = lent.parts();
        let stamp = kept.keep(client, STAMP).await?;
        let rows = ready(client, kept, statements.rows.as_ref()).await?;
        let total = ready(client, kept, statements.total.as_ref()).await?;
        lent.begin();
        let client = &*lent.client();
        let read = async {
            tokio::try_join!(
                biased;
                snapshot::begin(client, (&stamp, planned(query)), listing.catalogue_epoch),
                judged_later(self.page(client, query, rows.as_ref())),
                count(client, total.as_ref()),
                async { Ok(snapshot::end(client).await?) },
            )
        };
        let (stamp, page, total, ()) = self.noted(&statements, read.await)?;
        lent.end();
        self.forget_short(&statements, began);
        history_line::check_query(query, stamp.mark)?;
        let page = page?;
        if page.rows.iter().any(|found| found.is_lacking) {
            return Ok(None);
        }
        self.listed(stamp, page, total).map(Some)
    }

    /// One statement after the other where one says what the next is.
    async fn in_steps(&self, lent: &mut LentConnection) -> Step<Snapshot<Listed>> {
        let (listing, query) = (self.listing, self.listing.query);
        let began = Instant::now();
        let (client, kept) = lent.parts();
        let stamp = kept.keep(client, STAMP).await?;
        lent.begin();
        let client = &*lent.client();
        let stamp =
            snapshot::begin(client, (&stamp, planned(query)), listing.catalogue_epoch).await?;
        let settled = settled(query, stamp);
        let query = settled.as_ref().unwrap_or(query);
        history_line::check_query(query, stamp.mark)?;
        let cursor = cursor_values(client, query).await?;
        let statements = PageStatements::new(listing, query, cursor.as_deref());
        self.need_short(&statements)?;
        let (client, kept) = lent.parts();
        let rows = ready(client, kept, statements.rows.as_ref()).await?;
        let total = ready(client, kept, statements.total.as_ref()).await?;
        let client = &*lent.client();
        let read = async {
            let page = self.page(client, query, rows.as_ref());
            tokio::try_join!(biased; page, count(client, total.as_ref()))
        };
        let (mut page, total) = self.noted(&statements, read.await)?;
        page.fill(client, &self.shape()).await?;
        snapshot::end(client).await?;
        lent.end();
        self.forget_short(&statements, began);
        self.listed(stamp, page, total)
    }

    fn shape(&self) -> RowShape<'_> {
        shape(self.shared, self.listing, self.listing.query)
    }

    async fn page(
        &self,
        client: &Client,
        query: &Query,
        rows: Option<&ReadyStatement<'_>>,
    ) -> Step<FoundPage> {
        let mut page = FoundPage::default();
        let Some(rows) = rows else { return Ok(page) };
        let (shape, mut budget) = (self.shape(), ListingBudget::of(self.listing));
        let mut found = pin!(rows.run(client).await?);
        while let Some(row) = found.try_next().await? {
            let one = shape.read(&row, 0)?;
            budget.take(&one.row)?;
            page.rows.push(one);
            if self.listing.place && page.rows.len() == query.limit as usize {
                page.last_place = Some(place_of(&row, query)?);
            }
        }
        Ok(page)
    }

    /// What was found, in the order asked for. Columns that were read apart count as well.
    fn listed(&self, stamp: Stamp, page: FoundPage, total: u64) -> Step<Snapshot<Listed>> {
        Ok(Snapshot {
            answer: page.listed(self.listing, total)?,
            mark: stamp.mark,
        })
    }

    /// # Errors
    /// [`ReadHalt::Long`] when such statements were long lately, or are long to plan.
    fn need_short(&self, statements: &PageStatements) -> Step<()> {
        let is_long = |sql: &str| sql.len() > PLANNED_HERE_MAX || self.shared.slow.contains(sql);
        if self.pace == ReadPace::Short && statements.texts().any(is_long) {
            return Err(ReadHalt::Long);
        }
        Ok(())
    }

    /// What came of statements; those that were too long for a short read are remembered.
    fn noted<T>(&self, statements: &PageStatements, answer: Step<T>) -> Step<T> {
        let answer = answer.inspect_err(|halt| {
            if self.pace == ReadPace::Short && halt.is_interruption() {
                statements
                    .texts()
                    .for_each(|sql| self.shared.slow.remember(sql));
            }
        });
        answer.map_err(|halt| match self.pace {
            ReadPace::Short if halt.is_interruption() => ReadHalt::Long,
            _ => halt,
        })
    }

    /// A long read that turns out short unmakes its shape: a busy machine had held it up. Half the
    /// limit, so that shapes on the border do not go to and fro.
    fn forget_short(&self, statements: &PageStatements, began: Instant) {
        if self.pace == ReadPace::Short || began.elapsed() >= self.shared.short / 2 {
            return;
        }
        statements
            .texts()
            .for_each(|sql| self.shared.slow.forget(sql));
    }
}

/// A page whose rows may arrive before it is known that the stamp is of another catalogue, which
/// its caller learns first: under that catalogue it may be no page that is refused.
async fn judged_later(
    page: impl Future<Output = Step<FoundPage>>,
) -> Step<Result<FoundPage, StoreError>> {
    match page.await {
        Err(ReadHalt::Store(error)) => Ok(Err(error)),
        page => page.map(Ok),
    }
}

fn planned(query: &Query) -> PlanManner {
    if is_planned_each_time(query) {
        PlanManner::EachTime
    } else {
        PlanManner::Once
    }
}

async fn ready<'s>(
    client: &Client,
    kept: &mut KeptStatements,
    statement: Option<&'s Statement>,
) -> Step<Option<ReadyStatement<'s>>> {
    match statement {
        Some(statement) => Ok(Some(kept.ready(client, statement).await?)),
        None => Ok(None),
    }
}

async fn count(client: &Client, total: Option<&ReadyStatement<'_>>) -> Step<u64> {
    let Some(total) = total else { return Ok(0) };
    let row = total.row(client).await?;
    let row = row.ok_or_else(|| corrupt("a count gave no row"))?;
    Ok(row.try_get::<_, i64>(0)?.unsigned_abs())
}
